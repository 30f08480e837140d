import type { CoreConfig } from '../../core/core-config.ts';
import type { MemoryGrowth } from '../../core/eviction/attribution.ts';
import { shortageOf } from '../../core/eviction/shortage.ts';
import type { MetThreshold, Threshold, ThresholdValue } from '../../core/eviction/threshold.ts';
import { isMetWithMinReclaim } from '../../core/eviction/thresholds-met.ts';
import type { Observation } from '../../core/observation.ts';
import { isAwaited, isBeingStopped, type PodUid, type PodView } from '../../core/pod/pod.ts';
import type { MonoMs, Reading } from '../../core/reading.ts';
import { fileSystemOf, SIGNAL_FACTS, type Signal, type SignalSample, type SignalSource } from '../../core/signal.ts';
import { sayDuration } from '../../core/units/duration.ts';
import { percentText } from '../../core/units/float32.ts';
import { isLess } from '../../core/units/quantity.ts';
import { type Json, podOf, quantityText, statsOf } from './scenario-pod.ts';

/** scenarios.md: a document with one step, for `simulate`. */
export type EvictionScenario = {
  readonly apiVersion: 'nodewarden.dev/v1alpha1';
  readonly kind: 'EvictionScenario';
  readonly metadata: { readonly name: string; readonly labels: { readonly [key: string]: string } };
  readonly config: Json;
  readonly node: Json;
  readonly pods: readonly Json[];
  readonly steps: readonly [{ readonly at: 0; readonly summary: Json; readonly memoryGrowth?: MemoryGrowth }];
};
type ScenarioInput = {
  readonly name: string;
  readonly observation: Observation;
  readonly config: CoreConfig;
  /** The threshold on which it acted; null for local storage limits. */
  readonly acted: MetThreshold | null;
  /** The pods that the look decided to stop, some although the mode had excluded them; absent: none. */
  readonly victims?: readonly PodUid[];
};

/** A scenario does not contain what was reported before it begins. */
export const isInScenario = (pod: PodView): boolean =>
  !isBeingStopped(pod) && (pod.limitedBy === null || isAwaited(pod.limitedBy));

/**
 * One look as a scenario from which ranking and victim can be re-derived; null if the pods were not known. A scenario begins
 * without history, so the threshold that was acted on is written as it was at this look: a finished grace period as 0s, and a
 * threshold held by its min reclaim with that added. Met thresholds of other resources, which were handled before or waited
 * (D3), are left out, and so are pods that could not be chosen (being stopped by us, or excluded by the mode).
 */
export function scenarioOf(input: ScenarioInput): EvictionScenario | null {
  const { observation, config, acted, victims = [] } = input;
  if (!observation.pods.known) return null;
  const { memoryGrowth } = observation;
  const growth = memoryGrowth?.known ? { memoryGrowth: memoryGrowth.value } : {};
  const layout = observation.fsLayout.known ? observation.fsLayout.value : 'nodefs-only';
  const isInTurn = (threshold: Threshold): boolean => {
    const sample = observation.signals[threshold.signal];
    const isOther = acted !== null && shortageOf(threshold.signal, layout) !== shortageOf(acted.signal, layout);
    return !isOther || !sample.known || !isMetWithMinReclaim(threshold, sample.value);
  };
  const pods = observation.pods.value.filter((pod) => victims.includes(pod.uid) || isInScenario(pod));
  return {
    apiVersion: 'nodewarden.dev/v1alpha1',
    kind: 'EvictionScenario',
    metadata: { name: input.name, labels: acted === null ? {} : { acted: acted.id } },
    config: configOf({ ...config, thresholds: config.thresholds.filter(isInTurn) }, acted),
    node: layoutOf(observation),
    pods: pods.map(podOf),
    steps: [{ at: 0, summary: summaryOf(observation, pods, observation.atMs), ...growth }],
  };
}

/** scenarios.md 2.1. `acted`: the only threshold that is written as it was, not as configured. */
export function configOf(config: CoreConfig, acted: MetThreshold | null): Json {
  const hard: Record<string, string> = {};
  const soft: Record<string, string> = {};
  const grace: Record<string, string> = {};
  const minReclaim: Record<string, string> = {};
  let stall: Json = {};
  const isTwin = ({ id }: Threshold): boolean => id.endsWith('/twin');
  for (const threshold of config.thresholds) {
    // Twins and containerfs are derived from the others, also in the scenario.
    if (isTwin(threshold) || fileSystemOf(threshold.signal) === 'containerfs') continue;
    const isActed = acted !== null && acted.id === threshold.id;
    const { signal } = threshold;
    if (SIGNAL_FACTS[signal].configuredIn === 'own-section') {
      stall = { evictionStall: { memory: { full: stallPercent(threshold.value) } } };
      continue;
    }
    const value = isActed && isHeld(acted) ? quantityText(acted.target) : valueText(threshold.value);
    if (threshold.id.includes('/evictionSoft')) {
      soft[signal] = value;
      grace[signal] = isActed ? '0s' : sayDuration(threshold.graceMs);
    } else {
      hard[signal] = value;
    }
    if (threshold.minReclaim !== null) minReclaim[signal] = valueText(threshold.minReclaim);
  }
  return {
    evictionHard: hard,
    evictionSoft: soft,
    evictionSoftGracePeriod: grace,
    evictionMinimumReclaim: minReclaim,
    ...stall,
    evictionMaxPodGracePeriod: config.maxPodGraceSeconds,
    evictionPressureTransitionPeriod: sayDuration(config.pressureTransitionMs),
    enforceNodeAllocatable: config.thresholds.some(isTwin) ? ['pods'] : [],
    localStorageCapacityIsolation: config.localStorageLimits === 'enforce',
  };
}

/** Above its limit, and only its min reclaim still holds it. */
function isHeld(acted: MetThreshold): boolean {
  return !isLess(acted.available, acted.limit);
}

function valueText(value: ThresholdValue): string {
  return value.kind === 'quantity' ? quantityText(value.amount) : percentText(value.fraction);
}

/** The threshold is the share of time that must be free of stall. */
function stallPercent(value: ThresholdValue): string {
  const percent = 100 - Number.parseFloat(valueText(value));
  return `${Number(percent.toPrecision(9))}%`;
}

/** scenarios.md 2.2. */
export function layoutOf({ fsLayout }: Observation): Json {
  if (!fsLayout.known) return {};
  switch (fsLayout.value) {
    case 'nodefs-only':
      return {};
    case 'imagefs-separate':
      return { dedicatedImageFs: true };
    case 'containerfs-separate':
      return { dedicatedImageFs: true, splitImageFs: true };
  }
}

/** scenarios.md 2.5. `zeroMs`: the time of `at: 0`. */
export function summaryOf(observation: Observation, pods: readonly PodView[], zeroMs: MonoMs): Json {
  const node = Object.values(NODE_STATS).map((stats) => withoutNull(stats(observation, zeroMs)));
  return { node: Object.assign({}, ...node), pods: pods.flatMap((pod) => statsOf(pod) ?? []) };
}

/** The node statistics from which `simulate` reads the signals of a source. */
const NODE_STATS: { readonly [S in SignalSource]: (observation: Observation, zeroMs: MonoMs) => Json } = {
  'node-memory': (observation, zeroMs) => ({ memory: memory(observation, 'memory.available', zeroMs) }),
  'pods-memory': (observation, zeroMs) => {
    const pods = memory(observation, 'allocatableMemory.available', zeroMs);
    return { systemContainers: pods === null ? null : [{ name: 'pods', memory: pods }] };
  },
  swap: ({ signals }, zeroMs) => ({
    swap: map(signals['swap.available'], (sample) => {
      // Negative if a limit was lowered below the usage.
      const swapAvailableBytes = Math.max(0, sample.available);
      return {
        time: since(zeroMs, sample),
        swapAvailableBytes,
        swapUsageBytes: Math.max(0, sample.capacity - swapAvailableBytes),
      };
    }),
  }),
  'memory-stall': ({ signals }, zeroMs) => ({
    memoryStall: map(signals['memory.stallFree'], (sample) => ({
      time: since(zeroMs, sample),
      stalledMs: Math.ceil(sample.capacity - sample.available),
      windowMs: sample.capacity,
    })),
  }),
  pids: ({ signals }, zeroMs) => ({
    rlimit: map(signals['pid.available'], (sample) => ({
      time: since(zeroMs, sample),
      maxpid: sample.capacity,
      curproc: Math.max(0, sample.capacity - sample.available),
    })),
  }),
  nodefs: (observation, zeroMs) => ({ fs: fileSystem(observation, 'nodefs', zeroMs) }),
  imagefs: (observation, zeroMs) => ({
    runtime: withoutNull({
      imageFs: fileSystem(observation, 'imagefs', zeroMs),
      containerFs: fileSystem(observation, 'containerfs', zeroMs),
    }),
  }),
  // It is with imagefs, in `runtime`.
  containerfs: () => ({}),
};

function memory({ signals }: Observation, signal: Signal, zeroMs: MonoMs): Json | null {
  return map(signals[signal], (sample) => {
    // By the `reclaimable` formula, it may be negative, which the format cannot express.
    const availableBytes = Math.max(0, sample.available);
    const workingSetBytes = Math.max(0, sample.capacity - availableBytes);
    return { time: since(zeroMs, sample), availableBytes, workingSetBytes };
  });
}

function fileSystem({ signals }: Observation, name: 'nodefs' | 'imagefs' | 'containerfs', zeroMs: MonoMs): Json | null {
  const bytes = signals[`${name}.available`];
  const inodes = signals[`${name}.inodesFree`];
  const sampled = bytes.known ? bytes.value : inodes.known ? inodes.value : null;
  if (sampled === null) return null;
  return {
    time: since(zeroMs, sampled),
    ...map(bytes, ({ available, capacity }) => ({ availableBytes: available, capacityBytes: capacity })),
    ...map(inodes, ({ available, capacity }) => ({ inodesFree: available, inodes: capacity })),
  };
}

const since = (zeroMs: MonoMs, { sampledAtMs }: SignalSample): number => Math.floor(sampledAtMs - zeroMs);

function map(reading: Reading<SignalSample>, change: (sample: SignalSample) => Json): Json | null {
  return reading.known ? change(reading.value) : null;
}

function withoutNull(object: Json): Json {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== null));
}
