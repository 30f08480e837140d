import type { CandidateLimit, PodView, Unsaid } from '../../core/pod/pod.ts';
import { isObject } from '../../core/shape.ts';
import type { Json } from '../scenario.ts';

const BY_NAME: { readonly [L in CandidateLimit]: true } = {
  'maybe-empty': true,
  'manifest-unread': true,
  'restart-guard': true,
  'not-stoppable': true,
  unnamed: true,
  'looked-up': true,
  'kubelet-evicting': true,
  'budget-refused': true,
  'budgets-refuse': true,
};
export const LIMITS = Object.keys(BY_NAME);
const isLimit = (value: unknown): value is CandidateLimit => LIMITS.some((limit) => limit === value);

/** What a recorded look knew of a pod, other than figures, in keys of our own. Its shape was checked. */
export function recordedOf(entry: Json): Partial<PodView> {
  const { unsaid, limitedBy } = entry;
  const is = (key: string): boolean => entry[key] === true;
  return {
    ...(is('isBetweenRuns') ? { isBetweenRuns: true } : {}),
    ...(is('isStalledByOwnLimit') ? { isStalledByOwnLimit: true } : {}),
    ...(isObject(unsaid) ? { unsaid: unsaidOf(unsaid) } : {}),
    // As earlier versions wrote two of the limits.
    ...(is('isAwaited') ? { limitedBy: 'unnamed' } : {}),
    ...(is('isMaybeEmpty') ? { limitedBy: 'maybe-empty' } : {}),
    ...(isLimit(limitedBy) ? { limitedBy } : {}),
    ...(is('isDeletedByOthers') ? { isTerminating: true, isDeletedByOthers: true } : {}),
    ...(is('hasSurvived') ? { isTerminating: true, hasSurvived: true } : {}),
    ...(is('isGuarded') ? { isGuarded: true } : {}),
  };
}

/** C9. */
const unsaidOf = ({ why, priority, requests }: Json): Unsaid => ({
  why: why === 'unreadable' ? why : 'undeclared',
  priority: priority === true,
  requests: requests === true,
});
