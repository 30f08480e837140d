// What stall-watch.pl wrote down, and what D17 makes of it: by whole samples, not by the agent's own window.
import fs from 'node:fs';
import {
  type RefaultHistory,
  reclaimableBytes,
  refaultRate,
  refaultsAfter,
} from '../../src/core/eviction/reclaimable.ts';

export type Sample = {
  readonly atMs: number;
  /** All tasks of the node, on memory; a counter. */
  readonly stalledMs: number;
  readonly availableShare: number;
  readonly freeSwapMiB: number;
  /** Of the processes that it was told of, in their order. */
  readonly lives: readonly boolean[];
};
export type Stall = { readonly fullShare: number; readonly forMs: number; readonly belowShare: number };

const KIB = 1024;
const PAGE = 4096;
const FIELDS = 17;

/** `reserveBytes`: it changes by an operator's hand only. */
export function readSamples(file: string, reserveBytes: number): readonly Sample[] {
  let history: RefaultHistory = [];
  const lines = fs.readFileSync(file, 'latin1').split('\n').slice(0, -1);
  return lines.map((line) => {
    const [atMs = 0, stalledMs = 0, ...rest] = line.split(' ').map(Number);
    const bytes = rest.slice(0, FIELDS).map((kib) => kib * KIB);
    const [total = 0, swapFree = 0, anon = 0, shmem = 0, unevictable = 0, ...more] = bytes;
    const [slab = 0, stacks = 0, tables = 0, percpu = 0, reclaimable = 0, dirty = 0, writeback = 0, huge = 0] = more;
    const [cached = 0, buffers = 0, activeFile = 0, inactiveFile = 0] = more.slice(8);
    history = refaultsAfter(history, atMs, (rest[FIELDS] ?? 0) * PAGE);
    const available = reclaimableBytes({
      capacityBytes: total,
      anonBytes: anon,
      shmemBytes: shmem,
      freeSwapBytes: swapFree,
      unevictableBytes: unevictable,
      kernelBytes: slab + stacks + tables + percpu,
      slabReclaimableBytes: reclaimable,
      dirtyBytes: dirty,
      writebackBytes: writeback,
      hugetlbPoolBytes: huge,
      reserveBytes,
      fileBytes: cached + buffers,
      activeFileBytes: activeFile,
      inactiveFileBytes: inactiveFile,
      protectedFileBytes: 0,
      refaultBytesPerSecond: refaultRate(history),
    });
    const lives = rest.slice(FIELDS + 1).map((flag) => flag === 1);
    return { atMs, stalledMs, availableShare: available / total, freeSwapMiB: swapFree / KIB / KIB, lives };
  });
}

/** Of the last `forMs` before each sample, the stall since less than `belowShare` was available at all samples. */
export function stallShares(samples: readonly Sample[], { forMs, belowShare }: Stall): readonly number[] {
  let first = 0;
  return samples.map((sample, i) => {
    if (sample.availableShare >= belowShare) first = i + 1;
    while (first < i && (samples[first]?.atMs ?? 0) < sample.atMs - forMs) first += 1;
    const from = samples[first];
    return first > i || from === undefined ? 0 : (sample.stalledMs - from.stalledMs) / forMs;
  });
}

/** The agent samples at other moments than the lab: what it counts of one window may be so much more. */
const SLACK_SHARE = 0.02;

/** When the stall had its share; where it never quite had, when it nearly had; null: not even that. */
export function dueMs(samples: readonly Sample[], stall: Stall): number | null {
  const shares = stallShares(samples, stall);
  const first = (least: number): Sample | undefined => samples[shares.findIndex((share) => share >= least)];
  return (first(stall.fullShare) ?? first(stall.fullShare - SLACK_SHARE))?.atMs ?? null;
}

/** When the memory of the process was free; null: it had some to the end. */
export const endMs = (samples: readonly Sample[], process: number): number | null =>
  samples.find(({ lives }) => lives[process] === false)?.atMs ?? null;
