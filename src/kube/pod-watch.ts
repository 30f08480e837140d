import type { PodUid } from '../core/pod/pod.ts';
import { known, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import { isObject, isText, parseJson } from '../core/shape.ts';
import { isUid } from '../document/pod.ts';
import { sleep } from '../host/clock.ts';
import type { Clock, Findings } from '../ports.ts';
import {
  PODS_ANNOTATED,
  PODS_NOT_LISTED,
  PODS_UNREADABLE,
  podsAnnotated,
  podsRefused,
  podsUnreadable,
  TOO_MANY_PODS,
  tooManyPods,
} from '../words/finding-api.ts';
import type { ApiPod } from './api-pod.ts';
import type { Connection } from './connection.ts';
import { messageOf } from './line-stream.ts';
import { createPodCache, readPod } from './pod-cache.ts';
import { listPods, podsPath } from './pod-list.ts';

type WatchNeeds = {
  readonly connection: Pick<Connection, 'get' | 'stream' | 'state' | 'onState'>;
  readonly clock: Clock;
  readonly nodeName: string;
  readonly protectNamespaces: readonly string[];
  readonly findings: Findings;
  /** The pods have changed; at most once per turn of the event loop. */
  readonly onChange: () => void;
  /** From an earlier run in this boot: used until the first list arrives (D15). */
  readonly kept?: { readonly pods: ReadonlyMap<PodUid, ApiPod>; readonly atMs: MonoMs } | null | undefined;
  /** A random number from 0 to below 1. */
  readonly chance?: () => number;
};
export type PodWatch = {
  /** By the kubelet's uid, including terminating and finished ones (D4). They stay while the API server is away. */
  readonly pods: () => Reading<ReadonlyMap<PodUid, ApiPod>>;
  /** The pods of an earlier run in this boot, used once the server is late. */
  readonly stoodIn: () => Reading<ReadonlyMap<PodUid, ApiPod>>;
  /** Whether changes arrive: a watch is open. */
  readonly isCurrent: () => boolean;
  /** When the pods last matched the server's: now while they are current; null: never. */
  readonly atMs: () => MonoMs | null;
  /** Whether the server has listed them: not the pods of an earlier run. */
  readonly hasListed: () => boolean;
  /** How many times all pods were listed. */
  readonly lists: () => number;
  /** Takes in an object that was requested by the name of the pod with this uid. */
  readonly learn: (object: unknown, uid: PodUid) => void;
  readonly close: () => void;
};

/** H14. An event is little more than its object. */
const MAX_EVENT_LENGTH = 4 * 1024 * 1024 + 1024;
const [LEAST_TIMEOUT_S, MOST_TIMEOUT_S] = [300, 600];
const GRACE_OF_TIMEOUT_MS = 30_000;
const RECONNECT = { firstMs: 250, mostMs: 15_000 };
const RELIST = { firstMs: 1_000, mostMs: 30_000 };
const HEALTHY_MS = 60_000;
/** A server that is up has listed the pods by then. */
const STAND_IN_MS = 1_000;
/** D2: how many times a stream with invalid events is reopened where it ended. */
const MAX_STRANGE = 3;
const [BAD_REQUEST, UNAUTHORIZED, FORBIDDEN, GONE, GATEWAY_TIMEOUT] = [400, 401, 403, 410, 504];

/** The pods of one node: a list, then a watch from there on (beside-a-kubelet.md D1, D2). It ends only by `close`. */
export function watchPods(needs: WatchNeeds): PodWatch {
  const { connection, clock, nodeName, findings, onChange, kept = null, chance = Math.random } = needs;
  const protectNamespaces = new Set(needs.protectNamespaces);
  const cache = createPodCache();
  const backOff = { reconnect: doubling(RECONNECT, chance), relist: doubling(RELIST, chance) };
  /** From the last list, event or bookmark; null: the next list takes any cached version. */
  let resourceVersion: string | null = null;
  /** The server cannot use the last resourceVersion: the next list asks for the most recent one. */
  let isNewestWanted = false;
  let isListDue = true;
  let isListing = false;
  let hasListed = false;
  let isKeptInForce = false;
  let lists = 0;
  let strange = 0;
  /** It waits for the server to come back. */
  let isWaiting = false;
  let isClosed = false;
  let stream: { readonly close: () => void } | null = null;
  let openedMs: MonoMs | null = null;
  let heardMs: MonoMs | null = null;
  let failure = 'the API server has not been queried yet';
  let cancelStep = (): void => undefined;
  let cancelTell: (() => void) | null = null;

  function later(ms: number): void {
    cancelStep();
    cancelStep = clock.after(ms, step);
  }

  function step(): void {
    if (isClosed || isListing) return;
    isWaiting = connection.state() === 'away';
    if (isWaiting) standIn();
    else if (isListDue) void list();
    else watch();
  }

  async function list(): Promise<void> {
    lists += 1;
    isListing = true;
    const from = isNewestWanted ? '' : (resourceVersion ?? '0');
    const reduce = (object: unknown) => readPod(object, protectNamespaces, nodeName);
    const listed = await listPods(connection.get, nodeName, from, reduce, () => sleep(clock, 0));
    isListing = false;
    if (isClosed) return;
    if (!listed.ok) {
      // The requested version is too old for the server, or newer than all it has because it was restored from a
      // backup.
      isNewestWanted = listed.status === GONE || listed.status === GATEWAY_TIMEOUT || listed.status === BAD_REQUEST;
      failure = listed.detail;
      if (listed.status !== null && listed.status !== GONE) findings.raise(podsRefused(listed.status, listed.detail));
      standIn();
      later(Math.max(backOff.relist.nextMs(), listed.retryAfterMs ?? 0));
      return;
    }
    findings.clear(PODS_NOT_LISTED);
    cache.replace(listed.pods);
    ({ resourceVersion } = listed);
    heardMs = clock.monoMs();
    hasListed = true;
    isListDue = false;
    isNewestWanted = false;
    strange = 0;
    tell();
    watch();
  }

  function watch(): void {
    const timeoutS = LEAST_TIMEOUT_S + Math.floor(chance() * (MOST_TIMEOUT_S - LEAST_TIMEOUT_S + 1));
    const path = podsPath(nodeName, {
      watch: 'true',
      allowWatchBookmarks: 'true',
      resourceVersion: resourceVersion ?? '',
      timeoutSeconds: String(timeoutS),
    });
    /** Why we close it ourselves. */
    let because: 'gone' | 'strange' | null = null;
    const leave = (why: 'gone' | 'strange', detail: string): void => {
      because = why;
      failure = detail;
      mine.close();
    };
    const opened = (): void => {
      openedMs = clock.monoMs();
      heardMs = openedMs;
      findings.clear(PODS_NOT_LISTED);
    };
    const mine = connection.stream(
      path,
      {
        opened,
        line: (text) => {
          heardMs = clock.monoMs();
          const event = readEvent(text);
          if (event.kind === 'refused') leave(event.isGone ? 'gone' : 'strange', event.detail);
          else if (event.kind === 'ignored') return;
          else if (!isBefore(event.resourceVersion, resourceVersion)) take(event);
          // The server was restored from a backup: later changes no longer exist.
          else leave('gone', 'the resource versions of the server have gone back');
        },
        ended: (why) => ended(because, why),
      },
      timeoutS * 1_000 + GRACE_OF_TIMEOUT_MS,
    );
    stream = mine;
  }

  function take(event: Extract<Event, { readonly kind: 'bookmark' | 'put' | 'remove' }>): void {
    strange = 0;
    ({ resourceVersion } = event);
    if (event.kind === 'bookmark') return;
    const read = readPod(event.object, protectNamespaces, nodeName);
    if (event.kind === 'put') cache.put(read);
    else cache.remove(read);
    tell();
  }

  function ended(
    because: 'gone' | 'strange' | null,
    {
      status,
      detail,
      retryAfterMs = 0,
    }: { readonly status: number | null; readonly detail: string; readonly retryAfterMs?: number },
  ): void {
    const nowMs = clock.monoMs();
    if (openedMs !== null) {
      // It is unknown how long the connection was dead before this was noticed.
      if (connection.state() !== 'away') heardMs = nowMs;
      if (nowMs - openedMs >= HEALTHY_MS) {
        backOff.reconnect.reset();
        backOff.relist.reset();
      }
    }
    stream = null;
    openedMs = null;
    if (isClosed) return;
    if (because === null) failure = detail;
    if (because === 'strange') strange += 1;
    if (status === UNAUTHORIZED || status === FORBIDDEN) findings.raise(podsRefused(status, detail));
    const isTooNew = status === GATEWAY_TIMEOUT;
    isListDue ||= because === 'gone' || status === GONE || status === BAD_REQUEST || isTooNew || strange > MAX_STRANGE;
    isNewestWanted ||= isTooNew;
    later(Math.max(retryAfterMs, isListDue ? backOff.relist.nextMs() : backOff.reconnect.nextMs()));
  }

  /** Until there is a list, the pods of an earlier run are better than none. */
  function standIn(): void {
    cancelStandIn();
    if (isKeptInForce || kept === null) return;
    isKeptInForce = true;
    tell();
  }
  const cancelStandIn = kept === null ? () => undefined : clock.after(STAND_IN_MS, standIn);

  function stoodIn(): Reading<ReadonlyMap<PodUid, ApiPod>> {
    if (isKeptInForce && kept !== null) return known(kept.pods);
    return unknown('not-asked', `the pods of node ${nodeName}`, failure);
  }

  function tell(): void {
    cancelTell ??= clock.after(0, () => {
      cancelTell = null;
      const unreadable = cache.unreadable();
      if (unreadable.length > 0) findings.raise(podsUnreadable(unreadable));
      else findings.clear(PODS_UNREADABLE);
      const annotated = cache.annotated();
      if (annotated.length > 0) findings.raise(podsAnnotated(annotated, needs.protectNamespaces));
      else findings.clear(PODS_ANNOTATED);
      if (cache.leftOut() > 0) findings.raise(tooManyPods(cache.leftOut()));
      else findings.clear(TOO_MANY_PODS);
      onChange();
    });
  }

  connection.onState((state) => {
    if (isClosed) return;
    if (state === 'away') {
      // C7: after an outage, list first.
      isListDue = true;
      standIn();
    } else if (state === 'up' && isWaiting) later(backOff.relist.nextMs());
  });
  later(0);

  return {
    pods: () => (hasListed ? known(cache.pods()) : stoodIn()),
    stoodIn,
    isCurrent: () => openedMs !== null,
    learn: (object, uid) => {
      const read = readPod(object, protectNamespaces, nodeName);
      if (isClosed || !hasListed || read.uid !== uid || read.isElsewhere) return;
      cache.put(read);
      tell();
    },
    atMs: () => (openedMs !== null ? clock.monoMs() : hasListed || kept === null ? heardMs : kept.atMs),
    hasListed: () => hasListed,
    lists: () => lists,
    close: () => {
      isClosed = true;
      cancelStep();
      cancelStandIn();
      cancelTell?.();
      stream?.close();
    },
  };
}

/** Versions are numbers of up to 64 bits, if they are numbers at all. */
function isBefore(version: string, last: string | null): boolean {
  if (last === null || !/^\d{1,20}$/.test(version) || !/^\d{1,20}$/.test(last)) return false;
  return BigInt(version) < BigInt(last);
}

type Event =
  | { readonly kind: 'ignored' }
  | { readonly kind: 'bookmark'; readonly resourceVersion: string }
  | { readonly kind: 'put' | 'remove'; readonly resourceVersion: string; readonly object: unknown }
  | { readonly kind: 'refused'; readonly isGone: boolean; readonly detail: string };

function readEvent(text: string): Event {
  if (text === '') return { kind: 'ignored' };
  if (text.length > MAX_EVENT_LENGTH) return refused('an object larger than 4 MiB');
  const event = parseJson(text);
  if (!isObject(event) || !isText(event['type'])) return refused('a line that is no event');
  const { type, object } = event;
  if (type === 'ERROR') {
    const code = isObject(object) ? object['code'] : null;
    return { kind: 'refused', isGone: code === GONE, detail: messageOf(object) };
  }
  const kind = KINDS.get(type);
  if (kind === undefined) return { kind: 'ignored' };
  const metadata = isObject(object) && isObject(object['metadata']) ? object['metadata'] : {};
  const { resourceVersion } = metadata;
  // Without it, the watch could not be resumed.
  if (!isText(resourceVersion) || resourceVersion === '') return refused('an event without a resourceVersion');
  if (kind === 'remove' && !isUid(metadata['uid'])) return refused('a deleted object without a uid');
  return { kind, resourceVersion, object };
}
const KINDS = new Map<unknown, 'bookmark' | 'put' | 'remove'>([
  ['BOOKMARK', 'bookmark'],
  ['ADDED', 'put'],
  ['MODIFIED', 'put'],
  ['DELETED', 'remove'],
]);
const refused = (detail: string): Event => ({ kind: 'refused', isGone: false, detail });

/** Each pause varies randomly by half in both directions, so that many agents do not reconnect at one instant. */
function doubling({ firstMs, mostMs }: { readonly firstMs: number; readonly mostMs: number }, chance: () => number) {
  let ms = firstMs;
  return {
    nextMs: (): number => {
      const next = ms * (0.5 + chance());
      ms = Math.min(mostMs, ms * 2);
      return next;
    },
    reset: (): void => {
      ms = firstMs;
    },
  };
}
