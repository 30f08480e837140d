import type { MetThreshold } from '../core/eviction/threshold.ts';
import { evictionsOf } from '../core/eviction/under-way.ts';
import type { Observation } from '../core/observation.ts';
import { type PodUid, podName } from '../core/pod/pod.ts';
import { fileSystemOf, type NodeCondition, SIGNAL_FACTS, type Signal } from '../core/signal.ts';
import type { Verdict } from '../core/verdict.ts';
import type { Finding, Findings, Log } from '../ports.ts';
import { findingOfReason, signalsUnreadable } from '../words/finding-eviction.ts';
import { sayThreshold } from '../words/phrases.ts';

/** D5: an unreadable signal becomes a finding after this many looks over at least this time. */
const UNKNOWN_LOOKS = 3;
const UNKNOWN_MS = 10_000;

/** Reports what a look changed: conditions in the log, problems as findings. One line per fact, none per look. */
export function createAnnouncer(needs: {
  readonly log: Log;
  readonly findings: Findings;
}): (observation: Observation, verdict: Verdict) => void {
  const { log, findings } = needs;
  let raised: ReadonlyMap<string, Finding> = new Map();

  return (observation, verdict) => {
    for (const decision of verdict.decisions) {
      if (decision.kind === 'set-condition') tellCondition(log, decision.condition, decision.status, verdict);
    }
    const found = [
      ...[...unreadable(observation, verdict)].map(([cause, signals]) => signalsUnreadable(signals, cause)),
      ...verdict.reasons.map((reason) => findingOfReason(reason, (uid) => nameIn(observation, verdict, uid))),
    ];
    const now = new Map(found.flatMap((finding) => (finding === null ? [] : [[finding.id, finding]])));
    for (const finding of now.values()) findings.raise(finding);
    for (const id of raised.keys()) if (!now.has(id)) findings.clear(id);
    raised = now;
  };
}

/** Grouped by cause, so that one file system is one finding. */
function unreadable(observation: Observation, { state, reasons }: Verdict): Map<string, Signal[]> {
  const causes = new Map<string, Signal[]>();
  for (const reason of reasons) {
    if (reason.code !== 'signal-unknown') continue;
    const failed = state.failedLooks[reason.signal];
    if (failed === undefined || failed.count < UNKNOWN_LOOKS) continue;
    if (observation.atMs - failed.sinceMs < UNKNOWN_MS) continue;
    const cause = `${reason.unknown.where}: ${reason.unknown.detail}`;
    const told = causes.get(cause) ?? [];
    // containerfs comes last: without a file system of its own, it is an alias of another one.
    if (told.length === 0 || fileSystemOf(reason.signal) !== 'containerfs') causes.set(cause, [...told, reason.signal]);
  }
  return causes;
}

function nameIn({ pods }: Observation, { state }: Verdict, uid: PodUid): string {
  const named = [...evictionsOf(state).map(({ victim }) => victim), ...(pods.known ? pods.value : [])];
  const pod = named.find((other) => other.uid === uid);
  return pod === undefined ? uid : podName(pod);
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
