import { namesOf, podName } from '../../core/pod/pod.ts';
import { dropInSeconds, neededDelayMs, planShutdown } from '../../core/shutdown/plan.ts';
import { aliveAtSignal, type Played, playShutdown, type Signalled } from './play.ts';
import { configReasons, notArmed, runReasons } from './reasons.ts';
import type { PodResult, ShutdownReason, ShutdownResult } from './result.ts';
import type { ShutdownScenario } from './scenario.ts';

/** kubelet-shutdown.md 7.1, the kubelet's own words. */
const STATUS = {
  phase: 'Failed',
  reason: 'Terminated',
  message: 'Pod was terminated in response to imminent node shutdown.',
  disruptionTarget: true,
} as const;
/** kubelet-shutdown.md 2.4: when the kubelet reads back what logind grants, after the reload. */
const READ_BACKS_MS = [0, 100, 300, 700, 1_500];

/** The result of a shutdown, in the shape of shutdown-scenarios.md section 4, and why. */
export function runShutdown(scenario: ShutdownScenario): {
  readonly result: ShutdownResult;
  readonly reasons: readonly ShutdownReason[];
} {
  const { refusals, phases } = scenario;
  if (refusals.length > 0) return { result: { configErrors: refusals }, reasons: [] };
  const warnings = configReasons(scenario);
  if (phases.length === 0) return { result: { enabled: false }, reasons: warnings };
  const { grantedMs, ...armed } = arm(scenario);
  const arming = { enabled: true, ...armed };
  if (!armed.armed) return { result: arming, reasons: [...warnings, notArmed(armed.inhibitDelay, grantedMs)] };
  const played = playShutdown(scenario, grantedMs);
  return {
    result: { ...arming, ...resultOf(scenario, played, grantedMs) },
    reasons: [...warnings, ...runReasons(scenario, played)],
  };
}

type Arming = {
  readonly armed: boolean;
  readonly inhibitDelay: number;
  readonly dropInSeconds: number | null;
  readonly readBacks?: number;
  readonly grantedMs: number;
};

/** kubelet-shutdown.md 2.3 to 2.6; once, well before the signal. */
function arm({ phases, logind }: ShutdownScenario): Arming {
  const inhibitDelay = neededDelayMs(phases);
  const { inhibitDelayMaxMs, overrideTakesMs } = logind;
  const seconds = dropInSeconds(inhibitDelay, inhibitDelayMaxMs);
  if (seconds === null) return { armed: true, inhibitDelay, dropInSeconds: null, grantedMs: inhibitDelayMaxMs };
  const givesMs = logind.overrideGivesMs ?? inhibitDelay;
  const readAt = (ms: number): number => (ms >= overrideTakesMs ? givesMs : inhibitDelayMaxMs);
  const enough = READ_BACKS_MS.findIndex((ms) => readAt(ms) >= inhibitDelay);
  const readBacks = enough === -1 ? READ_BACKS_MS.length : enough + 1;
  const grantedMs = readAt(READ_BACKS_MS[readBacks - 1] ?? 0);
  return { armed: enough !== -1, inhibitDelay, dropInSeconds: seconds, readBacks, grantedMs };
}

function resultOf(scenario: ShutdownScenario, played: Played, grantedMs: number): ShutdownResult {
  const { phases, pods, cancelAtMs } = scenario;
  const nameOf = namesOf(pods.map(({ declared }) => declared));
  const alive = aliveAtSignal(scenario).map(({ declared }) => declared);
  return {
    groups: planShutdown(phases, alive).map(({ fromPriority, periodSeconds, stops }) => ({
      priority: fromPriority,
      periodSeconds,
      pods: stops.map(({ pod }) => podName(pod)),
    })),
    phases: played.phases.map(({ phase, startedMs, endMs, by, running, mounted }) => ({
      priority: phases[phase - 1]?.fromPriority ?? 0,
      periodSeconds: phases[phase - 1]?.periodSeconds ?? 0,
      start: startedMs,
      end: endMs,
      endedBy: by === 'volume-timeout' ? 'volumeTimeout' : by,
      ...(running.length === 0 ? {} : { stillRunning: running.map(nameOf) }),
      ...(mounted.length === 0 ? {} : { volumesPending: mounted.map(nameOf) }),
    })),
    lockReleasedAt: played.releasedMs,
    shutdownProceedsAt:
      cancelAtMs !== null || played.releasedMs === null ? null : Math.min(played.releasedMs, grantedMs),
    refusesPods: { from: 0, until: played.reopenedMs },
    ...(cancelAtMs === null ? {} : { lockRetakenAt: played.retakenMs }),
    pods: podResults(scenario, played),
  };
}

function podResults(scenario: ShutdownScenario, { signalled }: Played): NonNullable<ShutdownResult['pods']> {
  const results = new Map<string, PodResult | null>();
  for (const { name, declared, isStopped } of scenario.pods) {
    const of = isStopped ? signalled.get(declared.uid) : undefined;
    // A static pod and its mirror have one name.
    if (of !== undefined || !results.has(name)) results.set(name, of === undefined ? null : podResult(scenario, of));
  }
  return Object.fromEntries(results);
}

function podResult({ phases }: ShutdownScenario, signalled: Signalled): PodResult {
  const { startMs, sigtermMs, killedMs, stoppedMs } = signalled.times;
  return {
    group: phases[signalled.phase - 1]?.fromPriority ?? 0,
    gracePeriodSeconds: signalled.graceSeconds,
    effectiveGracePeriodSeconds: signalled.effectiveGraceSeconds,
    start: startMs,
    sigtermAt: sigtermMs,
    ...(killedMs === null ? {} : { killedAt: killedMs }),
    stoppedAt: stoppedMs,
    // A pod that is being deleted gets no shutdown status (kubelet-shutdown.md 7.1).
    status: signalled.pod.behaviour.deletion === null ? STATUS : null,
  };
}
