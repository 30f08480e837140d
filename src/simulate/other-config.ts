import { toCoreConfig } from '../config/core-config.ts';
import type { Effective } from '../config/effective.ts';
import { type HostSizes, UNKNOWN_SIZES, withMargin } from '../config/margin.ts';
import { originOf } from '../config/setting.ts';
import type { CoreConfig } from '../core/core-config.ts';
import type { Signal } from '../core/signal.ts';
import { createStatsReader } from './eviction/stats.ts';
import type { EvictionScenario, Json } from './scenario.ts';

/**
 * How a configuration file, loaded without the sizes of a host, applies to the node of a scenario: a NodewardenConfiguration
 * as in the agent there, a KubeletConfiguration as in the kubelet, which has neither loop guard nor margin.
 */
export function coreConfigOf(effective: Effective, scenario: EvictionScenario): CoreConfig {
  const isKubelets = effective.kubeletConfig !== null && originOf(effective, 'evictionHard')?.kind !== 'file';
  const { isLive: _, ...config } = toCoreConfig(isKubelets ? withMargins(effective, scenario) : effective, 1);
  return effective.kind === 'KubeletConfiguration' ? { ...config, guard: null } : config;
}

/** A threshold whose capacity is not in the scenario's first stats stays unchanged. */
function withMargins(effective: Effective, { startWallMs, steps }: EvictionScenario): Effective {
  const signals = createStatsReader(startWallMs).signalsOf(firstSummary(steps), 0, 'fresh');
  const capacityOf = (signal: Signal): number | null => {
    const sample = signals[signal];
    return sample.known ? sample.value.capacity : null;
  };
  const diskOf = (name: 'nodefs' | 'imagefs'): HostSizes['nodefs'] => ({
    bytes: capacityOf(`${name}.available`) ?? 0,
    inodes: capacityOf(`${name}.inodesFree`) ?? 0,
  });
  const sizes: HostSizes = {
    ...UNKNOWN_SIZES,
    memoryBytes: capacityOf('memory.available'),
    pids: capacityOf('pid.available'),
    swapBytes: capacityOf('swap.available'),
    nodefs: diskOf('nodefs'),
    imagefs: diskOf('imagefs'),
  };
  const thresholds = effective.thresholds.map((threshold) =>
    capacityOf(threshold.signal) === null
      ? threshold
      : withMargin(threshold, effective.imageGCHighThresholdPercent, sizes),
  );
  return { ...effective, thresholds };
}

/** The first stats in a scenario. */
function firstSummary(steps: EvictionScenario['steps']): Json {
  for (const { stats } of steps) {
    const given = stats.kind === 'failed' ? stats.kept : stats;
    if (given.kind !== 'same') return given.kind === 'whole' ? given.summary : given.patch;
  }
  return {};
}
