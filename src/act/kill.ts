import type { MonoMs, Reading } from '../core/reading.ts';
import { cgroupPathOf } from '../host/cgroup-members.ts';
import { anonBytes, GIVEN_BACK_BYTES, isPopulated, killAtOnce, processesOf, unreaped } from '../host/cgroupfs.ts';
import { sleep, uptimeMs } from '../host/clock.ts';
import type { DyingHelp } from '../host/dying-help.ts';
import { and } from '../words/phrases.ts';
import { createEscapes, type Escapes, nowSinceBootMs } from './escapes.ts';
import { createGrace } from './grace.ts';
import type { KillEnd, KillOrder } from './kill-order.ts';
import { leftIn, sayLeft, viewsOf } from './left-over.ts';
import { type OomKilled, watchOomKills } from './oom-killed.ts';
import { type UsageWatch, usageBytes, watchUsage } from './released-memory.ts';
import { rssOf, type Spent, spares, successorsIn } from './successors.ts';
import { createSweep, type Sweep } from './sweep.ts';

/**
 * product.md section 7. Counts from the first SIGKILL: processes that join meanwhile do not extend it (beside-a-kubelet
 * H9).
 */
const KILL_MS = 10_000;
/** How long to wait until dead processes are reaped; after that, D15 applies, with a finding. */
const REAP_MS = 3_000;
/** D3: a victim that is not dead by then delays no other eviction. */
const RESISTS_MS = 1_000;
/** A process that dies without help is gone by then. */
const HELP_MS = 20;
const HELP_AGAIN_MS = 100;
const FIRST_POLL_MS = 1;
const MAX_POLL_MS = 20;
/** More than this from one look to the next: the machine stood still. */
const PAUSE_MS = 500;
/** The core waits for KILL_MS, and chooses no other pod before it has heard of this end. */
const HEARD_MS = 500;

/** An order in progress. */
type Kill = KillOrder & {
  /** Its path follows the cgroup, which whoever may write to its parent can rename on version 1. */
  readonly ref: { path: string; readonly inode: number };
  readonly sweep: Sweep;
  /** Processes that were sent SIGKILL. */
  readonly killed: Set<number>;
  readonly spent: Spent;
  readonly usage: UsageWatch;
  readonly escapes: Escapes | null;
  /** Null: it gets SIGKILL at once. */
  readonly oomKills: ReturnType<typeof watchOomKills> | null;
};

/**
 * Ends every process of a cgroup and proves it: request, grace, SIGKILL (`cgroup.kill` where it exists, else rounds)
 * until it is unpopulated or gone and its anonymous memory is back. Bounded; never rejects. The first signals are sent
 * before this function returns its promise.
 */
export async function killCgroup(order: KillOrder): Promise<KillEnd> {
  const { mounts, clock, follow } = order;
  const ref = { ...order.ref };
  const kill: Kill = {
    ...order,
    ref,
    usage: watchUsage(mounts, ref, order.usedBefore ?? usageBytes(mounts, ref)),
    sweep: createSweep(mounts, ref, clock),
    escapes: follow === undefined ? null : createEscapes(mounts, ref, follow),
    oomKills: order.first === 'sigterm' ? watchOomKills(mounts, ref, clock) : null,
    killed: new Set(),
    spent: { sinceBootMs: null, wasEmpty: false },
  };
  try {
    return await endOf(kill);
  } finally {
    kill.sweep.close();
    kill.oomKills?.close();
  }
}

async function endOf(kill: Kill): Promise<KillEnd> {
  const { mounts, ref, first, escapes } = kill;
  let atFirst = kill.sweep.isGone ? unlessEscaped(kill, 'ended') : progressOf(kill, isPopulated(mounts, ref));
  // It may have been renamed since it was opened.
  if (atFirst === 'ended' && !kill.sweep.isGone) atFirst = await progress(kill);
  if (atFirst === 'ended') return { kind: 'gone' };
  const politely = first === 'sigterm' ? await endPolitely(kill) : null;
  if (politely === 'spared') return { kind: 'spared' };
  if (politely !== null) return endedPolitely(kill, politely);
  // What has cut its grace period, such as a shutdown, needs its end.
  const isOver = !kill.hasten.isCut() && (await kill.isOver?.()) === true;
  if (isOver && !kill.hasten.isCut()) return { kind: 'spared' };
  const { via, left } = await endByForce(kill, first === 'sigkill' ? atFirst : await progress(kill));
  const outside = left === 'processes' ? null : (escapes?.left() ?? null);
  if (outside !== null) return { kind: 'survived', ...outside };
  if (left !== 'processes') return ended(kill, via);
  const there = leftIn(kill);
  const detail = `processes are still in ${ref.path} ${KILL_MS / 1_000} s after SIGKILL: ${sayLeft(kill, there)}`;
  return { kind: 'survived', left: viewsOf(there), detail };
}

type Ended = Extract<KillEnd, { kind: 'ended' }>;

function ended({ mounts, ref, usage, escapes }: Kill, via: Ended['via']): Ended {
  const detail = escapes?.sayKilled() ?? null;
  return {
    ...{ kind: 'ended', via, releasedBytes: usage.released() },
    ...(unreaped(mounts, ref) === 0 ? {} : { unreaped: { ...ref } }),
    ...(detail === null ? {} : { detail }),
  };
}

/** What it was sent is not what ended it if the kernel killed in it. */
async function endedPolitely(kill: Kill, via: 'sigterm' | 'stop-unit'): Promise<KillEnd> {
  const seen: OomKilled = (await kill.oomKills?.seen()) ?? 'no';
  const end = ended(kill, seen === 'yes' ? 'oom-kill' : via);
  return seen === 'not-known' ? { ...end, detail: and(end.detail ?? '', OOM_NOT_KNOWN) } : end;
}
const OOM_NOT_KNOWN = "the kernel's OOM killer acted meanwhile, and whether in it is not known";

/** How it ended within its grace period; null if it did not. */
async function endPolitely(kill: Kill): Promise<'sigterm' | 'stop-unit' | 'spared' | null> {
  const { clock, ask } = kill;
  // What is asked in its own way hears of it later.
  const grace = createGrace(ask === null ? { ...kill, graceFrom: undefined } : kill);
  let via: 'sigterm' | 'stop-unit' = ask === null ? 'sigterm' : 'stop-unit';
  let isOver = false;
  let needNotEnd = false;
  const told = once(() => {
    kill.signalled?.('sigterm');
    grace.begins();
  });
  const isSpared = (): boolean => false;
  const signal = async (): Promise<void> => {
    const [pids, sinceBootMs] = [[] as number[], nowSinceBootMs()];
    const sent = (pid: number): void => {
      via = 'sigterm';
      told();
      pids.push(pid);
    };
    await kill.sweep.signal('SIGTERM', { isOver: () => isOver, sent, isSpared });
    kill.escapes?.note(pids, sinceBootMs);
  };
  const signalInstead = (): void => {
    via = 'sigterm';
    // Even if no process could be signalled: SIGKILL follows then.
    void signal().then(grace.begins);
  };
  if (ask === null) signalInstead();
  else {
    // After the request, which the event loop sends.
    clock.after(0, () => kill.escapes?.note(listed(kill), nowSinceBootMs()));
    void ask().then((asked) => {
      if (isOver) return;
      if (asked === 'told') told();
      else if (asked === 'spared') needNotEnd = true;
      else signalInstead();
    });
  }
  const forget = kill.whenLeftBehind?.(() => {
    if (!isOver && via === 'stop-unit') void signal();
  });
  try {
    const overMs = (): MonoMs => (needNotEnd ? Number.NEGATIVE_INFINITY : grace.overMs());
    if (await waitUntilEnded(kill, overMs, grace.stoodStill)) return via;
    return needNotEnd ? 'spared' : null;
  } finally {
    isOver = true;
    forget?.();
  }
}

async function waitUntilEnded(
  kill: Kill,
  untilMs: () => MonoMs,
  stoodStill: (sinceMs: MonoMs) => void,
): Promise<boolean> {
  const { clock } = kill;
  let pollMs = FIRST_POLL_MS;
  let lookedMs = clock.monoMs();
  for (;;) {
    const isEnded = (await progress(kill)) === 'ended';
    if (clock.monoMs() - lookedMs > PAUSE_MS) stoodStill(lookedMs);
    kill.usage.note();
    kill.oomKills?.note();
    const hasMore = isEnded && (await kill.isCleaningUp?.()) === true;
    if (isEnded && !hasMore) return true;
    const leftMs = untilMs() - clock.monoMs();
    if (leftMs <= 0) {
      // A cleanup that is still running is as late as the pod itself would be.
      Object.assign(kill.spent, { sinceBootMs: null, wasEmpty: false });
      return hasMore && (await progress(kill)) === 'ended';
    }
    lookedMs = clock.monoMs();
    await sleep(clock, Math.min(pollMs, leftMs));
    pollMs = Math.min(pollMs * 1.5, MAX_POLL_MS);
  }
}

/** `left`: processes in its cgroup; processes outside that must not be killed there; or memory, with no process in it. */
type Forced = {
  readonly via: 'sigkill' | 'cgroup.kill';
  readonly left: 'nothing' | 'processes' | 'escaped' | 'memory';
};

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
    if (now === 'ended') return { via, left: 'nothing' };
    if (now === 'populated' && isOver()) return { via, left: 'processes' };
    if (now !== 'populated' && clock.monoMs() >= endsMs - HEARD_MS)
      return { via, left: now === 'empty' ? 'memory' : 'escaped' };
    // Empty, but its memory is not free yet: there is nothing left to do but wait.
    if (now === 'empty') tellEmpty();
    else if (now === 'escaped') {
      tellEmpty();
      const done = kill.escapes?.kill();
      if (done === 'sent') told();
      else if (done === 'nobody' && kill.escapes?.isAny() === true) return { via, left: 'escaped' };
    } else {
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

/** Kills the whole cgroup at once, and returns its processes. Null: signal them one by one instead. */
function killWhole(kill: Kill): readonly number[] | null {
  const { mounts, ref, spent, killed } = kill;
  if (mounts.version === 1 || spent.sinceBootMs !== null || !mayKillWhole(kill)) return null;
  const pids = listed(kill);
  const uptime = uptimeMs();
  if (!killAtOnce(mounts, ref).known) return null;
  for (const pid of pids) killed.add(pid);
  if (uptime.known) spent.sinceBootMs = uptime.value;
  // Also those born since, which have to be helped to die as well.
  return listed(kill);
}

/** Returns the processes that were sent SIGKILL. */
async function signalAll(kill: Kill, isOver: () => boolean, told: () => void): Promise<readonly number[]> {
  const { sweep, killed, spent } = kill;
  const pids: number[] = [];
  const sent = (pid: number): void => {
    told();
    killed.add(pid);
    pids.push(pid);
  };
  const sinceBootMs = nowSinceBootMs();
  const allSentMs = await sweep.signal('SIGKILL', { isOver, sent, isSpared: spares(kill) });
  spent.sinceBootMs ??= allSentMs;
  // They were in it a moment ago.
  if (kill.escapes !== null && sweep.refused().size > 0) kill.escapes.note([...sweep.refused().keys()], sinceBootMs);
  return pids;
}

function listed({ mounts, ref }: Kill): readonly number[] {
  const pids = processesOf(mounts, ref);
  return pids.known ? pids.value : [];
}

/** Every process there was found and could not be signalled. */
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

/** cgroup.kill spares no process: if pid 1 or this process is in it, processes are signalled one by one instead. */
function mayKillWhole({ mounts, ref }: KillOrder): boolean {
  return [1, process.pid].every((pid) => {
    const path = cgroupPathOf(mounts, pid);
    return path.known && path.value !== ref.path && !path.value.startsWith(`${ref.path}/`);
  });
}

type Helped = ReturnType<DyingHelp['begin']>;
type Progress = 'populated' | 'escaped' | 'empty' | 'ended';

async function progress(kill: Kill): Promise<Progress> {
  const { mounts, ref, sweep } = kill;
  if (mounts.version === 2) return progressOf(kill, isPopulated(mounts, ref));
  ref.path = sweep.path() ?? ref.path;
  return progressOf(kill, await sweep.isPopulated());
}

const progressOf = (kill: Kill, populated: Reading<boolean>): Progress =>
  unlessEscaped(kill, progressIn(kill, populated));

/** `escaped`: of its own processes, none is left in it, and some live outside. */
const unlessEscaped = ({ escapes }: Kill, now: Progress): Progress =>
  now !== 'populated' && escapes?.isAny() === true ? 'escaped' : now;

/** `empty`: only processes that joined after its end are in it, and its anonymous memory is not free yet. */
function progressIn(kill: Kill, populated: Reading<boolean>): Progress {
  const { mounts, ref, givesBack, spent } = kill;
  if (!populated.known) return populated.why === 'absent' ? 'ended' : 'populated';
  const successors = populated.value ? successorsIn(kill) : [];
  if (successors === null) return 'populated';
  if (populated.value && spent.wasEmpty) return 'ended';
  const uptime = uptimeMs();
  if (!populated.value && !spent.wasEmpty && uptime.known)
    Object.assign(spent, { sinceBootMs: uptime.value, wasEmpty: true });
  const isReapTime = uptime.known && uptime.value - (spent.sinceBootMs ?? uptime.value) < REAP_MS;
  if (givesBack === 'pids' && isReapTime && unreaped(mounts, ref) > 0) return 'empty';
  const anon = anonBytes(mounts, ref);
  // It is gone, or cannot be read: then the end of its processes is all the proof there is.
  if (!anon.known) return 'ended';
  // Read after it, because successors grow.
  return anon.value < GIVEN_BACK_BYTES + rssOf(successors) ? 'ended' : 'empty';
}
