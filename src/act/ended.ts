import type { Outcome } from '../core/outcome.ts';
import type { Victim } from '../core/pod.ts';
import { known, valueOrNull } from '../core/reading.ts';
import { sayGivenBack } from '../core/say.ts';
import { isDisk, SIGNAL_FACTS } from '../core/signal.ts';
import type { MetThreshold } from '../core/threshold.ts';
import type { Findings, Log, Observer, Scratch } from '../ports.ts';

export type EndNeeds = {
  readonly observer: Pick<Observer, 'reread'>;
  /** Absent: nobody has any. */
  readonly scratch?: Scratch;
  readonly log: Log;
  readonly findings: Findings;
};

/** What follows the end of a stop: what it brought is found out and told. `threshold` null: over a local storage limit. */
export async function ended(
  needs: EndNeeds,
  victim: Victim,
  threshold: MetThreshold | null,
  outcome: Outcome,
): Promise<Outcome> {
  const { log, findings } = needs;
  const pod = podName(victim);
  if (outcome.kind === 'ended') {
    const told = {
      ...outcome,
      ...(await emptyScratch(needs, victim, threshold)),
      ...(await signalAfter(needs, threshold)),
    };
    const { via, releasedBytes } = told;
    log.warn(
      { event: 'evicted', decision: outcome.of, pod, via, releasedBytes: valueOrNull(releasedBytes) },
      `${pod} has ended by ${via}${told.signal === undefined ? ' and' : ';'} ${sayGivenBack(told)}`,
    );
    findings.clear(survivedId(victim));
    return told;
  } else if (outcome.kind === 'survived') {
    log.error(
      { event: 'evict-failed', decision: outcome.of, pod, left: outcome.left },
      `${pod} could not be ended: ${outcome.detail}; the next candidate is chosen`,
    );
    findings.raise({ id: survivedId(victim), text: `${pod} survived its eviction: ${outcome.detail}` });
  } else if (outcome.kind === 'dropped') {
    log.info(
      { event: 'dropped', decision: outcome.of, pod, because: outcome.because },
      `${pod}: not stopped, ${DROPPED[outcome.because]}`,
    );
  }
  return outcome;
}

/** What makes an eviction for a disk useful: it is dead, and what it declared as scratch goes with it. */
async function emptyScratch(
  { scratch }: EndNeeds,
  { uid }: Victim,
  threshold: MetThreshold | null,
): Promise<Pick<Extract<Outcome, { kind: 'ended' }>, 'emptied'>> {
  if (threshold !== null && !isDisk(threshold.signal)) return {};
  const emptied = await scratch?.empty(uid);
  return emptied ? { emptied } : {};
}

/** Memory is told by what the victim held; of all else there is only what the node has now. */
async function signalAfter(
  { observer }: EndNeeds,
  threshold: MetThreshold | null,
): Promise<Pick<Extract<Outcome, { kind: 'ended' }>, 'signal'>> {
  const name = threshold?.signal ?? 'nodefs.available';
  if (SIGNAL_FACTS[name].resource === 'memory') return {};
  // D3: file systems are sampled beside the looks, and a sample from before would choose the next for what is back already.
  const after = await observer.reread(name);
  const reading = after.known ? known(after.value.available) : after;
  return { signal: { name, before: threshold?.available ?? null, after: reading } };
}

const DROPPED = {
  'no-longer-met': 'the threshold is no longer met',
  gone: 'it was gone already',
  'dry-run': 'this is a dry run',
  cancelled: 'the shutdown was cancelled',
  'left-to-systemd': 'systemd stops it after the phases',
  rebound: 'its manifest has named another cgroup, unit or container since',
} as const;
const survivedId = (victim: Victim): string => `survived/${victim.uid}`;
const podName = ({ namespace, name }: Victim): string => `${namespace}/${name}`;
