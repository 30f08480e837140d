import type { CoreConfig } from '../../core/core-config.ts';
import { decide } from '../../core/decide.ts';
import type { Decision, DecisionId } from '../../core/decision.ts';
import type { Observation, ShutdownEvent } from '../../core/observation.ts';
import type { Outcome } from '../../core/outcome.ts';
import type { PodUid, PodView } from '../../core/pod/pod.ts';
import { known, unknown } from '../../core/reading.ts';
import type { Reason } from '../../core/reason.ts';
import { graceFrom, tellByMs, turnOfStop } from '../../core/shutdown/chain.ts';
import { planStop } from '../../core/shutdown/plan.ts';
import { isUnderWay } from '../../core/shutdown/stopping.ts';
import { initialState, type State } from '../../core/state/state.ts';
import type { Verdict } from '../../core/verdict.ts';
import { BLANK_CONFIG, BLANK_OBSERVATION, noUsage } from '../scenario.ts';
import { type StopTimes, stopTimes } from './pod-behaviour.ts';
import type { ShutdownScenario, ShutdownScenarioPod } from './scenario.ts';

/** A pod that a phase signalled to stop, and its outcome. */
export type Signalled = {
  readonly pod: ShutdownScenarioPod;
  readonly phase: number;
  readonly graceSeconds: number;
  readonly effectiveGraceSeconds: number;
  readonly times: StopTimes;
};
type PhaseOver = Extract<Reason, { code: 'shutdown-phase-over' }>;
export type Played = {
  readonly signalled: ReadonlyMap<PodUid, Signalled>;
  readonly phases: readonly (PhaseOver & { readonly endMs: number })[];
  /** Pods whose phase no longer waited for them (kubelet-shutdown.md 5.2). */
  readonly exceeded: readonly { readonly uid: PodUid; readonly phase: number; readonly atMs: number }[];
  /** null = it did not happen. */
  readonly releasedMs: number | null;
  readonly retakenMs: number | null;
  /** When pods are admitted again after a cancel. */
  readonly reopenedMs: number | null;
};

/** The part of a scenario from which a shutdown is played. */
type Playable = Pick<ShutdownScenario, 'phases' | 'pods' | 'cancelAtMs' | 'cancelPolicy'> & {
  /** Whether the unused time of a phase goes to the next; absent: no, as in the kubelet. */
  readonly carryOver?: boolean;
  /** What stops the pods and counts their time; absent: the kubelet and its runtime manager. */
  readonly stopper?: 'kubelet' | 'agent';
};

/** The stop of a pod that was being deleted when the signal came; null for any other. */
function deletionOf({ behaviour }: ShutdownScenarioPod): StopTimes | null {
  const { deletion } = behaviour;
  return deletion === null ? null : stopTimes(behaviour, deletion.startMs, graceOfDeletion(deletion.graceSeconds));
}
const graceOfDeletion = (seconds: number): number => Math.max(1, seconds);

/** Pods that the signal finds here (shutdown-scenarios.md 3.4), in the order of the document. */
export function aliveAtSignal({ pods }: Pick<ShutdownScenario, 'pods'>): readonly ShutdownScenarioPod[] {
  return pods.filter((pod) => pod.isStopped && (deletionOf(pod)?.stoppedMs ?? Number.POSITIVE_INFINITY) > 0);
}

/** An armed shutdown from the signal to its end. */
export function playShutdown(scenario: Playable, grantedMs: number): Played {
  return playFrom(scenario, [{ kind: 'lock-granted', delayMaxMs: grantedMs }, { kind: 'preparing' }]);
}

/** Plays the events at 0 through the core, from one due instant to the next. */
export function playFrom(scenario: Playable, heard: readonly ShutdownEvent[]): Played {
  const { phases: configured, cancelPolicy, carryOver = false } = scenario;
  const config: CoreConfig = {
    ...BLANK_CONFIG,
    phases: configured,
    shutdownCancel: cancelPolicy,
    shutdownCarryOver: carryOver,
  };
  const world = createWorld(aliveAtSignal(scenario), scenario.stopper ?? 'kubelet');
  const { cancelAtMs } = scenario;
  const phases: Played['phases'][number][] = [];
  const exceeded: Played['exceeded'][number][] = [];
  let releasedMs: number | null = null;
  let retakenMs: number | null = null;
  let reopenedMs: number | null = null;
  let events = heard;
  let isCancelled = cancelAtMs === null;
  let state: State = initialState('scenario');
  for (let atMs = 0; ; ) {
    if (!isCancelled && cancelAtMs === atMs) {
      events = [...events, { kind: 'cancelled' }];
      isCancelled = true;
    }
    const verdict = decide(state, world.observe(atMs, events), config);
    events = [];
    state = verdict.state;
    for (const decision of verdict.decisions) {
      if (decision.kind === 'release-lock') releasedMs = atMs;
      else if (decision.kind === 'take-lock') retakenMs = atMs;
    }
    world.stop(verdict.decisions.filter((decision) => decision.kind === 'stop-for-shutdown'));
    for (const reason of verdict.reasons) {
      if (reason.code === 'shutdown-phase-over') phases.push({ ...reason, ...world.leftOf(reason, atMs), endMs: atMs });
      else if (reason.code === 'shutdown-wait-exceeded') exceeded.push({ ...reason, atMs });
    }
    const goesDown = isUnderWay(state.shutdown);
    if (!goesDown) reopenedMs = atMs;
    const next = nextMs(atMs, verdict, world.nextEndMs(), isCancelled ? null : cancelAtMs);
    if (!goesDown || next === null) break;
    atMs = next;
  }
  return { signalled: world.signalled(), phases, exceeded, releasedMs, retakenMs, reopenedMs };
}

/** After the release, only the cancel is awaited. */
function nextMs(atMs: number, verdict: Verdict, endMs: number, cancelMs: number | null): number | null {
  if (verdict.state.shutdown.kind !== 'stopping') return cancelMs;
  return Math.min(atMs + verdict.next.afterMs, endMs, cancelMs ?? Number.POSITIVE_INFINITY);
}

type Stop = Extract<Decision, { kind: 'stop-for-shutdown' }>;
type World = {
  readonly observe: (atMs: number, events: readonly ShutdownEvent[]) => Observation;
  readonly stop: (decisions: readonly Stop[]) => void;
  /**
   * What a phase leaves at its end. A phase of 0 s is over before the core gets the outcome of a pod that ends at once, but a
   * pod that stops exactly at the deadline has stopped (shutdown-scenarios.md 3.1).
   */
  readonly leftOf: (over: PhaseOver, atMs: number) => Pick<PhaseOver, 'running' | 'mounted'>;
  /** When the next stop ends whose outcome the core does not have; infinity = none. */
  readonly nextEndMs: () => number;
  readonly signalled: () => ReadonlyMap<PodUid, Signalled>;
};
type Life = { readonly pod: ShutdownScenarioPod; readonly view: PodView; times: StopTimes | null };

function createWorld(pods: readonly ShutdownScenarioPod[], stopper: 'kubelet' | 'agent'): World {
  const lives = new Map<PodUid, Life>(
    pods.map((pod) => [
      pod.declared.uid,
      { pod, view: { ...pod.declared, usage: noUsage(NO_SAMPLE) }, times: deletionOf(pod) },
    ]),
  );
  const signalled = new Map<PodUid, Signalled>();
  const waiting = new Map<DecisionId, number>();
  const isAlive = ({ times }: Life, atMs: number): boolean => times === null || times.stoppedMs > atMs;
  const isMounted = ({ pod, times }: Life, atMs: number): boolean => {
    const { unmountAfterMs } = pod.behaviour;
    return unmountAfterMs > 0 && (times === null || times.stoppedMs + unmountAfterMs > atMs);
  };

  /** The next stop whose predecessors' ends are known; in a cycle, the first one left. */
  function nextInTurn(left: Stop[]): Stop | undefined {
    const isDue = ({ chain }: Stop): boolean => (chain?.after ?? []).every((uid) => lives.get(uid)?.times !== null);
    return left.splice(Math.max(0, left.findIndex(isDue)), 1)[0];
  }

  function begin(stop: Stop): void {
    const life = lives.get(stop.victim.uid);
    if (life === undefined) return;
    if (stopper === 'agent') beginInTurn(stop, life);
    else beginAtOnce(stop, life);
  }

  function beginAtOnce(stop: Stop, life: Life): void {
    const { atMs, graceSeconds } = stop;
    const { pod } = life;
    const { deletion } = pod.behaviour;
    const whole =
      deletion === null
        ? (planStop(life.view, graceSeconds).effectiveGraceSeconds ?? graceSeconds)
        : graceOfDeletion(deletion.graceSeconds);
    note(stop, life, { graceSeconds: whole, times: life.times ?? stopTimes(pod.behaviour, atMs, whole) });
  }

  /**
   * As `act` and systemd do: signalled once its predecessors have ended, or at its latest time; with its share, however
   * small.
   */
  function beginInTurn(stop: Stop, life: Life): void {
    const turn = turnOfStop(stop);
    const endedMs = turn.after.map((uid) => lives.get(uid)?.times?.stoppedMs ?? stop.atMs);
    const { isTold } = life.pod;
    const inTurnMs = isTold === 'late' ? Number.POSITIVE_INFINITY : Math.max(stop.atMs, ...endedMs);
    const afterMs = isTold === 'at-once' ? stop.atMs : inTurnMs;
    const toldMs = Math.max(stop.atMs, Math.min(tellByMs(turn), afterMs));
    const graceSeconds = graceFrom(turn, toldMs) / 1_000;
    note(stop, life, { graceSeconds, times: stopTimes(life.pod.behaviour, toldMs, graceSeconds, 0) });
  }

  type Got = { readonly graceSeconds: number; readonly times: StopTimes };
  function note({ id, victim, phase, graceSeconds }: Stop, life: Life, got: Got): void {
    const { times } = got;
    life.times = times;
    signalled.set(victim.uid, { pod: life.pod, phase, graceSeconds, effectiveGraceSeconds: got.graceSeconds, times });
    waiting.set(id, times.stoppedMs);
  }

  return {
    observe: (atMs, shutdownEvents) => {
      const outcomes = [...waiting].flatMap(([of, endMs]): Outcome[] => {
        if (endMs > atMs) return [];
        waiting.delete(of);
        return [{ of, atMs: endMs, kind: 'ended', via: 'sigterm', releasedBytes: NO_SAMPLE }];
      });
      const all = [...lives.values()];
      return {
        ...BLANK_OBSERVATION,
        atMs,
        outcomes,
        shutdownEvents,
        pods: known(all.filter((life) => isAlive(life, atMs)).map(({ view }) => view)),
        volumesMounted: known(all.filter((life) => isMounted(life, atMs)).map(({ view }) => view.uid)),
      };
    },
    stop: (decisions) => {
      const left = [...decisions];
      for (let next = nextInTurn(left); next !== undefined; next = nextInTurn(left)) begin(next);
    },
    leftOf: ({ running, mounted }, atMs) => {
      const lifeOf = (uid: PodUid): readonly Life[] => [lives.get(uid)].filter((life) => life !== undefined);
      const isRunning = (uid: PodUid): boolean => lifeOf(uid).some((life) => isAlive(life, atMs));
      const ended = running.filter((uid) => !isRunning(uid));
      const pending = ended.filter((uid) => lifeOf(uid).some((life) => isMounted(life, atMs)));
      return { running: running.filter(isRunning), mounted: [...mounted, ...pending] };
    },
    nextEndMs: () => Math.min(...waiting.values()),
    signalled: () => signalled,
  };
}

const NO_SAMPLE = unknown('not-applicable', 'scenario', 'a shutdown scenario has no measurements');
