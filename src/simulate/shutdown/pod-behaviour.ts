import { entryOf } from '../../config/field.ts';
import { isObject } from '../../core/shape.ts';
import type { V1RunningPod } from '../../document/pod.ts';
import type { Json } from '../scenario.ts';
import { readMs } from '../shape.ts';

/** How long a pod takes to stop (shutdown-scenarios.md 2.4), with all fallbacks resolved. */
export type PodBehaviour = {
  readonly containers: readonly ContainerBehaviour[];
  /** In the order of initContainers. */
  readonly sidecars: readonly ContainerBehaviour[];
  readonly killDelayMs: number;
  /** 0 = it has no volumes to wait for. */
  readonly unmountAfterMs: number;
  /** Its deletion began before the shutdown and continues with its own grace period; null = it is not being deleted. */
  readonly deletion: { readonly startMs: number; readonly graceSeconds: number } | null;
};
/** `stopAfterMs`: null = never on SIGTERM. `preStopMs`: null = it has no hook. */
type ContainerBehaviour = { readonly stopAfterMs: number | null; readonly preStopMs: number | null };

const DEFAULT_KILL_DELAY_MS = 100;

/** The behaviour of a v1 Pod, from its own entry and the default one, both checked. */
export function podBehaviourOf({ metadata, spec }: V1RunningPod, own: Json, fallback: Json): PodBehaviour {
  const said = withFallback(own, fallback);
  const graceSeconds = metadata.deletionGracePeriodSeconds ?? null;
  const terminatingForMs = readMs(said['terminatingFor']);
  const sidecars = (spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always');
  return {
    containers: spec.containers.map((container) => containerOf(container, said)),
    sidecars: sidecars.map((container) => containerOf(container, said)),
    killDelayMs: readMs(said['killDelay']) ?? DEFAULT_KILL_DELAY_MS,
    unmountAfterMs: readMs(said['unmountAfter']) ?? 0,
    deletion:
      graceSeconds !== null && terminatingForMs !== null ? { startMs: 0 - terminatingForMs, graceSeconds } : null,
  };
}

/** Field by field, except that the pod's `stopAfter` or `never` replaces both. */
function withFallback(own: Json, fallback: Json): Json {
  const { stopAfter, never, ...rest } = fallback;
  const isOwnStop = own['stopAfter'] !== undefined || own['never'] !== undefined;
  return { ...(isOwnStop ? rest : fallback), ...own };
}

type V1Container = V1RunningPod['spec']['containers'][number];

/** A container's own settings replace those of its pod; without a stopAfter it never ends on its own. */
function containerOf({ name, lifecycle }: V1Container, ofPod: Json): ContainerBehaviour {
  const own = entryOf(ofPod['containers'], name);
  const { never, stopAfter, preStop } = isObject(own) ? { ...own, never: own['stopAfter'] === undefined } : ofPod;
  const hasHook = (lifecycle?.preStop ?? null) !== null;
  return {
    stopAfterMs: never === true ? null : (readMs(stopAfter) ?? 0),
    preStopMs: hasHook ? (readMs(preStop) ?? 0) : null,
  };
}

/** When a pod gets its first SIGTERM and SIGKILL, and when its last container is gone. */
export type StopTimes = {
  readonly startMs: number;
  readonly sigtermMs: number;
  /** null = every container ended on its own. */
  readonly killedMs: number | null;
  readonly stoppedMs: number;
};
type End = { readonly sigtermMs: number; readonly killedMs: number | null; readonly endMs: number };

/** The runtime manager's floor between SIGTERM and SIGKILL. */
const LEAST_SECONDS = 2;

/** shutdown-scenarios.md 3.2: for a pod whose termination starts at `startMs` with this effective grace period. */
export function stopTimes(
  pod: PodBehaviour,
  startMs: number,
  graceSeconds: number,
  leastSeconds: number = LEAST_SECONDS,
): StopTimes {
  const endOf = (container: ContainerBehaviour, turnMs: number | null): End =>
    stopContainer(container, pod.killDelayMs, { startMs, graceSeconds, leastSeconds, turnMs });
  const ends = pod.containers.map((container) => endOf(container, null));
  const mainEndMs = Math.max(...ends.map(({ endMs }) => endMs));
  let turnMs = mainEndMs;
  // In reverse order: each stops after its successor in the list.
  for (const sidecar of pod.sidecars.toReversed()) {
    const end = endOf(sidecar, turnMs);
    turnMs = Math.max(mainEndMs, end.endMs);
    ends.push(end);
  }
  const kills = ends.flatMap(({ killedMs }) => (killedMs === null ? [] : [killedMs]));
  return {
    startMs,
    sigtermMs: Math.min(...ends.map(({ sigtermMs }) => sigtermMs)),
    killedMs: kills.length === 0 ? null : Math.min(...kills),
    stoppedMs: Math.max(...ends.map(({ endMs }) => endMs)),
  };
}

type Turn = {
  readonly startMs: number;
  readonly graceSeconds: number;
  /** The minimum between SIGTERM and SIGKILL, even if less of the grace period is left. */
  readonly leastSeconds: number;
  /** When everything that must end before it has ended; null = it waits for nothing. */
  readonly turnMs: number | null;
};

function stopContainer({ stopAfterMs, preStopMs }: ContainerBehaviour, killDelayMs: number, turn: Turn): End {
  let atMs = turn.startMs;
  let leftSeconds = turn.graceSeconds;
  const spend = (wantedMs: number): void => {
    if (leftSeconds <= 0) return;
    const spentMs = Math.min(wantedMs, leftSeconds * 1_000);
    atMs += spentMs;
    // Whole seconds only, as the runtime manager counts.
    leftSeconds -= Math.floor(spentMs / 1_000);
  };
  if (preStopMs !== null) spend(preStopMs);
  if (turn.turnMs !== null) spend(Math.max(0, turn.turnMs - atMs));
  const termMs = Math.max(turn.leastSeconds, leftSeconds) * 1_000;
  if (stopAfterMs !== null && stopAfterMs <= termMs) {
    return { sigtermMs: atMs, killedMs: null, endMs: atMs + stopAfterMs };
  }
  const killedMs = atMs + termMs;
  return { sigtermMs: atMs, killedMs, endMs: killedMs + killDelayMs };
}
