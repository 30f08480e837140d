import { goneAs } from '../../act/ended.ts';
import { largestProcesses } from '../../act/largest-processes.ts';
import { isStale } from '../../act/last-look.ts';
import { oldestStartMs } from '../../act/oldest-start.ts';
import { NOT_MEASURED, releasedAs, releasedBy, usageBytes, watchUsage } from '../../act/released-memory.ts';
import type { Outcome } from '../../core/outcome.ts';
import { HARD_GRACE_SECONDS } from '../../core/pod/grace.ts';
import type { PodUid } from '../../core/pod/pod.ts';
import { ifKnown, known, type MonoMs, type Reading, type Unknown, unknown } from '../../core/reading.ts';
import { sleep, within } from '../../host/clock.ts';
import type { CgroupRef, Killer } from '../../ports.ts';
import type { Deletable } from '../api/api-pod.ts';
import type { LivePod } from '../pods/live-pods.ts';
import { askDelete, deletableOf, HEAR_MS, keepDeletion, SAY_MS } from './deletion.ts';
import { byForce, byLeave, hasUnnamed, untilUnmounted } from './eviction-stop.ts';
import {
  type EndKnown,
  foundAnswers,
  holdsMuch,
  isAlive,
  isByUs,
  type KubeKillerNeeds,
  type Ladder,
  liveNow,
  lostAnswers,
  partsOf,
  type Result,
  refsOf,
  wasKilled,
} from './ladder.ts';
import { byDelete, byRuntime } from './shutdown-stop.ts';

/** How long a stop waits for cgroups that cannot be read. */
const FIND_MS = 2_000;
const FIND_POLL_MS = 20;
/** B13: how long a resumed kill waits for the runtime to name the sandbox. */
const NAMED_MS = 1_000;
const NO_ANSWER = 'the API server does not answer';
/** C5: after this time a pod that ended may be healthy again. */
const HEALTHY_MS = 60_000;

/**
 * Stops pods beside a kubelet: requests the deletion, kills the containers' processes, and proves the end (B11, B12). A
 * soft threshold respects the pod's disruption budget; a hard one waits for nothing.
 */
export function createKubeKiller(needs: KubeKillerNeeds): Killer {
  const { clock, mounts, source } = needs;
  return {
    cancel: needs.cancel,
    stop: async (order, hasten, signalled = () => undefined, became = () => undefined) => {
      let endKnown: EndKnown = () => undefined;
      const isEnding = new Promise<boolean>((resolve) => {
        endKnown = resolve;
      });
      const ladder = ladderFor({ needs, order, hasten, signalled, endKnown });
      const result = await stop(ladder);
      const { uid } = order.victim;
      if (result.kind === 'survived') needs.survivors.watch({ uid, refs: leftOf(needs, uid) });
      const of = { of: order.decision, atMs: clock.monoMs(), rungs: ladder.rungs };
      const outcome = (how: Result): Outcome => ({ ...of, ...endOf(ladder, how) });
      if (result.kind === 'unknown') {
        void isEnding.then((isSo) => became(outcome({ kind: isSo ? 'by-api' : 'gone' })));
      }
      return outcome(result);
    },
    usedBytes: ({ uid }) =>
      ifKnown(existing(source.find(uid), uid), ({ cgroup }) => ifKnown(cgroup, (ref) => usageBytes(mounts, ref))),
    largestProcesses: ({ uid }, count, budgetMs) =>
      ifKnown(existing(source.find(uid), uid), (found) =>
        // Its containers' cgroups list their processes; the pod's own would have to be searched.
        ifKnown(found.cgroup, () => largestProcesses({ mounts, refs: refsOf(found), clock, count, budgetMs })),
      ),
  };
}

/** Null: it cannot be read what is left of it. */
export function leftOf(needs: Pick<KubeKillerNeeds, 'mounts' | 'source'>, uid: PodUid): readonly CgroupRef[] | null {
  const found = needs.source.find(uid);
  if (!found.known) return null;
  const refs = found.value === null ? [] : refsOf(found.value);
  return refs.length === 0 && found.value !== null && isAlive(needs, found.value) ? null : refs;
}

const existing = (found: Reading<LivePod | null>, uid: string): Reading<LivePod> =>
  ifKnown(found, (live) => (live === null ? unknown('absent', uid, 'no such pod') : known(live)));

function ladderFor(of: Pick<Ladder, 'needs' | 'order' | 'hasten' | 'signalled' | 'endKnown'>): Ladder {
  const { doneBefore: rungs = [], usedBefore = NOT_MEASURED } = of.order;
  // For a pod that no longer has a cgroup.
  const usage = releasedAs(() => usedBefore);
  const cancel = of.needs.cancel();
  return { ...of, cancel, rungs, isAccepted: isByUs({ rungs }), asked: null, unsaid: 'unheard', usage };
}

type End = ReturnType<typeof goneAs> | Extract<Result, { kind: 'survived' | 'unknown' | 'dropped' }>;
function endOf(ladder: Ladder, result: Result): End {
  switch (result.kind) {
    case 'survived':
    case 'unknown':
    case 'dropped':
      return result;
    case 'by-api':
      return { kind: 'ended', via: 'api', releasedBytes: ladder.usage.released() };
    case 'ended':
      return { kind: 'ended', via: result.via, releasedBytes: ladder.usage.released() };
    case 'gone':
      return goneBefore(ladder, result.isStartedAnew);
    case 'spared':
      return goneBefore(ladder);
  }
}

/** It had ended before this run did anything: through an earlier run, if that sent anything. */
function goneBefore({ order, rungs, usage }: Ladder, isStartedAnew = false): ReturnType<typeof goneAs> {
  if (rungs.length === 0 || wasKilled(order)) return goneAs(order, 'sigterm', usage.released(), isStartedAnew);
  if (isByUs({ rungs })) return { kind: 'ended', via: 'api', releasedBytes: usage.released() };
  return goneAs({}, 'sigterm', usage.released(), isStartedAnew);
}

async function stop(ladder: Ladder): Promise<Result> {
  const { needs, order } = ladder;
  const found = await find(ladder);
  if (!found.known) return notFound(ladder, found);
  const live = found.value;
  if (live === null) return requested(ladder, { kind: 'gone' });
  const { usedBefore = NOT_MEASURED } = order;
  const { cgroup } = live;
  if (cgroup.known) ladder.usage = releasedAs(() => releasedBy(needs.mounts, cgroup.value, usedBefore));
  if (!isAlive(needs, live)) return freed(ladder, live, { kind: 'gone' });
  needs.source.stopBegan(order.victim.uid);
  const result = await freed(ladder, live, await stopLive(ladder, live));
  needs.source.stopEnded(order.victim.uid, result.kind === 'survived' ? 'survived' : 'ended');
  return result;
}

/**
 * The result once the memory volumes of a pod that an eviction has ended no longer hold its memory. The request is not kept
 * waiting: without it, the kubelet may never unmount them.
 */
async function freed(ladder: Ladder, live: LivePod, result: Result): Promise<Result> {
  const isEnd = result.kind === 'ended' || result.kind === 'by-api' || result.kind === 'gone';
  const isAwaited = isEnd && ladder.order.why === 'eviction';
  const [now] = await Promise.all([requested(ladder, result), isAwaited ? untilUnmounted(ladder, live) : null]);
  return now;
}

/** The result once the API has the request that ended the pod, as far as it matters, or that is saved. */
async function requested(ladder: Ladder, result: Result): Promise<Result> {
  const { needs, order } = ladder;
  if (result.kind !== 'gone') return result;
  // The earlier run may have died before it saved the deletion, whose age counts from the decision (C5).
  if (order.resumedFromMs !== null && order.why === 'eviction' && wasKilled(order) && !ladder.isAccepted) {
    needs.guard.killed(order.victim.uid);
    await keepDeletion(ladder, null, order.resumedFromMs);
  }
  return wasKilled(order) || lostAnswers(ladder).length === 0 ? result : byLostAnswer(ladder);
}

/**
 * It has ended without a signal of ours, and only the API knows whether our request ended it. A deletion that the API has not
 * accepted is sent again (B13), because the kubelet would restart the pod; an eviction, which a budget may refuse, is not.
 */
async function byLostAnswer(ladder: Ladder): Promise<Result> {
  const { needs, order } = ladder;
  const { clock } = needs;
  const pod = deletableOf(order);
  const madeAtMs = order.resumedFromMs ?? clock.monoMs();
  const isDue = order.why === 'eviction' && lostAnswers(ladder).some(({ act }) => act === 'delete');
  const ending = await isEnding(ladder, pod);
  if (ending.known) {
    foundAnswers(ladder, ending.value);
    if (ending.value) return { kind: 'by-api' };
    const again = isDue && clock.monoMs() - madeAtMs < HEALTHY_MS ? askDelete(ladder, pod, HARD_GRACE_SECONDS) : null;
    if (again !== null) await within<unknown>(clock, HEAR_MS, again, () => null);
    if (isByUs(ladder)) return { kind: 'by-api' };
    if (lostAnswers(ladder).length === 0) return { kind: 'gone' };
  }
  if (isDue) await keepDeletion(ladder, pod, madeAtMs);
  return { kind: 'unknown', detail: ending.known ? NO_ANSWER : ending.detail };
}

/** Under a hard threshold the next victim waits, so a run that has already waited for the answer does not ask again. */
async function isEnding({ needs, order }: Ladder, pod: Deletable): Promise<Reading<boolean>> {
  const silent = unknown('timed-out', 'the pod in the API', NO_ANSWER);
  if (order.isHard && order.resumedFromMs === null) return silent;
  return within<Reading<boolean>>(needs.clock, HEAR_MS, needs.tell.isEnding(pod), () => silent);
}

/** That its cgroups cannot be read, as without free file descriptors, may pass, and does not mean that it has ended. */
async function find({ needs: { clock, source }, order }: Ladder): Promise<Reading<LivePod | null>> {
  const untilMs = clock.monoMs() + FIND_MS;
  for (;;) {
    const found = source.find(order.victim.uid);
    if (found.known || clock.monoMs() >= untilMs) return found;
    await sleep(clock, FIND_POLL_MS);
  }
}

function notFound({ rungs }: Ladder, { detail }: Unknown): Result {
  if (rungs.length === 0) return { kind: 'dropped', because: 'unresolved' };
  return { kind: 'survived', left: [], detail: `its cgroups are not known: ${detail}` };
}

async function stopLive(ladder: Ladder, found: LivePod): Promise<Result> {
  const { needs, order } = ladder;
  const { mounts } = needs;
  const { cgroup } = found;
  const { resumedFromMs } = order;
  const now = resumedFromMs === null ? found : await named(ladder, found);
  // Resumed: what runs now was started after the decision, so the victim has ended (B13).
  if (resumedFromMs !== null && !hasLeft(ladder, now, resumedFromMs)) return { kind: 'gone', isStartedAnew: true };
  const before = order.usedBefore ?? ifKnown(cgroup, (ref) => usageBytes(mounts, ref));
  if (cgroup.known) ladder.usage = watchUsage(mounts, cgroup.value, before);
  return stopBy(ladder, now);
}

/**
 * The same pod with its sandbox named, which may be all that is left of the victim. If more is left, a hard threshold does
 * not wait, because the kernel would kill first.
 */
async function named(ladder: Ladder, found: LivePod): Promise<LivePod> {
  const { needs, order } = ladder;
  if (!hasUnnamed(found)) return found;
  const waitMs = order.isHard && holdsMuch(ladder, found) ? SAY_MS : NAMED_MS;
  await within<unknown>(needs.clock, waitMs, needs.runtime.refresh(), () => null);
  return liveNow(needs, order.victim.uid) ?? found;
}

function hasLeft(ladder: Ladder, found: LivePod, decidedMs: MonoMs): boolean {
  if (ladder.order.why === 'eviction') return partsOf(ladder, found).length > 0;
  const starts = refsOf(found).map((ref) => oldestStartMs(ladder.needs.mounts, ref));
  const oldestMs = Math.min(...starts.filter((start) => start !== null));
  return !Number.isFinite(oldestMs) || oldestMs <= decidedMs;
}

async function stopBy(ladder: Ladder, found: LivePod): Promise<Result> {
  const { order } = ladder;
  if (order.why === 'shutdown') return order.tier === 'stop' ? byRuntime(ladder, found) : byDelete(ladder, found);
  if (await isOnlyChosen(ladder)) return { kind: 'dropped', because: 'stale' };
  return order.isHard ? byForce(ladder, found, order) : byLeave(ladder, found);
}

/** An earlier run chose it some time ago, and no request is known to have reached it. */
async function isOnlyChosen(ladder: Ladder): Promise<boolean> {
  const { needs, order } = ladder;
  if (order.resumedFromMs === null || !isStale(needs, order.resumedFromMs) || wasKilled(order)) return false;
  if (lostAnswers(ladder).length > 0) {
    const ending = await isEnding(ladder, deletableOf(order));
    if (ending.known) foundAnswers(ladder, ending.value);
  }
  return !isByUs(ladder);
}
