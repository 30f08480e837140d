import type { Decision } from '../core/decision.ts';
import type { Outcome } from '../core/outcome.ts';
import type { Victim } from '../core/pod.ts';
import type { ShutdownStop } from '../core/state.ts';
import type { Clock, Findings, Killer, Log, StopOrder } from '../ports.ts';

export type ShutdownStopNeeds = {
  readonly clock: Clock;
  readonly killer: Pick<Killer, 'stop'>;
  readonly log: Log;
  readonly findings: Findings;
};
/** A stop that is under way for another reason. `hasten` cuts its grace. */
export type UnderWay = { readonly hasten: AbortController; readonly ended: Promise<Outcome> };

/** As for a soft eviction: what gets no time has 2 s, as in the kubelet (kubelet-shutdown.md 4.6). */
const LEAST_GRACE_MS = 2_000;

/** Stops a pod in its phase. One that an eviction stops already is not told twice: its grace is cut to that of the phase. */
export async function stopForShutdown(
  needs: ShutdownStopNeeds,
  { id, victim, graceSeconds }: Extract<Decision, { kind: 'stop-for-shutdown' }>,
  underWay: UnderWay | null,
): Promise<Outcome> {
  const graceMs = graceSeconds > 0 ? graceSeconds * 1_000 : LEAST_GRACE_MS;
  if (underWay !== null) {
    underWay.hasten.abort({ first: 'sigterm', graceMs });
    const outcome = await underWay.ended;
    // Anything else did not stop it, and it is stopped now.
    if (outcome.kind === 'ended') return told(needs, victim, { ...outcome, of: id });
  }
  return stop(needs, { ...orderOf(id, victim, graceMs), resumedFromMs: null });
}

/** Goes on with a stop that an earlier run of the agent had begun; `victim` null: the pod is not declared any more. */
export async function resumeShutdownStop(
  needs: ShutdownStopNeeds,
  { decision, decidedMs, graceEndsMs }: ShutdownStop,
  victim: Victim | null,
): Promise<Outcome> {
  const { clock } = needs;
  if (victim === null) return { of: decision, atMs: clock.monoMs(), kind: 'dropped', because: 'gone' };
  const graceMs = Math.max(1, graceEndsMs - clock.monoMs());
  return stop(needs, { ...orderOf(decision, victim, graceMs), resumedFromMs: decidedMs });
}

function orderOf(decision: string, victim: Victim, graceMs: number): Omit<StopOrder, 'resumedFromMs'> {
  return { decision, victim, graceMs, why: 'shutdown', first: 'sigterm', givesBack: 'memory' };
}

async function stop(needs: ShutdownStopNeeds, order: StopOrder): Promise<Outcome> {
  // Nothing is more urgent than its phase: a signal that never comes, of its own, as hundreds may listen at once.
  return told(needs, order.victim, await needs.killer.stop(order, new AbortController().signal));
}

function told({ log, findings }: ShutdownStopNeeds, victim: Victim, outcome: Outcome): Outcome {
  const pod = `${victim.namespace}/${victim.name}`;
  const fields = { event: 'phase', decision: outcome.of, pod } as const;
  if (outcome.kind !== 'survived') findings.clear(`survived/${victim.uid}`);
  if (outcome.kind === 'ended') log.info({ ...fields, via: outcome.via }, `${pod} has ended by ${outcome.via}`);
  else if (outcome.kind === 'dropped') log.info({ ...fields, because: outcome.because }, `${pod} was gone already`);
  else if (outcome.kind === 'survived') {
    log.error({ ...fields, left: outcome.left }, `${pod} could not be ended: ${outcome.detail}`);
    findings.raise({ id: `survived/${victim.uid}`, text: `${pod} survived its stop: ${outcome.detail}` });
  }
  return outcome;
}
