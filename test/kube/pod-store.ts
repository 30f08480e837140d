/** What an API server keeps of pods: versions, the events between them, and how far back it remembers. */

export type Json = { readonly [name: string]: unknown };
type StoredEvent = { readonly version: number; readonly type: string; readonly object: Json };
export type Reply = { readonly status: number; readonly body: Json };
type Watcher = { readonly node: string; readonly emit: (event: Json) => void; readonly end: () => void };

export const status = (code: number, message: string): Json => ({ kind: 'Status', apiVersion: 'v1', code, message });

export function createPodStore() {
  const pods = new Map<string, Json>();
  const watchers = new Set<Watcher>();
  let history: StoredEvent[] = [];
  let version = 100;
  let forgotten = 0;
  let lists = 0;
  let watches = 0;

  const nodeOf = (query: URLSearchParams): string => (query.get('fieldSelector') ?? '').replace('spec.nodeName=', '');
  const isOn = (node: string, object: Json): boolean => {
    const spec = object['spec'];
    return typeof spec === 'object' && spec !== null && Reflect.get(spec, 'nodeName') === node;
  };
  const stamped = (pod: Json): Json => {
    version += 1;
    const metadata = pod['metadata'];
    const fields = typeof metadata === 'object' ? metadata : {};
    return { kind: 'Pod', apiVersion: 'v1', ...pod, metadata: { ...fields, resourceVersion: String(version) } };
  };
  const add = (type: string, object: Json): void => {
    history.push({ version, type, object });
    for (const { node, emit } of [...watchers]) if (isOn(node, object)) emit({ type, object });
  };
  const keyOf = (pod: Json): string => {
    const { namespace = 'default', name } = (pod['metadata'] ?? {}) as Json;
    return `${namespace}/${name}`;
  };

  return {
    put: (pod: Json): void => {
      const type = pods.has(keyOf(pod)) ? 'MODIFIED' : 'ADDED';
      const object = stamped(pod);
      pods.set(keyOf(pod), object);
      add(type, object);
    },
    remove: (key: string): void => {
      const pod = pods.get(key);
      if (pod === undefined) return;
      pods.delete(key);
      add('DELETED', stamped(pod));
    },
    has: (key: string): boolean => pods.has(key),
    get: (namespace: string, name: string): Reply => {
      const body = pods.get(`${namespace}/${name}`);
      if (body !== undefined) return { status: 200, body };
      const missing = {
        ...status(404, `pods "${name}" not found`),
        reason: 'NotFound',
        details: { name, kind: 'pods' },
      };
      return { status: 404, body: missing };
    },
    of: (node: string): readonly Json[] => [...pods.values()].filter((pod) => isOn(node, pod)),
    bookmark: (): void => {
      const object = { kind: 'Pod', metadata: { resourceVersion: String(version) } };
      for (const { emit } of [...watchers]) emit({ type: 'BOOKMARK', object });
    },
    /** To every watcher, whatever it is. */
    say: (event: Json): void => {
      for (const { emit } of [...watchers]) emit(event);
    },
    cut: (): void => {
      for (const { end } of [...watchers]) end();
    },
    /** As etcd is compacted: nobody can go on from what was before. */
    forget: (): void => {
      history = [];
      forgotten = version;
    },
    counts: () => ({ lists, watches, open: watchers.size }),

    list: (query: URLSearchParams): Reply => {
      const next = query.get('continue');
      if (next === null) lists += 1;
      const wanted = Number(query.get('resourceVersion') ?? 0);
      if (wanted > version) return { status: 504, body: status(504, `Too large resource version: ${wanted}`) };
      // With a limit and without NotOlderThan it is that very version that is asked for.
      const isExact = wanted > 0 && query.get('resourceVersionMatch') !== 'NotOlderThan';
      if (isExact && wanted < forgotten) return { status: 410, body: status(410, 'too old resource version') };
      const all = [...pods.values()].filter((pod) => isOn(nodeOf(query), pod));
      // From its cache a server gives everything at once.
      const limit = query.get('resourceVersion') === '0' ? all.length : Number(query.get('limit') ?? all.length);
      const [from = 0, of = version] = next === null ? [] : next.split('/').map(Number);
      if (of < forgotten) return { status: 410, body: status(410, 'The provided continue parameter is too old') };
      const items = all.slice(from, from + limit);
      const isMore = from + limit < all.length;
      const metadata = { resourceVersion: String(of), ...(isMore ? { continue: `${from + limit}/${of}` } : {}) };
      return { status: 200, body: { kind: 'PodList', apiVersion: 'v1', metadata, items } };
    },

    /** The events after a version, then those that come; null, or why not. */
    watch: (query: URLSearchParams, emit: Watcher['emit'], end: Watcher['end']): Reply | (() => void) => {
      watches += 1;
      const after = Number(query.get('resourceVersion'));
      const gone = status(410, `too old resource version: ${after} (${forgotten})`);
      if (after < forgotten) return { status: 410, body: gone };
      const node = nodeOf(query);
      for (const event of history) {
        if (event.version > after && isOn(node, event.object)) emit({ type: event.type, object: event.object });
      }
      const watcher: Watcher = { node, emit, end };
      watchers.add(watcher);
      return () => void watchers.delete(watcher);
    },
  };
}
export type PodStore = ReturnType<typeof createPodStore>;

let made = 0;
export function aUid(): string {
  made += 1;
  return `00000000-0000-4000-8000-${String(made).padStart(12, '0')}`;
}

export const NODE = 'node-1';
/** A v1 Pod as an API server has it, Running on NODE. */
export function aV1Pod({
  name,
  namespace = 'default',
  uid = aUid(),
  metadata = {},
  spec = {},
  status: state = {},
}: {
  readonly name: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly metadata?: Json;
  readonly spec?: Json;
  readonly status?: Json;
}): Json {
  return {
    kind: 'Pod',
    apiVersion: 'v1',
    metadata: { name, namespace, uid, resourceVersion: '1', creationTimestamp: '2026-01-31T10:00:00Z', ...metadata },
    spec: {
      nodeName: NODE,
      restartPolicy: 'Always',
      terminationGracePeriodSeconds: 30,
      priority: 0,
      containers: [{ name: 'main', resources: { requests: { memory: '64Mi' } } }],
      ...spec,
    },
    status: {
      phase: 'Running',
      qosClass: 'Burstable',
      containerStatuses: [{ name: 'main', containerID: `containerd://${'a'.repeat(64)}` }],
      ...state,
    },
  };
}
