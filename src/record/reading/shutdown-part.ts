import type { Decision } from '../../core/decision.ts';
import { groupBy } from '../../core/group-by.ts';
import { podName } from '../../core/pod/pod.ts';
import type { MonoMs } from '../../core/reading.ts';
import type { RecordNote, ShutdownFact } from '../../ports.ts';
import { type DecisionRecord, joinDecisions, type RecordEntry } from '../entry.ts';

type Fact = Extract<RecordNote, { kind: 'shutdown' }> & { readonly wallMs: number };
export type Stop = DecisionRecord & { readonly decision: Extract<Decision, { kind: 'stop-for-shutdown' }> };
export type FactAt<W extends ShutdownFact['what']> = {
  readonly atMs: MonoMs;
  readonly wallMs: number;
  readonly fact: Extract<ShutdownFact, { what: W }>;
};
/** The part of a boot's entries from which one shutdown is derived. */
export type Part = {
  readonly facts: readonly Fact[];
  readonly decisions: readonly DecisionRecord[];
  readonly stops: readonly Stop[];
  /** All of its boot, by pod: a shutdown that was cancelled may leave pods stopping. */
  readonly ofBoot: ReadonlyMap<string, readonly Stop[]>;
  /** Runs of the agent that began or ended meanwhile. */
  readonly runs: readonly { readonly kind: 'started' | 'stopped'; readonly atMs: MonoMs }[];
  readonly isLast: boolean;
  readonly isBootOver: boolean;
};
const KINDS: readonly Decision['kind'][] = ['stop-for-shutdown', 'release-lock', 'take-lock', 'undo-stops'];

/** A shutdown begins with its fact; entries before the first fact belong to a shutdown whose beginning is lost. */
export function partsOf(entries: readonly RecordEntry[], boot: 'running' | 'over'): readonly Part[] {
  const notes = entries.flatMap((entry) => (entry.kind === 'note' ? [{ ...entry.note, wallMs: entry.atWallMs }] : []));
  const facts = notes.filter((note) => note.kind === 'shutdown');
  const runs = notes.filter((note) => note.kind === 'started' || note.kind === 'stopped');
  const decisions = joinDecisions(entries).filter(({ decision }) => KINDS.includes(decision.kind));
  const beginsMs = factsOf(facts, 'began').map(({ atMs }) => atMs);
  // By time, not by position: the decisions of a look precede its facts in the record.
  const factsIn = splitAt(beginsMs, facts, ({ atMs }) => atMs);
  const runsIn = splitAt(beginsMs, runs, ({ atMs }) => atMs);
  const decisionsIn = splitAt(beginsMs, decisions, ({ decision }) => decision.atMs);
  const ofBoot = groupBy(decisions.filter(isStop), ({ decision }) => podName(decision.victim));
  return factsIn.map((own, i) => ({
    facts: own,
    decisions: decisionsIn[i] ?? [],
    stops: (decisionsIn[i] ?? []).filter(isStop),
    ofBoot,
    runs: runsIn[i] ?? [],
    isLast: i === beginsMs.length,
    isBootOver: boot === 'over',
  }));
}

/** One list for entries before the first bound, and one per bound with the entries up to the next. */
function splitAt<T>(boundsMs: readonly MonoMs[], list: readonly T[], atMs: (item: T) => MonoMs): readonly T[][] {
  const sortedMs = boundsMs.toSorted((a, b) => a - b);
  const parts: T[][] = [[], ...sortedMs.map(() => [])];
  let place = 0;
  for (const item of list.toSorted((a, b) => atMs(a) - atMs(b))) {
    while ((sortedMs[place] ?? Number.POSITIVE_INFINITY) <= atMs(item)) place++;
    parts[place]?.push(item);
  }
  return parts;
}

export function factsOf<W extends ShutdownFact['what']>(facts: readonly Fact[], what: W): readonly FactAt<W>[] {
  return facts.flatMap(({ atMs, wallMs, fact }) => (isFact(fact, what) ? [{ atMs, wallMs, fact }] : []));
}

function isFact<W extends ShutdownFact['what']>(
  fact: ShutdownFact,
  what: W,
): fact is Extract<ShutdownFact, { what: W }> {
  return fact.what === what;
}

function isStop(record: DecisionRecord): record is Stop {
  return record.decision.kind === 'stop-for-shutdown';
}
