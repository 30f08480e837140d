import { isText, type Json, objectsIn, partOf } from '../core/shape.ts';
import type { ApiAnswer, ApiGet } from './connection.ts';
import { type NotDone, notDone } from './write-failure.ts';
import { CORDONED_BY } from './write-rules.ts';

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
