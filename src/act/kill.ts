import type { Signalled } from '../core/outcome.ts';
import type { ProcessView } from '../core/pod.ts';
import { known, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import {
  anonBytes,
  type CgroupMounts,
  cgroupPathOf,
  isPopulated,
  isSame,
  killAtOnce,
  openMemory,
  openPids,
  processesOf,
} from '../host/cgroupfs.ts';
import { sleep } from '../host/clock.ts';
import { signalInCgroup } from '../host/signal-process.ts';
import type { CgroupRef, Clock } from '../ports.ts';
import { largestProcesses } from './largest-processes.ts';

export type KillOrder = {
  readonly mounts: CgroupMounts;
  readonly ref: CgroupRef;
  readonly clock: Clock;
  /** From the request to end until SIGKILL. 0 or less with `sigterm` first: 2 s, as in the kubelet. */
  readonly graceMs: number;
  readonly first: 'sigterm' | 'sigkill';
  readonly givesBack: 'memory' | 'pids';
  /** Its reason `{ first, graceMs }` cuts the grace (D4). */
  readonly hasten: AbortSignal;
  /** Asks in the victim's own way in place of SIGTERM; SIGTERM follows where it resolves false. Null: SIGTERM. */
  readonly ask: (() => Promise<boolean>) | null;
  /** With it the grace begins when the pod is told, as long as it says then; else, and till then, with the request. */
  readonly graceFrom?: ((toldMs: MonoMs) => number) | undefined;
  /** Hears when the first process was sent its first SIGTERM or SIGKILL, or the victim was asked in its own way. */
  readonly signalled?: ((how: Signalled['with']) => void) | undefined;
};
export type KillEnd =
  | {
      readonly kind: 'ended';
      readonly via: 'sigterm' | 'sigkill' | 'cgroup.kill' | 'stop-unit' | 'stop-timeout';
      readonly releasedBytes: Reading<number>;
    }
  | { readonly kind: 'survived'; readonly left: readonly ProcessView[]; readonly detail: string }
  /** Nobody was in it, or it was gone already. */
  | { readonly kind: 'gone' };

/** D3: below this a victim has given back. */
const GIVEN_BACK_BYTES = 1024 * 1024;
const LEAST_GRACE_MS = 2_000;
/** Product.md section 7. From the first SIGKILL: processes that join meanwhile do not extend it (beside-a-kubelet H9). */
const KILL_MS = 10_000;
const FIRST_POLL_MS = 1;
const MAX_POLL_MS = 20;
/** So many signals in one go, then the event loop turns. */
const SLICE = 200;
/** SIGTERM is a courtesy: who forks on is left to SIGKILL. */
const SIGTERM_PASSES = 3;
const LEFT_SHOWN = 10;
const LEFT_BUDGET_MS = 20;

/**
 * Ends every process of a cgroup and proves it: request, grace, SIGKILL (`cgroup.kill` where it exists, else rounds)
 * until it is unpopulated or gone and its anonymous memory is back. Bounded; never rejects. The first signals are sent
 * before this function returns its promise.
 */
export async function killCgroup(order: KillOrder): Promise<KillEnd> {
  const before = usageBytes(order);
  const atFirst = progress(order);
  if (atFirst === 'ended') return { kind: 'gone' };
  const politely = order.first === 'sigterm' ? await endPolitely(order) : null;
  if (politely !== null) return { kind: 'ended', via: politely, releasedBytes: released(order, before) };
  const { via, isEmpty } = await endByForce(order, order.first === 'sigkill' ? atFirst : progress(order));
  if (isEmpty) return { kind: 'ended', via, releasedBytes: released(order, before) };
  const { mounts, ref, clock } = order;
  const left = largestProcesses({ mounts, ref, clock, count: LEFT_SHOWN, budgetMs: LEFT_BUDGET_MS });
  const detail = `${KILL_MS / 1_000} s after SIGKILL there are still processes in ${ref.path}`;
  return { kind: 'survived', left: left.known ? left.value : [], detail };
}

/** How it ended within its grace; null when it did not. */
async function endPolitely(order: KillOrder): Promise<'sigterm' | 'stop-unit' | null> {
  const { clock, hasten } = order;
  const startMs = clock.monoMs();
  let killAtMs = startMs + (order.graceMs > 0 ? order.graceMs : LEAST_GRACE_MS);
  const cut = (): void => {
    killAtMs = Math.min(killAtMs, clock.monoMs() + hastenedGraceMs(hasten.reason));
  };
  if (hasten.aborted) cut();
  hasten.addEventListener('abort', cut, { once: true });
  let via: 'sigterm' | 'stop-unit' = order.ask === null ? 'sigterm' : 'stop-unit';
  let isOver = false;
  if (order.ask === null) void signalAll(order, 'SIGTERM', () => isOver);
  else {
    const { graceFrom } = order;
    if (graceFrom !== undefined) killAtMs = Number.POSITIVE_INFINITY;
    void order.ask().then((isAsked) => {
      if (graceFrom !== undefined) killAtMs = Math.min(killAtMs, clock.monoMs() + graceFrom(clock.monoMs()));
      if (isAsked) order.signalled?.('sigterm');
      if (isAsked || isOver) return;
      via = 'sigterm';
      void signalAll(order, 'SIGTERM', () => isOver);
    });
  }
  try {
    const isEnded = await waitUntilEnded(order, () => killAtMs);
    return isEnded ? via : null;
  } finally {
    isOver = true;
    hasten.removeEventListener('abort', cut);
  }
}

/** 0 where the reason says nothing: who hastens wants it to end. */
function hastenedGraceMs(reason: unknown): number {
  if (typeof reason !== 'object' || reason === null) return 0;
  const { first, graceMs } = { first: 'sigkill', graceMs: 0, ...reason };
  return first === 'sigkill' || typeof graceMs !== 'number' ? 0 : Math.max(0, graceMs);
}

async function waitUntilEnded(order: KillOrder, untilMs: () => MonoMs): Promise<boolean> {
  const { clock } = order;
  let pollMs = FIRST_POLL_MS;
  while (progress(order) !== 'ended') {
    const leftMs = untilMs() - clock.monoMs();
    if (leftMs <= 0) return false;
    await sleep(clock, Math.min(pollMs, leftMs));
    pollMs = Math.min(pollMs * 1.5, MAX_POLL_MS);
  }
  return true;
}

async function endByForce(
  order: KillOrder,
  atFirst: ReturnType<typeof progress>,
): Promise<{ readonly via: 'sigkill' | 'cgroup.kill'; readonly isEmpty: boolean }> {
  const { mounts, ref, clock } = order;
  const endsMs = clock.monoMs() + KILL_MS;
  let via: 'sigkill' | 'cgroup.kill' = 'sigkill';
  let pollMs = FIRST_POLL_MS;
  for (let now = atFirst; ; now = progress(order)) {
    if (now === 'ended') return { via, isEmpty: true };
    // Empty, but its memory is not back: nothing more can be done than wait.
    if (clock.monoMs() >= endsMs) return { via, isEmpty: now === 'empty' };
    if (now === 'populated') {
      const isWhole = mounts.version === 2 && mayKillWhole(order) && killAtOnce(mounts, ref).known;
      if (isWhole) order.signalled?.('sigkill');
      if (isWhole) via = 'cgroup.kill';
      else await signalAll(order, 'SIGKILL', () => clock.monoMs() >= endsMs);
    }
    await sleep(clock, pollMs);
    pollMs = Math.min(pollMs * 1.5, MAX_POLL_MS);
  }
}

/** cgroup.kill asks nobody: where we or pid 1 are in it, processes are signalled one by one instead. */
function mayKillWhole({ mounts, ref }: KillOrder): boolean {
  return [1, process.pid].every((pid) => {
    const path = cgroupPathOf(mounts, pid);
    return path.known && path.value !== ref.path && !path.value.startsWith(`${ref.path}/`);
  });
}

/**
 * Every process, and again those that came while the others were signalled, until nobody is new: v1 has no way to
 * signal a cgroup as a whole, and who forks faster than one pass escapes it.
 */
async function signalAll(order: KillOrder, signal: 'SIGTERM' | 'SIGKILL', isOver: () => boolean): Promise<void> {
  const { mounts, ref, clock } = order;
  const signalled = new Set<number>();
  let isTold = false;
  for (let pass = 1; signal === 'SIGKILL' || pass <= SIGTERM_PASSES; pass++) {
    const pids = processesOf(mounts, ref);
    const fresh = pids.known ? pids.value.filter((pid) => !signalled.has(pid)) : [];
    if (fresh.length === 0) return;
    for (const [i, pid] of fresh.entries()) {
      if (i > 0 && i % SLICE === 0) await sleep(clock, 0);
      if (isOver()) return;
      if (signalInCgroup(mounts, ref, pid, signal) === 'sent' && !isTold) {
        isTold = true;
        order.signalled?.(signal === 'SIGTERM' ? 'sigterm' : 'sigkill');
      }
      signalled.add(pid);
    }
    await sleep(clock, 0);
  }
}

/** Dead processes that nobody has reaped yet; 0 where it cannot be told. */
function unreaped(mounts: CgroupMounts, ref: CgroupRef): number {
  const pids = openPids(mounts, ref.path);
  const current = pids.current();
  pids.close();
  return current.known && isSame(mounts, ref) ? current.value : 0;
}

/** `empty`: nobody is in it, but its anonymous memory has not come back, or cannot be read. */
function progress({ mounts, ref, givesBack }: KillOrder): 'populated' | 'empty' | 'ended' {
  const populated = isPopulated(mounts, ref);
  if (!populated.known) return isSame(mounts, ref) ? 'populated' : 'ended';
  if (populated.value) return 'populated';
  if (givesBack === 'pids' && unreaped(mounts, ref) > 0) return 'empty';
  const anon = anonBytes(mounts, ref);
  if (anon.known) return anon.value < GIVEN_BACK_BYTES ? 'ended' : 'empty';
  return isSame(mounts, ref) ? 'empty' : 'ended';
}

function usageBytes({ mounts, ref }: KillOrder): Reading<number> {
  const memory = openMemory(mounts, ref.path);
  const use = memory.read();
  memory.close();
  // By path: what was read counts only if this very cgroup still has it.
  if (!isSame(mounts, ref)) return unknown('absent', ref.path, 'the cgroup is gone');
  return use.known ? known(use.value.usageBytes) : use;
}

function released(order: KillOrder, before: Reading<number>): Reading<number> {
  if (!before.known) return before;
  const after = usageBytes(order);
  if (after.known) return known(Math.max(0, before.value - after.value));
  return after.why === 'absent' ? before : after;
}
