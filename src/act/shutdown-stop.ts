import type { Decision } from '../core/decision.ts';
import type { Outcome, Rung } from '../core/outcome.ts';
import { podName, type Victim } from '../core/pod/pod.ts';
import type { MonoMs } from '../core/reading.ts';
import { turnOfStop } from '../core/shutdown/chain.ts';
import type { ShutdownStop } from '../core/state/state.ts';
import type { Clock, Findings, Killer, Log, StopOrder } from '../ports.ts';
import { sayDropped, sayEndUnknown, sayVia } from '../words/decision.ts';
import { survived, survivedId } from '../words/finding-eviction.ts';
import { createHasten, type Hastening } from './hasten.ts';
import { NOT_MEASURED } from './released-memory.ts';

type ShutdownStopNeeds = {
  readonly clock: Clock;
  readonly killer: Pick<Killer, 'stop' | 'cancel'>;
  readonly log: Log;
  readonly findings: Findings;
};
/** A stop in progress for another reason. `hasten` cuts its grace period; `ended`: with the time of its first signal. */
export type UnderWay = { readonly hasten: Hastening; readonly ended: Promise<Outcome> };

type Resumed = {
  /** Null: the pod does not run, and nothing else is known of it. */
  readonly victim: Victim | null;
  readonly doneBefore: readonly Rung[];
  readonly underWay: UnderWay | null;
};

/**
 * Stops a pod in its phase. A pod that an eviction is already stopping is not signalled twice: its grace period is cut to
 * that of the phase.
 */
export async function stopForShutdown(
  needs: ShutdownStopNeeds,
  decision: Extract<Decision, { kind: 'stop-for-shutdown' }>,
  underWay: UnderWay | null,
): Promise<Outcome> {
  const { id, victim } = decision;
  const turn = turnOfStop(decision);
  const { graceMs } = turn;
  const phase = { endsMs: turn.endsMs, ...tierOf(decision) };
  const outcome = underWay === null ? null : await endOf(needs, underWay, { graceMs, phase });
  if (outcome !== null) return told(needs, victim, { ...outcome, of: id });
  return stop(needs, { ...orderOf(id, victim, graceMs), ...tierOf(decision), turn, resumedFromMs: null });
}

/** How what was under way ended the pod, or that the shutdown is cancelled by then. Null: the pod is still to be stopped. */
async function endOf(
  { clock, killer }: ShutdownStopNeeds,
  underWay: UnderWay,
  cut: Pick<Parameters<Hastening['cut']>[0], 'graceMs' | 'phase'>,
): Promise<Outcome | null> {
  const cancel = killer.cancel?.();
  if (cancel?.aborted !== true) underWay.hasten.cut({ first: 'sigterm', ...cut });
  const outcome = await underWay.ended;
  if (outcome.kind === 'ended' || outcome.kind === 'unknown') return outcome;
  // No other outcome has stopped it.
  return cancel?.aborted === true
    ? { of: outcome.of, atMs: clock.monoMs(), kind: 'dropped', because: 'cancelled' }
    : null;
}

/** Resumes a stop that an earlier run of the agent began. */
export async function resumeShutdownStop(
  needs: ShutdownStopNeeds,
  { decision, decidedMs, graceEndsMs, graceSeconds, chain, endsMs, tier }: ShutdownStop,
  { victim, doneBefore, underWay }: Resumed,
): Promise<Outcome> {
  const { clock } = needs;
  if (victim === null) return { of: decision, atMs: clock.monoMs(), kind: 'dropped', because: 'gone' };
  // All of it, not what is left: it counts from the signal, which that run may have sent.
  const turn = turnOfStop({
    atMs: decidedMs,
    graceSeconds: graceSeconds ?? (graceEndsMs - decidedMs) / 1_000,
    endsMs: endsMs ?? graceEndsMs,
    ...(chain === undefined ? {} : { chain }),
  });
  const leftMs = (): number => Math.max(1, graceEndsMs - clock.monoMs());
  const phase = { endsMs: turn.endsMs, ...tierOf({ tier }) };
  const outcome = underWay === null ? null : await endOf(needs, underWay, { graceMs: leftMs(), phase });
  if (outcome !== null) return told(needs, victim, { ...outcome, of: decision });
  const before = { resumedFromMs: decidedMs, usedBefore: NOT_MEASURED, doneBefore };
  return stop(needs, { ...orderOf(decision, victim, leftMs()), ...tierOf({ tier }), turn, ...before });
}

const tierOf = ({ tier }: { readonly tier?: 'stop' | undefined }): Pick<StopOrder, 'tier'> =>
  tier === undefined ? {} : { tier };

function orderOf(decision: string, victim: Victim, graceMs: number): Omit<StopOrder, 'resumedFromMs'> {
  return { decision, victim, graceMs, why: 'shutdown', isHard: false, first: 'sigterm', givesBack: 'memory' };
}

async function stop(needs: ShutdownStopNeeds, order: StopOrder): Promise<Outcome> {
  let toldMs: MonoMs | null = null;
  /** Of a stop that an earlier run began, it is that run that may have signalled it. */
  let isSure = order.resumedFromMs === null;
  // Nothing is more urgent than its phase, so it is never hastened.
  const never = createHasten(needs.clock);
  const outcome = await needs.killer.stop(order, never, (how, atMs) => {
    if (how !== 'sigterm') return;
    isSure ||= toldMs === null && atMs !== undefined;
    toldMs ??= atMs ?? needs.clock.monoMs();
  });
  if (outcome.kind !== 'ended' && outcome.kind !== 'survived') return told(needs, order.victim, outcome);
  // A pod that ended by itself may have done so before the signal was noticed.
  const isKilled = outcome.kind === 'survived' || outcome.via === 'sigkill' || outcome.via === 'cgroup.kill';
  const isKnown = toldMs === null ? isKilled : isSure;
  return told(needs, order.victim, isKnown ? { ...outcome, toldMs } : outcome);
}

/** One that is not stopped for another reason may be what survived before. */
const isDead = (outcome: Outcome): boolean =>
  outcome.kind === 'ended' ||
  outcome.kind === 'unknown' ||
  (outcome.kind === 'dropped' && (outcome.because === 'gone' || outcome.because === 'started-anew'));

function told({ log, findings }: ShutdownStopNeeds, victim: Victim, outcome: Outcome): Outcome {
  const pod = podName(victim);
  const fields = { event: 'phase', decision: outcome.of, pod } as const;
  if (isDead(outcome)) findings.clear(survivedId(victim.uid));
  if (outcome.kind === 'ended') log.info({ ...fields, via: outcome.via }, `${pod} was ended ${sayVia(outcome.via)}`);
  else if (outcome.kind === 'dropped')
    log.info({ ...fields, because: outcome.because }, `${pod} is not stopped: ${sayDropped(outcome.because)}`);
  else if (outcome.kind === 'unknown')
    log.info({ ...fields, detail: outcome.detail }, `${pod} has ended; ${sayEndUnknown(outcome.detail)}`);
  else if (outcome.kind === 'survived') {
    log.error({ ...fields, left: outcome.left }, `${pod} could not be ended: ${outcome.detail}`);
    findings.raise(survived(victim.uid, pod, 'stop', outcome.detail));
  }
  return outcome;
}
