/**
 * A second reading of the shutdown rules, written from the texts alone (kubelet-shutdown.md 1 to 8,
 * shutdown-scenarios.md 2 to 4) and sharing nothing with the program. Times are nanoseconds until the result.
 */
import { at, entriesOf, type Json, listOf, numberOf, textOf } from './json.ts';
import { parseDuration } from './quantities.ts';
import { nanoseconds, SECOND, type Stop, stopOf } from './shutdown-pod.ts';

type Group = { readonly priority: number; readonly period: number; readonly pods: Member[] };

/** A pod of the snapshot. `deleted` = how it stops by its own deletion, from which nothing is taken any more (K 4.9). */
type Member = {
  readonly name: string;
  readonly json: Json;
  readonly behaviour: Json;
  readonly priority: number;
  readonly grace: number;
  readonly deleted: Stop | null;
};

type Told = Stop & { readonly member: Member; readonly asked: number };

const MESSAGE = 'Pod was terminated in response to imminent node shutdown.';
const VOLUME_LOOK = 300_000_000n;
const VOLUME_LIMIT = 123n * SECOND;

const ms = (ns: bigint) => Number(ns) / 1_000_000;
const smaller = (a: bigint, b: bigint) => (a < b ? a : b);
const largest = (values: readonly bigint[], least: bigint) => values.reduce((a, b) => (a > b ? a : b), least);

/** K 1.5. */
function configErrors(total: bigint, critical: bigint, list: readonly Json[]): readonly string[] {
  const below = (value: bigint) => value < SECOND && value !== 0n;
  return [
    ...(critical > total ? ['criticalExceedsTotal'] : []),
    ...(below(total) ? ['totalBelowOneSecond'] : []),
    ...(below(critical) ? ['criticalBelowOneSecond'] : []),
    ...(list.length > 0 && (total > 0n || critical > 0n) ? ['bothForms'] : []),
  ];
}

/** K 1.3 and 1.4. */
function groupsOf(total: bigint, critical: bigint, list: readonly Json[]): readonly Group[] {
  if (list.length === 0) {
    return [
      { priority: 0, period: Number((total - critical) / SECOND), pods: [] },
      { priority: 2_000_000_000, period: Number(critical / SECOND), pods: [] },
    ];
  }
  const groups = list.map((entry) => ({
    priority: numberOf(at(entry, 'priority'), 0),
    period: numberOf(at(entry, 'shutdownGracePeriodSeconds'), 0),
    pods: [],
  }));
  return groups.toSorted((a, b) => a.priority - b.priority);
}

/** K 4.3, and K 1.4 for a priority written twice. */
function groupFor(priority: number, groups: readonly Group[]): Group | undefined {
  const exact = groups.find((group) => group.priority === priority);
  return exact ?? groups.findLast((group) => group.priority < priority) ?? groups[0];
}

/** A field of the pod's own behaviour, or of the default; a pod's `stopAfter` or `never` replaces both. */
function behaviourOf(all: Json, name: string): Json {
  const own = entriesOf(at(all, name));
  const common = { ...entriesOf(at(all, 'default')) };
  if ('stopAfter' in own || 'never' in own) {
    delete common['stopAfter'];
    delete common['never'];
  }
  return { ...common, ...own };
}

/** The pod if it is in the snapshot (K 4.1, shutdown-scenarios.md 3.4), else null. */
function memberOf(json: Json, behaviours: Json): Member | null {
  const name = nameOf(json);
  if (Object.hasOwn(entriesOf(at(json, 'metadata', 'annotations')), 'kubernetes.io/config.mirror')) return null;
  const behaviour = behaviourOf(behaviours, name);
  const since = at(behaviour, 'terminatingFor');
  const deletion = at(json, 'metadata', 'deletionGracePeriodSeconds');
  const phase = at(json, 'status', 'phase');
  let deleted: Stop | null = null;
  if (since !== null && deletion !== null) {
    deleted = stopOf(json, behaviour, -nanoseconds(since), numberOf(deletion, 0));
    if (deleted.stoppedAt <= 0n) return null;
  } else if (phase === 'Succeeded' || phase === 'Failed') return null;
  const spec = at(json, 'spec');
  const grace = numberOf(at(spec, 'terminationGracePeriodSeconds'), 30);
  return { name, json, behaviour, priority: numberOf(at(spec, 'priority'), 0), grace, deleted };
}

function nameOf(json: Json): string {
  const meta = at(json, 'metadata');
  return `${textOf(at(meta, 'namespace'), 'default')}/${textOf(at(meta, 'name'), '')}`;
}

type Arming = {
  readonly armed: boolean;
  readonly dropIn: number | null;
  readonly reads: number;
  readonly granted: bigint;
};

/** K 2.3 and 2.4: five reads, the last one 1.5 s after the first. */
function arm(logind: Json, needed: bigint): Arming {
  const written = at(logind, 'inhibitDelayMax');
  const before = written === null ? 5n * SECOND : nanoseconds(written);
  if (needed <= before) return { armed: true, dropIn: null, reads: 0, granted: before };
  const gives = at(logind, 'overrideGives');
  const after = gives === null ? needed : nanoseconds(gives);
  const takes = at(logind, 'overrideTakes');
  const readable = takes === null ? 0n : nanoseconds(takes);
  const dropIn = Number(needed / SECOND);
  const instants = [0n, 100n, 300n, 700n, 1500n].map((value) => value * 1_000_000n);
  const read = instants.findIndex((instant) => instant >= readable && after >= needed);
  if (read < 0) return { armed: false, dropIn, reads: instants.length, granted: after };
  return { armed: true, dropIn, reads: read + 1, granted: after };
}

/** A group's pods told to stop at `start`; those already terminating go on as they were. */
function tell(group: Group, start: bigint): readonly Told[] {
  return group.pods.map((member) => {
    const asked = Math.min(member.grace, group.period);
    const stop = member.deleted ?? stopOf(member.json, member.behaviour, start, asked);
    return { ...stop, member, asked };
  });
}

function unmountedAt(told: Told): bigint {
  const after = at(told.member.behaviour, 'unmountAfter');
  return after === null ? told.stoppedAt : told.stoppedAt + nanoseconds(after);
}

/** True if the pod has volumes to wait for. */
function hasVolumes(told: Told): boolean {
  return unmountedAt(told) > told.stoppedAt;
}

type Ended = { readonly end: bigint; readonly endedBy: 'done' | 'period' | 'volumeTimeout' | 'cancelled' };

/** K 5.1 to 5.4. What happens at the instant of the deadline has happened (shutdown-scenarios.md 3.1). */
function endOf(group: Group, told: readonly Told[], start: bigint): Ended {
  const deadline = start + BigInt(group.period) * SECOND;
  if (group.period <= 0) return { end: start, endedBy: 'period' };
  const boundOf = ({ asked }: Told) => start + BigInt(Math.max(10, asked + Math.floor(asked / 2))) * SECOND;
  const waits = told.map((one) => smaller(one.stoppedAt, boundOf(one)));
  const gone = largest(waits, start);
  const unmounted = largest(told.filter(hasVolumes).map(unmountedAt), gone);
  const looks = (unmounted - gone + VOLUME_LOOK - 1n) / VOLUME_LOOK;
  const seen = gone + looks * VOLUME_LOOK;
  const limit = gone + VOLUME_LIMIT;
  // A wait for one pod that is given up at the deadline itself is a phase that ended by its period (seen in the data).
  const isGivenUp = told.some((one) => one.stoppedAt > deadline && boundOf(one) === deadline);
  if (isGivenUp) return { end: deadline, endedBy: 'period' };
  if (seen <= limit && seen <= deadline) return { end: seen, endedBy: 'done' };
  return limit < deadline ? { end: limit, endedBy: 'volumeTimeout' } : { end: deadline, endedBy: 'period' };
}

function sayPod(told: Told, group: Group): Json {
  return {
    group: group.priority,
    gracePeriodSeconds: told.asked,
    effectiveGracePeriodSeconds: told.effective,
    start: ms(told.start),
    sigtermAt: ms(told.sigtermAt),
    ...(told.killedAt === null ? {} : { killedAt: ms(told.killedAt) }),
    stoppedAt: ms(told.stoppedAt),
    status:
      told.member.deleted !== null
        ? null
        : { phase: 'Failed', reason: 'Terminated', message: MESSAGE, disruptionTarget: true },
  };
}

function sayPhase(group: Group, told: readonly Told[], start: bigint, { end, endedBy }: Ended): Json {
  const running = told.filter((one) => one.stoppedAt > end);
  const pending = told.filter((one) => one.stoppedAt <= end && hasVolumes(one) && unmountedAt(one) > end);
  return {
    priority: group.priority,
    periodSeconds: group.period,
    start: ms(start),
    end: ms(end),
    endedBy,
    ...(running.length === 0 ? {} : { stillRunning: running.map((one) => one.member.name) }),
    ...(pending.length === 0 ? {} : { volumesPending: pending.map((one) => one.member.name) }),
  };
}

/** Go duration of the kubelet's own keys; absent = 0. */
function setting(json: Json): bigint {
  return json === null ? 0n : (parseDuration(textOf(json, '')) ?? 0n);
}

/** The result of shutdown-scenarios.md 4, and what the texts leave open about this scenario (then nobody is wrong). */
export function shutdownModel(scenario: Json): { readonly result: Json; readonly open: readonly string[] } {
  const config = at(scenario, 'config');
  const total = setting(at(config, 'shutdownGracePeriod'));
  const critical = setting(at(config, 'shutdownGracePeriodCriticalPods'));
  const list = listOf(at(config, 'shutdownGracePeriodByPodPriority'));
  const errors = configErrors(total, critical, list);
  if (errors.length > 0) return { result: { configErrors: errors }, open: [] };
  if (list.length === 0 && total === 0n) return { result: { enabled: false }, open: [] };
  const groups = groupsOf(total, critical, list);
  const needed = groups.reduce((sum, group) => sum + BigInt(group.period) * SECOND, 0n);
  const arming = arm(at(scenario, 'logind'), needed);
  const armed = {
    enabled: true,
    armed: arming.armed,
    inhibitDelay: ms(needed),
    dropInSeconds: arming.dropIn,
    ...(arming.dropIn === null ? {} : { readBacks: arming.reads }),
  };
  if (!arming.armed) return { result: armed, open: [] };
  return { ...run(scenario, groups, armed, arming.granted) };
}

function run(scenario: Json, groups: readonly Group[], armed: { readonly [key: string]: Json }, granted: bigint) {
  const pods: { [name: string]: Json } = {};
  for (const json of listOf(at(scenario, 'pods'))) {
    const member = memberOf(json, at(scenario, 'behaviour'));
    pods[nameOf(json)] = null;
    if (member !== null) groupFor(member.priority, groups)?.pods.push(member);
  }
  const cancel = at(scenario, 'cancelAt');
  const cancelNs = cancel === null ? null : nanoseconds(cancel);
  // D10: no further phase begins, the one that runs is cut off. K 8.2 else: handled after the last phase.
  const promptNs = at(scenario, 'cancelPolicy') === 'promptly' ? cancelNs : null;
  const phases: Json[] = [];
  const open: string[] = [];
  let now = 0n;
  let cut = false;
  for (const group of groups) {
    if (group.pods.length === 0) continue;
    // At one instant the cancel comes before the next phase (shutdown-scenarios.md 3.1).
    cut ||= promptNs !== null && promptNs <= now;
    if (cut) continue;
    const told = tell(group, now);
    // K 12.3: the kubelet waits for a pod that ended between the snapshot and its phase.
    if (told.some((one) => one.member.deleted !== null && one.stoppedAt <= now)) {
      open.push('a pod ended before its phase');
    }
    const ended = endOf(group, told, now);
    cut = promptNs !== null && promptNs < ended.end;
    const end: Ended = cut && promptNs !== null ? { end: promptNs, endedBy: 'cancelled' } : ended;
    phases.push(sayPhase(group, told, now, end));
    for (const one of told) pods[one.member.name] = sayPod(one, group);
    now = end.end;
  }
  if (!cut && promptNs !== null && promptNs === now) open.push('a cancel at the instant of the release');
  const cancelled = promptNs ?? (cancelNs === null ? null : largest([cancelNs], now));
  const result: Json = {
    ...armed,
    groups: groups.map(({ priority, period, pods: members }) => ({
      priority,
      periodSeconds: period,
      pods: members.map((one) => one.name),
    })),
    phases,
    lockReleasedAt: cut ? null : ms(now),
    shutdownProceedsAt: cancelled === null ? ms(smaller(now, granted)) : null,
    refusesPods: { from: 0, until: cancelled === null ? null : ms(cancelled) },
    ...(cancelled === null ? {} : { lockRetakenAt: cut ? null : ms(cancelled) }),
    pods,
  };
  return { result, open };
}
