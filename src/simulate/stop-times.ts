import type { ContainerBehaviour, PodBehaviour } from './shutdown-behaviour.ts';

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
