// Between one guard and the API server: what it asks is seen, can be cut, and can be held before and after it is done.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import type http from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import path from 'node:path';
import { parse, stringify } from 'yaml';
import { RUN } from '../kube/cluster.ts';

export type Write = { readonly atMs: number; readonly method: string; readonly path: string; readonly body: string };
/** Awaited before a write is passed on, and again when it was done and its answer was not yet passed back. */
export type Hook = (write: Write, when: 'before' | 'after') => Promise<void>;
export type ApiProxy = {
  readonly kubeconfig: string;
  readonly writes: readonly Write[];
  /** Requests of any kind so far. */
  readonly requests: () => number;
  readonly hook: (hook: Hook | null) => void;
  /** `cut`: connections are reset. `hang`: requests are taken and never answered. */
  readonly set: (state: 'open' | 'cut' | 'hang') => void;
  readonly close: () => void;
};

const pki = (name: string): string => path.join(RUN, 'pki', name);

/** A client certificate of the lab's authority, made once. */
export function clientCertificate(name: string, subject: string): void {
  if (fs.existsSync(pki(`${name}.crt`))) return;
  const openssl = (...args: readonly string[]): void => void execFileSync('openssl', args, { stdio: 'ignore' });
  openssl(
    'req',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-subj',
    subject,
    '-keyout',
    pki(`${name}.key`),
    '-out',
    pki(`${name}.csr`),
  );
  openssl(
    'x509',
    '-req',
    '-in',
    pki(`${name}.csr`),
    '-CA',
    pki('ca.crt'),
    '-CAkey',
    pki('ca.key'),
    '-CAcreateserial',
    '-days',
    '30',
    '-out',
    pki(`${name}.crt`),
  );
}

/** A kubeconfig of that certificate; `server`: where it leads. */
export function kubeconfigOf(name: string, server: string, file: string): void {
  const config = parse(fs.readFileSync(path.join(RUN, 'admin.conf'), 'utf8'));
  const encode = (of: string): string => fs.readFileSync(pki(of)).toString('base64');
  config.clusters[0].cluster.server = server;
  config.users[0].user = { 'client-certificate-data': encode(`${name}.crt`), 'client-key-data': encode(`${name}.key`) };
  fs.writeFileSync(file, stringify(config), { mode: 0o600 });
}

export function apiServer(): string {
  return parse(fs.readFileSync(path.join(RUN, 'admin.conf'), 'utf8')).clusters[0].cluster.server;
}

const LIST_OF_NODES = /^\/api\/v1\/nodes\?/;
const WRITES: readonly (string | undefined)[] = ['POST', 'PUT', 'PATCH', 'DELETE'];

/** `nodes`: a label selector of those that it shows, as if the others were of another cluster. */
export async function anApiProxy(
  name: string,
  certificate: string,
  directory: string,
  nodes: string | null = null,
): Promise<ApiProxy> {
  const writes: Write[] = [];
  const sockets = new Set<Socket>();
  const server = new URL(apiServer());
  const agent = new https.Agent({
    ...{ ca: fs.readFileSync(pki('ca.crt')), cert: fs.readFileSync(pki(`${certificate}.crt`)) },
    ...{ key: fs.readFileSync(pki(`${certificate}.key`)), keepAlive: true },
  });
  let requests = 0;
  let hook: Hook | null = null;
  let state: 'open' | 'cut' | 'hang' = 'open';

  const handle = async (request: http.IncomingMessage, response: http.ServerResponse): Promise<void> => {
    requests += 1;
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part);
    const body = Buffer.concat(parts);
    if (state === 'hang') return;
    const { method = 'GET', url = '/', headers } = request;
    const write = WRITES.includes(method) ? { atMs: Date.now(), method, path: url, body: body.toString('utf8') } : null;
    if (write !== null) {
      writes.push(write);
      await hook?.(write, 'before');
    }
    const onward = https.request(
      {
        host: server.hostname,
        port: server.port,
        method,
        path: nodes !== null && LIST_OF_NODES.test(url) ? `${url}&labelSelector=${encodeURIComponent(nodes)}` : url,
        agent,
        headers: { ...headers, host: server.host },
      },
      (answer) => {
        const pass = (): void => {
          // At once: the first event of a watch may be far away.
          response.writeHead(answer.statusCode ?? 502, answer.headers);
          response.flushHeaders();
          answer.pipe(response);
        };
        if (write === null || hook === null) pass();
        else void hook(write, 'after').then(pass);
      },
    );
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    onward.end(body);
  };

  const near = https.createServer(
    { key: fs.readFileSync(pki('server.key')), cert: fs.readFileSync(pki('server.crt')) },
    (request, response) => {
      handle(request, response).catch(() => response.destroy());
    },
  );
  near.on('connection', (socket: Socket) => {
    if (state === 'cut') return void socket.destroy();
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => void near.listen(0, '127.0.0.1', () => resolve()));
  const address = near.address();
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port');
  const kubeconfig = path.join(directory, `${name}.conf`);
  kubeconfigOf(certificate, `https://127.0.0.1:${address.port}`, kubeconfig);
  return {
    kubeconfig,
    writes,
    requests: () => requests,
    hook: (next) => {
      hook = next;
    },
    set: (next) => {
      state = next;
      if (next === 'cut') for (const socket of sockets) socket.resetAndDestroy();
    },
    close: () => {
      near.close();
      near.closeAllConnections();
      agent.destroy();
    },
  };
}
