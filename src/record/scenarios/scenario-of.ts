import type { CoreConfig } from '../../core/core-config.ts';
import type { MemoryGrowth } from '../../core/eviction/attribution.ts';
import { isGuarded } from '../../core/eviction/loop-guard.ts';
import { shortageOf } from '../../core/eviction/shortage.ts';
import { type MetThreshold, plainOf, type Threshold, type ThresholdValue } from '../../core/eviction/threshold.ts';
import { isMetWithMinReclaim, resolvedBy } from '../../core/eviction/thresholds-met.ts';
import { underWay } from '../../core/eviction/under-way.ts';
import type { Observation } from '../../core/observation.ts';
import { withMachineActions } from '../../core/pod/grace.ts';
import { type CandidateLimit, isBeingStopped, type PodUid, type PodView } from '../../core/pod/pod.ts';
import type { MonoMs } from '../../core/reading.ts';
import { fileSystemOf, SIGNAL_FACTS, SIGNALS, type SignalFacts, type SignalSample } from '../../core/signal.ts';
import type { State } from '../../core/state/state.ts';
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
type ScenarioInput = RecordedLook & {
  readonly name: string;
  readonly config: CoreConfig;
  /** The threshold on which it acted; null for local storage limits. */
  readonly acted: MetThreshold | null;
  /** The pods that the look decided to stop, some although the mode had excluded them; absent: none. */
  readonly victims?: readonly PodUid[];
};

/** `state`: before or after it; absent: nothing was in progress. */
export type RecordedLook = {
  readonly observation: Observation;
  readonly state?: Pick<State, 'act' | 'ownerKills'>;
};

/** The pods on which a choice depends, with what a scenario does not know because it happened before it begins. */
export function recordedPods(look: RecordedLook, { isLive, guard }: CoreConfig): readonly PodView[] {
  const { observation, state } = look;
  const { pods, atMs } = observation;
  if (!pods.known) return [];
  const awaited = state === undefined ? [] : underWay({ state, observation }).map(({ victim }) => victim.uid);
  const kills = state?.ownerKills.filter((kill) => kill.atMs < atMs) ?? [];
  return pods.value.flatMap((pod): readonly PodView[] => {
    if (isBeingStopped(pod)) return isLive && !awaited.includes(pod.uid) ? [{ ...pod, hasSurvived: true }] : [];
    if (pod.limitedBy === 'not-stoppable') return [];
    const isByOwner = pod.limitedBy !== 'restart-guard' && isGuarded(pod, kills, guard, atMs);
    return [isByOwner ? { ...pod, isGuarded: true } : pod];
  });
}

/** They hold only under a soft threshold; one whose grace period is written as finished is hard. */
const SOFT_LIMITS: readonly (CandidateLimit | null)[] = ['kubelet-evicting', 'budget-refused', 'budgets-refuse'];

/**
 * One look as a scenario from which ranking and victim can be re-derived; null if the pods were not known. A scenario begins
 * without history, so the threshold that was acted on is written as it was at this look: a finished grace period as 0s, and a
 * threshold held by its min reclaim with that added. Met thresholds of other resources, which were handled before or waited
 * (D3), are left out, and so are pods on which the choice did not depend.
 */
export function scenarioOf(input: ScenarioInput, pods = scenarioPods(input)): EvictionScenario | null {
  const { observation, config, acted } = input;
  if (!observation.pods.known) return null;
  const { memoryGrowth } = observation;
  const growth = memoryGrowth?.known ? { memoryGrowth: memoryGrowth.value } : {};
  const layout = observation.fsLayout.known ? observation.fsLayout.value : 'nodefs-only';
  const isInTurn = (threshold: Threshold): boolean => {
    const sample = observation.signals[threshold.signal];
    const isOther = acted !== null && shortageOf(threshold.signal, layout) !== shortageOf(acted.signal, layout);
    return !isOther || !sample.known || !isMetWithMinReclaim(threshold, sample.value);
  };
  return {
    apiVersion: 'nodewarden.dev/v1alpha1',
    kind: 'EvictionScenario',
    metadata: { name: input.name, labels: acted === null ? {} : { acted: acted.id } },
    config: {
      ...configOf({ ...config, thresholds: resolvedBy(config.thresholds, observation).filter(isInTurn) }, acted),
      ...guardOf(config),
    },
    node: layoutOf(observation),
    pods: pods.map(podOf),
    steps: [{ at: 0, summary: summaryOf(observation, pods, observation.atMs), ...growth }],
  };
}

/** The pods in it. */
export function scenarioPods(input: ScenarioInput): readonly PodView[] {
  const { observation, config, acted, victims = [] } = input;
  const isSoft = acted !== null && !acted.isHard;
  const recorded = recordedPods(input, config).filter(({ limitedBy }) => !(isSoft && SOFT_LIMITS.includes(limitedBy)));
  const byUid = new Map(recorded.map((pod) => [pod.uid, pod]));
  const all = observation.pods.known ? observation.pods.value : [];
  const pods = all.flatMap((pod) => byUid.get(pod.uid) ?? (victims.includes(pod.uid) ? pod : []));
  // A soft threshold is written as a hard one.
  return acted === null ? pods : withMachineActions(pods, acted, config);
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

function valueText(threshold: ThresholdValue): string {
  const value = plainOf(threshold);
  return value.kind === 'quantity' ? quantityText(value.amount) : percentText(value.fraction);
}

/** The threshold is the share of time that must be free of stall. */
function stallPercent(value: ThresholdValue): string {
  const percent = 100 - Number.parseFloat(valueText(value));
  return `${Number(percent.toPrecision(9))}%`;
}

/** The loop guard is off if a scenario does not set it. */
export function guardOf({ guard }: CoreConfig): Json {
  return guard === null ? {} : { guard: { sameOwnerKills: guard.kills, window: sayDuration(guard.windowMs) } };
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
  const { node, pods: systemPods, runtime } = nodeSections(observation, zeroMs);
  const systemContainers = [{ name: 'pods', ...systemPods }];
  return {
    node: { ...node, ...(Object.keys(systemPods).length > 0 ? { systemContainers } : {}), runtime },
    pods: pods.flatMap((pod) => statsOf(pod) ?? []),
  };
}

type Sections = { [of in SignalFacts['section']['of']]: { [name: string]: Json } };

function nodeSections({ signals }: Observation, zeroMs: MonoMs): Sections {
  const sections: Sections = { node: {}, pods: {}, runtime: {} };
  for (const signal of SIGNALS) {
    const sample = signals[signal];
    if (!sample.known) continue;
    const { section, figures } = SIGNAL_FACTS[signal];
    const time = Math.floor(sample.value.sampledAtMs - zeroMs);
    // Bytes and inodes share a section, with the time of the bytes.
    sections[section.of][section.name] = {
      time,
      ...sections[section.of][section.name],
      ...figuresOf(figures, sample.value),
    };
  }
  return sections;
}

function figuresOf(figures: SignalFacts['figures'], { available, capacity }: SignalSample): Json {
  // It may be negative, by the `reclaimable` formula or by a limit lowered below the usage, which the format cannot express.
  const written = figures.available === undefined ? available : Math.max(0, available);
  const amounts = { available: written, used: Math.max(0, Math.ceil(capacity - written)), capacity };
  const named: { [name: string]: number } = {};
  for (const amount of ['available', 'used', 'capacity'] as const) {
    const name = figures[amount];
    if (name !== undefined) named[name] = amounts[amount];
  }
  return named;
}
