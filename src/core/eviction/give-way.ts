import type { PodView } from '../pod/pod.ts';
import { hasRequest, isDisk, type Signal } from '../signal.ts';
import { blamedDead, type Held } from './escaped.ts';
import { givesBack } from './gives-back.ts';
import type { Ranked } from './rank.ts';

type Pool = {
  readonly signal: Signal;
  /** In the order of the ranking. */
  readonly entries: readonly Ranked[];
  /** Pods that may not be evicted before more is known of them, or for less than they hold. */
  readonly awaited: readonly Ranked[];
  readonly guarded: (pod: PodView) => boolean;
  readonly lacking: number;
  /** D3. */
  readonly held: Held;
};

/**
 * The pod of the pool to evict. First a pod known to exceed its request, declared ones before others, unless pods of which less
 * is known, or victims, hold many times more. For process IDs instead, the first pod that holds as many as one does that is to
 * blame by its unreaped dead. Then, unless awaited pods may be to blame, a pod with an unknown request, if it is
 * the only one of the pool (C9). Then the rest, beginning with those that others have deleted (C10). Null: none.
 */
export function firstOf(pool: Pool): PodView | null {
  const { signal, entries, awaited, guarded, lacking, held } = pool;
  const said = entries.filter(({ pod }) => pod.unsaid === undefined);
  const mostDead = Math.max(...entries.map(({ pod }) => blamedDead(pod, held)));
  // Those that it passes over hold less, whatever they hold: the ranking leaves out threads and unreaped dead.
  const holdsAsMany = ({ pod }: Ranked): boolean =>
    givesBack(pod, signal) >= mostDead || blamedDead(pod, held) === mostDead;
  const first = mostDead > 0 ? (said.find(holdsAsMany) ?? null) : unguarded(said, signal, guarded);
  const unsaid = entries
    .filter(({ pod }) => pod.unsaid !== undefined)
    .toSorted((a, b) => Number(guarded(a.pod)) - Number(guarded(b.pod)) || compareGiven(signal, a.pod, b.pod));
  const open = unsaid.filter((entry) => !isWithin(signal, entry, lacking));
  const suspects = [...open, ...awaited.filter((entry) => !isWithin(signal, entry, lacking))];
  const mostHeld = Math.max(held.isLeft ? 0 : held.amount, ...suspects.map((entry) => excessOf(signal, entry)));
  if (first !== null && standsIn(signal, first, mostHeld) && isToBlame(signal, first, lacking)) return first.pod;
  const over = open.filter((entry) => isToBlame(signal, entry, lacking));
  const worthIt = over.find((entry) => standsIn(signal, entry, mostHeld));
  if (worthIt !== undefined) return worthIt.pod;
  if (held.amount > 0 || mayBeToBlame(signal, awaited, lacking)) return null;
  // Of several, it is unknown which one exceeds its request: the choice is left to the kernel and their oom_score_adj.
  const unclear = open.filter((entry) => !over.includes(entry));
  if (unclear.length > 0) return unclear.length === 1 ? (unclear[0]?.pod ?? null) : null;
  if (over[0] !== undefined) return over[0].pod;
  return first === null ? (unsaid[0]?.pod ?? null) : beforeInnocent(first, said, pool);
}

/**
 * C9: pods of which more is to come together hold what is lacking, and are not known to be within their requests. No innocent
 * dies for them.
 */
export function mayBeToBlame(signal: Signal, awaited: readonly Ranked[], lacking: number): boolean {
  const suspects = awaited.filter((entry) => !hasRequest(signal) || overRequest(entry) !== false);
  if (suspects.length === 0 || isDisk(signal)) return false;
  return suspects.reduce((sum, { pod }) => sum + givesBack(pod, signal), 0) >= lacking;
}

/** D6: a pod whose owner lost too many pods yields, but only to one that exceeds its request and can stand in for it. */
function unguarded(entries: readonly Ranked[], signal: Signal, guarded: Pool['guarded']): Ranked | null {
  const first = entries[0];
  if (first === undefined) return null;
  if (!hasRequest(signal) || !guarded(first.pod)) return first;
  const isNext = (entry: Ranked): boolean => !guarded(entry.pod) && isOverRequest(entry);
  return entries.find((entry) => isNext(entry) && standsIn(signal, entry, excessOf(signal, first))) ?? first;
}

/** Pods that exceed their request by less than this share of what the pod in whose place they would die does, cannot replace it. */
const LEAST_SHARE = 0.1;

/**
 * Whether it exceeds its request by an amount comparable to what is held by those in whose place it would die. Otherwise its end
 * would free next to nothing, and so would that of the next one.
 */
export const standsIn = (signal: Signal, entry: Ranked, held: number): boolean =>
  excessOf(signal, entry) >= held * LEAST_SHARE;

/** All that it holds, if its request is unknown; how much of a stall is due to it is unknown too. */
export function excessOf(signal: Signal, { pod, row }: Ranked): number {
  const value = row.values.find(({ by }) => by === 'usage-over-request')?.value;
  if (value?.known && typeof value.value === 'number') return value.value;
  const held = givesBack(pod, signal);
  return Number.isFinite(held) ? held : 0;
}

/**
 * beside-a-kubelet.md C10: no pod within its request is evicted while the pods that others have deleted would together free
 * what is lacking. Those come first.
 */
function beforeInnocent(first: Ranked, entries: readonly Ranked[], { signal, lacking }: Pool): PodView {
  if (!hasRequest(signal)) return first.pod;
  const ending = entries.filter(({ pod }) => pod.isDeletedByOthers);
  const amount = ending.reduce((sum, { pod }) => sum + givesBack(pod, signal), 0);
  return amount >= lacking ? (ending[0]?.pod ?? first.pod) : first.pod;
}

/**
 * Whether it is proven to exceed its request. A pod without statistics only ranks as if it did (kubelet-eviction.md 5.5):
 * often its containers do not run, and stopping a DaemonSet's pod again and again frees nothing (D5, D8).
 */
export const isOverRequest = (entry: Ranked): boolean => overRequest(entry) === true;

/** It exceeds its request or, for a signal without requests, holds as much as is lacking. */
export const isToBlame = (signal: Signal, entry: Ranked, lacking: number): boolean =>
  hasRequest(signal) ? isOverRequest(entry) : givesBack(entry.pod, signal) >= lacking;

const isWithin = (signal: Signal, entry: Ranked, lacking: number): boolean =>
  hasRequest(signal) ? overRequest(entry) === false : givesBack(entry.pod, signal) < lacking;

/** Null: unknown. */
function overRequest({ row }: Ranked): boolean | null {
  const { value, isAtLeast } = row.values.find(({ by }) => by === 'over-request') ?? {};
  return value?.known && isAtLeast === undefined ? value.value === true : null;
}

/** More first; not by subtraction: two infinities are equal. */
function compareGiven(signal: Signal, a: PodView, b: PodView): number {
  const [one, other] = [givesBack(a, signal), givesBack(b, signal)];
  return Number(other > one) - Number(one > other);
}
