import type { CoreConfig } from '../core/core-config.ts';
import type { MemoryGrowth } from '../core/eviction/attribution.ts';
import type { Observation } from '../core/observation.ts';
import type { PodView } from '../core/pod/pod.ts';
import { known, type MonoMs, type Unknown, unknown } from '../core/reading.ts';
import { type FsLayout, forEachSignal, type Signal } from '../core/signal.ts';

/** A JSON object as it came from a document: its shape has been checked, its names are the format's. */
export type Json = { readonly [key: string]: unknown };

/** scenarios.md 1: what both kinds of documents have. */
export type ScenarioHead = {
  readonly name: string;
  readonly labels: { readonly [key: string]: string };
};

/** An active pod of a scenario, without its usage, which comes with each look's stats. */
export type ScenarioPod = {
  readonly declared: Omit<PodView, 'usage'>;
  /** What a podRef without uid matches: the name and namespace, as in `declared`. */
  readonly ref: string;
  /** kubelet-eviction.md 5.8: names of the volumes whose usage counts as local, and of the emptyDirs among them. */
  readonly localVolumes: readonly string[];
};

/** Stats as a step gives them. */
export type GivenStats =
  /** The numbers of the previous step, measured again. */
  | { readonly kind: 'same' }
  | { readonly kind: 'whole'; readonly summary: Json }
  | { readonly kind: 'patch'; readonly patch: Json };

/** `pod`: `namespace/name`. */
export type Stopping = { readonly pod: string; readonly for: readonly Signal[] };

/** scenarios.md 2.4, checked; `stats` are merged when the run comes to the step. */
export type EvictionStep = {
  readonly atMs: MonoMs;
  /** Values given together with failing stats are kept for later patches. */
  readonly stats: GivenStats | { readonly kind: 'failed'; readonly kept: GivenStats };
  /** The whole new list; null = as before. */
  readonly pods: readonly ScenarioPod[] | null;
  readonly afterReclaim: { readonly kind: 'patch'; readonly patch: Json } | { readonly kind: 'fails' } | null;
  /** What took memory according to a recorded look; null = not recorded. */
  readonly memoryGrowth: MemoryGrowth | null;
  /** Pods whose stop a recorded look waited for, and the signals that waited. */
  readonly stopping: readonly Stopping[];
  readonly killFails: 'all' | readonly string[];
  readonly reclaimFails: readonly ('containers' | 'images')[];
  /** As written; its shape has been checked (scenarios.md 4). */
  readonly expect: Json | null;
};

export type EvictionScenario = ScenarioHead & {
  readonly kind: 'EvictionScenario';
  readonly config: CoreConfig;
  readonly layout: FsLayout;
  /** RFC 3339 `start` in milliseconds since the epoch; null = not named. */
  readonly startWallMs: number | null;
  readonly pods: readonly ScenarioPod[];
  readonly steps: readonly EvictionStep[];
};

/** scenarios.md 4.1 and 6.3: one difference between a run and its expectation. */
export type Mismatch = { readonly path: string; readonly expected: unknown; readonly actual: unknown };

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
