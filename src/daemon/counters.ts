import type { Decision, DecisionId, StorageLimit } from '../core/decision.ts';
import type { MetThreshold } from '../core/eviction/threshold.ts';
import type { Outcome } from '../core/outcome.ts';
import { type MonoMs, type Reading, valueOrNull } from '../core/reading.ts';
import { SIGNAL_FACTS } from '../core/signal.ts';
import type { Eviction } from '../core/state/state.ts';
import type { RecordNote } from '../ports.ts';
import type { RecordEntry } from '../record/entry.ts';
import type { Counts, EvictedFor, Histogram, ReclaimedBy, ShutdownTimes } from '../serve/counts.ts';

/** Counts what is recorded, so that no count can differ from the record of the same run. */
export type Counters = {
  readonly looked: (tookMs: number) => void;
  readonly recorded: (entry: RecordEntry) => void;
  /** Evictions of an earlier run that this one resumes. */
  readonly resumed: (evictions: readonly Eviction[]) => void;
  /** The last shutdown of an earlier boot, from the record. */
  readonly lastShutdown: (times: ShutdownTimes) => void;
  readonly now: () => Counts;
};

const LOOK_MS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 1_000];
const EVICTION_MS = [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000];

/** Counts for one run of the agent, across reloads. */
export function createCounters(sinceWallMs: number): Counters {
  const looks = createHistogram(LOOK_MS);
  const evictionTimes = createHistogram(EVICTION_MS);
  const evicted = new Map<string, Counts['evictions'][number]>();
  const reclaimedBytes: { [S in ReclaimedBy]: number } = { eviction: 0, reclaim: 0, scratch: 0 };
  const underWay = new Map<DecisionId, { readonly of: EvictedFor; beganMs: MonoMs | null }>();
  /** Node-level reclaims for bytes; what reclaims for inodes free is not in bytes. */
  const reclaims = new Set<DecisionId>();
  let kernelOomKills = 0;
  let shutdown: ShutdownTimes | null = null;

  const add = (by: ReclaimedBy, bytes: Reading<number>): void => {
    reclaimedBytes[by] += Math.max(0, valueOrNull(bytes) ?? 0);
  };
  const decided = (decision: Decision): void => {
    const { id, kind } = decision;
    if (kind === 'reclaim' && SIGNAL_FACTS[decision.threshold.signal].unit === 'bytes') reclaims.add(id);
    if (kind === 'evict') underWay.set(id, { of: ofThreshold(decision.threshold), beganMs: null });
    if (kind === 'evict-over-limit') underWay.set(id, { of: ofLimit(decision.limit), beganMs: null });
  };
  const noted = (note: RecordNote, atWallMs: number): void => {
    if (note.kind === 'kernel-oom-kill') kernelOomKills += note.count;
    if (note.kind === 'evidence') {
      const eviction = underWay.get(note.of);
      if (eviction !== undefined) eviction.beganMs = note.stopBeganAtMs;
    }
    if (note.kind !== 'shutdown') return;
    const { what } = note.fact;
    if (what === 'began' && note.fact.isSecond === undefined) shutdown = { startWallMs: atWallMs, endWallMs: null };
    if ((what === 'released' || what === 'cancelled') && shutdown !== null)
      shutdown = { ...shutdown, endWallMs: atWallMs };
  };
  const cameOut = (outcome: Outcome): void => {
    const eviction = underWay.get(outcome.of);
    if (outcome.kind === 'ended' && eviction !== undefined) {
      const key = JSON.stringify(eviction.of);
      evicted.set(key, { ...eviction.of, count: (evicted.get(key)?.count ?? 0) + 1 });
      if (eviction.beganMs !== null && !outcome.isNoticedLater) evictionTimes.add(outcome.atMs - eviction.beganMs);
      add('eviction', outcome.releasedBytes);
      if (outcome.emptied !== undefined) add('scratch', outcome.emptied.freedBytes);
    }
    if (outcome.kind === 'reclaimed' && reclaims.has(outcome.of)) add('reclaim', outcome.freed);
    // It may become known, or end later.
    if (outcome.kind !== 'unknown' && outcome.kind !== 'survived') underWay.delete(outcome.of);
    reclaims.delete(outcome.of);
  };
  return {
    looked: looks.add,
    recorded: (entry) => {
      if (entry.kind === 'decision') decided(entry.decision);
      if (entry.kind === 'note') noted(entry.note, entry.atWallMs);
      if (entry.kind === 'outcome') cameOut(entry.outcome);
    },
    resumed: (evictions) => {
      for (const { decision, cause, signalledMs } of evictions) {
        if (underWay.has(decision)) continue;
        const of = cause.kind === 'threshold' ? ofThreshold(cause.threshold) : ofLimit(cause.limit);
        underWay.set(decision, { of, beganMs: signalledMs ?? null });
      }
    },
    lastShutdown: (times) => {
      shutdown ??= times;
    },
    now: () => ({
      sinceWallMs,
      looks: looks.now(),
      evictions: [...evicted.values()],
      evictionTimes: evictionTimes.now(),
      reclaimedBytes: { ...reclaimedBytes },
      kernelOomKills,
      shutdown,
    }),
  };
}

const ofThreshold = ({ signal, isHard }: MetThreshold): EvictedFor => ({ signal, kind: isHard ? 'hard' : 'soft' });
const ofLimit = (limit: StorageLimit): EvictedFor => ({ signal: `${limit}.limit`, kind: 'hard' });

function createHistogram(bounds: readonly number[]): {
  readonly add: (ms: number) => void;
  readonly now: () => Histogram;
} {
  const counts = bounds.map(() => 0);
  let count = 0;
  let sumMs = 0;
  return {
    add: (ms) => {
      count += 1;
      sumMs += ms;
      const place = bounds.findIndex((mostMs) => ms <= mostMs);
      if (place >= 0) counts[place] = (counts[place] ?? 0) + 1;
    },
    now: () => {
      let below = 0;
      const buckets = bounds.map((mostMs, i) => {
        below += counts[i] ?? 0;
        return { mostMs, count: below };
      });
      return { count, sumMs, buckets };
    },
  };
}
