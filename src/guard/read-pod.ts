import { OUT_OF_SERVICE } from '../core/guard/node-facts.ts';
import type { Attachment, MemberView, PodOnNode } from '../core/guard/observation.ts';
import { isNumber, isObject, isText, partOf } from '../core/shape.ts';

const text = (value: unknown): string => (isText(value) ? value : '');
const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** Far more than a pod has. */
const MAX_FINALIZERS = 100;

/** A pod of a node, reduced. `hasVolumes`: volumes are attached to the node; which of them are whose, only claims could say. */
export function readPodOnNode(object: unknown, hasVolumes: boolean): PodOnNode {
  const metadata = partOf(object, 'metadata');
  const spec = partOf(object, 'spec');
  const { priority } = spec;
  const owner = list(metadata['ownerReferences']).find((one) => isObject(one) && one['controller'] === true);
  const phase = partOf(object, 'status')['phase'];
  return {
    uid: text(metadata['uid']),
    namespace: text(metadata['namespace']),
    name: text(metadata['name']),
    priority: isNumber(priority) ? priority : 0,
    ownerKind: isObject(owner) ? text(owner['kind']) : '',
    hasAttachedVolume: hasVolumes && list(spec['volumes']).some(isAttachable),
    isTerminating: isText(metadata['deletionTimestamp']),
    isFinished: phase === 'Succeeded' || phase === 'Failed',
    toleratesTaint: list(spec['tolerations']).some(tolerates),
    finalizers: list(metadata['finalizers']).filter(isText).slice(0, MAX_FINALIZERS),
  };
}

/** Sources of volumes that live and die with the pod, or lie on its machine, or are mounted by any number of machines. */
const NOT_ATTACHED = new Set([
  ...['configMap', 'secret', 'projected', 'downwardAPI', 'emptyDir', 'hostPath', 'image'],
  ...['nfs', 'cephfs', 'glusterfs', 'gitRepo', 'csi'],
]);

function isAttachable(volume: unknown): boolean {
  if (!isObject(volume)) return false;
  return Object.keys(volume).some((field) => field !== 'name' && !NOT_ATTACHED.has(field));
}

/** By key and effect: the value of the taint is ours, and no pod can know it. */
function tolerates(toleration: unknown): boolean {
  if (!isObject(toleration)) return false;
  const { key, operator, effect, tolerationSeconds } = toleration;
  if (isText(effect) && effect !== '' && effect !== 'NoExecute') return false;
  // Who tolerates it for a while goes like the others.
  if (isNumber(tolerationSeconds)) return false;
  if (operator !== 'Exists') return false;
  return !isText(key) || key === '' || key === OUT_OF_SERVICE;
}

export function readMember(object: unknown): MemberView {
  const { namespace, name, uid } = partOf(object, 'metadata');
  const conditions = list(partOf(object, 'status')['conditions']);
  const isReady = conditions.some((one) => isObject(one) && one['type'] === 'Ready' && one['status'] === 'True');
  return { namespace: text(namespace), name: text(name), uid: text(uid), isReady };
}

export function readAttachment(object: unknown): Attachment {
  const spec = partOf(object, 'spec');
  const source = partOf(spec, 'source');
  return {
    name: text(partOf(object, 'metadata')['name']),
    node: text(spec['nodeName']),
    driver: text(spec['attacher']),
    volume:
      text(source['persistentVolumeName']) || text(partOf(partOf(source, 'inlineVolumeSpec'), 'csi')['volumeHandle']),
  };
}
