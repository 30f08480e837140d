// Nodes, their leases and what guards store, played by this process over TLS: as large as real ones, and as often renewed.
import fs from 'node:fs';
import path from 'node:path';
import { createAuthority, writeKubeconfig } from '../../test/kube/certificates.ts';
import type { Json } from '../../test/kube/pod-store.ts';
import { type Acted, type Heard, startStubApi } from '../../test/kube/stub-api.ts';

export type FakeCluster = {
  /** A kubeconfig for a client of that name. */
  readonly kubeconfigOf: (name: string) => string;
  readonly requestsOf: (name: string) => number;
  /** The machine stops: no renewal any more, and after 50 s its node is not Ready. When its lease was renewed last. */
  readonly kill: (node: string) => number;
  /** When a fencing of the node was stored with this phase for the first time; null: not yet. */
  readonly storedMs: (phase: string) => number | null;
  /** When the node was patched with the taint; null: not yet. */
  readonly taintedMs: () => number | null;
  readonly close: () => Promise<void>;
};

const LEASE_MS = 10_000;
/** A kubelet reports an unchanged status this often. */
const STATUS_MS = 300_000;
/** As often as kube-apiserver sends one. */
const BOOKMARK_MS = 60_000;
const NOT_READY_MS = 50_000;
/** A kubelet reports up to 50 images: most of a Node object. */
const IMAGES = 50;

type Stored = Json & { metadata: { [field: string]: unknown } };
const NODES = '/api/v1/nodes';
const NODE_LEASES = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
const ok = (body: Json): Acted => ({ status: 200, body });
const refused = (code: number, reason: string): Acted => ({
  status: code,
  body: { kind: 'Status', status: 'Failure', reason, message: reason, code },
});
const micro = (ms: number): string => new Date(ms).toISOString().replace('Z', '000Z');

export async function openFakeCluster(size: number): Promise<FakeCluster> {
  const authority = createAuthority();
  const names = Array.from({ length: size }, (_, i) => `w${i + 1}`);
  const dead = new Map<string, number>();
  const stored = new Map<string, Stored>();
  const phases = new Map<string, number>();
  const watches = new Set<{ readonly of: string; readonly emit: (event: Json) => void }>();
  let taintedMs: number | null = null;
  let version = 1_000;
  const nodes = new Map(names.map((name, i) => [name, aNode(name, i, Date.now())]));

  const renewedMs = (name: string, i: number): number => {
    const phaseMs = (i * 7_919) % LEASE_MS;
    const nowMs = dead.get(name) ?? Date.now();
    return Math.floor((nowMs - phaseMs) / LEASE_MS) * LEASE_MS + phaseMs;
  };
  const leaseOf = (name: string, i: number): Json => aLease(name, renewedMs(name, i));
  const changed = (of: string, type: string, object: Stored): void => {
    version += 1;
    object.metadata['resourceVersion'] = String(version);
    for (const watch of watches) if (watch.of === of) watch.emit({ type, object });
  };
  const reports = setInterval(() => {
    for (let i = Math.floor(Math.random() * REPORTS_EVERY); i < size; i += REPORTS_EVERY) {
      const name = names[i] ?? '';
      const node = dead.has(name) ? undefined : nodes.get(name);
      if (node !== undefined)
        changed(NODES, 'MODIFIED', Object.assign(node, { status: aStatus(uidOf(i), Date.now(), 'True') }));
    }
  }, STATUS_MS / REPORTS_EVERY);

  function list(pathname: string, query: URLSearchParams): Acted | undefined {
    const items = itemsOf(pathname, query);
    if (items === undefined) return undefined;
    if (query.get('watch') === 'true') return { watch: (emit) => watching(pathname, emit) };
    const from = Number(query.get('continue') ?? 0);
    // Servers ignore the limit where a cached version is asked for.
    const size = query.get('resourceVersion') === '0' ? items.length : Number(query.get('limit') ?? items.length);
    const next = from + size < items.length ? { continue: String(from + size) } : {};
    return ok({ metadata: { resourceVersion: String(version), ...next }, items: items.slice(from, from + size) });
  }
  function itemsOf(pathname: string, query: URLSearchParams): readonly Json[] | undefined {
    if (pathname === NODES) return [...nodes.values()];
    if (pathname === NODE_LEASES) return names.map(leaseOf);
    if (pathname === '/api/v1/pods') return [aPod((query.get('fieldSelector') ?? '').replace('spec.nodeName=', ''))];
    if (pathname === '/apis/storage.k8s.io/v1/volumeattachments') return names.map(anAttachment);
    return pathname.endsWith('/configmaps')
      ? [...stored].flatMap(([at, object]) => (path.dirname(at) === pathname ? [object] : []))
      : undefined;
  }
  function watching(of: string, emit: (event: Json) => void): () => void {
    const watch = { of, emit };
    watches.add(watch);
    const bookmarks = setInterval(
      () => emit({ type: 'BOOKMARK', object: { metadata: { resourceVersion: String(version) } } }),
      BOOKMARK_MS,
    );
    return () => {
      clearInterval(bookmarks);
      watches.delete(watch);
    };
  }

  function one({ method, body }: Heard, at: string): Acted {
    const name = path.basename(at);
    const node = path.dirname(at) === NODES ? nodes.get(name) : undefined;
    if (node !== undefined) {
      if (method !== 'PATCH') return ok(node);
      if (JSON.stringify(body).includes('node.kubernetes.io/out-of-service')) taintedMs ??= Date.now();
      Object.assign(node, { spec: { ...(node['spec'] as Json), ...((body?.['spec'] ?? {}) as Json) } });
      changed(NODES, 'MODIFIED', node);
      return ok(node);
    }
    if (path.dirname(at) === NODE_LEASES) return ok(leaseOf(name, names.indexOf(name)));
    return storedOne(method, at, body);
  }
  function storedOne(method: string, at: string, body: Json | null): Acted {
    const metadata = (body?.['metadata'] ?? {}) as { [field: string]: unknown };
    const key = method === 'POST' ? `${at}/${String(metadata['name'])}` : at;
    const before = stored.get(key);
    if (method === 'GET') return before === undefined ? refused(404, 'NotFound') : ok(before);
    if (method === 'POST' ? before !== undefined : before === undefined) return refused(409, 'Conflict');
    const seen = metadata['resourceVersion'];
    if (before !== undefined && seen !== undefined && seen !== before.metadata['resourceVersion']) {
      return refused(409, 'Conflict');
    }
    if (method === 'DELETE') {
      stored.delete(key);
      return ok({});
    }
    const object = { ...body, metadata: { uid: key, ...metadata } };
    stored.set(key, object);
    changed(path.dirname(key), before === undefined ? 'ADDED' : 'MODIFIED', object);
    const phase = /"phase\W+([a-z-]+)/.exec(JSON.stringify(body?.['data'] ?? {}))?.[1];
    if (phase !== undefined && !phases.has(phase)) phases.set(phase, Date.now());
    return ok(object);
  }

  const api = await startStubApi(authority, (request) => {
    const { pathname, searchParams } = new URL(request.path, 'https://stub');
    if (pathname === '/version') return null;
    if (request.method === 'GET') {
      const listed = list(pathname, searchParams);
      if (listed !== undefined) return listed;
    }
    return one(request, pathname.replace(/\/status$/, ''));
  });

  return {
    kubeconfigOf: (name) => {
      authority.issue(name, `/O=nodewarden:guards/CN=${name}`);
      const user = { 'client-certificate': `${name}.crt`, 'client-key': `${name}.key` };
      const file = `${authority.directory}/${name}.kubeconfig`;
      fs.renameSync(writeKubeconfig(authority, api.url, { user }), file);
      return file;
    },
    requestsOf: (name) => api.heard.filter(({ user }) => user === name).length,
    kill: (name) => {
      dead.set(name, Date.now());
      setTimeout(() => {
        const node = nodes.get(name);
        if (node === undefined) return;
        const status = aStatus(String(node.metadata['uid']), dead.get(name) ?? 0, 'Unknown');
        changed(NODES, 'MODIFIED', Object.assign(node, { status }));
      }, NOT_READY_MS).unref();
      return renewedMs(name, names.indexOf(name));
    },
    storedMs: (phase) => phases.get(phase) ?? null,
    taintedMs: () => taintedMs,
    close: async () => {
      clearInterval(reports);
      await api.stop();
      authority.remove();
    },
  };
}
const REPORTS_EVERY = 300;

const uidOf = (i: number): string => `00000000-0000-4000-8000-${String(i).padStart(12, '0')}`;

function aNode(name: string, i: number, atMs: number): Stored {
  return {
    kind: 'Node',
    apiVersion: 'v1',
    metadata: {
      ...{ name, uid: uidOf(i), resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' },
      labels: {
        'kubernetes.io/arch': 'amd64',
        'kubernetes.io/hostname': name,
        'kubernetes.io/os': 'linux',
        'node.kubernetes.io/instance-type': 'metal',
        'topology.kubernetes.io/region': 'r1',
        'topology.kubernetes.io/zone': `z${i % 5}`,
      },
      annotations: {
        'node.alpha.kubernetes.io/ttl': '0',
        'volumes.kubernetes.io/controller-managed-attach-detach': 'true',
      },
    },
    spec: { podCIDR: '10.1.0.0/24', providerID: `metal://${name}` },
    status: aStatus(uidOf(i), atMs, 'True'),
  };
}

function aStatus(bootID: string, atMs: number, ready: 'True' | 'Unknown'): Json {
  const at = new Date(atMs).toISOString();
  const condition = (type: string, status: string): Json => ({
    ...{ type, status, lastHeartbeatTime: at, lastTransitionTime: '2026-01-01T00:00:00Z' },
    reason: ready === 'True' ? `Kubelet${type}` : 'NodeStatusUnknown',
    message: ready === 'True' ? `kubelet says ${type}` : 'Kubelet stopped posting node status.',
  });
  const pressures = ['MemoryPressure', 'DiskPressure', 'PIDPressure'].map((type) => condition(type, 'False'));
  return {
    capacity: { cpu: '64', memory: '263000000Ki', pods: '110', 'ephemeral-storage': '800000000Ki' },
    allocatable: { cpu: '63', memory: '260000000Ki', pods: '110', 'ephemeral-storage': '700000000000' },
    conditions: [...pressures, condition('Ready', ready)],
    // Of the loopback network: where no kubelet listens.
    addresses: [{ type: 'InternalIP', address: '127.0.0.1' }],
    daemonEndpoints: { kubeletEndpoint: { Port: 9 } },
    nodeInfo: { bootID, kernelVersion: '6.1.0', kubeletVersion: 'v1.36.0', osImage: 'Debian GNU/Linux 12' },
    images: Array.from({ length: IMAGES }, (_, i) => ({
      names: [
        `registry.example.com/team-${i % 7}/service-${i}@sha256:${String(i).padStart(64, 'a')}`,
        `registry.example.com/team-${i % 7}/service-${i}:v1.${i}.0`,
      ],
      sizeBytes: 100_000_000 + i,
    })),
  };
}

function aLease(name: string, renewedMs: number): Json {
  return {
    metadata: {
      ...{ name, namespace: 'kube-node-lease', uid: name, resourceVersion: String(renewedMs) },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name, uid: name }],
      managedFields: [
        {
          ...{ manager: 'kubelet', operation: 'Update', apiVersion: 'coordination.k8s.io/v1', fieldsType: 'FieldsV1' },
          fieldsV1: { 'f:spec': { 'f:holderIdentity': {}, 'f:leaseDurationSeconds': {}, 'f:renewTime': {} } },
        },
      ],
    },
    spec: { holderIdentity: name, leaseDurationSeconds: 40, renewTime: micro(renewedMs) },
  };
}

function aPod(node: string): Json {
  return {
    metadata: {
      ...{ name: `db-${node}`, namespace: 'shop', uid: `db-${node}` },
      ownerReferences: [{ kind: 'StatefulSet', name: 'db', controller: true }],
    },
    spec: { nodeName: node, volumes: [{ name: 'data', persistentVolumeClaim: { claimName: `db-${node}` } }] },
    status: { phase: 'Running' },
  };
}

const anAttachment = (node: string): Json => ({
  metadata: { name: `csi-${node}` },
  spec: { attacher: 'csi.example.com', nodeName: node, source: { persistentVolumeName: `pv-${node}` } },
  status: { attached: true },
});
