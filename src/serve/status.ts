import type { CoreConfig } from '../core/core-config.ts';
import { measuredUsage } from '../core/eviction/comparator.ts';
import { trueConditions } from '../core/eviction/condition.ts';
import { podsFor } from '../core/eviction/question.ts';
import { rank } from '../core/eviction/rank.ts';
import { isAtLeast } from '../core/eviction/relief.ts';
import { type Threshold, type ThresholdId, withContainerfs } from '../core/eviction/threshold.ts';
import { isMet, limits } from '../core/eviction/thresholds-met.ts';
import type { Observation, Psi } from '../core/observation.ts';
import type { OomScore } from '../core/pod/oom-score.ts';
import { type PodUid, type PodView, saidPriority } from '../core/pod/pod.ts';
import { type MonoMs, type Reading, type Unknown, valueOrNull } from '../core/reading.ts';
import {
  type FileSystemRole,
  type FsLayout,
  fileSystemOf,
  isDisk,
  type NodeCondition,
  realFileSystem,
  SIGNAL_FACTS,
  SIGNALS,
  type Signal,
  signalsOf,
  type Unit,
} from '../core/signal.ts';
import type { State } from '../core/state/state.ts';
import { bytesUp } from '../core/units/quantity.ts';
import type { Verdict } from '../core/verdict.ts';
import type { Finding } from '../ports.ts';
import { sayReason } from '../words/reason.ts';
import { type ActStatus, actStatus, type DecisionStatus, decisionStatus, type RecentDecision } from './act-status.ts';
import type { Counts } from './counts.ts';
import { namesOf } from './pod-names.ts';
import { type ShutdownContext, type ShutdownStatus, shutdownStatus } from './shutdown-status.ts';

/** What `status -o json` prints: plain JSON, facts of one look. docs/json.md describes every field. */
export type StatusReport = {
  readonly schema: 1;
  readonly atWallMs: number;
  readonly node: NodeFacts;
  readonly signals: readonly SignalStatus[];
  readonly conditions: { readonly [C in NodeCondition]: boolean };
  readonly psi: { readonly [R in 'memory' | 'io' | 'cpu']: Psi | null };
  readonly memory: MemoryStatus;
  readonly pods: PodsStatus;
  /** What the kernel OOM killer would choose by; empty: left unchanged. */
  readonly oomScores: readonly OomScore[];
  readonly act: ActStatus;
  readonly shutdown: ShutdownStatus;
  readonly reasons: readonly { readonly code: string; readonly text: string }[];
  readonly counts: Counts;
  readonly findings: readonly Finding[];
  readonly decisions: readonly DecisionStatus[];
  readonly config: ConfigStatus;
  readonly warnings: readonly string[];
};
export type NodeFacts = {
  readonly name: string;
  readonly version: string;
  readonly pid: number;
  readonly mode: 'standalone' | 'kubelet';
  readonly dryRun: boolean;
  readonly cgroupLayout: 'v1' | 'v2' | 'hybrid';
  readonly cgroupRoot: string;
  /** When the daemon started to observe. */
  readonly sinceWallMs: number;
  /** For how long, whatever has become of the clock since. */
  readonly observedForMs: number;
};
export type SignalStatus = {
  readonly signal: Signal;
  readonly unit: Unit;
  readonly available: number | null;
  readonly capacity: number | null;
  readonly ageMs: number | null;
  readonly unknown: Unknown | null;
  /** For containerfs on a node without one of its own: the signal that supplies the figures. */
  readonly aliasOf: Signal | null;
  readonly thresholds: readonly ThresholdStatus[];
};
export type ThresholdStatus = {
  readonly id: ThresholdId;
  readonly kind: 'hard' | 'soft';
  /** In the signal's unit; null while the capacity of which it is a share is unknown. */
  readonly limit: number | null;
  readonly minReclaim: number | null;
  readonly isMet: boolean;
  /** Since when it counts as met, also while only its min reclaim or D2's second holds it. */
  readonly metForMs: number | null;
  readonly graceMs: number;
  readonly graceLeftMs: number | null;
};
/** product.md section 8: both formulas, whichever the thresholds use. */
type MemoryStatus = {
  readonly counted: 'workingSet' | 'reclaimable';
  readonly workingSetAvailableBytes: number | null;
  readonly reclaimableAvailableBytes: number | null;
};
export type PodsStatus =
  | { readonly known: false; readonly why: string }
  | {
      readonly known: true;
      readonly rankedFor: Signal;
      readonly order: readonly PodRow[];
      /** `namespace/name` of the pods of manifests that have no process. */
      readonly notRunning: readonly string[];
      /** The same of those that may run: their manifest is refused, or where they run is not known. */
      readonly notObserved: readonly string[];
    };
type PodRow = Pick<
  PodView,
  'uid' | 'namespace' | 'name' | 'qos' | 'isProtected' | 'evictFor' | 'isTerminating' | 'unsaid'
> & {
  /** null: it is not known. */
  readonly priority: number | null;
  /** null: it is not known. */
  readonly usage: number | null;
  /** It is a lower bound. */
  readonly isAtLeast?: true;
  /** A shutdown stops it now, in its turn, and has not asked it yet. */
  readonly isToBeStopped?: true;
  /** Directories are walked beside the looks; null: this signal's usage is from the look itself, or unknown. */
  readonly usageAgeMs: number | null;
  /** null: this signal has no request. */
  readonly request: number | null;
  /** The comparator that ranks it before the next one. */
  readonly decidedBy: string | null;
};
type ConfigStatus = {
  /** null: no file, all defaults. */
  readonly path: string | null;
  /** The directory whose manifests are in force; null: none is read, in mode kubelet. */
  readonly podManifests: string | null;
  readonly loadedWallMs: number;
  /** The last reload; a bad file leaves the running configuration in force. `isPending`: it is good, and not in force yet. */
  readonly lastReload: {
    readonly atWallMs: number;
    readonly ok: boolean;
    readonly isPending?: true;
    readonly text: string;
  } | null;
};

/** Facts that are not part of a look. */
export type StatusContext = {
  readonly node: NodeFacts;
  readonly memory: {
    readonly counted: 'workingSet' | 'reclaimable';
    readonly workingSet: Reading<number>;
    readonly reclaimable: Reading<number>;
  };
  readonly counts: Counts;
  readonly findings: readonly Finding[];
  /** Newest first. */
  readonly recent: readonly RecentDecision[];
  readonly configFile: ConfigStatus;
  readonly warnings: readonly string[];
  readonly shutdown: ShutdownContext;
  /** Pods of manifests without a process; absent: none. */
  readonly notRunning?: readonly string[];
  /** Those that are refused, or of which it is not known where they run; absent: none. */
  readonly notObserved?: readonly string[];
  /** A shutdown stops it now, in its turn, and has not asked it yet; absent: there is none. */
  readonly isToBeStopped?: (uid: PodUid) => boolean;
  /** Names of pods that are not in the look, such as those being stopped. */
  readonly nameOf?: (uid: PodUid) => string | undefined;
  /** Absent: none is set. */
  readonly oomScores?: readonly OomScore[];
};
/** The daemon is this same program: only another version of it could send something else. */
export function isReport(answer: unknown): answer is StatusReport {
  return typeof answer === 'object' && answer !== null && 'schema' in answer && answer.schema === 1;
}

/** A threshold is met, or something is being done about one. */
export const isShort = ({ signals, act }: Pick<StatusReport, 'signals' | 'act'>): boolean =>
  act.kind !== 'idle' || signals.some(({ thresholds }) => thresholds.some(({ metForMs }) => metForMs !== null));

type StatusInput = {
  readonly observation: Observation;
  readonly verdict: Verdict;
  readonly config: CoreConfig;
  readonly context: StatusContext;
};

export function statusReport({ observation, verdict, config, context }: StatusInput): StatusReport {
  const { state } = verdict;
  const { psi, atMs } = observation;
  const conditions = trueConditions(state.conditionLastMetMs);
  const nameOf = namesOf(observation, context.nameOf);
  const thresholds = withContainerfs(config.thresholds, layoutOf(observation)).all;
  const unseen = new Set([...(context.notRunning ?? []), ...(context.notObserved ?? [])]);
  return {
    schema: 1,
    atWallMs: observation.wallMs,
    node: context.node,
    signals: SIGNALS.map((signal) => signalStatus(signal, observation, state, thresholds, context.shutdown.nowMs)),
    conditions: {
      MemoryPressure: conditions.includes('MemoryPressure'),
      DiskPressure: conditions.includes('DiskPressure'),
      PIDPressure: conditions.includes('PIDPressure'),
    },
    psi: { memory: valueOrNull(psi.memory), io: valueOrNull(psi.io), cpu: valueOrNull(psi.cpu) },
    memory: {
      counted: context.memory.counted,
      workingSetAvailableBytes: valueOrNull(context.memory.workingSet),
      reclaimableAvailableBytes: valueOrNull(context.memory.reclaimable),
    },
    pods: podsStatus(observation, state, context),
    act: actStatus(state, atMs),
    // They are read once a minute.
    oomScores: (context.oomScores ?? []).filter(({ pod }) => !unseen.has(pod)),
    shutdown: shutdownStatus({ observation, state, config, context: context.shutdown, nameOf }),
    reasons: verdict.reasons.map((reason) => ({ code: reason.code, text: sayReason(reason, nameOf) })),
    counts: context.counts,
    findings: context.findings,
    decisions: context.recent.map((recent) => decisionStatus(recent, context.recent)),
    config: context.configFile,
    warnings: context.warnings,
  };
}

/**
 * `state`: after the look. `nowMs`: the time of the query, up to which ages count: a loop that hangs samples nothing.
 */
export function signalStatus(
  signal: Signal,
  observation: Observation,
  state: Pick<State, 'firstMetMs'>,
  thresholds: readonly Threshold[],
  nowMs: MonoMs = observation.atMs,
): SignalStatus {
  const { signals, atMs } = observation;
  const reading = signals[signal];
  const sample = valueOrNull(reading);
  return {
    signal,
    unit: SIGNAL_FACTS[signal].unit,
    available: sample?.available ?? null,
    capacity: sample?.capacity ?? null,
    ageMs: sample === null ? null : Math.max(0, Math.max(nowMs, atMs) - sample.sampledAtMs),
    unknown: reading.known ? null : reading,
    aliasOf: aliasOf(signal, observation),
    thresholds: thresholds
      .filter((threshold) => threshold.signal === signal)
      .map((threshold) => {
        const since = state.firstMetMs[threshold.id];
        const resolved = sample === null ? null : limits(threshold, sample);
        const limit = resolved === null ? null : bytesUp(resolved.limit);
        return {
          id: threshold.id,
          kind: threshold.graceMs === 0 ? 'hard' : 'soft',
          limit,
          minReclaim: resolved === null || limit === null ? null : bytesUp(resolved.target) - limit,
          isMet: sample !== null && isMet(threshold, sample),
          metForMs: since === undefined ? null : atMs - since,
          graceMs: threshold.graceMs,
          graceLeftMs: since === undefined ? null : Math.max(0, threshold.graceMs - (atMs - since)),
        };
      }),
  };
}

/** kubelet-eviction.md 1.2: the signal of which it is an alias; null: it is not an alias. */
function aliasOf(signal: Signal, { signals, fsLayout }: Observation): Signal | null {
  if (fileSystemOf(signal) !== 'containerfs') return null;
  const { unit } = SIGNAL_FACTS[signal];
  const aliased = (role: FileSystemRole): Signal => signalsOf(role, unit)[0] ?? signal;
  if (fsLayout.known) {
    return fsLayout.value === 'containerfs-separate' ? null : aliased(realFileSystem('containerfs', fsLayout.value));
  }
  const of = aliased('nodefs');
  const [own, other] = [signals[signal], signals[of]];
  return !own.known && !other.known && own.where === other.where ? of : null;
}

function podsStatus(observation: Observation, state: State, context: StatusContext): PodsStatus {
  const signal = rankedFor(state);
  const pods = podsFor(observation, signal);
  if (!pods.known) {
    const isAsked = pods.why !== 'not-asked';
    return { known: false, why: isAsked ? `${pods.where}: ${pods.detail}` : 'not read: nothing is near a threshold' };
  }
  const layout = layoutOf(observation);
  return {
    known: true,
    rankedFor: signal,
    notRunning: context.notRunning ?? [],
    notObserved: context.notObserved ?? [],
    order: rank(signal, pods.value, layout).map(({ pod, row }) => ({
      uid: pod.uid,
      namespace: pod.namespace,
      name: pod.name,
      qos: pod.qos,
      priority: saidPriority(pod),
      usage: valueOrNull(measuredUsage(signal, pod, layout)),
      ...(isAtLeast(signal, pod) ? { isAtLeast: true } : {}),
      usageAgeMs: isDisk(signal) ? ageMs(pod, observation.atMs) : null,
      request: requestFor(signal, pod),
      isProtected: pod.isProtected,
      ...(pod.evictFor === undefined ? {} : { evictFor: pod.evictFor }),
      ...(context.isToBeStopped?.(pod.uid)
        ? { isTerminating: false, isToBeStopped: true }
        : { isTerminating: pod.isTerminating }),
      ...(pod.unsaid === undefined ? {} : { unsaid: pod.unsaid }),
      decidedBy: row.decidedBy,
    })),
  };
}

function ageMs({ usage }: PodView, atMs: MonoMs): number | null {
  const sampledAtMs = valueOrNull(usage.disk)?.sampledAtMs;
  return sampledAtMs === undefined ? null : Math.max(0, Math.round(atMs - sampledAtMs));
}

/** The signal `status` ranks the pods for: the one acted on, else the first that is met, else node memory. */
export function rankedFor({ act, reclaims, firstMetMs }: State): Signal {
  if (reclaims[0] !== undefined) return reclaims[0].threshold.signal;
  if (act.kind === 'evicting') {
    for (const { cause } of act.evictions) if (cause.kind === 'threshold') return cause.threshold.signal;
  }
  const met = Object.keys(firstMetMs);
  return SIGNALS.find((signal) => met.some((id) => id.startsWith(`${signal}/`))) ?? 'memory.available';
}

/** The request that the signal's ranking uses; null: the signal has none, or the pod's is unknown. */
export function requestFor(signal: Signal, pod: PodView): number | null {
  const { resource } = SIGNAL_FACTS[signal];
  if (pod.unsaid?.requests) return null;
  if (resource === 'memory') return pod.requests.memoryBytes;
  return resource === 'ephemeral-storage' ? pod.requests.ephemeralStorageBytes : null;
}

function layoutOf({ fsLayout }: Observation): FsLayout {
  return fsLayout.known ? fsLayout.value : 'nodefs-only';
}
