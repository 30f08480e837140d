import { ifKnown, known, type MonoMs, type Reading, unknown, valueOrNull } from '../../core/reading.ts';
import { sleep } from '../../host/clock.ts';
import type { Clock } from '../../ports.ts';
import type { ApiRight } from '../../words/finding-writes.ts';
import type { DisruptionReason, PodRef } from './api-pod.ts';
import type { ApiAnswer, ApiGet, ApiSend } from './connection.ts';
import {
  type DeleteAnswer,
  type EvictAnswer,
  type EvictionVersion,
  findVersion,
  type Over,
  readDeleteAnswer,
  readEvictAnswer,
  readPlace,
  readRehearsal,
  readUnheard,
} from './eviction.ts';
import {
  type Cordoned,
  cordoned,
  lookAtNode,
  type NodeChange,
  type NodeEdit,
  type OwnNode,
  type TaintChange,
  tainted,
  type Uncordoned,
  uncordoned,
  withoutVoidMark,
} from './own-node.ts';
import { isGone, isOfAnotherUid, type NotDone, notDone, readSaid } from './write-failure.ts';
import {
  type ApiEvent,
  type ApiVictim,
  mustBeConditions,
  mustBeDisruption,
  mustBeEvent,
  mustBeGrace,
  mustBeMark,
  mustBeNodeName,
  mustBeOwnCondition,
  mustBeOwnTaint,
  mustBeOwnTaintKey,
  mustBeVictim,
  type NodeConditionEntry,
  type OwnCondition,
  type ShutdownMark,
  type TaintKeys,
  taintKey,
} from './write-rules.ts';

type Done = { readonly kind: 'done' };
type Marked = Done | Extract<DeleteAnswer, { kind: 'gone' | 'replaced' }> | NotDone;
/**
 * Every write that this agent can send to the API server. What it must not send (beside-a-kubelet.md J) cannot be expressed
 * here. A call whose arguments show a bug throws at once, before anything is sent; the returned promise never rejects.
 * Nothing is sent before the node of our name has shown the boot id of this machine (D3). After that, a request has been
 * sent when the call returns, so that consecutive calls reach the server in order.
 */
export type ApiWrites = {
  /** Whether the node is this machine. Checked before the first write, so that no victim has to wait for it. */
  readonly verify: () => Promise<OwnNode | NotDone>;
  /** Of the Node object that last showed to be this machine's. Absent: none has. */
  readonly ofNode: () => { readonly nodeUid?: string };
  /** The same, proven as before a write. */
  readonly provenNodeUid: () => Promise<string | NotDone>;
  /** Another server takes the place of the one in use: it proves the node anew before the next write. */
  readonly doubt: () => void;
  /** B1: respects disruption budgets. */
  readonly evictPod: (victim: ApiVictim, graceSeconds: number) => Promise<EvictAnswer>;
  /** B2: ignores disruption budgets. */
  readonly deletePod: (victim: ApiVictim, graceSeconds: number, deadlineMs?: number) => Promise<DeleteAnswer>;
  /** Null: the server shows the pod on this node, and not as over. Ask before the end of a pod that no list of ours has. */
  readonly whyNotHere: (victim: ApiVictim) => Promise<DeleteAnswer | Over | null>;
  /** Whether the server ends the pod: it is being deleted, or gone. For a request whose answer was lost. */
  readonly isEnding: (victim: ApiVictim) => Promise<Reading<boolean>>;
  /** A dry run of the deletion; `over` if it would remove the object at once. Also `rejected` if a webhook does not support dry run. */
  readonly rehearseDelete: (victim: ApiVictim, graceSeconds: number) => Promise<DeleteAnswer | Over>;
  /** A16: immediately before the DELETE. */
  readonly markDisruption: (victim: ApiVictim, reason: DisruptionReason, message: string) => Promise<Marked>;
  /** Sets the mark of this reason to False, if nothing of the pod has changed since that version. */
  readonly unmarkDisruption: (victim: ApiVictim, reason: DisruptionReason, resourceVersion: string) => Promise<Marked>;
  readonly setNodeConditions: (conditions: readonly NodeConditionEntry[]) => Promise<Done | NotDone>;
  readonly removeNodeConditions: (types: readonly OwnCondition[]) => Promise<Done | NotDone>;
  readonly changeTaints: (change: TaintChange) => Promise<NodeChange | NotDone>;
  /** E4: cordon and taint in one patch. A node that someone else has cordoned gets only the taint (A15). */
  readonly cordon: (mark: ShutdownMark) => Promise<Cordoned | NotDone>;
  /** E18, E22: takes back the taint, and the cordon that has the mark of a cancelled shutdown or of another boot. */
  readonly uncordon: (cancelled: readonly ShutdownMark[]) => Promise<Uncordoned | NotDone>;
  /** E22: somebody has uncordoned the node since. If it is cordoned again, the cordon is not ours. */
  readonly dropVoidMark: () => Promise<NodeChange | NotDone>;
  /** If the server already has it, its count is updated. */
  readonly createEvent: (event: ApiEvent) => Promise<Done | NotDone>;
};
type WritesNeeds = {
  readonly get: ApiGet;
  readonly send: ApiSend;
  readonly clock: Clock;
  readonly nodeName: string;
  readonly bootId: string;
  readonly taintKeys: TaintKeys;
  /** Null: not discovered yet (discoverEviction), or not supported by the server: then it is asked for each time. */
  readonly evictionVersion: () => EvictionVersion | null;
};

/** C1. */
export const ACT_MS = { hard: 500, soft: 5_000 } as const;
/** Part of the 5 s of a soft eviction, the query of its version included; the rest is for querying its outcome. */
const EVICT_MS = 3_500;
const ASK_MS = 1_000;
const TRIES = 5;
/** D3: how long the node as last seen counts as this machine. */
const SEEN_MS = 60_000;
const JITTER_MS = 50;
const MESSAGE_MAX = 4_096;
const ANNOTATIONS_MAX = 16;
const AGENT = 'nodewarden.dev/agent';
const NOT_DELETED = 'the pod was not deleted';

const STRATEGIC = 'application/strategic-merge-patch+json';
const MERGE = 'application/merge-patch+json';
const JSON_TYPE = 'application/json';

export function createApiWrites(needs: WritesNeeds): ApiWrites {
  const { get, send, clock, nodeName, bootId, evictionVersion } = needs;
  const shutdownTaint = { key: taintKey(needs.taintKeys, 'shutdown'), effect: 'NoSchedule' } as const;
  mustBeNodeName(nodeName);
  const node = `/api/v1/nodes/${nodeName}`;
  let nodeUid: string | null = null;
  let seenMs: MonoMs = Number.NEGATIVE_INFINITY;
  let asking: Promise<OwnNode | NotDone> | null = null;
  let servers = 0;

  const look = async (): Promise<OwnNode | NotDone> => {
    const server = servers;
    const seen = await lookAtNode(get, { nodeName, bootId }, ACT_MS.soft);
    if (server !== servers) return seen;
    if (seen.kind === 'node') {
      nodeUid = seen.uid;
      seenMs = clock.monoMs();
    } else if (seen.kind === 'not-our-node') nodeUid = null;
    return seen;
  };
  const verify = (): Promise<OwnNode | NotDone> => {
    if (asking !== null) return asking;
    const mine = look().finally(() => {
      if (asking === mine) asking = null;
    });
    asking = mine;
    return mine;
  };
  /** Synchronous if the node was seen recently. */
  const onOurNode = async <T>(act: (uid: string) => Promise<T>): Promise<T | NotDone> => {
    if (nodeUid !== null && clock.monoMs() - seenMs < SEEN_MS) return act(nodeUid);
    const seen = await verify();
    return seen.kind === 'node' ? act(seen.uid) : seen;
  };
  const patch = (
    path: string,
    contentType: typeof STRATEGIC | typeof MERGE,
    body: object,
    deadlineMs: number = ACT_MS.soft,
  ): Promise<ApiAnswer> => send({ method: 'PATCH', path, contentType, body, deadlineMs });
  const done = (answer: ApiAnswer, right: ApiRight): Done | NotDone => notDone(answer, right) ?? { kind: 'done' };
  const patchStatus = async (uid: string, conditions: readonly object[]): Promise<Done | NotDone> => {
    const answer = await patch(`${node}/status`, STRATEGIC, { metadata: { uid }, status: { conditions } });
    // The node was recreated: check again whether it is this machine.
    if (isOfAnotherUid(answer)) nodeUid = null;
    return done(answer, 'patch nodes/status');
  };

  const remove = <T>(
    victim: ApiVictim,
    graceSeconds: number,
    deadlineMs: number,
    how: { readonly dryRun?: ['All']; readonly read: (answer: ApiAnswer) => T },
  ) => {
    mustBeVictim(victim);
    mustBeGrace(graceSeconds);
    const { read, ...options } = how;
    return onOurNode(async () => {
      const body = { apiVersion: 'v1', kind: 'DeleteOptions', ...deletion(victim, graceSeconds), ...options };
      const path = podPath(victim);
      return read(await send({ method: 'DELETE', path, contentType: JSON_TYPE, body, deadlineMs }));
    });
  };

  const mark = (
    victim: ApiVictim,
    { status, reason, message }: { readonly status: 'True' | 'False'; reason: DisruptionReason; message: string },
    unchanged: { readonly resourceVersion?: string } = {},
  ): Promise<Marked> => {
    mustBeVictim(victim);
    mustBeDisruption(reason);
    return onOurNode(async () => {
      const lastTransitionTime = rfc3339(clock.wallMs());
      const told = { type: 'DisruptionTarget', status, reason, message: cut(message), lastTransitionTime };
      const body = { metadata: { uid: victim.uid, ...unchanged }, status: { conditions: [told] } };
      const answer = await patch(`${podPath(victim)}/status`, STRATEGIC, body, ACT_MS.hard);
      if (isGone(answer, victim.name)) return { kind: 'gone' };
      return isOfAnotherUid(answer) ? { kind: 'replaced' } : done(answer, 'patch pods/status');
    });
  };

  /** A14: sends the whole list as read, with our own entries changed, and only if it has not changed in between. */
  const editNode = async <T>(edit: (seen: OwnNode) => NodeEdit<T>): Promise<T | NotDone> => {
    for (let tried = 1; ; tried++) {
      const seen = await look();
      if (seen.kind !== 'node') return seen;
      const { result, change } = edit(seen);
      if (change === null) return result;
      const metadata = { uid: seen.uid, resourceVersion: seen.resourceVersion, ...change.metadata };
      const answer = await patch(node, MERGE, { metadata, spec: change.spec });
      const failed = notDone(answer, 'patch nodes');
      if (failed === null) return result;
      const hasLostRace = answer.kind === 'answer' && answer.status === 409;
      if (!hasLostRace || tried === TRIES) return failed;
      await sleep(clock, JITTER_MS * tried * (0.5 + Math.random()));
    }
  };

  return {
    verify,
    ofNode: () => (nodeUid === null ? {} : { nodeUid }),
    provenNodeUid: () => onOurNode(async (uid) => uid),
    doubt: () => {
      servers++;
      asking = null;
      seenMs = Number.NEGATIVE_INFINITY;
    },
    evictPod: (victim, graceSeconds) => {
      mustBeVictim(victim);
      mustBeGrace(graceSeconds);
      const version = evictionVersion();
      const startedMs = clock.monoMs();
      const post = (apiVersion: EvictionVersion, spentMs: number) =>
        onOurNode(async (): Promise<EvictAnswer> => {
          const deleteOptions = deletion(victim, graceSeconds);
          const metadata = { namespace: victim.namespace, name: victim.name };
          const answer = await send({
            method: 'POST',
            path: `${podPath(victim)}/eviction`,
            contentType: JSON_TYPE,
            body: { apiVersion, kind: 'Eviction', metadata, deleteOptions },
            deadlineMs: EVICT_MS - spentMs,
          });
          const read = readEvictAnswer(answer, victim);
          if (read.kind !== 'unheard' || !read.isTimeout) return read;
          // The second shows whether the server is there at all, also if its reads of pods hang.
          const [pod] = await Promise.all([get(podPath(victim), ASK_MS), get('/version', ASK_MS)]);
          return valueOrNull(readUnheard(pod, victim)) ?? read;
        });
      if (version !== null) return post(version, 0);
      return findVersion(get, ASK_MS).then((found) =>
        typeof found === 'string' ? post(found, clock.monoMs() - startedMs) : found,
      );
    },
    deletePod: (victim, graceSeconds, deadlineMs = ACT_MS.hard) =>
      remove(victim, graceSeconds, deadlineMs, { read: (answer) => readDeleteAnswer(answer, victim, 'delete pods') }),
    whyNotHere: (victim) => {
      mustBeVictim(victim);
      return onOurNode(async () => readPlace(await get(podPath(victim), ASK_MS), victim, nodeName));
    },
    isEnding: async (victim) => {
      mustBeVictim(victim);
      const read = await onOurNode(async () => readUnheard(await get(podPath(victim), ASK_MS), victim));
      if (!('known' in read)) return unknown('unreadable', node, read.text);
      return ifKnown(read, (answer) => known(answer !== null));
    },
    rehearseDelete: (victim, graceSeconds) =>
      remove(victim, graceSeconds, ACT_MS.soft, { dryRun: ['All'], read: (answer) => readRehearsal(answer, victim) }),
    markDisruption: (victim, reason, message) => mark(victim, { status: 'True', reason, message }),
    unmarkDisruption: (victim, reason, resourceVersion) =>
      mark(victim, { status: 'False', reason, message: NOT_DELETED }, { resourceVersion }),
    setNodeConditions: (entries) => {
      mustBeConditions(entries);
      return onOurNode((uid) => {
        const conditions = entries.map(({ heartbeatWallMs, transitionWallMs, message, type, status, reason }) => ({
          type,
          status,
          reason,
          message: cut(message),
          lastHeartbeatTime: rfc3339(heartbeatWallMs),
          lastTransitionTime: rfc3339(transitionWallMs),
        }));
        return patchStatus(uid, conditions);
      });
    },
    removeNodeConditions: (types) => {
      for (const type of types) mustBeOwnCondition(type);
      return onOurNode((uid) =>
        patchStatus(
          uid,
          types.map((type) => ({ $patch: 'delete', type })),
        ),
      );
    },
    changeTaints: ({ put, remove }) => {
      for (const taint of put) mustBeOwnTaint(taint);
      for (const key of remove) mustBeOwnTaintKey(key);
      return editNode((seen) => tainted(seen, { put, remove }));
    },
    cordon: (mark) => {
      mustBeMark(mark);
      return editNode((seen) => cordoned(seen, mark, shutdownTaint));
    },
    uncordon: (cancelled) => {
      for (const mark of cancelled) mustBeMark(mark);
      return editNode((seen) => uncordoned(seen, cancelled, bootId));
    },
    dropVoidMark: () => editNode(withoutVoidMark),
    createEvent: (event) => {
      mustBeEvent(event);
      return onOurNode(async () => {
        const body = eventBody(event, nodeName);
        const path = eventsPath(event);
        const answer = await send({ method: 'POST', path, contentType: JSON_TYPE, body, deadlineMs: ACT_MS.soft });
        const exists = answer.kind === 'answer' && answer.status === 409 && readSaid(answer).reason === 'AlreadyExists';
        if (!exists) return done(answer, 'create events');
        if (event.count === 1) return { kind: 'done' };
        const more = { count: event.count, lastTimestamp: rfc3339(event.lastWallMs), message: cut(event.message) };
        return done(await patch(`${path}/${event.name}`, MERGE, more), 'patch events');
      });
    },
  };
}

const podPath = ({ namespace, name }: PodRef): string => `/api/v1/namespaces/${namespace}/pods/${name}`;
const deletion = ({ uid }: PodRef, gracePeriodSeconds: number): object => ({
  gracePeriodSeconds,
  preconditions: { uid },
});

/** A node has no namespace: its events go where the kubelet's are. */
const namespaceOf = ({ about }: ApiEvent): string => (about.kind === 'Pod' ? about.namespace : 'default');
const eventsPath = (event: ApiEvent): string => `/api/v1/namespaces/${namespaceOf(event)}/events`;

/**
 * Core v1, not events.k8s.io/v1: both are served from 1.19 to 1.36, but only core v1 has `count` and the times that
 * `kubectl describe`, exporters and the kubelet's own events use, and one right on `events` covers it.
 */
function eventBody(event: ApiEvent, nodeName: string): object {
  const { about, reason, type, message, annotations } = event;
  const regarding =
    about.kind === 'Pod'
      ? { namespace: about.namespace, name: about.name, uid: about.uid }
      : // As the kubelet's: `kubectl describe node` looks for events by this uid.
        { name: nodeName, uid: nodeName };
  const kept = Object.entries(annotations).slice(0, ANNOTATIONS_MAX);
  return {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: {
      name: event.name,
      namespace: namespaceOf(event),
      annotations: Object.fromEntries(kept.map(([key, value]) => [key, cut(value)])),
    },
    involvedObject: { apiVersion: 'v1', kind: about.kind, ...regarding },
    reason,
    type,
    message: cut(message),
    source: { component: AGENT, host: nodeName },
    reportingComponent: AGENT,
    reportingInstance: nodeName,
    action: reason,
    count: event.count,
    firstTimestamp: rfc3339(event.firstWallMs),
    lastTimestamp: rfc3339(event.lastWallMs),
  };
}

const cut = (text: string): string => text.slice(0, MESSAGE_MAX);
/** To the second, as metav1.Time. */
const rfc3339 = (wallMs: number): string => `${new Date(wallMs).toISOString().slice(0, 19)}Z`;
