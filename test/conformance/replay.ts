// Replays recorded looks of the kubelet through decide(): a node, its pods and its statistics, look by look.
import { readEviction, withTwins } from '../../src/config/eviction.ts';
import { createFields } from '../../src/config/field.ts';
import { trueConditions } from '../../src/core/condition.ts';
import type { CoreConfig } from '../../src/core/core-config.ts';
import { decide } from '../../src/core/decide.ts';
import { parseDuration } from '../../src/core/duration.ts';
import { evictedStatus } from '../../src/core/message.ts';
import type { Observation } from '../../src/core/observation.ts';
import type { Outcome } from '../../src/core/outcome.ts';
import type { PodView } from '../../src/core/pod.ts';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import { type FsLayout, SIGNAL_FACTS, SIGNALS, type Signal, type SignalSample } from '../../src/core/signal.ts';
import { initialState, type State } from '../../src/core/state.ts';
import type { Verdict } from '../../src/core/verdict.ts';
import { parseDocuments } from '../../src/document/document.ts';
import { anObservation } from '../a.ts';
import { bytesOf, type Json, type List, numberOf, podViewOf, uidOf } from './pod-json.ts';

const ALL_RECLAIM: readonly Signal[] = SIGNALS.filter(
  (signal) => !signal.startsWith('memory') && !/^(alloc|pid)/.test(signal),
);
const CALLS: { readonly [L in FsLayout]: (signal: Signal) => readonly string[] } = {
  'nodefs-only': () => ['containers', 'images'],
  'imagefs-separate': (signal) => (signal.startsWith('nodefs') ? [] : ['containers', 'images']),
  'containerfs-separate': (signal) => (signal.startsWith('imagefs') ? ['images'] : ['containers']),
};

/** The results of all looks, each in the shape of an `expect`. */
export function replay(scenario: Json): readonly Json[] {
  const layout: FsLayout = !scenario.node?.dedicatedImageFs
    ? 'nodefs-only'
    : scenario.node.splitImageFs
      ? 'containerfs-separate'
      : 'imagefs-separate';
  const config = configOf(scenario.config ?? {}, layout);
  let state: State = initialState('boot');
  let summary: Json = {};
  let active: List = listOf(scenario.pods);
  let outcomes: readonly Outcome[] = [];
  let last: Json = { thresholdsObserved: [], thresholdsMet: [], conditions: [] };
  return scenario.steps.map((step: Json) => {
    const atMs = msOf(step.at);
    if (step.pods !== undefined) active = listOf(step.pods);
    if (step.summary !== undefined) summary = step.summary;
    else if (step.summaryPatch !== undefined) summary = merge(summary, step.summaryPatch);
    if (step.statsFail === true) return { ...last, ...NOTHING };
    const pods = active
      .filter(({ status }) => status?.phase !== 'Succeeded' && status?.phase !== 'Failed')
      .map((pod) => podViewOf(pod, summary));
    const see = (stats: Json, arrived: readonly Outcome[]): Observation =>
      anObservation(atMs, signalsOf(stats, atMs), { fsLayout: known(layout), pods: known(pods), outcomes: arrived });
    const first = decide(state, see(summary, outcomes), config);
    state = first.state;
    const reclaim = first.decisions.find(({ kind }) => kind === 'reclaim');
    let acted: Verdict = first;
    if (reclaim?.kind === 'reclaim') {
      const after = step.afterReclaimFails === true ? {} : merge(summary, step.afterReclaim ?? {});
      acted = decide(
        state,
        see(after, [{ of: reclaim.id, atMs, kind: 'reclaimed', freed: unknown('absent', 'x', 'x') }]),
        config,
      );
      state = acted.state;
    }
    const fails = (name: string): boolean => step.killFails === true || (step.killFails ?? []).includes(name);
    const evicted = evictedOf(acted, fails);
    outcomes = acted.decisions.flatMap((decision): readonly Outcome[] => {
      if (decision.kind !== 'evict' && decision.kind !== 'evict-over-limit') return [];
      const name = `${decision.victim.namespace}/${decision.victim.name}`;
      return fails(name)
        ? [{ of: decision.id, atMs, kind: 'survived', left: [], detail: 'test' }]
        : [{ of: decision.id, atMs, kind: 'ended', via: 'sigkill', releasedBytes: known(0) }];
    });
    const gone = acted.decisions.flatMap((d) =>
      d.kind === 'evict' || d.kind === 'evict-over-limit' ? [d.victim] : [],
    );
    active = active.filter(
      (pod) => !gone.some(({ uid, namespace, name }) => uid === uidOf(pod) && !fails(`${namespace}/${name}`)),
    );
    last = observedOf(first, config);
    return { ...last, ...actedOf(first, acted, layout, pods), evicted };
  });
}
const NOTHING = { reclaiming: null, nodeReclaim: [], ranking: [], evicted: [] };

function configOf(given: Json, layout: FsLayout): CoreConfig {
  const text = JSON.stringify({ apiVersion: 'kubelet.config.k8s.io/v1beta1', kind: 'KubeletConfiguration', ...given });
  const [document] = parseDocuments(text, 'scenario', 'kubelet').documents;
  if (document === undefined) throw new Error('no document');
  const { thresholds, problems } = readEviction(createFields({ document, kind: 'file' }, null));
  if (problems.length > 0) throw new Error(JSON.stringify(problems));
  const transition = given.evictionPressureTransitionPeriod;
  return {
    thresholds: withTwins(thresholds, given.enforceNodeAllocatable ?? ['pods']),
    pressureTransitionMs: transition === undefined || msOf(transition) === 0 ? 300_000 : msOf(transition),
    maxPodGraceSeconds: given.evictionMaxPodGracePeriod ?? 0,
    pace: { minMs: 2, maxMs: 10_000, cpuShare: 0.01, cpus: 2 },
    guard: null,
    localStorageLimits: given.localStorageCapacityIsolation === false ? 'off' : 'enforce',
    reclaimSignals: ALL_RECLAIM.filter((signal) => CALLS[layout](signal).length > 0),
    phases: [],
    shutdownCancel: 'afterPhases',
    shutdownCarryOver: false,
  };
}

function signalsOf(summary: Json, atMs: number): { readonly [S in Signal]?: Reading<SignalSample> } {
  const node = summary.node ?? {};
  const absent = unknown('absent', 'summary', 'not there');
  const read = (part: Json | undefined, available: number | null, capacity: number | null): Reading<SignalSample> => {
    if (part === undefined || available === null || capacity === null) return absent;
    return known({
      available,
      capacity,
      sampledAtMs: part.time === undefined || part.time === 'none' ? atMs : msOf(part.time),
      ...(part.time === 'none' ? { isUntimed: true } : {}),
    });
  };
  const memory = (part: Json | undefined): Reading<SignalSample> => {
    const available = bytesOf(part?.availableBytes);
    const used = bytesOf(part?.workingSetBytes);
    return read(part, available, available === null || used === null ? null : available + used);
  };
  const bytes = (part: Json | undefined) => read(part, bytesOf(part?.availableBytes), bytesOf(part?.capacityBytes));
  const inodes = (part: Json | undefined) => read(part, numberOf(part?.inodesFree), numberOf(part?.inodes));
  const pids = numberOf(node.rlimit?.maxpid);
  const running = numberOf(node.rlimit?.curproc);
  return {
    'memory.available': memory(node.memory),
    'allocatableMemory.available': memory((node.systemContainers ?? []).find((c: Json) => c.name === 'pods')?.memory),
    'nodefs.available': bytes(node.fs),
    'nodefs.inodesFree': inodes(node.fs),
    'imagefs.available': bytes(node.runtime?.imageFs),
    'imagefs.inodesFree': inodes(node.runtime?.imageFs),
    'containerfs.available': bytes(node.runtime?.containerFs),
    'containerfs.inodesFree': inodes(node.runtime?.containerFs),
    'pid.available': read(node.rlimit, pids === null || running === null ? null : pids - running, pids),
  };
}

function observedOf({ reasons, state }: Verdict, config: CoreConfig): Json {
  const nameOf = (id: string): string => {
    const signal = id.split('/')[0] ?? '';
    const source = config.thresholds.find((threshold) => threshold.id === id);
    const isHard = source === undefined ? id.endsWith('evictionHard') : source.graceMs === 0;
    return `${signal}/${isHard ? 'hard' : 'soft'}`;
  };
  const met = new Set<string>();
  const observed = new Set<string>();
  for (const reason of reasons) {
    const id =
      reason.code === 'below-threshold' ? reason.threshold.id : 'threshold' in reason ? reason.threshold : null;
    if (typeof id !== 'string') continue;
    observed.add(nameOf(id));
    if (reason.code !== 'grace-running') met.add(nameOf(id));
  }
  return {
    thresholdsObserved: [...observed].toSorted(),
    thresholdsMet: [...met].toSorted(),
    conditions: trueConditions(state.conditionLastMetMs).toSorted(),
  };
}

function actedOf(first: Verdict, acted: Verdict, layout: FsLayout, pods: readonly PodView[]): Json {
  const reclaim = first.decisions.find(({ kind }) => kind === 'reclaim');
  const evict = acted.decisions.find(({ kind }) => kind === 'evict');
  const nobody = acted.reasons.find(({ code }) => code === 'no-candidate');
  const signal = nobody?.code === 'no-candidate' ? nobody.signal : null;
  const threshold =
    reclaim?.kind === 'reclaim'
      ? reclaim.threshold
      : evict?.kind === 'evict'
        ? evict.threshold
        : first.reasons.flatMap((reason) =>
            reason.code === 'below-threshold' && reason.threshold.signal === signal ? [reason.threshold] : [],
          )[0];
  const nameOf = (uid: string): string => {
    const pod = pods.find((candidate) => candidate.uid === uid);
    return `${pod?.namespace}/${pod?.name}`;
  };
  const rows = evict?.kind === 'evict' ? evict.ranking.map(({ uid }) => nameOf(uid)) : null;
  const passed = acted.reasons.flatMap((reason) => (reason.code === 'passed-over' ? [nameOf(reason.uid)] : []));
  const ranking = rows ?? (signal === null ? [] : passed);
  if (threshold === undefined && signal === null) return { ...NOTHING, ranking };
  const on = threshold?.signal ?? signal ?? 'memory.available';
  return {
    // A threshold held by min reclaim alone is named by no reason that carries it: leave softness unchecked then.
    reclaiming: {
      signal: on,
      ...(threshold === undefined ? {} : { soft: !threshold.isHard }),
      resource: SIGNAL_FACTS[on].resource,
    },
    nodeReclaim: reclaim === undefined ? [] : CALLS[layout](on),
    ranking,
  };
}

function evictedOf(verdict: Verdict, fails: (name: string) => boolean): List {
  return verdict.decisions.flatMap((decision): List => {
    if (decision.kind !== 'evict' && decision.kind !== 'evict-over-limit') return [];
    const pod = `${decision.victim.namespace}/${decision.victim.name}`;
    const isPressure = decision.kind === 'evict';
    const status = evictedStatus(decision.message, isPressure ? 'node-pressure' : 'over-limit');
    return [
      {
        pod,
        signal: isPressure ? decision.threshold.signal : `${decision.limit}.limit`,
        gracePeriodSeconds: decision.graceSeconds,
        reason: status.reason,
        disruptionTarget: status.conditions.length > 0,
        killFailed: fails(pod),
        message: decision.message,
        annotations: isPressure ? decision.annotations : {},
      },
    ];
  });
}

const listOf = (pods: Json | undefined): List => (Array.isArray(pods) ? pods : (pods?.items ?? []));

export function msOf(value: Json): number {
  if (typeof value === 'number') return value;
  const parsed = parseDuration(value);
  if (!parsed.ok) throw new Error(`no duration: ${value}`);
  return parsed.duration.ms;
}

/** RFC 7386. */
function merge(target: Json, patch: Json): Json {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch;
  const result: Json = typeof target === 'object' && target !== null && !Array.isArray(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = merge(result[key], value);
  }
  return result;
}
