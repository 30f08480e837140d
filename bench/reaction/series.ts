import { atLeast, atMost, type Bar, quantile } from '../result.ts';

/** One hog from its start to its end. Times are CLOCK_MONOTONIC, as the hog itself wrote them down. */
export type Breach = {
  /** The kernel counts as first whenever it killed in this node. Nobody: not within a minute. */
  readonly endedBy: 'peer' | 'kernel' | 'nobody';
  /** From the crossing to its last moment; null: it was ended before it crossed. */
  readonly reactionMs: number | null;
  /** From its last moment until the node has its memory again. */
  readonly backMs: number;
  /** Its rate until the crossing, a second; null: not known. */
  readonly rateMiB: number | null;
  /** Somebody killed the pod that did nothing. */
  readonly isOtherKilled: boolean;
};

/** All breaches at one rate beside one peer: what a result file holds. */
export type Row = {
  readonly peer: string;
  /** As asked for: MiB a second, or "max". */
  readonly rate: string;
  /** Grows a little beyond the crossing and then stays: nothing but the peer can end it. */
  readonly isStaying: boolean;
  readonly rateMiB: number | null;
  readonly runs: number;
  /**
   * Left out of all else: what the peer looks at had not crossed when the kernel killed. earlyoom looks at the whole
   * machine's MemAvailable, which the work of others moves away from this node's.
   */
  readonly uncrossed: number;
  /** The right pod was ended, and the kernel killed nothing. */
  readonly inTime: number;
  readonly kernelKills: number;
  readonly otherKills: number;
  /** Of these: before it crossed, so without a reaction. */
  readonly beforeCrossing: number;
  /** Of the runs in time, ascending. */
  readonly reactionMs: readonly number[];
  /** How long the others lived on after the crossing, ascending: the reaction would have been longer. */
  readonly lostMs: readonly number[];
  readonly backMs: readonly number[];
};

export const PRODUCT = 'nodewarden';
/** The same with a hog whose cgroup appears when it begins to grow: the agent has never seen it. */
export const FRESH = 'nodewarden, fresh pod';
export const BARE = 'kill at once';
export const SLOW = 'looks each 10 s';
export const EARLYOOM = 'earlyoom';

const isInTime = ({ endedBy, isOtherKilled }: Breach): boolean => endedBy === 'peer' && !isOtherKilled;
const ascending = (values: readonly (number | null)[]): readonly number[] =>
  values
    .filter((value) => value !== null)
    .map(thousandths)
    .sort((a, b) => a - b);
const thousandths = (value: number): number => Math.round(value * 1000) / 1000;
const orNull = (value: number): number | null => (Number.isNaN(value) ? null : Math.round(value));

export function rowOf(peer: string, rate: string, isStaying: boolean, all: readonly Breach[]): Row {
  const breaches = all.filter(({ endedBy, reactionMs }) => endedBy !== 'kernel' || reactionMs !== null);
  const mine = breaches.filter(isInTime);
  const lost = breaches.filter((one) => !isInTime(one));
  return {
    peer,
    rate,
    isStaying,
    rateMiB: orNull(quantile(ascending(breaches.map(({ rateMiB }) => rateMiB)), 0.5)),
    runs: breaches.length,
    uncrossed: all.length - breaches.length,
    inTime: mine.length,
    kernelKills: breaches.filter(({ endedBy }) => endedBy === 'kernel').length,
    otherKills: breaches.filter(({ isOtherKilled }) => isOtherKilled).length,
    beforeCrossing: mine.filter(({ reactionMs }) => reactionMs === null).length,
    reactionMs: ascending(mine.map(({ reactionMs }) => reactionMs)),
    lostMs: ascending(lost.map(({ reactionMs }) => reactionMs)),
    backMs: ascending(mine.map(({ backMs }) => backMs)),
  };
}

/** Of the reactions of all runs. A run that was lost counts with the time that it lived on, so the true one may be longer. */
export function reactionOf(
  { reactionMs, lostMs }: Row,
  q: number,
): { readonly ms: number; readonly isAtLeast: boolean } {
  const ms = quantile([...reactionMs, ...lostMs], q);
  return { ms, isAtLeast: lostMs.some((one) => one <= ms) };
}

/** Null: it never ran. */
export const shareInTime = ({ inTime, runs }: Row): number | null => (runs === 0 ? null : inTime / runs);

const median = (row: Row | undefined): number => (row === undefined ? Number.NaN : reactionOf(row, 0.5).ms);

/** product.md section 12: the record of a decision is waited for, so the disk has a say. */
const MEDIAN_MS = { fastDisk: 5, slowDisk: 8, isFastBelow: 1 };

/** What is promised of the reaction. On an emulated machine only what compares runs beside each other. */
export function barsOf(rows: readonly Row[], isEmulated: boolean, fsyncMs: number): readonly Bar[] {
  const medianMs = fsyncMs < MEDIAN_MS.isFastBelow ? MEDIAN_MS.fastDisk : MEDIAN_MS.slowDisk;
  const find = (peer: string, rate: string, isStaying = false): Row | undefined =>
    rows.find((row) => row.peer === peer && row.rate === rate && row.isStaying === isStaying);
  const bars: Bar[] = [];
  const ours = rows.filter(({ peer }) => peer === PRODUCT || peer === FRESH);
  for (const row of ours.filter(({ isStaying }) => !isStaying)) {
    const at = `${row.peer === FRESH ? 'fresh pod, ' : ''}${row.rate} MiB/s`;
    if (!isEmulated) {
      bars.push(atMost(`crossing to SIGKILL, median, ${at}`, medianMs, median(row), 'ms'));
      bars.push(atMost(`crossing to SIGKILL, p99 of ${row.runs}, ${at}`, 25, reactionOf(row, 0.99).ms, 'ms'));
    }
    // What a fresh hog gives back it took at its rate, and a bare kill ends one that rested before.
    if (row.peer === FRESH) continue;
    const bare = find(BARE, row.rate);
    if (bare !== undefined) {
      const times = quantile(row.backMs, 0.5) / quantile(bare.backMs, 0.5);
      bars.push(atMost(`memory back, median, ${at}`, 1.3, times, 'times a bare kill'));
    }
    const other = find(EARLYOOM, row.rate);
    if (other !== undefined) bars.push(atMost(`median, ${at}`, 0.2, median(row) / median(other), 'of earlyoom'));
  }
  const runs = ours.reduce((sum, row) => sum + row.runs + row.uncrossed, 0);
  const sum = (of: (row: Row) => number): number =>
    runs === 0 ? Number.NaN : ours.reduce((all, row) => all + of(row), 0);
  bars.push(
    atMost(
      `kills by the kernel, of ${runs} runs`,
      0,
      sum(({ kernelKills, uncrossed }) => kernelKills + uncrossed),
      'runs',
    ),
  );
  bars.push(
    atMost(
      `not the right pod, not in time, or before the crossing, of ${runs} runs`,
      0,
      sum((row) => row.runs - row.inTime + row.beforeCrossing + row.uncrossed),
      'runs',
    ),
  );
  for (const slow of rows.filter(({ peer, isStaying }) => peer === SLOW && isStaying)) {
    const times = median(slow) / median(find(PRODUCT, slow.rate, true));
    bars.push(atLeast('a loop of 10 s takes, median, a hog that stays', 500, times, 'times as long'));
  }
  return bars;
}
