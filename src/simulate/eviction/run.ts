import type { CoreConfig } from '../../core/core-config.ts';
import { decide } from '../../core/decide.ts';
import type { Decision } from '../../core/decision.ts';
import { type ThresholdId, withContainerfs } from '../../core/eviction/threshold.ts';
import type { Observation } from '../../core/observation.ts';
import type { Outcome } from '../../core/outcome.ts';
import { type PodUid, type PodView, podName } from '../../core/pod/pod.ts';
import { known, type MonoMs, unknown } from '../../core/reading.ts';
import type { Reason } from '../../core/reason.ts';
import { isObject } from '../../core/shape.ts';
import { initialState, type State } from '../../core/state/state.ts';
import type { Verdict } from '../../core/verdict.ts';
import {
  BLANK_OBSERVATION,
  type EvictionScenario,
  type EvictionStep,
  type GivenStats,
  type Json,
  type ScenarioPod,
} from '../scenario.ts';
import { isCapture, withFreed, withRecordedStops } from './recorded.ts';
import {
  doneOf,
  type Eviction,
  type EvictionResult,
  isEviction,
  NOTHING_DONE,
  NOTHING_OBSERVED,
  observedOf,
  reclaimSignals,
} from './result.ts';
import { createStatsReader, mergePatch, NO_SIGNALS, type StatsReader } from './stats.ts';

/** One look, with everything on which its decision is based. */
export type EvictionLook = {
  /** Counted from 1. */
  readonly step: number;
  readonly atMs: MonoMs;
  readonly result: EvictionResult;
  /** From both readings, if a node-level reclaim caused a second one. */
  readonly reasons: readonly Reason[];
  readonly decisions: readonly Decision[];
  /** The first reading; null: the stats could not be read, so nothing was decided. */
  readonly observation: Observation | null;
  /** Before the look. */
  readonly state: State;
  /** As given, with the node-level reclaim of the layout. */
  readonly config: CoreConfig;
};

/** What one look leaves to the next. */
type World = {
  readonly state: State;
  readonly summary: Json;
  readonly active: readonly ScenarioPod[];
  /** The pods whose recorded usage counts as freed. */
  readonly killed: readonly ScenarioPod[];
  /** The last view of each of them with a known disk usage: files outlive the pod. */
  readonly filesOf: ReadonlyMap<PodUid, PodView>;
  /** The outcomes of the previous look, seen by the next one that has stats. */
  readonly outcomes: readonly Outcome[];
  readonly observed: typeof NOTHING_OBSERVED;
};
type Run = {
  readonly scenario: EvictionScenario;
  readonly config: CoreConfig;
  readonly stats: StatsReader;
  readonly isHard: ReadonlyMap<ThresholdId, boolean>;
  readonly isReacting: boolean;
};

/**
 * scenarios.md 2 and 3: one look per step, in virtual time, by the same decide that runs live. `isReacting`: what a
 * victim uses in later steps counts as freed, and it stays away.
 */
export function* runEviction(
  scenario: EvictionScenario,
  given: CoreConfig = scenario.config,
  isReacting: boolean = isCapture(scenario),
): Generator<EvictionLook, void, undefined> {
  const { layout } = scenario;
  const config: CoreConfig = { ...given, reclaimSignals: reclaimSignals(layout) };
  const { all } = withContainerfs(config.thresholds, layout);
  const isHard = new Map(all.map(({ id, graceMs }) => [id, graceMs === 0]));
  const run: Run = { scenario, config, stats: createStatsReader(scenario.startWallMs), isHard, isReacting };
  let world: World = {
    state: initialState('simulate'),
    summary: {},
    active: scenario.pods,
    killed: [],
    filesOf: new Map(),
    outcomes: [],
    observed: NOTHING_OBSERVED,
  };
  for (const [i, step] of scenario.steps.entries()) {
    const state = withRecordedStops(world.state, step);
    const before = { ...world, state, summary: summaryNow(world.summary, step), active: activeNow(world, step) };
    const looked = step.stats.kind === 'failed' ? failedLook(before, step.atMs) : look(run, step, before);
    yield { step: i + 1, atMs: step.atMs, ...looked.seen, state, config };
    world = looked.world;
  }
}

type Looked = { readonly world: World; readonly seen: Omit<EvictionLook, 'step' | 'atMs' | 'state' | 'config'> };

/**
 * scenarios.md 2.4, statsFail: nothing changes, but it counts as a look: the kubelet derives the containerfs thresholds
 * before it reads any stats (kubelet-eviction.md 4.1, 4.3), so they act from the next look on.
 */
function failedLook(before: World, atMs: MonoMs): Looked {
  const result = { ...before.observed, ...NOTHING_DONE };
  const { state } = before;
  const world = state.lastLookMs === null ? { ...before, state: { ...state, lastLookMs: atMs } } : before;
  return { world, seen: { result, reasons: [], decisions: [], observation: null } };
}

function look(run: Run, step: EvictionStep, before: World): Looked {
  const { scenario, config, stats } = run;
  const { layout } = scenario;
  const pods = stats.viewsOf(before.summary, before.active);
  const times = step.stats.kind === 'same' ? 'fresh' : 'named';
  const killed = before.killed.length === 0 ? [] : stats.viewsOf(before.summary, killedIn(before));
  const filesOf = new Map([...before.filesOf, ...killed.filter(hasFiles).map((view) => [view.uid, view] as const)]);
  const signals = withFreed(stats.signalsOf(before.summary, step.atMs, times), killed, filesOf, layout);
  const observation: Observation = {
    ...BLANK_OBSERVATION,
    atMs: step.atMs,
    wallMs: (scenario.startWallMs ?? 0) + step.atMs,
    fsLayout: known(layout),
    signals,
    pods: known(pods),
    outcomes: before.outcomes,
    ...(step.memoryGrowth === null ? {} : { memoryGrowth: known(step.memoryGrowth) }),
  };
  const first = decide(before.state, observation, config);
  const second = secondLook(run, step, before.summary, observation, first);
  const decisions = [...first.decisions, ...(second?.decisions ?? [])];
  const reasons = [...first.reasons, ...(second?.reasons ?? [])];
  const fails = (name: string): boolean => step.killFails === 'all' || step.killFails.includes(name);
  const observed = observedOf(first.reasons, first.state, run.isHard);
  const evictions = decisions.filter(isEviction);
  const outcomes = evictions.map((eviction) => outcomeOf(eviction, step.atMs, fails));
  const gone = new Set(evictions.flatMap(({ victim }) => (fails(podName(victim)) ? [] : [victim.uid])));
  const isGone = ({ declared }: ScenarioPod): boolean => gone.has(declared.uid);
  const active = gone.size === 0 ? before.active : before.active.filter((pod) => !isGone(pod));
  for (const view of pods) if (gone.has(view.uid) && hasFiles(view)) filesOf.set(view.uid, view);
  const nowKilled = run.isReacting && gone.size > 0 ? before.active.filter(isGone) : [];
  return {
    world: {
      ...before,
      state: (second ?? first).state,
      active,
      killed: [...before.killed, ...nowKilled],
      filesOf,
      outcomes,
      observed,
    },
    seen: {
      result: { ...observed, ...doneOf({ decisions, reasons, pods, layout, fails }) },
      reasons,
      decisions,
      observation,
    },
  };
}

/**
 * scenarios.md 3, step 8: the reading after a node-level reclaim; pods are ranked by the first one. null = no reclaim.
 */
function secondLook(
  run: Run,
  step: EvictionStep,
  summary: Json,
  observation: Observation,
  first: Verdict,
): Verdict | null {
  const reclaim = first.decisions.find(({ kind }) => kind === 'reclaim');
  if (reclaim === undefined) return null;
  const { afterReclaim } = step;
  const freed = unknown('not-applicable', 'reclaim', 'a scenario says what the next reading is, not what was freed');
  const times = step.stats.kind === 'same' ? 'fresh' : 'named';
  const signals =
    afterReclaim?.kind === 'fails'
      ? NO_SIGNALS
      : run.stats.signalsOf(merged(summary, afterReclaim?.patch ?? {}), step.atMs, times);
  const outcomes: readonly Outcome[] = [{ of: reclaim.id, atMs: step.atMs, kind: 'reclaimed', freed }];
  return decide(first.state, { ...observation, signals, outcomes }, run.config);
}

const hasFiles = ({ usage: { containers, disk } }: PodView): boolean => containers.known && disk.known;

/** An entry without a uid is about the pod that has the name now. */
function killedIn({ active, killed }: World): readonly ScenarioPod[] {
  const names = new Set(active.map(({ ref }) => ref));
  return killed.map((pod) => (names.has(pod.ref) ? { ...pod, ref: '' } : pod));
}

/** A recorded list of pods includes those that are killed here. */
function activeNow({ active, killed }: World, { pods }: EvictionStep): readonly ScenarioPod[] {
  if (pods === null || killed.length === 0) return pods ?? active;
  const gone = new Set(killed.map(({ declared }) => declared.uid));
  return pods.filter(({ declared }) => !gone.has(declared.uid));
}

function summaryNow(before: Json, { stats }: EvictionStep): Json {
  const given: GivenStats = stats.kind === 'failed' ? stats.kept : stats;
  switch (given.kind) {
    case 'same':
      return before;
    case 'whole':
      return given.summary;
    case 'patch':
      return merged(before, given.patch);
  }
}

function merged(summary: Json, patch: Json): Json {
  const result = mergePatch(summary, patch);
  return isObject(result) ? result : {};
}

/** A kill takes no virtual time; the next look with stats gets its outcome. */
function outcomeOf({ id: of, victim }: Eviction, atMs: MonoMs, fails: (name: string) => boolean): Outcome {
  return fails(podName(victim))
    ? { of, atMs, kind: 'survived', left: [], detail: 'the scenario says that the kill fails' }
    : { of, atMs, kind: 'ended', via: 'sigkill', releasedBytes: known(0) };
}
