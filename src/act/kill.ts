import type { MonoMs, Reading } from '../core/reading.ts';
import { cgroupPathOf } from '../host/cgroup/cgroup-members.ts';
import {
  anonBytes,
  GIVEN_BACK_BYTES,
  isPopulated,
  killAtOnce,
  processesOf,
  unreaped,
} from '../host/cgroup/cgroupfs.ts';
import { sleep, uptimeMs } from '../host/clock.ts';
import type { DyingHelp } from '../host/process/dying-help.ts';
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
/**
 * The same without SIGKILL to anybody: the memory of those that have ended was free before they left the cgroup, and the core
 * waits for a SIGKILL before it lets others go first.
 */
const UNKILLED_MS = 1_000;
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
  /** Null: it gets SIGKILL at once. */
  readonly oomKills: ReturnType<typeof watchOomKills> | null;
};

/**
 * Ends every process of a cgroup and proves it: request, grace, SIGKILL (`cgroup.kill` where it exists, else rounds)
 * until it is unpopulated or gone and its anonymous memory is back. Bounded; never rejects. The first signals are sent
 * before this function returns its promise.
 */
export async function killCgroup(order: KillOrder): Promise<KillEnd> {
  const { mounts, clock } = order;
  const ref = { ...order.ref };
  const kill: Kill = {
    ...order,
    ref,
    usage: watchUsage(mounts, ref, order.usedBefore ?? usageBytes(mounts, ref)),
    sweep: createSweep(mounts, ref, clock),
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
  const { mounts, ref, first } = kill;
  let atFirst: Progress = kill.sweep.isGone ? 'ended' : progressIn(kill, isPopulated(mounts, ref));
  // It may have been renamed since it was opened.
  if (atFirst === 'ended' && !kill.sweep.isGone) atFirst = await progress(kill);
  if (atFirst === 'ended') return { kind: 'gone' };
  const politely = first === 'sigterm' ? await endPolitely(kill) : null;
  if (politely?.how === 'spared') return { kind: 'spared' };
  if (politely?.how === 'ended') return endedPolitely(kill, politely.via);
  // What has cut its grace period, such as a shutdown, needs its end.
  const isOver = !kill.hasten.isCut() && (await kill.isOver?.()) === true;
  if (isOver && !kill.hasten.isCut()) return { kind: 'spared' };
  const { via, isLeft } = await endByForce(kill, first === 'sigkill' ? atFirst : await progress(kill));
  if (!isLeft && via === null && politely !== null) return endedPolitely(kill, politely.via);
  if (!isLeft) return ended(kill, via ?? 'sigkill');
  const there = leftIn(kill);
  const detail = `processes are still in ${ref.path} ${KILL_MS / 1_000} s after SIGKILL: ${sayLeft(kill, there)}`;
  const isKilled = there.known && there.value.length > 0 && there.value.every((pid) => kill.killed.has(pid));
  return { kind: 'survived', left: viewsOf(there), detail, ...(isKilled && via !== null ? { killedBy: via } : {}) };
}

type Ended = Extract<KillEnd, { kind: 'ended' }>;

function ended({ mounts, ref, usage }: Kill, via: Ended['via']): Ended {
  return {
    ...{ kind: 'ended', via, releasedBytes: usage.released() },
    ...(unreaped(mounts, ref) === 0 ? {} : { unreaped: { ...ref } }),
  };
}

/** What it was sent is not what ended it if the kernel killed in it. */
async function endedPolitely(kill: Kill, via: 'sigterm' | 'stop-unit'): Promise<KillEnd> {
  const seen: OomKilled = (await kill.oomKills?.seen()) ?? 'no';
  const end = ended(kill, seen === 'yes' ? 'oom-kill' : via);
  return seen === 'not-known' ? { ...end, detail: OOM_NOT_KNOWN } : end;
}
const OOM_NOT_KNOWN = "the kernel's OOM killer acted meanwhile, and whether in it is not known";

type Polite = { readonly how: 'ended' | 'spared' | 'not-ended'; readonly via: 'sigterm' | 'stop-unit' };

/** What became of it within its grace period, and how it was asked. */
async function endPolitely(kill: Kill): Promise<Polite> {
  const { ask } = kill;
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
    const sent = (): void => {
      via = 'sigterm';
      told();
    };
    await kill.sweep.signal('SIGTERM', { isOver: () => isOver, sent, isSpared });
  };
  const signalInstead = (): void => {
    via = 'sigterm';
    // Even if no process could be signalled: SIGKILL follows then.
    void signal().then(grace.begins);
  };
  if (ask === null) signalInstead();
  else {
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
    const isEnded = await waitUntilEnded(kill, overMs, grace.stoodStill);
    return { how: isEnded ? 'ended' : needNotEnd ? 'spared' : 'not-ended', via };
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

/** `via`: null if no process was sent SIGKILL; `isLeft`: processes are still in its cgroup. */
type Forced = { readonly via: 'sigkill' | 'cgroup.kill' | null; readonly isLeft: boolean };

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
  let via: Forced['via'] = null;
  let pollMs = FIRST_POLL_MS;
  for (let now = atFirst; ; now = await progress(kill)) {
    if (now === 'ended') return { via, isLeft: false };
    if (now === 'populated' && isOver()) return { via, isLeft: true };
    // Empty, but its memory is not free yet: there is nothing left to do but wait.
    const freedByMs = via === null && kill.givesBack === 'memory' ? beganMs + UNKILLED_MS : endsMs - HEARD_MS;
    if (now === 'empty' && clock.monoMs() >= freedByMs) return { via, isLeft: false };
    if (now === 'empty') tellEmpty();
    else {
      const atOnce = killWhole(kill);
      const isWhole = atOnce !== null;
      if (isWhole) told();
      if (isWhole) via = 'cgroup.kill';
      const sent = atOnce ?? (await signalAll(kill, isOver, told));
      if (sent.length > 0) via ??= 'sigkill';
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
  const allSentMs = await sweep.signal('SIGKILL', { isOver, sent, isSpared: spares(kill) });
  spent.sinceBootMs ??= allSentMs;
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
type Progress = 'populated' | 'empty' | 'ended';

async function progress(kill: Kill): Promise<Progress> {
  const { mounts, ref, sweep } = kill;
  if (mounts.version === 2) return progressIn(kill, isPopulated(mounts, ref));
  ref.path = sweep.path() ?? ref.path;
  return progressIn(kill, await sweep.isPopulated());
}

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
