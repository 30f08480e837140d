import { toCoreConfig } from '../config/core-config.ts';
import type { Effective } from '../config/effective.ts';
import type { CoreConfig } from '../core/core-config.ts';
import { plainOf } from '../core/eviction/threshold.ts';

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
