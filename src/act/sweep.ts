import { known, type Reading, type Unknown, unknown } from '../core/reading.ts';
import { isMember, shownProcesses } from '../host/cgroup/cgroup-members.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import {
  holdDirectory,
  isLeaf,
  type Listed,
  listIn,
  type ProcessWalk,
  walkProcesses,
} from '../host/cgroup/cgroup-walk.ts';
import { pathHeld } from '../host/cgroup/cgroupfs.ts';
import { sleep, uptimeMs } from '../host/clock.ts';
import { signalInCgroup } from '../host/process/signal-process.ts';
import type { CgroupRef, Clock } from '../ports.ts';

/** What one kill needs of a cgroup's tree. Each walk uses what the previous one found. */
export type Sweep = {
  /** The cgroup was gone, or not at its path, when this began. */
  readonly isGone: boolean;
  /** Where the cgroup is now, whatever it or a directory above it was renamed to. Null: gone, or not known. */
  readonly path: () => string | null;
  /**
   * Signals every process, and repeats for those that appeared meanwhile until none is new: v1 cannot signal a whole cgroup,
   * and a tree that forks faster than one pass escapes it. The first signals are sent before the promise is returned.
   * Resolves to when, since boot, every process had been signalled; null: unknown.
   */
  readonly signal: (signal: 'SIGTERM' | 'SIGKILL', heard: Heard) => Promise<number | null>;
  /** Whether any process is in the tree. Unknown `absent`: the cgroup is gone. */
  readonly isPopulated: () => Promise<Reading<boolean>>;
  /** Processes that were found at the last signal but not sent it, and why. */
  readonly refused: () => ReadonlyMap<number, NotSent>;
  readonly close: () => void;
};
type Heard = {
  readonly isOver: () => boolean;
  readonly sent: (pid: number) => void;
  /** Whether the process must not be signalled. */
  readonly isSpared: (pid: number) => boolean;
};
type Visit = (pid: number, listed: Listed) => 'new' | 'known' | 'enough';
export type NotSent = Exclude<ReturnType<typeof signalInCgroup>, 'sent' | 'gone'>;

/** After this, yield to the event loop: a tenant's tree of 10,000 cgroups takes some 150 ms. */
const SLICE_MS = 5;
const LONG_MS = 20;
/** SIGTERM is a courtesy: processes that keep forking are left to SIGKILL. */
const SIGTERM_PASSES = 3;
/** Within this time, dying processes are no reason to walk the whole tree again. */
const REST_MS = 100;
/** How many of the processes that were sent SIGKILL to check one by one. */
const LEFT_LOOKED_AT = 64;

export function createSweep(mounts: CgroupMounts, ref: CgroupRef, clock: Clock): Sweep {
  // Held until the end, so that nothing else under its name is ever read.
  const held = holdDirectory(mounts, ref);
  const top = held.known ? held.value.directory : '';
  /** Where the first process was last found. */
  let last: string | null = null;
  let refused: ReadonlyMap<number, NotSent> = new Map();
  /** The processes of the last SIGKILL. */
  let killed: ReadonlySet<number> = new Set();
  let restEndsMs = Number.NEGATIVE_INFINITY;
  let isClosed = false;

  const listedLast = (): readonly number[] => {
    const listed = last === null ? null : listIn(top, last);
    return listed?.known === true ? listed.value : [];
  };
  const areOnlyTheDyingLeft = (): boolean => {
    if (clock.monoMs() >= restEndsMs) return false;
    const listed = listedLast();
    return listed.length > 0 ? listed.every((pid) => killed.has(pid)) : isOneLeft();
  };
  /** Whether one of those that were sent SIGKILL last is left. */
  const isOneLeft = (): boolean => {
    let looked = 0;
    for (const pid of killed) {
      const member = isMember(mounts, ref, pid);
      if (member.known && member.value) return true;
      if (++looked >= LEFT_LOOKED_AT) break;
    }
    return false;
  };

  /** Known false: a part of the tree was not reached. */
  async function eachProcess(visit: Visit): Promise<Reading<boolean>> {
    if (!held.known) return held;
    let [isAnybody, isAnybodyNew] = [false, false];
    const shown = await eachIn(shownProcesses(mounts, ref, top), (pid, listed) => {
      const how = visit(pid, listed);
      isAnybody = true;
      isAnybodyNew ||= how === 'new';
      return how;
    });
    // Processes left then show only in the tree, and few are left that could keep its directories locked.
    const isTreeLast = isAnybody && (isAnybodyNew || (shown.known && shown.value));
    return isTreeLast || !shown.known ? shown : await eachIn(walkProcesses(top), visit);
  }

  async function eachIn(steps: ProcessWalk, visit: Visit): Promise<Reading<boolean>> {
    let sliceEndsMs = clock.monoMs() + SLICE_MS;
    let isFirst = true;
    const pause = async (): Promise<void> => {
      await sleep(clock, 0);
      sliceEndsMs = clock.monoMs() + SLICE_MS;
    };
    try {
      for (let next = steps.next(); ; next = steps.next()) {
        if (next.done === true) return next.value;
        const listed = next.value;
        if (listed !== null && isFirst) last = listed.path;
        isFirst &&= listed === null;
        for (const pid of listed?.pids ?? []) {
          if (listed !== null && visit(pid, listed) === 'enough') return known(true);
          if (clock.monoMs() >= sliceEndsMs) await pause();
          if (isClosed) return CLOSED;
        }
        if (clock.monoMs() >= sliceEndsMs) await pause();
        // Its descriptor may be in use for something else by now.
        if (isClosed) return CLOSED;
      }
    } finally {
      steps.return(known(false));
    }
  }

  return {
    isGone: !held.known && held.why === 'absent',
    path: () => (held.known && !isClosed ? pathHeld(mounts, ref, top) : null),
    signal: async (signal, { isOver, sent, isSpared }) => {
      if (signal === 'SIGKILL' && areOnlyTheDyingLeft()) return null;
      const done = new Set<number>();
      const failed = new Map<number, NotSent>();
      let allSentMs: number | null = null;
      let turnedMs = clock.monoMs();
      for (let pass = 1; signal === 'SIGKILL' || pass <= SIGTERM_PASSES; pass++) {
        const before = done.size;
        const [beganMs, uptime] = [clock.monoMs(), uptimeMs()];
        let isHidden = false;
        const whole = await eachProcess((pid, listed) => {
          if (isOver()) return 'enough';
          isHidden ||= pid === 0;
          if (pid === 0 || done.has(pid) || isSpared(pid)) return 'known';
          done.add(pid);
          const how = signalInCgroup(mounts, ref, pid, signal, () => isListed(listed, pid));
          if (how === 'sent') sent(pid);
          else if (how !== 'gone') failed.set(pid, how);
          return 'new';
        });
        const isNobodyNew = done.size === before && !isOver();
        // A tree cannot be read atomically: a process may have moved meanwhile.
        const isAll = isNobodyNew && whole.known && whole.value && !isHidden && failed.size === 0 && isLeaf(top);
        if (isAll && uptime.known) allSentMs = uptime.value;
        // For a tree that takes long, the proof is another walk, which finds what appeared meanwhile.
        if (isNobodyNew || isOver() || clock.monoMs() > beganMs + LONG_MS) break;
        // Without yielding, no successor of the dead can appear between two passes.
        if (clock.monoMs() < turnedMs + SLICE_MS) continue;
        await sleep(clock, 0);
        turnedMs = clock.monoMs();
      }
      refused = failed;
      if (signal === 'SIGTERM') return allSentMs;
      killed = done;
      restEndsMs = clock.monoMs() + REST_MS;
      return allSentMs;
    },
    isPopulated: async () => {
      if (listedLast().length > 0 || isOneLeft()) return known(true);
      last = null;
      let isSomebody = false;
      const whole = await eachProcess(() => {
        isSomebody = true;
        return 'enough';
      });
      if (!whole.known) return whole;
      return isSomebody || whole.value ? known(isSomebody) : notReached(ref);
    },
    refused: () => refused,
    close: () => {
      isClosed = true;
      if (held.known) held.value.close();
    },
  };
}

function isListed({ again }: Listed, pid: number): boolean {
  const listed = again();
  return listed.known && listed.value.includes(pid);
}

const CLOSED = unknown('not-asked', 'cgroup', 'it is no longer being killed');
const notReached = (ref: CgroupRef): Unknown =>
  unknown('unreadable', ref.path, 'no process was found, but part of it could not be read');
