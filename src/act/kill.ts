import type { Signalled } from '../core/outcome.ts';
import { givenSeconds } from '../core/pod/grace.ts';
import type { ProcessView } from '../core/pod/pod.ts';
import { known, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import { cgroupPathOf } from '../host/cgroup-members.ts';
import { openMemory } from '../host/cgroup-memory.ts';
import type { CgroupMounts } from '../host/cgroup-mounts.ts';
import {
  anonBytes,
  countUnreaped,
  GIVEN_BACK_BYTES,
  isPopulated,
  isSame,
  killAtOnce,
  processesOf,
} from '../host/cgroupfs.ts';
import { sleep, uptimeMs } from '../host/clock.ts';
import type { DyingHelp } from '../host/dying.ts';
import { processName, processState, rssBytes } from '../host/procfs.ts';
import type { CgroupRef, Clock } from '../ports.ts';
import { rssOf, type Spent, spares, successorsIn } from './successors.ts';
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
  /** Asked when it is empty: does who ends it still clean up for it (ExecStopPost=)? Waited for within the grace. */
  readonly isCleaningUp?: (() => Promise<boolean>) | undefined;
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

/** An order that is carried out. */
type Kill = KillOrder & {
  readonly sweep: Sweep;
  /** Those that were sent SIGKILL. */
  readonly killed: Set<number>;
  readonly spent: Spent;
};

/**
 * Ends every process of a cgroup and proves it: request, grace, SIGKILL (`cgroup.kill` where it exists, else rounds)
 * until it is unpopulated or gone and its anonymous memory is back. Bounded; never rejects. The first signals are sent
 * before this function returns its promise.
 */
export async function killCgroup(order: KillOrder): Promise<KillEnd> {
  const { mounts, ref, clock } = order;
  const before = usageBytes(order);
  const kill: Kill = {
    ...order,
    sweep: createSweep(mounts, ref, clock),
    killed: new Set(),
    spent: { sinceBootMs: null, wasEmpty: false },
  };
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
    const left = leftIn(kill);
    const detail = `processes are still in ${ref.path} ${KILL_MS / 1_000} s after SIGKILL: ${sayLeft(kill, left)}`;
    return { kind: 'survived', left: left.known ? left.value.slice(0, LEFT_SHOWN).flatMap(viewOf) : [], detail };
  } finally {
    kill.sweep.close();
  }
}

/** How it ended within its grace; null when it did not. */
async function endPolitely(kill: Kill): Promise<'sigterm' | 'stop-unit' | 'spared' | null> {
  const { clock, hasten, ask } = kill;
  const graceFrom = (ask === null ? undefined : kill.graceFrom) ?? (() => givenSeconds(kill.graceMs / 1_000) * 1_000);
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
  let needNotEnd = false;
  const told = once(() => {
    kill.signalled?.('sigterm');
    graceBegins();
  });
  const sent = (): void => {
    via = 'sigterm';
    told();
  };
  const isSpared = (): boolean => false;
  const signal = (): Promise<unknown> => kill.sweep.signal('SIGTERM', { isOver: () => isOver, sent, isSpared });
  const signalInstead = (): void => {
    via = 'sigterm';
    // Also where nobody could be signalled: SIGKILL follows then.
    void signal().then(graceBegins);
  };
  if (ask === null) signalInstead();
  else {
    void ask().then((asked) => {
      if (asked === 'told') told();
      else if (asked === 'spared') needNotEnd = true;
      else if (!isOver) signalInstead();
    });
  }
  const forget = kill.whenLeftBehind?.(() => {
    if (!isOver && via === 'stop-unit') void signal();
  });
  try {
    const isEnded = await waitUntilEnded(kill, () => (needNotEnd ? Number.NEGATIVE_INFINITY : killAtMs()));
    if (isEnded) return via;
    return needNotEnd ? 'spared' : null;
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
  for (;;) {
    const isEnded = (await progress(kill)) === 'ended';
    const hasMore = isEnded && (await kill.isCleaningUp?.()) === true;
    if (isEnded && !hasMore) return true;
    const leftMs = untilMs() - clock.monoMs();
    if (leftMs <= 0) {
      // What cleans up is as late as the pod itself would be.
      Object.assign(kill.spent, { sinceBootMs: null, wasEmpty: false });
      return hasMore && (await progress(kill)) === 'ended';
    }
    await sleep(clock, Math.min(pollMs, leftMs));
    pollMs = Math.min(pollMs * 1.5, MAX_POLL_MS);
  }
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
  const { clock } = kill;
  const beganMs = clock.monoMs();
  const endsMs = beganMs + KILL_MS;
  let helpAtMs = beganMs + HELP_MS;
  const isOver = (): boolean => clock.monoMs() >= endsMs;
  const told = once(() => kill.signalled?.('sigkill'));
  const tellResisting = once(() => {
    const who = sayLeft(kill, leftIn(kill));
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
      const atOnce = killWhole(kill);
      const isWhole = atOnce !== null;
      if (isWhole) told();
      if (isWhole) via = 'cgroup.kill';
      const sent = atOnce ?? (await signalAll(kill, isOver, told));
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

/** Whom SIGKILL was sent to, all at the same moment: those listed before. Null: it is to go from process to process. */
function killWhole(kill: Kill): readonly number[] | null {
  const { mounts, ref, spent, killed } = kill;
  if (mounts.version === 1 || spent.sinceBootMs !== null || !mayKillWhole(kill)) return null;
  const pids = listed(kill);
  const uptime = uptimeMs();
  if (!killAtOnce(mounts, ref).known) return null;
  for (const pid of pids) killed.add(pid);
  if (uptime.known) spent.sinceBootMs = uptime.value;
  return pids;
}

/** Whom SIGKILL was sent to. */
async function signalAll(kill: Kill, isOver: () => boolean, told: () => void): Promise<readonly number[]> {
  const { sweep, killed, spent } = kill;
  const pids: number[] = [];
  const sent = (pid: number): void => {
    told();
    killed.add(pid);
    pids.push(pid);
  };
  const allSentMs = await sweep.signal('SIGKILL', { isOver, sent, isSpared: spares(kill) });
  spent.sinceBootMs ??= allSentMs;
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

/** Who is still there. */
function leftIn({ mounts, ref }: Kill): Reading<readonly number[]> {
  const pids = processesOf(mounts, ref);
  return pids.known ? known(pids.value.filter((pid) => processState(pid).known)) : pids;
}

function viewOf(pid: number): readonly ProcessView[] {
  const [rss, name] = [rssBytes(pid), processName(pid)];
  return rss.known ? [{ pid, name: name.known ? name.value : '', rssBytes: rss.value }] : [];
}

/** Of each: pid, name, state, and why it was not signalled or has not ended. */
function sayLeft({ sweep, killed }: Kill, left: Reading<readonly number[]>): string {
  if (!left.known) return `the remaining processes cannot be listed: ${left.detail}`;
  const refused = sweep.refused();
  const shown = left.value.slice(0, LEFT_SHOWN).map((pid) => {
    const [state, name] = [processState(pid), processName(pid)];
    const how = refused.get(pid);
    const sent = killed.has(pid) ? 'was sent SIGKILL but has not ended' : 'has just started';
    const why = how === undefined ? sent : WHY_NOT[how];
    return `process ${pid} (${name.known ? name.value : 'no name'}, state ${state.known ? state.value : 'unknown'}) ${why}`;
  });
  const more = left.value.length - shown.length;
  return [...shown, ...(more > 0 ? [`and ${more} more`] : [])].join('; ');
}

/** cgroup.kill asks nobody: where we or pid 1 are in it, processes are signalled one by one instead. */
function mayKillWhole({ mounts, ref }: KillOrder): boolean {
  return [1, process.pid].every((pid) => {
    const path = cgroupPathOf(mounts, pid);
    return path.known && path.value !== ref.path && !path.value.startsWith(`${ref.path}/`);
  });
}

/** Dead processes that nobody has reaped yet; 0 where it cannot be told. */
export function unreaped(mounts: CgroupMounts, ref: CgroupRef): number {
  const count = isSame(mounts, ref) ? countUnreaped(mounts, ref) : null;
  return count?.known === true ? count.value : 0;
}

type Helped = ReturnType<DyingHelp['begin']>;
type Progress = 'populated' | 'empty' | 'ended';

const progress = async (kill: Kill): Promise<Progress> =>
  progressOf(kill, kill.mounts.version === 2 ? isPopulated(kill.mounts, kill.ref) : await kill.sweep.isPopulated());

/** `empty`: nobody is in it but who came after its end, and its anonymous memory has not come back, or cannot be read. */
function progressOf(kill: Kill, populated: Reading<boolean>): Progress {
  const { mounts, ref, givesBack, spent } = kill;
  if (!populated.known) return isSame(mounts, ref) ? 'populated' : 'ended';
  const successors = populated.value ? successorsIn(kill) : [];
  if (successors === null) return 'populated';
  if (populated.value && spent.wasEmpty) return 'ended';
  const uptime = uptimeMs();
  if (!populated.value && !spent.wasEmpty && uptime.known)
    Object.assign(spent, { sinceBootMs: uptime.value, wasEmpty: true });
  const isReapTime = uptime.known && uptime.value - (spent.sinceBootMs ?? uptime.value) < REAP_MS;
  if (givesBack === 'pids' && isReapTime && unreaped(mounts, ref) > 0) return 'empty';
  const anon = anonBytes(mounts, ref);
  if (!anon.known) return isSame(mounts, ref) ? 'empty' : 'ended';
  // Read after it: what they hold grows.
  return anon.value < GIVEN_BACK_BYTES + rssOf(successors) ? 'ended' : 'empty';
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
