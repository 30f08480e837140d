import type { CoreConfig, ShutdownPhase } from './core/core-config.ts';
import type { Decision, DecisionId } from './core/decision.ts';
import type { PodStatus } from './core/eviction/pod-status.ts';
import type { Observation, ShutdownEvent } from './core/observation.ts';
import type { Emptied, Heard, Outcome, Signalled } from './core/outcome.ts';
import type { ContainerUsage, DiskUsage, PodUid, PodView, ProcessView, Victim, VolumeUsage } from './core/pod/pod.ts';
import type { MonoMs, Reading, Unknown } from './core/reading.ts';
import type { PhaseEnd } from './core/reason.ts';
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
  /** Synchronous: kernel files are read now, slow sources give their last sample (2.4). Never throws. */
  readonly look: (want: NextLook, arrived: Arrived) => Observation;
  /** memory.available alone, read now, between looks; absent: that is no cheaper than a look. Never throws. */
  readonly glance?: () => Reading<SignalSample>;
  /** D9: one signal, read again: right before a kill, and before and after a reclaim. Nothing from before it was asked. */
  readonly reread: (signal: Signal) => Promise<Reading<SignalSample>>;
};
/** A cgroup is its inode, not its path: a new one may have the same path. */
export type CgroupRef = { readonly path: string; readonly inode: number };
/** A mode says what a pod declares and where it lives; observe/ measures it and makes the PodView. */
export type BoundPod = {
  readonly declared: Omit<PodView, 'usage'>;
  readonly cgroup: Reading<CgroupRef>;
  /** It is active without a process, and its stop does something: of a shutdown alone. */
  readonly isIdle?: true;
  /** It runs where nothing of it can be measured. */
  readonly isUnseen?: true;
  readonly containers: readonly { readonly name: string; readonly cgroup: Reading<CgroupRef> }[];
  /** How many stops of ours it has had in this run; absent: none. Whoever starts it again may use the same cgroup. */
  readonly stops?: number;
  /** `soFar` hears while it lasts what is there at least. Unknown `not-applicable`: it declares no directory. */
  readonly disk: (soFar: (least: DiskWalk) => void) => Promise<Reading<DiskWalk>>;
  /** What its processes hold open now without a name; absent: the mode does not look. */
  readonly openFiles?: () => Promise<Reading<OpenFiles>>;
  /** What counts as its disk; absent: the mode names no directories. */
  readonly directories?: readonly string[];
  /** Directories of it that are emptied after its end; absent: none. */
  readonly scratch?: readonly string[];
};
export type DiskWalk = {
  readonly pod: DiskUsage;
  readonly containers: readonly Omit<ContainerUsage, 'workingSetBytes'>[];
  readonly volumes: readonly VolumeUsage[];
  /** What the sum is made of; absent: the mode has no directories to name. */
  readonly directories?: readonly WalkedDirectory[];
};
/** One of the directories that were asked for, without what lies below another one of them. */
export type WalkedDirectory = {
  readonly path: string;
  /** st_dev. */
  readonly device: number;
  /** The directory itself included: `ownBytes` of it, and one inode. */
  readonly bytes: number;
  readonly inodes: number;
  readonly ownBytes: number;
  /** What of it, without itself, was created during the last minute, where the file system tells. */
  readonly freshBytes: number;
  readonly freshInodes: number;
  /** What of it stays when the directory goes: files that have another name elsewhere, as far as is known. */
  readonly linkedBytes: number;
  readonly linkedInodes: number;
};
/** Deleted files that are held open, by st_dev, each file once. `isComplete` false: the figures mean "at least". */
export type OpenFiles = {
  readonly devices: readonly { readonly device: number; readonly bytes: number; readonly inodes: number }[];
  readonly isComplete: boolean;
};
export type PodSource = {
  /** With the cgroups that they have at this moment; never waits for a network. */
  readonly pods: () => Reading<readonly BoundPod[]>;
  /**
   * Why nobody may be chosen yet, for this signal or (`all`) for a shutdown: right after a start pods may be missing. Null:
   * they are all there. Absent: always so.
   */
  readonly unsettled?: (forWhat: NonNullable<NextLook['pods']>) => Unknown | null;
  /** How far apart the looks are now: near a threshold the pods are kept fresher. */
  readonly follow: (afterMs: number) => void;
  readonly close: () => Promise<void>;
};
export type StopOrder = {
  readonly decision: DecisionId;
  readonly victim: Victim;
  readonly graceMs: number;
  readonly why: 'eviction' | 'shutdown';
  /**
   * When an earlier run of the agent decided it, null for a decision of this run. Who started later is not its victim:
   * what was ended already is not ended twice.
   */
  readonly resumedFromMs: MonoMs | null;
  /** What an earlier run had sent it: who is gone then was ended by us. Absent: nothing that is known. */
  readonly sentBefore?: Signalled['with'] | undefined;
  /** D12: SIGKILL under a hard memory or pid threshold; `graceMs` is then only what the API is told. */
  readonly first: 'sigterm' | 'sigkill';
  /** Of a shutdown: its grace begins when the pod is told, in its turn. */
  readonly turn?: Turn;
  /** What must have come back for the proof: the dead count against the pids of their cgroup until they are reaped. */
  readonly givesBack: 'memory' | 'pids';
};
export type Killer = {
  /** Ends every process of the victim and proves it. `hasten` cuts the grace. Never rejects: resolves with the truth. */
  /** `hasten.reason` is `{ first: 'sigterm' | 'sigkill', graceMs }`. */
  /** `signalled` is called at the moment of the first request to end and of the first SIGKILL; what follows may call it again. */
  readonly stop: (
    order: StopOrder,
    hasten: AbortSignal,
    signalled?: (how: Signalled['with']) => void,
  ) => Promise<Outcome>;
  /** The victim's largest processes by resident memory; unknown when looking takes longer than `budgetMs`. */
  readonly largestProcesses: (victim: Victim, count: number, budgetMs: number) => Reading<readonly ProcessView[]>;
};
/** Directories that a pod declares as scratch. */
export type Scratch = {
  /** To be called once the pod is proven dead. Null: it has none. Never rejects, and resolves in some seconds at most. */
  readonly empty: (uid: PodUid) => Promise<Emptied | null>;
};
export type NodeMarks = {
  readonly setCondition: (condition: NodeCondition, status: boolean, message: string) => void;
  readonly event: (reason: 'Evicted' | 'EvictionThresholdMet' | 'NodeShutdown', message: string) => void;
};
/** What is known of a decision that an earlier run of the agent, or parts before, had under way. */
export type Left = {
  readonly decision: Decision | null;
  /** Right before the first signal to its victim; null: none was sent. */
  readonly begunMs: MonoMs | null;
  /** It is recorded, and the state had not heard of it. */
  readonly outcome: Outcome | null;
};
export type Recorder = {
  /** Writes the live state, then the record; resolves within `deadlineMs` whatever the disk does; what is deferred is written when there is room. */
  readonly intent: (
    step: { readonly observation: Observation; readonly verdict: Verdict },
    deadlineMs: number,
  ) => Promise<'durable' | 'deferred'>;
  /** Not awaited: written at once when a timer, `act` or `shutdown` changed, else at most once a second, and every 10 s while nothing is going on; coalesced. */
  readonly keep: (state: State) => void;
  /** Right before the first signal to a victim: written beside the state at once, so that it is known after a SIGKILL of ours. */
  readonly began: (note: Extract<RecordNote, { kind: 'evidence' }>) => void;
  /** Written beside the state at once as well, before the state can forget the decision. */
  readonly outcome: (outcome: Outcome) => void;
  /** What belongs to the record beside decisions and outcomes. */
  readonly note: (note: RecordNote) => void;
};
/** The shutdown lock, kept armed for as long as it is wanted (product.md section 9). Never throws. */
export type Inhibitor = {
  /** What the phases need in all, without the reserve; null: shutdown is off, and nothing of ours stays at logind. */
  readonly want: (neededMs: number | null) => void;
  /** After a cancel; otherwise it is taken as soon as it is wanted, and again whenever it is lost. */
  readonly take: () => void;
  readonly release: () => void;
  readonly status: () => InhibitorStatus;
  /** Says the present once more, for who has only begun to listen: what is granted, and a shutdown under way. */
  readonly retell: () => void;
  /** Lets the lock go. */
  readonly close: () => Promise<void>;
};
export type InhibitorStatus = {
  readonly lock:
    | { readonly kind: 'off' }
    /** Held, listed under our name, and logind grants what is needed: seen so at `provenMs`. */
    | { readonly kind: 'armed'; readonly neededMs: number; readonly grantedMs: number; readonly provenMs: MonoMs }
    /** `isHeld`: the lock is there, but logind grants less than needed. `grantedMs` null: it could not be asked. */
    | {
        readonly kind: 'not-armed';
        readonly neededMs: number;
        readonly grantedMs: number | null;
        readonly isHeld: boolean;
        /** A sentence with the path or call that stands in the way, and what to do. */
        readonly why: string;
        /** Nothing stands in the way yet: logind is being asked just now. */
        readonly isPending?: true;
      }
    | { readonly kind: 'released' };
  readonly isPreparing: boolean;
  /** `poweroff`, `reboot`, `halt`, … as logind said it (255 and later, or from the schedule); null = not known. */
  readonly type: string | null;
  /** A shutdown that is to come; nothing is stopped for it before its time. */
  readonly scheduled: { readonly type: string; readonly atWallMs: number } | null;
};

export type RecordNote =
  | {
      readonly kind: 'evidence';
      readonly of: DecisionId;
      /** Right before the victim's first signal. */
      readonly stopBeganAtMs: MonoMs;
      readonly largestProcesses: Reading<readonly ProcessView[]>;
      readonly podStatus: PodStatus;
    }
  | {
      readonly kind: 'kernel-oom-kill';
      readonly atMs: MonoMs;
      readonly count: number;
      readonly pods: readonly string[];
      /** How many of `count` are nobody's that we know; absent in records of earlier versions. */
      readonly unattributed?: number;
    }
  | { readonly kind: 'stopped-again' | 'restarted'; readonly atMs: MonoMs; readonly pod: string; readonly unit: string }
  | { readonly kind: 'finding'; readonly atMs: MonoMs; readonly finding: Finding }
  /** A run of the agent began; it ended by itself, while the machine stays up or goes down. */
  | { readonly kind: 'started'; readonly atMs: MonoMs }
  | { readonly kind: 'stopped'; readonly atMs: MonoMs; readonly machine: 'stays' | 'goes-down' }
  /** Pods that run now, as `namespace/name`, whenever they are others: what an ungraceful end is told with. */
  | { readonly kind: 'running'; readonly atMs: MonoMs; readonly pods: readonly string[] }
  | { readonly kind: 'shutdown'; readonly atMs: MonoMs; readonly fact: ShutdownFact };

/** What a shutdown came to; which pods stopped, and how, is in the decisions and outcomes beside it. */
export type ShutdownFact =
  | {
      readonly what: 'began';
      readonly tier: 'logind' | 'stop';
      /** poweroff, reboot, …; null = not known. */
      readonly type: string | null;
      readonly phases: readonly ShutdownPhase[];
      /** What logind granted; null = no lock was held. */
      readonly grantedMs: number | null;
      /** Less than the phases want in all: they were shrunk into this (D11); null = not limited. */
      readonly limitMs: number | null;
    }
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
  | { readonly what: 'stopped-again'; readonly pod: string; readonly times: number }
  | { readonly what: 'lock-lost'; readonly detail: string }
  | { readonly what: 'cancelled'; readonly phase: number; readonly why: string }
  /** `shutdown -c` came, and logind goes down all the same (252). */
  | { readonly what: 'cancel-not-honoured' }
  /** Units that a cancelled shutdown had stopped and that run again, and what could not be undone, with the reason. */
  | { readonly what: 'undone'; readonly started: readonly string[]; readonly notUndone: readonly string[] }
  | { readonly what: 'released'; readonly why: 'all-phases-done' | 'out-of-time' }
  /** An agent that was started in the middle goes on with it. */
  | { readonly what: 'resumed'; readonly phase: number };

/** Something a person should know, until it is cleared. The same id is one finding. */
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
  | 'finding';
export type LogFields = { readonly event: LogEvent; readonly [field: string]: unknown };
export type Log = {
  readonly debug: (fields: LogFields, msg: string) => void;
  readonly info: (fields: LogFields, msg: string) => void;
  readonly warn: (fields: LogFields, msg: string) => void;
  readonly error: (fields: LogFields, msg: string) => void;
};
/** Everything that happens beside the loop ends here; the loop is the only reader. */
export type Arrived = { readonly outcomes: readonly Heard[]; readonly events: readonly ShutdownEvent[] };
export type Inbox = {
  readonly put: (item: Heard | ShutdownEvent) => void;
  readonly drain: () => Arrived;
  /** The next `wait` ends at once: a sample came, the kernel has news, or the configuration changed. */
  readonly wake: () => void;
  /**
   * Resolves after `ms` as `over`, or at once as `called` when something arrives or the kernel wakes us. `again` is asked
   * when `ms` are over: for how long to wait once more, null = no longer. Must not throw.
   */
  readonly wait: (ms: number, again?: () => number | null) => Promise<'over' | 'called'>;
};
export type Parts = {
  readonly observer: Observer;
  readonly recorder: Recorder;
  readonly inbox: Inbox;
  readonly config: () => CoreConfig;
  /** Called before the intent is waited for: what may be done meanwhile. */
  readonly prepare?: (decision: Decision) => void;
  readonly begin: (decision: Decision) => void;
  readonly publish: (observation: Observation, verdict: Verdict) => void;
};
