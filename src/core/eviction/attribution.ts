import { known, type MonoMs, type Reading } from '../reading.ts';
import { sayDuration } from '../units/duration.ts';
import { sayBytes } from '../units/quantity.ts';

/** What holds the node's memory at one instant, in bytes of what memory.available counts. */
export type MemoryShares = {
  readonly atMs: MonoMs;
  readonly podsBytes: number;
  /** The pods that were read one by one, by path. */
  readonly eachPod?: ReadonlyMap<string, number>;
  /** Everything else: `system.slice`, `kernel`, … */
  readonly others: readonly MemoryShare[];
};
export type MemoryShare = { readonly where: string; readonly bytes: number };
/** How the shares changed; product.md section 8. */
export type MemoryGrowth = {
  readonly overMs: number;
  /** Negative if the pods shrank by more than some of them grew. */
  readonly podsBytes: number;
  /** The growth of everything outside pods that grew. */
  readonly outsideBytes: number;
  /** What grew most outside pods, largest first; at most MAX_GROWN. */
  readonly others: readonly MemoryShare[];
};
/** Part of a decision. `culprit`: what grew most outside pods, if most of the growth is outside pods; else null. */
export type Attribution = {
  readonly overMs: number;
  readonly podsBytes: number;
  /** The growth of everything that grew. */
  readonly totalBytes: number;
  readonly culprit: MemoryShare | null;
};

const MAX_GROWN = 3;
/** Services vary by a few MiB: growth below this is not attributed. */
const LEAST_BYTES = 4 * 2 ** 20;

/** A new entry has grown from zero. A pod that ended does not hide how much another one, or its own next run, grew. */
export function growthBetween(before: MemoryShares, now: MemoryShares): MemoryGrowth {
  const had = new Map(before.others.map(({ where, bytes }) => [where, bytes]));
  const grown = now.others
    .map(({ where, bytes }) => ({ where, bytes: bytes - (had.get(where) ?? 0) }))
    .filter(({ bytes }) => bytes > 0)
    .toSorted((a, b) => b.bytes - a.bytes);
  const each = [...(now.eachPod ?? [])].map(([path, bytes]) => bytes - (before.eachPod?.get(path) ?? 0));
  const risenBytes = each.reduce((sum, bytes) => sum + Math.max(0, bytes), 0);
  const netBytes = now.podsBytes - before.podsBytes;
  return {
    overMs: Math.round(now.atMs - before.atMs),
    podsBytes: risenBytes > Math.abs(netBytes) ? risenBytes : netBytes,
    outsideBytes: grown.reduce((sum, { bytes }) => sum + bytes, 0),
    others: grown.slice(0, MAX_GROWN),
  };
}

/**
 * Whether most of the growth is outside pods: then evicting pods may not help, and the culprit is named. If the pods shrank
 * by more than that, a pod that ended may hide how much another one grew that was not read by itself: no culprit is named.
 */
export function isOutsidePods({ podsBytes, outsideBytes }: MemoryGrowth): boolean {
  return outsideBytes >= LEAST_BYTES && outsideBytes > Math.abs(podsBytes);
}

export function attribute(growth: Reading<MemoryGrowth>): Reading<Attribution> {
  if (!growth.known) return growth;
  const { overMs, podsBytes, outsideBytes, others } = growth.value;
  const totalBytes = Math.max(0, podsBytes) + outsideBytes;
  const culprit = isOutsidePods(growth.value) ? (others[0] ?? null) : null;
  return known({ overMs, podsBytes, totalBytes, culprit });
}

/** A clause about the culprit, to append to the decision; '' if there is none. A tenant may have chosen `where`: escape it. */
export function sayCulprit(growth: Reading<Attribution> | undefined): string {
  if (growth === undefined || !growth.known || growth.value.culprit === null) return '';
  const { overMs, totalBytes, culprit } = growth.value;
  const last = sayDuration(Math.max(1, Math.round(overMs / 1_000)) * 1_000);
  const took = `${culprit.where} took ${sayBytes(culprit.bytes)} (of ${sayBytes(totalBytes)})`;
  return `most of the growth of the last ${last} was not in pods: ${took}`;
}
