import { namesOf, type PodUid } from '../../core/pod/pod.ts';
import { sayDuration } from '../../core/units/duration.ts';
import { aliveAtSignal, type Played, type Signalled } from './play.ts';
import type { ShutdownReason } from './result.ts';
import type { ShutdownScenario } from './scenario.ts';

/** kubelet-shutdown.md 1.6. */
export function configReasons({ warnings }: ShutdownScenario): readonly ShutdownReason[] {
  return warnings.map((text) => ({ code: 'warning', text }));
}

export function notArmed(neededMs: number, grantedMs: number): ShutdownReason {
  const text =
    `logind grants ${sayDuration(grantedMs)} of the ${sayDuration(neededMs)} needed: not armed, and no part of the time is used, ` +
    'as in the kubelet; live, the phases shrink to fit (D11)';
  return { code: 'not-armed', neededMs, grantedMs, text };
}

/** shutdown-scenarios.md 6.2: which pod used up a phase, was cut short or is killed late, and what a phase waited for. */
export function runReasons(scenario: ShutdownScenario, played: Played): readonly ShutdownReason[] {
  const say = namesOf(scenario.pods.map(({ declared }) => declared));
  const reasons: ShutdownReason[] = [];
  for (const [i, over] of played.phases.entries()) {
    const signalled = [...played.signalled.values()].filter(({ phase }) => phase === over.phase);
    reasons.push(...signalled.flatMap(cutReasons), ...phaseReasons(scenario, played, i, say));
    reasons.push(...signalled.flatMap((of) => lateReasons(of, over.endMs, played.releasedMs)));
  }
  return [...reasons, ...goneReasons(scenario, played), ...cancelReasons(scenario, played)];
}

type Over = Played['phases'][number];

function phaseReasons(scenario: ShutdownScenario, played: Played, i: number, say: (uid: PodUid) => string) {
  const over = played.phases[i];
  if (over === undefined) return [];
  const reasons: ShutdownReason[] = [];
  for (const { uid, phase, atMs } of played.exceeded) {
    if (phase !== over.phase) continue;
    const ms = atMs - over.startedMs;
    const text = `the phase waited ${sayDuration(ms)} for ${say(uid)}, the longest that it waits for a pod with its grace period`;
    reasons.push({ code: 'wait-exceeded', pod: say(uid), ms, text });
  }
  const slowest = slowestVolumes(played, over);
  if (over.volumesMs > 0 && slowest !== null) {
    const text = `the phase waited ${sayDuration(over.volumesMs)} for volumes of ${slowest}`;
    reasons.push({ code: 'volumes', pod: slowest, ms: over.volumesMs, text });
  }
  const { fromPriority = 0, periodSeconds = 0 } = scenario.phases[over.phase - 1] ?? {};
  const left = [...over.running, ...over.mounted].map(say);
  if (over.by === 'period' && left.length > 0) {
    const text = `the phase of priority ${fromPriority} used up its ${periodSeconds} s; left: ${left.join(', ')}`;
    reasons.push({ code: 'period-used-up', priority: fromPriority, pods: left, text });
  } else if (over.by === 'volume-timeout') {
    const text = `the phase of priority ${fromPriority} gave up on volumes of ${left.join(', ')}`;
    reasons.push({ code: 'volume-timeout', priority: fromPriority, pods: left, text });
  }
  return reasons;
}

/** The pod in the phase whose volumes are unmounted last. */
function slowestVolumes({ signalled }: Played, { phase }: Over): string | null {
  let slowest: { readonly name: string; readonly ms: number } | null = null;
  for (const { pod, times, phase: of } of signalled.values()) {
    const { unmountAfterMs } = pod.behaviour;
    const ms = times.stoppedMs + unmountAfterMs;
    if (of === phase && unmountAfterMs > 0 && (slowest === null || ms > slowest.ms)) slowest = { name: pod.name, ms };
  }
  return slowest?.name ?? null;
}

function cutReasons({ pod, graceSeconds }: Signalled): readonly ShutdownReason[] {
  const ownSeconds = pod.declared.terminationGraceSeconds;
  // A pod that is being deleted keeps its grace period (kubelet-shutdown.md 4.9).
  if (graceSeconds >= ownSeconds || pod.behaviour.deletion !== null) return [];
  const text = `${pod.name} gets ${graceSeconds} s of its own ${ownSeconds} s: its phase lasts no longer`;
  return [{ code: 'cut', pod: pod.name, gracePeriodSeconds: graceSeconds, ownSeconds, text }];
}

function lateReasons({ pod, times }: Signalled, endMs: number, releasedMs: number | null): readonly ShutdownReason[] {
  const { killedMs, stoppedMs } = times;
  const { name } = pod;
  const reasons: ShutdownReason[] = [];
  if (killedMs !== null && stoppedMs > endMs) {
    const text = `${name} is killed at ${sayDuration(killedMs)}, its phase ended at ${sayDuration(endMs)}`;
    reasons.push({ code: 'killed-late', pod: name, killedAt: killedMs, phaseEnd: endMs, text });
  }
  if (releasedMs !== null && stoppedMs > releasedMs) {
    const text = `${name} still runs when the lock is released at ${sayDuration(releasedMs)}; it needs until ${sayDuration(stoppedMs)}`;
    reasons.push({ code: 'alive-at-release', pod: name, stoppedAt: stoppedMs, text });
  }
  return reasons;
}

/** kubelet-shutdown.md 12.3: the kubelet would wait for them. */
function goneReasons(scenario: ShutdownScenario, played: Played): readonly ShutdownReason[] {
  if (played.releasedMs === null) return [];
  return aliveAtSignal(scenario)
    .filter(({ declared }) => !played.signalled.has(declared.uid))
    .map(({ name }) => ({
      code: 'gone-before-phase',
      pod: name,
      text: `${name} had ended before its phase began, which does not wait for it`,
    }));
}

function cancelReasons({ cancelAtMs, cancelPolicy }: ShutdownScenario, played: Played): readonly ShutdownReason[] {
  if (cancelAtMs === null) return [];
  const stopped = played.signalled.size;
  const when = `cancelled at ${sayDuration(cancelAtMs)}`;
  const what =
    played.releasedMs === null
      ? 'no further phase begins, the lock is kept (D10)'
      : cancelPolicy === 'afterPhases'
        ? 'handled after the last phase, as in the kubelet'
        : 'the lock is taken again';
  const text = `${when}: ${what}; ${stopped} ${stopped === 1 ? 'pod was' : 'pods were'} asked to stop`;
  return [{ code: 'cancelled', at: cancelAtMs, stopped, text }];
}
