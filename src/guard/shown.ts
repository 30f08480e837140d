import type { GateName } from '../core/guard/decision.ts';
import type { NodeExplanation } from '../core/guard/explain.ts';
import type { NodeClass } from '../core/guard/health.ts';
import type { FencingRecord, PowerState } from '../core/guard/record.ts';
import type { GuardState } from '../core/guard/state.ts';
import type { MonoMs } from '../core/reading.ts';
import { isObject, isText } from '../core/shape.ts';
import type { Finding } from '../ports.ts';

/** What `guard status` shows; plain JSON, documented in docs/json.md. All ages in milliseconds by the guard's own clock. */
export type GuardReport = {
  readonly schema: 1;
  readonly kind: 'guard-status';
  readonly version: string;
  readonly file: string;
  readonly dryRun: boolean;
  readonly configHash: string;
  readonly writer: string;
  /** The node that it runs on; null: none, or not known. */
  readonly node: string | null;
  readonly atWallMs: number;
  readonly leader: {
    readonly isLeader: boolean;
    /** Who holds the lease; null: nobody, or not known. */
    readonly holder: string | null;
    /** With no holder: nobody leads. */
    readonly isHolderKnown: boolean;
    readonly epoch: number | null;
    readonly authorityMs: number | null;
    /** Why it does not run though nobody leads. */
    readonly heldBack: string | null;
  };
  /** It decides nothing new for so long; null: it may. */
  readonly settling: { readonly for: string; readonly leftMs: number } | null;
  /**
   * Age of the last answered list of leases, of the last word of the watch that is silent for longest, and of the last own
   * write; null: none yet.
   */
  readonly api: { readonly readMs: number | null; readonly heardMs: number | null; readonly writeMs: number | null };
  readonly nodes: { readonly [C in NodeClass]: number };
  /** Failure domains with a silent node. */
  readonly domains: readonly Domain[];
  readonly storms: readonly {
    readonly kind: string;
    readonly scope: string;
    readonly forMs: number;
    readonly overMs: number | null;
  }[];
  /** Dead nodes that are not fenced, and why. */
  readonly held: readonly { readonly node: string; readonly gate: string; readonly text: string }[];
  readonly paused: GuardState['paused'];
  readonly fencings: readonly OpenFencing[];
  readonly dryFenced: readonly { readonly node: string; readonly wallMs: number }[];
  /** What the devices said last, and how many have not answered. */
  readonly devices: { readonly [A in PowerState | 'unknown']: number };
  /** Ages of the last on or off of each device that this process heard; null: it heard none. */
  readonly answerAges: { readonly medianMs: number; readonly p90Ms: number; readonly oldestMs: number } | null;
  /** Nodes with an out-of-service taint of the guard, and with one of somebody else; `living`: of the former, those that show life. */
  readonly taints: { readonly guard: number; readonly other: number; readonly living: number };
  readonly contradicted: readonly { readonly node: string; readonly method: string; readonly why: string }[];
  /** How many there are, of which the lists have the first 100: `held` by gate, `fencings` by phase. */
  readonly totals: {
    readonly held: { readonly [gate: string]: number };
    readonly fencings: { readonly [phase: string]: number };
    readonly contradicted: number;
  };
  readonly findings: readonly Finding[];
};
export type Domain = {
  readonly label: string;
  readonly value: string;
  readonly nodes: number;
  readonly silent: number;
  /** A storm of this domain lasts. */
  readonly isDisrupted: boolean;
};
export type OpenFencing = {
  readonly id: string;
  readonly node: string;
  readonly phase: string;
  readonly phaseMs: number;
  readonly level: number;
  readonly attempt: number;
  readonly why: string | null;
  readonly isConfirmed: boolean;
  /** Why its machine is not switched on again; null: it is. */
  readonly staysOff: string | null;
  /** Its node carries an out-of-service taint of the guard, as last seen. */
  readonly isTainted: boolean;
  /** It is decided, and cannot begin. */
  readonly isWaiting: boolean;
  /** What follows its phase is decided, and not known to be stored. */
  readonly isUnstored: boolean;
};
/** What `guard explain` shows; null: there is no such node. */
export type ExplainReport = {
  readonly schema: 1;
  readonly kind: 'guard-explain';
  readonly isLeader: boolean;
  readonly dryRun: boolean;
  readonly atMs: MonoMs;
  readonly explanation: NodeExplanation;
};

/** In place of an explanation: no node is known yet, which says nothing of one. */
export type NodesUnknown = { readonly schema: 1; readonly kind: 'guard-nodes-unknown'; readonly detail: string };

export const isGuardReport = (value: unknown): value is GuardReport =>
  isObject(value) && value['schema'] === 1 && value['kind'] === 'guard-status';
export const isExplainReport = (value: unknown): value is ExplainReport =>
  isObject(value) && value['schema'] === 1 && value['kind'] === 'guard-explain';

export const isNodesUnknown = (value: unknown): value is NodesUnknown =>
  isObject(value) && value['schema'] === 1 && value['kind'] === 'guard-nodes-unknown' && isText(value['detail']);

/**
 * What the page gets: the status, and what is shown beside it, both of one look. Times are of the guard's wall clock. It is
 * bounded: what is left out is counted.
 */
export type GuardLive = {
  readonly schema: 1;
  /** When it answered. */
  readonly nowWallMs: number;
  readonly status: GuardReport;
  /** Why no node is known; null: they were listed. */
  readonly nodesUnknown: string | null;
  /** Why the nodes are only known as they were; null: they are known. */
  readonly old: string | null;
  readonly limits: { readonly suspectAfterMs: number; readonly deadAfterMs: number };
  /** In order; of a guard that does not lead, only the first one, which says so. */
  readonly gates: readonly ShownGate[];
  /** For each label of `domainLabels`. */
  readonly domains: readonly ({ readonly label: string } & Listed<ShownDomain>)[];
  /** Without the healthy ones. */
  readonly nodes: Listed<ShownNode>;
  readonly fencings: Listed<ShownFencing>;
  /** Closed ones, the newest first; a text: why they are not known. */
  readonly past: Listed<ShownRecord> | string;
};
export type Listed<T> = { readonly rows: readonly T[]; readonly leftOut: number };

export type ShownGate = {
  readonly gate: GateName;
  /** For every node; null: it is asked of each dead node by itself. What a storm holds is in the status. */
  readonly isOpen: boolean | null;
  /** Why it is closed for every node. */
  readonly why: string | null;
  readonly opensWallMs: number | null;
  /** Dead nodes of which it is the first closed one, by the reason. */
  readonly holds: readonly { readonly why: string; readonly nodes: number }[];
};
/** `value` '': these nodes do not have the label. */
export type ShownDomain = Omit<Domain, 'label' | 'nodes'> & { readonly nodes: GuardReport['nodes'] };
export type ShownNode = {
  readonly name: string;
  readonly domains: readonly string[];
  readonly health: NodeClass;
  /** At the last list; null: it has none. `wasHeard`: of a sign of life that was seen; else it is older. */
  readonly ageMs: number | null;
  readonly wasHeard: boolean;
  /** What became of it, or the gate that holds it; null: nobody asks, or the guard that leads decides. */
  readonly said: string | null;
  readonly gate: GateName | null;
  readonly opensWallMs: number | null;
};
/** As `guard history -o json` has it, without what its devices were and said. */
export type ShownRecord = Omit<FencingRecord, 'plan' | 'answers'>;
/** An open one. `dueWallMs`: as `dueMsOf` says. */
export type ShownFencing = { readonly record: ShownRecord; readonly dueWallMs: number | null };
