import type { PodUid } from '../../core/pod/pod.ts';
import { known } from '../../core/reading.ts';
import { within } from '../../host/clock.ts';
import type { Clock, Findings } from '../../ports.ts';
import type { ApiRight } from '../../words/finding-writes.ts';
import type { Deletable } from '../api/api-pod.ts';
import type { ApiWrites } from '../api/api-writes.ts';
import type { EvictAnswer, Over } from '../api/eviction.ts';
import { reportWrite } from '../api/write-failure.ts';
import { type ApiVictim, GRACE_MAX_SECONDS, victimOf } from '../api/write-rules.ts';
import { asUnasked, type Said, type StopThroughApi } from './ladder.ts';

type TellNeeds = {
  readonly clock: Clock;
  readonly writes: Pick<ApiWrites, 'evictPod' | 'deletePod' | 'markDisruption' | 'isEnding' | 'whyNotHere'>;
  /** Known to be away (C1). */
  readonly isAway: () => boolean;
  /** `kubernetes.pdb: required`: without an answer, the budget counts as refusing. */
  readonly isBudgetRequired: boolean;
  /** As far as list and watch tell, its containers have ended. */
  readonly isOver: (uid: PodUid) => boolean;
  readonly later: StopThroughApi['later'];
  readonly heard: StopThroughApi['heard'];
  readonly findings: Pick<Findings, 'raise' | 'clear'>;
};

/** Part of the 100 ms that a kill waits (B6). */
const MARK_MS = 30;
/** The reason for its end in a pod's condition. */
export const LOW_ON_RESOURCES = 'the node was low on resources';
const IS_OVER = 'not sent: the API server shows that the pod has ended';
const SHUTTING_DOWN = 'the node is shutting down';
const EVICT: ApiRight = 'create pods/eviction';
/** All pods of a phase are deleted at once. */
const SHUTDOWN_MS = 2_000;
/** Mirror pods are never victims (B16), so reaching this means a bug. */
const MIRROR: Said = { kind: 'not-said', because: 'never', text: 'a mirror pod is not deleted' };

/** A tenant may ask for any grace period. */
const sendable = (graceSeconds: number): number => Math.min(graceSeconds, GRACE_MAX_SECONDS);

/** The killer's requests to the API server for a victim, and what the answers mean for it. */
export function createStopThroughApi({
  clock,
  writes,
  isAway,
  isBudgetRequired,
  isOver,
  later,
  heard,
  findings,
}: TellNeeds): StopThroughApi {
  /** Nothing is sent for a mirror pod, nor for one that the server does not show on this node, or shows as over. */
  const request = async (
    pod: Deletable,
    send: (victim: ApiVictim) => Promise<Said>,
    toSaid: (answer: EvictAnswer | Over) => Said = saidOf,
  ): Promise<Said> => {
    const victim = victimOf(pod);
    if (victim === null) return MIRROR;
    if (isOver(victim.uid)) return toSaid({ kind: 'over' });
    const elsewhere = pod.isUnplaced ? await writes.whyNotHere(victim) : null;
    return elsewhere === null ? send(victim) : toSaid(elsewhere);
  };
  const remove = async (victim: ApiVictim, graceSeconds: number, why?: 'shutdown'): Promise<Said> => {
    // On another connection the deletion could overtake it, and the reason would be lost (A16).
    const [reason, message] =
      why === 'shutdown'
        ? (['TerminationByNodewarden', SHUTTING_DOWN] as const)
        : (['EvictionByNodewarden', LOW_ON_RESOURCES] as const);
    const marked = writes.markDisruption(victim, reason, message);
    void marked.then((said) => tellRight(findings, 'patch pods/status', said));
    await within<unknown>(clock, MARK_MS, marked, () => null);
    const answer = await writes.deletePod(victim, graceSeconds, why === 'shutdown' ? SHUTDOWN_MS : undefined);
    tellRight(findings, 'delete pods', answer);
    return saidOf(answer);
  };
  /** A server that is there may reach the budget later, whatever it leaves unanswered, and whomever it takes us for. */
  const budgetSaid = (answer: EvictAnswer | Over): Said => {
    const said = saidOf(answer);
    return said.kind === 'not-said' && !isAway() ? { ...said, isAnswer: true } : said;
  };
  const evict = async (victim: ApiVictim, graceSeconds: number): Promise<Said> => {
    const answer = await writes.evictPod(victim, graceSeconds);
    tellRight(findings, EVICT, answer);
    // G3: without the right to evict, the pod is deleted, and the answer says so.
    if (answer.kind !== 'forbidden' || answer.right !== EVICT || isBudgetRequired) return budgetSaid(answer);
    const said = await remove(victim, graceSeconds);
    return { ...said, text: `its disruption budget was not asked (${answer.text}); ${said.text}` };
  };
  /** If the budget must be respected, an eviction that is not known to be allowed counts as refused. */
  const required = (said: Said): Said => (isBudgetRequired && said.kind === 'not-said' ? asUnasked(said) : said);
  return {
    evict: (pod, graceSeconds) => {
      if (!isAway()) return request(pod, (victim) => evict(victim, sendable(graceSeconds)), budgetSaid).then(required);
      return isBudgetRequired ? Promise.resolve(required(AWAY)) : null;
    },
    remove: (pod, graceSeconds, why) =>
      isAway() ? null : request(pod, (victim) => remove(victim, sendable(graceSeconds), why)),
    isEnding: async (pod) => {
      const victim = victimOf(pod);
      return victim === null ? known(false) : writes.isEnding(victim);
    },
    isBudgetOverridden: () => isAway() && !isBudgetRequired,
    later,
    heard,
  };
}

/** Whether a finding should say that the right is missing, or that the node is not ours, or no longer. */
export function tellRight(
  findings: TellNeeds['findings'],
  right: ApiRight,
  said: EvictAnswer | Awaited<ReturnType<ApiWrites['markDisruption']>>,
): void {
  if (DONE.includes(said.kind)) reportWrite(findings, right, null);
  else if (said.kind === 'forbidden' || said.kind === 'not-our-node') reportWrite(findings, right, said);
}
/** Only with the right does the server answer these. */
const DONE: readonly string[] = ['done', 'accepted', 'gone', 'replaced', 'refused-by-budget'];

const AWAY: Said = { kind: 'not-said', because: 'not-now', text: 'the API server is away' };

/** What the answer means for the victim. */
export function saidOf(answer: EvictAnswer | Over): Said {
  switch (answer.kind) {
    case 'accepted':
      return { kind: 'accepted', text: 'accepted' };
    case 'gone':
      return { kind: 'gone', text: 'it is gone' };
    case 'refused-by-budget':
      return { kind: 'refused', text: answer.text, retryAfterMs: answer.retryAfterMs };
    case 'replaced':
      return { kind: 'gone', text: 'another pod has its name: it is gone' };
    case 'over':
      return { kind: 'over', text: IS_OVER };
    case 'unheard':
      return { kind: 'not-said', because: 'unheard', text: answer.text };
    case 'rejected':
      return { kind: 'not-said', because: 'never', text: answer.text, isAnswer: true };
    case 'overload':
      return {
        kind: 'not-said',
        because: 'not-now',
        text: answer.text,
        isAnswer: true,
        retryAfterMs: answer.retryAfterMs,
      };
    default:
      return { kind: 'not-said', because: 'not-now', text: answer.text };
  }
}
