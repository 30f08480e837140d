import { known, type MonoMs, type Reading } from '../reading.ts';
import { sayDuration } from '../units/duration.ts';
import { sayBytes } from '../units/quantity.ts';

/** Who has the node's memory at one instant, in bytes of what memory.available counts. */
export type MemoryShares = {
  readonly atMs: MonoMs;
  readonly podsBytes: number;
  /** Everybody else: `system.slice`, `kernel`, … */
  readonly others: readonly MemoryShare[];
};
export type MemoryShare = { readonly where: string; readonly bytes: number };
/** How that changed; product.md section 8. */
export type MemoryGrowth = {
  readonly overMs: number;
  /** Less than 0 when the pods gave back. */
  readonly podsBytes: number;
  /** Of all those outside pods that grew. */
  readonly outsideBytes: number;
  /** Those of them that grew most, largest first; at most MAX_GROWN. */
  readonly others: readonly MemoryShare[];
};
/** Part of a decision. `culprit`: what grew most outside pods, if most of the growth is not in pods; else null. */
export type Attribution = {
  readonly overMs: number;
  readonly podsBytes: number;
  /** Of all that grew. */
  readonly totalBytes: number;
  readonly culprit: MemoryShare | null;
};

const MAX_GROWN = 3;
/** Services vary by a few MiB: growth below this is not attributed. */
const LEAST_BYTES = 4 * 2 ** 20;

/** Who is new has grown from nothing. */
export function growthBetween(before: MemoryShares, now: MemoryShares): MemoryGrowth {
  const had = new Map(before.others.map(({ where, bytes }) => [where, bytes]));
  const grown = now.others
    .map(({ where, bytes }) => ({ where, bytes: bytes - (had.get(where) ?? 0) }))
    .filter(({ bytes }) => bytes > 0)
    .toSorted((a, b) => b.bytes - a.bytes);
  return {
    overMs: Math.round(now.atMs - before.atMs),
    podsBytes: now.podsBytes - before.podsBytes,
    outsideBytes: grown.reduce((sum, { bytes }) => sum + bytes, 0),
    others: grown.slice(0, MAX_GROWN),
  };
}

/**
 * Is most of what grew outside pods? Then pods may be the wrong ones to go, and a person should hear who it was. Where
 * pods gave back more than that, a pod that ended hides how much another grew: no culprit is named.
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

/** A sentence's half about the culprit, to stand after the decision; '' when there is none. `where` may be a tenant's: escape. */
export function sayCulprit(growth: Reading<Attribution> | undefined): string {
  if (growth === undefined || !growth.known || growth.value.culprit === null) return '';
  const { overMs, totalBytes, culprit } = growth.value;
  const last = sayDuration(Math.max(1, Math.round(overMs / 1_000)) * 1_000);
  const took = `${culprit.where} took ${sayBytes(culprit.bytes)} (of ${sayBytes(totalBytes)})`;
  return `most of the growth of the last ${last} was not in pods: ${took}`;
}
