import type { DecisionId } from '../core/decision.ts';
import type { MetThreshold } from '../core/eviction/threshold.ts';
import type { Outcome } from '../core/outcome.ts';
import { podName, type Victim } from '../core/pod/pod.ts';
import { known, type Reading, unknown, valueOrNull } from '../core/reading.ts';
import { isDisk, SIGNAL_FACTS, type Signal } from '../core/signal.ts';
import type { Findings, Log, Observer, Scratch, StopOrder } from '../ports.ts';
import { sayDropped, sayEmptied, sayEndUnknown, sayGivenBack, sayVia } from '../words/decision.ts';
import { survived, survivedId } from '../words/finding-eviction.ts';
import { and } from '../words/phrases.ts';

export type EndNeeds = {
  readonly observer: Pick<Observer, 'reread'>;
  /** Absent: none. */
  readonly scratch?: Pick<Scratch, 'empty'>;
  readonly log: Log;
  readonly findings: Findings;
};

const EMPTIED_BEFORE = unknown('not-asked', 'scratch', 'an earlier run of the agent may have emptied a part of it');

/**
 * The outcome for a victim without processes: if an earlier run had signalled it, it did not end on its own. `asked`: how it
 * is asked to stop; `isStartedAnew`: its cgroup has processes that started after the decision.
 */
export function goneAs(
  { sentBefore }: Pick<StopOrder, 'sentBefore'>,
  asked: 'sigterm' | 'stop-unit',
  releasedBytes: Reading<number>,
  isStartedAnew = false,
):
  | Pick<Extract<Outcome, { kind: 'ended' }>, 'kind' | 'via' | 'releasedBytes'>
  | Pick<Extract<Outcome, { kind: 'dropped' }>, 'kind' | 'because'> {
  if (sentBefore === undefined) return { kind: 'dropped', because: isStartedAnew ? 'started-anew' : 'gone' };
  const via = sentBefore === 'sigkill' ? 'sigkill' : asked;
  return { kind: 'ended', via, releasedBytes };
}

/**
 * After the end of a stop: measures and reports what it freed. `threshold` null: it exceeded a local storage limit. `isLate`:
 * it had ended while no agent ran, or under an earlier run, which may have emptied some of its scratch. `isDead`: that is certain
 * also of an `unknown` outcome.
 */
export async function ended(
  needs: EndNeeds,
  victim: Victim,
  threshold: MetThreshold | null,
  outcome: Outcome,
  { isLate = false, isDead = false } = {},
): Promise<Outcome> {
  if (outcome.kind !== 'ended' && !(isDead && outcome.kind === 'unknown')) return reported(needs, victim, outcome);
  const { emptied } = await emptyScratch(needs, victim, threshold, outcome.of);
  const scratch =
    emptied === undefined ? {} : { emptied: isLate ? { ...emptied, freedBytes: EMPTIED_BEFORE } : emptied };
  if (outcome.kind === 'unknown') return reported(needs, victim, { ...outcome, ...scratch });
  const noticed = isLate ? ({ isNoticedLater: true } as const) : {};
  return reported(needs, victim, { ...outcome, ...noticed, ...scratch, ...(await signalAfter(needs, threshold)) });
}

/** In the log, and a finding where it could not be ended. */
function reported({ log, findings }: Pick<EndNeeds, 'log' | 'findings'>, victim: Victim, outcome: Outcome): Outcome {
  const pod = podName(victim);
  if (outcome.kind === 'ended') {
    const { via, releasedBytes, detail = '' } = outcome;
    log.warn(
      { event: 'evicted', decision: outcome.of, pod, via, releasedBytes: valueOrNull(releasedBytes) },
      and(
        `${pod} was ended ${sayVia(via)}${outcome.signal === undefined ? ' and' : ';'} ${sayGivenBack(outcome)}`,
        detail,
      ),
    );
    findings.clear(survivedId(victim.uid));
  } else if (outcome.kind === 'unknown') {
    log.warn(
      {
        event: outcome.rungs === undefined ? 'evict-failed' : 'api-away',
        decision: outcome.of,
        pod,
        detail: outcome.detail,
      },
      and(`${pod} has ended; ${sayEndUnknown(outcome.detail)}`, sayEmptied(outcome)),
    );
    findings.clear(survivedId(victim.uid));
  } else if (outcome.kind === 'survived') {
    log.error(
      { event: 'evict-failed', decision: outcome.of, pod, left: outcome.left },
      and(
        `${pod} could not be ended: ${outcome.detail}`,
        outcome.escaped === undefined ? 'other evictions no longer wait for it' : '',
      ),
    );
    findings.raise(survived(victim.uid, pod, 'eviction', outcome.detail));
  } else if (outcome.kind === 'dropped') {
    log.info(
      { event: 'dropped', decision: outcome.of, pod, because: outcome.because },
      `${pod} is not stopped: ${sayDropped(outcome.because)}`,
    );
  }
  return outcome;
}

/** Local storage limits are about files of nodefs. */
const relievedBy = (threshold: MetThreshold | null): Signal => threshold?.signal ?? 'nodefs.available';

/** Makes an eviction for a disk useful: once the pod is dead, its scratch directories are emptied. */
async function emptyScratch(
  { scratch }: EndNeeds,
  victim: Victim,
  threshold: MetThreshold | null,
  of: DecisionId,
): Promise<Pick<Extract<Outcome, { kind: 'ended' }>, 'emptied'>> {
  const signal = relievedBy(threshold);
  if (!isDisk(signal)) return {};
  const emptied = await scratch?.empty(victim, { of, signal });
  return emptied ? { emptied } : {};
}

/** Memory is reported by what the victim held. For everything else, only the node's present value is known. */
async function signalAfter(
  { observer }: EndNeeds,
  threshold: MetThreshold | null,
): Promise<Pick<Extract<Outcome, { kind: 'ended' }>, 'signal'>> {
  const name = relievedBy(threshold);
  if (SIGNAL_FACTS[name].resource === 'memory') return {};
  // D3: file systems are sampled beside the looks, and an older sample would choose another victim for space already freed.
  const after = await observer.reread(name);
  const reading = after.known ? known(after.value.available) : after;
  return { signal: { name, before: threshold?.available ?? null, after: reading } };
}
