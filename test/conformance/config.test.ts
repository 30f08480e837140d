import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { toCoreConfig } from '../../src/config/core-config.ts';
import type { Effective } from '../../src/config/effective.ts';
import { configOf, type LoadedConfig } from '../../src/config/load.ts';
import { UNKNOWN_SIZES } from '../../src/config/warnings.ts';
import { parseDuration, sayDuration, sayNanoseconds } from '../../src/core/duration.ts';
import { decimalOf, parseQuantity, sayQuantity } from '../../src/core/quantity.ts';
import { resolve, type Threshold, type ThresholdValue, withContainerfs } from '../../src/core/threshold.ts';

/** Answers of the real kubelet (Kubernetes 1.36.2) to 1,528 quantities, durations, thresholds and configurations. */
type Json = { readonly [key: string]: unknown };
type Case = {
  readonly case: string;
  readonly input: string;
  readonly capacity: number;
  readonly config: Json;
  readonly node?: { readonly dedicatedImageFs?: boolean; readonly splitImageFs?: boolean };
  readonly expect: unknown;
};

const CASES: readonly Case[] = gunzipSync(readFileSync(new URL('config.jsonl.gz', import.meta.url)))
  .toString('utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line));

const HEAD = { apiVersion: 'kubelet.config.k8s.io/v1beta1', kind: 'KubeletConfiguration' };

function load(config: Json): LoadedConfig {
  return configOf(JSON.stringify({ ...HEAD, ...config }), 'kubelet.yaml', UNKNOWN_SIZES);
}

function quantityAnswer({ input }: Case): unknown {
  const parsed = parseQuantity(input);
  if (!parsed.ok) return 'error';
  const { quantity } = parsed;
  const canonical = sayQuantity({ ...quantity, text: null });
  return { canonical, printed: sayQuantity(quantity), value: decimalOf(quantity) };
}

function durationAnswer({ input }: Case): unknown {
  const parsed = parseDuration(input);
  if (!parsed.ok) return 'error';
  const { nanoseconds } = parsed.duration;
  return { canonical: sayNanoseconds(nanoseconds), nanoseconds };
}

function thresholdAnswer({ input, capacity }: Case): unknown {
  const { effective } = load({ evictionHard: { 'memory.available': input } });
  if (effective === null) return 'error';
  const [threshold] = effective.thresholds;
  return threshold === undefined ? 'ignored' : { value: decimalOf(resolve(threshold.value, capacity)) };
}

function minReclaimAnswer({ input, capacity }: Case): unknown {
  const { effective } = load({ evictionMinimumReclaim: { 'memory.available': input } });
  const value = effective?.minReclaims['memory.available'];
  return value === undefined ? 'error' : { value: decimalOf(resolve(value, capacity)) };
}

function sayValue(value: ThresholdValue): unknown {
  return value.kind === 'quantity' ? { quantity: sayQuantity(value.amount) } : { fraction: value.fraction };
}

function asSet(thresholds: readonly Threshold[]): unknown {
  const said = thresholds.map(({ signal, graceMs, value, minReclaim }) => ({
    signal,
    gracePeriod: sayDuration(graceMs),
    value: sayValue(value),
    ...(minReclaim === null ? {} : { minReclaim: sayValue(minReclaim) }),
  }));
  return sorted(said);
}

function sorted(list: readonly unknown[]): readonly string[] {
  const inKeyOrder = (value: unknown): unknown =>
    typeof value === 'object' && value !== null
      ? Object.fromEntries(
          Object.entries(value)
            .sort()
            .map(([key, inner]) => [key, inKeyOrder(inner)]),
        )
      : value;
  return list.map((item) => JSON.stringify(inKeyOrder(item))).sort();
}

function layoutOf(node: NonNullable<Case['node']>) {
  if (node.dedicatedImageFs !== true) return 'nodefs-only';
  return node.splitImageFs === true ? 'containerfs-separate' : 'imagefs-separate';
}

function configAnswer({ config, node }: Case): unknown {
  const { effective } = load(config);
  if (effective === null) return 'error';
  const { thresholds } = toCoreConfig(effective, 1);
  return {
    localStorageCapacityIsolation: effective.localStorageCapacityIsolation,
    maxPodGracePeriodSeconds: effective.maxPodGraceSeconds,
    pressureTransitionPeriod: sayDuration(effective.pressureTransitionMs),
    thresholds: asSet(thresholds),
    ...(node === undefined ? {} : { effective: asSet(withContainerfs(thresholds, layoutOf(node)).all) }),
  };
}

/** The kubelet's lists of thresholds are sets. */
function withSets(answer: unknown): unknown {
  if (typeof answer !== 'object' || answer === null) return answer;
  return Object.fromEntries(
    Object.entries(answer).map(([key, value]) => [key, Array.isArray(value) ? sorted(value) : value]),
  );
}

function shutdownAnswer(effective: Effective | null): unknown {
  if (effective === null) return 'error';
  const { totalMs, criticalMs, byPodPriority } = effective.shutdown;
  return {
    shutdownGracePeriod: sayDuration(totalMs),
    shutdownGracePeriodByPodPriority: byPodPriority.map(({ priority, graceSeconds }) => ({
      priority,
      shutdownGracePeriodSeconds: graceSeconds,
    })),
    shutdownGracePeriodCriticalPods: sayDuration(criticalMs),
  };
}

const ANSWERS = [
  { name: 'quantity', count: 367, answer: quantityAnswer },
  { name: 'duration', count: 214, answer: durationAnswer },
  { name: 'threshold', count: 275, answer: thresholdAnswer },
  { name: 'minReclaim', count: 122, answer: minReclaimAnswer },
] as const;

describe('the kubelet answers the same', () => {
  it.each(ANSWERS)('to all $count cases of $name', ({ name, count, answer }) => {
    const cases = CASES.filter((entry) => entry.case === name);
    expect(cases).toHaveLength(count);
    for (const entry of cases) expect(answer(entry), JSON.stringify(entry)).toEqual(entry.expect);
  });

  it('to all 397 configurations of eviction', () => {
    const cases = CASES.filter((entry) => entry.case === 'config');
    expect(cases).toHaveLength(397);
    for (const entry of cases) expect(configAnswer(entry), JSON.stringify(entry)).toEqual(withSets(entry.expect));
  });

  it('to all 153 configurations of shutdown, but for negative seconds in the list, which are refused here', () => {
    const cases = CASES.filter((entry) => entry.case === 'shutdownConfig');
    expect(cases).toHaveLength(153);
    let refused = 0;
    for (const entry of cases) {
      const { effective, problems } = load(entry.config);
      const isNegative = problems.length > 0 && problems.every(({ text }) => text.startsWith('must not be negative'));
      if (isNegative && entry.expect !== 'error') {
        expect(JSON.stringify(entry.config)).toMatch(/"shutdownGracePeriodSeconds":-/);
        refused += 1;
      } else expect(shutdownAnswer(effective), JSON.stringify(entry)).toEqual(entry.expect);
    }
    expect(refused).toBe(9);
  });
});
