import { isDnsName } from '../core/guard/config.ts';
import type { NextGuardLook } from '../core/guard/decision.ts';
import { OUT_OF_SERVICE } from '../core/guard/node-facts.ts';
import type {
  AskedView,
  Attachment,
  AttachmentsByNode,
  ConsistentLook,
  Dated,
  MemberAsk,
  MemberView,
  PodOnNode,
} from '../core/guard/observation.ts';
import type { NodeRef } from '../core/guard/record.ts';
import { attachmentsByNode } from '../core/guard/worth.ts';
import { known, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import { isNumber, isObject, isText, partOf } from '../core/shape.ts';
import { sleep } from '../host/clock.ts';
import type { ApiGet } from '../kube/api/connection.ts';
import { listObjects, objectIn, pathWith } from '../kube/api/object-list.ts';
import type { Clock } from '../ports.ts';
import type { Nodes } from './nodes.ts';
import { type KnownNode, readLease, readNode } from './read-node.ts';
import type { Witnesses } from './witness.ts';

export type Asked = {
  /** Begins what is not under way yet. */
  readonly ask: (next: Pick<NextGuardLook, 'witness' | 'pods' | 'looks' | 'attachments' | 'members'>) => void;
  /** By node uid: what was last read, of nodes that were asked about in the last minutes, listed or not. */
  readonly byUid: () => ReadonlyMap<string, AskedView>;
  readonly attachments: () => Reading<Dated<AttachmentsByNode>>;
};

type AskedNeeds = {
  readonly connection: { readonly get: ApiGet };
  readonly clock: Clock;
  readonly nodes: Pick<Nodes, 'byUid'>;
  readonly witnesses: Witnesses;
  /** Called after each answer. */
  readonly arrived: () => void;
};

const GET_DEADLINE_MS = 5_000;
const LIST_DEADLINE_MS = 20_000;
/** The connection has eight sockets, and the lease must be renewed. What is not begun is asked for at the next look. */
const MOST_PODS = 4;
const MOST_MEMBERS = 2;

/** Whatever is still of use is asked for far more often. A storm asks about all nodes, and their pods are many. */
const FORGOTTEN_MS = 300_000;

const NOT_ASKED = unknown('not-asked', 'node', 'not asked yet');
type Read = Omit<AskedView, 'witness'>;
const BLANK: Read = { pods: NOT_ASKED, look: NOT_ASKED, members: NOT_ASKED };

/** What the core wants to know of some nodes, asked in the background. */
export function createAsked({ connection, clock, nodes, witnesses, arrived }: AskedNeeds): Asked {
  const { get } = connection;
  const views = new Map<string, Read>();
  const askedMs = new Map<string, MonoMs>();
  const underWay = { pods: new Set<string>(), look: new Set<string>(), members: new Set<string>() };
  let attachments: Reading<Dated<AttachmentsByNode>> = unknown('not-asked', 'volumeattachments', 'not asked yet');
  let areAttachmentsAsked = false;

  function beginListed<K extends 'pods' | 'members'>(
    what: K,
    uid: string,
    most: number,
    read: (node: KnownNode) => Promise<Read[K]>,
  ): void {
    const node = nodes.byUid(uid);
    if (node !== null) begin(what, uid, most, () => read(node));
  }

  function begin<K extends keyof Read>(what: K, uid: string, most: number, read: () => Promise<Read[K]>): void {
    if (underWay[what].has(uid) || underWay[what].size >= most) return;
    underWay[what].add(uid);
    askedMs.set(uid, clock.monoMs());
    void read().then((value) => {
      underWay[what].delete(uid);
      views.set(uid, { ...(views.get(uid) ?? BLANK), [what]: value });
      arrived();
    });
  }

  async function readPods({ object: { name }, hasVolumes }: KnownNode): Promise<AskedView['pods']> {
    const where = `pods of ${name}`;
    if (!isDnsName(name)) return unknown('malformed', where, 'the name of the node is none');
    const asOfMs = clock.monoMs();
    const listed = await listObjects(
      get,
      pathWith('/api/v1/pods', { fieldSelector: `spec.nodeName=${name}` }),
      '',
      LIST_DEADLINE_MS,
      (object): PodOnNode => readPodOnNode(object, hasVolumes),
      () => sleep(clock, 0),
    );
    return listed.ok ? known({ value: listed.objects, asOfMs }) : unknown('unreadable', where, listed.detail);
  }

  /** One after the other: they are for people, and have time. */
  async function readMembers(wanted: readonly MemberAsk[]): Promise<AskedView['members']> {
    const asOfMs = clock.monoMs();
    const members: MemberView[] = [];
    for (const { namespace, name } of wanted) {
      const where = `pod ${namespace}/${name}`;
      if (!isDnsName(namespace) || !isDnsName(name)) return unknown('malformed', where, 'its name is none');
      const listed = await listObjects(
        get,
        pathWith(`/api/v1/namespaces/${namespace}/pods`, { fieldSelector: `metadata.name=${name}` }),
        '',
        LIST_DEADLINE_MS,
        readMember,
        () => sleep(clock, 0),
      );
      if (!listed.ok) return unknown('unreadable', where, listed.detail);
      members.push(...listed.objects);
    }
    return known({ value: members, asOfMs });
  }

  /** Without a resourceVersion: what is so now, not what a cache has (guard.md 6.2). */
  async function readLook({ name }: NodeRef): Promise<AskedView['look']> {
    if (!isDnsName(name)) return unknown('malformed', 'node', 'its name is none');
    const asOfMs = clock.monoMs();
    const leasePath = `/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/${name}`;
    const [lease, node] = await Promise.all([
      get(leasePath, GET_DEADLINE_MS),
      get(`/api/v1/nodes/${name}`, GET_DEADLINE_MS),
    ]);
    const leaseNow = objectIn(lease, leasePath);
    const nodeNow = objectIn(node, `/api/v1/nodes/${name}`);
    if (!leaseNow.known) return leaseNow;
    if (!nodeNow.known) return nodeNow;
    const seen = nodeNow.value === null ? null : readNode(nodeNow.value);
    if (nodeNow.value !== null && seen === null) return unknown('malformed', `/api/v1/nodes/${name}`, 'not a Node');
    const value: ConsistentLook = {
      node: seen?.object ?? null,
      lease: leaseNow.value === null ? null : readLease(leaseNow.value),
      resourceVersion: seen?.version ?? '',
    };
    return known({ value, asOfMs });
  }

  async function readAttachments(): Promise<void> {
    const asOfMs = clock.monoMs();
    const path = '/apis/storage.k8s.io/v1/volumeattachments';
    const listed = await listObjects(get, pathWith(path), '', LIST_DEADLINE_MS, readAttachment, () => sleep(clock, 0));
    attachments = listed.ok
      ? known({ value: attachmentsByNode(listed.objects), asOfMs })
      : unknown('unreadable', path, listed.detail);
  }

  return {
    ask: (next) => {
      for (const node of next.looks) begin('look', node.uid, Number.POSITIVE_INFINITY, () => readLook(node));
      for (const uid of next.pods) beginListed('pods', uid, MOST_PODS, readPods);
      for (const { node, pods } of next.members) beginListed('members', node, MOST_MEMBERS, () => readMembers(pods));
      witnesses.ask(next.witness);
      for (const uid of next.witness) {
        views.set(uid, views.get(uid) ?? BLANK);
        askedMs.set(uid, clock.monoMs());
      }
      if (!next.attachments || areAttachmentsAsked) return;
      areAttachmentsAsked = true;
      void readAttachments().then(() => {
        areAttachmentsAsked = false;
        arrived();
      });
    },
    byUid: () => {
      const sinceMs = clock.monoMs() - FORGOTTEN_MS;
      for (const uid of views.keys()) {
        if ((askedMs.get(uid) ?? 0) > sinceMs) continue;
        views.delete(uid);
        askedMs.delete(uid);
      }
      witnesses.keepOnly(new Set(views.keys()));
      return new Map([...views].map(([uid, read]) => [uid, { ...read, witness: witnesses.of(uid) }]));
    },
    attachments: () => attachments,
  };
}

const text = (value: unknown): string => (isText(value) ? value : '');
const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** Far more than a pod has. */
const MAX_FINALIZERS = 100;

/** A pod of a node, reduced. `hasVolumes`: volumes are attached to the node; which of them are whose, only claims could say. */
function readPodOnNode(object: unknown, hasVolumes: boolean): PodOnNode {
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

function readMember(object: unknown): MemberView {
  const { namespace, name, uid } = partOf(object, 'metadata');
  const conditions = list(partOf(object, 'status')['conditions']);
  const isReady = conditions.some((one) => isObject(one) && one['type'] === 'Ready' && one['status'] === 'True');
  return { namespace: text(namespace), name: text(name), uid: text(uid), isReady };
}

function readAttachment(object: unknown): Attachment {
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
