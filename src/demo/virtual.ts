import { trueConditions } from '../core/condition.ts';
import type { CoreConfig } from '../core/core-config.ts';
import type { Observation } from '../core/observation.ts';
import type { PodView } from '../core/pod.ts';
import { bytesUp, parseQuantity, quantityOfBytes } from '../core/quantity.ts';
import { known } from '../core/reading.ts';
import { resolve, type Threshold, type ThresholdValue } from '../core/threshold.ts';
import { sleep } from '../host/clock.ts';
import type { Clock } from '../ports.ts';
import {
  createVirtualClock,
  runVirtually,
  type VirtualNode,
  type VirtualPod,
  type VirtualRun,
} from '../simulate/virtual-node.ts';
import { type Ending, endingOf, type Witness } from './ending.ts';
import {
  DEMO_NAMESPACE,
  DEMO_PODS,
  type DemoPod,
  EVICTION_HARD,
  LEAK_PER_REQUEST_BYTES,
  LEAKER,
  NODE_MAX_PIDS,
  NODE_MEMORY_BYTES,
  podFacts,
  qosOfDemoPod,
  REQUESTS_PER_SECOND,
  TRANSITION_SECONDS,
  uidOf,
} from './load.ts';
import { createScreen, type Gauge, type PodLine, type Terminal } from './screen.ts';
import { createStory } from './story.ts';

const MIB = 1024 * 1024;
/** Assumed: what a Node.js program without data uses, and when the visitors come. */
const PROGRAM_BYTES = 13 * MIB;
const VISITORS_FROM_MS = 1_000;
/** Assumed: what the kernel needs to tear down a process of some 250 MiB. */
const TEARDOWN_MS = 20;
/** 3 % of a core at 2 ms looks (product.md section 6, D2). */
const LOOK_CPU_MS = 0.06;
const PROCESS_THREADS = 8;
const UNTIL_MS = 60_000;
/** The node that recovered, before the summary. */
const LOOK_BACK_MS = 500;
/** On a terminal 100 ms of the story take this long, so that it can be read. */
const STEP_MS = 100;
const STEP_REAL_MS = 20;

/** A machine that has nothing to do with this one. */
const NODE: VirtualNode = {
  memoryBytes: NODE_MEMORY_BYTES,
  maxPids: NODE_MAX_PIDS,
  disk: { bytesAvailable: 20 * 1024 * MIB, bytesCapacity: 40 * 1024 * MIB },
  inodes: { free: 2_000_000, total: 2_500_000 },
};

/** The demo's story in virtual time, through the agent's own loop and core. Same output at any time on any machine. */
export async function tellVirtually(
  { terminal, clock: hostClock }: { readonly terminal: Terminal; readonly clock: Clock },
  stop: AbortSignal,
): Promise<Ending> {
  const clock = createVirtualClock(0);
  const screen = createScreen(terminal, clock, NODE_MEMORY_BYTES);
  const story = createStory({ startMs: screen.startMs, say: screen.say });
  const over = new AbortController();
  const abort = (): void => over.abort();
  const thresholds = EVICTION_HARD.map(thresholdOf);
  let steppedMs = 0;
  let overMs: number | null = null;
  let alive: readonly VirtualPod[] = [];
  const run: VirtualRun = {
    clock,
    node: NODE,
    pods: DEMO_PODS.map(virtualPodOf),
    teardownMs: TEARDOWN_MS,
    lookCpuMs: LOOK_CPU_MS,
    config: coreConfig(thresholds),
    untilMs: UNTIL_MS,
    decided: (decision) => {
      story.fact({ kind: 'decision', decision });
      if (decision.kind === 'evict') story.fact({ kind: 'stop-began', of: decision.id, atMs: clock.monoMs() });
    },
    ended: (outcome) => story.fact({ kind: 'outcome', outcome }),
    looked: (observation, { state }, pods) => {
      alive = pods;
      const { atMs, signals } = observation;
      story.look(atMs, signals['memory.available']);
      const gauges = thresholds.map((threshold) => gaugeOf(threshold, observation));
      const lines = DEMO_PODS.map((pod) => podLineOf(pod, alive, atMs));
      screen.show({ atMs, gauges, conditions: trueConditions(state.conditionLastMetMs), pods: lines });
      if (story.isOver()) overMs ??= atMs;
    },
    turn: async (nowMs) => {
      if (overMs !== null && nowMs - overMs >= LOOK_BACK_MS) over.abort();
      const isDue = terminal.size() !== null && nowMs - steppedMs >= STEP_MS;
      if (isDue) steppedMs = nowMs;
      await sleep(hostClock, isDue ? STEP_REAL_MS : 0);
    },
  };
  if (stop.aborted) abort();
  stop.addEventListener('abort', abort, { once: true });
  await runVirtually(run, over.signal);
  stop.removeEventListener('abort', abort);
  screen.leave();
  return endingOf(story.measured(), witnessOf(alive, story.measured().stopBeganMs ?? clock.monoMs()));
}

/** In virtual time the world itself is the witness. */
function witnessOf(alive: readonly VirtualPod[], servedUntilMs: number): Witness {
  const isAlive = (pod: DemoPod): boolean => alive.some(({ declared }) => declared.uid === uidOf(pod.name));
  const innocents = DEMO_PODS.filter(({ name }) => name !== LEAKER);
  return {
    kind: 'simulated',
    innocents: innocents.map((pod) => ({ name: `${DEMO_NAMESPACE}/${pod.name}`, pid: null, isAlive: isAlive(pod) })),
    kernelOomKills: known(0),
    requestsServed: Math.floor(leakedBytes(servedUntilMs) / LEAK_PER_REQUEST_BYTES),
    death: null,
    leakerPid: null,
  };
}

function virtualPodOf(pod: DemoPod): VirtualPod {
  const heldBytes = PROGRAM_BYTES + pod.holdsMiB * MIB;
  return {
    declared: declaredOf(pod),
    processes: PROCESS_THREADS,
    workingSetBytes: (atMs) => heldBytes + (pod.name === LEAKER ? leakedBytes(atMs) : 0),
  };
}

function leakedBytes(atMs: number): number {
  const servedFor = Math.max(0, atMs - VISITORS_FROM_MS) / 1_000;
  return Math.floor(servedFor * REQUESTS_PER_SECOND) * LEAK_PER_REQUEST_BYTES;
}

function gaugeOf(threshold: Threshold, observation: Observation): Gauge {
  const { signal, value } = threshold;
  const sample = observation.signals[signal];
  return { signal, sample, limits: sample.known ? [bytesUp(resolve(value, sample.value.capacity))] : [] };
}

function podLineOf(pod: DemoPod, alive: readonly VirtualPod[], atMs: number): PodLine {
  const found = alive.find(({ declared }) => declared.uid === uidOf(pod.name));
  const note = found === undefined ? 'evicted' : '';
  return {
    name: `${DEMO_NAMESPACE}/${pod.name}`,
    facts: podFacts(pod),
    usedBytes: known(found?.workingSetBytes(atMs) ?? 0),
    note,
  };
}

function thresholdOf({ signal, limit }: (typeof EVICTION_HARD)[number]): Threshold {
  const percent = limit.endsWith('%') ? Number(limit.slice(0, -1)) : null;
  const value: ThresholdValue =
    percent === null
      ? { kind: 'quantity', amount: quantityOf(limit) }
      : { kind: 'fraction', fraction: Math.fround(Math.fround(percent) / 100) };
  return { id: `${signal}/evictionHard`, signal, value, graceMs: 0, minReclaim: null };
}

function coreConfig(thresholds: readonly Threshold[]): CoreConfig {
  return {
    thresholds,
    pressureTransitionMs: TRANSITION_SECONDS * 1_000,
    maxPodGraceSeconds: 0,
    pace: { minMs: 2, maxMs: 10_000, cpuShare: 0.01, cpus: 2 },
    guard: null,
    localStorageLimits: 'off',
    isLive: true,
    reclaimSignals: [],
    phases: [],
    shutdownCancel: 'promptly',
    shutdownCarryOver: false,
  };
}

function declaredOf(pod: DemoPod): Omit<PodView, 'usage'> {
  const memoryBytes = (pod.memoryRequestMiB ?? 0) * MIB;
  const memory = pod.memoryRequestMiB === null ? null : quantityOfBytes(memoryBytes, 'binary');
  const limit = pod.isGuaranteed ? memory : null;
  return {
    uid: uidOf(pod.name),
    namespace: DEMO_NAMESPACE,
    name: pod.name,
    qos: qosOfDemoPod(pod),
    priority: pod.priority,
    requests: { memoryBytes, ephemeralStorageBytes: 0 },
    podLevelMemoryRequest: null,
    ephemeralStorageLimit: null,
    containers: [
      {
        name: pod.name,
        kind: 'app',
        requests: { memory, ephemeralStorage: null },
        limits: { memory: limit, ephemeralStorage: null },
      },
    ],
    volumes: [],
    tolerations: [],
    terminationGraceSeconds: 30,
    startedAtWallMs: null,
    ownerKey: null,
    isDaemonSet: false,
    isStaticCritical: pod.priority >= 2_000_000_000,
    isProtected: false,
    isTerminating: false,
    limitedBy: null,
  };
}

function quantityOf(text: string): ReturnType<typeof quantityOfBytes> {
  const parsed = parseQuantity(text);
  if (!parsed.ok) throw new Error(`the demo's own threshold ${text} is no quantity`);
  return parsed.quantity;
}
