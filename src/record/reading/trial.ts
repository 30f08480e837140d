import type { Decision } from '../../core/decision.ts';
import { podName } from '../../core/pod/pod.ts';
import type { MonoMs } from '../../core/reading.ts';
import { isFlag, isNumber, isObject, isOneOf, isText, listOf, optional, shape } from '../../core/shape.ts';
import { SIGNAL_FACTS, SIGNALS, type Signal } from '../../core/signal.ts';
import type { Advice } from '../../words/trial.ts';
import { type DecisionRecord, isSince, joinDecisions, type RecordEntry } from '../entry.ts';
import { soundBy } from './sound.ts';

/** What a dry run would have done, from its record. Times in ms since 1970. */
export type Trial = {
  readonly schema: 1;
  /** The requested start; null: the whole record. */
  readonly sinceWallMs: number | null;
  /** The oldest and the newest entry since then; null: there is none. */
  readonly fromWallMs: number | null;
  readonly toWallMs: number | null;
  /**
   * The last entry before the requested start; `hasEnded`: the run that wrote it had ended then, else it may have gone on without
   * anything to record. Null: there is none.
   */
  readonly before: { readonly atWallMs: number; readonly hasEnded: boolean } | null;
  /** False: the record begins later than requested. */
  readonly isWhole: boolean;
  /** The number of entries known to be lost, and of lines and bodies that cannot be read. */
  readonly missing: number;
  readonly runs: readonly TrialRun[];
  readonly stops: readonly TrialStop[];
  /** How often each signal's reclaim would have run. */
  readonly reclaims: readonly { readonly signal: Signal; readonly times: number }[];
  readonly kernelOomKills: readonly OomKills[];
  /** What was raised, with the latest text of each. */
  readonly findings: readonly { readonly id: string; readonly text: string; readonly times: number }[];
  readonly advice: readonly Advice[];
};
/** One run of the agent. Between runs, nothing was observed. */
export type TrialRun = {
  readonly bootId: string;
  /** Null: it began before the record, or before the requested time. */
  readonly fromWallMs: number | null;
  /** Null: it still runs, or its end was not recorded. */
  readonly toWallMs: number | null;
  readonly lastEntryWallMs: number;
};
/** One pod that would have been stopped. */
type TrialStop = {
  readonly pod: string;
  readonly times: number;
  readonly causes: readonly TrialCause[];
  readonly firstWallMs: number;
  readonly lastWallMs: number;
  readonly takesAlong: readonly string[];
};
export type TrialCause = {
  /** A signal, or the pod's own local storage limit. */
  readonly signal: Signal | 'ephemeral-storage.limit';
  readonly kind: 'hard' | 'soft' | 'limit';
  readonly times: number;
  /** How often it used no more than it requests; signals without a request never count. */
  readonly withinRequest: number;
  /** How often right after a reclaim, which a dry run does not do, and which might have freed enough. */
  readonly afterReclaim: number;
  /** What it used at the last one, in the signal's unit: the most that would have been freed. Null: not known. */
  readonly atMost: number | null;
};
type OomKills = { readonly atWallMs: number; readonly count: number; readonly pods: readonly string[] };
type Kill = OomKills & { readonly bootId: string; readonly atMs: MonoMs };
type Evict = Extract<Decision, { kind: 'evict' | 'evict-over-limit' }>;
type Evicted = DecisionRecord & { readonly decision: Evict; readonly isAfterReclaim: boolean };
const OFTEN = 3;
/** An eviction for memory would have prevented a kernel OOM kill that followed its decision within this time, or under its pressure. */
const PREVENTED_MS = 60_000;

/** `recorded`: the record of the dry run. `notRead`: how many of its lines cannot be, or are not. */
export function trialOf(recorded: readonly RecordEntry[], notRead: number, sinceWallMs: number | null): Trial {
  const isWanted = isSince(sinceWallMs ?? Number.NEGATIVE_INFINITY);
  const wanted = recorded.filter(isWanted);
  const entries = recorded.filter(isSound);
  const found = entries.filter(isWanted);
  // Of the whole record: the clock may have stepped back between a decision and what was recorded about it.
  const all = joinDecisions(entries);
  const decisions = all.filter(isWanted);
  const evicted = evictedIn(all);
  const stops = stopsOf(evicted.filter(isWanted));
  const kills = found.flatMap(killsIn);
  const findings = findingsOf(found);
  const lost = found.reduce((sum, entry) => sum + (entry.kind === 'lost' ? entry.entries : 0), 0);
  const damaged = wanted.length - found.length;
  const metBefore = metBeforeOf(entries, found[0], sinceWallMs);
  const hasDecided = decisions.some(({ decision: { kind } }) => ABOUT_THRESHOLDS.includes(kind));
  return {
    schema: 1,
    sinceWallMs,
    ...spanOf(wanted),
    before: beforeOf(recorded.findLast((entry) => !isWanted(entry))),
    isWhole: sinceWallMs === null || (recorded[0]?.atWallMs ?? Number.POSITIVE_INFINITY) <= sinceWallMs,
    missing: lost + notRead + damaged,
    runs: runsOf(wanted),
    stops,
    reclaims: reclaimsOf(decisions),
    kernelOomKills: kills.map(({ atWallMs, count, pods }) => ({ atWallMs, count, pods })),
    findings,
    advice: adviceOf({ evicted, relieved: all.filter(isRelieved), stops, kills, findings, metBefore, hasDecided }),
  };
}

const isTexts = listOf(isText);
const VICTIM = { victim: shape({ uid: isText, namespace: isText, name: isText }) };
const THRESHOLD = { threshold: shape({ signal: isOneOf(...SIGNALS), isHard: isFlag }) };
const VALUES = listOf(shape({ by: isText, value: isObject }));
const isSound = soundBy({
  notes: {
    'kernel-oom-kill': { atMs: isNumber, count: isNumber, pods: isTexts },
    finding: { finding: shape({ id: isText, text: isText }) },
  },
  decisions: {
    evict: {
      ...VICTIM,
      ...THRESHOLD,
      ranking: listOf(shape({ uid: isText, values: VALUES })),
      takesAlong: optional(isTexts),
    },
    'evict-over-limit': { ...VICTIM, takesAlong: optional(isTexts) },
    reclaim: THRESHOLD,
    'set-condition': { condition: isText, status: isFlag },
  },
  outcomes: {},
});
const ABOUT_THRESHOLDS: readonly string[] = ['set-condition', 'reclaim', 'evict', 'evict-over-limit', 'hasten'];

/** Those that a live agent would have carried out, as far as is known. */
function evictedIn(decisions: readonly DecisionRecord[]): readonly Evicted[] {
  const reclaimed = new Set<string>();
  return decisions.flatMap((record): readonly Evicted[] => {
    const { bootId, decision, outcomes } = record;
    const keyOf = (signal: Signal): string => `${bootId} ${signal}`;
    if (decision.kind === 'reclaim') reclaimed.add(keyOf(decision.threshold.signal));
    if (!isEvict(decision)) return [];
    // Every eviction for a signal that is reclaimed follows a reclaim of its own.
    const isAfterReclaim = decision.kind === 'evict' && reclaimed.delete(keyOf(decision.threshold.signal));
    const isDropped = outcomes.some((outcome) => outcome.kind === 'dropped' && outcome.because !== 'dry-run');
    return isDropped ? [] : [{ ...record, decision, isAfterReclaim }];
  });
}

const isEvict = (decision: Decision): decision is Evict =>
  decision.kind === 'evict' || decision.kind === 'evict-over-limit';

/** The clock may have been set back meanwhile. */
function spanOf(entries: readonly RecordEntry[]): Pick<Trial, 'fromWallMs' | 'toWallMs'> {
  const walls = entries.map(({ atWallMs }) => atWallMs);
  if (walls.length === 0) return { fromWallMs: null, toWallMs: null };
  // Too many for the arguments of a call.
  const most = (better: (a: number, b: number) => number): number => walls.reduce((a, b) => better(a, b));
  return { fromWallMs: most(Math.min), toWallMs: most(Math.max) };
}

/** The conditions that were true when the requested time began: in the boot of `first`, the first entry since then. */
function metBeforeOf(
  entries: readonly RecordEntry[],
  first: RecordEntry | undefined,
  sinceWallMs: number | null,
): readonly string[] {
  if (sinceWallMs === null || first === undefined) return [];
  const before = entries.slice(0, entries.indexOf(first)).filter(({ bootId }) => bootId === first.bootId);
  const statuses = before.flatMap((entry) =>
    entry.kind === 'decision' && entry.decision.kind === 'set-condition' ? [entry.decision] : [],
  );
  const latest = new Map(statuses.map(({ condition, status }) => [condition, status]));
  return [...latest].flatMap(([condition, status]) => (status ? [condition] : []));
}

function beforeOf(last: RecordEntry | undefined): Trial['before'] {
  if (last === undefined) return null;
  return { atWallMs: last.atWallMs, hasEnded: last.kind === 'note' && last.note.kind === 'stopped' };
}

/** A run may write a few entries before the one about its start. */
const BEGINNING_MS = 60_000;

function runsOf(entries: readonly RecordEntry[]): readonly TrialRun[] {
  const runs: TrialRun[] = [];
  let current: { run: TrialRun; readonly firstWallMs: number } | null = null;
  for (const entry of entries) {
    const { atWallMs, bootId } = entry;
    const note = entry.kind === 'note' ? entry.note.kind : null;
    const isNew: boolean =
      current === null ||
      current.run.bootId !== bootId ||
      (note === 'started' && (current.run.fromWallMs !== null || atWallMs - current.firstWallMs > BEGINNING_MS));
    if (isNew || current === null) {
      if (current !== null) runs.push(current.run);
      current = { run: { bootId, fromWallMs: null, toWallMs: null, lastEntryWallMs: atWallMs }, firstWallMs: atWallMs };
    }
    const { run, firstWallMs } = current;
    current.run = { ...run, lastEntryWallMs: atWallMs, ...(note === 'started' ? { fromWallMs: firstWallMs } : {}) };
    if (note !== 'stopped') continue;
    runs.push({ ...current.run, toWallMs: atWallMs });
    current = null;
  }
  return current === null ? runs : [...runs, current.run];
}

function stopsOf(evicted: readonly Evicted[]): readonly TrialStop[] {
  const byPod = grouped(evicted, ({ decision }) => podName(decision.victim));
  const stops = [...byPod].map(([pod, records]): TrialStop => {
    const along = records.flatMap(({ decision }) => decision.takesAlong ?? []);
    return {
      pod,
      times: records.length,
      causes: causesOf(records),
      firstWallMs: records[0]?.atWallMs ?? 0,
      lastWallMs: records.at(-1)?.atWallMs ?? 0,
      takesAlong: [...new Set(along)],
    };
  });
  return stops.toSorted((a, b) => b.times - a.times || (a.pod < b.pod ? -1 : 1));
}

function causesOf(records: readonly Evicted[]): readonly TrialCause[] {
  const keyed = grouped(records, ({ decision }) => {
    if (decision.kind === 'evict-over-limit') return 'ephemeral-storage.limit/limit' as const;
    return `${decision.threshold.signal}/${decision.threshold.isHard ? 'hard' : 'soft'}` as const;
  });
  return [...keyed].map(([key, of]) => {
    const [signal, kind] = key.split('/') as [TrialCause['signal'], TrialCause['kind']];
    const last = of.at(-1);
    const atMost = last === undefined || signal === 'ephemeral-storage.limit' ? null : heldBy(last, signal);
    const withinRequest = of.filter(isWithinRequest).length;
    const afterReclaim = of.filter(({ isAfterReclaim }) => isAfterReclaim).length;
    return { signal, kind, times: of.length, withinRequest, afterReclaim, atMost };
  });
}

function isWithinRequest({ decision }: Evicted): boolean {
  if (decision.kind !== 'evict') return false;
  const row = decision.ranking.find(({ uid }) => uid === decision.victim.uid);
  const over = row?.values.find(({ by }) => by === 'over-request');
  return over?.value.known === true && over.value.value === false && over.isAtLeast === undefined;
}

/** From the deciding sample. On a disk, only what would be emptied, or is deleted but still open, would be freed. */
function heldBy({ decision, observation }: Evicted, signal: Signal): number | null {
  // A failing disk may have changed any part of it.
  const summary = observation?.scenario?.steps?.[0]?.summary?.['pods'];
  const pods: readonly unknown[] = Array.isArray(summary) ? summary : [];
  const pod = pods.find((entry) => textAt(entry, 'podRef', 'uid') === decision.victim.uid);
  const at = (...path: readonly string[]): number | null => {
    const value = valueAt(pod, path);
    return isNumber(value) ? value : null;
  };
  switch (SIGNAL_FACTS[signal].comesBack) {
    case 'memory':
      return at('memory', 'workingSetBytes');
    case 'swap':
      return at('swap', 'swapUsageBytes');
    case 'process-ids':
      return at('pidsHeld') ?? at('process_stats', 'process_count');
    case 'stall':
      return null;
    case 'nothing': {
      const unit = SIGNAL_FACTS[signal].unit === 'inodes' ? 'Inodes' : 'Bytes';
      const [scratch, open] = [at('diskRelief', `scratch${unit}`), at('diskRelief', `deletedOpen${unit}`)];
      return scratch === null && open === null ? null : (scratch ?? 0) + (open ?? 0);
    }
  }
}

function valueAt(value: unknown, path: readonly string[]): unknown {
  return path.reduce((at, name) => (isObject(at) ? at[name] : undefined), value);
}
const textAt = (value: unknown, ...path: readonly string[]): string => String(valueAt(value, path) ?? '');

function reclaimsOf(decisions: readonly DecisionRecord[]): Trial['reclaims'] {
  const signals = decisions.flatMap(({ decision }) => (decision.kind === 'reclaim' ? [decision.threshold.signal] : []));
  return [...grouped(signals, (signal) => signal)].map(([signal, { length }]) => ({ signal, times: length }));
}

/** Those while no run watched say nothing about its thresholds. */
function killsIn(entry: RecordEntry): readonly Kill[] {
  if (entry.kind !== 'note' || entry.note.kind !== 'kernel-oom-kill') return [];
  if (entry.note.unwatchedSinceMs !== undefined) return [];
  const { atMs, count, pods } = entry.note;
  return [{ atWallMs: entry.atWallMs, bootId: entry.bootId, atMs, count, pods }];
}

function findingsOf(entries: readonly RecordEntry[]): Trial['findings'] {
  const found = entries.flatMap((entry) =>
    entry.kind === 'note' && entry.note.kind === 'finding' ? [entry.note.finding] : [],
  );
  return [...grouped(found, ({ id }) => id)].map(([id, of]) => {
    return { id, text: of.at(-1)?.text ?? '', times: of.length };
  });
}

function adviceOf(facts: {
  readonly evicted: readonly Evicted[];
  /** Where memory ceased to be short. */
  readonly relieved: readonly DecisionRecord[];
  readonly stops: readonly TrialStop[];
  readonly kills: readonly Kill[];
  readonly findings: Trial['findings'];
  readonly metBefore: readonly string[];
  readonly hasDecided: boolean;
}): readonly Advice[] {
  const { evicted, relieved, stops, kills, findings, metBefore, hasDecided } = facts;
  const forMemory = evicted.filter(({ decision }) => isForMemory(decision));
  // A dry run decides once while a threshold is met. How long it was without a transition period, the record does not show.
  const isPrevented = (kill: Kill): boolean => {
    const decidedMs = lastMs(forMemory, kill);
    return kill.atMs - decidedMs <= PREVENTED_MS || lastMs(relieved, kill) < decidedMs;
  };
  const first = kills.filter((kill) => !isPrevented(kill));
  const count = first.reduce((sum, kill) => sum + kill.count, 0);
  return [
    ...(metBefore.length > 0 ? [{ code: 'met-before', conditions: metBefore } as const] : []),
    ...(hasDecided || metBefore.length > 0 ? [] : [{ code: 'nothing-decided' } as const]),
    ...stops.flatMap(({ pod, causes }) =>
      causes.flatMap(({ signal, withinRequest: times }): readonly Advice[] =>
        times === 0 || signal === 'ephemeral-storage.limit' ? [] : [{ code: 'within-request', pod, signal, times }],
      ),
    ),
    ...stops.flatMap(({ pod, causes }): readonly Advice[] => {
      const times = causes.reduce((sum, cause) => sum + cause.times - cause.afterReclaim, 0);
      return times < OFTEN ? [] : [{ code: 'often', pod, times }];
    }),
    ...stops.flatMap(({ pod, takesAlong: others }): readonly Advice[] =>
      others.length === 0 ? [] : [{ code: 'takes-along', pod, others }],
    ),
    ...(count === 0
      ? []
      : [{ code: 'kernel-first', count, pods: [...new Set(first.flatMap(({ pods }) => pods))] } as const]),
    ...findings.flatMap(({ id }): readonly Advice[] =>
      id.startsWith(NO_CANDIDATE) ? [{ code: 'no-candidate', signal: id.slice(NO_CANDIDATE.length) }] : [],
    ),
  ];
}
const isRelieved = ({ decision }: DecisionRecord): boolean =>
  decision.kind === 'set-condition' && decision.condition === 'MemoryPressure' && !decision.status;

/** When the last of these was decided before the kill, by the time since the boot; -Infinity: none was. */
function lastMs(decisions: readonly DecisionRecord[], { bootId, atMs }: Kill): MonoMs {
  const before = decisions.filter((of) => of.bootId === bootId && of.decision.atMs <= atMs);
  return before.reduce((last, { decision }) => Math.max(last, decision.atMs), Number.NEGATIVE_INFINITY);
}

const isForMemory = (decision: Evict): boolean =>
  decision.kind === 'evict' && SIGNAL_FACTS[decision.threshold.signal].condition === 'MemoryPressure';
const NO_CANDIDATE = 'no-candidate/';

function grouped<T, K>(items: readonly T[], keyOf: (item: T) => K): ReadonlyMap<K, readonly T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    groups.set(key, [...(groups.get(key) ?? []), item]);
  }
  return groups;
}
