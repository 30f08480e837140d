import type { Signal } from '../core/signal.ts';

/** What runs on the demo's node: real processes, each bound to its own cgroup by a real manifest. */
export type DemoPod = {
  readonly name: DemoPodName;
  readonly what: string;
  readonly priority: number;
  readonly memoryRequestMiB: number | null;
  /** Guaranteed: limits equal to its requests, for cpu, too. */
  readonly isGuaranteed: boolean;
  /** What it holds from its start on; its program takes some 13 MiB more. */
  readonly holdsMiB: number;
};
export type DemoPodName = 'critical' | 'database' | 'web' | 'batch';

export const DEMO_NAMESPACE = 'demo';
export const LEAKER: DemoPodName = 'web';
/** 25 MiB/s, by few requests: an emulated machine serves some 20 a second. */
export const REQUESTS_PER_SECOND = 25;
export const LEAK_PER_REQUEST_BYTES = 1024 * 1024;

const MIB = 1024 * 1024;
export const NODE_MEMORY_BYTES = 512 * MIB;
export const NODE_MAX_PIDS = 512;
export const MEMORY_THRESHOLD_BYTES = 60 * MIB;
/** As written in the configuration. Inodes in percent: a file system that counts none (btrfs) would always be below a number. */
export const EVICTION_HARD: readonly { readonly signal: Signal; readonly limit: string }[] = [
  { signal: 'memory.available', limit: `${MEMORY_THRESHOLD_BYTES / MIB}Mi` },
  { signal: 'pid.available', limit: '64' },
  { signal: 'nodefs.available', limit: '8Mi' },
  { signal: 'nodefs.inodesFree', limit: '1%' },
];
export const TRANSITION_SECONDS = 5;

// web and batch have the same priority on purpose: then the usage above the request decides, as in the kubelet.
export const DEMO_PODS: readonly DemoPod[] = [
  {
    name: 'critical',
    what: 'a node service that must survive',
    priority: 2_000_000_000,
    memoryRequestMiB: 32,
    isGuaranteed: false,
    holdsMiB: 4,
  },
  {
    name: 'database',
    what: 'large, but within its request',
    priority: 0,
    memoryRequestMiB: 192,
    isGuaranteed: true,
    holdsMiB: 130,
  },
  {
    name: 'batch',
    what: 'best effort, small',
    priority: 0,
    memoryRequestMiB: null,
    isGuaranteed: false,
    holdsMiB: 24,
  },
  {
    name: LEAKER,
    what: 'a web server that leaks',
    priority: 0,
    memoryRequestMiB: 64,
    isGuaranteed: false,
    holdsMiB: 0,
  },
];

/**
 * The programs, for `node -e`: no file to ship and nothing to compile. Each ends when its input ends, so that nothing
 * survives a demo that was killed. "hold" allocates and answers each line; "serve" is a web server that leaks; "visit" sends
 * it requests at a steady rate and prints how many were served.
 */
const LOAD_PROGRAM = `
const [kind, a, b, c] = process.argv.slice(1);
const say = (line) => process.stdout.write(line + '\\n');
process.stdin.resume().on('end', () => process.exit(0)).on('error', () => process.exit(0));
process.stdout.on('error', () => process.exit(0));
const kept = [];
if (kind === 'hold') {
  for (let n = 0; n < Number(a); n++) kept.push(Buffer.alloc(1048576, 0xa5));
  process.stdin.on('data', () => say('alive'));
  say('ready');
} else if (kind === 'serve') {
  const server = require('node:http').createServer((request, response) => {
    kept.push(Buffer.alloc(Number(b), 0xa5));
    response.end('ok');
  });
  // If a connection were closed while a visitor is late, the visits would end.
  server.keepAliveTimeout = 0;
  server.listen(a, () => say('ready'));
} else {
  const { Agent, get } = require('node:http');
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  const start = process.hrtime.bigint();
  let asked = 0, served = 0, said = -1, missed = 0;
  const lost = () => { say('served ' + served); process.exit(0); };
  setInterval(() => {
    const due = Number(process.hrtime.bigint() - start) / 1e9 * Number(b) - missed;
    // Delayed visits are not made up for at once: that would not be a leak.
    missed += Math.max(0, due - asked - 50);
    for (; asked < due && asked - served < 50; asked++) {
      get({ socketPath: a, path: '/', agent }, (response) => response.resume().on('end', () => served++)).on('error', lost);
    }
    if (served > said) { said = served; say('served ' + served); }
  }, 10);
}
`;

/** Fewer V8 threads, because the node's pids are a signal, too. */
const NODE_FLAGS = ['--v8-pool-size=1', '-e', LOAD_PROGRAM];

export function podArgv(pod: DemoPod, program: string, socket: string): readonly string[] {
  const role = pod.name === LEAKER ? ['serve', socket, String(LEAK_PER_REQUEST_BYTES)] : ['hold', String(pod.holdsMiB)];
  return [program, ...NODE_FLAGS, ...role];
}

export function visitorArgv(program: string, socket: string): readonly string[] {
  return [program, ...NODE_FLAGS, 'visit', socket, String(REQUESTS_PER_SECOND)];
}

export function uidOf(name: DemoPodName): string {
  return `${DEMO_NAMESPACE}-${name}`;
}

/** "Burstable, requests 64 MiB" */
export function podFacts({ memoryRequestMiB, isGuaranteed, priority }: DemoPod): string {
  if (memoryRequestMiB === null) return 'BestEffort, requests nothing';
  const critical = priority === 0 ? '' : ', critical priority';
  return `${isGuaranteed ? 'Guaranteed' : 'Burstable'}, requests ${memoryRequestMiB} MiB${critical}`;
}

/** A v1 Pod for the agent and the simulator; `cgroup` is relative to the node's. */
export function manifestOf({ name, priority, memoryRequestMiB, isGuaranteed }: DemoPod): object {
  const memory = memoryRequestMiB === null ? {} : { memory: `${memoryRequestMiB}Mi` };
  const resources = isGuaranteed
    ? { requests: { cpu: '1', ...memory }, limits: { cpu: '1', ...memory } }
    : { requests: memory };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      namespace: DEMO_NAMESPACE,
      uid: uidOf(name),
      annotations: { 'nodewarden.dev/cgroup': name },
    },
    spec: { priority, containers: [{ name, resources }] },
  };
}

export type DemoPaths = {
  readonly directory: string;
  readonly runtimeDirectory: string;
  readonly cgroupRoot: string;
};

/** The agent's own configuration; every other field keeps its default. */
export function configOf({ directory, runtimeDirectory, cgroupRoot }: DemoPaths): string {
  return `apiVersion: nodewarden.dev/v1alpha1
kind: NodewardenConfiguration
cgroupRoot: ${cgroupRoot}
podManifests: ${directory}/pods.d
stateDirectory: ${directory}/state
runtimeDirectory: ${runtimeDirectory}
socket: ${runtimeDirectory}/nodewarden.sock
nodefs:
  path: ${directory}
evictionHard:
${EVICTION_HARD.map(({ signal, limit }) => `  ${signal}: "${limit}"\n`).join('')}evictionPressureTransitionPeriod: ${TRANSITION_SECONDS}s
# The picture is drawn by the agent's own process here, which must not cost it looks.
monitoringInterval: { cpu: 10% }
`;
}
