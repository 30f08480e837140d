import { toCoreConfig } from '../config/core-config.ts';
import type { Effective } from '../config/effective.ts';
import type { CoreConfig } from '../core/core-config.ts';
import { plainOf } from '../core/eviction/threshold.ts';
import type { EvictionResult } from './eviction/result.ts';
import type { ShutdownResult } from './shutdown/result.ts';

/**
 * How a configuration file, loaded without the sizes of a host, applies to the node of a scenario: a NodewardenConfiguration
 * as in the agent there, a KubeletConfiguration as in the kubelet, which has neither loop guard nor margin.
 */
export function coreConfigOf(effective: Effective): CoreConfig {
  const { isLive: _, ...config } = toCoreConfig(effective, 1);
  if (effective.kind !== 'KubeletConfiguration') return config;
  const thresholds = config.thresholds.map(({ value, ...rest }) => ({ ...rest, value: plainOf(value) }));
  return { ...config, thresholds, guard: null };
}

/** `at` in milliseconds; `signal` as in `evicted[].signal`, or SIGKILL for a pod that did not finish in a shutdown. */
export type Loss = { readonly pod: string; readonly at: number; readonly signal: string };
/** scenarios.md 6.3: what another configuration avoids (as it was), adds, or makes earlier or later (as it then is). */
export type Comparison = {
  readonly avoided: readonly Loss[];
  readonly added: readonly Loss[];
  readonly earlier: readonly Loss[];
  readonly later: readonly Loss[];
};

/** The n-th loss of a pod is compared with its n-th under the other configuration. Each list in order of time. */
export function compareLosses(before: readonly Loss[], after: readonly Loss[]): Comparison {
  const comparison = { avoided: [] as Loss[], added: [] as Loss[], earlier: [] as Loss[], later: [] as Loss[] };
  const rest = new Map<string, Loss[]>();
  for (const loss of after) rest.set(loss.pod, [...(rest.get(loss.pod) ?? []), loss]);
  for (const loss of before) {
    const other = rest.get(loss.pod)?.shift();
    if (other === undefined) comparison.avoided.push(loss);
    else if (other.at < loss.at) comparison.earlier.push(other);
    else if (other.at > loss.at) comparison.later.push(other);
  }
  comparison.added.push(...[...rest.values()].flat());
  for (const losses of Object.values(comparison)) losses.sort((a, b) => a.at - b.at);
  return comparison;
}

/** `at` in milliseconds. */
export type LookResult = { readonly at: number; readonly result: EvictionResult };

/** A failed and retried kill is one loss, at its first attempt. */
export function lossesOfLooks(looks: readonly LookResult[]): readonly Loss[] {
  const failed = new Set<string>();
  const losses: Loss[] = [];
  for (const { at, result } of looks) {
    for (const { pod, signal, killFailed } of result.evicted) {
      if (!failed.has(pod)) losses.push({ pod, at, signal });
      if (killFailed) failed.add(pod);
      else failed.delete(pod);
    }
  }
  return losses;
}

/**
 * Which pods get SIGKILL in a shutdown under each of two configurations. Empty if one of them is not armed: what then
 * happens to the pods is unknown, and must not look like an improvement.
 */
export function lossesOfShutdowns(
  before: ShutdownResult,
  after: ShutdownResult,
): readonly [readonly Loss[], readonly Loss[]] {
  const isArmed = before.armed === true && after.armed === true;
  return isArmed ? [killsIn(before), killsIn(after)] : [[], []];
}

function killsIn({ pods }: ShutdownResult): readonly Loss[] {
  return Object.entries(pods ?? {}).flatMap(([pod, ended]) =>
    ended?.killedAt === undefined ? [] : [{ pod, at: ended.killedAt, signal: 'SIGKILL' }],
  );
}
