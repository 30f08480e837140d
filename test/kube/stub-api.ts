import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import type { Authority } from './certificates.ts';
import { createPodStore, type Json, NODE, type PodStore, status } from './pod-store.ts';

/** What one request gets in place of its answer. */
export type Fault =
  | { readonly kind: 'hang' | 'reset' | 'garbage' | 'cut-body' | 'slow' }
  | { readonly kind: 'huge'; readonly bytes: number }
  | { readonly kind: 'status'; readonly status: number; readonly headers?: Json; readonly body?: Json };
export type Heard = {
  readonly method: string;
  readonly path: string;
  readonly user: string;
  readonly body: Json | null;
};
export type StubApi = {
  readonly url: string;
  readonly store: PodStore;
  /** All requests, in their order. */
  readonly heard: Heard[];
  /** The next `times` requests whose path matches get the fault. */
  readonly fault: (path: RegExp, fault: Fault, times?: number) => void;
  readonly node: Json;
  readonly resources: Json[];
  /** Who is let in by a token. */
  readonly tokens: Set<string>;
  /** Text on every open watch, as it is. */
  readonly sayRaw: (text: string) => void;
  /** Every connection, from the server's side. */
  readonly sockets: () => number;
  /** Breaks every connection. */
  readonly breakAll: () => void;
  /** Nobody listens any more; `listen` does again, on the same port. */
  readonly stop: () => Promise<void>;
  readonly listen: () => Promise<void>;
};
export const BOOT_ID = '11111111-2222-4333-8444-555555555555';

/** `lost`: it was done, and the connection breaks before the answer. */
export type Acted =
  | { status: number; body: Json }
  /** An endless answer; the returned function is called at its end. */
  | { watch: (emit: (event: Json) => void) => () => void }
  | 'lost'
  | null;

/** An API server over TLS with client certificates: /version, /api/v1, the own node, and pods by list and watch. */
export async function startStubApi(authority: Authority, act?: (request: Heard) => Acted) {
  const store = createPodStore();
  const heard: Heard[] = [];
  const faults: { readonly path: RegExp; readonly fault: Fault; times: number }[] = [];
  const sockets = new Set<Duplex>();
  const streams = new Set<ServerResponse>();
  const tokens = new Set<string>();
  const node: Json = {
    kind: 'Node',
    metadata: { name: NODE, uid: '00000000-0000-4000-8000-00000000feed', resourceVersion: '7' },
    status: { nodeInfo: { bootID: BOOT_ID } },
  };
  const resources: Json[] = [
    { name: 'pods', kind: 'Pod' },
    { name: 'pods/eviction', kind: 'Eviction', group: 'policy', version: 'v1' },
  ];

  const server = createServer(
    {
      key: authority.read('server.key'),
      cert: authority.read('server.crt'),
      ca: authority.read('ca.crt'),
      requestCert: true,
      // As the real one: who has no certificate that counts is told 401.
      rejectUnauthorized: false,
    },
    (request, response) => void serve(request, response),
  );
  server.keepAliveTimeout = 90_000;
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
  });

  function reply(response: ServerResponse, code: number, body: Json, headers: Json = {}): void {
    response.writeHead(code, { 'content-type': 'application/json', ...(headers as { [name: string]: string }) });
    response.end(JSON.stringify(body));
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString();
    const { method = 'GET', url = '/' } = request;
    const user = userOf(request);
    const one: Heard = { method, path: url, user: user ?? '', body: text === '' ? null : JSON.parse(text) };
    heard.push(one);
    const due = faults.find(({ path, times }) => times > 0 && path.test(url));
    if (due !== undefined) {
      due.times -= 1;
      play(due.fault, request, response);
      return;
    }
    if (user === null) return reply(response, 401, status(401, 'Unauthorized'));
    const acted = act?.(one) ?? null;
    if (acted === 'lost') return void request.socket.destroy();
    if (acted !== null && 'watch' in acted) return stream(response, acted.watch);
    if (acted !== null) return reply(response, acted.status, acted.body);
    const { pathname, searchParams } = new URL(url, 'https://stub');
    if (pathname === '/version') return reply(response, 200, { major: '1', minor: '36' });
    if (pathname === '/api/v1') return reply(response, 200, { kind: 'APIResourceList', resources });
    if (pathname === `/api/v1/nodes/${NODE}`) return reply(response, 200, node);
    const [, namespace, name] = /^\/api\/v1\/namespaces\/([^/]+)\/pods\/([^/]+)$/.exec(pathname) ?? [];
    if (namespace !== undefined && name !== undefined) {
      const pod = store.get(namespace, name);
      return reply(response, pod.status, pod.body);
    }
    if (pathname !== '/api/v1/pods') return reply(response, 404, status(404, `${pathname} not found`));
    if (searchParams.get('watch') !== 'true') {
      const listed = store.list(searchParams);
      return reply(response, listed.status, listed.body);
    }
    const end = (): void => void response.socket?.destroy();
    const begin = (): void => {
      if (!response.headersSent) response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders();
    };
    const emit = (event: Json): void => {
      begin();
      response.write(`${JSON.stringify(event)}\n`);
    };
    const watched = store.watch(searchParams, emit, end);
    if (typeof watched !== 'function') return reply(response, watched.status, watched.body);
    begin();
    streams.add(response);
    response.on('close', () => {
      streams.delete(response);
      watched();
    });
  }

  function stream(response: ServerResponse, watch: (emit: (event: Json) => void) => () => void): void {
    response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders();
    streams.add(response);
    const ended = watch((event) => void response.write(`${JSON.stringify(event)}\n`));
    response.on('close', () => {
      streams.delete(response);
      ended();
    });
  }

  function userOf(request: IncomingMessage): string | null {
    const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1];
    if (token !== undefined) return tokens.has(token) ? token : null;
    const socket = request.socket as TLSSocket;
    if (!socket.authorized) return null;
    return String(socket.getPeerCertificate().subject?.CN ?? '');
  }

  function play(fault: Fault, request: IncomingMessage, response: ServerResponse): void {
    switch (fault.kind) {
      case 'hang':
        return;
      case 'reset':
        request.socket.destroy();
        return;
      case 'garbage':
        response.end('<html>{{{\u0000');
        return;
      case 'cut-body':
        response.writeHead(200, { 'content-length': '1000' });
        response.write('{"kind":');
        setTimeout(() => request.socket.destroy(), 20);
        return;
      case 'slow': {
        response.writeHead(200);
        const timer = setInterval(() => response.write(' '), 20);
        response.on('close', () => clearInterval(timer));
        return;
      }
      case 'huge': {
        response.writeHead(200);
        const block = Buffer.alloc(1024 * 1024, 'x');
        let left = fault.bytes;
        const more = (): void => {
          while (left > 0) {
            left -= block.length;
            if (!response.write(block)) {
              response.once('drain', more);
              return;
            }
          }
          response.end();
        };
        more();
        return;
      }
      case 'status':
        reply(response, fault.status, fault.body ?? status(fault.status, 'a planted fault'), fault.headers);
    }
  }

  let port = 0;
  const listen = (): Promise<void> => new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  const breakAll = (): void => {
    for (const socket of [...sockets]) socket.destroy();
  };
  await listen();
  ({ port } = server.address() as AddressInfo);
  const stub: StubApi = {
    url: `https://127.0.0.1:${port}`,
    store,
    heard,
    fault: (path, fault, times = 1) => void faults.push({ path, fault, times }),
    node,
    resources,
    tokens,
    sayRaw: (text) => {
      for (const stream of streams) stream.write(text);
    },
    sockets: () => sockets.size,
    breakAll,
    stop: () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      breakAll();
      return closed;
    },
    listen,
  };
  return stub;
}
