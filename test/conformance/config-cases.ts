// The kubelet's answers to quantities, durations, thresholds and whole configurations (config.jsonl.gz), and ours.
import { toCoreConfig } from '../../src/config/core-config.ts';
import { configOf, type LoadedConfig } from '../../src/config/load.ts';
import { UNKNOWN_SIZES } from '../../src/config/margin.ts';
import { plainOf, type Threshold, type ThresholdValue, withContainerfs } from '../../src/core/eviction/threshold.ts';
import { resolve } from '../../src/core/eviction/thresholds-met.ts';
import { isObject } from '../../src/core/shape.ts';
import type { FsLayout } from '../../src/core/signal.ts';
import { parseDuration, sayDuration, sayNanoseconds } from '../../src/core/units/duration.ts';
import { decimalOf, parseQuantity, sayQuantity } from '../../src/core/units/quantity.ts';
import type { Json } from '../../src/simulate/scenario.ts';

const HEAD = { apiVersion: 'kubelet.config.k8s.io/v1beta1', kind: 'KubeletConfiguration' };

/** What we answer to a case, in the shape of its `expect`; null: no such kind of case. Lists of thresholds are sorted. */
export function configAnswer(entry: Json): { readonly answer: unknown } | null {
  const answer = ANSWERS[String(entry['case'])];
  return answer === undefined ? null : { answer: answer(entry) };
}

/** The kubelet's lists of thresholds are sets, so equal is what is equal when sorted. */
export function withSets(expected: unknown): unknown {
  if (!isObject(expected)) return expected;
  const isSet = (key: string): boolean => key === 'thresholds' || key === 'effective';
  return Object.fromEntries(
    Object.entries(expected).map(([key, value]) => [key, isSet(key) && Array.isArray(value) ? sorted(value) : value]),
  );
}

const ANSWERS: { readonly [name: string]: (entry: Json) => unknown } = {
  quantity: quantityAnswer,
  duration: durationAnswer,
  threshold: thresholdAnswer,
  minReclaim: minReclaimAnswer,
  config: evictionAnswer,
  shutdownConfig: shutdownAnswer,
};

function load(config: unknown): LoadedConfig {
  return configOf(JSON.stringify({ ...HEAD, ...Object(config) }), 'kubelet.yaml', UNKNOWN_SIZES);
}

function quantityAnswer({ input }: Json): unknown {
  const parsed = parseQuantity(String(input));
  if (!parsed.ok) return 'error';
  const { quantity } = parsed;
  const canonical = sayQuantity({ ...quantity, text: null });
  return { canonical, printed: sayQuantity(quantity), value: decimalOf(quantity) };
}

function durationAnswer({ input }: Json): unknown {
  const parsed = parseDuration(String(input));
  if (!parsed.ok) return 'error';
  const { nanoseconds } = parsed.duration;
  return { canonical: sayNanoseconds(nanoseconds), nanoseconds };
}

function thresholdAnswer({ input, capacity }: Json): unknown {
  const { effective } = load({ evictionHard: { 'memory.available': input } });
  if (effective === null) return 'error';
  const [threshold] = effective.thresholds;
  return threshold === undefined
    ? 'ignored'
    : { value: decimalOf(resolve(plainOf(threshold.value), Number(capacity))) };
}

function minReclaimAnswer({ input, capacity }: Json): unknown {
  const { effective } = load({ evictionMinimumReclaim: { 'memory.available': input } });
  const value = effective?.minReclaims['memory.available'];
  return value === undefined ? 'error' : { value: decimalOf(resolve(value, Number(capacity))) };
}

function evictionAnswer({ config, node }: Json): unknown {
  const { effective } = load(config);
  if (effective === null) return 'error';
  const { thresholds } = toCoreConfig(effective, 1);
  return {
    localStorageCapacityIsolation: effective.localStorageCapacityIsolation,
    maxPodGracePeriodSeconds: effective.maxPodGraceSeconds,
    pressureTransitionPeriod: sayDuration(effective.pressureTransitionMs),
    thresholds: asSet(thresholds),
    ...(isObject(node) ? { effective: asSet(withContainerfs(thresholds, layoutOf(node)).all) } : {}),
  };
}

function shutdownAnswer({ config }: Json): unknown {
  const { effective } = load(config);
  if (effective === null) return 'error';
  const { totalMs, criticalMs, byPodPriority } = effective.shutdown;
  return {
    shutdownGracePeriod: sayDuration(totalMs),
    shutdownGracePeriodByPodPriority: byPodPriority.map(({ priority, periodSeconds: graceSeconds }) => ({
      priority,
      shutdownGracePeriodSeconds: graceSeconds,
    })),
    shutdownGracePeriodCriticalPods: sayDuration(criticalMs),
  };
}

function layoutOf(node: Json): FsLayout {
  if (node['dedicatedImageFs'] !== true) return 'nodefs-only';
  return node['splitImageFs'] === true ? 'containerfs-separate' : 'imagefs-separate';
}

function sayValue(threshold: ThresholdValue): unknown {
  const value = plainOf(threshold);
  return value.kind === 'quantity' ? { quantity: sayQuantity(value.amount) } : { fraction: value.fraction };
}

function asSet(thresholds: readonly Threshold[]): readonly string[] {
  return sorted(
    thresholds.map(({ signal, graceMs, value, minReclaim }) => ({
      signal,
      gracePeriod: sayDuration(graceMs),
      value: sayValue(value),
      ...(minReclaim === null ? {} : { minReclaim: sayValue(minReclaim) }),
    })),
  );
}

function sorted(list: readonly unknown[]): readonly string[] {
  return list.map((item) => JSON.stringify(inKeyOrder(item))).toSorted();
}

export function inKeyOrder(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inKeyOrder);
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(([key, inner]) => [key, inKeyOrder(inner)] as const);
  return Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
