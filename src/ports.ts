import type { CoreConfig, ShutdownPhase } from './core/core-config.ts';
import type { Decision, DecisionId } from './core/decision.ts';
import type { Hasten } from './core/eviction/hasten.ts';
import type { PodStatus } from './core/eviction/pod-status.ts';
import type { Emptying, Observation, ShutdownEvent, Unconfirmed } from './core/observation.ts';
import type { Emptied, Heard, Outcome, Removed, Rung, Signalled } from './core/outcome.ts';
import type { DiskRound, DiskWalk, OpenFiles, SharedFiles, WalkedRound } from './core/pod/disk-walk.ts';
import type { PodView, ProcessView, Victim } from './core/pod/pod.ts';
import type { MonoMs, Reading, Unknown } from './core/reading.ts';
import type { PhaseEnd } from './core/reason.ts';
import type { ReclaimCall } from './core/reclaim/calls.ts';
import type { Turn } from './core/shutdown/chain.ts';
import type { NodeCondition, Signal, SignalSample } from './core/signal.ts';
import type { State } from './core/state/state.ts';
import type { NextLook, Verdict } from './core/verdict.ts';

export type Clock = {
  readonly monoMs: () => MonoMs;
  readonly wallMs: () => number;
  /** Runs once after `ms`; the returned function cancels. */
  readonly after: (ms: number, run: () => void) => () => void;
};
export type Observer = {
  /** Synchronous: kernel files are read now, slow sources return their last sample (2.4). Never throws. */
  readonly look: (want: NextLook, arrived: Arrived) => Observation;
  /** Only memory.available, read now, between looks; absent: a look costs no more. Never throws. */
  readonly glance?: () => Reading<SignalSample>;
  /** D9: one signal, read again right before a kill, and before and after a reclaim. Never a value from before the call. */
  readonly reread: (signal: Signal) => Promise<Reading<SignalSample>>;
};
/** A cgroup is its inode, not its path: a new one may have the same path. */
export type CgroupRef = { readonly path: string; readonly inode: number };
/** A mode says what a pod declares and where it runs; observe/ measures it and builds the PodView. */
export type BoundPod = {
  readonly declared: Omit<PodView, 'usage'>;
  readonly cgroup: Reading<CgroupRef>;
  /** It is active without a process, but stopping it runs something. Only a shutdown stops such a pod. */
  readonly isIdle?: true;
  /** It runs, but nothing about it can be measured. */
  readonly isUnseen?: true;
  /** It may run, but nobody has said where; its cgroup is unknown. */
  readonly isUnlocated?: true;
  /** It has no process, and systemd is about to start its service again (SubState auto-restart). */
  readonly isBetweenRuns?: true;
  readonly containers: readonly { readonly name: string; readonly cgroup: Reading<CgroupRef> }[];
  /** D3: once it has no process, its memory volumes are unmounted. Absent: nobody does that, or there was time enough. */
  readonly comesBack?: true;
  /** How often this run of the agent has stopped it; absent: never. A restarted pod may use the same cgroup again. */
  readonly stops?: number;
  /**
   * `soFar` receives lower bounds while the walk lasts. `round`: what the walk finds is remembered for `sharedFiles`. Unknown
   * `not-applicable`: the pod declares no directory.
   */
  readonly disk: (soFar: (least: DiskWalk) => void, round?: DiskRound) => Promise<Reading<DiskWalk>>;
  /** Deleted files that its processes hold open now; absent: the mode does not check. */
  readonly openFiles?: (round?: number) => Promise<Reading<OpenFiles>>;
  /** The files of its walk and its open ones that other pods of the round have, too; absent: the mode does not check. */
  readonly sharedFiles?: (walked: WalkedRound) => Promise<Reading<readonly SharedFiles[]>>;
  /** What counts as its disk; absent: the mode names no directories. */
  readonly directories?: readonly string[];
  /** Its directories that are emptied after it has ended; absent: none. */
  readonly scratch?: readonly string[];
};
export type PodSource = {
  /** Resolves once the pods were read for the first time, or cannot be read. Absent: `unsettled` says so. */
  readonly opened?: () => Promise<void>;
  /** With their current cgroups; never waits for a network. */
  readonly pods: () => Reading<readonly BoundPod[]>;
  /** D13: before a choice, reads what can only be read off the event loop; waits at most 20 ms for one call. Absent: nothing. */
  readonly freshen?: () => Promise<void>;
  /** At most 10 s old, for callers that only want to know whether there is something to do. Absent: use `pods`. */
  readonly podsLately?: () => Reading<readonly BoundPod[]>;
  /**
   * Why none of the pods that were read last may be chosen yet, for this signal, for what no signal asks for (null), or (`all`)
   * for a shutdown: right after a start, pods may be missing. Null: they are all known. Absent: they always are.
   */
  readonly unsettled?: (forWhat: NextLook['pods']) => Unknown | null;
  /** The current interval between looks: near a threshold, the pods are refreshed more often. */
  readonly follow: (afterMs: number) => void;
  readonly close: () => Promise<void>;
};
export type StopOrder = {
  readonly decision: DecisionId;
  readonly victim: Victim;
  readonly graceMs: number;
  readonly why: 'eviction' | 'shutdown';
  /** A hard threshold or a local storage limit: no budget is asked, nothing waited for (beside-a-kubelet.md B1, B6). */
  readonly isHard: boolean;
  /**
   * When an earlier run of the agent decided it; null for a decision of this run. A process that started later is not part of
   * the victim, so nothing is killed twice.
   */
  readonly resumedFromMs: MonoMs | null;
  /** The signal that an earlier run had sent: if the victim is gone, the agent ended it. Absent: none is known. */
  readonly sentBefore?: Signalled['with'] | undefined;
  /** When that was, for a shutdown: its grace period began then. Absent: not known. */
  readonly sentBeforeMs?: MonoMs | undefined;
  /** Standalone: asked before SIGKILL to a victim of an earlier run: true if it need not end any more. Absent: not asked. */
  readonly isOver?: () => Promise<boolean>;
  /** What an earlier run had done about the victim, in mode kubelet. Absent: nothing. */
  readonly doneBefore?: readonly Rung[];
  /** The memory charged to the victim right before its first signal, even by an earlier run. Absent: it is read now. */
  readonly usedBefore?: Reading<number>;
  /** D12: SIGKILL under a hard memory or pid threshold; `graceMs` is then only what is reported to the API. */
  readonly first: 'sigterm' | 'sigkill';
  /** For a shutdown: because the agent itself is stopped; absent: after logind's signal. */
  readonly tier?: 'stop';
  /** For a shutdown: its grace period begins when the pod is asked to stop, in its turn. */
  readonly turn?: Turn;
  /** What must be free again for the proof: unreaped processes still count against the pids of their cgroup. */
  readonly givesBack: 'memory' | 'pids';
};
export type Killer = {
  /**
   * Stops every process of the victim. Never rejects. Resolves with
   * - `ended` once no process is left and what `givesBack` names is free again, or 10 s after SIGKILL if none is left;
   * - `survived` if processes are left, its unit is still active, or where it was signalled or is to be stopped is not known;
   * - `unknown` if it has ended, and whether by this agent's request nobody can say yet;
   * - `dropped` if it is not stopped, or not any more: `because` says why (core/outcome.ts).
   * `hasten` cuts the grace period. `signalled` is called at the first request to stop and SIGKILL, maybe also later; `atMs`:
   * when that was, if known only later. `became` gets what an `unknown` outcome turned out to be, and the end of a survivor.
   */
  readonly stop: (
    order: StopOrder,
    hasten: Hasten,
    signalled?: (how: Signalled['with'], atMs?: MonoMs) => void,
    became?: (outcome: Outcome) => void,
  ) => Promise<Outcome>;
  /** Of the shutdown that stops pods now: aborted once it is cancelled. Absent: this killer does not know. */
  readonly cancel?: (() => AbortSignal) | undefined;
  /** Right after a start: resolves once it is known where the victim runs, or after 5 s. Absent: `stop` needs no such wait. */
  readonly whenFound?: ((victim: Victim) => Promise<void>) | undefined;
  /** All memory that is charged to the victim now. */
  readonly usedBytes: (victim: Victim) => Reading<number>;
  /** The victim's largest processes by resident memory; unknown if reading them takes longer than `budgetMs`. */
  readonly largestProcesses: (victim: Victim, count: number, budgetMs: number) => Reading<readonly ProcessView[]>;
};
/**
 * A container runtime frees disk space (kubelet-eviction.md 6.5, 6.6). Never rejects; resolves within 60 s, plus up to 30 s
 * for a call in progress. `containers` with nothing to remove is not a problem.
 */
export type NodeReclaim = (calls: readonly ReclaimCall[]) => Promise<Removed>;
/** Directories that a pod declares as scratch. */
export type Scratch = {
  /** Call it once the pod is proven dead. Null: it has none. Never rejects, and resolves within some ten seconds. */
  readonly empty: (victim: Pick<Victim, 'uid' | 'boundTo'>, as: Emptying) => Promise<Emptied | null>;
  /** What has not ended, also of what nobody waits for any more. Absent: nothing is ever emptied. */
  readonly emptying?: () => readonly Emptying[];
};
export type NodeMarks = {
  readonly setCondition: (condition: NodeCondition, status: boolean, message: string) => void;
  /** Never waits; a mode without an API ignores it. */
  readonly event: (
    reason: 'Evicted' | 'EvictionThresholdMet' | 'NodeShutdown',
    message: string,
    about: {
      readonly decision: DecisionId;
      /** Null: the node. */
      readonly pod: Pick<Victim, 'uid' | 'namespace' | 'name'> | null;
      /** kubelet-eviction.md 7.2 */
      readonly annotations: { readonly [key: string]: string };
    },
  ) => void;
};
/**
 * What is known about a decision in progress that an earlier run of the agent, or the parts before a reload, had made.
 */
export type Left = {
  readonly decision: Decision | null;
  /** Right before the first signal to its victim; null: none was sent. */
  readonly begunMs: MonoMs | null;
  /** The memory that was charged to its victim then; null: not known. */
  readonly usedBefore: Reading<number> | null;
  /** What was done about its victim, in mode kubelet. */
  readonly rungs: readonly Rung[];
  /** It is in the record, but not yet in the state. */
  readonly outcome: Outcome | null;
};
export type Recorder = {
  /** Writes the live state, then the record. Resolves within `deadlineMs` whatever the disk does; deferred entries are written when there is room, or counted as lost. */
  readonly intent: (
    step: { readonly observation: Observation; readonly verdict: Verdict },
    deadlineMs: number,
  ) => Promise<'durable' | 'deferred'>;
  /** Not awaited: written at once when a timer, `act` or `shutdown` changed, otherwise at most once a second, and every 10 s while idle; coalesced. */
  readonly keep: (state: State) => void;
  /** Right before the first signal to a victim: written next to the state at once, so that it is known if the agent gets SIGKILL. */
  readonly began: (note: Extract<RecordNote, { kind: 'evidence' }>) => void;
  /** Also written next to the state at once, before the state can forget the decision. */
  readonly outcome: (outcome: Outcome) => void;
  /**
   * Other entries of the record, besides decisions and outcomes. What was done about a victim (`rung`) is also written next to
   * the state at once. `recorded`: any other one is on the disk, or lost.
   */
  readonly note: (note: RecordNote, recorded?: () => void) => void;
};
/** The shutdown lock, kept armed for as long as it is wanted (product.md section 9). Never throws. */
export type Inhibitor = {
  /** What the phases need in total, without the reserve; null: shutdown is off. `isUnderWay`: an earlier run knew of a shutdown. */
  readonly want: (neededMs: number | null, isUnderWay?: boolean) => void;
  /** For a cancelled shutdown; otherwise the lock is taken as soon as it is wanted, and again whenever it is lost. */
  readonly take: () => void;
  readonly release: () => void;
  readonly status: () => InhibitorStatus;
  /** Reports the current state again to new listeners: what is granted, and a shutdown in progress. */
  readonly retell: () => void;
  /** Releases the lock. */
  readonly close: () => Promise<void>;
};
export type InhibitorStatus = {
  readonly lock:
    | { readonly kind: 'off' }
    /** Held, listed under our name, and logind grants what is needed: verified at `provenMs`. */
    | { readonly kind: 'armed'; readonly neededMs: number; readonly grantedMs: number; readonly provenMs: MonoMs }
    /** `isHeld`: the lock is held, but logind grants less than needed. `grantedMs` null: logind could not be queried. */
    | {
        readonly kind: 'not-armed';
        readonly neededMs: number;
        readonly grantedMs: number | null;
        readonly isHeld: boolean;
        /** A sentence with the path or call that stands in the way, and what to do. */
        readonly why: string;
        /** No obstacle is known yet: logind is being queried right now. */
        readonly isPending?: true;
      }
    | { readonly kind: 'released' };
  readonly isPreparing: boolean;
  /** `poweroff`, `reboot`, `halt`, … as reported by logind (255 and later, or from the schedule); null = not known. */
  readonly type: string | null;
  /** The kubelet holds a shutdown lock of its own; null: not known. */
  readonly isKubeletArmed: boolean | null;
  /** A scheduled shutdown; nothing is stopped for it before its time. */
  readonly scheduled: { readonly type: string; readonly atWallMs: number } | null;
};

/** How an earlier boot ended, from the record. */
export type BootEndSaid = {
  readonly bootId: string;
  readonly end: 'graceful' | 'cut' | 'ungraceful' | 'not-watched' | 'unknown';
  /** No earlier run of the current boot has reported it. */
  readonly isNew: boolean;
};

export type RecordNote =
  | {
      readonly kind: 'evidence';
      readonly of: DecisionId;
      /** Right before the victim's first signal. */
      readonly stopBeganAtMs: MonoMs;
      /** The memory that was charged to it then; absent in records of earlier versions. */
      readonly usedBytes?: Reading<number>;
      readonly largestProcesses: Reading<readonly ProcessView[]>;
      readonly podStatus: PodStatus;
    }
  /** What is done about a victim: recorded when it is done, and again with its answer. */
  | ({ readonly kind: 'rung'; readonly of: DecisionId } & Rung)
  | {
      readonly kind: 'kernel-oom-kill';
      readonly atMs: MonoMs;
      readonly count: number;
      readonly pods: readonly string[];
      /** How many of `count` belong to no known pod; absent in records of earlier versions. */
      readonly unattributed?: number;
      /** They fell between this time and `atMs`, while no agent watched. Absent: one did. */
      readonly unwatchedSinceMs?: MonoMs;
    }
  | { readonly kind: 'stopped-again' | 'restarted'; readonly atMs: MonoMs; readonly pod: string; readonly unit: string }
  | { readonly kind: 'finding'; readonly atMs: MonoMs; readonly finding: Finding }
  /** A run began (`isUnreported`: and ended before it could tell of the last boot); it ended cleanly; the machine stays up or goes down. */
  | { readonly kind: 'started'; readonly atMs: MonoMs; readonly isUnreported?: true }
  /** `hasRun`: its `started` is or was in the same record; absent: not known (0.2.0 noted none where a reload led to). */
  | { readonly kind: 'stopped'; readonly atMs: MonoMs; readonly machine: 'stays' | 'goes-down'; readonly hasRun?: true }
  /** The running pods as `namespace/name`, written whenever they change: used to report an ungraceful end. */
  | { readonly kind: 'running'; readonly atMs: MonoMs; readonly pods: readonly string[] }
  | { readonly kind: 'shutdown'; readonly atMs: MonoMs; readonly fact: ShutdownFact };

/** What happened in a shutdown; which pods stopped, and how, is in the decisions and outcomes next to it. */
export type ShutdownFact =
  | {
      readonly what: 'began';
      readonly tier: 'logind' | 'stop';
      /** poweroff, reboot, …; null = not known. */
      readonly type: string | null;
      readonly phases: readonly ShutdownPhase[];
      /** What logind granted; null = no lock was held. */
      readonly grantedMs: number | null;
      /** Less than the phases need in total: they were shrunk to fit (D11); null = not limited. */
      readonly limitMs: number | null;
      /** The second tier of a shutdown that was reported before: what the first one left is stopped with the agent. */
      readonly isSecond?: true;
      /** The kubelet stops the pods; absent: nodewarden does. */
      readonly byKubelet?: true;
    }
  /** beside-a-kubelet.md E4; null: not in time. */
  | { readonly what: 'announced'; readonly detail: string | null }
  /** E17; `left` null: the API could not be asked. */
  | { readonly what: 'confirmed'; readonly tookMs: number; readonly left: Unconfirmed | null }
  /** `wantedMs`: its own period; `periodMs`: what it got. */
  | {
      readonly what: 'phase';
      readonly phase: number;
      readonly periodMs: number;
      readonly wantedMs: number;
      readonly pods: readonly string[];
    }
  | {
      readonly what: 'phase-over';
      readonly phase: number;
      readonly tookMs: number;
      readonly by: PhaseEnd;
      /** Pods whose stop had not ended. */
      readonly running: readonly string[];
    }
  /** Pods that ran when the first phase began, and were down before this one, or when there was to be none. */
  | { readonly what: 'gone'; readonly phase: number; readonly pods: readonly string[] }
  | { readonly what: 'stopped-again'; readonly pod: string; readonly times: number }
  | { readonly what: 'lock-lost'; readonly detail: string }
  | { readonly what: 'cancelled'; readonly phase: number; readonly why: string }
  /** `shutdown -c` was called, but logind continues the shutdown (252), or `isAnew`: announced the next one during its phases. */
  | { readonly what: 'cancel-not-honoured'; readonly isAnew?: true }
  /** Units that a cancelled shutdown had stopped and that run again, and those that were not restarted, with the reason. */
  | { readonly what: 'undone'; readonly started: readonly string[]; readonly notUndone: readonly string[] }
  /** Before it, logind had gone on after what it granted (`delayMs`), or systemd had begun to stop everything (`isOvertaken`). */
  | {
      readonly what: 'released';
      readonly why: 'all-phases-done' | 'out-of-time';
      readonly delayMs?: number;
      readonly isOvertaken?: true;
    }
  /** An agent that was started in the middle of a shutdown continues it. */
  | { readonly what: 'resumed'; readonly phase: number };

/** A problem that a person should know about until it is cleared. Equal ids are one finding. */
export type Finding = { readonly id: string; readonly text: string };
export type Findings = {
  readonly raise: (finding: Finding) => void;
  readonly clear: (id: string) => void;
  readonly all: () => readonly Finding[];
};
/** product.md section 10: stable names. */
export type LogEvent =
  | 'pressure'
  | 'pressure-cleared'
  | 'reclaim'
  | 'evict'
  | 'evicted'
  | 'evict-failed'
  | 'dropped'
  | 'restarted'
  | 'kernel-oom-kill'
  | 'armed'
  | 'not-armed'
  | 'shutdown'
  | 'phase'
  | 'released'
  | 'cancelled'
  | 'cordon'
  | 'api-away'
  | 'config'
  | 'finding'
  | GuardEvent;
/** guard.md section 11. */
type GuardEvent = 'leader' | 'settling' | 'fence' | 'hold' | 'storm' | 'device' | 'order';
export type LogFields = { readonly event: LogEvent; readonly [field: string]: unknown };
export type Log = {
  readonly debug: (fields: LogFields, msg: string) => void;
  readonly info: (fields: LogFields, msg: string) => void;
  readonly warn: (fields: LogFields, msg: string) => void;
  readonly error: (fields: LogFields, msg: string) => void;
};
/** Results of everything that runs beside the loop; the loop is the only reader. */
export type Arrived = { readonly outcomes: readonly Heard[]; readonly events: readonly ShutdownEvent[] };
export type Inbox = {
  readonly put: (item: Heard | ShutdownEvent) => void;
  readonly drain: () => Arrived;
  /** Whether news of how this decision ended has arrived since the last `drain`. */
  readonly hasEnded: (of: DecisionId) => boolean;
  /** Ends the next `wait` at once: a sample arrived, the kernel reported something, or the configuration changed. */
  readonly wake: () => void;
  /**
   * Resolves after `ms` as `over`, or at once as `called` when something arrives or the kernel wakes us. `again` is called
   * when `ms` are over and returns how much longer to wait; null = no longer. It must not throw.
   */
  readonly wait: (ms: number, again?: () => number | null) => Promise<'over' | 'called'>;
};
export type Parts = {
  readonly observer: Observer;
  /** Before a look that reads the pods; absent: they are always fresh. */
  readonly freshenPods?: PodSource['freshen'] | undefined;
  readonly recorder: Recorder;
  readonly inbox: Inbox;
  readonly config: () => CoreConfig;
  /** Called before waiting for the intent, for work that can be done meanwhile. */
  readonly prepare?: (decision: Decision) => void;
  readonly begin: (decision: Decision) => void;
  readonly publish: (observation: Observation, verdict: Verdict) => void;
  /** Asked before each look but the first. True: no look follows, which could decide once more. */
  readonly isOver?: () => boolean;
};
