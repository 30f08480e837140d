import type { KillEnd } from '../../act/kill-order.ts';
import { oldestStartMs } from '../../act/oldest-start.ts';
import type { UsageWatch } from '../../act/released-memory.ts';
import type { Survivors } from '../../act/survivors.ts';
import type { DecisionId } from '../../core/decision.ts';
import type { Hasten } from '../../core/eviction/hasten.ts';
import { type Outcome, type Rung, type Signalled, withRung } from '../../core/outcome.ts';
import { podName } from '../../core/pod/pod.ts';
import type { MonoMs, Reading } from '../../core/reading.ts';
import type { CgroupMounts } from '../../host/cgroup/cgroup-mounts.ts';
import { anonBytes, GIVEN_BACK_BYTES, isPopulated } from '../../host/cgroup/cgroupfs.ts';
import { sleep } from '../../host/clock.ts';
import type { DyingHelp } from '../../host/process/dying-help.ts';
import type { CgroupRef, Clock, Findings, RecordNote, StopOrder } from '../../ports.ts';
import { sayLostAnswer } from '../../words/decision.ts';
import { resists, resistsId } from '../../words/finding-eviction.ts';
import { counted } from '../../words/phrases.ts';
import type { ApiPod, Deletable } from '../api/api-pod.ts';
import type { OpenRuntime } from '../cri/open-runtime.ts';
import type { Refusals, RestartGuard } from '../pods/candidate-limits.ts';
import type { LivePod } from '../pods/live-pods.ts';
import type { KubeSource } from '../pods/source.ts';
import { killContainers } from './kill-containers.ts';

/**
 * The API's response. `gone`: the pod no longer existed. `over`: nothing was sent, because its containers have ended, as far as
 * the API shows: the kubelet ends what is left of it, and starts nothing. `refused`: by a disruption budget, unless `isUnasked`: then no budget
 * has answered, and the pod must not be stopped without that. `not-said`: not received or not accepted, either for now or
 * permanently. `isAnswer`: the server is there, so that the same request may reach the budget later.
 */
export type Said =
  | { readonly kind: 'accepted' | 'gone' | 'over'; readonly text: string }
  | {
      readonly kind: 'refused';
      readonly text: string;
      readonly retryAfterMs: number;
      readonly isUnasked?: true;
      /** It was sent and got no answer, so that it may yet be accepted. */
      readonly isLost?: true;
    }
  | {
      readonly kind: 'not-said';
      readonly text: string;
      readonly because: NotSaid;
      readonly isAnswer?: true;
      /** Absent or null: the server gives no time. */
      readonly retryAfterMs?: number | null;
    };
type NotSaid = 'unheard' | 'not-now' | 'never';
/** For a pod that must not be stopped unless its budget allows it. */
export const asUnasked = ({ text, retryAfterMs, because }: Extract<Said, { kind: 'not-said' }>): Said => ({
  kind: 'refused',
  text,
  retryAfterMs: retryAfterMs ?? 0,
  isUnasked: true,
  ...(because === 'unheard' ? { isLost: true } : {}),
});
export type EndKnown = (isEnding: boolean) => void;
/** Asks the API to end a victim (api-writes.ts). Null: the API is away (C1), so there is nothing to wait for. Never rejects. */
export type StopThroughApi = {
  /** The Eviction subresource (B1). */
  readonly evict: (pod: Deletable, graceSeconds: number) => Promise<Said> | null;
  /** Without an answer about the budget, the pod is stopped all the same: the API is away (C1), and `pdb` is not `required`. */
  readonly isBudgetOverridden: () => boolean;
  /** DisruptionTarget, then DELETE (A16, B2). */
  readonly remove: (pod: Deletable, graceSeconds: number, why?: 'shutdown') => Promise<Said> | null;
  /** Whether the API ends the pod: it is being deleted, or gone. Unknown: the API does not answer. Never rejects. */
  readonly isEnding: (pod: Deletable) => Promise<Reading<boolean>>;
  /**
   * Queues the request until the API is back (C5). `madeAtMs`: when its age begins. `known`: called if the API shows later
   * whether it ends the pod. Resolves when it is on the disk.
   */
  readonly later: (pod: Deletable, decision: DecisionId, madeAtMs: MonoMs, known: EndKnown) => Promise<void>;
  /** Removes it from the queue, because the first request was answered late. */
  readonly heard: (pod: Deletable) => void;
};
export type KubeKillerNeeds = {
  readonly clock: Clock;
  readonly mounts: CgroupMounts;
  readonly source: Pick<KubeSource, 'find' | 'stopBegan' | 'stopEnded'>;
  readonly tell: StopThroughApi;
  readonly refusals: Refusals;
  readonly guard: RestartGuard;
  readonly runtime: Pick<OpenRuntime, 'facts' | 'refresh' | 'isAnswering' | 'stopContainer' | 'stopSandbox'>;
  /** Called before its deletion for a shutdown is sent. Its result: whether the API has accepted it; null: not known. */
  readonly deleting: (pod: ApiPod) => (isDeleted: boolean | null) => void;
  /** As in Killer. */
  readonly cancel: () => AbortSignal;
  readonly findings: Findings;
  readonly survivors: Pick<Survivors, 'watch'>;
  readonly note: (rung: Extract<RecordNote, { kind: 'rung' }>) => void;
  readonly help?: DyingHelp | undefined;
};

/** B11, hard: after this, processes in the pod's own cgroup are killed too. */
const WHOLE_MS = 2_000;
const POLL_MS = 20;
/** The answer of a kill that reached nobody. A resumed stop looks for it: other words would count as a kill. */
const NOBODY = 'no process was left in it';

const AWAY = 'the API is away';

export type Ladder = {
  readonly needs: KubeKillerNeeds;
  readonly order: StopOrder;
  readonly hasten: Hasten;
  readonly signalled: (how: Signalled['with'], atMs?: MonoMs) => void;
  /** Of its shutdown, or of the one whose phase overtakes it. */
  cancel: AbortSignal;
  /** Includes the rungs of earlier runs. */
  rungs: readonly Rung[];
  /** Whether the API has accepted the request, or no longer knows the pod. */
  isAccepted: boolean;
  /** The last request to the API; null: none. */
  asked: Promise<unknown> | null;
  /** Why it has not been accepted, as far as known. */
  unsaid: NotSaid;
  /** What its cgroup has freed since the first request to end it. */
  usage: UsageWatch;
  /** Called if it is known only after the outcome whether the API ends the pod. */
  readonly endKnown: EndKnown;
};
export type Result =
  | KillEnd
  | { readonly kind: 'by-api' }
  /** It has ended, and nobody can say whether by our request. */
  | { readonly kind: 'unknown'; readonly detail: string }
  | Pick<Extract<Outcome, { kind: 'dropped' }>, 'kind' | 'because'>;

/** The pod as it is now. Null: there is no such pod, or nobody can say. */
export function liveNow({ source }: Pick<KubeKillerNeeds, 'source'>, uid: string): LivePod | null {
  const now = source.find(uid);
  return now.known ? now.value : null;
}

export function isAlive({ mounts }: Pick<KubeKillerNeeds, 'mounts'>, { cgroup }: LivePod): boolean {
  return cgroup.known ? isRunning(mounts, cgroup.value) : cgroup.why !== 'absent';
}

export function isRunning(mounts: CgroupMounts, ref: CgroupRef): boolean {
  const populated = isPopulated(mounts, ref);
  return populated.known ? populated.value : populated.why !== 'absent';
}

/** The cgroups of its containers; the pod's own if they cannot be distinguished from the sandbox (B5). */
export function refsOf({ containers, cgroup }: LivePod): readonly CgroupRef[] {
  if (containers.length > 0) return containers.map((container) => container.cgroup);
  return cgroup.known ? [cgroup.value] : [];
}

/** Like `refsOf`, but if an earlier run began the eviction, only what is left of its victim. */
export function partsOf(ladder: Ladder, live: LivePod): readonly CgroupRef[] {
  const { why, resumedFromMs } = ladder.order;
  return why === 'eviction' && resumedFromMs !== null ? leftOf(ladder, live, resumedFromMs) : refsOf(live);
}

/**
 * B13: a container that started after the decision is not part of the victim. Beside such a container, or after the kill, an
 * unnamed cgroup that holds nothing is assumed to be the sandbox: killing it would end the new container.
 */
function leftOf({ needs, order }: Ladder, live: LivePod, decidedMs: MonoMs): readonly CgroupRef[] {
  const { mounts } = needs;
  const { containers, sandboxes } = live;
  if (containers.length === 0) {
    return sandboxes.length > 0 ? [] : refsOf(live).filter((ref) => !isNewer(mounts, ref, decidedMs));
  }
  const running = containers.filter(({ cgroup }) => isRunning(mounts, cgroup));
  const older = running.filter(({ cgroup }) => !isNewer(mounts, cgroup, decidedMs));
  const mayBeOver = wasKilled(order) || older.length < running.length;
  const isPart = ({ name, cgroup }: LivePod['containers'][number]): boolean =>
    !mayBeOver || name !== null || holdsMemory(mounts, cgroup);
  return older.filter(isPart).map(({ cgroup }) => cgroup);
}

/** Whether the pod runs containers that are not part of the victim. */
function hasOthers(ladder: Ladder, live: LivePod): boolean {
  const { mounts } = ladder.needs;
  const parts = new Set(partsOf(ladder, live).map(({ inode }) => inode));
  return live.containers.some(({ cgroup }) => !parts.has(cgroup.inode) && isRunning(mounts, cgroup));
}

export const wasKilled = ({ doneBefore = [] }: StopOrder): boolean =>
  doneBefore.some(({ act, answer }) => (act.startsWith('kill-') && answer !== NOBODY) || act === 'stop-container');

const isNewer = (mounts: CgroupMounts, ref: CgroupRef, thanMs: MonoMs): boolean =>
  (oldestStartMs(mounts, ref) ?? thanMs) > thanMs;

/** Whether the rest of the victim has memory to free. */
export const holdsMuch = (ladder: Ladder, live: LivePod): boolean =>
  partsOf(ladder, live).some((ref) => holdsMemory(ladder.needs.mounts, ref));

function holdsMemory(mounts: CgroupMounts, ref: CgroupRef): boolean {
  const anon = anonBytes(mounts, ref);
  return !anon.known || anon.value >= GIVEN_BACK_BYTES;
}

/**
 * Records a rung at once, so that it is not lost if the agent is killed now. `correct` replaces it by what really
 * happened.
 */
export function tell(
  ladder: Ladder,
  act: Rung['act'],
  answer: string,
  more: Pick<Rung, 'isAccepted'> = {},
): { readonly correct: (answer: string, more?: Pick<Rung, 'isAccepted'>) => void } {
  const rung = { atMs: ladder.needs.clock.monoMs(), act, answer, ...more };
  keep(ladder, rung);
  return { correct: (instead, now = {}) => keep(ladder, { ...rung, answer: instead, ...now }) };
}

function keep(ladder: Ladder, rung: Rung): void {
  const { needs, order } = ladder;
  ladder.rungs = withRung(ladder.rungs, rung);
  needs.note({ kind: 'rung', of: order.decision, ...rung });
}

/** The API has accepted a request of this run or an earlier one. */
export const isByUs = ({ rungs }: Pick<Ladder, 'rungs'>): boolean => rungs.some(({ isAccepted }) => isAccepted);

/** The requests that may have been accepted, of which no answer came; none if one was accepted. */
export function lostAnswers({ rungs }: Ladder): readonly Rung[] {
  if (isByUs({ rungs })) return [];
  return rungs.filter(({ act, isAccepted }) => (act === 'evict' || act === 'delete') && isAccepted === undefined);
}

/** The API shows what became of them. */
export function foundAnswers(ladder: Ladder, isEnding: boolean): void {
  for (const rung of lostAnswers(ladder))
    keep(ladder, { ...rung, answer: sayLostAnswer(isEnding), isAccepted: isEnding });
}

export const UNANSWERED = 'sent; the answer is not known';

export const acceptedBy = (said: Said): Pick<Rung, 'isAccepted'> =>
  (said.kind === 'not-said' && said.because === 'unheard') || (said.kind === 'refused' && said.isLost)
    ? {}
    : { isAccepted: said.kind === 'accepted' };

/** A request to the API: recorded when it is sent, and again with the answer. Null: `whyNot` it was not sent. */
export function ask(ladder: Ladder, act: Rung['act'], asked: Promise<Said> | null, whyNot = AWAY): Promise<Said> {
  const at = asked === null ? tell(ladder, act, whyNot, { isAccepted: false }) : tell(ladder, act, UNANSWERED);
  const notAsked: Said = { kind: 'not-said', because: 'unheard', text: whyNot };
  const heard = Promise.resolve(asked ?? notAsked).then((said) => {
    take(ladder, said);
    if (asked !== null) at.correct(said.text, acceptedBy(said));
    return said;
  });
  ladder.asked = heard;
  return heard;
}

function take(ladder: Ladder, said: Said): void {
  if (said.kind === 'not-said') ladder.unsaid = said.because;
  if (said.kind === 'over') ladder.unsaid = 'never';
  if (said.kind === 'accepted' || said.kind === 'gone') ladder.isAccepted = true;
}

export function resistsTo({ needs, order }: Ladder): (left: string | null) => void {
  const { uid } = order.victim;
  return (left) => {
    if (left === null) needs.findings.clear(resistsId(uid));
    else needs.findings.raise(resists(uid, podName(order.victim), left));
  };
}

/** Rung 2; if processes are left after 2 s, also the pod's own cgroup. */
export async function killAll(
  ladder: Ladder,
  found: LivePod,
  how: Pick<StopOrder, 'first' | 'graceMs'> & { readonly isAsRuntime?: true },
): Promise<KillEnd> {
  const { needs, order, hasten, signalled } = ladder;
  const { clock, findings } = needs;
  const { uid } = order.victim;
  // Read again: it may have started another one during the API request.
  const now = liveNow(needs, uid) ?? found;
  const refs = partsOf(ladder, now);
  const kill = { ...how, givesBack: order.givesBack, hasten, signalled, resists: resistsTo(ladder) };
  const signal = how.first === 'sigkill' ? 'SIGKILL' : 'SIGTERM';
  let whole: Promise<KillEnd> | null = null;
  const cancel = clock.after(how.graceMs + WHOLE_MS, () => {
    const { cgroup } = now;
    const isResumed = order.resumedFromMs !== null;
    if (!cgroup.known || (isResumed && hasOthers(ladder, liveNow(needs, uid) ?? now))) return;
    tell(ladder, 'kill-pod', cgroup.value.path);
    whole = killContainers(needs, [cgroup.value], { ...kill, first: 'sigkill', graceMs: 0 });
  });
  // Recorded before the signal: if the agent is killed, its next run must know everything that was done.
  const at = tell(ladder, 'kill-containers', `${signal} to ${counted(refs.length, 'cgroup')}`);
  const ending = killContainers(needs, refs, kill);
  const noted = how.first === 'sigterm' ? notedUntil(ladder, ending) : null;
  const end = await ending;
  cancel();
  await noted;
  await whole;
  if (end.kind === 'gone') at.correct(NOBODY);
  findings.clear(resistsId(uid));
  return end;
}

/** Reads what its cgroup uses now and then, while its processes may still take more. */
async function notedUntil({ needs: { clock }, usage }: Ladder, ending: Promise<unknown>): Promise<void> {
  let isOver = false;
  const over = ending.then(() => {
    isOver = true;
  });
  while (!isOver) {
    usage.note();
    await Promise.race([sleep(clock, POLL_MS), over]);
  }
}

export function hastenedOrder({ needs: { clock }, hasten }: Ladder): Pick<StopOrder, 'first' | 'graceMs'> {
  const nowMs = clock.monoMs();
  return { first: hasten.first(), graceMs: hasten.endsMs(nowMs) - nowMs };
}

/** `hastened`: by anything; in a phase, which `isInPhase` tells, only by a hard threshold. */
export async function untilEnded(
  ladder: Ladder,
  found: LivePod,
  ms: number,
  isInPhase = false,
): Promise<'ended' | 'hastened' | 'late'> {
  const { needs, hasten } = ladder;
  const { clock, mounts } = needs;
  const refs = partsOf(ladder, found);
  const endsMs = clock.monoMs() + ms;
  for (;;) {
    const isOver = refs.every((ref) => {
      const populated = isPopulated(mounts, ref);
      return populated.known ? !populated.value : populated.why === 'absent';
    });
    if (isOver) return 'ended';
    ladder.usage.note();
    if (clock.monoMs() >= endsMs) return 'late';
    const pause = sleep(clock, POLL_MS);
    await (hasten.isCut() ? pause : Promise.race([pause, hasten.whenCut]));
    if (hasten.isCut() && !(isInPhase && hasten.phase() !== null)) return 'hastened';
  }
}
