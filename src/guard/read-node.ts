import {
  type ConditionView,
  GUARD_ANNOTATIONS,
  type LeaseView,
  type NodeObject,
  type Taint,
} from '../core/guard/observation.ts';
import { isNumber, isText, type Json, objectsIn, partOf } from '../core/shape.ts';
import { nodeKey } from './records.ts';

/** A Node of the API, reduced to what has a meaning here. */
export type KnownNode = {
  readonly object: NodeObject;
  readonly version: string;
  /** Where its kubelet may listen, as it says itself. For the witness alone, which can only hold back. */
  readonly kubelet: readonly { readonly host: string; readonly port: number }[];
  /** The attach/detach controller has attached volumes to it. */
  readonly hasVolumes: boolean;
};

const KUBELET_PORT = 10_250;
/** A node that names more can only harm itself. */
const MOST_ADDRESSES = 4;
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
      // Kubelets of another version may write it in capitals.
      systemUuid: text(partOf(status, 'nodeInfo')['systemUUID']).toLowerCase(),
      created: text(metadata['creationTimestamp']).slice(0, TOKEN_MAX),
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
  const hosts = objectsIn(status['addresses']).flatMap(({ type, address }) =>
    type === 'InternalIP' && isText(address) && address !== '' ? [address] : [],
  );
  const said = partOf(partOf(status, 'daemonEndpoints'), 'kubeletEndpoint')['Port'];
  const port = isNumber(said) && said > 0 && said < 65_536 ? said : KUBELET_PORT;
  return [...new Set(hosts)].slice(0, MOST_ADDRESSES).map((host) => ({ host, port }));
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
export const versionIn = (object: unknown): string => text(partOf(object, 'metadata')['resourceVersion']);
