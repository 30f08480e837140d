import type { OwnNode, RawTaint } from './own-node.ts';
import {
  CORDONED_BY,
  type OwnTaint,
  type OwnTaintKey,
  readMark,
  SHUTDOWN_TAINTS,
  type ShutdownMark,
  sayMark,
} from './write-rules.ts';

/** What a patch changes on the node, given the node as read. Null: nothing. */
export type NodeEdit<T> = {
  readonly result: T;
  readonly change: {
    readonly metadata: { readonly annotations?: { readonly [CORDONED_BY]: string | null } };
    readonly spec: { readonly unschedulable?: true | null; readonly taints?: readonly RawTaint[] };
  } | null;
};
type Done = { readonly kind: 'done' };
/** `unchanged`: the node already was in this state, and nothing was sent. */
export type NodeChange = Done | { readonly kind: 'unchanged' };
export type TaintChange = { readonly put: readonly OwnTaint[]; readonly remove: readonly OwnTaintKey[] };
export type Cordoned = Done & {
  /** `others`: it was cordoned already; `autoscaler`: it removes the node, and cordons it itself (F16). */
  readonly cordon: 'ours' | 'others' | 'autoscaler';
};
export type Uncordoned =
  /** `nothing-of-ours`: no mark of ours is on it (E22). `autoscaler`: our cordon stays, since the node is being removed (F16). */
  (Done & { readonly uncordoned: boolean }) | { readonly kind: 'nothing-of-ours' } | { readonly kind: 'autoscaler' };

/** F16: a controller that sets one of these drains the node itself. The last one is Karpenter's before version 1. */
const OTHERS_DRAIN = ['ToBeDeletedByClusterAutoscaler', 'karpenter.sh/disrupted', 'karpenter.sh/disruption'];
export const NOTHING_OF_OURS: Uncordoned = { kind: 'nothing-of-ours' };
const UNTOUCHED: NodeEdit<Uncordoned> = { result: NOTHING_OF_OURS, change: null };

export function cordoned(seen: OwnNode, mark: ShutdownMark, taint: OwnTaint): NodeEdit<Cordoned> {
  const before = cordonOf(seen);
  const isOurs = before !== null && sayMark(before) === sayMark(mark);
  const isTheirs = isDrainedByOthers(seen);
  // If an earlier shutdown of ours cordoned it, its mark passes on to this one.
  const doesCordon = !isTheirs && !isOurs && (!seen.isUnschedulable || before !== null);
  const taints = withTaints(seen.taints, { put: [taint], remove: [] });
  const cordon = isOurs || doesCordon ? 'ours' : isTheirs ? 'autoscaler' : 'others';
  const result: Cordoned = { kind: 'done', cordon };
  if (!doesCordon && taints === null) return { result, change: null };
  const metadata = doesCordon ? { annotations: { [CORDONED_BY]: sayMark(mark) } } : {};
  const spec = {
    ...(doesCordon ? ({ unschedulable: true } as const) : {}),
    ...(taints === null ? {} : { taints }),
  };
  return { result, change: { metadata, spec } };
}

export function uncordoned(seen: OwnNode, cancelled: readonly ShutdownMark[], bootId: string): NodeEdit<Uncordoned> {
  const mark = readMark(seen.annotations[CORDONED_BY]);
  const isCancelled = mark !== null && cancelled.some((other) => sayMark(other) === sayMark(mark));
  // A shutdown of this boot that was not cancelled: it may be in progress.
  if (mark !== null && mark.bootId === bootId && !isCancelled) return UNTOUCHED;
  const taints = withTaints(seen.taints, { put: [], remove: SHUTDOWN_TAINTS });
  const isCordoned = cordonOf(seen) !== null;
  const isKept = isCordoned && isDrainedByOthers(seen);
  const doesUncordon = isCordoned && !isKept;
  const doesUnmark = mark !== null && !isKept;
  if (!doesUnmark && taints === null) return isKept ? { ...UNTOUCHED, result: KEPT } : UNTOUCHED;
  const spec = { ...(doesUncordon ? { unschedulable: null } : {}), ...(taints === null ? {} : { taints }) };
  const metadata = doesUnmark ? UNMARKED : {};
  return { result: isKept ? KEPT : { kind: 'done', uncordoned: doesUncordon }, change: { metadata, spec } };
}

export function withoutVoidMark(seen: OwnNode): NodeEdit<NodeChange> {
  return isMarkVoid(seen)
    ? { result: { kind: 'done' }, change: { metadata: UNMARKED, spec: {} } }
    : { result: { kind: 'unchanged' }, change: null };
}

/** The annotation is ours, but the cordon that it was written for is gone (E22). */
export const isMarkVoid = (seen: OwnNode): boolean =>
  readMark(seen.annotations[CORDONED_BY]) !== null && cordonOf(seen) === null;

export function tainted({ taints }: OwnNode, change: TaintChange): NodeEdit<NodeChange> {
  const next = withTaints(taints, change);
  if (next === null) return { result: { kind: 'unchanged' }, change: null };
  return { result: { kind: 'done' }, change: { metadata: {}, spec: { taints: next } } };
}

/** Whose cordon it is. Null: not ours, or nobody's. An annotation outlives the cordon that it was written for. */
function cordonOf({ isUnschedulable, isCordonOfOthers, annotations }: OwnNode): ShutdownMark | null {
  return isUnschedulable && !isCordonOfOthers ? readMark(annotations[CORDONED_BY]) : null;
}

const KEPT: Uncordoned = { kind: 'autoscaler' };
const UNMARKED = { annotations: { [CORDONED_BY]: null } } as const;
const isDrainedByOthers = ({ taints }: OwnNode): boolean =>
  taints.some(({ key }) => OTHERS_DRAIN.some((other) => other === key));

/** Null: no change needed. Entries that are not ours stay unchanged and in place. */
function withTaints(taints: readonly RawTaint[], { put, remove }: TaintChange): readonly RawTaint[] | null {
  const has = ({ key, effect }: OwnTaint): boolean => taints.some((at) => at['key'] === key && at['effect'] === effect);
  // Includes taints with the key of a new one but another effect.
  const touched: readonly unknown[] = [...remove, ...put.map(({ key }) => key)];
  const isWanted = (at: RawTaint): boolean =>
    put.some(({ key, effect }) => at['key'] === key && at['effect'] === effect);
  const kept = taints.filter((at) => !touched.includes(at['key']) || isWanted(at));
  const added = put.filter((taint) => !has(taint));
  return kept.length === taints.length && added.length === 0 ? null : [...kept, ...added];
}
