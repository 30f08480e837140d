import * as z from 'zod/mini';
import { isDisk, SIGNAL_FACTS, SIGNALS } from '../core/signal.ts';
import { parseQuantity } from '../core/units/quantity.ts';
import { text } from '../document/check.ts';
import {
  AMOUNT_PATTERN,
  absolutePath,
  DURATION_PATTERN,
  duration,
  ownDirectory,
  percentage,
  sayDots,
} from './field-text.ts';

/**
 * The single source of names, types, defaults and the JSON Schema of product.md section 3. Rules that span two fields or
 * follow the kubelet's own parser are in eviction.ts, shutdown.ts and section-rules.ts.
 */

/** Where an agent listens and keeps its files whose configuration says nothing else. */
export const DEFAULT_PATHS = {
  socket: '/run/nodewarden/nodewarden.sock',
  stateDirectory: '/var/lib/nodewarden',
  runtimeDirectory: '/run/nodewarden',
} as const;

export const flag = (description: string) => z.boolean().check(z.meta({ description }));
export const choice = <const T extends readonly string[]>(values: T, description: string) =>
  z.enum(values).check(z.meta({ description }));
export const whole = (description: string, example: number, min: number, max: number) =>
  z.int().check(z.minimum(min), z.maximum(max), z.meta({ description, examples: [example] }));

function signalMap(signals: readonly string[], description: string, example: string, pattern: string) {
  const value = z.string().check(z.meta({ description: 'a value', examples: [example], pattern }));
  return z.partialRecord(z.enum(signals).check(z.meta({ title: 'signal' })), value).check(z.meta({ description }));
}

const RESOURCES = ['cpu', 'memory', 'ephemeral-storage', 'pid'] as const;
function reserved(description: string) {
  const amount = text(
    (value) => {
      const parsed = parseQuantity(value);
      if (!parsed.ok) return parsed.text;
      return parsed.quantity.nanos.startsWith('-') ? `must not be negative, it is ${value}` : null;
    },
    { description: 'a quantity', examples: ['1Gi'] },
  );
  return z.partialRecord(z.enum(RESOURCES).check(z.meta({ title: 'resource' })), amount).check(z.meta({ description }));
}

const INT32 = { min: -(2 ** 31), max: 2 ** 31 - 1 } as const;

/** evictionHard has no default here: absent and empty differ. */
const evictionMaps = (signals: readonly string[]) => ({
  evictionHard: z.optional(
    signalMap(signals, 'thresholds that act at once; naming one drops all defaults', '10%', AMOUNT_PATTERN),
  ),
  evictionSoft: z._default(
    signalMap(signals, 'thresholds that act after their grace period', '10%', AMOUNT_PATTERN),
    {},
  ),
  evictionSoftGracePeriod: z._default(
    signalMap(signals, 'how long a soft threshold must be met before it acts', '1m30s', DURATION_PATTERN),
    {},
  ),
  evictionMinimumReclaim: z._default(
    signalMap(signals, 'how far a signal must rise above its threshold to be relieved', '5%', AMOUNT_PATTERN),
    {},
  ),
});
/** All signals that the kubelet has. */
const kubeletMaps = evictionMaps(SIGNALS.filter((signal) => SIGNAL_FACTS[signal].configuredIn === 'both-kinds'));
const ownMaps = evictionMaps(SIGNALS.filter((signal) => SIGNAL_FACTS[signal].configuredIn !== 'own-section'));

/** Fields with the kubelet's name, meaning, syntax and default. */
const kubeletFields = {
  ...kubeletMaps,
  evictionPressureTransitionPeriod: z._default(
    duration('how long a condition stays after its threshold was last met; 0 means 5m', '5m'),
    '5m',
  ),
  evictionMaxPodGracePeriod: z._default(
    whole('longest grace period, in seconds, of a pod that a soft threshold evicts', 60, INT32.min, INT32.max),
    0,
  ),
  mergeDefaultEvictionSettings: z._default(
    flag('keep the defaults of evictionHard for signals it does not name'),
    false,
  ),
  localStorageCapacityIsolation: z._default(flag('enforce local storage limits of pods'), true),
  imageMinimumGCAge: z._default(duration('images younger than this are never removed; 0 means 2m', '2m'), '2m'),
  imageGCHighThresholdPercent: z._default(
    whole('percent of the image file system above which images are removed', 85, 0, 100),
    85,
  ),
  shutdownGracePeriod: z._default(duration('time for all pods at shutdown; 0 = off', '30s'), '0s'),
  shutdownGracePeriodCriticalPods: z._default(duration('the part of it for critical pods', '10s'), '0s'),
  shutdownGracePeriodByPodPriority: z._default(
    z
      .array(
        z.strictObject({
          priority: z._default(whole('pods of at least this priority', 0, INT32.min, INT32.max), 0),
          shutdownGracePeriodSeconds: z._default(
            z.int().check(z.meta({ description: 'seconds for this phase', examples: [60] })),
            0,
          ),
        }),
      )
      .check(z.meta({ description: 'phases by priority, instead of the two durations' })),
    [],
  ),
  cgroupRoot: z._default(
    text((value) => (value === '' || value.startsWith('/') ? sayDots(value) : 'must be an absolute path, or empty'), {
      description: 'the cgroup that is the node, or the parent of kubepods (mode kubelet); below each cgroupfs mount',
      examples: ['/'],
    }),
    '/',
  ),
  cgroupDriver: z._default(choice(['cgroupfs', 'systemd'], 'what creates the cgroups of pods'), 'cgroupfs'),
  cgroupsPerQOS: z._default(flag('place pods in cgroups by QoS class'), true),
  enforceNodeAllocatable: z._default(
    z
      .array(
        z.enum([
          'none',
          'pods',
          'system-reserved',
          'kube-reserved',
          'system-reserved-compressible',
          'kube-reserved-compressible',
        ]),
      )
      .check(z.meta({ description: 'with `pods`, hard memory thresholds also apply to the cgroup of all pods' })),
    ['pods'],
  ),
  podLogsDir: z._default(absolutePath('directory of pod logs', '/var/log/pods'), '/var/log/pods'),
  containerRuntimeEndpoint: z._default(
    z.string().check(z.meta({ description: 'the CRI socket', examples: ['unix:///run/containerd/containerd.sock'] })),
    'unix:///run/containerd/containerd.sock',
  ),
  systemReserved: z._default(reserved('resources reserved for the system; only checked'), {}),
  kubeReserved: z._default(reserved('resources reserved for Kubernetes; only checked'), {}),
};

const argv = z.array(z.string()).check(
  (context) => {
    const [program] = context.value;
    // Transient units of systemd require it, and no PATH may decide what runs as root.
    const message = program?.startsWith('/') ? null : 'the program must be an absolute path';
    if (message !== null) context.issues.push({ code: 'custom', message, input: context.value, continue: true });
  },
  z.meta({ description: 'program and arguments; no shell', examples: [['/usr/local/bin/clean', '--all']] }),
);

/** The eviction waits for it, and for D3 it has its grace and 10 s. */
const PRE_KILL_MOST_MS = 5_000;
const NOTIFY_MOST_MS = 60_000;
const NOTIFY_EVENTS = ['evicted', 'not-armed', 'finding'] as const;

const DISK_SIGNALS = SIGNALS.filter(isDisk);
const place = (description: string, example: string) =>
  z._default(z.strictObject({ path: z.optional(absolutePath(description, example)) }), {});

/** A socket's path is at most 107 bytes (unix(7)); letters outside ASCII are refused with the rest. */
const MAX_SOCKET_PATH = 107;
export const socketPath = (description: string, example: string) =>
  text(
    (value) => {
      if (!value.startsWith('/')) return 'must be an absolute path';
      return value.length > MAX_SOCKET_PATH ? `must have at most ${MAX_SOCKET_PATH} characters` : sayDots(value);
    },
    { description, examples: [example] },
  );

export const httpSection = (listen: string) =>
  z.optional(
    z.strictObject({
      listen: z._default(
        z
          .string()
          .check(z.meta({ description: 'address and port', examples: [listen, listen.replace(/.*:/, '[::1]:')] })),
        listen,
      ),
      allowRemote: z._default(flag('allow an address that other machines can reach'), false),
      hosts: z._default(z.array(z.string()).check(z.meta({ description: 'further valid Host headers' })), []),
    }),
  );

export const logSection = z._default(
  z.strictObject({
    level: z._default(choice(['debug', 'info', 'warn', 'error'], 'lowest level that is logged'), 'info'),
  }),
  { level: 'info' },
);

/** A window of a few samples says nothing; a very long one is not pressure that must be relieved now. */
const STALL_MS = { least: 1_000, most: 300_000 };
const evictionStall = z.optional(
  z
    .strictObject({
      memory: z.strictObject({
        // Of all of the time is never less than none.
        full: z._default(percentage('share of the time in which all tasks are stalled on memory', '30%', 99), '30%'),
        for: z._default(duration('length of the window', '10s', STALL_MS.least, STALL_MS.most), '10s'),
        belowAvailable: z._default(
          percentage('counts only while less memory than this could be freed, whatever memoryAvailable is', '25%'),
          '25%',
        ),
      }),
    })
    .check(z.meta({ description: 'evict when the node stalls on memory', examples: [{ memory: { full: '30%' } }] })),
);

const ownFields = {
  mode: z._default(choice(['standalone', 'kubelet'], 'without Kubernetes, or beside a kubelet'), 'standalone'),
  kubeletConfig: z.optional(
    absolutePath(
      'a KubeletConfiguration to import; a field set here replaces the whole imported one',
      '/var/lib/kubelet/config.yaml',
    ),
  ),
  dryRun: z._default(flag('decide, report and record, but stop nothing'), false),
  podManifests: z._default(
    absolutePath('directory of v1 Pod manifests (mode standalone)', '/etc/nodewarden/pods.d'),
    '/etc/nodewarden/pods.d',
  ),
  nodefs: place('file system of nodefs.*; default /var, in mode kubelet /var/lib/kubelet', '/var'),
  imagefs: place('file system of imagefs.*; default from CRI in mode kubelet, else none', '/var/lib/containers'),
  containerfs: place(
    'file system of containerfs.*; default from CRI in mode kubelet, else none',
    '/var/lib/containers',
  ),
  reclaimCommands: z._default(
    z
      .array(
        z.strictObject({
          signal: choice(DISK_SIGNALS, 'run when this disk signal crosses its threshold'),
          command: argv,
          timeout: z._default(duration('killed after this time', '30s', 1), '30s'),
        }),
      )
      .check(z.meta({ description: 'your own cleanup, run before any pod is evicted' })),
    [],
  ),
  preKill: z.optional(
    z.strictObject({
      command: argv,
      timeout: z._default(duration('killed after this time; at most 5s', '1s', 1, PRE_KILL_MOST_MS), '1s'),
    }),
  ),
  notify: z.optional(
    z.strictObject({
      command: argv,
      on: z._default(
        z
          .array(z.enum(NOTIFY_EVENTS).check(z.meta({ title: 'event' })))
          .check(z.minLength(1), z.meta({ description: 'what the command is run for' })),
        [...NOTIFY_EVENTS],
      ),
      timeout: z._default(duration('killed after this time; at most 1m', '10s', 1, NOTIFY_MOST_MS), '10s'),
    }),
  ),
  evictionStall,
  memoryAvailable: z._default(
    choice(['workingSet', 'reclaimable'], "the kubelet's formula, or what could really be freed"),
    'workingSet',
  ),
  oomScoreAdj: z._default(
    choice(['qos', 'off'], "give processes the kubelet's oom_score_adj for the QoS class of their pod"),
    'qos',
  ),
  monitoringInterval: z._default(
    z.strictObject({
      min: z._default(duration('shortest interval between samples', '2ms', 1), '2ms'),
      max: z._default(duration('longest interval between samples', '10s', 1), '10s'),
      cpu: z._default(percentage('share of one core that sampling may use over a minute', '1%'), '1%'),
    }),
    { min: '2ms', max: '10s', cpu: '1%' },
  ),
  shutdownCarryOver: z._default(flag('pass the unused time of a phase on to the next'), false),
  shutdownCancelPolicy: z._default(
    choice(['promptly', 'afterPhases'], 'when a cancelled shutdown is honoured'),
    'promptly',
  ),
  shutdownSecondTier: z._default(flag("also act when the machine goes down without logind's signal"), true),
  guard: z._default(
    z.strictObject({
      sameOwnerKills: z._default(
        whole('kills of one owner in the window before another pod is evicted first; 0 = off', 3, 0, 1000),
        3,
      ),
      window: z._default(duration('how long a kill counts', '10m', 1), '10m'),
    }),
    { sameOwnerKills: 3, window: '10m' },
  ),
  http: httpSection('127.0.0.1:20259'),
  socket: z._default(
    socketPath('unix socket for status, explain and capture; mode 0660', DEFAULT_PATHS.socket),
    DEFAULT_PATHS.socket,
  ),
  stateDirectory: z._default(
    ownDirectory('record and spool', DEFAULT_PATHS.stateDirectory),
    DEFAULT_PATHS.stateDirectory,
  ),
  runtimeDirectory: z._default(
    ownDirectory('state, lost at reboot', DEFAULT_PATHS.runtimeDirectory),
    DEFAULT_PATHS.runtimeDirectory,
  ),
  log: logSection,
  kubernetes: z.optional(
    z
      .strictObject({
        kubeconfig: absolutePath('credentials for the API server', '/etc/nodewarden/kubeconfig'),
        nodeName: z.optional(z.string().check(z.minLength(1), z.meta({ description: "default: the host's name" }))),
        taints: z._default(
          z.literal([true, false, 'cluster-autoscaler']).check(
            z.meta({
              description:
                "set the agent's own taints under pressure; cluster-autoscaler: with keys that it ignores in node templates",
            }),
          ),
          true,
        ),
        conditions: z._default(flag("set the agent's own node conditions"), true),
        pdb: z._default(choice(['respect-soft', 'required'], 'what a PodDisruptionBudget can stop'), 'respect-soft'),
        protectNamespaces: z._default(
          z
            .array(z.string())
            .check(z.meta({ description: 'namespaces whose protect and evict-for annotations count' })),
          ['kube-system'],
        ),
        shutdownMode: z._default(choice(['drain', 'restart'], 'whether pods stay bound across a reboot'), 'drain'),
      })
      .check(z.meta({ description: 'mode kubelet only' })),
  ),
};

export const NODEWARDEN_API_VERSION = 'nodewarden.dev/v1alpha1';
export const KUBELET_API_VERSION = 'kubelet.config.k8s.io/v1beta1';

export const nodewardenSchema = z
  .strictObject({
    apiVersion: z.literal(NODEWARDEN_API_VERSION),
    kind: z.literal('NodewardenConfiguration'),
    ...ownFields,
    ...kubeletFields,
    ...ownMaps,
  })
  .check(
    z.meta({
      title: 'NodewardenConfiguration',
      description:
        'Checked but not expressed in this schema: exact syntax and bounds of quantities, percentages and durations; every soft threshold needs a grace period; mode kubelet needs kubernetes.kubeconfig; http.listen beyond this machine needs allowRemote; the rules of the shutdown periods.',
    }),
  );
/** A real KubeletConfiguration has many more fields. They are neither read nor refused (kubelet-eviction.md 2.1.2). */
export const kubeletSchema = z.object({
  apiVersion: z.literal(KUBELET_API_VERSION),
  kind: z.literal('KubeletConfiguration'),
  ...kubeletFields,
});
/** The fields that affect evictions, for a scenario of our own kind. */
export const evictionSchema = z.object({ ...kubeletSchema.shape, ...ownMaps, evictionStall });

export const OWN_FIELDS: readonly string[] = Object.keys(ownFields);
export const KUBELET_FIELDS: readonly string[] = Object.keys(kubeletFields);
export const KUBELET_DURATION_FIELDS: readonly string[] = [
  'evictionPressureTransitionPeriod',
  'imageMinimumGCAge',
  'shutdownGracePeriod',
  'shutdownGracePeriodCriticalPods',
];
export type NodewardenValues = z.output<typeof nodewardenSchema>;
export type KubeletValues = z.output<typeof kubeletSchema>;

/** The JSON Schema of our kind, for editors. config/schema.json is generated from it. */
export function jsonSchema(): { readonly [key: string]: unknown } {
  return z.toJSONSchema(nodewardenSchema, { target: 'draft-2020-12', io: 'input' });
}
