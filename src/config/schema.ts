import * as z from 'zod/mini';
import { parseDuration } from '../core/duration.ts';
import { parseQuantity } from '../core/quantity.ts';
import { SIGNALS } from '../core/signal.ts';

/**
 * The one source of names, types, defaults and the JSON Schema of product.md section 3. What depends on two fields, or
 * follows the kubelet's own parser, is checked beside it: eviction.ts, shutdown.ts, section-rules.ts.
 */

type Facts = { readonly description: string; readonly examples?: readonly unknown[]; readonly [key: string]: unknown };

/** Text that `wrong` finds nothing against: it gives the sentence that says what is wrong, or null. */
function text(wrong: (value: string) => string | null, facts: Facts) {
  return z.string().check((context) => {
    const message = wrong(context.value);
    if (message !== null) {
      context.issues.push({ code: 'custom', message, input: context.value, continue: true });
    }
  }, z.meta(facts));
}

const DURATION_PATTERN = '^[+-]?(0|(([0-9]+\\.?[0-9]*|\\.[0-9]+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h))+)$';
const AMOUNT_PATTERN = '^([+-]?[0-9.]+([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?|[^\\s%]+%+)$';

/** The eviction waits for it, and for D3 it has its grace and 10 s. */
const PRE_KILL_MOST_MS = 5_000;

/** A Go duration of at least `minMs` and at most `maxMs` (any, if absent). */
function duration(
  description: string,
  example: string,
  minMs = Number.NEGATIVE_INFINITY,
  maxMs = Number.POSITIVE_INFINITY,
) {
  const wrong = (value: string): string | null => {
    const parsed = parseDuration(value);
    if (!parsed.ok) return parsed.text;
    if (parsed.duration.ms < minMs) return `must be at least ${minMs} ms, not ${value}`;
    return parsed.duration.ms > maxMs ? `must be at most ${maxMs} ms, not ${value}` : null;
  };
  return text(wrong, { description, examples: [example], pattern: DURATION_PATTERN });
}

function absolutePath(description: string, example: string) {
  return text(sayPath, { description, examples: [example], pattern: '^/' });
}
function sayPath(value: string): string | null {
  return value.startsWith('/') ? sayDots(value) : `must be an absolute path, not ${JSON.stringify(value)}`;
}
/** A directory that is made where it is missing: below /proc Node.js 20 would try for ever. */
function ownDirectory(description: string, example: string) {
  const isKernels = (value: string): boolean => /^(?:\/+\.)*\/+(?:proc|sys)(?:\/|$)/.test(value);
  const wrong = (value: string): string | null =>
    sayPath(value) ?? (isKernels(value) ? 'must not be in /proc or /sys, where no directory can be made' : null);
  return text(wrong, { description, examples: [example], pattern: '^/' });
}

const flag = (description: string) => z.boolean().check(z.meta({ description }));

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

/** Fields with the kubelet's name, meaning, syntax and default. evictionHard has no default here: absent and empty differ. */
const kubeletFields = {
  evictionHard: z.optional(
    signalMap(SIGNALS, 'thresholds that act at once; naming one drops all defaults', '10%', AMOUNT_PATTERN),
  ),
  evictionSoft: z._default(
    signalMap(SIGNALS, 'thresholds that act after their grace period', '10%', AMOUNT_PATTERN),
    {},
  ),
  evictionSoftGracePeriod: z._default(
    signalMap(SIGNALS, 'how long a soft threshold must be met', '1m30s', DURATION_PATTERN),
    {},
  ),
  evictionMinimumReclaim: z._default(
    signalMap(SIGNALS, 'what must be free above the threshold before it counts as relieved', '5%', AMOUNT_PATTERN),
    {},
  ),
  evictionPressureTransitionPeriod: z._default(
    duration('how long a condition stays after its threshold was last met; 0 means 5m', '5m'),
    '5m',
  ),
  evictionMaxPodGracePeriod: z._default(
    z
      .int()
      .check(
        z.minimum(INT32.min),
        z.maximum(INT32.max),
        z.meta({ description: 'seconds a pod gets at most when a soft threshold evicts it', examples: [60] }),
      ),
    0,
  ),
  mergeDefaultEvictionSettings: z._default(
    flag('keep the defaults of evictionHard for signals it does not name'),
    false,
  ),
  localStorageCapacityIsolation: z._default(flag('enforce local storage limits of pods'), true),
  imageMinimumGCAge: z._default(duration('the age below which an image is never removed; 0 means 2m', '2m'), '2m'),
  imageGCHighThresholdPercent: z._default(
    z
      .int()
      .check(
        z.minimum(0),
        z.maximum(100),
        z.meta({ description: 'percent of the image file system above which images are removed', examples: [85] }),
      ),
    85,
  ),
  shutdownGracePeriod: z._default(duration('time for all pods at shutdown; 0 = off', '30s'), '0s'),
  shutdownGracePeriodCriticalPods: z._default(duration('the part of it for critical pods', '10s'), '0s'),
  shutdownGracePeriodByPodPriority: z._default(
    z
      .array(
        z.strictObject({
          priority: z._default(
            z
              .int()
              .check(
                z.minimum(INT32.min),
                z.maximum(INT32.max),
                z.meta({ description: 'pods of at least this priority', examples: [0] }),
              ),
            0,
          ),
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
      description: 'the cgroup that is the node (standalone), or that holds kubepods; below each mount of cgroupfs',
      examples: ['/'],
    }),
    '/',
  ),
  cgroupDriver: z._default(
    z.enum(['cgroupfs', 'systemd']).check(z.meta({ description: 'who makes the cgroups of pods' })),
    'cgroupfs',
  ),
  cgroupsPerQOS: z._default(flag('pods live in cgroups by QoS class'), true),
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
      .check(z.meta({ description: 'with `pods` every hard memory threshold also holds for the cgroup of all pods' })),
    ['pods'],
  ),
  podLogsDir: z._default(absolutePath('where the logs of pods are', '/var/log/pods'), '/var/log/pods'),
  containerRuntimeEndpoint: z._default(
    z.string().check(z.meta({ description: 'the CRI socket', examples: ['unix:///run/containerd/containerd.sock'] })),
    'unix:///run/containerd/containerd.sock',
  ),
  systemReserved: z._default(reserved('what the system keeps for itself; only checked'), {}),
  kubeReserved: z._default(reserved('what Kubernetes keeps for itself; only checked'), {}),
};

function sayDots(value: string): string | null {
  return value.split('/').includes('..') ? 'must not contain ..' : null;
}

const argv = z.array(z.string()).check(
  (context) => {
    const [program] = context.value;
    // A transient unit of systemd takes nothing else, and no PATH decides what runs as root.
    const message = program?.startsWith('/') ? null : 'the program must be an absolute path';
    if (message !== null) context.issues.push({ code: 'custom', message, input: context.value, continue: true });
  },
  z.meta({ description: 'program and arguments, no shell', examples: [['/usr/local/bin/clean', '--all']] }),
);

const DISK_SIGNALS = SIGNALS.filter((signal) => /fs\./.test(signal));
const place = (description: string, example: string) =>
  z._default(z.strictObject({ path: z.optional(absolutePath(description, example)) }), {});

/** A socket's path is at most 107 bytes (unix(7)); letters outside ASCII are refused with the rest. */
const MAX_SOCKET_PATH = 107;
const socketPath = text(
  (value) => {
    if (!value.startsWith('/')) return 'must be an absolute path';
    return value.length > MAX_SOCKET_PATH ? `must have at most ${MAX_SOCKET_PATH} characters` : sayDots(value);
  },
  {
    description: 'unix socket for status, explain and capture; mode 0660',
    examples: ['/run/nodewarden/nodewarden.sock'],
  },
);

const percentOfCore = text(
  (value) => {
    const match = /^([0-9]+(?:\.[0-9]+)?)%$/.exec(value);
    const percent = Number(match?.[1] ?? Number.NaN);
    return percent > 0 && percent <= 100
      ? null
      : `must be a percentage above 0% and up to 100%, not ${JSON.stringify(value)}`;
  },
  { description: 'share of one core that looking may cost over a minute', examples: ['1%'], pattern: '^[0-9.]+%$' },
);

const ownFields = {
  mode: z._default(
    z.enum(['standalone', 'kubelet']).check(z.meta({ description: 'without Kubernetes, or beside a kubelet' })),
    'standalone',
  ),
  kubeletConfig: z.optional(
    absolutePath(
      'a KubeletConfiguration to import; a field set here replaces the whole imported one',
      '/var/lib/kubelet/config.yaml',
    ),
  ),
  dryRun: z._default(flag('decide and tell, but stop nothing'), false),
  podManifests: z._default(
    absolutePath('directory of v1 Pod manifests (mode standalone)', '/etc/nodewarden/pods.d'),
    '/etc/nodewarden/pods.d',
  ),
  nodefs: place('what nodefs.* measures; default /var, in mode kubelet /var/lib/kubelet', '/var'),
  imagefs: place('what imagefs.* measures; default from CRI in mode kubelet, else none', '/var/lib/containers'),
  containerfs: place('what containerfs.* measures; default from CRI in mode kubelet, else none', '/var/lib/containers'),
  reclaimCommands: z._default(
    z
      .array(
        z.strictObject({
          signal: z
            .enum(DISK_SIGNALS)
            .check(z.meta({ description: 'run when this disk signal crosses its threshold' })),
          command: argv,
          timeout: z._default(duration('it is killed after that', '30s', 1), '30s'),
        }),
      )
      .check(z.meta({ description: "the operator's own reclaim, before any pod goes" })),
    [],
  ),
  preKill: z.optional(
    z.strictObject({
      command: argv,
      timeout: z._default(duration('it is killed after that; at most 5s', '1s', 1, PRE_KILL_MOST_MS), '1s'),
    }),
  ),
  memoryAvailable: z._default(
    z
      .enum(['workingSet', 'reclaimable'])
      .check(z.meta({ description: "the kubelet's formula, or what could really be freed" })),
    'workingSet',
  ),
  oomScoreAdj: z._default(
    z.enum(['qos', 'off']).check(z.meta({ description: "processes carry the kubelet's oom_score_adj of their class" })),
    'qos',
  ),
  monitoringInterval: z._default(
    z.strictObject({
      min: z._default(duration('looks are at least this far apart', '2ms', 1), '2ms'),
      max: z._default(duration('and at most this far', '10s', 1), '10s'),
      cpu: z._default(percentOfCore, '1%'),
    }),
    { min: '2ms', max: '10s', cpu: '1%' },
  ),
  shutdownCarryOver: z._default(flag('unused time of a phase goes to the next'), false),
  shutdownCancelPolicy: z._default(
    z.enum(['promptly', 'afterPhases']).check(z.meta({ description: 'when a cancelled shutdown is honoured' })),
    'promptly',
  ),
  shutdownSecondTier: z._default(flag("also act when the machine goes down without logind's signal"), true),
  guard: z._default(
    z.strictObject({
      sameOwnerKills: z._default(
        z.int().check(
          z.minimum(0),
          z.maximum(1000),
          z.meta({
            description: 'kills of one owner within the window before another pod goes first; 0 = off',
            examples: [3],
          }),
        ),
        3,
      ),
      window: z._default(duration('how long a kill counts', '10m', 1), '10m'),
    }),
    { sameOwnerKills: 3, window: '10m' },
  ),
  http: z.optional(
    z.strictObject({
      listen: z._default(
        z.string().check(z.meta({ description: 'address and port', examples: ['127.0.0.1:20259', '[::1]:20259'] })),
        '127.0.0.1:20259',
      ),
      allowRemote: z._default(flag('allow an address that other machines can reach'), false),
      hosts: z._default(z.array(z.string()).check(z.meta({ description: 'further valid Host headers' })), []),
    }),
  ),
  socket: z._default(socketPath, '/run/nodewarden/nodewarden.sock'),
  stateDirectory: z._default(ownDirectory('record and spool', '/var/lib/nodewarden'), '/var/lib/nodewarden'),
  runtimeDirectory: z._default(ownDirectory('state, lost at reboot', '/run/nodewarden'), '/run/nodewarden'),
  log: z._default(
    z.strictObject({
      level: z._default(
        z.enum(['debug', 'info', 'warn', 'error']).check(z.meta({ description: 'the least that is logged' })),
        'info',
      ),
    }),
    { level: 'info' },
  ),
  kubernetes: z.optional(
    z
      .strictObject({
        kubeconfig: absolutePath('credentials for the API server', '/etc/nodewarden/kubeconfig'),
        nodeName: z.optional(z.string().check(z.minLength(1), z.meta({ description: "default: the host's name" }))),
        taints: z._default(flag('set own taints under pressure'), true),
        conditions: z._default(flag('set own node conditions'), true),
        pdb: z._default(
          z.enum(['respect-soft', 'required']).check(z.meta({ description: 'what a PodDisruptionBudget can stop' })),
          'respect-soft',
        ),
        protectNamespaces: z._default(
          z.array(z.string()).check(z.meta({ description: 'where the protect annotation counts' })),
          ['kube-system'],
        ),
        shutdownMode: z._default(
          z.enum(['drain', 'restart']).check(z.meta({ description: 'whether pods stay bound over a reboot' })),
          'drain',
        ),
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
  })
  .check(
    z.meta({
      title: 'NodewardenConfiguration',
      description:
        'Not expressed here, but checked: exact syntax and bounds of quantities, percentages and durations; every soft threshold needs a grace period; mode kubelet needs kubernetes.kubeconfig; http.listen beyond this machine needs allowRemote; the rules of the shutdown periods.',
    }),
  );
/** A real one has many more fields; they are neither read nor refused (kubelet-eviction.md 2.1.2). */
export const kubeletSchema = z.object({
  apiVersion: z.literal(KUBELET_API_VERSION),
  kind: z.literal('KubeletConfiguration'),
  ...kubeletFields,
});

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

/** The JSON Schema of our kind, for editors; the file config/schema.json is made of it. */
export function jsonSchema(): { readonly [key: string]: unknown } {
  return z.toJSONSchema(nodewardenSchema, { target: 'draft-2020-12', io: 'input' });
}
