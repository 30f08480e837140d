import type { MonoMs } from '../../core/reading.ts';

/** From and to in milliseconds; `toMs` is infinity while it lasts. */
export type Interval = { readonly fromMs: MonoMs; readonly toMs: MonoMs };
type Edge = { readonly atMs: MonoMs; readonly isOn: boolean };

/** Edges in order of time; repeated ones say nothing new. */
export function intervalsOf(edges: readonly Edge[], startsOn = false): readonly Interval[] {
  const intervals: Interval[] = [];
  let sinceMs: MonoMs | null = startsOn ? 0 : null;
  for (const { atMs, isOn } of edges) {
    if (isOn) sinceMs ??= atMs;
    else if (sinceMs !== null) {
      intervals.push({ fromMs: sinceMs, toMs: atMs });
      sinceMs = null;
    }
  }
  if (sinceMs !== null) intervals.push({ fromMs: sinceMs, toMs: Number.POSITIVE_INFINITY });
  return intervals;
}

/** Where both are. Each list is in order and without overlaps. */
export function both(a: readonly Interval[], b: readonly Interval[]): readonly Interval[] {
  return a.flatMap((one) =>
    b.flatMap((other) => {
      const fromMs = Math.max(one.fromMs, other.fromMs);
      const toMs = Math.min(one.toMs, other.toMs);
      return fromMs < toMs ? [{ fromMs, toMs }] : [];
    }),
  );
}

/** In order, overlaps joined. */
export function joined(intervals: readonly Interval[]): readonly Interval[] {
  const all: Interval[] = [];
  for (const next of intervals.toSorted((a, b) => a.fromMs - b.fromMs)) {
    const last = all.at(-1);
    if (last === undefined || next.fromMs > last.toMs) all.push(next);
    else all[all.length - 1] = { fromMs: last.fromMs, toMs: Math.max(last.toMs, next.toMs) };
  }
  return all;
}

export function lengthOf(intervals: readonly Interval[]): number {
  return intervals.reduce((sum, { fromMs, toMs }) => sum + toMs - fromMs, 0);
}
