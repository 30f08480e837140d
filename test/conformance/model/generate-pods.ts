/** Random pods and what the statistics say of them, steered to where the rules turn. */
import type { Json } from './json.ts';
import { type Random, writeAmount } from './random.ts';

type Draft = { [key: string]: Json };

/** What the pods of one scenario are like. */
export type PodStyle = {
  readonly count: number;
  readonly disk: boolean;
  readonly quantities: 'plain' | 'odd';
  /** Few different amounts and priorities, so that pods come out equal. */
  readonly ties: boolean;
  readonly init: boolean;
  readonly podLevel: boolean;
  readonly volumes: boolean;
  readonly limits: boolean;
  readonly protection: boolean;
  readonly owners: boolean;
  readonly missing: boolean;
};

const MI = 2 ** 20;
const NAMESPACES = ['default', 'default', 'kube-system', 'prod', 'a', 'a-b', 'a0'];
const NAMES = ['web', 'db', 'w', 'w-1', 'cache', 'log', 'job'];
const PRIORITIES = [0, 0, 0, 0, -10, -1, 1, 100, 1000, 1_000_000_000, 1_999_999_999];

export function generatePods(random: Random, style: PodStyle): readonly Json[] {
  return Array.from({ length: style.count }, (_, index) => generatePod(random, style, index));
}

function generatePod(random: Random, style: PodStyle, index: number): Json {
  const metadata: Draft = { name: `${random.pick(NAMES)}-${index}` };
  const namespace = random.pick(NAMESPACES);
  if (namespace !== 'default' || random.chance(0.2)) metadata['namespace'] = namespace;
  if (random.chance(0.4)) metadata['uid'] = `uid-${random.int(0, 9)}-${index}`;
  if (random.chance(style.ties ? 0.8 : 0.2)) metadata['creationTimestamp'] = `2026-01-0${random.int(1, 4)}T00:00:00Z`;
  if (style.owners) metadata['ownerReferences'] = generateOwners(random);
  const annotations = generateAnnotations(random, style);
  if (Object.keys(annotations).length > 0) metadata['annotations'] = annotations;
  const spec: Draft = { containers: generateContainers(random, style, 'c', random.pick([1, 1, 1, 2, 3])) };
  if (style.init && random.chance(0.6)) {
    spec['initContainers'] = generateContainers(random, style, 'i', random.int(1, 3)).map((one) =>
      random.chance(0.5) ? { ...one, restartPolicy: 'Always' } : one,
    );
  }
  if (style.podLevel && random.chance(0.6)) spec['resources'] = generatePodLevel(random, style);
  if (random.chance(0.15)) spec['overhead'] = { memory: '30Mi', 'ephemeral-storage': '1Mi' };
  if (!random.chance(0.4)) spec['priority'] = random.pick(style.ties ? [0, 0, 0, 100] : PRIORITIES);
  if (style.protection && random.chance(0.15)) spec['priority'] = random.pick([2_000_000_000, 2_000_001_000]);
  if (style.protection && random.chance(0.2)) {
    spec['priorityClassName'] = random.pick(['system-node-critical', 'system-cluster-critical', 'high']);
  }
  if (random.chance(0.5)) spec['terminationGracePeriodSeconds'] = random.pick([0, 1, 5, 20, 30, 60, 3600]);
  if (style.volumes) spec['volumes'] = generateVolumes(random, style);
  const pod: Draft = { metadata, spec };
  if (random.chance(0.15)) pod['status'] = { phase: random.pick(['Running', 'Pending', 'Succeeded', 'Failed']) };
  return pod;
}

function generateOwners(random: Random): Json {
  if (random.chance(0.2)) return [];
  const kind = random.pick(['ReplicaSet', 'ReplicaSet', 'DaemonSet', 'StatefulSet', 'Job']);
  const number = random.int(0, 1);
  return [{ apiVersion: 'apps/v1', kind, name: `${kind}-${number}`, uid: `owner-${kind}-${number}`, controller: true }];
}

function generateAnnotations(random: Random, style: PodStyle): Draft {
  const annotations: Draft = {};
  if (!style.protection) return annotations;
  if (random.chance(0.1)) annotations['kubernetes.io/config.mirror'] = 'abc';
  if (random.chance(0.15)) annotations['kubernetes.io/config.source'] = random.pick(['api', 'file', 'http']);
  if (random.chance(0.3)) annotations['nodewarden.dev/protect'] = random.pick(['true', 'true', 'false']);
  return annotations;
}

function amount(random: Random, style: PodStyle): string {
  if (style.ties) return random.pick(['100Mi', '50Mi']);
  // Whole bytes only: the program rounds requests up to whole bytes (architecture.md R6), the kubelet compares fractions.
  if (style.quantities === 'odd' && random.chance(0.2))
    return random.pick([' 100Mi', '100Mi ', '.5Gi', '0.25Gi', '+1e6']);
  return writeAmount(random, random.int(0, 400) * (random.chance(0.8) ? MI : 1000), style.quantities);
}

function generateContainers(random: Random, style: PodStyle, prefix: string, count: number): readonly Draft[] {
  return Array.from({ length: count }, (_, index) => {
    const container: Draft = { name: `${prefix}${index}` };
    const requests: Draft = {};
    const limits: Draft = {};
    if (random.chance(0.6)) requests['memory'] = amount(random, style);
    if (random.chance(0.3)) limits['memory'] = amount(random, style);
    if (style.disk && random.chance(0.5)) requests['ephemeral-storage'] = amount(random, style);
    if (style.limits && random.chance(0.5))
      limits['ephemeral-storage'] = random.chance(0.1) ? '0' : amount(random, style);
    if (random.chance(0.2)) requests['cpu'] = '100m';
    const resources: Draft = {};
    if (Object.keys(requests).length > 0) resources['requests'] = requests;
    if (Object.keys(limits).length > 0) resources['limits'] = limits;
    if (Object.keys(resources).length > 0) container['resources'] = resources;
    return container;
  });
}

function generatePodLevel(random: Random, style: PodStyle): Json {
  const resources: Draft = {};
  const section = () => {
    const found: Draft = {};
    if (random.chance(0.7)) found['memory'] = amount(random, style);
    if (random.chance(0.3)) found['cpu'] = '1';
    if (random.chance(0.1)) found['hugepages-2Mi'] = '2Mi';
    return found;
  };
  if (random.chance(0.6)) resources['requests'] = section();
  if (random.chance(0.6)) resources['limits'] = section();
  return resources;
}

function generateVolumes(random: Random, style: PodStyle): Json {
  return Array.from({ length: random.int(0, 4) }, (_, index) => {
    const emptyDir: Draft = {};
    if (random.chance(0.3)) emptyDir['medium'] = random.pick(['', 'Memory', 'HugePages', 'HugePages-2Mi']);
    if (style.limits && random.chance(0.6)) emptyDir['sizeLimit'] = random.chance(0.1) ? '0' : amount(random, style);
    const kinds: readonly Draft[] = [
      { emptyDir },
      { emptyDir },
      { emptyDir },
      { hostPath: { path: '/srv' } },
      { configMap: { name: 'c' } },
      { gitRepo: { repository: 'r' } },
      { secret: { secretName: 's' } },
      { downwardAPI: {} },
      { projected: { sources: [] } },
      { persistentVolumeClaim: { claimName: 'p' } },
    ];
    return { name: `v${index}`, ...random.pick(kinds) };
  });
}

/** The same pods under the same names, with other specifications (resized, or made anew). */
export function generateAnew(random: Random, pods: readonly Json[], style: PodStyle): readonly Json[] {
  return pods.map((pod, index) => {
    const { metadata } = pod as { metadata: Json };
    return { ...(generatePod(random, style, index) as Draft), metadata };
  });
}

/** The pod's own requests and limits. */
function ownAmounts(pod: Json): readonly number[] {
  return [...JSON.stringify(pod).matchAll(/"(\d+)(Mi|Ki|k|M|)"/g)].map(([, digits, unit]) => {
    const size = { Mi: MI, Ki: 1024, k: 1000, M: 1e6, '': 1 }[unit ?? ''] ?? 1;
    return Number(digits) * size;
  });
}

/** Numbers that matter to a pod: its own amounts, one more, one less; or a number out of a pool. */
function usage(random: Random, own: readonly number[], style: PodStyle): number {
  if (style.ties) return random.pick([50, 100, 100, 150]) * MI;
  if (own.length > 0 && random.chance(0.6)) return Math.max(0, random.pick(own) + random.int(-1, 1));
  return random.chance(0.1) ? 0 : random.int(0, 500) * MI + random.int(0, 3);
}

/** Entries of the summary for these pods, some of them wrong, missing or for pods that are not there. */
export function generateStats(random: Random, pods: readonly Json[], style: PodStyle): readonly Json[] {
  const entries: Json[] = [];
  for (const pod of pods) {
    if (style.missing && random.chance(0.2)) continue;
    entries.push(generateEntry(random, pod, style));
  }
  if (style.missing && random.chance(0.2))
    entries.push({ podRef: { name: 'gone', namespace: 'default' }, memory: { workingSetBytes: 5 } });
  return entries;
}

function generateEntry(random: Random, pod: Json, style: PodStyle): Json {
  const { metadata, spec } = pod as { metadata: Draft; spec: Draft };
  const podRef: Draft = { name: metadata['name'] ?? '' };
  if (metadata['namespace'] !== undefined) podRef['namespace'] = metadata['namespace'];
  if (metadata['uid'] !== undefined && random.chance(0.7)) podRef['uid'] = metadata['uid'];
  if (style.missing && random.chance(0.05)) podRef['uid'] = 'of-another';
  const known = () => !style.missing || random.chance(0.85);
  const own = ownAmounts(pod);
  const bytes = () => usage(random, own, style);
  const inodes = () => (style.ties ? random.pick([10, 20]) : random.int(0, 500_000));
  const use = () => ({ ...(known() ? { usedBytes: bytes() } : {}), ...(known() ? { inodesUsed: inodes() } : {}) });
  const all = [...((spec['containers'] ?? []) as Draft[]), ...((spec['initContainers'] ?? []) as Draft[])];
  const containers = all
    .filter(() => random.chance(0.9))
    .map((one) => ({
      name: one['name'] ?? '',
      ...(known() ? { memory: known() ? { workingSetBytes: bytes() } : {} } : {}),
      ...(style.disk && known() ? { rootfs: use() } : {}),
      ...(style.disk && known() ? { logs: use() } : {}),
    }));
  const entry: Draft = { podRef };
  if (known()) entry['memory'] = known() ? { workingSetBytes: bytes() } : random.pick([{}, { usageBytes: 5 }]);
  if (known()) entry['process_stats'] = known() ? { process_count: random.pick([1, 5, 5, random.int(0, 3000)]) } : {};
  if (random.chance(0.9)) entry['containers'] = random.chance(0.3) ? containers.toReversed() : containers;
  if (style.disk && known()) entry['ephemeral-storage'] = known() ? { usedBytes: bytes() } : {};
  const volumes = ((spec['volumes'] ?? []) as Draft[]).filter(() => random.chance(0.85));
  if (volumes.length > 0) entry['volume'] = volumes.map((one) => ({ name: one['name'] ?? '', ...use() }));
  return entry;
}
