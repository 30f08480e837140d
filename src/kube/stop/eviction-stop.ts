import { createHasten } from '../../act/hasten.ts';
import type { KillEnd } from '../../act/kill-order.ts';
import { usageBytes } from '../../act/released-memory.ts';
import { UNMOUNT_MS } from '../../core/eviction/under-way.ts';
import { HARD_GRACE_SECONDS } from '../../core/pod/grace.ts';
import { podName } from '../../core/pod/pod.ts';
import { openMemory } from '../../host/cgroup/cgroup-memory.ts';
import { GIVEN_BACK_BYTES, hasProcesses } from '../../host/cgroup/cgroupfs.ts';
import { sleep, within } from '../../host/clock.ts';
import type { CgroupRef, StopOrder } from '../../ports.ts';
import { clearRefused, raiseRefused } from '../../words/finding-eviction.ts';
import { counted } from '../../words/phrases.ts';
import type { LivePod } from '../pods/live-pods.ts';
import { askDelete, HEAR_MS, keepDeletion, SAY_MS } from './deletion.ts';
import { killContainers } from './kill-containers.ts';
import {
  ask,
  asUnasked,
  hastenedOrder,
  isByUs,
  killAll,
  type Ladder,
  liveNow,
  lostAnswers,
  type Result,
  refsOf,
  type Said,
  tell,
  untilEnded,
  wasKilled,
} from './ladder.ts';
import { byPhase } from './shutdown-stop.ts';

/** B11: the deadline for an answer to the eviction; after it, the pod is stopped without the API. */
const LEAVE_MS = 5_000;
/** C2: the first pause before a request is repeated; it doubles. */
const RETRY_MS = 250;
/** B11, soft: after the grace period, the time until a shorter one is requested, and from then until the kill. */
const OVERDUE_MS = 2_000;
const CUT_MS = 3_000;

/** B11, soft. */
export async function byLeave(ladder: Ladder, found: LivePod): Promise<Result> {
  const { needs, order } = ladder;
  const { refusals, findings } = needs;
  const { uid } = order.victim;
  const pod = podName(order.victim);
  const graceSeconds = Math.max(HARD_GRACE_SECONDS, Math.ceil(order.graceMs / 1_000));
  // An earlier run's request was accepted: the kubelet is stopping it.
  if (isByUs(ladder)) {
    ladder.signalled('sigterm');
    return byApi(ladder, found, order.graceMs);
  }
  if (ladder.hasten.isCut()) return overtaken(ladder, found);
  const said = await askToEvict(ladder, found, graceSeconds);
  if (said === 'hastened') return overtaken(ladder, found);
  if (said.kind === 'refused') {
    refusals.add(uid, said.retryAfterMs, said.text, lostAnswers(ladder).length > 0);
    raiseRefused(findings, uid, pod, said);
    return { kind: 'dropped', because: said.isUnasked ? 'eviction-not-taken' : 'budget-refused' };
  }
  clearRefused(findings, uid);
  if (said.kind === 'over') {
    ladder.signalled('sigterm');
    return byApi(ladder, found, order.graceMs);
  }
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
  if (found.object === null) return ask(ladder, 'evict', null, unknownToApi(found));
  for (let waitMs = RETRY_MS; ; waitMs *= 2) {
    const asked = api.evict(found.object, graceSeconds);
    const inTime = asked === null ? null : within(clock, endsMs - clock.monoMs(), asked, () => silent(api));
    const said = await answered(ladder, ask(ladder, 'evict', inTime));
    if (said === 'hastened' || said.kind !== 'not-said' || asked === null) return said;
    if (said.isAnswer !== true) return unasked ?? said;
    const pauseMs = Math.max(waitMs, said.retryAfterMs ?? 0);
    unasked = asUnasked(said);
    if (clock.monoMs() + pauseMs >= endsMs) return unasked;
    if ((await Promise.race([sleep(clock, pauseMs), hasten.whenCut])) === 'hastened') return 'hastened';
  }
}

/** The kubelet stops it. If that takes too long, a shorter grace period is requested, and then it is killed. */
async function byApi(ladder: Ladder, found: LivePod, graceMs: number): Promise<Result> {
  const by = await untilEnded(ladder, found, graceMs + OVERDUE_MS);
  if (by === 'ended') return byWhom(ladder);
  if (by === 'hastened') return overtaken(ladder, found);
  void askDelete(ladder, found.object, HARD_GRACE_SECONDS);
  const then = await untilEnded(ladder, found, CUT_MS);
  if (then === 'ended') return byWhom(ladder);
  return finished(ladder, found, await killAll(ladder, found, { first: 'sigkill', graceMs: 0 }));
}

/**
 * By a hard threshold, or by a phase of a shutdown. That stops the pod itself, unless the kubelet already does: then the pod
 * has the time of the phase.
 */
async function overtaken(ladder: Ladder, found: LivePod): Promise<Result> {
  const phase = ladder.hasten.phase();
  if (phase === null) return byForce(ladder, found, hastenedOrder(ladder));
  if (phase.tier === 'stop' || !isByUs(ladder)) return { kind: 'dropped', because: 'shutdown' };
  const end = await byPhase(ladder, found, phase, (now) => byForce(ladder, now, hastenedOrder(ladder)));
  return end.kind === 'by-api' ? byWhom(ladder) : end;
}

/** Ended without a signal of ours: through our request, or by itself. */
const byWhom = (ladder: Ladder): Result =>
  isByUs(ladder) && !wasKilled(ladder.order) ? { kind: 'by-api' } : { kind: 'gone' };

/** B11, hard. */
export async function byForce(
  ladder: Ladder,
  found: LivePod,
  { first, graceMs }: Pick<StopOrder, 'first' | 'graceMs'>,
): Promise<Result> {
  const { needs } = ladder;
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
export const hasUnnamed = ({ containers }: LivePod): boolean => containers.some(({ name }) => name === null);

/** What remains after a kill: a container that started meanwhile, and requests that the API has not received. */
async function finished(ladder: Ladder, found: LivePod, end: KillEnd): Promise<Result> {
  const { needs, order } = ladder;
  if (end.kind === 'gone') return byWhom(ladder);
  if (end.kind !== 'ended') return end;
  if (!ladder.isAccepted) {
    needs.guard.killed(order.victim.uid);
    // In a resumed eviction they do not belong to the victim.
    if (order.resumedFromMs === null) await killNewcomers(ladder, found);
    const pod = found.object ?? liveNow(needs, order.victim.uid)?.object ?? null;
    // The API may have declared it meanwhile.
    const removed = ladder.asked === null ? askDelete(ladder, pod, HARD_GRACE_SECONDS) : null;
    if (removed !== null) await within<unknown>(needs.clock, HEAR_MS, removed, () => null);
    const isOurs = (liveNow(needs, order.victim.uid) ?? found).isElsewhere !== true;
    if (isOurs && !ladder.isAccepted && ladder.unsaid !== 'never')
      await keepDeletion(ladder, pod, needs.clock.monoMs());
  }
  return end;
}

/** B11, rung 4: the kubelet has restarted a container before the API received the deletion. */
async function killNewcomers(ladder: Ladder, found: LivePod): Promise<void> {
  const { needs, order } = ladder;
  const before = new Set(refsOf(found).map(({ inode }) => inode));
  const now = liveNow(needs, order.victim.uid);
  const isNew = (ref: CgroupRef): boolean => !before.has(ref.inode) && hasProcesses(needs.mounts, ref);
  const refs = now === null || !hasContainers(now) ? [] : refsOf(now).filter(isNew);
  if (now === null || refs.length === 0) return;
  void askDelete(ladder, now.object, HARD_GRACE_SECONDS);
  tell(ladder, 'kill-again', counted(refs.length, 'container'));
  const never = createHasten(needs.clock);
  await killContainers(needs, refs, {
    ...{ first: 'sigkill', graceMs: 0, givesBack: order.givesBack, hasten: never },
    signalled: () => undefined,
    resists: () => undefined,
  });
}

const hasContainers = ({ containers }: LivePod): boolean => containers.length > 0;

const unknownToApi = ({ isElsewhere }: LivePod): string =>
  isElsewhere ? 'the API server has this pod on another node' : 'the runtime has not named this pod';
function silent({ isBudgetOverridden }: Ladder['needs']['tell']): Said {
  const said = { kind: 'not-said', because: 'unheard', text: `no answer within ${LEAVE_MS / 1_000} s` } as const;
  return isBudgetOverridden() ? said : { ...said, isAnswer: true };
}

/** The answer, or at once `hastened` when a hard threshold overtakes it. */
function answered(ladder: Ladder, said: Promise<Said>): Promise<Said | 'hastened'> {
  return Promise.race([said, ladder.hasten.whenCut]);
}

const UNMOUNT_POLL_MS = 100;
const MOSTLY = 0.5;

/**
 * Waits for the kubelet to unmount the memory volumes of a dead pod, however it ended, if they are most of what it holds: only
 * then is its memory freed (B12, ii). Not once it has started a container again, and a shutdown does not wait for that.
 */
export async function untilUnmounted(ladder: Ladder, { cgroup }: LivePod): Promise<void> {
  const { needs, order, hasten, signalled } = ladder;
  const { clock, mounts } = needs;
  if (!cgroup.known) return;
  const pod = cgroup.value;
  const runsAgain = (): boolean =>
    liveNow(needs, order.victim.uid)?.containers.some(({ cgroup: own }) => hasProcesses(mounts, own)) === true;
  const shmemBytes = (): number => {
    const memory = openMemory(mounts, pod.path);
    const stat = memory.stat();
    memory.close();
    return stat.known && stat.value.shmemBytes.known ? stat.value.shmemBytes.value : 0;
  };
  const charged = usageBytes(mounts, pod);
  const held = shmemBytes();
  if (!charged.known || held < Math.max(GIVEN_BACK_BYTES, charged.value * MOSTLY) || runsAgain()) return;
  signalled('unmount');
  const endsMs = clock.monoMs() + UNMOUNT_MS;
  let [before, now] = [held, held];
  const isOver = (): boolean => clock.monoMs() >= endsMs || hasten.phase() !== null || runsAgain();
  // Until it is mostly gone, and no more goes.
  while ((now > held * (1 - MOSTLY) || now < before) && !isOver()) {
    await sleep(clock, UNMOUNT_POLL_MS);
    [before, now] = [now, shmemBytes()];
  }
}
