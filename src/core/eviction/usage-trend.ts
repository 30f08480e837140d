import type { Observation } from '../observation.ts';
import type { MonoMs } from '../reading.ts';
import { SIGNAL_FACTS, SIGNALS, type Signal, type SignalSample, type Unit } from '../signal.ts';
import type { Point, Proof, State } from '../state/state.ts';

const SPACING_MS = 100;
const KEPT_MS = 3_000;
/** D15: worse means lower than at the proof by more than this share of the capacity. */
const WORSE_SHARE = 0.01;
/**
 * D15: what would reach zero within 30 s takes a tenth of the rest in KEPT_MS. A shorter history must show the same share, so
 * that a step of some pages between two looks does not count as a rate.
 */
const WORSE_LEFT_SHARE = 0.1;
/** D15: a change below this never counts as worse. */
const LEAST_WORSE: { readonly [U in Unit]: (capacity: number) => number } = {
  bytes: () => 0,
  inodes: () => 0,
  // A bounded cgroup may have few process IDs, and every shell script takes some of them briefly.
  pids: () => 10,
  // The remaining processes read their memory back from swap and disk, which stalls too.
  ms: (capacity) => 0.3 * capacity,
};
/**
 * D3: nothing waits for a victim while the signal would reach zero within this time, both at the rate of the last second and
 * at that of its last part, so that what the victim took before it was stopped no longer counts.
 */
const SOON_MS = 10_000;
const RATES_MS = [1_000, 300];

/** Keeps the last seconds of the signals of these shortages, and nothing of the others. */
export function trailAfter(
  before: State['trail'],
  { signals, atMs }: Observation,
  isWanted: (signal: Signal) => boolean,
): State['trail'] {
  const trail: { [S in Signal]?: readonly Point[] } = {};
  for (const signal of SIGNALS) {
    if (!isWanted(signal)) continue;
    const points = (before[signal] ?? []).filter((point) => atMs - point.atMs <= KEPT_MS && point.atMs <= atMs);
    const sample = signals[signal];
    const last = points.at(-1);
    const isDue = sample.known && (last === undefined || sample.value.sampledAtMs - last.atMs >= SPACING_MS);
    const next = isDue ? [...points, { atMs: sample.value.sampledAtMs, available: sample.value.available }] : points;
    if (next.length > 0) trail[signal] = next;
  }
  return trail;
}

/**
 * D3: whether the signal would reach zero soon at the rate of the last second, if `coming` more were freed. Pods other than
 * the victim took no more than `byOthers` since it was chosen.
 */
export function isSoonZero(
  points: readonly Point[],
  { available, sampledAtMs }: SignalSample,
  { coming, byOthers }: { readonly coming: number; readonly byOthers: number },
): boolean {
  return RATES_MS.every((overMs) => {
    const then = points.findLast((point) => sampledAtMs - point.atMs >= overMs);
    if (then === undefined || then.available <= available) return false;
    const fallen = Math.min(then.available - available, byOthers);
    return (available + coming) * (sampledAtMs - then.atMs) <= fallen * SOON_MS;
  });
}

/** D15: whether the signal is so much lower than at the proof of the last kill that the next eviction must not wait. */
export function isWorse(
  signal: Signal,
  { available, capacity, sampledAtMs }: SignalSample,
  proof: Proof,
  points: readonly Point[],
): boolean {
  const atProof = proof.available[signal];
  const least = LEAST_WORSE[SIGNAL_FACTS[signal].unit](capacity);
  const isLower = (than: number, by: number): boolean =>
    than - available > 0 && than - available >= Math.max(by, least);
  if (atProof === undefined) return false;
  // It cannot fall below zero: others have taken what the kill gave back.
  const { resource, unit } = SIGNAL_FACTS[signal];
  if (resource === 'memory' && unit === 'bytes' && atProof === 0 && available === 0)
    return (proof.releasedBytes ?? 0) > WORSE_SHARE * capacity;
  if (!isLower(atProof, 0)) return false;
  if (atProof - available > WORSE_SHARE * capacity) return true;
  const since = [{ atMs: proof.atMs, available: atProof }, ...points.filter(({ atMs }) => atMs >= proof.atMs)];
  return since.some(
    (point) => sampledAtMs - point.atMs <= KEPT_MS && isLower(point.available, WORSE_LEFT_SHARE * available),
  );
}

/** Notes which of the shortage's signals are higher now than they have been since the proof. */
export function withRisen(proof: Proof, { atMs, available }: Pick<Proof, 'atMs' | 'available'>): Proof {
  const highest = { ...proof.available, ...proof.risen?.available };
  const higher = SIGNALS.filter((signal) => (available[signal] ?? 0) > (highest[signal] ?? Number.POSITIVE_INFINITY));
  if (higher.length === 0) return proof;
  const now = Object.fromEntries(higher.map((signal) => [signal, available[signal]]));
  return { ...proof, risen: { atMs, available: { ...proof.risen?.available, ...now } } };
}

/** The values of the shortage's signals when the kill was proven. */
export function proofOf(
  { signals, atMs }: Observation,
  isOf: (signal: Signal) => boolean,
): { readonly atMs: MonoMs; readonly available: { readonly [S in Signal]?: number } } {
  const available: { [S in Signal]?: number } = {};
  for (const signal of SIGNALS) {
    const sample = signals[signal];
    if (isOf(signal) && sample.known) available[signal] = sample.value.available;
  }
  return { atMs, available };
}
