import type { DecisionId } from './decision.ts';
import type { ProcessView } from './pod/pod.ts';
import type { MonoMs, Reading } from './reading.ts';
import type { Signal } from './signal.ts';

/** beside-a-kubelet.md B11: one step to end a victim, and its result as the API or the kernel reported it. */
export type Rung = {
  readonly atMs: MonoMs;
  readonly act:
    | 'evict'
    | 'delete'
    | 'kill-containers'
    | 'kill-pod'
    | 'kill-again'
    | 'spool'
    | 'withdraw'
    | 'stop-container';
  readonly answer: string;
  /** Whether the API server accepted to end the pod; absent: unknown, or not what was asked. */
  readonly isAccepted?: boolean;
};

/** Adds `rung`, or replaces it with the version that has its answer. */
export function withRung(rungs: readonly Rung[], rung: Rung): readonly Rung[] {
  const at = rungs.findIndex(({ atMs, act }) => atMs === rung.atMs && act === rung.act);
  return at === -1 ? [...rungs, rung] : rungs.with(at, rung);
}
/** A victim's cgroup, by its inode, in which no process is left: memory is still charged to it, by processes that left it. */
export type Escaped = { readonly cgroup: { readonly path: string; readonly inode: number } };
/** How a decision ended. `rungs`: the steps to end a victim, in mode kubelet. */
export type Outcome = { readonly of: DecisionId; readonly atMs: MonoMs; readonly rungs?: readonly Rung[] } & (
  | {
      readonly kind: 'reclaimed';
      /** In the unit of its signal, whatever freed it. */
      readonly freed: Reading<number>;
      /** Absent: the container runtime was not asked, or nobody has heard its answer. */
      readonly removed?: Removed;
    }
  | {
      readonly kind: 'ended';
      /**
       * `stop-timeout`: systemd killed it at its TimeoutStopSec. `oom-kill`: the kernel's OOM killer killed in it after it was
       * asked to stop, so what ended it is not known.
       */
      readonly via: 'sigterm' | 'sigkill' | 'cgroup.kill' | 'stop-unit' | 'stop-timeout' | 'oom-kill' | 'api';
      /** No agent saw it end: `atMs` is when a later run noticed. */
      readonly isNoticedLater?: true;
      /** Memory. */
      readonly releasedBytes: Reading<number>;
      /** Its cgroup, if dead processes of it that nobody has reaped hold process IDs there. Absent: none, or not known. */
      readonly unreaped?: Escaped['cgroup'];
      /** If it was evicted for a signal other than memory: its value at the decision (null: unknown) and afterwards. */
      readonly signal?: { readonly name: Signal; readonly before: number | null; readonly after: Reading<number> };
      /** For a shutdown: when it was asked to stop; null: it was not. */
      readonly toldMs?: MonoMs | null;
      /** Its scratch directories; absent: it has none, or it was not evicted for a disk. */
      readonly emptied?: Emptied;
      /** That it is not known whether the kernel killed in it; absent: it is. */
      readonly detail?: string;
    }
  /** It has ended, and whether by the agent's request is not known: `detail` says why. `emptied`: as above. */
  | { readonly kind: 'unknown'; readonly detail: string; readonly emptied?: Emptied }
  | {
      readonly kind: 'survived';
      /** At most ten; empty if they were not listed: `detail` then says what is left. */
      readonly left: readonly ProcessView[];
      readonly detail: string;
      readonly toldMs?: MonoMs | null;
      /** No process is left in its cgroup. Absent: they still are. */
      readonly escaped?: Escaped;
    }
  | {
      readonly kind: 'dropped';
      readonly because:
        | 'no-longer-met'
        /** An earlier run had asked it to stop. It has not ended, and its threshold is no longer met. */
        | 'not-killed'
        /** An earlier run had begun to stop it. It has not ended, and nobody carried that on in time: it is decided anew. */
        | 'overdue'
        /** An earlier run chose it some time ago, and is not known to have asked it to stop: it is decided anew. */
        | 'stale'
        /** What is declared or known of it, or the configuration, has changed before it was asked to stop: it is decided anew. */
        | 'changed'
        | 'gone'
        /** It had ended before; what runs in its place started after the decision. */
        | 'started-anew'
        | 'dry-run'
        | 'cancelled'
        | 'left-to-systemd'
        | 'rebound'
        /** Not signalled yet, and its manifest or its cgroup is not known: it may run. */
        | 'unresolved'
        /** The cgroup that was measured is not at its path any more. */
        | 'moved'
        /** beside-a-kubelet.md B1, under a soft threshold. */
        | 'budget-refused'
        | 'eviction-not-taken'
        /** A shutdown has overtaken it, and stops the pod: the kubelet does not, or systemd has stopped the kubelet. */
        | 'shutdown'
        /** beside-a-kubelet.md E14, at a shutdown: it is stopped with the agent. */
        | 'not-deleted';
    }
);

/** What a container runtime removed. `problem`: why something is left to remove, in one sentence; null: nothing is. */
export type Removed = { readonly containers: number; readonly images: number; readonly problem: string | null };

/** `problem`: what is not empty, and why; null: everything is empty. */
export type Emptied = { readonly freedBytes: Reading<number>; readonly problem: string | null };

/**
 * A victim was sent its first request to end, or its first SIGKILL. This is not its end, but its grace period and deadline
 * start here (D3). `unmount`: it has no process any more, and most of its memory will be freed with its memory volumes.
 */
export type Signalled = {
  readonly of: DecisionId;
  readonly atMs: MonoMs;
  readonly kind: 'signalled';
  readonly with: 'sigterm' | 'sigkill' | 'unmount';
};
/** News about earlier decisions. */
export type Heard = Outcome | Signalled;

export const isEnd = (heard: Heard): heard is Outcome => heard.kind !== 'signalled';
