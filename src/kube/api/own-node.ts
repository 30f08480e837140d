import { isText, type Json, objectsIn, partOf } from '../../core/shape.ts';
import type { ApiAnswer, ApiGet } from './connection.ts';
import { isGone, type NotDone, notDone } from './write-failure.ts';
import {
  CORDONED_BY,
  type OwnTaint,
  type OwnTaintKey,
  readMark,
  SHUTDOWN_TAINTS,
  type ShutdownMark,
  sayMark,
} from './write-rules.ts';

/** A taint as received, with fields that we do not know: the list is written back as a whole (A14). */
export type RawTaint = { readonly [field: string]: unknown };
/** The parts of this machine's v1 Node that are used. */
export type OwnNode = {
  readonly kind: 'node';
  readonly uid: string;
  readonly resourceVersion: string;
  readonly isUnschedulable: boolean;
  /** Someone else wrote `spec.unschedulable` after our annotation, as far as the server tracks who owns which field. */
  readonly isCordonOfOthers: boolean;
  readonly annotations: { readonly [key: string]: unknown };
  readonly taints: readonly RawTaint[];
  readonly conditions: readonly { readonly [field: string]: unknown }[];
  /** From `status`: volumes that are attached, and mounted or about to be. */
  readonly volumesInUse: readonly string[];
};

/**
 * The node of this name, if it is this machine (D3), which its boot ID proves. Right after a boot it does not yet: until the
 * kubelet has written, the API shows the previous boot. Never rejects.
 */
export async function lookAtNode(
  get: ApiGet,
  { nodeName, bootId }: { readonly nodeName: string; readonly bootId: string },
  deadlineMs: number,
): Promise<OwnNode | NotDone> {
  const answer = await get(`/api/v1/nodes/${nodeName}`, deadlineMs);
  // Not registered yet, or another cluster.
  if (isGone(answer, nodeName, 'node')) return { kind: 'not-our-node', text: `the API server has no node ${nodeName}` };
  const failed = notDone(answer, 'get nodes');
  return failed ?? readOwnNode(answer, nodeName, bootId);
}

function readOwnNode(answer: ApiAnswer, nodeName: string, bootId: string): OwnNode | NotDone {
  const body = answer.kind === 'answer' ? answer.body : null;
  const metadata = partOf(body, 'metadata');
  const spec = partOf(body, 'spec');
  const status = partOf(body, 'status');
  const { uid, resourceVersion } = metadata;
  const itsBoot = partOf(status, 'nodeInfo')['bootID'];
  if (metadata['name'] !== nodeName || !isText(uid) || uid === '' || !isText(resourceVersion)) {
    return { kind: 'rejected', status: 200, text: `the server's answer is not the node ${nodeName}` };
  }
  if (bootId === '' || itsBoot !== bootId) {
    const has = isText(itsBoot) && /^[0-9a-f-]{36}$/.test(itsBoot) ? `the boot id ${itsBoot}` : 'no boot id';
    const ours = bootId === '' ? 'that of this machine is not known' : `this machine has ${bootId}`;
    const text = `the node ${nodeName} has ${has} in the API, and ${ours}`;
    return { kind: 'not-our-node', text };
  }
  return {
    kind: 'node',
    uid,
    resourceVersion,
    isUnschedulable: spec['unschedulable'] === true,
    isCordonOfOthers: isCordonOfOthers(metadata),
    annotations: partOf(metadata, 'annotations'),
    taints: objectsIn(spec['taints']),
    conditions: objectsIn(status['conditions']),
    volumesInUse: texts(status['volumesInUse']),
  };
}

/** We write both in one patch (A15). A field that is written to a value that it had keeps its owner. */
function isCordonOfOthers(metadata: Json): boolean {
  const owners = objectsIn(metadata['managedFields']).map(({ fieldsV1 }) => ({
    cordon: 'f:unschedulable' in partOf(fieldsV1, 'f:spec'),
    mark: `f:${CORDONED_BY}` in partOf(partOf(fieldsV1, 'f:metadata'), 'f:annotations'),
  }));
  return owners.some(({ cordon }) => cordon) && !owners.some(({ cordon, mark }) => cordon && mark);
}

const texts = (value: unknown): readonly string[] => (Array.isArray(value) ? value.filter(isText) : []);

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
