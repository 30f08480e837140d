import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect } from 'vitest';
import type { FencingRecord, NodeRef } from '../../src/core/guard/record.ts';
import { createClock } from '../../src/host/clock.ts';
import type { GuardConnection } from '../../src/kube/api/connection.ts';
import { openConnection } from '../../src/kube/api/open-connection.ts';
import type { Clock } from '../../src/ports.ts';
import { type Authority, createAuthority, writeKubeconfig } from '../kube/certificates.ts';
import { eventually } from '../kube/eventually.ts';
import type { Json } from '../kube/pod-store.ts';
import { type Acted, type Heard, type StubApi, startStubApi } from '../kube/stub-api.ts';
import { heardParts } from '../standalone/needs.ts';

export const NAMESPACE = 'nodewarden-guard';
export const MAPS = `/api/v1/namespaces/${NAMESPACE}/configmaps`;
export const LEASES = `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases`;
export const EVENTS = '/api/v1/namespaces/default/events';
const NODES = '/api/v1/nodes';

type Fields = { [field: string]: unknown };
type Stored = Json & { metadata: Fields; spec?: Json; status?: Json; data?: Json };

/**
 * An API server over TLS that holds the guard's objects as the real one does: versions, uids, conflicts. For faults that a
 * real one cannot be made to show at will.
 */
export type GuardApi = {
  readonly stub: StubApi;
  readonly connection: GuardConnection;
  /** By path. */
  readonly objects: Map<string, Stored>;
  readonly node: (name: string) => Stored;
  readonly putNode: (
    node: NodeRef,
    rest?: { readonly taints?: readonly Json[]; readonly conditions?: readonly Json[] },
  ) => void;
  readonly putMap: (name: string, data: Json, metadata?: Json) => string;
  /** Anything, by its path; null removes it. */
  readonly put: (path: string, object: Json | null) => void;
  /** What was asked of it that could change something. */
  readonly writes: () => readonly Heard[];
  /** The next write that matches is done, and its answer lost. */
  readonly lose: (path: RegExp) => void;
  /** Once a watch is open: it stays so, and says nothing more. One that opens later would tell what it was to hide. */
  readonly silence: () => Promise<void>;
  /** Called before a request is done. */
  readonly before: (run: (request: Heard) => void) => void;
  readonly close: () => Promise<void>;
};

let authority: Authority;
export const clock = createClock();

/** The credentials of a process of its own. */
export const writeGuardKubeconfig = ({ stub }: GuardApi): string => writeKubeconfig(authority, stub.url);

/** Once in each file that uses it. */
export function withAuthority(): void {
  beforeAll(() => {
    authority = createAuthority();
  });
  afterAll(() => authority.remove());
}

export async function aGuardApi(times: Clock = clock): Promise<GuardApi> {
  const objects = new Map<string, Stored>();
  const lost: RegExp[] = [];
  let version = 100;
  let before: (request: Heard) => void = () => undefined;
  const watches = new Set<(path: string, type: string, object: Stored) => void>();
  const touched = (object: Stored): Stored => {
    object.metadata['resourceVersion'] = String(++version);
    return object;
  };
  const say = (path: string, type: string, object: Stored): void => {
    for (const tell of watches) tell(path, type, object);
  };

  const act = (request: Heard): Acted => {
    if (request.path === '/version') return null;
    before(request);
    const collection = collectionOf(request);
    if (collection !== null) return collection;
    const done = serve(request);
    const at = lost.findIndex((path) => path.test(request.path));
    const key = request.path.replace(/\/status$/, '');
    const changed = objects.get(request.method === 'POST' ? `${key}/${String(nameIn(request.body))}` : key);
    if (request.method !== 'GET' && done.status < 300 && changed !== undefined) say(key, 'MODIFIED', changed);
    if (at === -1 || request.method === 'GET' || done.status >= 300) return done;
    lost.splice(at, 1);
    return 'lost';
  };
  /** A list, or a watch of what changes from now on; null: it asks for neither. */
  function collectionOf({ method, path }: Heard): Acted {
    const { pathname, searchParams } = new URL(path, 'https://stub');
    if (method !== 'GET' || !/\/(nodes|leases|configmaps|pods|volumeattachments)$/.test(pathname)) return null;
    const isIn = (key: string): boolean => key.slice(0, key.lastIndexOf('/')) === pathname;
    if (searchParams.get('watch') === 'true') {
      const from = Number(searchParams.get('resourceVersion') ?? version);
      return {
        watch: (emit) => {
          // What has changed since it was listed.
          for (const [key, object] of objects) {
            const isNew = isIn(key) && Number(object.metadata['resourceVersion']) > from;
            if (isNew) emit({ type: 'MODIFIED', object: structuredClone(object) });
          }
          const tell = (key: string, type: string, object: Stored): void => {
            if (isIn(key) || key === pathname) emit({ type, object: structuredClone(object) });
          };
          watches.add(tell);
          return () => watches.delete(tell);
        },
      };
    }
    const items = [...objects].flatMap(([key, object]) => (isIn(key) ? [structuredClone(object)] : []));
    return { status: 200, body: { metadata: { resourceVersion: String(version) }, items } };
  }
  function serve({ method, path, body }: Heard): { status: number; body: Json } {
    const at = path.replace(/\/status$/, '');
    const object = objects.get(at);
    const metadata = (body?.['metadata'] ?? {}) as Json;
    if (method === 'POST') {
      const key = `${path}/${String(metadata['name'])}`;
      if (objects.has(key)) return failure(409, 'AlreadyExists');
      const created = touched({ ...body, metadata: { ...metadata, uid: randomUUID() } });
      objects.set(key, created);
      return { status: 201, body: created };
    }
    if (object === undefined) return failure(404, 'NotFound');
    if (method === 'GET') return { status: 200, body: structuredClone(object) };
    const wanted = method === 'DELETE' ? ((body?.['preconditions'] ?? {}) as Json) : metadata;
    if ('uid' in wanted && wanted['uid'] !== object.metadata['uid']) {
      return failure(409, 'Conflict', 'Precondition failed: UID in precondition: 1, UID in object meta: 2');
    }
    if ('resourceVersion' in wanted && wanted['resourceVersion'] !== object.metadata['resourceVersion']) {
      return failure(409, 'Conflict');
    }
    if (method === 'DELETE') objects.delete(at);
    else if (method === 'PUT') {
      objects.set(at, touched({ ...body, metadata: { ...metadata, uid: object.metadata['uid'] } }));
    } else if (path !== at) patchConditions(object, body ?? {});
    else {
      touched(object);
      object.spec = { ...object.spec, ...((body?.['spec'] ?? {}) as Json) };
    }
    return { status: 200, body: structuredClone(objects.get(at) ?? object) };
  }
  function patchConditions(object: Stored, body: Json): void {
    const conditions = [...((object.status?.['conditions'] ?? []) as Json[])];
    for (const entry of ((body['status'] as Json)['conditions'] ?? []) as Json[]) {
      const index = conditions.findIndex(({ type }) => type === entry['type']);
      if (entry['$patch'] === 'delete') conditions.splice(index, index < 0 ? 0 : 1);
      else conditions.splice(index < 0 ? conditions.length : index, 1, entry);
    }
    object.status = { ...object.status, conditions };
    touched(object);
  }

  function put(path: string, object: Json | null): void {
    const before = objects.get(path);
    if (object !== null) objects.set(path, touched(structuredClone(object) as Stored));
    else objects.delete(path);
    const now = objects.get(path);
    if (now !== undefined) say(path, before === undefined ? 'ADDED' : 'MODIFIED', now);
    else if (before !== undefined) say(path, 'DELETED', touched(before));
  }

  const stub = await startStubApi(authority, act);
  const kubeconfig = writeKubeconfig(authority, stub.url);
  const connection = openConnection({ clock: times, findings: heardParts().findings, kubeconfig });
  await eventually(() => {
    if (connection.state() !== 'up') throw new Error('not yet up');
  });
  return {
    stub,
    connection,
    objects,
    node: (name) => {
      const found = objects.get(`${NODES}/${name}`);
      if (found === undefined) throw new Error(`no node ${name}`);
      return found;
    },
    putNode: ({ name, uid, bootId }, { taints = [], conditions = [] } = {}) => {
      const node = {
        kind: 'Node',
        metadata: { name, uid },
        spec: { taints },
        status: { conditions, nodeInfo: { bootID: bootId } },
      };
      put(`${NODES}/${name}`, node);
    },
    putMap: (name, data, metadata = {}) => {
      put(`${MAPS}/${name}`, { kind: 'ConfigMap', metadata: { ...metadata, name, uid: randomUUID() }, data });
      return String(version);
    },
    put,
    writes: () => stub.heard.filter(({ method }) => method !== 'GET'),
    lose: (path) => void lost.push(path),
    silence: async () => {
      await eventually(() => expect(watches.size).toBeGreaterThan(0));
      watches.clear();
    },
    before: (run) => {
      before = run;
    },
    close: async () => {
      connection.close();
      await stub.stop();
    },
  };
}

const nameIn = (body: Json | null): unknown => ((body?.['metadata'] ?? {}) as Json)['name'];

function failure(code: number, reason: string, message = reason): { status: number; body: Json } {
  return { status: code, body: { kind: 'Status', status: 'Failure', reason, message, code } };
}

/** The uid's hash, as `sha256sum` has it, is in the fencing's id. */
export const W1: NodeRef = { name: 'w1', uid: '6f2b', bootId: 'boot-1' };
export const ID = '506f2159e21268f5-1';

export const aRecord = (rest: Partial<FencingRecord> = {}): FencingRecord => ({
  ...{ schema: 1, id: ID, node: W1, purpose: 'fence', phase: 'off-sent', revision: 2, epoch: 1, writer: 'g1-a' },
  ...{ plan: { isolation: [], levels: [['1', '2']] }, level: 0, attempt: 1, retries: 0 },
  ...{ offSent: [], onSent: [], cutWallMs: null, offHeard: [], onHeard: [] },
  ...{ onAttempt: 0, renewed: 't1', order: null, proof: null, staysOff: null, isAlive: false, why: null, answers: [] },
  ...{ steps: [{ phase: 'decided', wallMs: 1_764_000_000_000 }], silentMs: 130_000.5, wasHeard: true },
  freed: { pods: [], volumes: [] },
  ...rest,
});
