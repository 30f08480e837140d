import type { Asked } from '../../act/kill-order.ts';
import type { PhaseCut } from '../../core/eviction/hasten.ts';
import { HARD_GRACE_SECONDS } from '../../core/pod/grace.ts';
import type { MonoMs } from '../../core/reading.ts';
import { graceFrom, LAST_WORD_MS } from '../../core/shutdown/chain.ts';
import { hasProcesses } from '../../host/cgroup/cgroupfs.ts';
import { sleep, within } from '../../host/clock.ts';
import type { CgroupRef } from '../../ports.ts';
import type { ApiPod } from '../api/api-pod.ts';
import { containerIdOfName } from '../pods/cgroup-paths.ts';
import type { LivePod } from '../pods/live-pods.ts';
import { askFirst, killContainers } from './kill-containers.ts';
import {
  ask,
  foundAnswers,
  hastenedOrder,
  isByUs,
  killAll,
  type Ladder,
  liveNow,
  lostAnswers,
  partsOf,
  type Result,
  refsOf,
  resistsTo,
  tell,
  UNANSWERED,
  untilEnded,
} from './ladder.ts';

/** The maximum number of attempts at a deletion that the API server does not accept. */
const TRIES = 3;
const AGAIN_MS = 500;
/** How long the server is asked what became of a deletion whose answer was lost. */
const LOST_MS = 5_000;
/** The API's times are whole seconds. */
const SAME_MS = 1_000;
/** containerd answers when the container has ended; without an answer by then, it may be waiting for it, or hang. */
const ASKED_MS = 1_000;
const ALIVE_MS = 2_000;
/** The longest wait for a sandbox to stop, which also ends the pod's network. */
const SANDBOX_MS = 2_000;

/**
 * E11: stops the pod by DELETE. What still runs shortly before the end of its phase gets SIGTERM, and at its end SIGKILL (B5).
 * If the API accepts no DELETE, the pod is left alone.
 */
export async function byDelete(ladder: Ladder, found: LivePod): Promise<Result> {
  const { needs, order } = ladder;
  const { clock } = needs;
  const { graceMs } = order;
  const endsMs = order.turn?.endsMs ?? clock.monoMs() + graceMs;
  const { pod } = found;
  const taken = pod !== null && (await isDeleted(ladder, pod, { graceMs, endsMs }));
  if (!taken) return { kind: 'dropped', because: whyNot(ladder) };
  ladder.isAccepted = true;
  ladder.signalled('sigterm');
  const end = await untilPhaseEnds(ladder, found, endsMs, (now) => killAll(ladder, now, hastenedOrder(ladder)));
  return taken === 'over' && end.kind === 'by-api' ? { kind: 'gone' } : end;
}

/** The kubelet stops it already, for an eviction that a phase overtakes. `byForce`: a hard threshold does not wait for it. */
export function byPhase(
  ladder: Ladder,
  found: LivePod,
  phase: PhaseCut,
  byForce: (now: LivePod) => Promise<Result>,
): Promise<Result> {
  const { needs, order } = ladder;
  ladder.cancel = needs.cancel();
  const pod = liveNow(needs, order.victim.uid)?.pod ?? found.pod;
  // Its grace period may be longer than the phase.
  if (pod !== null) void isDeleted(ladder, pod, phase);
  return untilPhaseEnds(ladder, found, phase.endsMs, byForce);
}

async function untilPhaseEnds(
  ladder: Ladder,
  found: LivePod,
  endsMs: MonoMs,
  byForce: (now: LivePod) => Promise<Result>,
): Promise<Result> {
  const { clock } = ladder.needs;
  const lastWordMs = Math.min(LAST_WORD_MS, (endsMs - clock.monoMs()) / 2);
  for (let now: LivePod | null = found; now !== null; now = stillRunning(ladder, now)) {
    const by = await untilEnded(ladder, now, endsMs - lastWordMs - clock.monoMs(), true);
    if (by === 'ended') continue;
    if (by === 'hastened') return byForce(now);
    // A kubelet that is dead, or still runs a preStop hook, has not asked it to stop, and none is killed without being asked.
    const graceMs = Math.max(1, endsMs - clock.monoMs());
    const end = await killAll(ladder, now, { first: 'sigterm', graceMs, isAsRuntime: true });
    if (end.kind !== 'gone') return end;
  }
  return { kind: 'by-api' };
}

/** Null: none of its containers runs. One that was about to start may have started meanwhile. */
function stillRunning(ladder: Ladder, before: LivePod): LivePod | null {
  const { needs, order } = ladder;
  const found = needs.source.find(order.victim.uid);
  const now = found.known ? found.value : before;
  if (now === null) return null;
  const parts = new Set(partsOf(ladder, now).map(({ inode }) => inode));
  const isRunning = ({ cgroup }: LivePod['containers'][number]): boolean =>
    parts.has(cgroup.inode) && hasProcesses(needs.mounts, cgroup);
  return now.containers.some(isRunning) ? now : null;
}

/** What may have been accepted before a cancel is no stop that was cancelled. */
const whyNot = (ladder: Ladder): 'cancelled' | 'not-deleted' =>
  ladder.cancel.aborted && lostAnswers(ladder).length === 0 ? 'cancelled' : 'not-deleted';

async function isDeleted(
  ladder: Ladder,
  pod: ApiPod,
  { graceMs, endsMs }: Pick<PhaseCut, 'graceMs' | 'endsMs'>,
): Promise<boolean | 'over'> {
  const { needs } = ladder;
  const { clock } = needs;
  const leftMs = Math.min(graceMs, endsMs - clock.monoMs());
  const graceSeconds = Math.max(HARD_GRACE_SECONDS, Math.round(leftMs / 1_000));
  // F17: someone else's deletion gives it less time.
  if (pod.deletionWallMs !== null && pod.deletionWallMs <= clock.wallMs() + graceSeconds * 1_000 + SAME_MS) {
    tell(ladder, 'delete', 'it is being deleted already');
    if (isByUs(ladder)) needs.deleting(pod)(true);
    return true;
  }
  if (ladder.cancel.aborted) return ladder.isAccepted;
  const told = needs.deleting(pod);
  const isAccepted = await isAcceptedBy(ladder, pod, { graceSeconds, endsMs });
  told(isAccepted === true || isByUs(ladder) || (lostAnswers(ladder).length > 0 ? null : false));
  return isAccepted;
}

async function isAcceptedBy(
  ladder: Ladder,
  pod: ApiPod,
  { graceSeconds, endsMs }: { readonly graceSeconds: number; readonly endsMs: MonoMs },
): Promise<boolean | 'over'> {
  const { needs, order } = ladder;
  const { clock } = needs;
  let lostMs: MonoMs | null = null;
  for (let tried = 1; ; tried++) {
    const sentMs = clock.monoMs();
    // After a cancel, only what became of the one that was lost is asked.
    const isCancelled = ladder.cancel.aborted;
    if (isCancelled && lostAnswers(ladder).length === 0) return false;
    const said = isCancelled ? null : await ask(ladder, 'delete', needs.tell.remove(pod, graceSeconds, 'shutdown'));
    if (said?.kind === 'accepted' || said?.kind === 'gone') return true;
    if (said?.kind === 'over') return 'over';
    // Only its answer was lost.
    const now = liveNow(needs, order.victim.uid)?.pod ?? null;
    if (now !== null && now.deletionWallMs !== null) return true;
    if (lostAnswers(ladder).length > 0) {
      lostMs ??= sentMs;
      // The watch may be gone with the answer.
      const ending = await needs.tell.isEnding(pod);
      if (ending.known) foundAnswers(ladder, ending.value);
      if (ending.known && ending.value) return true;
    }
    const isLost = lostMs !== null && clock.monoMs() - lostMs < LOST_MS && lostAnswers(ladder).length > 0;
    if ((tried >= TRIES && !isLost) || clock.monoMs() + AGAIN_MS >= endsMs) return false;
    await sleep(clock, AGAIN_MS);
  }
}

/** E12: stops the pod through the runtime, as no kubelet is left to restart it; by signals if the runtime is away. */
export async function byRuntime(ladder: Ladder, found: LivePod): Promise<Result> {
  const { needs, order, hasten, signalled } = ladder;
  const { clock } = needs;
  const { turn } = order;
  // Resumed, it has what is left of its time: whether it was signalled before is not known.
  const graceMs = Math.min(order.graceMs, turn === undefined ? order.graceMs : graceFrom(turn, clock.monoMs()));
  const seconds = Math.max(1, Math.round(graceMs / 1_000));
  const sentMs = clock.monoMs();
  let isByRuntime = false;
  /** It signals at once, and answers when the container has ended. */
  const heard = (): void => {
    isByRuntime = true;
    signalled('sigterm', sentMs);
  };
  const end = await killContainers(needs, refsOf(found), {
    ...{ first: 'sigterm', graceMs, givesBack: order.givesBack, hasten, signalled, resists: resistsTo(ladder) },
    ask: (ref) => askRuntime(ladder, ref, seconds, heard),
  });
  // After the grace period, the runtime sends SIGKILL by itself.
  const isKilled = isByRuntime && clock.monoMs() - sentMs >= seconds * 1_000;
  await within<unknown>(clock, SANDBOX_MS, stopSandboxes(ladder), () => null);
  return isKilled && end.kind === 'ended' && end.via === 'sigterm' ? { ...end, via: 'sigkill' } : end;
}

async function askRuntime(ladder: Ladder, ref: CgroupRef, seconds: number, heard: () => void): Promise<Asked> {
  const { clock, mounts, runtime } = ladder.needs;
  const id = containerIdOfName(ref.path.slice(ref.path.lastIndexOf('/') + 1));
  if (id === null) return askFirst(mounts, ref);
  let hasAnswered = false;
  const stopped = runtime.stopContainer(id, seconds);
  const at = tell(ladder, 'stop-container', UNANSWERED);
  const asked = stopped.then((answer): Asked => {
    hasAnswered = true;
    at.correct(answer.known ? 'it has ended' : answer.detail);
    if (!answer.known) return askFirst(mounts, ref);
    heard();
    return 'told';
  });
  const first = await within<Asked | null>(clock, ASKED_MS, asked, () => null);
  if (first !== null) return first;
  const isAlive = await within(clock, ALIVE_MS, runtime.refresh(), () => null);
  if (!hasAnswered && !isAlive?.known) return askFirst(mounts, ref);
  if (!hasAnswered) heard();
  return 'told';
}

async function stopSandboxes({ needs, order }: Ladder): Promise<void> {
  const facts = needs.runtime.facts();
  const sandboxes = facts.known ? facts.value.sandboxes : [];
  const mine = sandboxes.filter(({ podUid, isReady }) => podUid === order.victim.uid && isReady);
  await Promise.all(mine.map(({ id }) => needs.runtime.stopSandbox(id)));
}
