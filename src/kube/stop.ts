import { goneAs } from '../act/ended.ts';
import { releasedSince, usageBytes } from '../act/given-back.ts';
import type { KillEnd } from '../act/kill.ts';
import { largestProcesses } from '../act/largest-processes.ts';
import { oldestStartMs } from '../act/oldest-start.ts';
import type { Outcome, Rung } from '../core/outcome.ts';
import { HARD_GRACE_SECONDS } from '../core/pod/grace.ts';
import { type PodUid, podName } from '../core/pod/pod.ts';
import { ifKnown, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import type { CgroupMounts } from '../host/cgroup-mounts.ts';
import { isPopulated } from '../host/cgroupfs.ts';
import { sleep, within } from '../host/clock.ts';
import type { DyingHelp } from '../host/dying.ts';
import type { CgroupRef, Clock, Findings, Killer, StopOrder } from '../ports.ts';
import { budgetRefuses, budgetRefusesId, resists, resistsId } from '../words/finding-eviction.ts';
import { counted } from '../words/parts.ts';
import type { ApiPod } from './api-pod.ts';
import { killContainers } from './kill-containers.ts';
import type { LivePod } from './live-pods.ts';
import { untilUnmounted } from './memory-volumes.ts';
import type { Refusals } from './refusals.ts';
import type { RestartGuard } from './restart-guard.ts';
import type { KubeSource } from './source.ts';

/** What the API made of it. `refused`: by a disruption budget. `not-said`: it does not know, or does not allow it. */
export type Said =
  | { readonly kind: 'accepted'; readonly text: string }
  | { readonly kind: 'refused'; readonly text: string; readonly retryAfterMs: number }
  | { readonly kind: 'not-said'; readonly text: string };
/** Tells the API of a victim (api-writes.ts); null where it is away (C1), and nothing is waited for. Never rejects. */
export type TellApi = {
  /** The Eviction subresource (B1). */
  readonly evict: (pod: ApiPod, graceSeconds: number) => Promise<Said> | null;
  /** DisruptionTarget, then DELETE (A16, B2). */
  readonly remove: (pod: ApiPod, graceSeconds: number) => Promise<Said> | null;
  /** Kept, to be said when the API is back (C5). */
  readonly later: (pod: ApiPod, decision: string) => void;
};
export type KubeKillerNeeds = {
  readonly clock: Clock;
  readonly mounts: CgroupMounts;
  readonly source: Pick<KubeSource, 'find' | 'stopBegan' | 'stopEnded'>;
  readonly tell: TellApi;
  readonly refusals: Refusals;
  readonly guard: RestartGuard;
  readonly findings: Findings;
  readonly help?: DyingHelp | undefined;
};

/** B6: a kill waits no longer for the API. */
const SAY_MS = 100;
/** B11: an eviction that is not answered by then is done without the API. */
const LEAVE_MS = 5_000;
/** B11, soft: after its grace it has so long before the grace is cut, and then so long before it is killed. */
const OVERDUE_MS = 2_000;
const CUT_MS = 3_000;
/** B11, hard: whoever is left in the pod's own cgroup is killed with it. */
const WHOLE_MS = 2_000;
const POLL_MS = 20;
/** So long after a kill a deletion is no surprise. */
const KNOWN_MS = 30_000;
const KNOWN_POLL_MS = 250;

type Ladder = {
  readonly needs: KubeKillerNeeds;
  readonly order: StopOrder;
  readonly hasten: AbortSignal;
  readonly signalled: (how: 'sigterm' | 'sigkill') => void;
  readonly rungs: Rung[];
  /** Whether the API has accepted its end. */
  isAccepted: boolean;
};
type Drop = Extract<Outcome, { kind: 'dropped' }>['because'];
type Result = KillEnd | { readonly kind: 'by-api'; readonly releasedBytes: Reading<number> } | { readonly drop: Drop };

/**
 * Stops pods beside a kubelet: the API is told, the containers' processes are killed, and the end is proven (B11, B12). A
 * soft threshold asks the pod's disruption budget first; a hard one waits for nobody.
 */
export function createKubeKiller(needs: KubeKillerNeeds): Killer {
  const { clock, mounts, source } = needs;
  return {
    stop: async (order, hasten, signalled = () => undefined) => {
      const ladder: Ladder = { needs, order, hasten, signalled, rungs: [], isAccepted: false };
      const result = await stop(ladder);
      const of = { of: order.decision, atMs: clock.monoMs(), rungs: ladder.rungs };
      if ('drop' in result) return { ...of, kind: 'dropped', because: result.drop };
      if (result.kind === 'survived') return { ...of, ...result };
      if (result.kind === 'by-api') return { ...of, kind: 'ended', via: 'api', releasedBytes: result.releasedBytes };
      if (result.kind === 'ended')
        return { ...of, kind: 'ended', via: result.via, releasedBytes: result.releasedBytes };
      return { ...of, ...goneAs(order, 'sigterm') };
    },
    largestProcesses: ({ uid }, count, budgetMs) => {
      const found = source.find(uid);
      if (found === null) return unknown('absent', uid, 'no such pod');
      const { cgroup } = found;
      return cgroup.known ? largestProcesses({ mounts, ref: cgroup.value, clock, count, budgetMs }) : cgroup;
    },
  };
}

async function stop(ladder: Ladder): Promise<Result> {
  const { needs, order } = ladder;
  const found = needs.source.find(order.victim.uid);
  if (found === null || !isAlive(needs, found)) return { kind: 'gone' };
  const { cgroup } = found;
  const oldestMs = order.resumedFromMs !== null && cgroup.known ? oldestContainerMs(needs, found) : null;
  // Resumed: what runs now was started after the decision, so the victim has ended (B13).
  if (order.resumedFromMs !== null && oldestMs !== null && oldestMs > order.resumedFromMs) return { kind: 'gone' };
  needs.source.stopBegan(order.victim.uid);
  const result = await (order.isHard ? byForce(ladder, found, order) : byLeave(ladder, found));
  needs.source.stopEnded(order.victim.uid, 'kind' in result && result.kind === 'survived' ? 'survived' : 'ended');
  return result;
}

function isAlive({ mounts }: KubeKillerNeeds, { cgroup }: LivePod): boolean {
  if (!cgroup.known) return cgroup.why !== 'absent';
  const populated = isPopulated(mounts, cgroup.value);
  return !populated.known || populated.value;
}

function oldestContainerMs({ mounts }: KubeKillerNeeds, found: LivePod): MonoMs | null {
  const starts = refsOf(found).map((ref) => oldestStartMs(mounts, ref));
  const oldest = Math.min(...starts.filter((start) => start !== null));
  return Number.isFinite(oldest) ? oldest : null;
}

/** The cgroups of its containers; its own where they cannot be told apart (B5). */
function refsOf({ containers, cgroup }: LivePod): readonly CgroupRef[] {
  if (containers.length > 0) return containers.map((container) => container.cgroup);
  return cgroup.known ? [cgroup.value] : [];
}

/** B11, soft. */
async function byLeave(ladder: Ladder, found: LivePod): Promise<Result> {
  const { needs, order, hasten } = ladder;
  const { clock, refusals, findings } = needs;
  const { uid } = order.victim;
  const pod = podName(order.victim);
  const graceSeconds = Math.max(HARD_GRACE_SECONDS, Math.ceil(order.graceMs / 1_000));
  const evicted = found.pod === null ? null : needs.tell.evict(found.pod, graceSeconds);
  const said =
    evicted === null
      ? NOT_ASKED
      : await answered(
          ladder,
          within(clock, LEAVE_MS, evicted, () => SILENT),
        );
  if (said === 'hastened') return byForce(ladder, found, hastenedOrder(hasten));
  tell(ladder, 'evict', said.text);
  if (said.kind === 'refused') {
    refusals.add(uid, said.retryAfterMs);
    findings.raise(budgetRefuses(uid, pod, said.text));
    return { drop: 'budget-refused' };
  }
  findings.clear(budgetRefusesId(uid));
  if (said.kind === 'not-said') {
    const end = await killAll(ladder, found, { first: 'sigterm', graceMs: order.graceMs, isAsRuntime: true });
    return finished(ladder, found, end);
  }
  ladder.isAccepted = true;
  ladder.signalled('sigterm');
  return byApi(ladder, found, graceSeconds * 1_000);
}

/** The kubelet stops it. What is overdue is hastened, and then killed. */
async function byApi(ladder: Ladder, found: LivePod, graceMs: number): Promise<Result> {
  const { needs, hasten } = ladder;
  const { mounts } = needs;
  const { cgroup } = found;
  const before = ifKnown(cgroup, (ref) => usageBytes(mounts, ref));
  const released = (): Reading<number> => ifKnown(cgroup, (ref) => releasedSince(mounts, ref, before));
  const by = await untilEnded(ladder, found, graceMs + OVERDUE_MS);
  if (by === 'ended') return { kind: 'by-api', releasedBytes: released() };
  if (by === 'hastened') return byForce(ladder, found, hastenedOrder(hasten));
  if (found.pod !== null) void noted(ladder, 'delete', needs.tell.remove(found.pod, HARD_GRACE_SECONDS));
  const then = await untilEnded(ladder, found, CUT_MS);
  if (then === 'ended') return { kind: 'by-api', releasedBytes: released() };
  return finished(ladder, found, await killAll(ladder, found, { first: 'sigkill', graceMs: 0 }));
}

/** B11, hard. */
async function byForce(
  ladder: Ladder,
  found: LivePod,
  { first, graceMs }: Pick<StopOrder, 'first' | 'graceMs'>,
): Promise<Result> {
  const { needs } = ladder;
  const removed = found.pod === null ? null : noted(ladder, 'delete', needs.tell.remove(found.pod, HARD_GRACE_SECONDS));
  if (removed !== null) await within(needs.clock, SAY_MS, removed, () => undefined);
  return finished(ladder, found, await killAll(ladder, found, { first, graceMs }));
}

/** Rung 2, and with it the pod's own cgroup where somebody is left after 2 s. */
async function killAll(
  ladder: Ladder,
  found: LivePod,
  how: Pick<StopOrder, 'first' | 'graceMs'> & { readonly isAsRuntime?: true },
): Promise<KillEnd> {
  const { needs, order, hasten, signalled } = ladder;
  const { clock, findings } = needs;
  const { uid } = order.victim;
  // Those of now: it may have started another one while the API was asked.
  const now = needs.source.find(uid) ?? found;
  const refs = refsOf(now);
  const who = (left: string | null): void => {
    if (left === null) findings.clear(resistsId(uid));
    else findings.raise(resists(uid, podName(order.victim), left));
  };
  const kill = { ...how, givesBack: order.givesBack, hasten, signalled, resists: who };
  tell(
    ladder,
    'kill-containers',
    `${how.first === 'sigkill' ? 'SIGKILL' : 'SIGTERM'} to ${counted(refs.length, 'cgroup')}`,
  );
  let whole: Promise<KillEnd> | null = null;
  const cancel = clock.after(how.graceMs + WHOLE_MS, () => {
    const { cgroup } = now;
    if (!cgroup.known) return;
    tell(ladder, 'kill-pod', cgroup.value.path);
    whole = killContainers(needs, [cgroup.value], { ...kill, first: 'sigkill', graceMs: 0 });
  });
  const end = await killContainers(needs, refs, kill);
  cancel();
  await whole;
  findings.clear(resistsId(uid));
  return end;
}

/** What a kill leaves to be done: a container that started meanwhile, a memory volume, and what the API has not heard. */
async function finished(ladder: Ladder, found: LivePod, end: KillEnd): Promise<Result> {
  const { needs, order } = ladder;
  if (end.kind !== 'ended') return end;
  if (!ladder.isAccepted) {
    needs.guard.killed(order.victim.uid);
    await killNewcomers(ladder, found);
    const now = found.pod ?? needs.source.find(order.victim.uid)?.pod ?? null;
    if (now === null) void tellOnceKnown(needs, order.victim.uid);
    else if (!ladder.isAccepted) {
      needs.tell.later(now, order.decision);
      tell(ladder, 'spool', 'told to the API when it answers again');
    }
  }
  if (found.cgroup.known) await untilUnmounted(needs.clock, needs.mounts, found.cgroup.value);
  return end;
}

/**
 * Right after a start the API has not told of the pod yet: it is deleted as soon as it does, or the kubelet would start it again
 * (B13).
 */
async function tellOnceKnown({ clock, source, tell: api }: KubeKillerNeeds, uid: PodUid): Promise<void> {
  const endsMs = clock.monoMs() + KNOWN_MS;
  while (clock.monoMs() < endsMs) {
    const pod = source.find(uid)?.pod ?? null;
    const said = pod === null ? null : api.remove(pod, HARD_GRACE_SECONDS);
    if (said !== null && (await said).kind === 'accepted') return;
    await sleep(clock, KNOWN_POLL_MS);
  }
}

/** B11, rung 4: the kubelet has started a container anew before the API heard of the end. */
async function killNewcomers(ladder: Ladder, found: LivePod): Promise<void> {
  const { needs, order } = ladder;
  const before = new Set(refsOf(found).map(({ inode }) => inode));
  const now = needs.source.find(order.victim.uid);
  const isNew = (ref: CgroupRef): boolean => {
    const populated = isPopulated(needs.mounts, ref);
    return !before.has(ref.inode) && populated.known && populated.value;
  };
  const refs = now === null || !hasContainers(now) ? [] : refsOf(now).filter(isNew);
  if (now === null || refs.length === 0) return;
  if (now.pod !== null) void noted(ladder, 'delete', needs.tell.remove(now.pod, HARD_GRACE_SECONDS));
  tell(ladder, 'kill-again', counted(refs.length, 'container'));
  const never = new AbortController().signal;
  await killContainers(needs, refs, {
    ...{ first: 'sigkill', graceMs: 0, givesBack: order.givesBack, hasten: never },
    signalled: () => undefined,
    resists: () => undefined,
  });
}

const hasContainers = ({ containers }: LivePod): boolean => containers.length > 0;

const SILENT: Said = { kind: 'not-said', text: `no answer within ${LEAVE_MS / 1_000} s` };
const NOT_ASKED: Said = { kind: 'not-said', text: 'the API is away' };

function tell({ needs, rungs }: Ladder, act: Rung['act'], answer: string): void {
  rungs.push({ atMs: needs.clock.monoMs(), act, answer });
}

/** A rung whose answer comes later, or never: then its time is known at least. */
async function noted(ladder: Ladder, act: Rung['act'], asked: Promise<Said> | null): Promise<void> {
  const said = (await asked) ?? NOT_ASKED;
  if (said.kind === 'accepted') ladder.isAccepted = true;
  tell(ladder, act, said.text);
}

/** The answer, or at once `hastened` when a hard threshold overtakes it. */
function answered(ladder: Ladder, said: Promise<Said>): Promise<Said | 'hastened'> {
  return Promise.race([said, hastenedOf(ladder.hasten)]);
}

function hastenedOf(hasten: AbortSignal): Promise<'hastened'> {
  if (hasten.aborted) return Promise.resolve('hastened');
  return new Promise((resolve) => hasten.addEventListener('abort', () => resolve('hastened'), { once: true }));
}

function hastenedOrder({ reason }: AbortSignal): Pick<StopOrder, 'first' | 'graceMs'> {
  if (typeof reason !== 'object' || reason === null) return { first: 'sigkill', graceMs: 0 };
  return { first: 'sigkill', graceMs: 0, ...reason };
}

async function untilEnded(ladder: Ladder, found: LivePod, ms: number): Promise<'ended' | 'hastened' | 'late'> {
  const { needs, hasten } = ladder;
  const { clock, mounts } = needs;
  const refs = refsOf(found);
  const endsMs = clock.monoMs() + ms;
  const hastened = hastenedOf(hasten);
  for (;;) {
    const isOver = refs.every((ref) => {
      const populated = isPopulated(mounts, ref);
      return populated.known ? !populated.value : populated.why === 'absent';
    });
    if (isOver) return 'ended';
    if (clock.monoMs() >= endsMs) return 'late';
    const next = await Promise.race([sleep(clock, POLL_MS), hastened]);
    if (next === 'hastened') return 'hastened';
  }
}
