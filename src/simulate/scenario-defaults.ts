import type { CoreConfig } from '../core/core-config.ts';
import type { Observation } from '../core/observation.ts';
import type { PodView } from '../core/pod/pod.ts';
import { known, type Unknown, unknown } from '../core/reading.ts';
import { forEachSignal } from '../core/signal.ts';

/** What applies where a scenario's document says nothing. */

const NO_SOURCE = unknown('not-applicable', 'scenario', 'a scenario has no such source');

export function noUsage(why: Unknown): PodView['usage'] {
  return {
    workingSetBytes: why,
    processes: why,
    disk: why,
    ephemeralStorageBytes: why,
    containers: why,
    volumes: why,
  };
}

export const BLANK_OBSERVATION: Observation = {
  atMs: 0,
  cpuMs: 0,
  wallMs: 0,
  signals: forEachSignal(() => NO_SOURCE),
  fsLayout: known('nodefs-only'),
  pods: known([]),
  outcomes: [],
  psi: { memory: NO_SOURCE, io: NO_SOURCE, cpu: NO_SOURCE },
  shutdownEvents: [],
  volumesMounted: NO_SOURCE,
};

/** The kubelet's defaults, with neither eviction nor shutdown. */
export const BLANK_CONFIG: CoreConfig = {
  thresholds: [],
  // kubelet-eviction.md 2.1.
  pressureTransitionMs: 300_000,
  maxPodGraceSeconds: 0,
  // The document's instants are the pace.
  pace: { minMs: 1, maxMs: Number.MAX_SAFE_INTEGER, cpuShare: 1, cpus: 1 },
  guard: null,
  localStorageLimits: 'off',
  reclaimSignals: [],
  phases: [],
  shutdownCancel: 'afterPhases',
  shutdownCarryOver: false,
};
