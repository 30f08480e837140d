import { atMost, type Bar } from '../result.ts';
import type { DiskRow } from './disk.ts';
import type { LookRow } from './look.ts';
import type { RankRow } from './rank.ts';
import type { StatusRow } from './status.ts';

/** What was run of the bench. */
export type Parts = {
  readonly rank?: readonly RankRow[];
  readonly look?: readonly LookRow[];
  readonly status?: StatusRow;
  readonly disk?: DiskRow;
};

const RANK_MS: { readonly [pods: number]: number } = { 1000: 3, 10000: 40 };
/** A pod of many costs no more than this times one of few. */
const LINEAR = 1.5;
const LATE_MS = 25;

export function barsOf({ rank = [], look = [], status, disk }: Parts): readonly Bar[] {
  return [
    ...rank.map(({ pods, medianMs }) =>
      atMost(`ranking ${pods} pods, median`, RANK_MS[pods] ?? Number.NaN, medianMs, 'ms'),
    ),
    ...look.map(({ pods, shape, look, kept }) =>
      atMost(`a look at ${pods} pods (${shape})`, 3, kept === null ? Number.NaN : look.us / kept.us, 'times C'),
    ),
    ...linear(look),
    ...(status === undefined ? [] : [atMost(`status with ${status.pods} pods, median`, 50, status.medianMs, 'ms')]),
    ...(disk === undefined
      ? []
      : [
          atMost(`a timer while ${disk.files} files are walked, p99`, LATE_MS, disk.gapP99Ms, 'ms late'),
          atMost('oldest figure of a directory', 60, disk.oldestSeconds, 's'),
        ]),
  ];
}

/** Of each shape: a pod in the largest look beside one in the smallest with a hundred or more, where fixed costs are small. */
function linear(rows: readonly LookRow[]): readonly Bar[] {
  return [...new Set(rows.map(({ shape }) => shape))].flatMap((shape) => {
    const ofShape = rows.filter((row) => row.shape === shape && row.pods >= 100).toSorted((a, b) => a.pods - b.pods);
    const [few, many] = [ofShape[0], ofShape.at(-1)];
    if (few === undefined || many === undefined || few === many) return [];
    const times = many.look.us / many.pods / (few.look.us / few.pods);
    return [atMost(`a pod in a look at ${many.pods} beside one at ${few.pods} (${shape})`, LINEAR, times, 'times')];
  });
}
