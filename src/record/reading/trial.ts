import type { Decision } from '../../core/decision.ts';
import { podName } from '../../core/pod/pod.ts';
import { isNumber, isObject } from '../../core/shape.ts';
import { SIGNAL_FACTS, type Signal } from '../../core/signal.ts';
import type { Advice } from '../../words/trial.ts';
import { type DecisionRecord, isSince, joinDecisions, type RecordEntry } from '../entry.ts';

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
  /** The number of entries known to be lost and lines that cannot be read. */
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
  /** What it used at the last one, in the signal's unit: the most that would have been freed. Null: not known. */
  readonly atMost: number | null;
};
type OomKills = { readonly atWallMs: number; readonly count: number; readonly pods: readonly string[] };
type Evict = Extract<Decision, { kind: 'evict' | 'evict-over-limit' }>;
type Evicted = DecisionRecord & { readonly decision: Evict };
const OFTEN = 3;
/** An eviction would have prevented a kernel OOM kill that followed its decision within this time. */
const PREVENTED_MS = 60_000;

/** `entries`: the whole record of the dry run. */
export function trialOf(entries: readonly RecordEntry[], tornLines: number, sinceWallMs: number | null): Trial {
  const isWanted = isSince(sinceWallMs ?? Number.NEGATIVE_INFINITY);
  const found = entries.filter(isWanted);
  // Of the whole record: the clock may have stepped back between a decision and what was recorded about it.
  const decisions = joinDecisions(entries).filter(isWanted);
  const evicted = decisions.filter((record): record is Evicted => isEvict(record.decision));
  const stops = stopsOf(evicted);
  const kills = found.flatMap(killsIn);
  const findings = findingsOf(found);
  const lost = found.reduce((sum, entry) => sum + (entry.kind === 'lost' ? entry.entries : 0), 0);
  return {
    schema: 1,
    sinceWallMs,
    fromWallMs: found[0]?.atWallMs ?? null,
    toWallMs: found.at(-1)?.atWallMs ?? null,
    before: beforeOf(entries.findLast((entry) => !isWanted(entry))),
    isWhole: sinceWallMs === null || (entries[0]?.atWallMs ?? Number.POSITIVE_INFINITY) <= sinceWallMs,
    missing: lost + tornLines,
    runs: runsOf(found),
    stops,
    reclaims: reclaimsOf(decisions),
    kernelOomKills: kills,
    findings,
    advice: adviceOf({ evicted, stops, kills, findings, hasDecided: decisions.length > 0 }),
  };
}

const isEvict = (decision: Decision): decision is Evict =>
  decision.kind === 'evict' || decision.kind === 'evict-over-limit';

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
    const walls = records.map(({ atWallMs }) => atWallMs);
    const along = records.flatMap(({ decision }) => (decision.kind === 'evict' ? (decision.takesAlong ?? []) : []));
    return {
      pod,
      times: records.length,
      causes: causesOf(records),
      firstWallMs: Math.min(...walls),
      lastWallMs: Math.max(...walls),
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
    return { signal, kind, times: of.length, withinRequest: of.filter(isWithinRequest).length, atMost };
  });
}

function isWithinRequest({ decision }: Evicted): boolean {
  if (decision.kind !== 'evict') return false;
  const row = decision.ranking.find(({ uid }) => uid === decision.victim.uid);
  const over = row?.values.find(({ by }) => by === 'over-request')?.value;
  return over?.known === true && over.value === false;
}

/** From the deciding sample. On a disk, only what would be emptied, or is deleted but still open, would be freed. */
function heldBy({ decision, observation }: Evicted, signal: Signal): number | null {
  const summary = observation?.scenario?.steps[0].summary['pods'];
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
      return at('process_stats', 'process_count');
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
function killsIn(entry: RecordEntry): readonly OomKills[] {
  if (entry.kind !== 'note' || entry.note.kind !== 'kernel-oom-kill') return [];
  if (entry.note.unwatchedSinceMs !== undefined) return [];
  return [{ atWallMs: entry.atWallMs, count: entry.note.count, pods: entry.note.pods }];
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
  readonly stops: readonly TrialStop[];
  readonly kills: readonly OomKills[];
  readonly findings: Trial['findings'];
  readonly hasDecided: boolean;
}): readonly Advice[] {
  const { evicted, stops, kills, findings, hasDecided } = facts;
  const isPrevented = ({ atWallMs }: OomKills): boolean =>
    evicted.some((record) => record.atWallMs <= atWallMs && atWallMs - record.atWallMs <= PREVENTED_MS);
  const first = kills.filter((kill) => !isPrevented(kill));
  const count = first.reduce((sum, kill) => sum + kill.count, 0);
  return [
    ...(hasDecided ? [] : [{ code: 'nothing-decided' } as const]),
    ...stops.flatMap(({ pod, causes }) =>
      causes.flatMap(({ signal, withinRequest: times }): readonly Advice[] =>
        times === 0 || signal === 'ephemeral-storage.limit' ? [] : [{ code: 'within-request', pod, signal, times }],
      ),
    ),
    ...stops.flatMap(({ pod, times }): readonly Advice[] => (times < OFTEN ? [] : [{ code: 'often', pod, times }])),
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
const NO_CANDIDATE = 'no-candidate/';

function grouped<T, K>(items: readonly T[], keyOf: (item: T) => K): ReadonlyMap<K, readonly T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    groups.set(key, [...(groups.get(key) ?? []), item]);
  }
  return groups;
}
