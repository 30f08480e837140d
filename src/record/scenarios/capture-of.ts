import type { CoreConfig } from '../../core/core-config.ts';
import type { Decision } from '../../core/decision.ts';
import { resolvedBy } from '../../core/eviction/thresholds-met.ts';
import { thresholdsOf, underWay } from '../../core/eviction/under-way.ts';
import { podName } from '../../core/pod/pod.ts';
import type { EvictionScenario, RecordedLook } from './scenario-of.ts';
import { configOf, guardOf, layoutOf, recordedPods, summaryOf } from './scenario-of.ts';
import { type Json, podOf } from './scenario-pod.ts';

/** `state`: before the look. */
export type CapturedLook = RecordedLook & { readonly decisions: readonly Decision[] };
type CaptureStep = {
  readonly at: number;
  readonly pods?: readonly Json[];
  readonly stopping?: readonly Json[];
  readonly summary: Json;
};
export type Capture = Omit<EvictionScenario, 'steps'> & {
  readonly start: string;
  readonly steps: readonly CaptureStep[];
};

/**
 * Looks of one configuration as a scenario, oldest first: what the agent saw, one step per look. A scenario cannot express
 * the grace periods that ran before the first one. Pods on which no choice depends are left out, except for the names of those
 * that were waited for, and so are looks whose pods were not known. null: no look is left.
 */
export function captureOf(name: string, looks: readonly CapturedLook[], config: CoreConfig): Capture | null {
  const seen = looks.filter(({ observation }) => observation.pods.known);
  const first = seen[0];
  if (first === undefined) return null;
  const { atMs: zeroMs, wallMs } = first.observation;
  const steps: CaptureStep[] = [];
  const firstPods = recordedPods(first, config).map(podOf);
  let before = JSON.stringify(firstPods);
  let hasEvicted = false;
  for (const look of seen) {
    const { observation, decisions } = look;
    const at = Math.floor(observation.atMs - zeroMs);
    if (at <= (steps.at(-1)?.at ?? -1)) continue;
    const views = recordedPods(look, config);
    const pods = views.map(podOf);
    const text = JSON.stringify(pods);
    // An evicted pod counts as gone until a list contains it again, as in a dry run or after a failed kill.
    const isNew = text !== before || hasEvicted;
    const summary = summaryOf(observation, views, zeroMs);
    steps.push({ at, ...(isNew ? { pods } : {}), ...stoppingIn(look), summary });
    before = text;
    hasEvicted = decisions.some(({ kind }) => kind === 'evict' || kind === 'evict-over-limit');
  }
  const thresholds = seen.reduce((known, { observation }) => resolvedBy(known, observation), config.thresholds);
  return {
    apiVersion: 'nodewarden.dev/v1alpha1',
    kind: 'EvictionScenario',
    metadata: { name, labels: CAPTURED },
    start: new Date(wallMs).toISOString(),
    config: { ...configOf({ ...config, thresholds }, null), ...guardOf(config) },
    node: layoutOf(first.observation),
    pods: firstPods,
    steps,
  };
}

/** Whom it waited for, and for which signals (D3). */
function stoppingIn({ state, observation }: CapturedLook): Pick<CaptureStep, 'stopping'> {
  const awaited =
    state === undefined ? [] : underWay({ state, observation }).filter(({ settledMs }) => settledMs === null);
  const stopping = awaited.flatMap((eviction) => {
    const signals = [...new Set(thresholdsOf(eviction).map(({ signal }) => signal))];
    return signals.length === 0 ? [] : [{ pod: podName(eviction.victim), for: signals }];
  });
  return stopping.length === 0 ? {} : { stopping };
}

/** `simulate` lets the usage of captures react to its kills (simulate/eviction/recorded.ts). */
const CAPTURED = { recorded: 'capture' };
