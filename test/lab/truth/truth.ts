import { findCgroupMounts } from '../../../src/host/cgroup/cgroup-mounts.ts';
import { sleep } from '../../../src/host/clock.ts';
import type { Workload } from '../../../src/host/process/workload.ts';
import type { DecisionRecord } from '../../../src/record/entry.ts';
import { joinDecisions } from '../../../src/record/entry.ts';
import { readRecord } from '../../../src/record/reading/record-file.ts';
import { clock, type Played, type PodSpec, type Scene, type SceneSpec, until } from '../scene.ts';
import type { UnitScene, UnitSceneSpec } from './unit-scene.ts';

/** An episode on a real node, and who may end in it. */
type Episode = {
  readonly name: string;
  /** Whom a decision may name; everybody else is innocent. */
  readonly culprits: readonly string[];
  /** How many evictions are right, none of them in vain; exactly one by default. */
  readonly evictions?: { readonly least: number; readonly most: number };
  /** The agent is held back in it, so the kernel may come first: only of those that it should take. */
  readonly isAgentHeld?: true;
  /** The kernel kills in a limit of the culprit's own all the while, which is no shortage of the node. */
  readonly isLimitHit?: true;
  /** Some take longer to end than the record waits for, and it says so. */
  readonly mayOutlast?: true;
  /** Why it cannot be played on this machine; null: it can. */
  readonly missing?: () => string | null;
  /** Fewer runs than asked for, of a long one. */
  readonly mostRuns?: number;
  /** It is played beside others like it: it waits to see that nothing more happens, and is late for nothing. */
  readonly mostlyWaits?: true;
};
/** Pods are cgroups. `body` plays to the end; its figures are for people, and it throws when something does not hold that
 * `judge` does not see. */
export type TruthScene = Episode & {
  readonly spec: SceneSpec;
  readonly body: (scene: Scene, run: Run) => Promise<string>;
};
/** Pods are units of a real systemd: in a container of its own. */
export type UnitTruth = Episode & {
  readonly spec: UnitSceneSpec;
  readonly body: (scene: UnitScene, run: Run) => Promise<string>;
};
export type Run = {
  /** From 0. */
  readonly index: number;
  /** How long a random episode lasts. */
  readonly minutes: number;
};
/** What is judged of each run. */
export type Verdict = {
  readonly innocentsDead: readonly string[];
  readonly kernelOomKills: number;
  /** Sentences; empty: all else holds. */
  readonly wrong: readonly string[];
  readonly figures: string;
};

/** After an eviction nobody else may follow: so long the node is watched. */
const AFTERMATH_MS = 1_500;
/** The lab hears of an end a moment after it. */
const HEARD_LATE_MS = 20;
/** D3: grace and 10 s, and the record follows. */
const OUTCOME_DEADLINE_MS = 20_000;

/** Of priority 1000, and within what it requests: whoever takes it is wrong. */
export const DATABASE: PodSpec = { name: 'db', priority: 1000, requestMiB: 128 };
export const DATABASE_MIB = 64;
export const HOG: PodSpec = { name: 'hog', requestMiB: 16 };
export const SMALL: PodSpec = { name: 'small', requestMiB: 16 };

export const evictionsOf = (scene: Pick<Scene, 'agent'>): readonly DecisionRecord[] =>
  joinDecisions(readRecord(scene.agent.places.stateDirectory).entries).filter(
    ({ decision }) => decision.kind === 'evict' || decision.kind === 'evict-over-limit',
  );
export const victimOf = ({ decision }: DecisionRecord): string => ('victim' in decision ? decision.victim.name : '');
/** Its end is known, and no more of it follows. */
export const isOver = ({ outcomes }: DecisionRecord): boolean =>
  outcomes.some(({ kind }) => kind === 'ended' || kind === 'survived' || kind === 'dropped');
export const has = (kind: string, { outcomes }: DecisionRecord): boolean =>
  outcomes.some((outcome) => outcome.kind === kind);

/** Waits until somebody ended the workload; how long that took, in ms. NaN: the kernel killed, who is then judged. */
export async function untilGone(
  scene: Pick<Scene, 'kernelOomKills'>,
  what: string,
  workload: Workload,
): Promise<number> {
  const startMs = clock.monoMs();
  const isLost = (): { readonly atMs: number } | null => (scene.kernelOomKills() > 0 ? { atMs: Number.NaN } : null);
  return (await until(`${what} ends`, () => workload.ended() ?? isLost())).atMs - startMs;
}

/** Waits until the workload has ended and its eviction, the only one, is over; how long the first took, in ms. */
export async function goneAndOver(
  scene: Pick<Scene, 'agent' | 'kernelOomKills'>,
  what: string,
  workload: Workload,
): Promise<number> {
  const ms = await untilGone(scene, what, workload);
  await until('its eviction is over', () => evictionsOf(scene).find(isOver) ?? null);
  return Math.round(ms);
}

/** Why no cgroup can be renamed here; null: it can. */
export function noRename(): string | null {
  const mounts = findCgroupMounts();
  return mounts.known && mounts.value.version === 1 ? null : 'cgroup v2 renames no cgroup';
}

/**
 * From the decision to the end of the workload: when the agent had proven it, or when its parent heard of it, which on a
 * busy machine is seconds later. Whether it really ended is judged apart.
 */
export async function goneAfterDecisionMs(scene: Pick<Scene, 'agent'>, workload: Workload): Promise<number> {
  const { decision, outcomes } = await until('the eviction has an end', () => evictionsOf(scene).find(isOver) ?? null);
  const proven = outcomes.find(({ kind }) => kind === 'ended');
  const never = Number.POSITIVE_INFINITY;
  return Math.min(workload.ended()?.atMs ?? never, proven?.atMs ?? never) - decision.atMs;
}

/** Plays the scene once and tells what became of everybody. */
export async function judge(
  truth: Episode,
  scene: Pick<Scene, 'agent' | 'played' | 'kernelOomKills'>,
  play: () => Promise<string>,
  log: () => string,
): Promise<Verdict> {
  const wrong: string[] = [];
  let figures = '';
  try {
    figures = await play();
  } catch (error) {
    wrong.push(error instanceof Error ? error.message : String(error));
  }
  await sleep(clock, AFTERMATH_MS);
  if (!scene.agent.isRunning()) wrong.push('the agent ended by itself');
  await until('every eviction has an end', () => evictionsOf(scene).every(isOver) || null, OUTCOME_DEADLINE_MS).catch(
    () => undefined,
  );
  const isInnocent = (pod: string | null): boolean => pod !== null && !truth.culprits.includes(pod);
  const dead = scene.played().filter(({ workload }) => !workload.isAlive());
  const innocentsDead = dead.flatMap(({ pod }) => (isInnocent(pod) ? [pod ?? ''] : []));
  const kernelOomKills = truth.isLimitHit === true ? 0 : scene.kernelOomKills();
  const evictions = evictionsOf(scene);
  for (const record of evictions) {
    if (truth.mayOutlast === true && has('survived', record)) continue;
    wrong.push(...saysUntrue(record, scene.played(), kernelOomKills));
  }
  // Nobody in these scenes is out of reach of a signal.
  if (log().includes('may not be signalled')) wrong.push('the agent says that a victim may not be signalled');
  for (const record of evictions) {
    const spared = has('dropped', record) ? ', and spared it at the last look' : '';
    if (isInnocent(victimOf(record))) wrong.push(`the innocent ${victimOf(record)} was chosen${spared}`);
  }
  const done = evictions.filter((record) => !has('dropped', record));
  const { least, most } = truth.evictions ?? { least: 1, most: 1 };
  if (done.length < least || done.length > most) {
    const wanted = least === most ? String(least) : `${least} to ${most}`;
    wrong.push(`evictions: ${done.length} (${done.map(victimOf).join(', ')}), not ${wanted}`);
  }
  return { innocentsDead, kernelOomKills, wrong, figures };
}

/** What the record says of the end of its victim, against what the lab knows of it. */
export function saysUntrue(
  record: DecisionRecord,
  played: readonly Played[],
  kernelOomKills: number,
): readonly string[] {
  const { id, atMs } = record.decision;
  const pod = victimOf(record);
  const livedOn = (ms: number): readonly Workload[] =>
    played.filter((one) => one.pod === pod && (one.workload.ended()?.atMs ?? ms) >= ms).map(({ workload }) => workload);
  const said = record.outcomes
    .map((outcome) => (outcome.kind === 'dropped' ? outcome.because : outcome.kind))
    .join(', ');
  if (!isOver(record)) return [`${id} of ${pod} has no end in the record (${said})`];
  if (has('ended', record) && has('dropped', record)) return [`${id} of ${pod} both ended and was dropped`];
  if (has('survived', record)) return [`${id} of ${pod}: ${JSON.stringify(record.outcomes.at(-1))}`];
  const there = livedOn(atMs);
  if (has('ended', record) && there.length > 0 && there.every((workload) => workload.isAlive())) {
    return [`${id} says that ${pod} ended, and it lives`];
  }
  const overMs = record.outcomes.at(-1)?.atMs ?? Number.NaN;
  const isKilled = there.some((workload) => {
    const ended = workload.ended();
    return ended?.signal === 'SIGKILL' && ended.atMs <= overMs + HEARD_LATE_MS;
  });
  if (has('dropped', record) && isKilled && kernelOomKills === 0) {
    return [`${id} of ${pod} is said to be dropped (${said}), and it was killed`];
  }
  return [];
}
