import { WRITE_DEADLINE_MS as DEADLINE_MS } from '../core/guard/agent-run.ts';
import { FENCED, MARK, OUT_OF_SERVICE } from '../core/guard/node-facts.ts';
import type { FencingId } from '../core/guard/record.ts';
import { isObject, isText, partOf } from '../core/shape.ts';
import type { ApiAnswer, GuardSend } from '../kube/api/connection.ts';
import { isOfAnotherUid, notDone } from '../kube/api/write-failure.ts';
import { must, mustBeNodeName } from '../kube/api/write-rules.ts';

/** The ConfigMaps of the guard, in its own namespace. */
export type GuardMap = `fencing-${FencingId}` | 'guard-devices' | 'guard-state' | 'guard-orders';
export type MapData = { readonly [key: string]: string };
/** The labels and annotations of a ConfigMap as received. */
export type MapLabels = { readonly labels?: unknown; readonly annotations?: unknown };
/** A node as it was seen: what is written to it holds for that uid and that version, or not at all. */
export type SeenNode = {
  readonly name: string;
  readonly uid: string;
  readonly version: string;
  /** As received, with fields that we do not know. */
  readonly taints: readonly { readonly [field: string]: unknown }[];
};
/** `untell` removes the taint that frees pods and volumes, `unfence` the one that keeps new pods away. */
export type MarkChange = 'tell' | 'untell' | 'unfence';
export type FencedCondition = { readonly message: string; readonly wallMs: number };
export type LeaseSpec = {
  readonly holder: string;
  readonly transitions: number;
  readonly durationSeconds: number;
  readonly wallMs: number;
  readonly annotations: { readonly [key: string]: string };
};
export type NodeEvent = {
  /** Sent twice, it is still one event. */
  readonly name: string;
  readonly node: string;
  readonly reason: string;
  readonly type: 'Normal' | 'Warning';
  readonly message: string;
  readonly wallMs: number;
};

/**
 * `conflict`: it has another version by now, or exists already. `failed`: refused, or nobody knows whether it was done.
 * Nothing was done after `conflict` and `gone`.
 */
export type NotWritten =
  | { readonly kind: 'conflict' | 'gone'; readonly detail: string }
  /** `mayBeDone` absent: it was not done. */
  | { readonly kind: 'failed'; readonly detail: string; readonly mayBeDone?: boolean };
export type Written = { readonly kind: 'done' } | NotWritten;
/** `body`: the object as the server has it now. */
export type Stored = { readonly kind: 'stored'; readonly version: string; readonly body: unknown } | NotWritten;

/**
 * Every write of the guard. What guard.md 13.1 does not grant cannot be expressed here: it deletes no pod, node, claim or
 * attachment (G10), and changes no taint, condition or object but its own (G11). Arguments that show a bug throw, before
 * anything is sent; nothing else does.
 */
export type GuardWrites = {
  /** `version` null: it must not exist yet. `labels`, as `kubectl apply` leaves some, stay only if they are given. */
  readonly putMap: (name: GuardMap, data: MapData, version: string | null, labels?: MapLabels) => Promise<Stored>;
  /** Only if it still has that version. */
  readonly deleteRecord: (id: FencingId, version: string) => Promise<Written>;
  readonly putLease: (lease: LeaseSpec, version: string | null) => Promise<Stored>;
  /** `unchanged`: there was nothing to do, and nothing was sent. */
  readonly changeMarks: (
    node: SeenNode,
    change: MarkChange,
    id: FencingId,
  ) => Promise<Written | { readonly kind: 'unchanged' }>;
  /** The condition NodewardenFenced; null removes it. */
  readonly setFenced: (node: Pick<SeenNode, 'name' | 'uid'>, condition: FencedCondition | null) => Promise<Written>;
  readonly createEvent: (event: NodeEvent) => Promise<Written>;
};

export const LEADER_LEASE = 'nodewarden-guard';
const MESSAGE_MAX = 1_000;
/** What etcd takes in one object, less what surrounds the data. */
export const MAX_MAP_BYTES = 1_000_000;
export const FENCED_CONDITION = 'NodewardenFenced';
const COMPONENT = 'nodewarden.dev/guard';
const JSON_TYPE = 'application/json';
const MERGE = 'application/merge-patch+json';
const STRATEGIC = 'application/strategic-merge-patch+json';

const MAP_NAME = /^(?:fencing-[0-9a-f]{16}-[1-9][0-9]{0,15}|guard-devices|guard-state|guard-orders)$/;
const RECORD_ID = /^[0-9a-f]{16}-[1-9][0-9]{0,15}$/;
const NAMESPACE = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const EVENT_NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

export function createGuardWrites({
  send,
  namespace,
  stored = () => undefined,
}: {
  readonly send: GuardSend;
  readonly namespace: string;
  /** Called with each ConfigMap that was written, as the API server answered it. */
  readonly stored?: (map: unknown) => void;
}): GuardWrites {
  must(NAMESPACE.test(namespace), 'a namespace that is none');
  const maps = `/api/v1/namespaces/${namespace}/configmaps`;
  const leases = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;

  /** Created, or replaced as a whole if it still has the version. */
  const put = async (path: string, name: string, object: object, version: string | null): Promise<Stored> => {
    must(version !== '', 'a version that is none');
    const metadata = { name, namespace, ...(version === null ? {} : { resourceVersion: version }) };
    const body = withMetadata(object, metadata);
    const answer = await (version === null
      ? send({ method: 'POST', path, contentType: JSON_TYPE, body, deadlineMs: DEADLINE_MS })
      : send({ method: 'PUT', path: `${path}/${name}`, contentType: JSON_TYPE, body, deadlineMs: DEADLINE_MS }));
    const failed = notWritten(answer);
    if (failed !== null) return failed;
    const stored = answer.kind === 'answer' ? answer.body : null;
    const now = versionOf(stored);
    return now === null
      ? { kind: 'failed', detail: `the answer to the write of ${name} has no resourceVersion`, mayBeDone: true }
      : { kind: 'stored', version: now, body: stored };
  };

  return {
    putMap: async (name, data, version, metadata = {}) => {
      must(MAP_NAME.test(name), 'a ConfigMap that is not ours');
      const bytes = bytesOf(data);
      if (bytes > MAX_MAP_BYTES) return { kind: 'failed', detail: `${name} would have ${bytes} bytes` };
      const written = await put(maps, name, { apiVersion: 'v1', kind: 'ConfigMap', metadata, data }, version);
      if (written.kind === 'stored') stored(written.body);
      return written;
    },
    deleteRecord: async (id, version) => {
      must(RECORD_ID.test(id) && version !== '', 'the deletion of what is no record');
      const body = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { resourceVersion: version } };
      const path = `${maps}/fencing-${id}`;
      const answer = await send({ method: 'DELETE', path, contentType: JSON_TYPE, body, deadlineMs: DEADLINE_MS });
      return notWritten(answer) ?? DONE;
    },
    putLease: ({ holder, transitions, durationSeconds, wallMs, annotations }, version) => {
      const spec = {
        // Given back: newer servers refuse an empty name.
        ...(holder === '' ? {} : { holderIdentity: holder }),
        leaseTransitions: transitions,
        leaseDurationSeconds: durationSeconds,
        renewTime: microTime(wallMs),
      };
      const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { annotations }, spec };
      return put(leases, LEADER_LEASE, lease, version);
    },
    changeMarks: async (node, change, id) => {
      mustBeNodeName(node.name);
      must(node.uid !== '' && node.version !== '', 'a change of a node that was not read');
      must(change !== 'tell' || RECORD_ID.test(id), 'a mark of what is no fencing');
      const taints = TAINTS_AFTER[change](node.taints, id);
      if (taints === null) return { kind: 'unchanged' };
      const body = { metadata: { uid: node.uid, resourceVersion: node.version }, spec: { taints } };
      const path = `/api/v1/nodes/${node.name}`;
      const answer = await send({ method: 'PATCH', path, contentType: MERGE, body, deadlineMs: DEADLINE_MS });
      return notWritten(answer) ?? DONE;
    },
    setFenced: async ({ name, uid }, condition) => {
      mustBeNodeName(name);
      must(uid !== '', 'a condition of a node that was not read');
      const entry = condition === null ? { $patch: 'delete', type: FENCED_CONDITION } : fencedEntry(condition);
      const body = { metadata: { uid }, status: { conditions: [entry] } };
      const path = `/api/v1/nodes/${name}/status`;
      const answer = await send({ method: 'PATCH', path, contentType: STRATEGIC, body, deadlineMs: DEADLINE_MS });
      return notWritten(answer) ?? DONE;
    },
    createEvent: async (event) => {
      mustBeNodeName(event.node);
      must(EVENT_NAME.test(event.name) && !event.name.includes('..'), 'an event name that is none');
      const path = '/api/v1/namespaces/default/events';
      const body = eventBody(event);
      const failed = notWritten(
        await send({ method: 'POST', path, contentType: JSON_TYPE, body, deadlineMs: DEADLINE_MS }),
      );
      return failed === null || failed.kind === 'conflict' ? DONE : failed;
    },
  };
}

export const bytesOf = (data: MapData): number =>
  Object.entries(data).reduce((sum, [key, text]) => sum + key.length + Buffer.byteLength(text), 0);

const DONE = { kind: 'done' } as const;

function notWritten(answer: ApiAnswer): NotWritten | null {
  const failed = notDone(answer, null);
  if (failed === null) return null;
  const detail = failed.text;
  if (answer.kind !== 'answer') return { kind: 'failed', detail, mayBeDone: true };
  if (answer.status === 404 || isOfAnotherUid(answer)) return { kind: 'gone', detail };
  if (answer.status === 409) return { kind: 'conflict', detail };
  // A server that failed may have failed after it.
  return { kind: 'failed', detail, mayBeDone: failed.kind === 'unheard' || answer.status >= 500 };
}

export function versionOf(object: unknown): string | null {
  const version = partOf(object, 'metadata')['resourceVersion'];
  return isText(version) && version !== '' ? version : null;
}

function withMetadata(object: object, metadata: object): object {
  const own: unknown = Reflect.get(object, 'metadata');
  return { ...object, metadata: { ...(isObject(own) ? own : {}), ...metadata } };
}

type Taints = SeenNode['taints'];

/** The whole list after the change, foreign ones as they were and in their place; null: it is so already. */
const TAINTS_AFTER: { readonly [C in MarkChange]: (taints: Taints, id: FencingId) => Taints | null } = {
  tell: (taints, id) => {
    const marks = [
      { key: OUT_OF_SERVICE, value: `${MARK}${id}`, effect: 'NoExecute' },
      { key: FENCED, value: id, effect: 'NoSchedule' },
    ];
    const others = taints.filter((taint) => !isMark(taint));
    // Somebody else has said so already: a second one of that key says no more, and the first one is theirs.
    const isSaid = others.some(({ key }) => key === OUT_OF_SERVICE);
    const wanted = isSaid ? marks.slice(1) : marks;
    // Of a patch whose answer was lost, the Node shows that it was done.
    const isDone = taints.length === others.length + wanted.length && wanted.every((mark) => hasTaint(taints, mark));
    return isDone ? null : [...others, ...wanted];
  },
  untell: (taints, id) => without(taints, OUT_OF_SERVICE, `${MARK}${id}`),
  unfence: (taints, id) => without(taints, FENCED, id),
};

const hasTaint = (taints: Taints, { key, value, effect }: Taints[number]): boolean =>
  taints.some((taint) => taint['key'] === key && taint['value'] === value && taint['effect'] === effect);

function without(taints: Taints, key: string, value: string): Taints | null {
  const kept = taints.filter((taint) => !(taint['key'] === key && taint['value'] === value));
  return kept.length === taints.length ? null : kept;
}

/** Ours, of whichever fencing. */
function isMark({ key, value }: Taints[number]): boolean {
  return key === FENCED || (key === OUT_OF_SERVICE && isText(value) && value.startsWith(MARK));
}

function fencedEntry({ message, wallMs }: FencedCondition): object {
  const time = rfc3339(wallMs);
  return {
    ...{ type: FENCED_CONDITION, status: 'True', reason: 'PowerOffProven', message: message.slice(0, MESSAGE_MAX) },
    ...{ lastHeartbeatTime: time, lastTransitionTime: time },
  };
}

/** As the kubelet's: `kubectl describe node` looks for events by the name in place of the uid. */
function eventBody({ name, node, reason, type, message, wallMs }: NodeEvent): object {
  const time = rfc3339(wallMs);
  return {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name, namespace: 'default' },
    involvedObject: { apiVersion: 'v1', kind: 'Node', name: node, uid: node },
    ...{ reason, type, message: message.slice(0, MESSAGE_MAX), action: reason, count: 1 },
    source: { component: COMPONENT },
    reportingComponent: COMPONENT,
    reportingInstance: COMPONENT,
    firstTimestamp: time,
    lastTimestamp: time,
  };
}

/** metav1.Time, and metav1.MicroTime. */
const rfc3339 = (wallMs: number): string => `${new Date(wallMs).toISOString().slice(0, 19)}Z`;
const microTime = (wallMs: number): string => new Date(wallMs).toISOString().replace('Z', '000Z');
