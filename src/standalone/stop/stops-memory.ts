import type { DecisionId } from '../../core/decision.ts';
import type { MonoMs } from '../../core/reading.ts';
import type { JobEnd, Systemd } from '../../host/systemd/systemd.ts';
import type { Clock, Findings } from '../../ports.ts';
import { stopsUnusable } from '../../words/finding-standalone.ts';
import { createStopsSaver, MAX_REMEMBERED } from '../manifests/runtime-file.ts';
import { loadStops, type StoppedPod, saveStops } from './stops-file.ts';

export type StopsMemoryNeeds = {
  readonly clock: Clock;
  readonly systemd: Systemd;
  readonly findings: Findings;
  readonly runtimeDirectory: string;
  readonly bootId: string;
};
/** What a shutdown stopped. The file is the memory: it survives this process, not this boot. */
export type StopsMemory = {
  readonly all: () => readonly StoppedPod[];
  readonly of: (decision: DecisionId) => StoppedPod | null;
  /** If a pod is stopped once more, its present run replaces the noted one. */
  readonly note: (pods: readonly StoppedPod[]) => void;
  readonly told: (decisions: readonly DecisionId[]) => void;
  /** It was stopped by a signal, which cannot be taken back. */
  readonly signalled: (decision: DecisionId) => void;
  /** Its grace period began then; only the first time counts. */
  readonly toldAt: (decision: DecisionId, atMs: MonoMs) => void;
  /** Replaces the noted run by the one that was really asked to stop. */
  readonly ran: (decision: DecisionId, invocationId: string) => void;
  readonly ended: (decision: DecisionId) => void;
  readonly forget: (decisions: readonly DecisionId[]) => void;
  /** Whether something else started or stopped its unit since it was down. */
  readonly isTouched: (pod: StoppedPod) => boolean;
  /** The file was lost: writes it again. */
  readonly rewrite: () => void;
  readonly close: () => void;
};

/** `wasDown`: its unit had been seen inactive before. */
type SeenEnd = JobEnd & { readonly wasDown: boolean };

/** Many are asked to stop at once: the file is written for all of them. */
const TOLD_SAVE_MS = 50;

/** Between the decision about a pod and the name of a unit that was stopped along with it. */
export const ALONG = '+';
/** The decision about the pod. */
export const stopOf = (decision: DecisionId): DecisionId => decision.split(ALONG)[0] ?? decision;

export function createStopsMemory(needs: StopsMemoryNeeds): StopsMemory {
  const { clock, systemd, findings, runtimeDirectory, bootId } = needs;
  const loaded = loadStops(runtimeDirectory, bootId, clock);
  if (loaded.complaint !== null) findings.raise(stopsUnusable('shutdown', loaded.complaint));
  let pods = loaded.pods;
  const saver = createStopsSaver(needs, 'shutdown', () => saveStops(runtimeDirectory, bootId, pods));
  /** Units seen inactive since they were asked to stop: before that, a job that ends is the stop itself, also of an earlier run. */
  const seenDown = new Set<string>();
  /** Of the pods' units, in their order. */
  let ends: readonly SeenEnd[] = [];
  let cancelSave: (() => void) | null = null;

  function keep(next: readonly StoppedPod[]): void {
    pods = next.slice(-MAX_REMEMBERED);
    const units = new Set(pods.map(({ unit }) => unit));
    for (const unit of seenDown) if (!units.has(unit)) seenDown.delete(unit);
    ends = ends.filter(({ unit }) => units.has(unit));
    saver.save();
  }

  /** `noted` only advances to `told`, and `told` to `ended`. */
  function advance(decisions: readonly DecisionId[], stage: 'told' | 'ended'): void {
    const isMeant = (pod: StoppedPod): boolean => decisions.includes(pod.decision) && pod.stage !== 'ended';
    if (pods.some(isMeant)) keep(pods.map((pod) => (isMeant(pod) ? { ...pod, stage } : pod)));
  }

  async function checkDown(unit: string): Promise<void> {
    const state = await systemd.activeState(unit);
    const isDown = state.known && ['inactive', 'failed'].includes(state.value);
    if (isDown && pods.some((pod) => pod.unit === unit)) seenDown.add(unit);
  }
  const checkAll = (): void => {
    for (const { unit } of pods) if (unit !== null) void checkDown(unit);
  };

  const endJobs = systemd.whenJobEnds((job) => {
    // Even if it is only about to be asked to stop: a quick stop may end together with the answer that it is queued.
    if (!pods.some(({ unit }) => unit === job.unit)) return;
    const wasDown = seenDown.has(job.unit);
    ends = [...ends, { ...job, wasDown }].slice(-MAX_REMEMBERED);
    if (!wasDown) void checkDown(job.unit);
  });
  /** It is neither the stop of this run of the agent, nor may it be that of an earlier one. */
  const isForeign = (end: SeenEnd, i: number): boolean =>
    end.result === 'done' &&
    !end.isOurs() &&
    (end.wasDown || ends.slice(0, i).some((before) => before.unit === end.unit && before.isOurs()));
  // What an earlier run stopped may be down already, so that no job for it will end any more.
  const endUps = systemd.whenUp(checkAll);
  if (systemd.isUp()) checkAll();
  return {
    all: () => pods,
    of: (decision) => pods.find((pod) => pod.decision === decision) ?? null,
    note: (next) => {
      for (const { unit } of next) {
        if (unit === null) continue;
        seenDown.delete(unit);
        ends = ends.filter((end) => end.unit !== unit);
      }
      const uids = new Set(next.map(({ uid }) => uid));
      keep([...pods.filter(({ uid }) => !uids.has(uid)), ...next]);
    },
    told: (decisions) => advance(decisions, 'told'),
    signalled: (decision) => {
      pods = pods.map((pod) => (pod.decision === decision ? { ...pod, isSignalled: true } : pod));
      advance([decision], 'told');
    },
    toldAt: (decision, toldMs) => {
      pods = pods.map((pod) => (pod.decision === decision ? { toldMs, ...pod } : pod));
      cancelSave ??= clock.after(TOLD_SAVE_MS, () => {
        cancelSave = null;
        saver.save();
      });
    },
    ran: (decision, invocationId) => {
      const isOther = (pod: StoppedPod): boolean => pod.decision === decision && pod.invocationId !== invocationId;
      if (pods.some(isOther)) keep(pods.map((pod) => (isOther(pod) ? { ...pod, invocationId } : pod)));
    },
    ended: (decision) => {
      const along = pods.flatMap((pod) => (pod.decision.startsWith(`${decision}${ALONG}`) ? [pod.decision] : []));
      advance([decision, ...along], 'ended');
      for (const { unit } of pods.filter((pod) => pod.decision === decision)) if (unit !== null) void checkDown(unit);
    },
    forget: (decisions) => {
      if (pods.some(({ decision }) => decisions.includes(decision)))
        keep(pods.filter(({ decision }) => !decisions.includes(decision)));
    },
    isTouched: ({ unit }) => ends.some((end, i) => end.unit === unit && isForeign(end, i)),
    rewrite: () => {
      if (pods.length > 0) keep(pods);
    },
    close: () => {
      cancelSave?.();
      if (cancelSave !== null) saver.save();
      saver.close();
      endJobs();
      endUps();
    },
  };
}
