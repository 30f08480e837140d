import type { MonoMs } from '../reading.ts';
import type { MethodKey } from './config.ts';
import type { Announcement } from './node-facts.ts';
import type { Attachment, MemberAsk, PodOnNode } from './observation.ts';
import type {
  Contradiction,
  DecisionId,
  FencingId,
  FencingRecord,
  HoldScope,
  NodeRef,
  Phase,
  StormKind,
} from './record.ts';
import type { GuardState } from './state.ts';

export type GuardVerdict = {
  readonly state: GuardState;
  readonly decisions: readonly GuardDecision[];
  readonly reasons: readonly GuardReason[];
  readonly next: NextGuardLook;
};

/**
 * `store` kinds: first the compare-and-swap, then, only if it was stored, the act. What is stored, and a decision without a
 * store, is answered by one `GuardOutcome`; `hold` and `resign` are not.
 */
export type GuardDecision = {
  readonly id: DecisionId;
  readonly atMs: MonoMs;
} /** A new record, with every gate as it stood. */ & (
  | ({
      readonly kind: 'fence';
      readonly node: NodeRef;
      readonly gates: readonly GateRow[];
      /** Null: not known. */
      readonly frees: Frees | null;
      /** In dry run nothing is stored and nothing follows. */
      readonly isDry: boolean;
    } & Store)
  /** The kind says where to: `confirm` to proven by a person, `recover` to on-sent, the others to the phase of their name. */
  | ({
      readonly kind: 'advance' | 'abort' | 'confirm' | 'recover' | 'leave-off' | 'close';
      readonly node: NodeRef;
      readonly from: Phase;
    } & Store)
  /** A dead node is not fenced: told when the first closed gate is another one. */
  | { readonly kind: 'hold'; readonly node: NodeRef; readonly gates: readonly GateRow[] }
  /** A mark of ours on a node without a record: removed, and nothing else. */
  | { readonly kind: 'unmark'; readonly node: NodeRef; readonly value: string; readonly act: Act }
  /**
   * To be stored in `guard-orders`. `carries`: the decision by which the order is carried out, and only once this is stored: the
   * person may have taken the order back. Null: there is none. `keeps`: it is a pause, which must outlive this leader before a
   * person relies on it: first `guard-state` is stored as of this verdict.
   */
  | {
      readonly kind: 'answer';
      readonly order: string;
      readonly answer: OrderAnswer;
      readonly carries: DecisionId | null;
      readonly keeps: boolean;
    }
  /** Give the lease back and do not run for this long: the own node is suspect. */
  | { readonly kind: 'resign'; readonly forMs: number }
);

export type Store = {
  readonly fencing: FencingId;
  readonly record: FencingRecord;
  /** The resourceVersion to replace; null: to be created. */
  readonly replaces: string | null;
  /** Begun only if the record was stored and authority still holds. */
  readonly act: Act | null;
};

/** Whether it leads anywhere: else what is known is only written down once more. */
export const isStep = (decision: Extract<GuardDecision, Store>): boolean =>
  decision.kind === 'fence' || decision.from !== decision.record.phase || decision.act !== null;

/** What changes the world. `status` and looks change nothing: they are asked for by `NextGuardLook`. */
export type Act =
  /** All methods in parallel, each up to its deadline. */
  | { readonly kind: 'off'; readonly methods: readonly MethodKey[] }
  /** One step after the other, the methods of a step in parallel. */
  | { readonly kind: 'on'; readonly steps: readonly (readonly MethodKey[])[] }
  /** One locked patch adds both taints; then the condition and an event. */
  | { readonly kind: 'tell'; readonly resourceVersion: string; readonly notAfterMs: MonoMs }
  /** Removes the out-of-service taint of this fencing; gone already is done. */
  | { readonly kind: 'untell' }
  /** Removes every mark of this fencing: both taints and the condition. */
  | { readonly kind: 'clear' };

/** `gate`: what refused it; `why`: a code. */
export type OrderAnswer =
  | { readonly isAccepted: true; readonly fencing: FencingId | null }
  | { readonly isAccepted: false; readonly gate: GateName | null; readonly why: Because | Refusal };
export type Refusal =
  | 'stale'
  | 'no-by'
  | 'unknown-verb'
  | 'more-than-2h'
  | 'no-such-node'
  | 'no-such-domain'
  | 'dry-run'
  | 'already-open'
  | 'not-ready'
  | 'not-cordoned'
  | 'not-drained'
  | 'not-checked'
  | 'alive'
  | 'device-says-on'
  | 'no-fencing'
  | 'wrong-phase'
  | 'not-known-in-time'
  | 'not-stored';

export const GATES = ['self', 'scope', 'planned', 'dead', 'witness', 'worth', 'device', 'storm', 'rate'] as const;
export type GateName = (typeof GATES)[number];

/** Why a gate is closed, in the order of the gates. */
export type Because =
  | 'open'
  | 'not-leader'
  | 'nobody-leads'
  | 'authority'
  | 'records-unknown'
  | 'higher-epoch'
  | 'kept-unknown'
  | 'settling'
  | 'paused'
  | 'api-reads'
  | 'api-writes'
  | 'no-sign-from-anybody'
  | 'own-node'
  | 'node-deleted'
  | 'lives-as'
  | 'leaving'
  | 'excluded'
  | 'skip'
  | 'control-plane'
  | 'outside-nodes'
  | 'other-owner'
  | 'unreadable-record'
  | Announcement
  | 'cordon'
  | 'no-age'
  | 'no-lease'
  | 'not-silent-enough'
  | 'seen-once'
  | 'may-be-booting'
  | 'witness-unknown'
  | 'kubelet-answers'
  | 'kubelet-answered'
  | 'kubelet-unheard'
  | 'stuck-unknown'
  | 'nothing-to-free'
  | 'no-method'
  | LevelLack
  | StormKind
  | 'cool-down'
  | 'max-in-flight'
  | 'another-control-plane'
  | 'control-plane-majority'
  | 'min-interval'
  | 'max-per-hour';

/** What keeps a level of devices from being used. */
export type LevelLack =
  /** One was asked, and did not say on or off. */
  | 'silent'
  /** The last answer of one is too old, or there is none yet. */
  | 'not-asked'
  /** One answers too late for a proof. */
  | 'too-slow'
  | 'contradicted'
  | 'never-on'
  | 'not-rehearsed';

/** One gate for one node. `value` and `limit` are what was compared. */
export type GateRow = {
  readonly gate: GateName;
  readonly isOpen: boolean;
  readonly because: Because;
  readonly value: number | string | null;
  /** `value` is only what this process saw of it: it is that or more. */
  readonly isAtLeast: boolean;
  readonly limit: number | string | null;
  /** When it would open if nothing else changed; null: not by time alone. */
  readonly opensMs: MonoMs | null;
};

/** What a fencing would free (guard.md 6.4). */
export type Frees = { readonly pods: readonly PodOnNode[]; readonly attachments: readonly Attachment[] };

/** What the core wants to know at the next look. What is asked for again while it is under way is one request. */
export type NextGuardLook = {
  /** At the latest; news (an outcome, an answer, an order) may bring it earlier. */
  readonly afterMs: number;
  /** uids of nodes whose kubelet's port is to be tried. */
  readonly witness: readonly string[];
  /** uids of nodes whose pods are to be listed. */
  readonly pods: readonly string[];
  readonly attachments: boolean;
  /** Members of fenced nodes (uids) that are to be looked for everywhere. */
  readonly members: readonly { readonly node: string; readonly pods: readonly MemberAsk[] }[];
  /** Nodes, listed or not, of which Lease and Node are to be read consistently, not before now. */
  readonly looks: readonly NodeRef[];
  readonly status: readonly StatusAsk[];
};

/** `patrol` is at leisure; the others are for a dead node or a fencing and go first. */
export type StatusAsk = {
  readonly node: NodeRef;
  readonly method: MethodKey;
  readonly for: 'fencing' | 'dead' | 'patrol';
};

/** What is worth telling beside the decisions: codes and data, words stand in src/words. */
export type GuardReason =
  | { readonly code: 'settling'; readonly for: string; readonly untilMs: MonoMs }
  | { readonly code: 'storm-began' | 'storm-ended'; readonly kind: StormKind; readonly scope: HoldScope }
  | { readonly code: 'life-after-proof'; readonly node: NodeRef; readonly fencing: FencingId; readonly sign: string }
  | {
      readonly code: 'device-contradicted';
      readonly node: NodeRef;
      readonly method: MethodKey;
      readonly by: Contradiction;
    }
  | {
      readonly code: 'agent-failed';
      readonly node: NodeRef;
      readonly fencing: FencingId;
      readonly method: MethodKey;
      readonly detail: string;
    }
  | { readonly code: 'act-failed'; readonly node: NodeRef; readonly fencing: FencingId; readonly detail: string }
  | { readonly code: 'not-told'; readonly node: NodeRef; readonly fencing: FencingId; readonly detail: string }
  | { readonly code: 'still-ready'; readonly node: NodeRef; readonly fencing: FencingId }
  | { readonly code: 'not-proven'; readonly node: NodeRef; readonly fencing: FencingId; readonly lacks: string }
  | { readonly code: 'not-drained'; readonly node: NodeRef; readonly fencing: FencingId; readonly left: Frees }
  | { readonly code: 'foreign-taint'; readonly node: NodeRef; readonly value: string }
  | { readonly code: 'conflict'; readonly node: NodeRef; readonly fencing: FencingId }
  | {
      readonly code: 'taken-over';
      readonly node: NodeRef;
      readonly fencing: FencingId;
      readonly phase: Phase;
      readonly by: string;
    }
  | { readonly code: 'own-found'; readonly node: NodeRef; readonly fencing: FencingId }
  | { readonly code: 'unreadable-record'; readonly fencing: FencingId; readonly problem: string }
  | { readonly code: 'orphan-mark'; readonly node: NodeRef; readonly value: string };
