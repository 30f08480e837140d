import type { MethodKey, NodePlan } from './config.ts';

/** `<key of the node>-<count>`; its ConfigMap is `fencing-<id>`, its taint's value `nodewarden.<id>`. */
export type FencingId = string;

export type DecisionId = string;

export type PowerState = 'on' | 'off';

export type NodeRef = { readonly name: string; readonly uid: string; readonly bootId: string };

/** guard.md 7.3, in order; the last five are where a fencing stays until the node is back, or for ever. */
export const PHASES = [
  'decided',
  'isolating',
  'off-sent',
  'proving',
  'proven',
  'tainted',
  'untainting',
  'on-sent',
  'booting',
  'failed',
  'stuck',
  'aborted',
  'left-off',
  'not-back',
  'closed',
] as const;
export type Phase = (typeof PHASES)[number];

/** It does not go on by itself, and its node may be gone for good: a person must look. */
export const needsPerson = (phase: Phase): boolean => phase === 'stuck' || phase === 'not-back';

/** Not in dry run. In the others, nothing is done until a try is due, its node is back, or a person has looked. */
export const goesOn = (phase: string): boolean => !AT_REST.has(phase);
const AT_REST: ReadonlySet<string> = new Set(['failed', 'stuck', 'aborted', 'left-off', 'not-back']);

/**
 * The contents of one ConfigMap (guard.md 7.2). Plain JSON, without secrets. Stored before every act: whoever reads it
 * knows what may have been done.
 */
export type FencingRecord = {
  readonly schema: 1;
  readonly id: FencingId;
  readonly node: NodeRef;
  /** A rehearsal writes no taint. */
  readonly purpose: 'fence' | 'rehearse';
  readonly phase: Phase;
  /** One more with every store: the newer of two copies is the one with the higher revision. */
  readonly revision: number;
  /** `leaseTransitions` of its writer's leadership. */
  readonly epoch: number;
  /** The process that wrote it last. */
  readonly writer: string;
  /** As resolved at the decision: a reload does not change it. */
  readonly plan: NodePlan;
  /** Index into `plan.levels`. */
  readonly level: number;
  /** The count of `off` commands to this level, from 1; 0: none yet. */
  readonly attempt: number;
  /** How often it was begun again after `failed`. */
  readonly retries: number;
  /** Methods that may have been sent `off`, and `on`; never shortened (G4) but by what is known not to have been begun. */
  readonly offSent: readonly MethodKey[];
  readonly onSent: readonly MethodKey[];
  /** When it last stored that an `off` is sent; null: it did not, or an earlier version did, whose steps say it. */
  readonly cutWallMs: number | null;
  /** Methods that were heard to say off since then. */
  readonly offHeard: readonly MethodKey[];
  /** Methods that had said on for this node when it was stored: the off of others proves nothing (guard.md 8.3 b). */
  readonly onHeard: readonly MethodKey[];
  /** The count of `on` commands. */
  readonly onAttempt: number;
  /** The lease's token for "no sign of life since"; null: to be taken after the power-off, because it was alive. */
  readonly renewed: string | null;
  /** A named person ordered it; null: decided by itself. */
  readonly order: {
    readonly verb: 'fence' | 'confirm-off' | 'rehearse';
    readonly by: string;
    readonly because: string;
  } | null;
  readonly proof: Proof | null;
  /** The machine stays off: said by this at its decision or since; null: it is to be powered on. */
  readonly staysOff: StaysOff | null;
  /** Life was seen after the proof. */
  readonly isAlive: boolean;
  /** A sentence's code for how it came to this phase, if not the usual way. */
  readonly why: string | null;
  /** Answers of its devices since the decision, at most 40, the oldest dropped. */
  readonly answers: readonly RecordedAnswer[];
  /**
   * What it was to free at its decision, and when its leaders saw it go and come back; for people alone. Null: that was not
   * known, or an earlier version, which did not say it, decided.
   */
  readonly freed: Freed | null;
  /** The phases so far; `wallMs` for display and the limits per hour and day. */
  readonly steps: readonly RecordedStep[];
  /** From the last sign of life to the decision. */
  readonly silentMs: number;
  /** That sign was seen; else it was silent for longer, from before its guard could hear it. */
  readonly wasHeard: boolean;
};

/** `person`: a named person said so (`confirm-off`). */
export type Proof =
  | { readonly by: 'devices'; readonly level: number }
  | { readonly by: 'person'; readonly name: string };

/** `loop`: too often in 24 hours. `nothing-sent`: it was off already, and is not ours to switch on. */
export type StaysOff = 'power-on-off' | 'loop' | 'nothing-sent' | 'person' | 'node-deleted';

export type RecordedAnswer = {
  readonly method: MethodKey;
  readonly act: 'status' | 'off' | 'on';
  readonly says: PowerState | 'unknown' | 'ok' | 'error';
  readonly phase: Phase;
  readonly wallMs: number;
  readonly tookMs: number;
};
export type Freed = { readonly pods: readonly FreedPod[]; readonly volumes: readonly FreedVolume[] };
/**
 * `isMember`: of a StatefulSet, so that its successor has its name. Null: not seen. `isGoneBy`, `isReadyBy`: so it was when it was
 * first looked for, and may have been long before.
 */
export type FreedPod = {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly isMember: boolean;
  readonly goneWallMs: number | null;
  readonly isGoneBy?: true;
  /** A successor was Ready. */
  readonly readyWallMs: number | null;
  readonly isReadyBy?: true;
};
/** `name`: of its VolumeAttachment. */
export type FreedVolume = {
  readonly name: string;
  readonly volume: string;
  readonly goneWallMs: number | null;
  readonly isGoneBy?: true;
};
export type RecordedStep = { readonly phase: Phase; readonly wallMs: number };

/**
 * `version`: the ConfigMap's resourceVersion. `record` null: unreadable, for the reason in `problem`. `nodeKey`: the
 * `NodeObject.key` in its name; null: it names no node.
 */
export type StoredRecord =
  | { readonly id: FencingId; readonly version: string; readonly record: FencingRecord }
  | {
      readonly id: FencingId;
      readonly version: string;
      readonly record: null;
      readonly problem: string;
      readonly nodeKey: string | null;
    };

/** What outlives a leader about one method of one node (`guard-devices`). */
export type KeptDevice = {
  readonly node: string;
  readonly method: MethodKey;
  readonly says: PowerState | 'unknown';
  readonly wallMs: number;
  /** It said on for this node once. */
  readonly hasSaidOn: boolean;
  /** It says on again, was away before, and its node has not lived since. */
  readonly hasReturned: boolean;
  /** What it said cannot be true. */
  readonly contradicted: Contradiction | null;
  /** When a rehearsal last proved its wiring. */
  readonly rehearsedWallMs: number | null;
};
/** `off-while-alive`: off, and the node's lease was renewed since. `life-after-proof`: it lived after its proof of off. */
export type Contradiction = { readonly why: 'off-while-alive' | 'life-after-proof'; readonly wallMs: number };

/** What outlives a leader about the cluster (`guard-state`). */
export type KeptState = {
  readonly paused: { readonly by: string; readonly because: string; readonly wallMs: number } | null;
  readonly holds: readonly KeptHold[];
  /** For people alone. */
  readonly past: readonly PastHold[];
};
/**
 * What held nodes back, by the wall clock of who led. `what`: why the gate of a node is closed (`Because`), or the kind of a
 * storm. `scope`: nodes by their names. `untilWallMs` null: its end is not on record. `isAtMost`: it was over by then, and who led
 * did not see when.
 */
export type PastHold = {
  readonly what: string;
  readonly scope: HoldScope;
  readonly fromWallMs: number;
  readonly untilWallMs: number | null;
  readonly isAtMost?: true;
};
/** A storm: open, or in its cool-down. */
export type KeptHold = { readonly kind: StormKind; readonly scope: HoldScope };
/** In the order of guard.md 6.3; `cool-down` is what each of them leaves behind. */
export type StormKind = 'cluster' | 'domain' | 'burst' | 'all';
/** Counted apart from each other: many of one group must not hide what befell another. */
export const GROUPS = ['workers', 'control-plane', 'exclude-disruption'] as const;
export type Group = (typeof GROUPS)[number];
export type HoldScope =
  /** One of `GROUPS`, or one that a newer version knows. */
  | { readonly kind: 'cluster'; readonly group: string }
  | { readonly kind: 'domain'; readonly label: string; readonly value: string }
  /** uids. */
  | { readonly kind: 'nodes'; readonly nodes: readonly string[] };
