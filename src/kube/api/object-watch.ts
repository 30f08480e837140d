import type { MonoMs } from '../../core/reading.ts';
import { isObject, isText, parseJson, partOf } from '../../core/shape.ts';
import { isUid } from '../../document/pod.ts';
import { sleep } from '../../host/clock.ts';
import type { Clock } from '../../ports.ts';
import type { Connection } from './connection.ts';
import { messageOf } from './line-stream.ts';
import { listObjects, type PathOf } from './object-list.ts';

export type WatchConnection = Pick<Connection, 'get' | 'stream' | 'state' | 'onState'>;
type WatchNeeds<T> = {
  readonly connection: WatchConnection;
  readonly clock: Clock;
  readonly path: PathOf;
  /** `cached`: the first list takes what the server has at hand; `newest`: every list is of the present. */
  readonly from: 'cached' | 'newest';
  /** Of one page. */
  readonly listDeadlineMs: number;
  /** Runs for each object of the server at once; only its result is kept. */
  readonly reduce: (object: unknown) => T;
  /** All that there is: what is not among them is gone. */
  readonly replace: (all: readonly T[]) => void;
  readonly put: (one: T) => void;
  readonly remove: (one: T) => void;
  /** The server does not let it be read; 401 and 403, or any other status of a list but 410. */
  readonly refused: (status: number, detail: string) => void;
  /** It was listed, or a watch was opened. */
  readonly answered: () => void;
  /** It could not be listed, or the server is away. */
  readonly late: () => void;
  /** A watch that brings neither event nor bookmark for so long is cut, and all is listed anew; absent: it is waited for. */
  readonly silenceMs?: number;
  /** A random number from 0 to below 1. */
  readonly chance?: () => number;
};
export type ObjectWatch = {
  /** Whether changes arrive: a watch is open. */
  readonly isOpen: () => boolean;
  /** When what is kept last matched the server's, as far as it was heard: now while a watch is open; null: never. */
  readonly atMs: () => MonoMs | null;
  /** When the server last said anything of them: a list, an event, a bookmark, or the opening of a watch; null: never. */
  readonly heardMs: () => MonoMs | null;
  /** When the last answered list was *sent*; null: none was answered. */
  readonly listedMs: () => MonoMs | null;
  /** How many times all objects were listed. */
  readonly lists: () => number;
  /** Why the last list or watch ended. */
  readonly failure: () => string;
  /** Lists the present anew, though a watch is open. */
  readonly relist: () => void;
  readonly close: () => void;
};

/** H14. An event is little more than its object. */
const MAX_EVENT_LENGTH = 4 * 1024 * 1024 + 1024;
const [LEAST_TIMEOUT_S, MOST_TIMEOUT_S] = [300, 600];
const GRACE_OF_TIMEOUT_MS = 30_000;
const RECONNECT = { firstMs: 250, mostMs: 15_000 };
const RELIST = { firstMs: 1_000, mostMs: 30_000 };
const HEALTHY_MS = 60_000;
/** D2: how many times a stream with invalid events is reopened where it ended. */
const MAX_STRANGE = 3;
const [BAD_REQUEST, UNAUTHORIZED, FORBIDDEN, GONE, GATEWAY_TIMEOUT] = [400, 401, 403, 410, 504];

/** The objects of a path: a list, then a watch from there on (beside-a-kubelet.md D1, D2). It ends only by `close`. */
export function watchObjects<T>(needs: WatchNeeds<T>): ObjectWatch {
  const { connection, clock, chance = Math.random } = needs;
  const backOff = { reconnect: doubling(RECONNECT, chance), relist: doubling(RELIST, chance) };
  /** From the last list, event or bookmark; null: the next list takes any cached version. */
  let resourceVersion: string | null = null;
  /** The next list asks for the most recent version: the server cannot use the last one, or somebody wants to know. */
  let isNewestWanted = false;
  let isListDue = true;
  let isListing = false;
  /** It was asked for during a list, which may have been answered before. */
  let isWantedAnew = false;
  let listedMs: MonoMs | null = null;
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

  function later(ms: number): void {
    cancelStep();
    cancelStep = clock.after(ms, step);
  }

  function step(): void {
    if (isClosed || isListing) return;
    isWaiting = connection.state() === 'away';
    if (isWaiting) needs.late();
    else if (isListDue) void list();
    else watch();
  }

  async function list(): Promise<void> {
    lists += 1;
    isListing = true;
    isWantedAnew = false;
    const sentMs = clock.monoMs();
    const from = isNewestWanted || needs.from === 'newest' ? '' : (resourceVersion ?? '0');
    const { get } = connection;
    const listed = await listObjects(get, needs.path, from, needs.listDeadlineMs, needs.reduce, () => sleep(clock, 0));
    isListing = false;
    if (isClosed) return;
    if (!listed.ok) {
      // The requested version is too old for the server, or newer than all it has because it was restored from a
      // backup.
      const isUnusable = listed.status === GONE || listed.status === GATEWAY_TIMEOUT || listed.status === BAD_REQUEST;
      isNewestWanted = isUnusable || isWantedAnew;
      failure = listed.detail;
      if (listed.status !== null && listed.status !== GONE) needs.refused(listed.status, listed.detail);
      needs.late();
      later(Math.max(backOff.relist.nextMs(), listed.retryAfterMs ?? 0));
      return;
    }
    needs.answered();
    ({ resourceVersion } = listed);
    heardMs = clock.monoMs();
    listedMs = sentMs;
    isListDue = isWantedAnew;
    isNewestWanted = isWantedAnew;
    strange = 0;
    needs.replace(listed.objects);
    if (isListDue) later(0);
    else watch();
  }

  function watch(): void {
    const timeoutS = LEAST_TIMEOUT_S + Math.floor(chance() * (MOST_TIMEOUT_S - LEAST_TIMEOUT_S + 1));
    const path = needs.path({
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
      needs.answered();
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
      needs.silenceMs ?? timeoutS * 1_000 + GRACE_OF_TIMEOUT_MS,
    );
    stream = mine;
  }

  function take(event: Extract<Event, { readonly kind: 'bookmark' | 'put' | 'remove' }>): void {
    strange = 0;
    ({ resourceVersion } = event);
    if (event.kind === 'bookmark') return;
    const one = needs.reduce(event.object);
    if (event.kind === 'put') needs.put(one);
    else needs.remove(one);
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
    const isSilent =
      openedMs !== null && nowMs - (heardMs ?? openedMs) >= (needs.silenceMs ?? Number.POSITIVE_INFINITY);
    if (openedMs !== null) {
      // It is unknown how long the connection was dead before this was noticed.
      if (connection.state() !== 'away' && !isSilent) heardMs = nowMs;
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
    if (status === UNAUTHORIZED || status === FORBIDDEN) needs.refused(status, detail);
    const isTooNew = status === GATEWAY_TIMEOUT;
    isListDue ||= because === 'gone' || status === GONE || status === BAD_REQUEST || isTooNew || strange > MAX_STRANGE;
    isNewestWanted ||= isTooNew;
    // Whoever goes on from its last version may be told as little.
    if (isSilent) {
      isListDue = true;
      isNewestWanted = true;
    }
    if (isWantedAnew || isSilent) later(0);
    else later(Math.max(retryAfterMs, isListDue ? backOff.relist.nextMs() : backOff.reconnect.nextMs()));
  }

  connection.onState((state) => {
    if (isClosed) return;
    if (state === 'away') {
      // C7: after an outage, list first.
      isListDue = true;
      needs.late();
    } else if (state === 'up' && isWaiting) later(backOff.relist.nextMs());
  });
  later(0);

  return {
    isOpen: () => openedMs !== null,
    atMs: () => (openedMs !== null ? clock.monoMs() : heardMs),
    heardMs: () => heardMs,
    listedMs: () => listedMs,
    lists: () => lists,
    failure: () => failure,
    relist: () => {
      isListDue = true;
      isNewestWanted = true;
      isWantedAnew = true;
      if (stream === null) later(0);
      else stream.close();
    },
    close: () => {
      isClosed = true;
      cancelStep();
      stream?.close();
    },
  };
}

/** Versions are numbers of up to 64 bits, if they are numbers at all. */
export function isBefore(version: string, last: string | null): boolean {
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
  const metadata = partOf(object, 'metadata');
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
