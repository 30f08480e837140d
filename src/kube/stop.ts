import { goneAs } from '../act/ended.ts';
import type { KillEnd } from '../act/kill-order.ts';
import { largestProcesses } from '../act/largest-processes.ts';
import { oldestStartMs } from '../act/oldest-start.ts';
import { NOT_MEASURED, releasedAs, releasedBy, usageBytes, watchUsage } from '../act/released-memory.ts';
import type { Outcome } from '../core/outcome.ts';
import { HARD_GRACE_SECONDS } from '../core/pod/grace.ts';
import { podName } from '../core/pod/pod.ts';
import { ifKnown, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import { hasProcesses } from '../host/cgroupfs.ts';
import { sleep, within } from '../host/clock.ts';
import type { CgroupRef, Killer, StopOrder } from '../ports.ts';
import { clearRefused, raiseRefused } from '../words/finding-eviction.ts';
import { counted } from '../words/phrases.ts';
import type { Deletable } from './api-pod.ts';
import { killContainers } from './kill-containers.ts';
import {
  ask,
  asUnasked,
  type EndKnown,
  foundAnswers,
  hastenedOf,
  hastenedOrder,
  holdsMuch,
  isAlive,
  isByUs,
  type KubeKillerNeeds,
  killAll,
  type Ladder,
  lostAnswers,
  partsOf,
  type Result,
  refsOf,
  type Said,
  tell,
  untilEnded,
  wasKilled,
} from './ladder.ts';
import type { LivePod } from './live-pods.ts';
import { untilUnmounted } from './memory-volumes.ts';
import { byDelete, byRuntime } from './shutdown-stop.ts';

/** B6: the longest wait of a kill for the API. */
const SAY_MS = 100;
/** C1: the deadline for an answer to the deletion. */
const HEAR_MS = 1_000;
/** B11: the deadline for an answer to the eviction; after it, the pod is stopped without the API. */
const LEAVE_MS = 5_000;
/** C2: the first pause before a request is repeated; it doubles. */
const RETRY_MS = 250;
/** B11, soft: after the grace period, the time until a shorter one is requested, and from then until the kill. */
const OVERDUE_MS = 2_000;
const CUT_MS = 3_000;
/** B13: how long a resumed kill waits for the runtime to name the sandbox. */
const NAMED_MS = 1_000;
/** The deadline for saving a request that the API has not received: if it passes, the disk hangs. */
const KEEP_MS = 1_000;
const NO_ANSWER = 'the API server does not answer';
/** C5: after this time a pod that ended may be healthy again. */
const HEALTHY_MS = 60_000;

/**
 * Stops pods beside a kubelet: requests the deletion, kills the containers' processes, and proves the end (B11, B12). A
 * soft threshold respects the pod's disruption budget; a hard one waits for nothing.
 */
export function createKubeKiller(needs: KubeKillerNeeds): Killer {
  const { clock, mounts, source } = needs;
  const kubelet = { isAtWork: false };
  return {
    stop: async (order, hasten, signalled = () => undefined, became = () => undefined) => {
      let endKnown: EndKnown = () => undefined;
      const isEnding = new Promise<boolean>((resolve) => {
        endKnown = resolve;
      });
      const ladder = ladderFor({ needs, order, hasten, signalled, kubelet, endKnown });
      const result = await stop(ladder);
      const of = { of: order.decision, atMs: clock.monoMs(), rungs: ladder.rungs };
      const outcome = (how: Result): Outcome => ({ ...of, ...endOf(ladder, how) });
      if (result.kind === 'unknown') {
        void isEnding.then((isSo) => became(outcome({ kind: isSo ? 'by-api' : 'gone' })));
      }
      return outcome(result);
    },
    usedBytes: ({ uid }) =>
      ifKnown(source.find(uid)?.cgroup ?? unknown('absent', uid, 'no such pod'), (ref) => usageBytes(mounts, ref)),
    largestProcesses: ({ uid }, count, budgetMs) => {
      const found = source.find(uid);
      if (found === null) return unknown('absent', uid, 'no such pod');
      const { cgroup } = found;
      // Its containers' cgroups list their processes; the pod's own would have to be searched.
      return cgroup.known ? largestProcesses({ mounts, refs: refsOf(found), clock, count, budgetMs }) : cgroup;
    },
  };
}

function ladderFor(of: Pick<Ladder, 'needs' | 'order' | 'hasten' | 'signalled' | 'kubelet' | 'endKnown'>): Ladder {
  const { doneBefore: rungs = [], usedBefore = NOT_MEASURED } = of.order;
  // For a pod that no longer has a cgroup.
  const usage = releasedAs(() => usedBefore);
  return { ...of, rungs, isAccepted: isByUs({ rungs }), asked: null, unsaid: 'unheard', usage };
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
  const result = await stopFound(ladder, needs.source.find(order.victim.uid));
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

async function stopFound(ladder: Ladder, found: LivePod | null): Promise<Result> {
  const { needs, order } = ladder;
  const { mounts, source } = needs;
  const { usedBefore = NOT_MEASURED, resumedFromMs } = order;
  const { uid } = order.victim;
  if (found === null) return { kind: 'gone' };
  const { cgroup } = found;
  if (cgroup.known) ladder.usage = releasedAs(() => releasedBy(mounts, cgroup.value, usedBefore));
  if (!isAlive(needs, found)) return { kind: 'gone' };
  source.stopBegan(uid);
  const now = resumedFromMs === null ? found : await named(ladder, found);
  // Resumed: what runs now was started after the decision, so the victim has ended (B13).
  const isOver = resumedFromMs !== null && !hasLeft(ladder, now, resumedFromMs);
  const before = order.usedBefore ?? ifKnown(cgroup, (ref) => usageBytes(mounts, ref));
  if (!isOver && cgroup.known) ladder.usage = watchUsage(mounts, cgroup.value, before);
  const result: Result = isOver ? { kind: 'gone', isStartedAnew: true } : await stopBy(ladder, now);
  source.stopEnded(uid, result.kind === 'survived' ? 'survived' : 'ended');
  return result;
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
  return needs.source.find(order.victim.uid) ?? found;
}

function hasLeft(ladder: Ladder, found: LivePod, decidedMs: MonoMs): boolean {
  if (ladder.order.why === 'eviction') return partsOf(ladder, found).length > 0;
  const starts = refsOf(found).map((ref) => oldestStartMs(ladder.needs.mounts, ref));
  const oldestMs = Math.min(...starts.filter((start) => start !== null));
  return !Number.isFinite(oldestMs) || oldestMs <= decidedMs;
}

function stopBy(ladder: Ladder, found: LivePod): Promise<Result> {
  const { order } = ladder;
  if (order.why === 'shutdown') return order.tier === 'stop' ? byRuntime(ladder, found) : byDelete(ladder, found);
  return order.isHard ? byForce(ladder, found, order) : byLeave(ladder, found);
}

/** B11, soft. */
async function byLeave(ladder: Ladder, found: LivePod): Promise<Result> {
  const { needs, order, hasten } = ladder;
  const { refusals, findings } = needs;
  const { uid } = order.victim;
  const pod = podName(order.victim);
  const graceSeconds = Math.max(HARD_GRACE_SECONDS, Math.ceil(order.graceMs / 1_000));
  // An earlier run's request was accepted: the kubelet is stopping it.
  if (isByUs(ladder)) {
    ladder.signalled('sigterm');
    return byApi(ladder, found, order.graceMs);
  }
  const said = await askToEvict(ladder, found, graceSeconds);
  if (said === 'hastened') return byForce(ladder, found, hastenedOrder(hasten));
  if (said.kind === 'refused') {
    refusals.add(uid, said.retryAfterMs, said.text);
    raiseRefused(findings, uid, pod, said);
    return { kind: 'dropped', because: said.isUnasked ? 'eviction-not-taken' : 'budget-refused' };
  }
  clearRefused(findings, uid);
  // Includes a pod that is gone from the API but still running.
  if (!isByUs(ladder)) {
    // A deletion may be accepted where the eviction was not.
    if (ladder.unsaid === 'never') ladder.unsaid = 'not-now';
    const end = await killAll(ladder, found, { first: order.first, graceMs: order.graceMs, isAsRuntime: true });
    return finished(ladder, found, end);
  }
  ladder.signalled('sigterm');
  return byApi(ladder, found, graceSeconds * 1_000);
}

/**
 * An answer other than the budget's, such as a conflict or an overload, is not an absent server: the request is repeated until
 * the deadline, and then the pod is left alone, because its budget might have refused.
 */
async function askToEvict(ladder: Ladder, found: LivePod, graceSeconds: number): Promise<Said | 'hastened'> {
  const { needs, hasten } = ladder;
  const { clock, tell: api } = needs;
  const endsMs = clock.monoMs() + LEAVE_MS;
  let unasked: Said | null = null;
  for (let waitMs = RETRY_MS; ; waitMs *= 2) {
    const asked = found.object === null ? null : api.evict(found.object, graceSeconds);
    const inTime = asked === null ? null : within(clock, endsMs - clock.monoMs(), asked, () => SILENT);
    const said = await answered(ladder, ask(ladder, 'evict', inTime));
    if (said === 'hastened' || said.kind !== 'not-said' || asked === null) return said;
    if (said.isAnswer !== true) return unasked ?? said;
    const pauseMs = Math.max(waitMs, said.retryAfterMs ?? 0);
    unasked = asUnasked(said);
    if (clock.monoMs() + pauseMs >= endsMs) return unasked;
    if ((await Promise.race([sleep(clock, pauseMs), hastenedOf(hasten)])) === 'hastened') return 'hastened';
  }
}

/** The kubelet stops it. If that takes too long, a shorter grace period is requested, and then it is killed. */
async function byApi(ladder: Ladder, found: LivePod, graceMs: number): Promise<Result> {
  const { hasten } = ladder;
  const by = await untilEnded(ladder, found, graceMs + OVERDUE_MS);
  if (by === 'ended') return byWhom(ladder);
  if (by === 'hastened') return byForce(ladder, found, hastenedOrder(hasten));
  void askDelete(ladder, found.object, HARD_GRACE_SECONDS);
  const then = await untilEnded(ladder, found, CUT_MS);
  if (then === 'ended') return byWhom(ladder);
  return finished(ladder, found, await killAll(ladder, found, { first: 'sigkill', graceMs: 0 }));
}

/** Ended without a signal of ours: through our request, or by itself. */
const byWhom = (ladder: Ladder): Result =>
  isByUs(ladder) && !wasKilled(ladder.order) ? { kind: 'by-api' } : { kind: 'gone' };

/** B11, hard. */
async function byForce(
  ladder: Ladder,
  found: LivePod,
  { first, graceMs }: Pick<StopOrder, 'first' | 'graceMs'>,
): Promise<Result> {
  const { needs } = ladder;
  // A shutdown that overtakes a soft eviction gives it the time of its phase.
  const graceSeconds =
    first === 'sigkill' ? HARD_GRACE_SECONDS : Math.max(HARD_GRACE_SECONDS, Math.ceil(graceMs / 1_000));
  const removed = askDelete(ladder, found.object, graceSeconds);
  const listed = hasUnnamed(found) && needs.runtime.isAnswering() ? needs.runtime.refresh() : null;
  await within<unknown>(needs.clock, SAY_MS, Promise.all([removed, listed]), () => null);
  const end = await killAll(ladder, found, { first, graceMs });
  // It ended meanwhile: through our request, if the API accepted that.
  if (end.kind === 'gone' && removed !== null) await within(needs.clock, HEAR_MS, removed, () => undefined);
  return finished(ladder, found, end);
}

/** B5: right after its start, or ours, only the runtime can distinguish its sandbox from its containers. */
const hasUnnamed = ({ containers }: LivePod): boolean => containers.some(({ name }) => name === null);

/** What remains after a kill: a container that started meanwhile, a memory volume, and requests that the API has not received. */
async function finished(ladder: Ladder, found: LivePod, end: KillEnd): Promise<Result> {
  const { needs, order } = ladder;
  if (end.kind === 'gone') return byWhom(ladder);
  if (end.kind !== 'ended') return end;
  if (!ladder.isAccepted) {
    needs.guard.killed(order.victim.uid);
    // In a resumed eviction they do not belong to the victim.
    if (order.resumedFromMs === null) await killNewcomers(ladder, found);
    const pod = found.object ?? needs.source.find(order.victim.uid)?.object ?? null;
    // The API may have declared it meanwhile.
    const removed = ladder.asked === null ? askDelete(ladder, pod, HARD_GRACE_SECONDS) : null;
    if (removed !== null) await within<unknown>(needs.clock, HEAR_MS, removed, () => null);
    const isOurs = (needs.source.find(order.victim.uid) ?? found).isElsewhere !== true;
    if (isOurs && !ladder.isAccepted && ladder.unsaid !== 'never')
      await keepDeletion(ladder, pod, needs.clock.monoMs());
  }
  if (found.cgroup.known) await untilUnmounted(needs, found.cgroup.value, () => ladder.signalled('unmount'));
  return end;
}

/** Null: there is no object to delete, or the deletion was already accepted. */
function askDelete(ladder: Ladder, object: Deletable | null, graceSeconds: number): Promise<Said> | null {
  const pod = object ?? askedBefore(ladder);
  const isTaken = ladder.rungs.some(({ act, isAccepted }) => act === 'delete' && isAccepted);
  return pod === null || isTaken ? null : ask(ladder, 'delete', ladder.needs.tell.remove(pod, graceSeconds));
}

/** Right after a start the pod may not be declared yet; an earlier run that sent a request knew its object. */
function askedBefore({ order }: Ladder): Deletable | null {
  const hasAsked = order.doneBefore?.some(({ act }) => act === 'evict' || act === 'delete') === true;
  return hasAsked ? deletableOf(order) : null;
}

const deletableOf = ({ victim: { namespace, name, uid } }: StopOrder): Deletable => ({
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
async function keepDeletion(ladder: Ladder, told: Deletable | null, madeAtMs: MonoMs): Promise<void> {
  const { needs, order } = ladder;
  const { clock, tell: api } = needs;
  const pod = told ?? askedBefore(ladder) ?? deletableOf(order);
  const saved = api.later(pod, order.decision, madeAtMs, ladder.endKnown);
  await within<unknown>(clock, KEEP_MS, saved, () => null);
  void ladder.asked?.then(() => hearLate(ladder, pod));
  if (!ladder.isAccepted && ladder.unsaid !== 'never') tell(ladder, 'spool', LATER[ladder.unsaid]);
}

/** If the late answer accepts the deletion, the kubelet will not restart the pod. */
function hearLate(ladder: Ladder, pod: Deletable): void {
  const { needs, order, rungs } = ladder;
  if (!ladder.isAccepted) return;
  if (rungs.some(({ act }) => act === 'spool')) tell(ladder, 'withdraw', 'the first request was accepted after all');
  needs.tell.heard(pod);
  needs.guard.accepted(order.victim.uid);
}

/** B11, rung 4: the kubelet has restarted a container before the API received the deletion. */
async function killNewcomers(ladder: Ladder, found: LivePod): Promise<void> {
  const { needs, order } = ladder;
  const before = new Set(refsOf(found).map(({ inode }) => inode));
  const now = needs.source.find(order.victim.uid);
  const isNew = (ref: CgroupRef): boolean => !before.has(ref.inode) && hasProcesses(needs.mounts, ref);
  const refs = now === null || !hasContainers(now) ? [] : refsOf(now).filter(isNew);
  if (now === null || refs.length === 0) return;
  void askDelete(ladder, now.object, HARD_GRACE_SECONDS);
  tell(ladder, 'kill-again', counted(refs.length, 'container'));
  const never = new AbortController().signal;
  await killContainers(needs, refs, {
    ...{ first: 'sigkill', graceMs: 0, givesBack: order.givesBack, hasten: never },
    signalled: () => undefined,
    resists: () => undefined,
  });
}

const hasContainers = ({ containers }: LivePod): boolean => containers.length > 0;

const SILENT: Said = { kind: 'not-said', because: 'unheard', text: `no answer within ${LEAVE_MS / 1_000} s` };

/** The answer, or at once `hastened` when a hard threshold overtakes it. */
function answered(ladder: Ladder, said: Promise<Said>): Promise<Said | 'hastened'> {
  return Promise.race([said, hastenedOf(ladder.hasten)]);
}
