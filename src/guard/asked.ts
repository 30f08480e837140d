import { isDnsName } from '../core/guard/config.ts';
import type { NextGuardLook } from '../core/guard/decision.ts';
import type {
  AskedView,
  AttachmentsByNode,
  ConsistentLook,
  Dated,
  MemberAsk,
  MemberView,
  PodOnNode,
} from '../core/guard/observation.ts';
import { attachmentsByNode } from '../core/guard/worth.ts';
import { known, type Reading, unknown } from '../core/reading.ts';
import { sleep } from '../host/clock.ts';
import type { ApiGet } from '../kube/connection.ts';
import { listObjects, objectIn, pathWith } from '../kube/object-list.ts';
import type { Clock } from '../ports.ts';
import type { Nodes } from './nodes.ts';
import { type KnownNode, readLease, readNode } from './read-node.ts';
import { readAttachment, readMember, readPodOnNode } from './read-pod.ts';
import type { Witnesses } from './witness.ts';

export type Asked = {
  /** Begins what is not under way yet. */
  readonly ask: (next: Pick<NextGuardLook, 'witness' | 'pods' | 'looks' | 'attachments' | 'members'>) => void;
  /** By node uid: what was last read, of nodes that exist. */
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

const NOT_ASKED = unknown('not-asked', 'node', 'not asked yet');
type Read = Omit<AskedView, 'witness'>;
const BLANK: Read = { pods: NOT_ASKED, look: NOT_ASKED, members: NOT_ASKED };

/** What the core wants to know of some nodes, asked in the background. */
export function createAsked({ connection, clock, nodes, witnesses, arrived }: AskedNeeds): Asked {
  const { get } = connection;
  const views = new Map<string, Read>();
  const underWay = { pods: new Set<string>(), look: new Set<string>(), members: new Set<string>() };
  let attachments: Reading<Dated<AttachmentsByNode>> = unknown('not-asked', 'volumeattachments', 'not asked yet');
  let areAttachmentsAsked = false;

  function begin<K extends keyof Read>(
    what: K,
    uid: string,
    most: number,
    read: (node: KnownNode) => Promise<Read[K]>,
  ): void {
    const node = nodes.byUid(uid);
    if (node === null || underWay[what].has(uid) || underWay[what].size >= most) return;
    underWay[what].add(uid);
    void read(node).then((value) => {
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
  async function readLook({ object: { name } }: KnownNode): Promise<AskedView['look']> {
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
      for (const uid of next.looks) begin('look', uid, Number.POSITIVE_INFINITY, readLook);
      for (const uid of next.pods) begin('pods', uid, MOST_PODS, readPods);
      for (const { node, pods } of next.members) begin('members', node, MOST_MEMBERS, () => readMembers(pods));
      witnesses.ask(next.witness);
      for (const uid of next.witness) views.set(uid, views.get(uid) ?? BLANK);
      if (!next.attachments || areAttachmentsAsked) return;
      areAttachmentsAsked = true;
      void readAttachments().then(() => {
        areAttachmentsAsked = false;
        arrived();
      });
    },
    byUid: () => {
      for (const uid of views.keys()) if (nodes.byUid(uid) === null) views.delete(uid);
      witnesses.keepOnly(new Set(views.keys()));
      return new Map([...views].map(([uid, read]) => [uid, { ...read, witness: witnesses.of(uid) }]));
    },
    attachments: () => attachments,
  };
}
