import { ifKnown, known, type MonoMs, type Reading } from '../core/reading.ts';
import type { KernelsOwn } from '../host/memory/kernels-own.ts';
import type { Meminfo } from '../host/memory/meminfo.ts';
import type { Procfs } from '../host/procfs.ts';

/** Only an operator changes the reserve. */
const PACE_MS = 10_000;
/** By how much the memory without a name may have changed since it was read... */
const MOVED_BYTES = 8 * 1024 ** 2;
/** ...unless that is this short ago: reading it takes longer than a look on a machine with many CPUs. */
const MOVED_PACE_MS = 20;

type Moving = { readonly restBytes: number; readonly unmappedBytes: number };

/** By the meminfo of the present look. What has no name is never counted beyond what it was when it was read. */
export function followKernelsOwn(procfs: Procfs): (atMs: MonoMs, meminfo: Meminfo) => Reading<KernelsOwn> {
  let last: (Moving & { readonly atMs: MonoMs; readonly own: Reading<KernelsOwn> }) | null = null;
  const ownAt = (atMs: MonoMs, now: Moving): Reading<KernelsOwn> => {
    const paceMs = last !== null && hasMoved(last, now) ? MOVED_PACE_MS : PACE_MS;
    if (last?.own.known !== true || atMs - last.atMs >= paceMs) last = { atMs, ...now, own: procfs.kernelsOwn() };
    const fallenBytes = Math.max(0, last.restBytes - now.restBytes);
    return ifKnown(last.own, ({ reserveBytes, unnamedBytes }) =>
      known({ reserveBytes, unnamedBytes: Math.max(0, unnamedBytes - fallenBytes) }),
    );
  };
  return (atMs, meminfo) =>
    ifKnown(meminfo.restBytes, (restBytes) =>
      ifKnown(meminfo.unmappedBytes, (unmappedBytes) => ownAt(atMs, { restBytes, unmappedBytes })),
    );
}

/** Linux hands free pages to the host in batches of 32 blocks of up to 4 MiB (free page reporting)... */
const MOMENT_BYTES = 128 * 1024 ** 2;
/** ...and has taken 14 ms at most for one, in an emulated machine. Meanwhile they are not in MemFree. */
const MOMENT_MS = 30;

/** Up to so much of a rise counts only once it has lasted. A fall counts at once. */
export function createLasting(): (atMs: MonoMs, bytes: number) => number {
  let seen: readonly { readonly atMs: MonoMs; readonly bytes: number }[] = [];
  return (atMs, bytes) => {
    const from = seen.findLastIndex((one) => atMs - one.atMs >= MOMENT_MS);
    seen = [...seen.slice(Math.max(0, from)), { atMs, bytes }];
    return Math.max(bytes - MOMENT_BYTES, Math.min(...seen.map((one) => one.bytes)));
  };
}

function hasMoved(before: Moving, now: Moving): boolean {
  const changes = [now.restBytes - before.restBytes, now.unmappedBytes - before.unmappedBytes];
  return changes.some((bytes) => Math.abs(bytes) > MOVED_BYTES);
}
