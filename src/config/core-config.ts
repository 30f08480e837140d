import type { CoreConfig } from '../core/core-config.ts';
import type { Effective } from './effective.ts';
import { withTwins } from './eviction.ts';

/** What the node is measured by: a change makes the observer anew. */
export function observedOf(effective: Effective) {
  const { cgroupRoot, nodefsPath, imagefsPath, containerfsPath, memoryAvailable, evictionStall } = effective;
  return { cgroupRoot, nodefsPath, imagefsPath, containerfsPath, memoryAvailable, evictionStall };
}

/** What the core needs of the configuration. `cpus` = online CPUs, what the fastest plausible fill multiplies with. */
export function toCoreConfig(effective: Effective, cpus: number): CoreConfig {
  const { monitoringInterval, guard } = effective;
  const configured = effective.thresholds.map(({ field: _, origin: __, ...threshold }) => threshold);
  return {
    thresholds: withTwins(configured, effective.enforceNodeAllocatable),
    pressureTransitionMs: effective.pressureTransitionMs,
    maxPodGraceSeconds: effective.maxPodGraceSeconds,
    pace: { ...monitoringInterval, cpus },
    guard: guard === null ? null : { kills: guard.sameOwnerKills, windowMs: guard.windowMs },
    localStorageLimits: effective.localStorageCapacityIsolation ? 'enforce' : 'off',
    ...(effective.mode === 'kubelet' ? { hasRuntime: true } : {}),
    reclaimSignals: [...new Set(effective.reclaimCommands.map(({ signal }) => signal))],
    phases: effective.shutdown.phases,
    shutdownCancel: effective.shutdown.cancelPolicy,
    shutdownCarryOver: effective.shutdown.carryOver,
    isLive: true,
  };
}
