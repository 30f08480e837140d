import type { MonoMs } from '../../core/reading.ts';
import { within } from '../../host/clock.ts';
import type { StopOrder } from '../../ports.ts';
import type { Deletable } from '../api/api-pod.ts';
import { ask, type Ladder, type Said, tell } from './ladder.ts';

/** B6: the longest wait of a kill for the API. */
export const SAY_MS = 100;
/** C1: the deadline for an answer to the deletion. */
export const HEAR_MS = 1_000;
/** The deadline for saving a request that the API has not received: if it passes, the disk hangs. */
const KEEP_MS = 1_000;

/** Null: there is no object to delete, or the deletion was already accepted. */
export function askDelete(ladder: Ladder, object: Deletable | null, graceSeconds: number): Promise<Said> | null {
  const pod = object ?? askedBefore(ladder);
  const isTaken = ladder.rungs.some(({ act, isAccepted }) => act === 'delete' && isAccepted);
  return pod === null || isTaken ? null : ask(ladder, 'delete', ladder.needs.tell.remove(pod, graceSeconds));
}

/** Right after a start the pod may not be declared yet; an earlier run that sent a request knew its object. */
function askedBefore({ order }: Ladder): Deletable | null {
  const hasAsked = order.doneBefore?.some(({ act }) => act === 'evict' || act === 'delete') === true;
  return hasAsked ? deletableOf(order) : null;
}

export const deletableOf = ({ victim: { namespace, name, uid } }: StopOrder): Deletable => ({
  object: { namespace, name, uid },
  isMirror: false,
  isUnplaced: true,
});

const LATER = {
  unheard: 'sent to the API server once it answers again',
  'not-now': 'the API server is asked again to delete it, for 5 minutes at most',
} as const;

/**
 * Saves a request that the API has not received before the outcome is recorded, so that a killed agent can resume. The
 * deletion of an undeclared pod waits for the API's list (B13): without it, the kubelet would start the pod again.
 */
export async function keepDeletion(ladder: Ladder, told: Deletable | null, madeAtMs: MonoMs): Promise<void> {
  const { needs, order } = ladder;
  const { clock, tell: api } = needs;
  const pod = told ?? askedBefore(ladder) ?? deletableOf(order);
  const saved = api.later(pod, order.decision, madeAtMs, ladder.endKnown);
  // Before anything is said of what became of it, which may be while the disk is awaited.
  if (ladder.unsaid !== 'never') tell(ladder, 'spool', LATER[ladder.unsaid]);
  await within<unknown>(clock, KEEP_MS, saved, () => null);
  void ladder.asked?.then(() => hearLate(ladder, pod));
}

/** If the late answer accepts the deletion, the kubelet will not restart the pod. */
function hearLate(ladder: Ladder, pod: Deletable): void {
  const { needs, order, rungs } = ladder;
  if (!ladder.isAccepted) return;
  if (rungs.some(({ act }) => act === 'spool')) tell(ladder, 'withdraw', 'the first request was accepted after all');
  needs.tell.heard(pod);
  needs.guard.accepted(order.victim.uid);
}
