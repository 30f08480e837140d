import type { Observation } from '../core/observation.ts';
import { sayReason, sayThreshold } from '../core/say.ts';
import { evictionsOf } from '../core/settle.ts';
import { type NodeCondition, SIGNAL_FACTS, type Signal } from '../core/signal.ts';
import type { MetThreshold } from '../core/threshold.ts';
import type { Verdict } from '../core/verdict.ts';
import type { Findings, Log } from '../ports.ts';

/** D5: a signal that could not be read is a finding after so many looks over at least so long. */
const UNKNOWN_LOOKS = 3;
const UNKNOWN_MS = 10_000;

/** Says what a look changed: conditions in the log, what a person should know as findings. One line per fact, none per look. */
export function createTeller(needs: {
  readonly log: Log;
  readonly findings: Findings;
}): (observation: Observation, verdict: Verdict) => void {
  const { log, findings } = needs;
  let raised = new Set<string>();

  return (observation, verdict) => {
    for (const decision of verdict.decisions) {
      if (decision.kind === 'set-condition') tellCondition(log, decision.condition, decision.status, verdict);
    }
    const now = new Map<string, string>();
    for (const [cause, signals] of unreadable(observation, verdict)) {
      now.set(
        `signal-unknown/${signals[0]}`,
        `${sayList(signals)} cannot be read (${cause}): no decision is taken on it`,
      );
    }
    for (const reason of verdict.reasons) {
      if (reason.code === 'not-signalled')
        now.set(`not-signalled/${reason.uid}`, sayReason(reason, nameIn(observation, verdict)));
      if (reason.code === 'order-unproven')
        now.set(`order-unproven/${reason.signal}`, sayReason(reason, nameIn(observation, verdict)));
      if (reason.code !== 'no-candidate' && reason.code !== 'pods-unknown') continue;
      const id = reason.code === 'no-candidate' ? `no-candidate/${reason.signal}` : 'pods-unknown';
      now.set(
        id,
        sayReason(reason, (uid) => uid),
      );
    }
    for (const [id, text] of now) findings.raise({ id, text });
    for (const id of raised) if (!now.has(id)) findings.clear(id);
    raised = new Set(now.keys());
  };
}

/** By the cause, so that one file system is one finding. */
function unreadable(observation: Observation, { state, reasons }: Verdict): Map<string, Signal[]> {
  const causes = new Map<string, Signal[]>();
  for (const reason of reasons) {
    if (reason.code !== 'signal-unknown') continue;
    const failed = state.failedLooks[reason.signal];
    if (failed === undefined || failed.count < UNKNOWN_LOOKS) continue;
    if (observation.atMs - failed.sinceMs < UNKNOWN_MS) continue;
    const cause = `${reason.unknown.where}: ${reason.unknown.detail}`;
    const told = causes.get(cause) ?? [];
    // The last in order: where there is no containerfs of its own, it is another one's alias.
    if (told.length === 0 || !reason.signal.startsWith('containerfs.')) causes.set(cause, [...told, reason.signal]);
  }
  return causes;
}

const sayList = (names: readonly string[]): string =>
  names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;

function nameIn({ pods }: Observation, { state }: Verdict): (uid: string) => string {
  const named = [...evictionsOf(state).map(({ victim }) => victim), ...(pods.known ? pods.value : [])];
  return (uid) => {
    const pod = named.find((other) => other.uid === uid);
    return pod === undefined ? uid : `${pod.namespace}/${pod.name}`;
  };
}

function tellCondition(log: Log, condition: NodeCondition, status: boolean, verdict: Verdict): void {
  if (!status) {
    log.info({ event: 'pressure-cleared', condition }, `${condition} is over`);
    return;
  }
  const cause = causeOf(condition, verdict);
  const fields = cause === null ? {} : { signal: cause.signal, observed: cause.available, threshold: cause.id };
  log.warn(
    { event: 'pressure', condition, ...fields },
    `${condition}: ${cause === null ? 'a soft threshold is met' : sayThreshold(cause)}`,
  );
}

function causeOf(condition: NodeCondition, verdict: Verdict): MetThreshold | null {
  const isOf = (signal: Signal): boolean => SIGNAL_FACTS[signal].condition === condition;
  for (const reason of verdict.reasons) {
    if (reason.code === 'below-threshold' && isOf(reason.threshold.signal)) return reason.threshold;
  }
  return null;
}
