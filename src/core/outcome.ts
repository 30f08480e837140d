import type { DecisionId } from './decision.ts';
import type { ProcessView } from './pod/pod.ts';
import type { MonoMs, Reading } from './reading.ts';
import type { Signal } from './signal.ts';

/** beside-a-kubelet.md B11: what was done about a victim, and what came of it, as the API or the kernel said it. */
export type Rung = {
  readonly atMs: MonoMs;
  readonly act: 'evict' | 'delete' | 'kill-containers' | 'kill-pod' | 'kill-again' | 'spool' | 'stop-container';
  readonly answer: string;
  /** Whether the API server ends the pod for it; absent: not known, or it was not what was asked. */
  readonly isAccepted?: boolean;
};

/** `rung` is new, or has its answer by now. */
export function withRung(rungs: readonly Rung[], rung: Rung): readonly Rung[] {
  const at = rungs.findIndex(({ atMs, act }) => atMs === rung.atMs && act === rung.act);
  return at === -1 ? [...rungs, rung] : rungs.with(at, rung);
}
/** How a decision ended. `rungs`: in mode kubelet, of a victim. */
export type Outcome = { readonly of: DecisionId; readonly atMs: MonoMs; readonly rungs?: readonly Rung[] } & (
  | {
      readonly kind: 'reclaimed';
      /** Of the signal that it was for, whatever freed it. */
      readonly freed: Reading<number>;
      /** Absent: the runtime was not asked. */
      readonly removed?: Removed;
    }
  | {
      readonly kind: 'ended';
      /** `stop-timeout`: systemd killed it at its TimeoutStopSec. */
      readonly via: 'sigterm' | 'sigkill' | 'cgroup.kill' | 'stop-unit' | 'stop-timeout' | 'api';
      /** Memory. */
      readonly releasedBytes: Reading<number>;
      /** Of the signal it was evicted for, where that is not memory: when it was decided (null: not known) and afterwards. */
      readonly signal?: { readonly name: Signal; readonly before: number | null; readonly after: Reading<number> };
      /** Of a stop for a shutdown: when it was asked to end; null: it was not. */
      readonly toldMs?: MonoMs | null;
      /** Its scratch directories; absent: it has none, or it was not evicted for a disk. */
      readonly emptied?: Emptied;
    }
  | {
      readonly kind: 'survived';
      /** Ten of them at most; none where they were not listed: `detail` says what is left. */
      readonly left: readonly ProcessView[];
      readonly detail: string;
      readonly toldMs?: MonoMs | null;
    }
  | {
      readonly kind: 'dropped';
      readonly because:
        | 'no-longer-met'
        | 'gone'
        | 'dry-run'
        | 'cancelled'
        | 'left-to-systemd'
        | 'rebound'
        /** beside-a-kubelet.md B1, of a soft threshold. */
        | 'budget-refused'
        /** beside-a-kubelet.md E14, of a shutdown: it is stopped with the agent. */
        | 'not-deleted';
    }
);

/** What a container runtime removed. `problem`: why that is not all there was to remove, in one sentence; null: it is. */
export type Removed = { readonly containers: number; readonly images: number; readonly problem: string | null };

/** `problem`: what is not empty, and why; null: all of it is. */
export type Emptied = { readonly freedBytes: Reading<number>; readonly problem: string | null };

/**
 * The first request to end has gone out to a victim, or the first SIGKILL: no end yet, but what its grace and its
 * deadline count from (D3). `unmount`: it has no process any more, and most of what it held comes back with its memory
 * volumes.
 */
export type Signalled = {
  readonly of: DecisionId;
  readonly atMs: MonoMs;
  readonly kind: 'signalled';
  readonly with: 'sigterm' | 'sigkill' | 'unmount';
};
/** What became of earlier decisions. */
export type Heard = Outcome | Signalled;

export const isEnd = (heard: Heard): heard is Outcome => heard.kind !== 'signalled';
