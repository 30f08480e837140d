/**
 * Random eviction scenarios, drawn from the rules and not from the recorded data, with what the data has little or
 * nothing of: signals that vanish and come back, several signals and kinds at once over long runs, ties, guards,
 * protection, DaemonSets, many pods, every spelling of a time or an amount.
 */
import { amountOf, type Config, type Layout, readConfig } from './eviction-config.ts';
import { generateAnew, generatePods, generateStats, type PodStyle } from './generate-pods.ts';
import { type Json, mergePatch } from './json.ts';
import { createRandom, type Random, writeAmount, writeMs } from './random.ts';

type Draft = { [key: string]: Json };

const MI = 2 ** 20;
type Capacities = { readonly [source: string]: number };

/** Round ones, those of the texts' examples for float32, and any. */
function generateCapacities(random: Random): Capacities {
  const any = random.int(1_000_000_000, 4_000_000_000_000);
  return {
    memory: random.pick([1000 * MI, 1000 * MI, 8 * 1024 * MI, any, Number.MAX_SAFE_INTEGER]),
    allocatable: random.pick([900 * MI, 900 * MI, any]),
    bytes: random.pick([16_777_216_000, 107_374_182_400, 105_151_959_040, any]),
    inodes: random.pick([1_310_720, 6_553_600, random.int(1000, 100_000_000)]),
    pids: random.pick([32_768, 192_000, random.int(1000, 4_194_304)]),
  };
}

/** Where a signal stands in the summary, and what is called what there. */
type Place = { readonly path: readonly string[]; readonly free: string; readonly total: string; readonly size: string };
const PLACES: { readonly [signal: string]: Place } = {
  'memory.available': { path: ['memory'], free: 'availableBytes', total: 'workingSetBytes', size: 'memory' },
  'allocatableMemory.available': {
    path: ['pods'],
    free: 'availableBytes',
    total: 'workingSetBytes',
    size: 'allocatable',
  },
  'nodefs.available': { path: ['fs'], free: 'availableBytes', total: 'capacityBytes', size: 'bytes' },
  'nodefs.inodesFree': { path: ['fs'], free: 'inodesFree', total: 'inodes', size: 'inodes' },
  'imagefs.available': { path: ['runtime', 'imageFs'], free: 'availableBytes', total: 'capacityBytes', size: 'bytes' },
  'imagefs.inodesFree': { path: ['runtime', 'imageFs'], free: 'inodesFree', total: 'inodes', size: 'inodes' },
  'containerfs.available': {
    path: ['runtime', 'containerFs'],
    free: 'availableBytes',
    total: 'capacityBytes',
    size: 'bytes',
  },
  'containerfs.inodesFree': { path: ['runtime', 'containerFs'], free: 'inodesFree', total: 'inodes', size: 'inodes' },
  'pid.available': { path: ['rlimit'], free: 'curproc', total: 'maxpid', size: 'pids' },
};
const SIGNALS = Object.keys(PLACES);
const WRITABLE = SIGNALS.filter((signal) => !signal.startsWith('containerfs'));

/** What this scenario is about; everything else stays quiet, so that rare things meet often. */
type Theme = {
  readonly layout: Layout;
  readonly signals: readonly string[];
  readonly steps: number;
  readonly vanishing: boolean;
  readonly times: boolean;
  readonly startMs: number | null;
  readonly failures: boolean;
  readonly relist: boolean;
  readonly containerFsByHand: boolean;
  readonly capacities: Capacities;
  /** How likely a threshold is hard, soft or both. */
  readonly hard: number;
  readonly soft: number;
  readonly pods: PodStyle;
};

function capacityOf(theme: Theme, signal: string): number {
  return theme.capacities[PLACES[signal]?.size ?? ''] ?? 0;
}

function themeOf(random: Random): Theme {
  const flag = (probability: number) => random.chance(probability);
  const disk = flag(0.6);
  const candidates = disk ? WRITABLE : WRITABLE.filter((signal) => /emory|pid/.test(signal));
  const chosen = random.some(candidates, random.pick([0.2, 0.4, 0.8]));
  const many = flag(0.08);
  return {
    layout: disk ? random.pick(['one', 'dedicated', 'split'] as const) : 'one',
    signals: chosen.length > 0 ? chosen : ['memory.available'],
    steps: flag(0.3) ? random.int(10, 30) : random.int(1, 8),
    vanishing: flag(0.25),
    times: flag(0.25),
    startMs: flag(0.5) ? Date.UTC(2026, 0, 1, 12, 0, random.int(0, 59), random.pick([0, 0, 123])) : null,
    failures: flag(0.3),
    relist: flag(0.3),
    containerFsByHand: disk && flag(0.1),
    capacities: generateCapacities(random),
    hard: random.pick([0, 0.3, 0.7, 0.9]),
    soft: random.pick([0, 0.5, 0.9]),
    pods: {
      count: many ? random.int(20, 60) : random.pick([0, 1, 2, 3, 4, 5, 6, 9]),
      disk,
      quantities: flag(0.3) ? 'odd' : 'plain',
      ties: flag(0.25),
      init: flag(0.3),
      podLevel: flag(0.2),
      volumes: disk && flag(0.7),
      limits: disk && flag(0.25),
      protection: flag(0.3),
      owners: flag(0.35),
      missing: flag(0.25),
    },
  };
}

/** A threshold's text; small enough that it is crossed only when a step means it to be. */
function writeThreshold(random: Random, theme: Theme, signal: string): string {
  const style = theme.pods.quantities;
  const capacity = capacityOf(theme, signal);
  if (random.chance(0.45)) {
    const odd = [
      '0%',
      '100%',
      '0.0%',
      '-0%',
      '10%%',
      '1e1%',
      '.5%',
      '5.%',
      '+7%',
      '33.333333333%',
      '0.1e2%',
      '16.7%',
      '99.99999%',
    ];
    if (style === 'odd') return random.pick(odd);
    return `${random.pick([5, 10, 15, 25.5, 12.3, 1, 30, 0.7])}%`;
  }
  if (style === 'odd' && random.chance(0.3))
    return random.pick(['1.5', '+1.500Ki', '1e3', '2E2', '12e-1', '0.5', '.1k', '1.1Ki', '999m', '9Ei', '10E', '1e20']);
  const unit = PLACES[signal]?.size === 'inodes' ? 1000 : PLACES[signal]?.size === 'pids' ? 100 : MI;
  return writeAmount(random, Math.max(1, Math.round((capacity * random.int(1, 30)) / 100 / unit) * unit), style);
}

function writeReclaim(random: Random, theme: Theme, signal: string): string {
  const text = random.chance(0.1) ? '0' : writeThreshold(random, theme, signal);
  return /^-?0(\.0)?%$/.test(text) ? '150%' : text;
}

function generateConfig(random: Random, theme: Theme): Draft {
  const config: Draft = {};
  const written = theme.containerFsByHand
    ? [...theme.signals, 'containerfs.available', 'containerfs.inodesFree']
    : theme.signals;
  const values = (probability: number, write: typeof writeThreshold): Draft =>
    Object.fromEntries(random.some(written, probability).map((signal) => [signal, write(random, theme, signal)]));
  if (!random.chance(0.1)) config['evictionHard'] = values(theme.hard, writeThreshold);
  const soft = values(theme.soft, writeThreshold);
  if (Object.keys(soft).length > 0) {
    config['evictionSoft'] = soft;
    const grace = () => random.pick(['10s', '10s', '30s', '29.999s', '1m', '0s', '1h', '500ms']);
    config['evictionSoftGracePeriod'] = Object.fromEntries(Object.keys(soft).map((signal) => [signal, grace()]));
  }
  if (random.chance(0.5)) config['evictionMinimumReclaim'] = values(0.6, writeReclaim);
  if (random.chance(0.7))
    config['evictionPressureTransitionPeriod'] = random.pick(['10s', '30s', '0s', '20s', '-5s', '1m', '1h']);
  if (random.chance(0.5)) config['evictionMaxPodGracePeriod'] = random.pick([0, 1, 20, 60, 120, -1]);
  if (random.chance(0.15)) config['mergeDefaultEvictionSettings'] = random.chance(0.7);
  if (random.chance(0.3))
    config['enforceNodeAllocatable'] = random.pick([[], ['none'], ['pods'], ['pods', 'system-reserved']]);
  if (random.chance(0.25)) config['localStorageCapacityIsolation'] = random.chance(0.4);
  if (theme.pods.owners && random.chance(0.6)) {
    config['guard'] = {
      sameOwnerKills: random.int(1, 3),
      window: random.pick(['10s', '1m', '600s']),
    };
  }
  return config;
}

/** The interesting values of a signal: each threshold and its recovery, one less, one more; or far from them. */
function freeOf(random: Random, theme: Theme, signal: string, config: Config): number {
  const capacity = capacityOf(theme, signal);
  const whole = (nano: bigint) => Math.min(capacity, Math.max(0, Number(nano / 1_000_000_000n)));
  const points = config.later
    .filter((one) => one.signal === signal)
    .flatMap((one) => {
      const short = amountOf(one.value, BigInt(capacity)).nano;
      const reclaim = one.minReclaim === null ? 0n : amountOf(one.minReclaim, BigInt(capacity)).nano;
      return [whole(short), whole(short), whole(short + reclaim)];
    });
  const calm = Math.floor(capacity * 0.97);
  if (points.length === 0) return random.chance(0.7) ? calm : random.int(0, capacity);
  if (random.chance(0.55)) return Math.min(capacity, Math.max(0, random.pick(points) + random.int(-1, 1)));
  if (random.chance(0.5)) return calm;
  return random.int(0, Math.max(...points));
}

function put(target: Draft, path: readonly string[], value: Json): void {
  const [key = '', ...rest] = path;
  if (rest.length === 0) target[key] = mergePatch(target[key] ?? {}, value);
  else {
    const inner: Draft = { ...((target[key] ?? {}) as Draft) };
    put(inner, rest, value);
    target[key] = inner;
  }
}

/** The part of `node` that says how much of this signal is free. */
function writeSignal(
  random: Random,
  theme: Theme,
  signal: string,
  free: number,
): { path: readonly string[]; section: Draft } {
  const place = PLACES[signal];
  if (place === undefined) throw new Error(signal);
  const capacity = capacityOf(theme, signal);
  const number = (value: number): Json => (random.chance(0.9) ? value : writeAmount(random, value, 'plain'));
  const rest = place.total === 'workingSetBytes' ? capacity - free : capacity;
  const first = place.free === 'curproc' ? capacity - free : free;
  return { path: place.path, section: { [place.free]: number(first), [place.total]: number(rest) } };
}

function writeTime(random: Random, nowMs: number, startMs: number | null): Json {
  const past = random.pick([0, 0, 1, 1000, 5000, 10_000, 20_000, 100_000]);
  if (random.chance(0.1)) return 'none';
  if (random.chance(0.05)) return `${(nowMs - past) * 1000 + random.int(0, 999)}us`;
  if (startMs !== null && random.chance(0.4)) return new Date(startMs + nowMs - past).toISOString();
  return random.chance(0.7) ? nowMs - past : `${nowMs - past}ms`;
}

/** Signals for one look, as `node` of a summary or of a patch; `allocatable` is a list in the summary. */
function generateNode(random: Random, theme: Theme, config: Config, signals: readonly string[], nowMs: number): Draft {
  const node: Draft = {};
  for (const signal of signals) {
    const { path, section } = writeSignal(random, theme, signal, freeOf(random, theme, signal, config));
    if (theme.times && random.chance(0.6)) section['time'] = writeTime(random, nowMs, theme.startMs);
    put(node, path, section);
  }
  return node;
}

function withSystemContainers(node: Draft): Draft {
  const { pods, ...rest } = node;
  if (pods === undefined) return rest;
  return { ...rest, systemContainers: pods === null ? [] : [{ name: 'kubelet' }, { name: 'pods', memory: pods }] };
}

function vanish(random: Random, node: Draft): Draft {
  const gone = random.pick(['memory', 'fs', 'rlimit', 'runtime', 'pods']);
  if (random.chance(0.5)) return { ...node, [gone]: null };
  const part = random.pick([
    'availableBytes',
    'workingSetBytes',
    'capacityBytes',
    'inodes',
    'inodesFree',
    'maxpid',
    'curproc',
  ]);
  const section = random.pick(['memory', 'fs', 'rlimit']);
  return {
    ...node,
    [section]:
      mergePatch(node[section] ?? {}, {}) === null ? null : { ...((node[section] ?? {}) as Draft), [part]: null },
  };
}

/** The kubelet's own relation: without a layout of its own, containerfs repeats imagefs or nodefs. Often kept. */
function measured(random: Random, theme: Theme, all: readonly string[]): readonly string[] {
  const extra = theme.pods.disk && random.chance(0.8) ? ['containerfs.available', 'containerfs.inodesFree'] : [];
  return random.some([...all, ...extra], 0.9);
}

function generateStep(
  random: Random,
  theme: Theme,
  config: Config,
  pods: readonly Json[],
  nowMs: number,
  first: boolean,
): Draft {
  const step: Draft = { at: writeMs(random, nowMs) };
  const quiet = first && theme.containerFsByHand;
  if (first || random.chance(0.3)) {
    let node = quiet ? {} : generateNode(random, theme, config, measured(random, theme, theme.signals), nowMs);
    if (theme.vanishing && random.chance(0.2)) node = mergePatch({}, vanish(random, node)) as Draft;
    step['summary'] = { node: withSystemContainers(node), pods: generateStats(random, pods, theme.pods) };
  } else if (random.chance(0.9)) {
    let node = generateNode(random, theme, config, random.some(measured(random, theme, theme.signals), 0.6), nowMs);
    if (theme.vanishing && random.chance(0.3)) node = vanish(random, node);
    step['summaryPatch'] = {
      node: withSystemContainers(node),
      ...(random.chance(0.3) ? { pods: generateStats(random, pods, theme.pods) } : {}),
    };
  }
  if (theme.pods.disk && random.chance(0.4) && !quiet) {
    const signals = random.some(measured(random, theme, theme.signals), 0.8);
    const node = generateNode(random, theme, config, signals, nowMs);
    step['afterReclaim'] = {
      node: withSystemContainers(theme.vanishing && random.chance(0.2) ? vanish(random, node) : node),
    };
  }
  if (theme.failures) addFailures(random, step, pods);
  if (theme.relist && random.chance(0.2)) {
    const some = random.chance(0.1) ? [] : random.some(pods, 0.8);
    const list = random.chance(0.3) ? generateAnew(random, some, theme.pods) : some;
    step['pods'] = random.chance(0.5) ? list : { kind: random.pick(['List', 'PodList']), items: list };
  }
  return step;
}

function addFailures(random: Random, step: Draft, pods: readonly Json[]): void {
  if (random.chance(0.1)) step['statsFail'] = true;
  if (random.chance(0.1)) step['afterReclaimFails'] = true;
  if (random.chance(0.1)) step['reclaimFails'] = random.pick([['containers'], ['images'], ['containers', 'images']]);
  if (!random.chance(0.3)) return;
  const names = random.some(pods, 0.5).map((pod) => {
    const { metadata } = pod as { metadata: Draft };
    return `${metadata['namespace'] ?? 'default'}/${metadata['name']}`;
  });
  step['killFails'] = random.chance(0.3) ? true : names;
}

/** The same seed, the same scenario. */
export function generateEviction(seed: number): Json {
  const random = createRandom(seed);
  const theme = themeOf(random);
  const config = generateConfig(random, theme);
  const pods = generatePods(random, theme.pods);
  const resolved = readConfig(config, theme.layout);
  const steps: Json[] = [];
  let nowMs = random.pick([0, 0, 1000, 123]);
  for (let index = 0; index < theme.steps; index += 1) {
    steps.push(generateStep(random, theme, resolved, pods, nowMs, index === 0));
    nowMs += random.pick([
      1, 300, 999, 1000, 5000, 10_000, 10_000, 10_000, 20_000, 9999, 29_999, 30_000, 60_000, 299_999,
    ]);
  }
  const node: Draft = {};
  if (theme.layout !== 'one') node['dedicatedImageFs'] = true;
  if (theme.layout === 'split') node['splitImageFs'] = true;
  return {
    apiVersion: 'nodewarden.dev/v1alpha1',
    kind: 'EvictionScenario',
    metadata: { name: `random-${seed}` },
    ...(theme.startMs === null ? {} : { start: new Date(theme.startMs).toISOString() }),
    config,
    ...(Object.keys(node).length === 0 ? {} : { node }),
    pods: random.chance(0.5) ? pods : { apiVersion: 'v1', kind: 'PodList', items: pods },
    steps,
  };
}
