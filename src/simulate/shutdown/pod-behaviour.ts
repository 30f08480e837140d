import { entryOf } from '../../config/field.ts';
import { isObject } from '../../core/shape.ts';
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
  /** Its deletion began before the shutdown and goes on under its own grace; null = it is not being deleted. */
  readonly deletion: { readonly startMs: number; readonly graceSeconds: number } | null;
};
/** `stopAfterMs`: null = never on SIGTERM. `preStopMs`: null = it has no hook. */
type ContainerBehaviour = { readonly stopAfterMs: number | null; readonly preStopMs: number | null };

const DEFAULT_KILL_DELAY_MS = 100;

/** Of a checked v1 Pod, its own entry and the default one, both checked. */
export function podBehaviourOf(pod: Json, own: Json, fallback: Json): PodBehaviour {
  const said = withFallback(own, fallback);
  const graceSeconds = entryOf(pod['metadata'], 'deletionGracePeriodSeconds');
  const terminatingForMs = readMs(said['terminatingFor']);
  const containersOf = (key: string): readonly Json[] => {
    const list = entryOf(pod['spec'], key);
    return Array.isArray(list) ? list.filter(isObject) : [];
  };
  const sidecars = containersOf('initContainers').filter((container) => container['restartPolicy'] === 'Always');
  return {
    containers: containersOf('containers').map((container) => containerOf(container, said)),
    sidecars: sidecars.map((container) => containerOf(container, said)),
    killDelayMs: readMs(said['killDelay']) ?? DEFAULT_KILL_DELAY_MS,
    unmountAfterMs: readMs(said['unmountAfter']) ?? 0,
    deletion:
      typeof graceSeconds === 'number' && terminatingForMs !== null
        ? { startMs: 0 - terminatingForMs, graceSeconds }
        : null,
  };
}

/** Field by field, but `stopAfter` or `never` of the pod replaces both. */
function withFallback(own: Json, fallback: Json): Json {
  const { stopAfter, never, ...rest } = fallback;
  const isOwnStop = own['stopAfter'] !== undefined || own['never'] !== undefined;
  return { ...(isOwnStop ? rest : fallback), ...own };
}

function containerOf(container: Json, said: Json): ContainerBehaviour {
  const own = entryOf(said['containers'], String(container['name']));
  const preStop = entryOf(container['lifecycle'], 'preStop');
  const hasHook = preStop !== undefined && preStop !== null;
  if (isObject(own)) {
    return { stopAfterMs: readMs(own['stopAfter']), preStopMs: hasHook ? (readMs(own['preStop']) ?? 0) : null };
  }
  return {
    stopAfterMs: said['never'] === true ? null : (readMs(said['stopAfter']) ?? 0),
    preStopMs: hasHook ? (readMs(said['preStop']) ?? 0) : null,
  };
}

/** When a pod's first SIGTERM and SIGKILL come, and when its last container is gone. */
export type StopTimes = {
  readonly startMs: number;
  readonly sigtermMs: number;
  /** null = every container ended by itself. */
  readonly killedMs: number | null;
  readonly stoppedMs: number;
};
type End = { readonly sigtermMs: number; readonly killedMs: number | null; readonly endMs: number };

/** The runtime manager's floor between SIGTERM and SIGKILL. */
const LEAST_SECONDS = 2;

/** shutdown-scenarios.md 3.2: a pod whose termination starts at `startMs` with that effective grace. */
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
  // Each after the one that stands next to it in the list.
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
  /** Between SIGTERM and SIGKILL, whatever is left of its grace. */
  readonly leastSeconds: number;
  /** When all that must end before it have; null = it waits for none. */
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
