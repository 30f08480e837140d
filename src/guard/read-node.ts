import {
  type ConditionView,
  GUARD_ANNOTATIONS,
  type LeaseView,
  type NodeObject,
  type Taint,
} from '../core/guard/observation.ts';
import { isNumber, isText, type Json, objectsIn, partOf } from '../core/shape.ts';
import { nodeKey } from './node-key.ts';

/** A Node of the API, reduced to what has a meaning here. */
export type KnownNode = {
  readonly object: NodeObject;
  readonly version: string;
  /** Where its kubelet listens, as it says itself; null: it does not. For the witness alone, which can only hold back. */
  readonly kubelet: { readonly host: string; readonly port: number } | null;
  /** The attach/detach controller has attached volumes to it. */
  readonly hasVolumes: boolean;
};

const KUBELET_PORT = 10_250;
/** Whatever is longer says nothing that is looked for. */
const MESSAGE_MAX = 1_000;
const TOKEN_MAX = 100;

const text = (value: unknown): string => (isText(value) ? value : '');

/** Null: no Node with a name, a uid and a version. */
export function readNode(object: unknown): KnownNode | null {
  const metadata = partOf(object, 'metadata');
  const spec = partOf(object, 'spec');
  const status = partOf(object, 'status');
  const { name, uid, resourceVersion: version } = metadata;
  if (!isText(name) || !isText(uid) || !isText(version) || name === '' || uid === '' || version === '') return null;
  const annotations = partOf(metadata, 'annotations');
  return {
    version,
    kubelet: kubeletIn(status),
    hasVolumes: objectsIn(status['volumesAttached']).length > 0,
    object: {
      name,
      uid,
      key: nodeKey(uid),
      bootId: text(partOf(status, 'nodeInfo')['bootID']),
      isDeleting: isText(metadata['deletionTimestamp']),
      isUnschedulable: spec['unschedulable'] === true,
      labels: textsIn(partOf(metadata, 'labels')),
      annotations: textsIn(
        Object.fromEntries(
          GUARD_ANNOTATIONS.flatMap((key) => (Object.hasOwn(annotations, key) ? [[key, annotations[key]]] : [])),
        ),
      ),
      taints: objectsIn(spec['taints']).map(taintOf),
      conditions: objectsIn(status['conditions']).flatMap(conditionIn),
    },
  };
}

const textsIn = (values: Json): { readonly [key: string]: string } =>
  Object.fromEntries(Object.entries(values).filter((entry): entry is [string, string] => isText(entry[1])));

const taintOf = ({ key, value, effect }: Json): Taint => ({ key: text(key), value: text(value), effect: text(effect) });

function conditionIn({ type, status, reason, message, lastHeartbeatTime }: Json): readonly ConditionView[] {
  if (!isText(type) || (type !== 'Ready' && !type.startsWith('Nodewarden'))) return [];
  const said = text(message).slice(0, MESSAGE_MAX);
  const heartbeat = text(lastHeartbeatTime).slice(0, TOKEN_MAX);
  return [{ type, status: text(status), reason: text(reason), message: said, heartbeat }];
}

function kubeletIn(status: Json): KnownNode['kubelet'] {
  const internal = objectsIn(status['addresses']).find(({ type }) => type === 'InternalIP');
  const host = internal?.['address'];
  const port = partOf(partOf(status, 'daemonEndpoints'), 'kubeletEndpoint')['Port'];
  if (!isText(host) || host === '') return null;
  return { host, port: isNumber(port) && port > 0 && port < 65_536 ? port : KUBELET_PORT };
}

/** A node's Lease. Without a `renewTime` that can be compared, the node has no age. */
export function readLease(object: unknown): LeaseView {
  const { renewTime, leaseDurationSeconds: seconds } = partOf(object, 'spec');
  return {
    renewed: isText(renewTime) && renewTime !== '' && renewTime.length <= TOKEN_MAX ? renewTime : null,
    durationMs: isNumber(seconds) && seconds > 0 ? seconds * 1_000 : 0,
  };
}

export const nameIn = (object: unknown): string => text(partOf(object, 'metadata')['name']);
