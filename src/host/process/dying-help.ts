import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, constants, openSync, readSync, writeFile, writeSync } from 'node:fs';
import type { CgroupRef } from '../../ports.ts';
import { type CgroupMounts, findHierarchy } from '../cgroup/cgroup-mounts.ts';
import { holdDirectory } from '../cgroup/cgroup-walk.ts';
import { letGo, startChild } from '../child-process.ts';
import { readKernelFile } from '../kernel-file.ts';
import { hastenSession, hastenThread } from '../own/priority.ts';
import { cgroupPathsOf, threadsOf } from '../procfs.ts';

/**
 * product.md section 7: a process that got SIGKILL needs processor time to die. Without any, or frozen, it keeps its memory
 * while others are killed for it. Nothing here throws, waits, or is needed for a kill to complete.
 */
export type DyingHelp = {
  /** For one kill of a cgroup. */
  readonly begin: (ref: CgroupRef) => {
    /**
     * They have just been sent SIGKILL: gives them processor time ahead of all others, and frees their memory for them.
     */
    readonly killed: (pids: readonly number[]) => void;
    /** They were sent it before and still exist: thaws them, and gives their cgroup the maximum weight. */
    readonly remain: (pids: readonly number[]) => void;
    /** Ends the help and restores the weight that was set before. */
    readonly end: () => void;
  };
  readonly close: () => void;
};

/** The maximum in one round: raising one takes 2 µs. */
const MOST_RAISED = 2_000;
const MOST_THREADS = 64;
/** The largest come first if their sizes are known; the others get processor time meanwhile. */
const MOST_REAPED = 32;
const MOST_THAWED = 50;
const MOST_SESSIONS = 32;
const NUMBER_BYTES = 64;
/** This limit is never set for long: if it is found at the start, an agent that was killed left it. */
const NO_FORK = '0\n';
const NO_BOUND = 'max\n';
const QUEUED_BYTES = 4_096;

/**
 * One perl child, started beforehand because starting a process takes 10 ms and more, and memory, which is short at a kill.
 * For each pid that it reads, it calls pidfd_open (434 everywhere) and process_mrelease (448, Linux 5.15). The kernel refuses
 * it for a process that is not dying. EAGAIN (11): something else is changing that memory right now.
 */
const REAPER = `
$SIG{INT} = $SIG{TERM} = 'IGNORE';
while (my $line = <STDIN>) {
  my $fd = syscall(434, $line + 0, 0);
  next if $fd < 0;
  for (1 .. 20) {
    last if syscall(448, $fd, 0) == 0 || $! != 11;
    select(undef, undef, undef, 0.005);
  }
  open(my $handle, '<&=', $fd) and close $handle;
}
`;

export function createDyingHelp(mounts: CgroupMounts): DyingHelp {
  const reaper = startReaper();
  const hierarchies = { cpu: findHierarchy('cpu'), freezer: findHierarchy('freezer') };
  return {
    begin: (ref) => {
      let restore: (() => void) | null = null;
      let known: ReadonlySet<number> | null = null;
      let letFork: (() => void) | null = null;
      return {
        killed: (pids) => {
          // Version 1 has no other way to end a process that forks faster than it can be listed.
          if (known !== null && pids.some((pid) => known?.has(pid) !== true)) letFork ??= stopForking(mounts, ref);
          known ??= new Set(pids);
          raise(pids);
          hastenSessions(pids);
          reaper.reap(pids.slice(0, MOST_REAPED));
        },
        remain: (pids) => {
          restore ??= mounts.version === 2 ? weighUnified(mounts, ref) : weighV1(hierarchies.cpu, ref);
          if (mounts.version === 1) for (const pid of pids.slice(0, MOST_THAWED)) thaw(hierarchies.freezer, ref, pid);
          hastenSessions(pids);
          reaper.reap(pids.slice(0, MOST_REAPED));
        },
        end: () => {
          restore?.();
          letFork?.();
        },
      };
    },
    close: reaper.close,
  };
}

function startReaper(): {
  readonly reap: (pids: readonly number[]) => void;
  readonly close: () => void;
} {
  const child = startChild(
    (): ChildProcess =>
      spawn('perl', ['-e', REAPER], {
        cwd: '/',
        env: { PATH: process.env['PATH'] },
        stdio: ['pipe', 'ignore', 'ignore'],
      }),
  );
  // Without perl, they die at their own pace.
  if (typeof child === 'string') return { reap: () => undefined, close: () => undefined };
  child.on('error', () => undefined);
  child.stdin?.on('error', () => undefined);
  if (child.pid !== undefined) hastenThread(child.pid);
  letGo(child);
  return {
    reap: (pids) => {
      const { stdin } = child;
      if (stdin === null || !stdin.writable || stdin.writableLength > QUEUED_BYTES) return;
      stdin.write(pids.map((pid) => `${pid}\n`).join(''));
    },
    close: () => void child.stdin?.end(),
  };
}

function raise(pids: readonly number[]): void {
  let left = MOST_RAISED;
  for (const pid of pids) {
    for (const tid of threadsOf(pid, Math.min(MOST_THREADS, left))) {
      left -= 1;
      if (!hastenThread(tid)) return;
    }
    if (left <= 0) return;
  }
}

/** Its processes are dying, so the share is not given back. */
function hastenSessions(pids: readonly number[]): void {
  for (const pid of pids.slice(0, MOST_SESSIONS)) if (hastenSession(pid) === 'later') return;
}

/** This and weighV1 return the function that undoes the change. */
function weighUnified(mounts: CgroupMounts, ref: CgroupRef): () => void {
  const held = holdDirectory(mounts, ref);
  if (!held.known) return () => undefined;
  const { directory, close } = held.value;
  const put = [
    overwrite(`${directory}/cpu.weight`, '10000'),
    overwrite(`${directory}/cpu.max`, 'max'),
    overwrite(`${directory}/cgroup.freeze`, '0'),
  ];
  close();
  // The agent never freezes a process, so this is not undone.
  return () => {
    for (const back of put.slice(0, 2)) back();
    put[2]?.(null);
  };
}

/** On version 1, the processes may be in any cgroup of another hierarchy; this cgroup is theirs alone. */
function weighV1(cpu: string | null, ref: CgroupRef): () => void {
  if (cpu === null || ref.path === '/') return () => undefined;
  const put = [
    overwrite(`${cpu}${ref.path}/cpu.shares`, '262144'),
    overwrite(`${cpu}${ref.path}/cpu.cfs_quota_us`, '-1'),
  ];
  return () => {
    for (const back of put) back();
  };
}

/** No process in it can fork until the limit is restored. */
function stopForking({ version, pids }: CgroupMounts, ref: CgroupRef): () => void {
  if (version === 2 || pids === null || ref.path === '/') return () => undefined;
  const putBack = overwrite(`${pids}${ref.path}/pids.max`, NO_FORK);
  return () => putBack();
}

/** Writes to a descriptor that stays open until the old value is restored: a later file at this path is not written. */
function overwrite(path: string, text: string): (isBack?: null) => void {
  try {
    const fd = openSync(path, constants.O_RDWR | constants.O_NOFOLLOW);
    const before = Buffer.alloc(NUMBER_BYTES);
    const length = tryTo(() => readSync(fd, before, 0, NUMBER_BYTES, 0)) ?? 0;
    tryTo(() => writeSync(fd, text, 0));
    return (isBack) => {
      const last = before.toString('latin1', 0, length);
      if (isBack !== null && length > 0) tryTo(() => writeSync(fd, last === NO_FORK ? NO_BOUND : last, 0));
      closeSync(fd);
    };
  } catch {
    return () => undefined; // No such controller, or no permission.
  }
}

function tryTo<T>(run: () => T): T | null {
  try {
    return run();
  } catch {
    return null; // The cgroup is gone, or its limits do not allow it.
  }
}

/** Version 1: SIGKILL takes effect only once a frozen process thaws. If a cgroup above its pod is frozen, it is moved out. */
function thaw(freezer: string | null, { path: top }: CgroupRef, pid: number): void {
  if (freezer === null) return;
  const path = [pid, ...threadsOf(pid, MOST_THREADS).map((tid) => `${pid}/task/${tid}` as const)]
    .map((thread) => cgroupPathsOf(thread))
    .map((paths) => (paths.known ? (paths.value.get('freezer') ?? '/') : '/'))
    .find((found) => found !== '/');
  if (path === undefined) return;
  const own = Buffer.from(top).toString('latin1');
  const levels = path.split('/').map((_, i, names) => names.slice(0, i + 1).join('/'));
  for (const level of levels.filter((at) => at === own || at.startsWith(`${own}/`))) {
    overwriteBytes(`${freezer}${level}/freezer.state`, 'THAWED');
  }
  const state = readKernelFile(Buffer.from(`${freezer}${path}/freezer.state`, 'latin1'), NUMBER_BYTES);
  const isThawed = state.known && state.value.toString('latin1').trim() === 'THAWED';
  // Asynchronous, because the kernel waits for its own grace periods.
  if (!isThawed) writeFile(`${freezer}/cgroup.procs`, String(pid), () => undefined);
}

function overwriteBytes(path: string, text: string): void {
  tryTo(() => {
    const fd = openSync(Buffer.from(path, 'latin1'), constants.O_WRONLY | constants.O_NOFOLLOW);
    tryTo(() => writeSync(fd, text));
    closeSync(fd);
  });
}
