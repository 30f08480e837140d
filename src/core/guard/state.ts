import type { MonoMs } from '../reading.ts';
import type { MethodKey } from './config.ts';
import type { Announcement, NodeFacts } from './node-facts.ts';
import type { ActResult, LeaseView, NodeObject, Order, ReleaseScope } from './observation.ts';
import type {
  Contradiction,
  DecisionId,
  FencingId,
  FencingRecord,
  HoldScope,
  KeptState,
  NodeRef,
  PastHold,
  PowerState,
  StormKind,
} from './record.ts';

/**
 * The memory of the guard's core. It belongs to one process and is never stored: ages of another process mean nothing here
 * (G7). What outlives it are records, `devices` and `kept`.
 */
export type GuardState = {
  readonly nextDecision: number;
  readonly self: SelfMemory;
  /** By node uid. */
  readonly nodes: ReadonlyMap<string, NodeMemory>;
  /** By uid of a silent node, a uid: as `livingAs` says. */
  readonly livingAs: ReadonlyMap<string, string>;
  readonly commonUuids: ReadonlySet<string>;
  /** Not closed, by id. */
  readonly fencings: ReadonlyMap<FencingId, Fencing>;
  /** By `deviceKey`. The leader stores it in `guard-devices` when it changed, at most once a minute. */
  readonly devices: ReadonlyMap<string, DeviceMemory>;
  /** When those that are not in use any more were last forgotten. */
  readonly forgotMs: MonoMs;
  /** The leader stores it, with the holds, in `guard-state` when it changed. */
  readonly paused: KeptState['paused'];
  readonly holds: readonly Hold[];
  readonly releases: readonly Release[];
  /** The leader stores it beside the holds. */
  readonly pastHolds: readonly PastHold[];
  /** Of one of them it may not be known whether it holds still. */
  readonly isHoldUnknown: boolean;
  /** By order id: when it was first seen, and whether it was answered. */
  readonly orders: ReadonlyMap<string, { readonly seenMs: MonoMs; readonly isAnswered: boolean }>;
  /** By the decision that answers it: what an accepted order brings by itself, once its answer is known to be stored. */
  readonly answering: ReadonlyMap<DecisionId, Answering>;
  /** By order id: accepted orders of which it is not known that they are carried out. */
  readonly carried: ReadonlyMap<string, Carried>;
  /** By node uid: what would have been fenced in dry run, until it lives again or the guard is armed. */
  readonly dryFenced: ReadonlyMap<string, DryFenced>;
  /** By record and time: a time of a record that is ahead of the own wall clock, or was, and when this process first saw it. */
  readonly ahead: ReadonlyMap<string, MonoMs>;
  /** By node uid of each dead node: the gate that was last told to hold it, so that it is told once; null: none does. */
  readonly held: ReadonlyMap<string, HeldBy | null>;
  /** By node uid: a mark of ours or a foreign one, and when what shows it was first read. */
  readonly marks: ReadonlyMap<string, { readonly what: string; readonly asOfMs: MonoMs }>;
  /** Records that cannot be read, as told by this leader. */
  readonly unreadable: readonly FencingId[];
  /** When the patrol last asked, and which method is next. */
  readonly patrol: { readonly askedMs: MonoMs | null; readonly at: number };
};

/** As people know the node; of one that is not listed, its uid. */
export const nameOfNode = (nodes: GuardState['nodes'], uid: string): string => nodes.get(uid)?.object.name ?? uid;

/** Names are unique at any time: a Node that was made anew has another uid. */
export function nodeNamed(nodes: GuardState['nodes'], name: string): NodeMemory | undefined {
  for (const memory of nodes.values()) if (memory.object.name === name) return memory;
  return undefined;
}

/** The Node of its uid; if that was deleted, the one that was made anew with its name. */
export const nodeOrSuccessor = ({ uid, name }: NodeRef, nodes: GuardState['nodes']): NodeMemory | undefined =>
  nodes.get(uid) ?? nodeNamed(nodes, name);

/** The open fencing of a Node that was deleted, if another one has its name by now. */
export const leftBehind = (
  { fencings, nodes }: Pick<GuardState, 'fencings' | 'nodes'>,
  name: string,
): Fencing | undefined =>
  [...fencings.values()].find(
    ({ record: { node, phase } }) => node.name === name && !nodes.has(node.uid) && phase !== 'closed',
  );

export type SelfMemory = {
  readonly startedMs: MonoMs;
  /** Nothing new before this (G6), for the reason. */
  readonly settlesMs: MonoMs;
  readonly settlesFor: SettlesFor;
  /** The clocks at the last look; null: no look yet. */
  readonly clocks: { readonly atMs: MonoMs; readonly wallMs: number; readonly uptimeMs: number } | null;
  /** `asOfMs` of the last answered list; null: none yet. */
  readonly readMs: MonoMs | null;
  /** When any node last gave a sign of life; null: never. */
  readonly anySignMs: MonoMs | null;
  /** When it was last elected; null: never. */
  readonly electedMs: MonoMs | null;
  /** Until when it is known to have led last; null: it never did. */
  readonly ledUntilMs: MonoMs | null;
  /** From the end of one leadership to the next election, oldest first: the last of them. */
  readonly away: readonly { readonly fromMs: MonoMs; readonly untilMs: MonoMs }[];
  /** `electedMs` of the leadership for which the kept memory was adopted; null: none was. */
  readonly adoptedMs: MonoMs | null;
};
export type SettlesFor = 'start' | 'election' | 'api-return' | 'clock-jump';

export type NodeMemory = {
  /** As last seen, and what it says: derived again when it is another one. */
  readonly object: NodeObject;
  readonly facts: NodeFacts;
  readonly lease: LeaseView | null;
  /** The last of the kubelet's and of the node agent's tokens: kept while the controller speaks for them. */
  readonly readyToken: string | null;
  readonly ownToken: string;
  /** When this process saw the last change of a token; null: never. */
  readonly signMs: MonoMs | null;
  /** When its kubelet was last asked and answered, while it was silent; null: never. */
  readonly answeredMs: MonoMs | null;
  /** Since when it is watched without a gap. */
  readonly sinceMs: MonoMs;
  readonly isSuspect: boolean;
  /** When it fell silent, as long as it counts in a storm; null: it does not. */
  readonly onsetMs: MonoMs | null;
  /** When it was first seen to live, the last time that it came to, after it was suspect or watched with a gap; null: not yet. */
  readonly livesMs: MonoMs | null;
  /** Until then it counts as suspect in a storm, though it shows life. */
  readonly countsUntilMs: MonoMs;
  /** When it last fell silent for two renewals, or was last seen with another boot; it stays when the node is back. Null: never. */
  readonly disturbedMs: MonoMs | null;
  /** `disturbedMs` as it was when this process last ended a fencing of it, which explains it, and when. Null: it ended none. */
  readonly explained: { readonly disturbedMs: MonoMs | null; readonly wallMs: number } | null;
  /** The first read at which it was older than `deadAfter`; null: it is not. */
  readonly overdueMs: MonoMs | null;
  /** As its last own word has it: the controller, which speaks for a silent node, takes nothing back. */
  readonly announced: Announcement | null;
  /** Since when it is seen cordoned, and asking to be left alone; null: it is not. */
  readonly cordonedMs: MonoMs | null;
  readonly skippedMs: MonoMs | null;
};

export type Fencing = {
  readonly record: FencingRecord;
  /** Of the record as last known to be stored; null: its creation is not confirmed yet. */
  readonly version: string | null;
  /** When this process saw its present revision stored. */
  readonly sinceMs: MonoMs;
  /** When this process first saw it in its present phase, however often that was stored since. */
  readonly phaseSinceMs: MonoMs;
  /** When this process decided its present revision, if not another one did. What is heard from then on is not known in it. */
  readonly decidedMs: MonoMs;
  /** Another process wrote the present revision. */
  readonly isTakenOver: boolean;
  /** A decision whose outcome is awaited: nothing else is decided meanwhile. `becomes`: the record if it is stored. */
  readonly pending: { readonly decision: DecisionId; readonly atMs: MonoMs; readonly becomes: FencingRecord } | null;
  /** When its first `off` began; null: none did while this process watched. */
  readonly offBegunMs: MonoMs | null;
  /** When the last `off` returned; null: none did while this process watched. */
  readonly offReturnedMs: MonoMs | null;
  /** How the act of the present revision ended; null: it had none, or another process began it. */
  readonly acted: ActResult | null;
  /** When a store or an act last failed, so that it is tried again a second later; null: it did not. */
  readonly failedMs: MonoMs | null;
  /** Since when this process knows what of what it frees is left, so far as it has led since; null: it does not. */
  readonly freedSinceMs: MonoMs | null;
  /** What it waits for does not come in time: it stands in no other one's way. */
  readonly isOverdue: boolean;
  /** Since when it has been Ready and alive; null: it is not. */
  readonly readyMs: MonoMs | null;
  /** Of a rehearsal: other nodes that were deleted meanwhile and may speak against it, and when that was seen. */
  readonly departed: readonly { readonly memory: NodeMemory; readonly atMs: MonoMs }[];
};

/** Of one that this process has just come to know. */
export const UNSEEN = {
  offBegunMs: null,
  offReturnedMs: null,
  acted: null,
  failedMs: null,
  freedSinceMs: null,
  isOverdue: false,
  readyMs: null,
  departed: [],
} satisfies Partial<Fencing>;

export type DeviceMemory = {
  readonly node: string;
  readonly method: MethodKey;
  readonly says: PowerState | 'unknown';
  /** When the status was begun, by this process; null: told by an earlier leader. */
  readonly begunMs: MonoMs | null;
  /** When the first one was begun that it has not answered since it last did; null: it answered the last one. */
  readonly silentSinceMs: MonoMs | null;
  readonly wallMs: number;
  /** The last answers on or off, at most 8, oldest first. */
  readonly recent: readonly { readonly says: PowerState; readonly begunMs: MonoMs; readonly endedMs: MonoMs }[];
  /**
   * When a status was begun to which it did not say on, though not if it had said so since its node last lived: then silence is none
   * of a machine without power. Null: it said on since.
   */
  readonly awayMs: MonoMs | null;
  /** When the status was begun to which it said on again, after its node fell silent and it was away; null: it never did. */
  readonly returnedMs: MonoMs | null;
  /** When the last status was begun that it answered with off, however long ago; null: this process heard none. */
  readonly offMs: MonoMs | null;
  readonly hasSaidOn: boolean;
  readonly contradicted: Contradiction | null;
  readonly rehearsedWallMs: number | null;
};

/** `GateRow`'s. */
export type HeldBy = { readonly gate: string; readonly because: string };

export type DryFenced = { readonly atMs: MonoMs; readonly wallMs: number };

/** A storm. `endedMs` null: it lasts; else its cool-down runs from then. */
export type Hold = {
  readonly kind: StormKind;
  readonly scope: HoldScope;
  readonly sinceMs: MonoMs;
  readonly endedMs: MonoMs | null;
};

/** `release` of a person, by the leader's clock; it ends with the leader. */
export type Release = {
  readonly scope: ReleaseScope;
  readonly untilMs: MonoMs;
  readonly by: string;
};

/** `before`: what stood in the place of a pause, which is in force already. */
export type Answering =
  | { readonly verb: 'pause'; readonly paused: KeptState['paused']; readonly before: KeptState['paused'] }
  | { readonly verb: 'resume' }
  | { readonly verb: 'release'; readonly release: Release };

/** `by`: the decision that carries it out, by storing the `revision` of that fencing. */
export type Carried = {
  readonly order: Order;
  readonly answer: DecisionId;
  readonly by: DecisionId;
  readonly fencing: FencingId;
  readonly revision: number;
  readonly sinceMs: MonoMs;
  /** The answer is known to be stored. */
  readonly isAnswered: boolean;
  /** When it was heard that the record is not known to be; null: it was not. */
  readonly lostMs: MonoMs | null;
};

/** The key of `GuardState.devices`. */
export const deviceKey = (uid: string, method: MethodKey): string => `${uid} ${method}`;

export function initialGuardState(atMs: MonoMs, settleMs: number): GuardState {
  return {
    nextDecision: 1,
    self: {
      startedMs: atMs,
      settlesMs: atMs + settleMs,
      settlesFor: 'start',
      clocks: null,
      readMs: null,
      anySignMs: null,
      electedMs: null,
      ledUntilMs: null,
      away: [],
      adoptedMs: null,
    },
    nodes: new Map(),
    livingAs: new Map(),
    commonUuids: new Set(),
    fencings: new Map(),
    devices: new Map(),
    forgotMs: atMs,
    paused: null,
    holds: [],
    releases: [],
    pastHolds: [],
    isHoldUnknown: false,
    orders: new Map(),
    answering: new Map(),
    carried: new Map(),
    dryFenced: new Map(),
    ahead: new Map(),
    held: new Map(),
    marks: new Map(),
    unreadable: [],
    patrol: { askedMs: null, at: 0 },
  };
}

/** To be stored in `guard-state`. */
export const keptState = ({ paused, holds, pastHolds }: GuardState): KeptState => ({
  ...{ paused, past: pastHolds },
  holds: holds.map(({ kind, scope }) => ({ kind, scope })),
});
