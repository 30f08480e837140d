import { ifKnown, known, type MonoMs, type Reading, type Unknown, unknown } from '../../core/reading.ts';
import type { Clock, Findings } from '../../ports.ts';
import {
  filesystemsUnknown,
  layersUnknown,
  RUNTIME_AWAY,
  RUNTIME_ENTRIES,
  RUNTIME_FILESYSTEMS,
  RUNTIME_LAYERS,
  runtimeAway,
  runtimeEntriesIgnored,
} from '../../words/finding-kube.ts';
import {
  cgroupDriverOf,
  cgroupsPathOf,
  containersOf,
  filesystemsOf,
  sandboxesOf,
  type WritableLayer,
  writableLayersOf,
} from './checked-answers.ts';
import { type CriClient, openCriClient } from './client.ts';
import type { Runtime, RuntimeFacts, RuntimeFilesystems } from './runtime.ts';

/** More than other modules need: for those that open it. */
export type OpenRuntime = Runtime & {
  /** By container id; each with its own time. Queried again if the last query is older than `maxAgeMs`. */
  readonly writableLayers: (maxAgeMs: number) => Promise<Reading<ReadonlyMap<string, WritableLayer>>>;
  /** D7: where a container runs, as reported by the runtime. */
  readonly cgroupsPath: (containerId: string) => Promise<Reading<string>>;
  /** E12. Resolves when it has stopped, or 5 s after the grace period. */
  readonly stopContainer: (containerId: string, graceSeconds: number) => Promise<Reading<null>>;
  readonly stopSandbox: (sandboxId: string) => Promise<Reading<null>>;
  /** It answered the last query, or may still answer the first one. While it is away, a query searches for it. */
  readonly isAnswering: () => boolean;
  /** The runtime that is connected, for reading. */
  readonly connect: () => Promise<Reading<CriClient>>;
  /**
   * For reclaim.ts: unknown unless it runs a known pod, because nothing may be removed from someone else's runtime. Until
   * that is proven, each call searches for it again.
   */
  readonly connectProven: () => Promise<Reading<CriClient>>;
};
type RuntimeNeeds = {
  readonly clock: Clock;
  readonly findings: Findings;
  /** `containerRuntimeEndpoint`. */
  readonly endpoint: string;
  /** Absent: the endpoint and the well-known paths. */
  readonly sockets?: () => ReturnType<typeof socketsOf>;
  /** D11: the pods of this node, by the kubelet's uid. */
  readonly knownPods: () => Reading<{ readonly has: (uid: string) => boolean }>;
};

/** K7: one look at 220 containers costs 11 to 14 ms of CPU. */
const REST_MS = 60_000;
const AWAY_MS = 5_000;
/** A node that has just started, or whose disk is busy, may need some seconds to say where its images are. */
const PATIENCE_MS = 10_000;
const RUNTIME = 'the container runtime';
const NOT_YET = 'it has not answered yet';

/**
 * Queries the runtime at once, then whenever requested, and after 60 s without a request (5 s while nothing answers). Nothing
 * here throws or rejects. While nothing answers, each query searches for the runtime again; READY does not wait for that (E8).
 */
export function openRuntime(needs: RuntimeNeeds): OpenRuntime {
  const { clock, findings, knownPods, sockets = () => socketsOf(needs.endpoint) } = needs;
  let found: Reading<FoundRuntime> = unknown('absent', RUNTIME, NOT_YET);
  let facts: Reading<RuntimeFacts> = unknown('absent', 'CRI ListContainers', NOT_YET);
  let filesystems: Reading<RuntimeFilesystems> = unknown('absent', 'CRI ImageFsInfo', NOT_YET);
  let driver: Reading<'cgroupfs' | 'systemd'> = unknown('absent', 'CRI RuntimeConfig', NOT_YET);
  let layers: Reading<ReadonlyMap<string, WritableLayer>> = unknown('absent', 'CRI ListContainerStats', NOT_YET);
  let layersAskedMs = Number.NEGATIVE_INFINITY;
  let areLayersMissing = false;
  let restAskedMs = Number.NEGATIVE_INFINITY;
  let filesystemsMissedMs: MonoMs | null = null;
  let isProofWanted = false;
  let isAnswering = true;
  let cancelRest = (): void => undefined;
  let isClosed = false;

  const isRestDue = (): boolean => clock.monoMs() - restAskedMs >= REST_MS;

  function lose(why: Unknown): void {
    if (found.known) found.value.client.close();
    found = why;
  }

  function rest(ms: number): void {
    cancelRest();
    cancelRest = clock.after(ms, () => void refresh());
  }

  const isKnownPod = (uid: string): boolean => {
    const pods = knownPods();
    return pods.known && pods.value.has(uid);
  };
  function take(next: Reading<FoundRuntime>): void {
    if (next.known && found.known && next.value.socket === found.value.socket) {
      // A query may be in progress.
      next.value.client.close();
      found = known({ ...found.value, isProven: next.value.isProven });
    } else {
      lose(NO_RUNTIME);
      found = next;
      restAskedMs = Number.NEGATIVE_INFINITY;
    }
  }

  /** The connected runtime, unless another one may be ours. */
  const connect = coalesced(async (): Promise<Reading<CriClient>> => {
    if (isClosed) return CLOSED;
    const isDue = isProofWanted || isRestDue();
    isProofWanted = false;
    if (!found.known || (!found.value.isProven && isDue)) {
      const places = sockets();
      const next = places.known ? await findRuntime({ clock, sockets: places.value, isKnownPod }) : places;
      take(next);
      if (isClosed) lose(CLOSED);
    }
    return found.known ? known(found.value.client) : found;
  });

  const refresh = coalesced(async (): Promise<Reading<RuntimeFacts>> => {
    const client = await connect();
    const answer = client.known ? await listAll(client.value, clock) : client;
    isAnswering = answer.known;
    if (isClosed) return CLOSED;
    rest(answer.known ? REST_MS : AWAY_MS);
    if (!client.known || !answer.known) {
      const why = answer.known ? NO_RUNTIME : answer;
      findings.raise(runtimeAway(why.detail));
      // The next answer may come from another runtime. One that is slow, or gives an invalid answer, is still the same.
      if (why.why === 'unreadable') lose(why);
      return why;
    }
    findings.clear(RUNTIME_AWAY);
    const { ignored, ...next } = answer.value;
    if (ignored === 0) findings.clear(RUNTIME_ENTRIES);
    else findings.raise(runtimeEntriesIgnored(ignored));
    facts = known(next);
    if (isRestDue()) await readConfiguration(client.value);
    else if (!filesystems.known) void readFilesystems();
    // Once the disk recovers nobody else asks, and the finding would stay.
    if (areLayersMissing) void readLayers();
    return facts;
  });

  /** Reads what only the runtime's configuration changes. If this fails, the last answer stays in force. */
  async function readConfiguration(client: CriClient): Promise<void> {
    restAskedMs = clock.monoMs();
    const [config] = await Promise.all([client.config(), readFilesystems()]);
    driver = newer(driver, ifKnown(config, cgroupDriverOf));
  }

  /** Nothing is decided for a disk before the first answer, so that is not awaited for a minute. */
  const readFilesystems = coalesced(async (): Promise<void> => {
    const client = await connect();
    const answer = client.known ? ifKnown(await client.value.imageFilesystems(), filesystemsOf) : client;
    filesystems = newer(filesystems, answer);
    if (isClosed) return;
    if (filesystems.known) {
      filesystemsMissedMs = null;
      findings.clear(RUNTIME_FILESYSTEMS);
      return;
    }
    filesystemsMissedMs ??= clock.monoMs();
    if (client.known && clock.monoMs() - filesystemsMissedMs >= PATIENCE_MS)
      findings.raise(filesystemsUnknown(filesystems.detail));
    rest(AWAY_MS);
  });

  const readLayers = coalesced(async () => {
    layersAskedMs = clock.monoMs();
    const client = await connect();
    const answer = client.known ? ifKnown(await client.value.stats(), writableLayersOf) : client;
    layers = newer(layers, answer);
    // That no runtime answers at all is another finding.
    areLayersMissing = client.known && !answer.known;
    if (answer.known) findings.clear(RUNTIME_LAYERS);
    else if (client.known) findings.raise(layersUnknown(answer.detail));
    return answer;
  });

  async function withClient<T>(use: (client: CriClient) => Promise<Reading<T>>): Promise<Reading<T>> {
    const client = await connect();
    return client.known ? use(client.value) : client;
  }

  void refresh();
  return {
    facts: () => facts,
    refresh,
    filesystems: () => filesystems,
    cgroupDriver: () => driver,
    writableLayers: (maxAgeMs) =>
      clock.monoMs() - layersAskedMs < maxAgeMs && layers.known ? Promise.resolve(layers) : readLayers(),
    cgroupsPath: (id) => withClient(async (client) => ifKnown(await client.containerInfo(id), cgroupsPathOf)),
    stopContainer: (id, graceSeconds) => withClient((client) => client.stopContainer(id, graceSeconds)),
    stopSandbox: (id) => withClient((client) => client.stopSandbox(id)),
    isAnswering: () => isAnswering,
    connect,
    connectProven: async () => {
      isProofWanted = true;
      const before = found;
      const client = await connect();
      if (before.known && found.known && before.value.socket !== found.value.socket) void refresh();
      if (!client.known || !found.known || found.value.isProven) return client;
      const pods = knownPods();
      if (!pods.known) return pods;
      return unknown('absent', RUNTIME, `${found.value.socket} runs no pod that is known to be of this node`);
    },
    close: () => {
      isClosed = true;
      cancelRest();
      // One that the runtime answers late would keep the agent from ending.
      if (found.known) found.value.client.cancel();
      lose(CLOSED);
    },
  };
}

const CLOSED = unknown('unreadable', RUNTIME, 'closed');
const NO_RUNTIME = unknown('absent', RUNTIME, NOT_YET);

type Listed = RuntimeFacts & { readonly ignored: number };
async function listAll(client: CriClient, clock: Clock): Promise<Reading<Listed>> {
  const atMs = clock.monoMs();
  const [containerList, sandboxList] = await Promise.all([client.containers(), client.sandboxes()]);
  const containers = ifKnown(containerList, containersOf);
  const sandboxes = ifKnown(sandboxList, sandboxesOf);
  if (!containers.known) return containers;
  if (!sandboxes.known) return sandboxes;
  return known({
    containers: containers.value.items,
    sandboxes: sandboxes.value.items,
    atMs,
    ignored: containers.value.ignored + sandboxes.value.ignored,
  });
}

/** The newer value, unless it is unknown and the older one is known. */
const newer = <T>(older: Reading<T>, next: Reading<T>): Reading<T> => (next.known || !older.known ? next : older);

/**
 * Runs at most once at a time, and never returns a result from before the call: callers during a run share the next one.
 * `run` never rejects.
 */
function coalesced<T>(run: () => Promise<T>): () => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  let next: Promise<T> | null = null;
  return () => {
    next ??= last.then(() => {
      next = null;
      const answer = run();
      last = answer;
      return answer;
    });
    return next;
  };
}

type FoundRuntime = {
  readonly client: CriClient;
  readonly socket: string;
  /** It runs a pod known to belong to this node. */
  readonly isProven: boolean;
};

/** D11; the last three unverified there. */
const WELL_KNOWN = [
  '/run/containerd/containerd.sock',
  '/run/crio/crio.sock',
  '/run/k3s/containerd/containerd.sock',
  '/run/k0s/containerd.sock',
  '/var/snap/microk8s/common/run/containerd.sock',
  '/run/cri-dockerd.sock',
];
/** Of a sockaddr_un, without the byte that ends it. */
const SOCKET_PATH_MAX = 107;
const NOBODY_LISTENS = /\b(?:ENOENT|ECONNREFUSED)\b/;

/** Sockets to try, in order: the configured endpoint (`unix:///run/x.sock`, or the path), then the well-known paths. */
export function socketsOf(endpoint: string): Reading<readonly string[]> {
  const path = endpoint.replace(/^unix:(?:\/\/)?(?=\/)/, '');
  if (!path.startsWith('/') || path.includes('\0') || Buffer.byteLength(path) > SOCKET_PATH_MAX) {
    const detail = `only unix:///path of at most ${SOCKET_PATH_MAX} bytes is supported`;
    return unknown('malformed', 'containerRuntimeEndpoint', detail);
  }
  return known([path, ...WELL_KNOWN.filter((other) => other !== path)]);
}

/**
 * D11: the first runtime that answers Version and runs a known pod; else the first socket (the configured one), if it
 * answers. Any other one without a pod of ours may be someone else's runtime. A runtime that does not support CRI v1 is
 * reported as such. The connections to all others are closed.
 */
export async function findRuntime(needs: {
  readonly clock: Clock;
  readonly sockets: readonly string[];
  readonly isKnownPod: (uid: string) => boolean;
}): Promise<Reading<FoundRuntime>> {
  const { clock, sockets, isKnownPod } = needs;
  const asked = await Promise.all(
    sockets.map(async (socket) => {
      const client = openCriClient(socket, clock);
      const version = await client.version();
      return { socket, client, version, isProven: version.known && (await runsKnown(client, isKnownPod)) };
    }),
  );
  const [configured] = asked;
  const chosen = asked.find(({ isProven }) => isProven) ?? (configured?.version.known ? configured : undefined);
  for (const other of asked) if (other !== chosen) other.client.close();
  if (chosen !== undefined) return known(chosen);
  const said = asked.map(({ socket, version }) => sayNo(socket, version));
  const worth = said.filter((text, index) => index === 0 || !NOBODY_LISTENS.test(text));
  return unknown('unreadable', RUNTIME, worth.join('; '));
}

async function runsKnown(client: CriClient, isKnownPod: (uid: string) => boolean): Promise<boolean> {
  const list = await client.sandboxes();
  const sandboxes = list.known ? sandboxesOf(list.value) : list;
  return sandboxes.known && sandboxes.value.items.some(({ podUid }) => isKnownPod(podUid));
}

function sayNo(socket: string, version: Reading<unknown>): string {
  if (version.known) return `${socket} answers, but runs no pod of this node`;
  if (version.why !== 'not-applicable') return version.detail;
  return `${socket} speaks no CRI v1: its CRI plugin is off, or it serves only v1alpha2, which is not supported`;
}
