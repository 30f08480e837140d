import { createServer, isIPv6, type Server, type Socket } from 'node:net';
import { known, type MonoMs, type Reading, sayCause, unknown } from '../core/reading.ts';
import { sleep, within } from '../host/clock.ts';
import { readBesideProgram } from '../host/own/own-program.ts';
import type { Clock } from '../ports.ts';

/** `body`: text as UTF-8. `policy`: its Content-Security-Policy; absent: it may load and run nothing. */
export type HttpAnswer = {
  readonly status: number;
  readonly type: string;
  readonly body: string | Buffer;
  readonly policy?: string;
};
/** Answers GET and HEAD of exactly this path. A route that throws, or takes longer than 5 s, results in 500. */
export type Route = {
  readonly path: string;
  readonly answer: (query: URLSearchParams) => HttpAnswer | Promise<HttpAnswer>;
};
export type HttpNeeds = {
  readonly clock: Clock;
  readonly host: string;
  readonly port: number;
  /** Further host names that requests may name. */
  readonly hosts: readonly string[];
  readonly routes: readonly Route[];
};
export type OpenHttp = { readonly close: () => Promise<void> };

/** The limit of a request up to its empty line. */
const HEAD_BYTES = 8 * 1024;
/** How much after that is read and dropped, so that the answer is not lost. */
const REST_BYTES = 64 * 1024;
/** The limit from the first byte of a request to the last of its answer. */
const CLIENT_MS = 10_000;
const ANSWER_MS = 5_000;
const CLIENTS_MAX = 32;
/** The time between answers: clients that ask without pause take little processor time from evictions. */
const APART_MS = 10;
/** How many connections the kernel queues until they are accepted. */
const BACKLOG = 32;

/**
 * The headers of every answer. A page of another site can make a browser send requests to this port, but it may neither read
 * the answer, nor run it, nor show it in a frame.
 */
const HEADERS = [
  'X-Content-Type-Options: nosniff',
  'Referrer-Policy: no-referrer',
  'Cross-Origin-Resource-Policy: same-origin',
  'Cross-Origin-Opener-Policy: same-origin',
  'Cache-Control: no-store',
  'Connection: close',
];
const NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const STATUSES: { readonly [status: number]: string } = {
  200: 'OK',
  400: 'Bad Request',
  404: 'Not Found',
  405: 'Method Not Allowed',
  421: 'Misdirected Request',
  431: 'Request Header Fields Too Large',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
};

/**
 * Listens and answers one request per connection, until `close`. Unknown: the system's reason why it does not listen. Not
 * with node:http, which answers all requests in one packet in one turn: 2,400 small requests block the loop for 40 ms and
 * more, and an eviction with it.
 */
export async function serveHttp(needs: HttpNeeds): Promise<Reading<OpenHttp>> {
  const served = { ...needs, names: namesOf(needs), turn: createTurns(needs.clock) };
  const clients = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    // The oldest connection is dropped, so a client that holds many connections keeps nobody out.
    const [first] = clients.size < CLIENTS_MAX ? [] : clients;
    first?.destroy();
    clients.add(socket);
    socket.on('close', () => clients.delete(socket));
    serveClient(socket, served);
  });
  const listening = await listen(server, needs);
  if (!listening.known) return listening;
  return known({
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of clients) socket.destroy();
      }),
  });
}

function listen(server: Server, { host, port }: HttpNeeds): Promise<Reading<true>> {
  return new Promise((resolve) => {
    server.on('error', (error) => resolve(unknown('unreadable', `${bracketed(host)}:${port}`, sayCause(error))));
    server.listen({ host, port, backlog: BACKLOG }, () => resolve(known(true)));
  });
}

/** Resolves when the next answer may be sent. */
function createTurns(clock: Clock): () => Promise<void> {
  let freeMs = Number.NEGATIVE_INFINITY;
  return () => {
    const nowMs = clock.monoMs();
    const waitMs = Math.max(0, freeMs - nowMs);
    freeMs = nowMs + waitMs + APART_MS;
    return sleep(clock, waitMs);
  };
}

const bracketed = (address: string): string => (isIPv6(address) ? `[${address}]` : address);
const lower = (text: string): string => text.toLowerCase();

/**
 * The host names that a request may name. A site can make its name resolve to 127.0.0.1 so that its pages read what is served
 * here (DNS rebinding), but the browser still sends that site's name.
 */
function namesOf({ host, hosts }: HttpNeeds): ReadonlySet<string> {
  return new Set(['localhost', '127.0.0.1', '[::1]', bracketed(host), ...hosts].map(lower));
}

/** If it listens on every address, the address that the client connected to is accepted, too: it is not a name. */
function isNamed(host: string, names: ReadonlySet<string>, localAddress: string): boolean {
  const name = lower(host.replace(/:\d{1,5}$/, ''));
  return names.has(name) || names.has(lower(host)) || name === bracketed(localAddress.replace(/^::ffff:(?=\d+\.)/, ''));
}

type Served = HttpNeeds & { readonly names: ReadonlySet<string>; readonly turn: () => Promise<void> };

function serveClient(socket: Socket, served: Served): void {
  const cancel = served.clock.after(CLIENT_MS, () => socket.destroy());
  socket.on('close', cancel);
  socket.on('error', () => socket.destroy());
  let isHeard = false;
  let received = '';
  let restBytes = 0;
  socket.on('end', () => (isHeard ? undefined : socket.destroy()));
  socket.on('data', (chunk) => {
    if (isHeard) {
      restBytes += chunk.length;
      if (restBytes > REST_BYTES) socket.destroy();
      return;
    }
    received += chunk.subarray(0, HEAD_BYTES + 1).toString('latin1');
    const end = received.indexOf('\r\n\r\n');
    if (end < 0 && received.length <= HEAD_BYTES) return;
    isHeard = true;
    const request = end < 0 || end > HEAD_BYTES ? 'too-large' : parseHead(received.slice(0, end));
    received = '';
    void served.turn().then(async () => {
      if (socket.destroyed) return;
      const answer = await answerTo(request, served, socket.localAddress ?? '');
      if (!socket.destroyed) socket.end(sayAnswer(answer, request));
    });
  });
}

type Request = { readonly method: string; readonly target: string; readonly host: string };

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const FIRST_LINE = new RegExp(`^(${TOKEN}) ([!-~]+) HTTP/1\\.[01]$`);
const HEADER = new RegExp(`^(${TOKEN}):[ \\t]*([\\t -~\\x80-\\xff]*)$`);

/** RFC 9112; null: it is not a request, or it names no host or several. */
function parseHead(head: string): Request | null {
  const [first = '', ...lines] = head.split('\r\n');
  const [, method, target] = FIRST_LINE.exec(first) ?? [];
  const headers = lines.map((line) => HEADER.exec(line));
  const hosts = headers.filter((header) => lower(header?.[1] ?? '') === 'host');
  const host = hosts[0]?.[2]?.trim();
  if (method === undefined || target === undefined || host === undefined) return null;
  return headers.includes(null) || hosts.length > 1 ? null : { method, target, host };
}

async function answerTo(
  request: Request | 'too-large' | null,
  { clock, routes, names }: Served,
  localAddress: string,
): Promise<HttpAnswer> {
  if (request === 'too-large') return text(431, `a request may have at most ${HEAD_BYTES / 1024} KiB`);
  if (request === null) return text(400, 'this is not an HTTP/1.1 request');
  const { method, target, host } = request;
  if (method !== 'GET' && method !== 'HEAD') return text(405, 'only GET and HEAD are allowed');
  if (!isNamed(host, names, localAddress)) {
    return text(421, 'the Host of this request is not a name of this server: add it to http.hosts, or use the address');
  }
  const [path = '', ...query] = target.split('?');
  const route = routes.find((one) => one.path === path);
  if (route === undefined) return text(404, `not found; available: ${routes.map((one) => one.path).join(', ')}`);
  try {
    const asked = Promise.resolve(route.answer(new URLSearchParams(query.join('?'))));
    return await within(clock, ANSWER_MS, asked, () => text(500, `no answer within ${ANSWER_MS / 1_000} s`));
  } catch (error) {
    return text(500, sayCause(error));
  }
}

function sayAnswer(
  { status, type, body, policy = NOTHING }: HttpAnswer,
  request: Request | 'too-large' | null,
): Buffer {
  const content = Buffer.from(body);
  const head = [
    `HTTP/1.1 ${status} ${STATUSES[status] ?? ''}`,
    `Content-Type: ${type}`,
    `Content-Length: ${content.length}`,
    ...(status === 405 ? ['Allow: GET, HEAD'] : []),
    `Content-Security-Policy: ${policy}`,
    ...HEADERS,
  ];
  const isHead = request !== null && request !== 'too-large' && request.method === 'HEAD';
  return Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), ...(isHead ? [] : [content])]);
}

/** One line for a person or a script. */
export function text(status: number, line: string): HttpAnswer {
  return { status, type: 'text/plain; charset=utf-8', body: `${line}\n` };
}

/** One answer for all who ask within `ms`: a flood of requests costs no more than one reader. */
export function shared<T>(clock: Clock, ms: number, make: () => Promise<T>): () => Promise<T> {
  let madeMs: MonoMs = Number.NEGATIVE_INFINITY;
  let made: Promise<T> | null = null;
  return () => {
    if (made === null || clock.monoMs() - madeMs >= ms) {
      madeMs = clock.monoMs();
      made = make();
    }
    return made;
  };
}

const PAGE_BYTES = 1024 * 1024;

/**
 * A page beside the program. It declares which of its scripts may run; its policy is also in the header, where it can keep
 * the page out of frames.
 */
export const pageFile = (name: string) => (): HttpAnswer => {
  const read = readBesideProgram(name, PAGE_BYTES);
  if (!read.known) return text(503, `the page cannot be read: ${read.where}: ${read.detail}`);
  const [, policy = ''] = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(read.value) ?? [];
  return {
    status: 200,
    type: 'text/html; charset=utf-8',
    body: read.value,
    policy: `${policy}; frame-ancestors 'none'`,
  };
};

/** What a page asks for. */
export const json = (status: number, body: string): HttpAnswer => ({
  status,
  type: 'application/json; charset=utf-8',
  body,
});
export const failed = (error: string): HttpAnswer => json(503, JSON.stringify({ error }));
