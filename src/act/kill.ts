import type { Signalled } from '../core/outcome.ts';
import type { ProcessView } from '../core/pod.ts';
import { known, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import {
  anonBytes,
  type CgroupMounts,
  cgroupPathOf,
  GIVEN_BACK_BYTES,
  isPopulated,
  isSame,
  killAtOnce,
  openMemory,
  openPids,
  processesOf,
} from '../host/cgroupfs.ts';
import { sleep, uptimeMs } from '../host/clock.ts';
import type { DyingHelp } from '../host/dying.ts';
import { processName, processState } from '../host/procfs.ts';
import { MS_PER_TICK, startTicks } from '../host/workload.ts';
import type { CgroupRef, Clock } from '../ports.ts';
import { largestProcesses } from './largest-processes.ts';
import { createSweep, type NotSent, type Sweep } from './sweep.ts';

export type KillOrder = {
  readonly mounts: CgroupMounts;
  readonly ref: CgroupRef;
  readonly clock: Clock;
  /** From the first signal until SIGKILL. 0 or less with `sigterm` first: 2 s, as in the kubelet. */
  readonly graceMs: number;
  readonly first: 'sigterm' | 'sigkill';
  readonly givesBack: 'memory' | 'pids';
  /** Its reason `{ first, graceMs }` cuts the grace (D4). */
  readonly hasten: AbortSignal;
  /** Asks in the victim's own way in place of SIGTERM; SIGTERM follows where it was not told so. Null: SIGTERM. */
  readonly ask: (() => Promise<Asked>) | null;
  /** Runs it when that way has come to its end and may have left processes untold: SIGTERM follows. Absent: it leaves none. */
  readonly whenLeftBehind?: ((run: () => void) => () => void) | undefined;
  /** How long the grace of a pod is that was asked in its own way and told then; absent: `graceMs`. */
  readonly graceFrom?: ((toldMs: MonoMs) => number) | undefined;
  /** What its grace is at least now; it may grow while it runs. Absent: nothing. */
  readonly leastGraceMs?: (() => number) | undefined;
  readonly help?: DyingHelp | undefined;
  /** Hears who could not be signalled, or did not end within a second of SIGKILL, and in which state. Null: nobody is left. */
  readonly resists?: ((who: string | null) => void) | undefined;
  /** Hears when the first process was sent its first SIGTERM or SIGKILL, or the victim was asked in its own way. */
  readonly signalled?: ((how: Signalled['with']) => void) | undefined;
};
/** `spared`: it need not end any more, and has not been told. */
export type Asked = 'told' | 'not-told' | 'spared';
export type KillEnd =
  | {
      readonly kind: 'ended';
      readonly via: 'sigterm' | 'sigkill' | 'cgroup.kill' | 'stop-unit' | 'stop-timeout';
      readonly releasedBytes: Reading<number>;
      /** The dead that still hold their process ids: nobody has reaped them. */
      readonly unreaped: number;
    }
  | { readonly kind: 'survived'; readonly left: readonly ProcessView[]; readonly detail: string }
  /** Nobody was in it, or it was gone already. */
  | { readonly kind: 'gone' }
  | { readonly kind: 'spared' };

const LEAST_GRACE_MS = 2_000;
/** Product.md section 7. From the first SIGKILL: processes that join meanwhile do not extend it (beside-a-kubelet H9). */
const KILL_MS = 10_000;
/** The dead are waited for so long to be reaped; the rest is D15, and a finding. */
const REAP_MS = 3_000;
/** D3: who is not dead by then may hold nobody back. */
const RESISTS_MS = 1_000;
/** Who dies by itself is gone by then. */
const HELP_MS = 20;
const HELP_AGAIN_MS = 100;
const FIRST_POLL_MS = 1;
const MAX_POLL_MS = 20;
const LEFT_SHOWN = 10;
const LEFT_BUDGET_MS = 20;
/** Of more processes the first ones are looked at. */
const MAX_AGED = 1_000;

/** An order that is carried out. */
type Kill = KillOrder & {
  readonly sweep: Sweep;
  /** When nobody was in it any more, since boot; null: that was not seen yet. */
  readonly emptied: { sinceBootMs: number | null };
};

/**
 * Ends every process of a cgroup and proves it: request, grace, SIGKILL (`cgroup.kill` where it exists, else rounds)
 * until it is unpopulated or gone and its anonymous memory is back. Bounded; never rejects. The first signals are sent
 * before this function returns its promise.
 */
export async function killCgroup(order: KillOrder): Promise<KillEnd> {
  const { mounts, ref, clock } = order;
  const before = usageBytes(order);
  const kill: Kill = { ...order, sweep: createSweep(mounts, ref, clock), emptied: { sinceBootMs: null } };
  const endOf = (via: Extract<KillEnd, { kind: 'ended' }>['via']): KillEnd => {
    const releasedBytes = released(order, before);
    return { kind: 'ended', via, releasedBytes, unreaped: unreaped(mounts, ref) };
  };
  try {
    const atFirst = progressOf(kill, isPopulated(mounts, ref));
    if (atFirst === 'ended') return { kind: 'gone' };
    const politely = order.first === 'sigterm' ? await endPolitely(kill) : null;
    if (politely === 'spared') return { kind: 'spared' };
    if (politely !== null) return endOf(politely);
    const { via, isEmpty } = await endByForce(kill, order.first === 'sigkill' ? atFirst : await progress(kill));
    if (isEmpty) return endOf(via);
    const left = largestProcesses({ mounts, ref, clock, count: LEFT_SHOWN, budgetMs: LEFT_BUDGET_MS });
    const detail = `${KILL_MS / 1_000} s after SIGKILL there are still processes in ${ref.path}: ${sayLeft(kill)}`;
    return { kind: 'survived', left: left.known ? left.value : [], detail };
  } finally {
    kill.sweep.close();
  }
}

/** How it ended within its grace; null when it did not. */
async function endPolitely(kill: Kill): Promise<'sigterm' | 'stop-unit' | 'spared' | null> {
  const { clock, hasten, ask } = kill;
  const graceFrom =
    (ask === null ? undefined : kill.graceFrom) ?? (() => (kill.graceMs > 0 ? kill.graceMs : LEAST_GRACE_MS));
  // Until it is told its grace has not begun.
  let toldMs = Number.POSITIVE_INFINITY;
  let endsMs = Number.POSITIVE_INFINITY;
  let cutMs = Number.POSITIVE_INFINITY;
  const graceBegins = (): void => {
    toldMs = Math.min(toldMs, clock.monoMs());
    endsMs = Math.min(endsMs, clock.monoMs() + graceFrom(clock.monoMs()));
  };
  const cut = (): void => {
    cutMs = Math.min(cutMs, clock.monoMs() + hastenedGraceMs(hasten.reason));
  };
  const killAtMs = (): MonoMs => Math.min(cutMs, Math.max(endsMs, toldMs + (kill.leastGraceMs?.() ?? 0)));
  if (hasten.aborted) cut();
  hasten.addEventListener('abort', cut, { once: true });
  let via: 'sigterm' | 'stop-unit' = ask === null ? 'sigterm' : 'stop-unit';
  let isOver = false;
  let isSpared = false;
  const told = once(() => {
    kill.signalled?.('sigterm');
    graceBegins();
  });
  const sent = (): void => {
    via = 'sigterm';
    told();
  };
  const signal = (): Promise<void> => kill.sweep.signal('SIGTERM', { isOver: () => isOver, sent });
  const signalInstead = (): void => {
    via = 'sigterm';
    // Also where nobody could be signalled: SIGKILL follows then.
    void signal().then(graceBegins);
  };
  if (ask === null) signalInstead();
  else {
    void ask().then((asked) => {
      if (asked === 'told') told();
      else if (asked === 'spared') isSpared = true;
      else if (!isOver) signalInstead();
    });
  }
  const forget = kill.whenLeftBehind?.(() => {
    if (!isOver && via === 'stop-unit') void signal();
  });
  try {
    const isEnded = await waitUntilEnded(kill, () => (isSpared ? Number.NEGATIVE_INFINITY : killAtMs()));
    if (isEnded) return via;
    return isSpared ? 'spared' : null;
  } finally {
    isOver = true;
    forget?.();
    hasten.removeEventListener('abort', cut);
  }
}

/** 0 where the reason says nothing: who hastens wants it to end. */
function hastenedGraceMs(reason: unknown): number {
  if (typeof reason !== 'object' || reason === null) return 0;
  const { first, graceMs } = { first: 'sigkill', graceMs: 0, ...reason };
  return first === 'sigkill' || typeof graceMs !== 'number' ? 0 : Math.max(0, graceMs);
}

async function waitUntilEnded(kill: Kill, untilMs: () => MonoMs): Promise<boolean> {
  const { clock } = kill;
  let pollMs = FIRST_POLL_MS;
  while ((await progress(kill)) !== 'ended') {
    const leftMs = untilMs() - clock.monoMs();
    if (leftMs <= 0) return false;
    await sleep(clock, Math.min(pollMs, leftMs));
    pollMs = Math.min(pollMs * 1.5, MAX_POLL_MS);
  }
  return true;
}

type Forced = { readonly via: 'sigkill' | 'cgroup.kill'; readonly isEmpty: boolean };

async function endByForce(kill: Kill, atFirst: Progress): Promise<Forced> {
  const help = kill.help?.begin(kill.ref) ?? null;
  try {
    return await forceUntilEnded(kill, help, atFirst);
  } finally {
    help?.end();
  }
}

async function forceUntilEnded(kill: Kill, help: Helped | null, atFirst: Progress): Promise<Forced> {
  const { mounts, ref, clock } = kill;
  const beganMs = clock.monoMs();
  const endsMs = beganMs + KILL_MS;
  let helpAtMs = beganMs + HELP_MS;
  const isOver = (): boolean => clock.monoMs() >= endsMs;
  const told = once(() => kill.signalled?.('sigkill'));
  const tellResisting = once(() => {
    const who = sayLeft(kill);
    if (who !== '') kill.resists?.(who);
  });
  const tellEmpty = once(() => kill.resists?.(null));
  let via: Forced['via'] = 'sigkill';
  let pollMs = FIRST_POLL_MS;
  for (let now = atFirst; ; now = await progress(kill)) {
    if (now === 'ended') return { via, isEmpty: true };
    // Empty, but its memory is not back: nothing more can be done than wait.
    if (isOver()) return { via, isEmpty: now === 'empty' };
    if (now === 'empty') tellEmpty();
    else {
      const isWhole = mounts.version === 2 && mayKillWhole(kill) && killAtOnce(mounts, ref).known;
      if (isWhole) told();
      if (isWhole) via = 'cgroup.kill';
      const sent = isWhole ? listed(kill) : await signalAll(kill, isOver, told);
      if (clock.monoMs() < helpAtMs) help?.killed(sent);
      else {
        help?.remain(listed(kill));
        helpAtMs = clock.monoMs() + HELP_AGAIN_MS;
      }
      const couldNobody = !isWhole && sent.length === 0 && areRefused(kill);
      if (couldNobody || clock.monoMs() >= beganMs + RESISTS_MS) tellResisting();
    }
    await sleep(clock, pollMs);
    pollMs = Math.min(pollMs * 1.5, MAX_POLL_MS);
  }
}

/** Whom SIGKILL was sent to. */
async function signalAll({ sweep }: Kill, isOver: () => boolean, told: () => void): Promise<readonly number[]> {
  const pids: number[] = [];
  const sent = (pid: number): void => {
    told();
    pids.push(pid);
  };
  await sweep.signal('SIGKILL', { isOver, sent });
  return pids;
}

function listed({ mounts, ref }: Kill): readonly number[] {
  const pids = processesOf(mounts, ref);
  return pids.known ? pids.value : [];
}

/** Whoever is there was found and could not be signalled. */
function areRefused(kill: Kill): boolean {
  const refused = kill.sweep.refused();
  return refused.size > 0 && listed(kill).every((pid) => refused.has(pid));
}

function once(run: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    run();
  };
}

const WHY_NOT: { readonly [how in NotSent]: string } = {
  'not-ours': 'may not be signalled',
  refused: 'the kernel refused the signal',
};

/** Who is still there: pid, name, state, and why it was not signalled or has not ended. */
function sayLeft({ mounts, ref, sweep }: Kill): string {
  const pids = processesOf(mounts, ref);
  if (!pids.known) return `who is left cannot be told: ${pids.detail}`;
  const refused = sweep.refused();
  const shown = pids.value.slice(0, LEFT_SHOWN).map((pid) => {
    const [state, name] = [processState(pid), processName(pid)];
    const how = refused.get(pid);
    const why = how === undefined ? 'was sent SIGKILL and has not ended' : WHY_NOT[how];
    return `process ${pid} (${name.known ? name.value : 'no name'}, state ${state.known ? state.value : 'unknown'}) ${why}`;
  });
  const more = pids.value.length - shown.length;
  return [...shown, ...(more > 0 ? [`and ${more} more`] : [])].join('; ');
}

/** cgroup.kill asks nobody: where we or pid 1 are in it, processes are signalled one by one instead. */
function mayKillWhole({ mounts, ref }: KillOrder): boolean {
  return [1, process.pid].every((pid) => {
    const path = cgroupPathOf(mounts, pid);
    return path.known && path.value !== ref.path && !path.value.startsWith(`${ref.path}/`);
  });
}

/** Dead processes that nobody has reaped yet, where nobody lives; 0 where it cannot be told. */
export function unreaped(mounts: CgroupMounts, ref: CgroupRef): number {
  const pids = openPids(mounts, ref.path);
  const current = pids.current();
  pids.close();
  return current.known && isSame(mounts, ref) ? current.value : 0;
}

type Helped = ReturnType<DyingHelp['begin']>;
type Progress = 'populated' | 'empty' | 'ended';

const progress = async (kill: Kill): Promise<Progress> =>
  progressOf(kill, kill.mounts.version === 2 ? isPopulated(kill.mounts, kill.ref) : await kill.sweep.isPopulated());

/** `empty`: nobody is in it, but its anonymous memory has not come back, or cannot be read. */
function progressOf({ mounts, ref, givesBack, emptied }: Kill, populated: Reading<boolean>): Progress {
  if (!populated.known) return isSame(mounts, ref) ? 'populated' : 'ended';
  if (populated.value)
    return emptied.sinceBootMs !== null && isAnother(mounts, ref, emptied.sinceBootMs) ? 'ended' : 'populated';
  const uptime = uptimeMs();
  if (uptime.known) emptied.sinceBootMs ??= uptime.value;
  const isReapTime = uptime.known && uptime.value - (emptied.sinceBootMs ?? uptime.value) < REAP_MS;
  if (givesBack === 'pids' && isReapTime && unreaped(mounts, ref) > 0) return 'empty';
  const anon = anonBytes(mounts, ref);
  if (anon.known) return anon.value < GIVEN_BACK_BYTES ? 'ended' : 'empty';
  return isSame(mounts, ref) ? 'empty' : 'ended';
}

/** D3: whoever came into a cgroup that had been empty was started again, and is not what was to be ended. */
function isAnother(mounts: CgroupMounts, ref: CgroupRef, sinceBootMs: number): boolean {
  const pids = processesOf(mounts, ref);
  return pids.known && pids.value.slice(0, MAX_AGED).every((pid) => startedMs(pid) > sinceBootMs);
}

/** Since boot; one that has gone meanwhile counts for nothing. */
function startedMs(pid: number): number {
  const ticks = startTicks(pid);
  return ticks === null ? Number.POSITIVE_INFINITY : ticks * MS_PER_TICK;
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
