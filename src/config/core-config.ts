import type { CoreConfig } from '../core/core-config.ts';
import type { Signal } from '../core/signal.ts';
import type { Effective } from './effective.ts';
import { withTwins } from './eviction.ts';

/** How the node is measured: a change recreates the observer. */
export function observedOf(effective: Effective) {
  const { mode, nodefsPath, imagefsPath, containerfsPath, memoryAvailable, evictionStall } = effective;
  // Beside a kubelet the node is the machine, and cgroupRoot is where kubepods lies (product.md section 4).
  const cgroupRoot = mode === 'kubelet' ? '/' : effective.cgroupRoot;
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
    localStorageLimits: localStorageOf(effective),
    ...(effective.mode === 'kubelet' ? { hasRuntime: true } : {}),
    reclaimSignals: [...new Set(effective.reclaimCommands.map(({ signal }) => signal))],
    reclaimMs: reclaimMsOf(effective),
    phases: effective.shutdown.phases,
    shutdownCancel: effective.shutdown.cancelPolicy,
    shutdownCarryOver: effective.shutdown.carryOver,
    ...(effective.mode === 'kubelet' ? { tiers: BESIDE_A_KUBELET } : {}),
    isLive: true,
  };
}

/** product.md section 9. */
const BESIDE_A_KUBELET = { announceMs: 2_000, confirmMs: 10_000 };

function reclaimMsOf({ reclaimCommands }: Effective): NonNullable<CoreConfig['reclaimMs']> {
  const sums: { [S in Signal]?: number } = {};
  for (const { signal, timeoutMs } of reclaimCommands) sums[signal] = (sums[signal] ?? 0) + timeoutMs;
  return sums;
}

/** Beside a kubelet they are its own business (product.md section 6). */
function localStorageOf({ mode, localStorageCapacityIsolation }: Effective): CoreConfig['localStorageLimits'] {
  if (!localStorageCapacityIsolation) return 'off';
  return mode === 'kubelet' ? 'show' : 'enforce';
}
