import type { Hasten } from '../core/eviction/hasten.ts';
import type { Outcome, Signalled } from '../core/outcome.ts';
import type { MonoMs, Reading } from '../core/reading.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import type { DyingHelp } from '../host/process/dying-help.ts';
import type { CgroupRef, Clock } from '../ports.ts';

export type KillOrder = {
  readonly mounts: CgroupMounts;
  readonly ref: CgroupRef;
  readonly clock: Clock;
  /** From the first signal until SIGKILL. 0 or less with `sigterm` first: 2 s, as in the kubelet. */
  readonly graceMs: number;
  readonly first: 'sigterm' | 'sigkill';
  readonly givesBack: 'memory' | 'pids';
  /** As in StopOrder. */
  readonly usedBefore?: Reading<number> | undefined;
  readonly hasten: Hasten;
  /** Asks the victim to stop in its own way instead of SIGTERM; SIGTERM follows if that did not reach it. Null: SIGTERM. */
  readonly ask: (() => Promise<Asked>) | null;
  /** Runs it when that way is complete but may have left processes unsignalled: SIGTERM follows. Absent: it leaves none. */
  readonly whenLeftBehind?: ((run: () => void) => () => void) | undefined;
  /** Asked when its grace period is over: true if it need not end any more. Absent: SIGKILL follows. */
  readonly isOver?: (() => Promise<boolean>) | undefined;
  /** Called when it is empty: is its unit still cleaning up (ExecStopPost=)? Waited for within the grace period. */
  readonly isCleaningUp?: (() => Promise<boolean>) | undefined;
  /** The grace period of a pod that was asked to stop in its own way at `toldMs`; absent: `graceMs`. */
  readonly graceFrom?: ((toldMs: MonoMs) => number) | undefined;
  /** The current minimum of its grace period that began at `toldMs`, which may grow meanwhile. Absent: none. */
  readonly leastGraceMs?: ((toldMs: MonoMs) => number) | undefined;
  /** Another stop has taken over: only that minimum holds. Absent: never. */
  readonly isTakenOver?: (() => boolean) | undefined;
  /** An earlier run asked it to stop: its grace period began then. Absent: it begins with the first signal. */
  readonly sentBeforeMs?: MonoMs | undefined;
  readonly help?: DyingHelp | undefined;
  /**
   * Receives the processes that could not be signalled, or did not end within a second of SIGKILL, with their state. Null: none
   * is left.
   */
  readonly resists?: ((who: string | null) => void) | undefined;
  /** Called when the first process was sent its first SIGTERM or SIGKILL, or the victim was asked to stop in its own way. */
  readonly signalled?: ((how: Signalled['with']) => void) | undefined;
};
/** `spared`: it need not stop any more. */
export type Asked = 'told' | 'not-told' | 'spared';
export type KillEnd =
  | {
      readonly kind: 'ended';
      readonly via: 'sigterm' | 'sigkill' | 'cgroup.kill' | 'stop-unit' | 'stop-timeout' | 'oom-kill';
      readonly releasedBytes: Reading<number>;
      /** As in an outcome. */
      readonly unreaped?: CgroupRef;
      /** As in an outcome. */
      readonly detail?: string;
    }
  | ({
      readonly kind: 'survived';
      /** How all that is left of it was sent SIGKILL; absent: something was not, or nobody knows. */
      readonly killedBy?: 'sigkill' | 'cgroup.kill';
    } & Pick<Extract<Outcome, { kind: 'survived' }>, 'left' | 'detail' | 'escaped'>)
  /** It had no processes, or was already gone. `isStartedAnew`: what runs in it now is not part of the victim. */
  | { readonly kind: 'gone'; readonly isStartedAnew?: true }
  | { readonly kind: 'spared' };
