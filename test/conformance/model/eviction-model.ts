/**
 * A second reading of the eviction rules, written from the texts alone (kubelet-eviction.md, scenarios.md 2 to 4,
 * product.md section 6) and sharing nothing with the program. Slow and plain on purpose.
 */
import {
  amountOf,
  type Config,
  isHard,
  type Layout,
  nanoseconds,
  readConfig,
  type Threshold,
} from './eviction-config.ts';
import { resourceOf, type Said, sayPressure } from './eviction-message.ts';
import { kindOf, rank, type Stats, victimOf } from './eviction-rank.ts';
import { instant, type Observation, observationsOf, podStatsOf } from './eviction-stats.ts';
import { at, type Json, listOf, mergePatch } from './json.ts';
import { ephemeralLimitOf, limitedEmptyDirs, type Pod, podsOf } from './pods.ts';
import { type Amount, bytes, count, print } from './quantities.ts';

export type Evicted = {
  readonly pod: string;
  readonly signal: string;
  readonly gracePeriodSeconds: number;
  readonly reason: 'Evicted';
  readonly disruptionTarget: boolean;
  readonly killFailed: boolean;
  readonly message: string;
  readonly annotations: { readonly [key: string]: string };
};

/** scenarios.md 6.3. */
export type Result = {
  readonly thresholdsObserved: readonly string[];
  readonly thresholdsMet: readonly string[];
  readonly conditions: readonly string[];
  readonly reclaiming: { readonly signal: string; readonly soft: boolean; readonly resource: string } | null;
  readonly nodeReclaim: readonly string[];
  readonly ranking: readonly string[];
  readonly evicted: readonly Evicted[];
};

type Observations = ReadonlyMap<string, Observation>;
type Victim = Omit<Evicted, 'pod' | 'reason' | 'killFailed'> & { readonly pod: Pod };

/** What one look is given. */
type Look = {
  readonly nowNs: bigint;
  readonly thresholds: readonly Threshold[];
  readonly observed: Observations;
  /** After a node-level reclaim; null = it cannot be read. */
  readonly again: Observations | null;
  readonly pods: readonly Pod[];
  readonly stats: Stats;
};

type Outcome = Pick<Result, 'reclaiming' | 'nodeReclaim' | 'ranking'> & { readonly victims: readonly Victim[] };

/** What outlives a look (kubelet-eviction.md 4, "State kept between passes"). */
type Memory = {
  firstObserved: Map<Threshold, bigint>;
  metBefore: readonly Threshold[];
  lastSeen: Map<string, bigint>;
  conditions: readonly string[];
  lastObserved: Observations;
  unmetSince: Map<Threshold, bigint>;
  lookedAt: bigint | null;
  kills: { owner: string; atNs: bigint }[];
};

const NOTHING: Outcome = { reclaiming: null, nodeReclaim: [], ranking: [], victims: [] };

const nameOf = (threshold: Threshold) => `${threshold.signal}/${isHard(threshold) ? 'hard' : 'soft'}`;
const sorted = (names: Iterable<string>) => [...new Set(names)].sort();

function conditionOf(signal: string): string {
  const kind = kindOf(signal);
  return kind === 'memory' ? 'MemoryPressure' : kind === 'pids' ? 'PIDPressure' : 'DiskPressure';
}

/** Short of the threshold, or of the threshold and its minimum reclaim. Unknown is neither. */
function isShort(threshold: Threshold, observed: Observations, reclaim: 'without' | 'with reclaim'): boolean {
  const seen = observed.get(threshold.signal);
  if (seen === undefined) return false;
  let wanted = amountOf(threshold.value, seen.capacity).nano;
  if (reclaim === 'with reclaim' && threshold.minReclaim !== null) {
    wanted += amountOf(threshold.minReclaim, seen.capacity).nano;
  }
  return wanted > seen.available * 1_000_000_000n;
}

/** D2: a soft threshold has recovered when it was unmet at every look for 1 s, or at one look 1 s after the previous. */
function isRecovered(memory: Memory, threshold: Threshold, nowNs: bigint): boolean {
  const since = memory.unmetSince.get(threshold);
  if (since === undefined) return false;
  if (isHard(threshold) || memory.lookedAt === null) return true;
  return nowNs - memory.lookedAt >= 1_000_000_000n || nowNs - since >= 1_000_000_000n;
}

/**
 * 4.4 and 4.5, with D2 and D5: not yet recovered, or unknown, is not met but keeps its timer and its latch. A soft grace
 * period stands still while it is unknown, and its condition does not end.
 */
function updateState(memory: Memory, config: Config, look: Look) {
  const held = (one: Threshold) => memory.metBefore.includes(one) && isShort(one, look.observed, 'with reclaim');
  const met = look.thresholds.filter((one) => isShort(one, look.observed, 'without') || held(one));
  const unmet = look.thresholds.filter((one) => look.observed.has(one.signal) && !met.includes(one));
  for (const one of met) memory.unmetSince.delete(one);
  for (const one of unmet) if (!memory.unmetSince.has(one)) memory.unmetSince.set(one, look.nowNs);
  const waiting = look.thresholds.filter(
    (one) => !look.observed.has(one.signal) || (unmet.includes(one) && !isRecovered(memory, one, look.nowNs)),
  );
  const unreadNs = look.nowNs - (memory.lookedAt ?? look.nowNs);
  const isPaused = (one: Threshold) => !isHard(one) && !look.observed.has(one.signal);
  const kept = [...memory.firstObserved].filter(([one]) => met.includes(one) || waiting.includes(one));
  memory.firstObserved = new Map(kept.map(([one, at]) => [one, isPaused(one) ? at + unreadNs : at]));
  memory.lookedAt = look.nowNs;
  for (const one of met) if (!memory.firstObserved.has(one)) memory.firstObserved.set(one, look.nowNs);
  for (const one of met) memory.lastSeen.set(conditionOf(one.signal), look.nowNs);
  const ripe = met.filter((one) => look.nowNs - (memory.firstObserved.get(one) ?? look.nowNs) >= one.graceNs);
  memory.metBefore = [...ripe, ...memory.metBefore.filter((one) => waiting.includes(one))];
  const drivers = ripe.filter((one) => isNew(look.observed.get(one.signal), memory.lastObserved.get(one.signal)));
  memory.lastObserved = look.observed;
  const unread = [...memory.firstObserved.keys()].filter((one) => !look.observed.has(one.signal));
  const isKept = (name: string) =>
    memory.conditions.includes(name) && unread.some((one) => conditionOf(one.signal) === name);
  const current = [...memory.lastSeen].filter(
    ([name, seen]) => isKept(name) || look.nowNs - seen < config.transitionNs,
  );
  memory.conditions = sorted(current.map(([name]) => name));
  return { met, drivers, ripe, conditions: memory.conditions };
}

/** 1.4.4. */
function isNew(now: Observation | undefined, before: Observation | undefined): boolean {
  if (now === undefined) return false;
  if (before === undefined || now.timeNs === null || before.timeNs === null) return true;
  return now.timeNs > before.timeNs;
}

/** D1 among thresholds: memory, hard, node before allocatable, then pid, nodefs, imagefs, containerfs, bytes. */
function order(one: Threshold): readonly number[] {
  const [source = '', what] = one.signal.split('.');
  return [
    kindOf(one.signal) === 'memory' ? 0 : 1,
    isHard(one) ? 0 : 1,
    ['memory', 'allocatableMemory', 'pid', 'nodefs', 'imagefs', 'containerfs'].indexOf(source),
    what === 'inodesFree' ? 1 : 0,
    // D1 is silent about two hard ones of one signal (a soft one without grace is hard): the map it stands in decides.
    one.map === 'evictionHard' ? 0 : 1,
    one.twin ? 1 : 0,
  ];
}

function firstOf(thresholds: readonly Threshold[]): Threshold | undefined {
  const compare = (a: readonly number[], b: readonly number[]) =>
    a.reduce((found, part, i) => found || part - (b[i] ?? 0), 0);
  return thresholds.toSorted((a, b) => compare(order(a), order(b)))[0];
}

/** 4.6: all violators, in the order of the pods. */
function localVictims(look: Look, layout: Layout): readonly Victim[] {
  const rules = { gracePeriodSeconds: 1, disruptionTarget: false, annotations: {} };
  return look.pods.flatMap((pod): readonly Victim[] => {
    const why = pod.never ? null : violation(pod, look.stats, layout);
    return why === null ? [] : [{ pod, ...why, ...rules }];
  });
}

function violation(pod: Pod, all: Stats, layout: Layout): { signal: string; message: string } | null {
  const stats = all.get(pod);
  if (stats === undefined) return null;
  const over = (used: bigint, limit: Amount) => used * 1_000_000_000n > limit.nano;
  for (const { name, limit } of limitedEmptyDirs(pod)) {
    if (!over(stats.volumes.get(name)?.bytes ?? 0n, limit)) continue;
    const message = `Usage of EmptyDir volume "${name}" exceeds the limit "${print(limit)}". `;
    return { signal: 'emptydirfs.limit', message };
  }
  const total = ephemeralLimitOf(pod);
  if (total !== null && over(stats.ephemeral, total)) {
    const message = `Pod ephemeral local storage usage exceeds the total limit of containers ${print(total)}. `;
    return { signal: 'ephemeralpodfs.limit', message };
  }
  for (const { name, rootfs, logs } of stats.containers) {
    const own = pod.containers.find((one) => one.name === name && one.kind === 'app');
    const limit = own?.limits['ephemeral-storage'];
    if (limit === undefined || limit.nano === 0n) continue;
    if (!over((logs.bytes ?? 0n) + (layout === 'one' ? (rootfs.bytes ?? 0n) : 0n), limit)) continue;
    const message = `Container ${name} exceeded its local ephemeral storage limit "${print(limit)}". `;
    return { signal: 'ephemeralcontainerfs.limit', message };
  }
  return null;
}

/** 6.1. */
function reclaims(signal: string, layout: Layout): readonly string[] {
  const kind = kindOf(signal);
  if (kind === 'memory' || kind === 'pids') return [];
  const source = signal.split('.')[0];
  if (layout === 'one') return ['containers', 'images'];
  if (layout === 'dedicated') return source === 'nodefs' ? [] : ['containers', 'images'];
  return source === 'imagefs' ? ['images'] : ['containers'];
}

/** 4.7 to 4.12. */
function act(
  look: Look,
  drivers: readonly Threshold[],
  config: Config,
  layout: Layout,
  kills: Memory['kills'],
): Outcome {
  const chosen = firstOf(drivers);
  if (chosen === undefined) return NOTHING;
  const reclaiming = { signal: chosen.signal, soft: !isHard(chosen), resource: resourceOf(chosen.signal) };
  const nodeReclaim = reclaims(chosen.signal, layout);
  const again = look.again;
  // The second reading judges every threshold, the appended ones too (3.4). It proves nothing without the signal (D5).
  const enough = again?.has(chosen.signal) === true && !config.later.some((one) => isShort(one, again, 'with reclaim'));
  if (nodeReclaim.length > 0 && enough) return { reclaiming, nodeReclaim, ranking: [], victims: [] };
  const ranking = rank(look.pods, chosen.signal, layout, look.stats);
  const pod = victimOf(ranking, chosen.signal, guardedOwners(config, kills, look.nowNs));
  const outcome = { reclaiming, nodeReclaim, ranking: ranking.order.map((one) => one.id) };
  if (pod === null) return { ...outcome, victims: [] };
  const gracePeriodSeconds = isHard(chosen) ? 1 : Math.min(config.maxPodGrace, pod.termination);
  const said = sayThreshold(chosen, look, pod);
  return { ...outcome, victims: [{ pod, signal: chosen.signal, gracePeriodSeconds, disruptionTarget: true, ...said }] };
}

function sayThreshold(threshold: Threshold, look: Look, pod: Pod): Said {
  const seen = look.observed.get(threshold.signal);
  if (seen === undefined) throw new Error(`${threshold.signal} drives an eviction without an observation`);
  const kind = kindOf(threshold.signal);
  const available = kind === 'inodes' || kind === 'pids' ? count(seen.available) : bytes(seen.available);
  return sayPressure(threshold.signal, amountOf(threshold.value, seen.capacity), available, pod, look.stats.get(pod));
}

function guardedOwners(config: Config, kills: Memory['kills'], nowNs: bigint): ReadonlySet<string> {
  const guard = config.guard;
  if (guard === null) return new Set();
  const recent = kills.filter((kill) => nowNs - kill.atNs < guard.windowNs).map((kill) => kill.owner);
  return new Set(recent.filter((owner) => recent.filter((one) => one === owner).length >= guard.kills));
}

function killFails(step: Json, pod: Pod): boolean {
  const fails = at(step, 'killFails');
  return fails === true || (Array.isArray(fails) && listOf(fails).includes(pod.id));
}

export function evictionModel(scenario: Json): readonly Result[] {
  const node = at(scenario, 'node');
  const layout =
    at(node, 'dedicatedImageFs') !== true ? 'one' : at(node, 'splitImageFs') === true ? 'split' : 'dedicated';
  const config = readConfig(at(scenario, 'config'), layout);
  const start = at(scenario, 'start');
  const startNs = typeof start === 'string' ? instant(start) : null;
  const memory: Memory = {
    firstObserved: new Map(),
    metBefore: [],
    lastSeen: new Map(),
    conditions: [],
    lastObserved: new Map(),
    unmetSince: new Map(),
    lookedAt: null,
    kills: [],
  };
  let result: Result = { ...resultOf([], [], [], NOTHING), evicted: [] };
  let summary: Json = null;
  let pods = podsOf(at(scenario, 'pods'));
  // 4.1: without thresholds and without local storage limits nothing happens at all.
  const idle = config.later.length === 0 && !config.localStorage;
  return listOf(at(scenario, 'steps')).map((step, index) => {
    const nowNs = nanoseconds(at(step, 'at'));
    const carried = at(step, 'summary') ?? mergePatch(summary, at(step, 'summaryPatch') ?? {});
    summary = carried;
    if (at(step, 'pods') !== null) pods = podsOf(at(step, 'pods'));
    if (idle) return result;
    if (at(step, 'statsFail') === true) {
      result = { ...result, reclaiming: null, nodeReclaim: [], ranking: [], evicted: [] };
      return result;
    }
    const fresh = at(step, 'summary') === null && at(step, 'summaryPatch') === null;
    const clock = { lookNs: nowNs, startNs, fresh };
    const candidates = pods.filter((pod) => pod.phase !== 'Succeeded' && pod.phase !== 'Failed');
    const look: Look = {
      nowNs,
      thresholds: index === 0 ? config.first : config.later,
      observed: observationsOf(carried, clock),
      again:
        at(step, 'afterReclaimFails') === true
          ? null
          : observationsOf(mergePatch(carried, at(step, 'afterReclaim') ?? {}), clock),
      pods: candidates,
      stats: podStatsOf(carried, candidates),
    };
    if (
      index === 0 &&
      config.undefinedAtFirst &&
      [...look.observed.keys()].some((one) => one.startsWith('containerfs'))
    ) {
      throw new Error('a containerfs entry written by hand is not defined at the first look');
    }
    const { met, ripe, drivers, conditions } = updateState(memory, config, look);
    const local = config.localStorage ? localVictims(look, layout) : [];
    const outcome =
      local.length > 0 ? { ...NOTHING, victims: local } : act(look, drivers, config, layout, memory.kills);
    const failed = outcome.victims.map((victim) => killFails(step, victim.pod));
    const gone = outcome.victims.filter((_, i) => failed[i] === false).map((victim) => victim.pod);
    pods = pods.filter((pod) => !gone.includes(pod));
    // D6 counts the threshold victims, whatever became of the kill.
    for (const { pod, disruptionTarget } of outcome.victims) {
      if (disruptionTarget && pod.owner !== null) memory.kills.push({ owner: pod.owner, atNs: nowNs });
    }
    const evicted = outcome.victims.map((victim, i): Evicted => evictedOf(victim, failed[i] === true));
    result = { ...resultOf(met, ripe, conditions, outcome), evicted };
    return result;
  });
}

function evictedOf(
  { pod, signal, gracePeriodSeconds, disruptionTarget, message, annotations }: Victim,
  killFailed: boolean,
): Evicted {
  return {
    pod: pod.id,
    signal,
    gracePeriodSeconds,
    reason: 'Evicted',
    disruptionTarget,
    killFailed,
    message,
    annotations,
  };
}

function resultOf(
  met: readonly Threshold[],
  ripe: readonly Threshold[],
  conditions: readonly string[],
  outcome: Outcome,
): Omit<Result, 'evicted'> {
  return {
    thresholdsObserved: sorted(met.map(nameOf)),
    thresholdsMet: sorted(ripe.map(nameOf)),
    conditions: sorted(conditions),
    reclaiming: outcome.reclaiming,
    nodeReclaim: outcome.nodeReclaim,
    ranking: outcome.ranking,
  };
}
