import type { Frees, GateRow, GuardReason, OrderAnswer } from '../../core/guard/decision.ts';
import type { FencingRecord } from '../../core/guard/record.ts';
import type { MonoMs } from '../../core/reading.ts';
import type { Answer, ApiMode, GuardName, NodeName, ScenarioEvent, ScenarioOrder } from './scenario.ts';

export type { Answer, ApiMode, GuardName, NodeName };

/** `<name>-<count of its starts>`. */
export type ProcessName = string;
/** namespace/name: whose data it writes, whatever the uid. */
export type PodName = string;
export type Action = 'status' | 'off' | 'on';

/** Who did it in the name of which fencing. */
export type Actor = { readonly guard: ProcessName; readonly fencing: string };

/**
 * What really happened in a virtual world, whatever a guard knew of it. The invariants and the result are computed from
 * these facts alone. Times in milliseconds.
 */
export type Fact = { readonly atMs: MonoMs } & (
  | { readonly kind: 'power'; readonly node: NodeName; readonly isOn: boolean; readonly by: Actor | null }
  /** Its processors stand still, or go on: its processes are there and do nothing. */
  | { readonly kind: 'frozen'; readonly node: NodeName; readonly isFrozen: boolean }
  | { readonly kind: 'booted'; readonly node: NodeName; readonly bootId: string }
  /** `since`: the last instant at which its lease was renewed. */
  | { readonly kind: 'silent'; readonly node: NodeName; readonly sinceMs: MonoMs }
  | { readonly kind: 'heard'; readonly node: NodeName }
  | PodFact<'pod-started'>
  | PodFact<'pod-stopped'>
  | {
      readonly kind: 'pod-freed';
      readonly node: NodeName;
      readonly pod: PodName;
      readonly uid: string;
      readonly by: Freed;
    }
  | { readonly kind: 'detached'; readonly node: NodeName; readonly pod: PodName }
  | TaintFact<'taint-added'>
  | TaintFact<'taint-removed'>
  | { readonly kind: 'node-deleted'; readonly node: NodeName }
  | { readonly kind: 'api'; readonly mode: ApiMode }
  /** A device stopped telling the truth or doing what it is told, or does again. */
  | { readonly kind: 'device'; readonly node: NodeName; readonly method: string; readonly isSound: boolean }
  | CommandFact
  | (Actor & { readonly kind: 'taint-sent'; readonly node: NodeName })
  /** A guard holds the guards' lease by a request that it sent at `sentMs`. */
  | { readonly kind: 'leads'; readonly guard: ProcessName; readonly sentMs: MonoMs; readonly isNew: boolean }
  | { readonly kind: 'gives-up'; readonly guard: ProcessName }
  | { readonly kind: 'guard'; readonly guard: GuardName; readonly event: string }
  | DecidedFact
  /** A named person stands for the proof. */
  | { readonly kind: 'confirmed'; readonly fencing: string; readonly node: NodeName }
  | {
      readonly kind: 'phase';
      readonly node: NodeName;
      readonly fencing: string;
      readonly guard: ProcessName;
      readonly phase: string;
      readonly why: string;
      readonly record: FencingRecord;
      /** False: the same was only written down once more. */
      readonly isStep: boolean;
    }
  | HeldFact
  | { readonly kind: 'hold-ended'; readonly guard: ProcessName; readonly scope: string; readonly gate: string }
  | {
      readonly kind: 'answered';
      readonly guard: ProcessName;
      readonly order: ScenarioOrder;
      readonly answer: OrderAnswer;
    }
  | { readonly kind: 'reason'; readonly guard: ProcessName; readonly reason: GuardReason }
  | { readonly kind: 'event'; readonly event: ScenarioEvent }
);
type PodFact<K> = { readonly kind: K; readonly node: NodeName; readonly pod: PodName; readonly uid: string };
type TaintFact<K> = {
  readonly kind: K;
  readonly node: NodeName;
  readonly key: string;
  readonly value: string;
  readonly by: Actor | null;
};
type Freed = 'kubelet' | 'shutdown' | 'out-of-service' | 'node-deleted';

/** `scope`: a node, `burst`, `label=value`, `control-plane`, `exclude-disruption` or `cluster`. */
export type HeldFact = {
  readonly kind: 'held';
  readonly guard: ProcessName;
  readonly scope: string;
  readonly gate: string;
  /** Of a node: the gate that is closed. */
  readonly row: GateRow | null;
  /** Of a burst. */
  readonly nodes: readonly NodeName[];
};

/** One run of a fence agent, told when it ends; `atMs` is its start. */
export type CommandFact = Actor & {
  readonly kind: 'command';
  readonly node: NodeName;
  readonly method: string;
  readonly action: Action;
  readonly endMs: MonoMs;
  readonly answer: Answer;
  /** The answer differs from what was so. */
  readonly isLie: boolean;
};

export type DecidedFact = Actor & {
  readonly kind: 'decided';
  readonly node: NodeName;
  readonly isDry: boolean;
  /** A person ordered it, or lifted a hold: storm limits do not hold it. */
  readonly isStormExempt: boolean;
  readonly frees: Frees | null;
  readonly record: FencingRecord;
};

export type KindOf<K extends Fact['kind']> = Extract<Fact, { readonly kind: K }>;

export function factsOf<K extends Fact['kind']>(facts: readonly Fact[], ...kinds: readonly K[]): readonly KindOf<K>[] {
  return facts.filter((fact): fact is KindOf<K> => kinds.some((kind) => kind === fact.kind));
}

/** The guard of a process. */
export function guardOf(process: ProcessName): GuardName {
  return process.slice(0, process.lastIndexOf('-'));
}
