import { createServer, type Server, type Socket } from 'node:net';
import { known, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import { isNumber, isObject, isText, parseJson } from '../core/shape.ts';
import { bindingPath, placeSocket, sayListenError } from '../host/own/socket-file.ts';
import type { Clock } from '../ports.ts';
import { askDaemon, type Request } from './ask.ts';

export type SocketNeeds = {
  readonly clock: Clock;
  readonly path: string;
  /** Group of the socket; null: the group the daemon runs as. */
  readonly groupId: number | null;
  /** Plain JSON; null: nothing observed yet. A watcher gets a new answer every second. */
  readonly answer: () => unknown;
  /** The next look as JSON text, or so much of what was seen before; absent: it gives none. */
  readonly observe?: (forMs: number | null) => Promise<string>;
  /** Of a node, plain JSON; null: there is none of that name. Absent: it explains none. */
  readonly explain?: (node: string) => unknown;
};
export type OpenSocket = {
  /** False: it was removed or replaced. */
  readonly isThere: () => boolean;
  readonly close: () => Promise<void>;
};

/** beside-a-kubelet.md H17. */
const REQUEST_BYTES = 64 * 1024;
const REQUEST_MS = 5_000;
const CLIENTS_MAX = 16;
/** A client sends its request at once. */
const SILENT_MS = 1_000;
/** A listener that does not answer within this time is replaced: a running agent also holds a lock. */
const THERE_MS = 1_000;
/** A reader that leaves this much unread, or anything for 5 s, is disconnected. */
const UNREAD_BYTES = 4 * 1024 * 1024;
const UNREAD_MS = 5_000;
const WATCH_MS = 1_000;
/** Clients that wait for a look or read one: each look may take several MiB. */
const OBSERVERS_MAX = 4;
/** Far more than thousands of pods need; less than a client accepts (ask.ts). */
const OBSERVED_CHARS = 32 * 1024 * 1024;
/** Below the client's own deadline, so that it gets the reason. */
const OBSERVE_MS = 4_000;
/** rw-rw----: owner and group. */
const UMASK = 0o117;

/**
 * Listens on a unix socket: a client sends one line of JSON, `{"ask":"status"}`, `{"ask":"watch"}` or
 * `{"ask":"observe"}`, and gets lines of JSON, `{"answer":…}` or `{"error":"…"}`. Unknown: why there is no socket;
 * the agent runs without one.
 */
export async function serveSocket(needs: SocketNeeds): Promise<Reading<OpenSocket>> {
  const { clock, path } = needs;
  const there = await askDaemon(path, { ask: 'status' }, clock, { answerMs: THERE_MS });
  if (there.kind === 'answer') return unknown('unreadable', path, 'another nodewarden answers there');
  const clients: Clients = new Map();
  const observers = new Set<Socket>();
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy());
    socket.on('close', () => clients.delete(socket));
    makeRoom(clients, clock);
    const sinceMs = clock.monoMs();
    clients.set(socket, { sinceMs, state: 'silent' });
    serveClient(socket, needs, observers, (state) => {
      if (clients.has(socket)) clients.set(socket, { sinceMs, state });
    });
  });
  const binding = bindingPath(path);
  const listening = await listen(server, binding);
  if (!listening.known) return { ...listening, where: path };
  const placed = placeSocket(binding, path, needs.groupId);
  const close = (): Promise<void> =>
    new Promise((resolve) => {
      if (placed.known) placed.value.remove();
      server.close(() => resolve());
      for (const socket of clients.keys()) socket.destroy();
    });
  if (placed.known) return known({ isThere: placed.value.isThere, close });
  await close();
  return placed;
}

/** In the order of their connections. */
type Clients = Map<Socket, Client>;
/** `silent`: has not asked yet. */
type ClientState = 'silent' | 'watching' | 'answered';
type Client = { readonly sinceMs: MonoMs; readonly state: ClientState };

/**
 * A client that asks gets an answer however many are connected: the oldest idle one is dropped, else the oldest watcher.
 */
function makeRoom(clients: Clients, clock: Clock): void {
  if (clients.size < CLIENTS_MAX) return;
  const all = [...clients];
  const first = (is: (client: Client) => boolean): Socket | undefined => all.find(([, client]) => is(client))?.[0];
  const askedByMs = clock.monoMs() - SILENT_MS;
  const goes =
    first(({ state, sinceMs }) => state === 'silent' && sinceMs < askedByMs) ??
    first(({ state }) => state === 'watching') ??
    all[0]?.[0];
  if (goes === undefined) return;
  clients.delete(goes);
  // Not awaited: clients that never read would otherwise pile up, one for each new client.
  if (goes.writableLength > 0) goes.destroy();
  else goes.end(say({ error: `more than ${CLIENTS_MAX} clients: the newest are served` }), () => goes.destroy());
}

/** Created with its final mode. */
function listen(server: Server, path: string): Promise<Reading<true>> {
  return new Promise((resolve) => {
    server.on('error', (error) => resolve(unknown('unreadable', path, sayListenError(error, path))));
    const umask = process.umask(UMASK);
    try {
      // Binds within the call.
      server.listen(path, () => resolve(known(true)));
    } finally {
      process.umask(umask);
    }
  });
}

function serveClient(
  socket: Socket,
  needs: SocketNeeds,
  observers: Set<Socket>,
  became: (state: ClientState) => void,
): void {
  const { clock } = needs;
  const cancel = clock.after(REQUEST_MS, () => finish(socket, clock, say({ error: 'no request within 5 s' })));
  socket.on('close', cancel);
  let received = '';
  socket.setEncoding('utf8');
  const hear = (chunk: string): void => {
    received += chunk;
    const end = received.indexOf('\n');
    if (end < 0 && received.length <= REQUEST_BYTES) return;
    socket.off('data', hear);
    // Further input is read and discarded, so that the client's disconnect is noticed.
    socket.resume();
    cancel();
    const request = end < 0 || end > REQUEST_BYTES ? null : parseRequest(received.slice(0, end));
    const { observe: look, explain } = needs;
    received = '';
    became(request?.ask === 'watch' ? 'watching' : 'answered');
    if (request?.ask === 'status') finish(socket, clock, say(answerOf(needs)));
    else if (request?.ask === 'watch') watch(socket, needs);
    else if (request?.ask === 'observe' && look !== undefined)
      observe(socket, clock, () => look(request.forMs ?? null), observers);
    else if (request?.ask === 'explain' && explain !== undefined) {
      finish(socket, clock, say({ answer: explain(request.node) }));
    } else finish(socket, clock, say({ error: requestsOf(needs) }));
  };
  socket.on('data', hear);
}

/** What a request looks like, for whoever sent garbage. */
function requestsOf({ observe: look, explain }: SocketNeeds): string {
  const all = [
    ...['{"ask":"status"}', '{"ask":"watch"}'],
    ...(look === undefined ? [] : ['{"ask":"observe"}']),
    ...(explain === undefined ? [] : ['{"ask":"explain","node":"NAME"}']),
  ];
  return `a request is one line: ${all.slice(0, -1).join(', ')} or ${all.at(-1)}`;
}

/** Null for garbage. */
function parseRequest(line: string): Request | null {
  const json = parseJson(line);
  const { ask, node, forMs } = isObject(json) ? json : {};
  if (ask === 'status' || ask === 'watch') return { ask };
  if (ask === 'observe') return isNumber(forMs) && forMs >= 0 ? { ask, forMs } : { ask };
  return ask === 'explain' && isText(node) ? { ask, node } : null;
}

function watch(socket: Socket, needs: SocketNeeds): void {
  const { clock } = needs;
  let unreadSinceMs: number | null = null;
  const tick = (): void => {
    if (socket.destroyed || socket.writableEnded) return;
    const now = clock.monoMs();
    unreadSinceMs = socket.writableLength === 0 ? null : (unreadSinceMs ?? now);
    const isSlow = unreadSinceMs !== null && now - unreadSinceMs >= UNREAD_MS;
    if (isSlow || socket.writableLength > UNREAD_BYTES) {
      socket.destroy();
      return;
    }
    if (unreadSinceMs === null) socket.write(say(answerOf(needs)));
    const cancel = clock.after(WATCH_MS, () => {
      socket.off('close', cancel);
      tick();
    });
    socket.once('close', cancel);
  };
  tick();
}

/** Sends one look, to a few clients at a time. */
function observe(socket: Socket, clock: Clock, look: () => Promise<string>, observers: Set<Socket>): void {
  if (observers.size >= OBSERVERS_MAX) {
    finish(socket, clock, say({ error: `${OBSERVERS_MAX} clients already wait for a sample: retry in a moment` }));
    return;
  }
  observers.add(socket);
  socket.on('close', () => observers.delete(socket));
  let isOver = false;
  const end = (line: string): void => {
    if (isOver || socket.destroyed) return;
    isOver = true;
    cancel();
    finish(socket, clock, line);
  };
  const cancel = clock.after(OBSERVE_MS, () => end(say({ error: `no sample within ${OBSERVE_MS / 1_000} s` })));
  socket.on('close', cancel);
  void look().then((text) => {
    const isTooLarge = text.length > OBSERVED_CHARS;
    end(isTooLarge ? say({ error: 'the sample is larger than 32 MiB: too large to send' }) : `{"answer":${text}}\n`);
  });
}

type Line = { readonly answer: unknown } | { readonly error: string };

function answerOf(needs: SocketNeeds): Line {
  const answer = needs.answer();
  return answer === null ? { error: 'no sample was taken yet: retry in a moment' } : { answer };
}

function say(line: Line): string {
  return `${JSON.stringify(line)}\n`;
}

/** The last line; a client that does not take it within 5 s is disconnected. */
function finish(socket: Socket, clock: Clock, line: string): void {
  const cancel = clock.after(UNREAD_MS, () => socket.destroy());
  socket.on('close', cancel);
  // A disconnect is noticed only while reading.
  socket.resume();
  socket.end(line);
}
