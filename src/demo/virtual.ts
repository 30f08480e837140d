import { trueConditions } from '../core/eviction/condition.ts';
import { resolve, type Threshold } from '../core/eviction/threshold.ts';
import type { Observation } from '../core/observation.ts';
import { known } from '../core/reading.ts';
import { bytesUp } from '../core/units/quantity.ts';
import { sleep } from '../host/clock.ts';
import type { Clock } from '../ports.ts';
import type { EvictionScenario } from '../simulate/scenario.ts';
import { readScenario } from '../simulate/simulate.ts';
import { readScenarioFiles } from '../simulate/source.ts';
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
  manifestOf,
  NODE_MAX_PIDS,
  NODE_MEMORY_BYTES,
  podFacts,
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
const CPUS = 2;
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
  const demo = await readDemo();
  const { thresholds } = demo.config;
  let steppedMs = 0;
  let overMs: number | null = null;
  let alive: readonly VirtualPod[] = [];
  const run: VirtualRun = {
    clock,
    node: NODE,
    pods: demo.pods.map(virtualPodOf),
    teardownMs: TEARDOWN_MS,
    lookCpuMs: LOOK_CPU_MS,
    config: { ...demo.config, pace: { ...demo.config.pace, cpus: CPUS }, isLive: true },
    untilMs: UNTIL_MS,
    decided: (decision) => {
      story.decided(decision);
      if (decision.kind === 'evict') story.stopBegan(decision.id, clock.monoMs());
    },
    ended: story.ended,
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

function virtualPodOf({ declared }: EvictionScenario['pods'][number]): VirtualPod {
  const heldMiB = DEMO_PODS.find(({ name }) => name === declared.name)?.holdsMiB ?? 0;
  return {
    declared,
    processes: PROCESS_THREADS,
    workingSetBytes: (atMs) => PROGRAM_BYTES + heldMiB * MIB + (declared.name === LEAKER ? leakedBytes(atMs) : 0),
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

/** The demo's own thresholds and pods, as the simulator reads them. */
async function readDemo(): Promise<EvictionScenario> {
  const evictionHard = Object.fromEntries(EVICTION_HARD.map(({ signal, limit }) => [signal, limit]));
  const text = JSON.stringify({
    apiVersion: 'nodewarden.dev/v1alpha1',
    kind: 'EvictionScenario',
    metadata: { name: 'demo' },
    config: {
      evictionHard,
      evictionPressureTransitionPeriod: `${TRANSITION_SECONDS}s`,
      enforceNodeAllocatable: [],
      localStorageCapacityIsolation: false,
    },
    pods: DEMO_PODS.map(manifestOf),
    steps: [{ at: 0 }],
  });
  async function* pieces() {
    yield known(text);
  }
  for await (const item of readScenarioFiles(['-'], pieces)) {
    const scenario = item.kind === 'document' ? readScenario(item, null)?.scenario : null;
    if (scenario?.kind === 'EvictionScenario') return scenario;
  }
  throw new Error("the demo's own pods cannot be read");
}
