/** Random shutdown scenarios, drawn from the rules: shutdown-scenarios.md section 2 with everything near an instant that matters. */
import type { Json } from './json.ts';
import { createRandom, type Random, writeMs } from './random.ts';

type Draft = { [key: string]: Json };
type Theme = {
  readonly count: number;
  readonly hooks: boolean;
  readonly volumes: boolean;
  readonly deleted: boolean;
  readonly kinds: boolean;
  readonly zeros: boolean;
};

const PRIORITIES = [-1000, -1, 0, 1, 999, 1000, 1001, 5000, 1_000_000, 1_999_999_999, 2_000_000_000, 2_000_001_000];
const NAMESPACES = ['default', 'default', 'kube-system', 'prod', 'team-a'];
const GRACES = [0, 1, 2, 3, 5, 6, 7, 10, 15, 20, 30, 45, 60, 300];

function themeOf(random: Random): Theme {
  const flag = (probability: number) => random.chance(probability);
  return {
    count: flag(0.1) ? random.int(10, 40) : random.int(0, 7),
    hooks: flag(0.4),
    volumes: flag(0.4),
    deleted: flag(0.3),
    kinds: flag(0.3),
    zeros: flag(0.3),
  };
}

function generateConfig(random: Random, theme: Theme): Draft {
  if (random.chance(0.04))
    return random.pick([{}, { shutdownGracePeriod: '0s' }, { shutdownGracePeriodByPodPriority: [] }]);
  const durations = ['30s', '10s', '20s', '1m', '30.9s', '10.5s', '1s', '1.999s', '2m0.5s', '5s', '90s'];
  const wrong = ['0.5s', '-1s', '999ms', '0s', '10s', '1ns'];
  if (random.chance(0.4)) {
    const config: Draft = { shutdownGracePeriod: random.pick(random.chance(0.05) ? wrong : durations) };
    if (random.chance(0.8))
      config['shutdownGracePeriodCriticalPods'] = random.pick(random.chance(0.1) ? wrong : durations);
    if (random.chance(0.03))
      config['shutdownGracePeriodByPodPriority'] = [{ priority: 0, shutdownGracePeriodSeconds: 5 }];
    return config;
  }
  const periods = theme.zeros ? [0, 0, 1, 2, 10] : [1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 123, 124, 130, 300];
  const list = Array.from({ length: random.pick([1, 2, 3, 4, 8]) }, () => ({
    priority: random.pick(PRIORITIES),
    shutdownGracePeriodSeconds: random.pick(periods),
  }));
  // One priority twice is allowed, but which of the two is "the first" is only sure if both say the same.
  const unique = new Map(list.map((entry) => [entry.priority, entry]));
  const twice = list[0] !== undefined && random.chance(0.1) ? [unique.get(list[0].priority) ?? list[0]] : [];
  return { shutdownGracePeriodByPodPriority: [...unique.values(), ...twice] };
}

function generateLogind(random: Random): Draft {
  const logind: Draft = { inhibitDelayMax: writeMs(random, random.pick([0, 5000, 5000, 30_000, 59_999, 600_000])) };
  if (random.chance(0.4)) logind['overrideGives'] = writeMs(random, random.pick([5000, 30_000, 60_000, 10_000_000]));
  if (random.chance(0.6)) {
    logind['overrideTakes'] = writeMs(
      random,
      random.pick([0, 1, 50, 99, 101, 299, 301, 500, 699, 701, 1000, 1499, 1501, 3000]),
    );
  }
  return logind;
}

function generatePod(random: Random, theme: Theme, index: number): Json {
  const metadata: Draft = { name: `${random.pick(['web', 'db', 'dns'])}-${index}` };
  const namespace = random.pick(NAMESPACES);
  if (namespace !== 'default' || random.chance(0.3)) metadata['namespace'] = namespace;
  if (random.chance(0.3)) metadata['uid'] = `uid-${index}`;
  if (theme.kinds && random.chance(0.3)) {
    metadata['annotations'] = random.pick<Draft>([
      { 'kubernetes.io/config.mirror': 'abc' },
      { 'kubernetes.io/config.source': 'file' },
      { 'kubernetes.io/config.source': 'api' },
    ]);
  }
  if (theme.deleted && random.chance(0.4)) metadata['deletionGracePeriodSeconds'] = random.pick(GRACES);
  const hook = () =>
    theme.hooks && random.chance(0.6) ? { lifecycle: { preStop: { exec: { command: ['/drain'] } } } } : {};
  const spec: Draft = {
    containers: Array.from({ length: random.pick([1, 1, 2, 3]) }, (_, number) => ({ name: `c${number}`, ...hook() })),
  };
  if (theme.hooks && random.chance(0.6)) {
    spec['initContainers'] = Array.from({ length: random.int(1, 4) }, (_, number) => ({
      name: `s${number}`,
      ...(random.chance(0.8) ? { restartPolicy: 'Always' } : {}),
      ...hook(),
    }));
  }
  if (random.chance(0.85)) spec['priority'] = random.pick(PRIORITIES);
  if (theme.kinds && random.chance(0.2)) spec['priorityClassName'] = 'system-node-critical';
  if (random.chance(0.85)) spec['terminationGracePeriodSeconds'] = random.pick(GRACES);
  const pod: Draft = { metadata, spec };
  if (theme.kinds && random.chance(0.4))
    pod['status'] = { phase: random.pick(['Pending', 'Running', 'Succeeded', 'Failed']) };
  return pod;
}

/** Around whole seconds and the graces, to the millisecond. */
function time(random: Random): number {
  if (random.chance(0.3)) return random.pick(GRACES) * 1000 + random.pick([0, 1, 999, 500]);
  return random.chance(0.5) ? random.int(0, 12) * 500 : random.int(0, 40_000);
}

function generateBehaviour(random: Random, theme: Theme, pod: Draft | null): Json {
  const behaviour: Draft = {};
  if (random.chance(0.7)) behaviour['stopAfter'] = writeMs(random, time(random));
  else if (random.chance(0.6)) behaviour['never'] = random.chance(0.8);
  if (random.chance(0.3)) behaviour['killDelay'] = writeMs(random, random.pick([0, 50, 100, 1000, 4200]));
  if (theme.hooks && random.chance(0.7)) behaviour['preStop'] = writeMs(random, time(random));
  if (theme.volumes && random.chance(0.6)) {
    behaviour['unmountAfter'] = writeMs(
      random,
      random.pick([0, 1, 299, 300, 301, 4000, time(random), 100_000, 122_700, 122_999, 123_001, 200_000]),
    );
  }
  if (pod === null) return behaviour;
  if (at(pod, 'metadata', 'deletionGracePeriodSeconds') !== null && random.chance(0.9)) {
    behaviour['terminatingFor'] = writeMs(random, random.pick([0, 500, 1000, 5000, time(random), 400_000]));
  }
  if (random.chance(0.2)) {
    const container: Draft = {};
    if (random.chance(0.7)) container['stopAfter'] = writeMs(random, time(random));
    if (random.chance(0.7)) container['preStop'] = writeMs(random, time(random));
    behaviour['containers'] = { [random.pick(['c0', 'c1', 's0', 's1'])]: container };
  }
  return behaviour;
}

function at(value: Draft, ...keys: readonly [string, string]): Json {
  const inner = value[keys[0]];
  return inner !== null && typeof inner === 'object' ? ((inner as Draft)[keys[1]] ?? null) : null;
}

/** The same seed, the same scenario. */
export function generateShutdown(seed: number): Json {
  const random = createRandom(seed);
  const theme = themeOf(random);
  const pods = Array.from({ length: theme.count }, (_, index) => generatePod(random, theme, index));
  const behaviour: Draft = { default: generateBehaviour(random, theme, null) };
  for (const pod of pods) {
    const { metadata } = pod as { metadata: Draft };
    const name = `${metadata['namespace'] ?? 'default'}/${metadata['name']}`;
    if (random.chance(0.7)) behaviour[name] = generateBehaviour(random, theme, pod as Draft);
  }
  return {
    apiVersion: 'nodewarden.dev/v1alpha1',
    kind: 'ShutdownScenario',
    metadata: { name: `random-${seed}` },
    config: generateConfig(random, theme),
    ...(random.chance(0.3) ? { logind: generateLogind(random) } : {}),
    pods,
    behaviour,
    ...(random.chance(0.25)
      ? { cancelAt: writeMs(random, random.pick([0, 1, time(random), time(random), 300_000])) }
      : {}),
    ...(random.chance(0.3) ? { cancelPolicy: random.pick(['afterPhases', 'promptly', 'promptly']) } : {}),
  };
}
