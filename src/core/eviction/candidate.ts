import type { Difference } from '../decision.ts';
import { mayGoFor } from '../pod/evict-for.ts';
import { isAwaited, isBeingStopped, type PodUid, type PodView } from '../pod/pod.ts';
import type { Reason } from '../reason.ts';
import { hasRequest, isDisk, SIGNAL_FACTS, type Signal } from '../signal.ts';
import { COMPARATORS } from './comparator.ts';
import { blamedDead, type Held, NOTHING_HELD } from './escaped.ts';
import { excessOf, firstOf, isOverRequest, isToBlame, mayBeToBlame, standsIn } from './give-way.ts';
import { givesBack } from './gives-back.ts';
import { mightPrecede, type Ranked } from './rank.ts';
import { isAtLeast, isCutShort, isHelp, isReliefAtLeast, mostReliefOf, reliefOf } from './relief.ts';

type Why = Extract<Reason, { code: 'passed-over' }>['because'];

const BUDGETS: readonly (Why | null)[] = ['budget-refused', 'budgets-refuse'];

export type Choice = {
  readonly victim: PodView | null;
  /** The victim, if `against` were proven not to precede it; null: that is proven, or there is no victim. */
  readonly unproven: { readonly first: PodView; readonly against: PodView } | null;
  readonly passedOver: readonly Reason[];
  /** Why nobody can be chosen, if there is neither a victim nor an unproven one; null: no particular reason. */
  readonly nobody: NonNullable<Extract<Reason, { code: 'no-candidate' }>['because']> | null;
  /** With `no-relief`: a pod that is passed over because it is not fully measured; null: none. */
  readonly unmeasured: PodUid | null;
  /** No pod is a candidate, and none is spared for what others hold, or may hold. */
  readonly isNobodyLeft: boolean;
  readonly differences: readonly Difference[];
};

/**
 * The first pod of the ranking that may be evicted. Never: static, mirror and critical pods (kubelet-eviction.md 4.11), pods
 * that we are stopping (D3), pods that must not be evicted for this resource (D7), pods that the mode excludes (D13),
 * DaemonSet pods within their request (D8), pods whose end frees nothing or next to nothing of what a disk lacks (D14), and
 * pods that stall in their own memory limit (D17). Only if no other pod is left, or may be: DaemonSet pods for
 * signals without a request (D8), then protected ones (D7). Nobody is chosen while a pod that is still to be named or
 * declared may be to blame instead (C9), nor a pod that is not known to be to blame while one that is not, or not fully,
 * measured may come before it (D13), nor one that is not known to be to blame while others still hold what is lacking (D3,
 * `heldOf`). `lacking`: what the signal lacks.
 */
export function firstCandidate(
  signal: Signal,
  ranking: readonly Ranked[],
  underWay: readonly PodUid[],
  guarded: (pod: PodView) => boolean,
  lacking: number,
  held: Held = NOTHING_HELD,
): Choice {
  const isRequested = hasRequest(signal);
  const barred = new Map<PodUid, Why>();
  for (const entry of ranking) {
    const why = neverBecause(entry, signal, underWay, lacking);
    if (why !== null) barred.set(entry.pod.uid, why);
  }
  const free = ranking.filter(({ pod }) => !barred.has(pod.uid));
  const isLate = (pod: PodView): boolean => pod.isDaemonSet && !isRequested && blamedDead(pod, held) === 0;
  const turnOf = (pod: PodView): number => (pod.isProtected ? 2 : 0) + (isLate(pod) ? 1 : 0);
  const turn = Math.min(...free.map(({ pod }) => turnOf(pod)));
  const pool = free.filter(({ pod }) => turnOf(pod) === turn);
  const awaited = ranking.filter(({ pod }) => {
    const why = barred.get(pod.uid);
    return isAwaited(why) || why === 'undeclared-holds-less';
  });
  const allowed = firstOf({ signal, entries: pool, awaited, guarded, lacking, held });
  const isRefused = ({ pod }: Ranked): boolean => BUDGETS.includes(barred.get(pod.uid) ?? null);
  const first = allowed !== null && isInsteadOfRefused(signal, allowed, ranking, isRefused, lacking) ? null : allowed;
  const because = (entry: Ranked): Why => {
    const { pod } = entry;
    const why = barred.get(pod.uid) ?? laterBecause(pod, first, isLate);
    if (why !== 'guard' || guarded(pod)) return why;
    return held.amount > 0 && (allowed === null || !isRequested) ? 'escaped' : insteadBecause(entry, first, allowed);
  };
  /** It is barred only because too little is known of it. */
  const isUnsure = ({ pod }: Ranked): boolean => {
    const why = barred.get(pod.uid);
    if (why === 'maybe-empty') return true;
    if (why !== 'no-relief') return why === 'daemonset-within-request' && isAtLeast(signal, pod);
    return isReliefAtLeast(pod) || mostReliefOf(signal, pod) > (reliefOf(signal, pod) ?? 0);
  };
  const isRival = (entry: Ranked): boolean =>
    (!barred.has(entry.pod.uid) || isUnsure(entry)) && turnOf(entry.pod) <= turn;
  /** If it has processes, it is another pod that is left. */
  const isLeft = (entry: Ranked): boolean =>
    barred.get(entry.pod.uid) === 'maybe-empty' &&
    turnOf(entry.pod) < turn &&
    neverBecause(unlimited(entry), signal, underWay, lacking) === null;
  const unprovenBy = (victim: PodView): PodView | null =>
    ranking.find(isLeft)?.pod ?? unprovenAgainst(signal, victim, ranking.filter(isRival), lacking);
  const against = first === null ? null : unprovenBy(first);
  const isSpared = (entry: Ranked): boolean =>
    barred.get(entry.pod.uid) === 'evict-for' && neverBecause(forAll(entry), signal, underWay, lacking) === null;
  const isUseless = ({ pod }: Ranked): boolean => barred.get(pod.uid) === 'no-relief';
  const nobodyBecause = (): Choice['nobody'] => {
    if (allowed === null && mayBeToBlame(signal, awaited, lacking)) return 'awaited';
    if (allowed === null && pool.length > 0) return held.amount > 0 ? 'escaped' : 'awaited';
    if (ranking.some(({ pod }) => pod.limitedBy === 'manifest-unread' && barred.has(pod.uid))) return 'manifest-unread';
    return ranking.some(isSpared) ? 'evict-for' : ranking.some(isUseless) ? 'no-relief' : null;
  };
  const nobody = first === null ? nobodyBecause() : null;
  const unmeasured = nobody === 'no-relief' ? (ranking.find(isUnsure)?.pod.uid ?? null) : null;
  const isNobodyLeft = free.length === 0 && held.amount === 0 && !mayBeToBlame(signal, awaited, lacking);
  const choice = { ...explainChoice(ranking, first, because), nobody, unmeasured, isNobodyLeft };
  return first === null || against === null
    ? { ...choice, unproven: null }
    : { ...choice, victim: null, unproven: { first, against } };
}

/**
 * A pod that may use more than `first`, as far as is known. Null: none may, or the evidence against `first` is better: it is
 * known to be to blame. For a disk (D14): its end is known to free more than the end of each of them may. If there is no limit
 * to what theirs may free, it must also free as much as the signal lacks.
 */
function unprovenAgainst(signal: Signal, first: PodView, rivals: readonly Ranked[], lacking: number): PodView | null {
  const relief = reliefOf(signal, first);
  const ranked = rivals.find(({ pod }) => pod.uid === first.uid);
  if (ranked === undefined) return null;
  if (relief === null && (isDisk(signal) || isToBlame(signal, ranked, lacking))) return null;
  const at = rivals.indexOf(ranked);
  const isUnclear = ({ pod }: Ranked): boolean =>
    pod.limitedBy === 'maybe-empty' || (isDisk(signal) && isReliefAtLeast(pod));
  const mayCome = (rival: Ranked, place: number): boolean =>
    mightPrecede(signal, rival, ranked) ||
    (isUnclear(rival) && place < at) ||
    (first.unsaid !== undefined && isAtLeast(signal, rival.pod));
  const isOpen = (rival: Ranked, place: number): boolean => {
    if (rival === ranked || !mayCome(rival, place)) return false;
    if (relief === null) return true;
    return relief <= mostReliefOf(signal, rival.pod) || (isReliefAtLeast(rival.pod) && relief < lacking);
  };
  return rivals.find(isOpen)?.pod ?? null;
}

type OrderUnproven = Extract<Reason, { code: 'order-unproven' }>;
export function orderUnproven(signal: Signal, { first, against }: NonNullable<Choice['unproven']>): OrderUnproven {
  const isShared = isDisk(signal) && !isCutShort(against) && !isReliefAtLeast(against);
  const isMaybeEmpty = against.limitedBy === 'maybe-empty';
  const how = isMaybeEmpty ? { isMaybeEmpty } : isShared ? { isShared } : {};
  return { code: 'order-unproven', signal, uid: first.uid, against: against.uid, ...how };
}

function forAll(entry: Ranked): Ranked {
  const { evictFor: _, ...pod } = entry.pod;
  return { ...entry, pod };
}

const unlimited = (entry: Ranked): Ranked => ({ ...entry, pod: { ...entry.pod, limitedBy: null } });

function neverBecause(entry: Ranked, signal: Signal, underWay: readonly PodUid[], lacking: number): Why | null {
  const { pod } = entry;
  if (pod.isStaticCritical) return 'static-critical';
  if (isBeingStopped(pod) || underWay.includes(pod.uid)) return 'terminating';
  if (!mayGoFor(pod, signal)) return 'evict-for';
  if (pod.isBetweenRuns && !isDisk(signal)) return 'between-runs';
  // `restart-guard` works like the loop guard: it yields only to a pod that exceeds its request, so that no pod within its
  // request is evicted instead.
  const isBlamed = pod.limitedBy === 'manifest-unread' && isToBlame(signal, entry, lacking);
  // Another pod is left: one that is spared only until all is read, or one that is not known yet.
  if (isBlamed && pod.isProtected) return 'protected';
  if (pod.limitedBy !== null && pod.limitedBy !== 'restart-guard' && !isBlamed) return pod.limitedBy;
  if (pod.unsaid?.why === 'undeclared') {
    // Its end frees no file while it cannot be deleted.
    if (isDisk(signal)) return 'declaration-unknown';
    if (givesBack(pod, signal) < lacking) return 'undeclared-holds-less';
  }
  if (SIGNAL_FACTS[signal].comesBack === 'stall' && pod.isStalledByOwnLimit) return 'own-limit';
  if (pod.isDaemonSet && hasRequest(signal) && !isOverRequest(entry)) return 'daemonset-within-request';
  return isHelp(signal, pod, lacking) ? null : 'no-relief';
}

/**
 * beside-a-kubelet.md B1: a pod whose disruption budget has refused yields only to a pod that exceeds its request, so that
 * one tenant's budget does not cost another tenant a pod. It never yields to a protected one: it is left (D7).
 */
function isInsteadOfRefused(
  signal: Signal,
  first: PodView,
  ranking: readonly Ranked[],
  isRefused: (entry: Ranked) => boolean,
  lacking: number,
): boolean {
  const at = ranking.findIndex(({ pod }) => pod === first);
  const entry = ranking[at];
  if (entry === undefined) return false;
  if (first.isProtected && ranking.some((other) => isRefused(other) && !other.pod.isProtected)) return true;
  const refused = ranking.slice(0, at).filter(isRefused);
  if (refused.length === 0) return false;
  const mostHeld = Math.max(...refused.map((other) => excessOf(signal, other)));
  return !(isToBlame(signal, entry, lacking) && standsIn(signal, entry, mostHeld));
}

/**
 * Why a pod that ranks first, with nothing else against it, is passed over: it is not known to exceed its request, or too
 * little. `allowed`: the pod to evict if no budget had refused.
 */
function insteadBecause(entry: Ranked, first: PodView | null, allowed: PodView | null): Why {
  if (isOverRequest(entry)) return 'too-little';
  if (entry.pod.unsaid !== undefined) return 'declaration-unknown';
  if (allowed === null || first?.unsaid !== undefined) return 'not-over-request';
  return first?.isDeletedByOthers ? 'others-end' : 'budget-innocent';
}

function laterBecause(pod: PodView, victim: PodView | null, isLate: (pod: PodView) => boolean): Why {
  if (pod.isProtected && !victim?.isProtected) return 'protected';
  if (isLate(pod)) return 'daemonset-within-request';
  return pod.limitedBy === 'restart-guard' ? 'restart-guard' : 'guard';
}

function explainChoice(
  ranking: readonly Ranked[],
  victim: PodView | null,
  because: (entry: Ranked) => Why,
): Pick<Choice, 'victim' | 'passedOver' | 'differences'> {
  const at = victim === null ? ranking.length : ranking.findIndex(({ pod }) => pod.uid === victim.uid);
  const before = ranking.slice(0, at).map((entry) => ({ uid: entry.pod.uid, because: because(entry) }));
  const differences = new Set<Difference>();
  for (const { because: why } of before) {
    const difference = DIFFERENCE_OF[why];
    if (difference !== null) differences.add(difference);
  }
  if (victim?.isProtected) differences.add('D7');
  if (victim?.unsaid !== undefined) differences.add('D13');
  if (ranking.some(({ pod }) => pod.inherited !== undefined)) differences.add('D16');
  const decidedBy = ranking[at]?.row.decidedBy ?? null;
  const byDifference = decidedBy === null ? null : COMPARATORS[decidedBy].difference;
  if (byDifference !== null) differences.add(byDifference);
  return {
    victim,
    passedOver: before.map((skipped) => ({ code: 'passed-over', ...skipped })),
    differences: [...differences],
  };
}

const DIFFERENCE_OF: { readonly [W in Why]: Difference | null } = {
  'static-critical': null,
  protected: 'D7',
  'evict-for': 'D7',
  'daemonset-within-request': 'D8',
  guard: 'D6',
  terminating: 'D3',
  'others-end': 'D3',
  escaped: 'D3',
  'not-over-request': 'D13',
  'too-little': null,
  'budget-innocent': 'D18',
  'no-relief': 'D14',
  'own-limit': 'D17',
  'restart-guard': 'D13',
  'not-stoppable': 'D13',
  'ends-machine': 'D13',
  'maybe-empty': 'D13',
  'between-runs': 'D13',
  'manifest-unread': 'D13',
  'declaration-unknown': 'D13',
  'undeclared-holds-less': 'D13',
  unnamed: 'D13',
  'looked-up': 'D13',
  finished: 'D3',
  'maybe-finished': 'D3',
  'kubelet-evicting': 'D13',
  'budget-refused': 'D18',
  'budgets-refuse': 'D18',
};

/** beside-a-kubelet.md B11: a hard threshold overrides disruption budgets. */
export function withoutBudgets(pods: readonly PodView[]): readonly PodView[] {
  return pods.map((pod) => (BUDGETS.includes(pod.limitedBy) ? { ...pod, limitedBy: null } : pod));
}
