import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createClock } from '../../src/host/clock.ts';
import { createApiWrites } from '../../src/kube/api/api-writes.ts';
import type { ApiAnswer, ApiGet, ApiSend } from '../../src/kube/api/connection.ts';
import type { EvictionVersion } from '../../src/kube/api/eviction.ts';
import type { ApiVictim } from '../../src/kube/api/write-rules.ts';
import type { Clock } from '../../src/ports.ts';

export const BOOT = '11111111-1111-4111-8111-111111111111';
export const EARLIER_BOOT = '00000000-0000-4000-8000-000000000000';
export const NODE = 'node-1';
export const NODE_UID = 'aaaaaaaa-0000-4000-8000-00000000000a';
export const VICTIM: ApiVictim = {
  namespace: 'shop',
  name: 'web-0',
  uid: 'bbbbbbbb-0000-4000-8000-00000000000b',
  isMirror: false,
};
export const POD_PATH = '/api/v1/namespaces/shop/pods/web-0';
export const NODE_PATH = `/api/v1/nodes/${NODE}`;

export type Sent = Parameters<ApiSend>[0];
export type Json = { [field: string]: unknown };
type Reply = { readonly status: number; readonly body: unknown; readonly retryAfterMs?: number | null };
/** Null: no answer at all. Undefined: as the server would. */
type Script = (method: string, path: string, body: Json | null) => Reply | 'silence' | undefined;

export const status = (code: number, reason: string, message: string, details: object = {}): Reply => ({
  status: code,
  body: { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason, message, details, code },
});
/** The wording of an API server 1.20 for an object that is not there. */
export const notFound = (kind: string, name: string): Reply =>
  status(404, 'NotFound', `${kind} "${name}" not found`, { name, kind });

/**
 * What an API server keeps of one node, its pods and their events, with its own checks of uid and resourceVersion.
 * `script` may answer instead.
 */
export function anApi(script: Script = () => undefined) {
  const node = {
    kind: 'Node',
    metadata: { name: NODE, uid: NODE_UID, resourceVersion: '1', annotations: {} as Json, managedFields: [] as Json[] },
    spec: {} as { unschedulable?: boolean; taints?: Json[] },
    status: { nodeInfo: { bootID: BOOT }, conditions: [{ type: 'Ready', status: 'True' }] as Json[] },
  };
  const { name, namespace, uid } = VICTIM;
  const pods = new Map<string, { metadata: Json; spec?: Json; status?: Json }>([
    [POD_PATH, { metadata: { name, namespace, uid }, spec: { nodeName: NODE } }],
  ]);
  const events = new Map<string, Json>();
  const asked: { method: string; path: string; body: Json | null; contentType: string | null }[] = [];
  /** What changes anything. */
  const sent = () => asked.filter(({ method, body }) => method !== 'GET' && body?.['dryRun'] === undefined);
  let version = 1;

  const end = (path: string, body: Json | null): Reply => {
    const pod = pods.get(path);
    const name = path.slice(path.lastIndexOf('/') + 1);
    if (pod === undefined) return notFound('pods', name);
    const options = (body?.['deleteOptions'] ?? body) as Json & { preconditions: { uid: string } };
    const { uid } = options.preconditions;
    if (uid !== pod.metadata['uid']) {
      const text = `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${pod.metadata['uid']}`;
      return status(409, 'Conflict', `Operation cannot be fulfilled on Pod "${name}": ${text}`, { name, kind: 'Pod' });
    }
    if (options['dryRun'] === undefined) pod.metadata['deletionTimestamp'] = '2026-01-01T00:00:00Z';
    return { status: 200, body: pod };
  };
  const patchNode = (body: Json): Reply => {
    const { metadata, spec } = body as { metadata: Json; spec: Json };
    if (metadata['resourceVersion'] !== node.metadata.resourceVersion) {
      return status(409, 'Conflict', 'the object has been modified; please apply your changes to the latest version');
    }
    const annotations = (metadata['annotations'] ?? {}) as Json;
    for (const [key, value] of Object.entries(annotations)) {
      if (value === null) delete node.metadata.annotations[key];
      else node.metadata.annotations[key] = value;
    }
    if ('taints' in spec) node.spec.taints = spec['taints'] as Json[];
    if (spec['unschedulable'] === null) delete node.spec.unschedulable;
    else if ('unschedulable' in spec) node.spec.unschedulable = spec['unschedulable'] as boolean;
    touch();
    return { status: 200, body: node };
  };
  const patchNodeStatus = (body: Json): Reply => {
    const { metadata, status: patch } = body as { metadata: Json; status: { conditions: Json[] } };
    if (metadata['uid'] !== node.metadata.uid) {
      return status(409, 'Conflict', 'Precondition failed: UID in precondition differs from UID in object meta');
    }
    for (const entry of patch.conditions) {
      const at = node.status.conditions.findIndex(({ type }) => type === entry['type']);
      if (entry['$patch'] === 'delete') node.status.conditions.splice(at, at < 0 ? 0 : 1);
      else if (at < 0) node.status.conditions.push(entry);
      else node.status.conditions[at] = { ...node.status.conditions[at], ...entry };
    }
    touch();
    return { status: 200, body: node };
  };
  const touch = (): void => {
    node.metadata.resourceVersion = String(++version);
  };
  const postEvent = (path: string, body: Json): Reply => {
    const name = String((body['metadata'] as Json)['name']);
    if (events.has(`${path}/${name}`)) return status(409, 'AlreadyExists', `events "${name}" already exists`);
    events.set(`${path}/${name}`, body);
    return { status: 201, body };
  };
  const answer = (method: string, path: string, body: Json | null): Reply | 'silence' => {
    const scripted = script(method, path, body);
    if (scripted !== undefined) return scripted;
    if (path === NODE_PATH) {
      return method === 'GET' ? { status: 200, body: structuredClone(node) } : patchNode(body ?? {});
    }
    if (path === `${NODE_PATH}/status`) return patchNodeStatus(body ?? {});
    if (path.endsWith('/eviction')) {
      const said = end(path.replace('/eviction', ''), body);
      return said.status === 200 ? { status: 201, body: { kind: 'Status', status: 'Success' } } : said;
    }
    if (method === 'DELETE') return end(path, body);
    if (path.endsWith('/events')) return postEvent(path, body ?? {});
    if (events.has(path)) {
      events.set(path, { ...events.get(path), ...body });
      return { status: 200, body: events.get(path) };
    }
    if (pods.has(path)) return { status: 200, body: structuredClone(pods.get(path)) };
    if (path.endsWith('/status')) return { status: 200, body: {} };
    const [, gone] = /\/pods\/([^/]+)$/.exec(path) ?? [];
    if (gone !== undefined) return notFound('pods', gone);
    return status(404, 'NotFound', 'the server could not find the requested resource');
  };
  const ask = (method: string, path: string, body: object | null, contentType: string | null): ApiAnswer => {
    const copy = body === null ? null : (JSON.parse(JSON.stringify(body)) as Json);
    asked.push({ method, path, body: copy, contentType });
    const said = answer(method, path, copy);
    if (said === 'silence') return { kind: 'none', detail: 'no answer within 500 ms', isTimeout: true };
    return { kind: 'answer', status: said.status, body: said.body, retryAfterMs: said.retryAfterMs ?? null };
  };
  const get: ApiGet = async (path) => ask('GET', path, null, null);
  const send: ApiSend = async ({ method, path, body, contentType }) => ask(method, path, body, contentType);
  return { node, pods, events, asked, sent, get, send, ask, touch };
}

const clock = createClock();
export function writesTo(
  { get, send }: { readonly get: ApiGet; readonly send: ApiSend },
  rest: {
    readonly evictionVersion?: EvictionVersion | null;
    readonly nodeName?: string;
    readonly bootId?: string;
    readonly at?: Clock;
  } = {},
) {
  const { evictionVersion = 'policy/v1', nodeName = NODE, bootId = BOOT, at = clock } = rest;
  return createApiWrites({
    get,
    send,
    clock: at,
    nodeName,
    bootId,
    evictionVersion: () => evictionVersion,
    taintKeys: 'own',
  });
}

/** The same server behind a real socket: what is sent is what HTTP and JSON make of it. */
export async function overHttp(api: ReturnType<typeof anApi>) {
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const text = Buffer.concat(chunks).toString();
      const said = api.ask(
        req.method ?? '',
        req.url ?? '',
        text === '' ? null : JSON.parse(text),
        req.headers['content-type'] ?? null,
      );
      if (said.kind === 'none') return; // Left without an answer.
      res.writeHead(said.status, { 'content-type': 'application/json' });
      res.end(JSON.stringify(said.body));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const call = (method: string, path: string, deadlineMs: number, body?: object, contentType?: string) =>
    new Promise<ApiAnswer>((resolve) => {
      const none = (detail: string, isTimeout: boolean): void => resolve({ kind: 'none', detail, isTimeout });
      const text = body === undefined ? '' : JSON.stringify(body);
      // Node.js gives a DELETE no length by itself, and its body would be the next request.
      const headers =
        body === undefined ? {} : { 'content-type': contentType, 'content-length': Buffer.byteLength(text) };
      const req = request({ host: '127.0.0.1', port, method, path, headers, agent: false }, (res) => {
        const chunks: Buffer[] = [];
        res.on('data', (chunk: Buffer) => chunks.push(chunk));
        res.on('end', () => {
          cancel();
          const text = Buffer.concat(chunks).toString();
          resolve({ kind: 'answer', status: res.statusCode ?? 0, body: JSON.parse(text), retryAfterMs: null });
        });
      });
      const cancel = clock.after(deadlineMs, () => {
        none(`no answer within ${deadlineMs} ms`, true);
        req.destroy();
      });
      req.on('error', (error) => none(error.message, false));
      req.end(text);
    });
  const get: ApiGet = (path, deadlineMs) => call('GET', path, deadlineMs);
  const send: ApiSend = ({ method, path, deadlineMs, body, contentType }) =>
    call(method, path, deadlineMs, body, contentType);
  return {
    get,
    send,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
