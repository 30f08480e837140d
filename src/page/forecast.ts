/** An amount that was available at a time. */
export type Point = { readonly atMs: number; readonly amount: number };
/** How an amount changes, per second. `steady`: no direction can be distinguished from chance. */
export type Trend =
  | { readonly kind: 'too-few' }
  | { readonly kind: 'steady' }
  | { readonly kind: 'falling' | 'rising'; readonly perSecond: number };

const WINDOW_MS = 60_000;
/** A shorter time says nothing about a rate. */
const LEAST_MS = 8_000;
const LEAST_POINTS = 4;
/** The share of all pairs of points by which those that agree must outnumber those that differ. */
const AGREED = 0.6;
const JUMP = 4;
const JUMP_SHARE = 0.02;
/** The rate of one minute is not extrapolated further than this. */
const AHEAD_MS = 60 * 60_000;

/**
 * The trend of the last minute: the median of the slopes of all pairs (Theil and Sen), which one outlier does not change.
 * What an eviction freed is no trend: only points since the last large jump upwards count.
 */
export function trendOf(points: readonly Point[], nowMs: number): Trend {
  const recent = sinceJump(points.filter(({ atMs }) => atMs > nowMs - WINDOW_MS && atMs <= nowMs));
  const [first, last] = [recent[0], recent.at(-1)];
  if (first === undefined || last === undefined) return { kind: 'too-few' };
  if (recent.length < LEAST_POINTS || last.atMs - first.atMs < LEAST_MS) return { kind: 'too-few' };
  const slopes = recent.flatMap((from, i) =>
    recent.slice(i + 1).map((to) => ((to.amount - from.amount) * 1_000) / (to.atMs - from.atMs)),
  );
  const up = slopes.filter((slope) => slope > 0).length;
  const down = slopes.filter((slope) => slope < 0).length;
  const perSecond = medianOf(slopes);
  if (perSecond === 0 || Math.abs(up - down) < AGREED * slopes.length) return { kind: 'steady' };
  return { kind: perSecond < 0 ? 'falling' : 'rising', perSecond };
}

/** Milliseconds until the amount falls to the limit; null: not within an hour at this trend. */
export function crossesInMs(amount: number, limit: number, trend: Trend): number | null {
  if (trend.kind !== 'falling' || amount <= limit) return null;
  const ms = ((amount - limit) / -trend.perSecond) * 1_000;
  return ms <= AHEAD_MS ? ms : null;
}

/**
 * A jump: upwards from the last three by more than half of the range of all points, by far more than they usually
 * change, and by some percent.
 */
function sinceJump(points: readonly Point[]): readonly Point[] {
  const amounts = points.map(({ amount }) => amount);
  const after = amounts.slice(1);
  const usual = medianOf(after.map((amount, i) => Math.abs(amount - (amounts[i] ?? amount))));
  const most = Math.max(...amounts);
  const least = Math.max((most - Math.min(...amounts)) / 2, JUMP * usual, JUMP_SHARE * most);
  const at = after.findLastIndex((amount, i) => amount - medianOf(amounts.slice(Math.max(0, i - 2), i + 1)) > least);
  return points.slice(at + 1);
}

function medianOf(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? (sorted[middle] ?? 0) : ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2;
}
