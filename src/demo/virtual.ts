import { resolve } from '../core/eviction/thresholds-met.ts';
import type { Observation } from '../core/observation.ts';
import type { PodUid, PodView } from '../core/pod/pod.ts';
import { known, type Reading, valueOrNull } from '../core/reading.ts';
import { bytesUp } from '../core/units/quantity.ts';
import { sleep } from '../host/clock.ts';
import type { Clock } from '../ports.ts';
import { runEviction } from '../simulate/eviction/run.ts';
import type { EvictionScenario } from '../simulate/scenario.ts';
import { readScenario } from '../simulate/simulate.ts';
import { readScenarioFiles } from '../simulate/source.ts';
import { type Ending, endingOf } from './ending.ts';
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
/** Assumptions: what a Node.js program without data uses, and when the visitors come. */
const PROGRAM_BYTES = 13 * MIB;
const PROCESS_THREADS = 8;
const VISITORS_FROM_MS = 1_000;
/** More than the node has. */
const MOST_LEAKED_BYTES = 300 * MIB;
/** A machine unrelated to this one. */
const FS = {
  availableBytes: 20 * 1024 * MIB,
  capacityBytes: 40 * 1024 * MIB,
  inodesFree: 2_000_000,
  inodes: 2_500_000,
};
const UNTIL_MS = 30_000;
/** One look per request. */
const STEP_MS = 1_000 / REQUESTS_PER_SECOND;
/** Shows the recovered node, before the summary. */
const LOOK_BACK_MS = 500;
/** How long a step takes on a terminal, so that the story can be read. */
const STEP_REAL_MS = 8;

/**
 * The demo's story in virtual time, run like a scenario of `simulate`. The output is always the same, on any machine.
 */
export async function tellVirtually(
  { terminal, clock }: { readonly terminal: Terminal; readonly clock: Clock },
  stop: AbortSignal,
): Promise<Ending> {
  const screen = createScreen(terminal, 0, NODE_MEMORY_BYTES);
  const story = createStory({ startMs: 0, say: screen.say });
  const demo = await readDemo();
  let alive: Alive = new Map();
  let overMs: number | null = null;
  for (const { atMs, observation, decisions, result } of runEviction(demo, demo.config, true)) {
    if (stop.aborted || (overMs !== null && atMs - overMs >= LOOK_BACK_MS) || observation === null) break;
    // A kill takes no virtual time: it freed what the victim used at the previous look.
    const freed = usedBy(alive, LEAKER);
    for (const outcome of observation.outcomes) {
      if (outcome.kind === 'ended') story.ended({ ...outcome, releasedBytes: freed });
    }
    alive = new Map(valueOrNull(observation.pods)?.map((pod) => [pod.uid, pod]));
    for (const decision of decisions) {
      story.decided(decision);
      if (decision.kind === 'evict') story.stopBegan(decision.id, atMs);
    }
    story.look(atMs, observation.signals['memory.available']);
    const { conditions } = result;
    screen.show({
      atMs,
      gauges: gaugesOf(demo, observation),
      conditions,
      pods: DEMO_PODS.map((pod) => podLineOf(pod, alive)),
    });
    if (story.isOver()) overMs ??= atMs;
    await sleep(clock, terminal.size() === null ? 0 : STEP_REAL_MS);
  }
  screen.leave();
  const measured = story.measured();
  return endingOf(measured, {
    kind: 'simulated',
    innocents: DEMO_PODS.filter(({ name }) => name !== LEAKER).map(({ name }) => ({
      name: `${DEMO_NAMESPACE}/${name}`,
      pid: null,
      isAlive: alive.has(uidOf(name)),
    })),
    kernelOomKills: known(0),
    requestsServed: leakedBytes(measured.stopBeganMs ?? 0) / LEAK_PER_REQUEST_BYTES,
    death: null,
    leakerPid: null,
  });
}

type Alive = ReadonlyMap<PodUid, PodView>;

function usedBy(alive: Alive, name: DemoPod['name']): Reading<number> {
  return alive.get(uidOf(name))?.usage.workingSetBytes ?? known(0);
}

function podLineOf(pod: DemoPod, alive: Alive): PodLine {
  const note = alive.has(uidOf(pod.name)) ? '' : 'evicted';
  return { name: `${DEMO_NAMESPACE}/${pod.name}`, facts: podFacts(pod), usedBytes: usedBy(alive, pod.name), note };
}

function gaugesOf({ config }: EvictionScenario, { signals }: Observation): readonly Gauge[] {
  return config.thresholds.map(({ signal, value }) => {
    const sample = signals[signal];
    return { signal, sample, limits: sample.known ? [bytesUp(resolve(value, sample.value.capacity))] : [] };
  });
}

function leakedBytes(atMs: number): number {
  const bytes = Math.floor(Math.max(0, atMs - VISITORS_FROM_MS) / STEP_MS) * LEAK_PER_REQUEST_BYTES;
  return Math.min(bytes, MOST_LEAKED_BYTES);
}

/** What `/stats/summary` would report for the node without an eviction. */
function summaryAt(atMs: number): object {
  const pods = DEMO_PODS.map(({ name, holdsMiB }) => ({
    podRef: { name, namespace: DEMO_NAMESPACE },
    memory: { workingSetBytes: PROGRAM_BYTES + holdsMiB * MIB + (name === LEAKER ? leakedBytes(atMs) : 0) },
    process_stats: { process_count: PROCESS_THREADS },
  }));
  const workingSetBytes = pods.reduce((sum, { memory }) => sum + memory.workingSetBytes, 0);
  const memory = { availableBytes: NODE_MEMORY_BYTES - workingSetBytes, workingSetBytes };
  return { node: { memory, fs: FS, rlimit: { maxpid: NODE_MAX_PIDS, curproc: pods.length * PROCESS_THREADS } }, pods };
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
    steps: Array.from({ length: UNTIL_MS / STEP_MS }, (_, i) => ({ at: i * STEP_MS, summary: summaryAt(i * STEP_MS) })),
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
