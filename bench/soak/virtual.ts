import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setImmediate as turnOfLoop } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { CoreConfig } from '../../src/core/core-config.ts';
import type { Threshold } from '../../src/core/eviction/threshold.ts';
import type { Observation } from '../../src/core/observation.ts';
import { type Heard, isEnd } from '../../src/core/outcome.ts';
import { SIGNAL_FACTS } from '../../src/core/signal.ts';
import { initialState } from '../../src/core/state/state.ts';
import { quantityOfBytes } from '../../src/core/units/quantity.ts';
import type { Verdict } from '../../src/core/verdict.ts';
import { createInbox, runLoop } from '../../src/daemon/loop.ts';
import { createClock } from '../../src/host/clock.ts';
import type { Clock, Finding, Parts } from '../../src/ports.ts';
import type { RecordEntry } from '../../src/record/entry.ts';
import { createRecorder, type OpenRecorder } from '../../src/record/writing/recorder.ts';
import { createVirtualClock, createWorld } from '../../test/virtual-node.ts';
import { quantile } from '../result.ts';
import { type Checker, createChecker } from './checker.ts';
import {
  createPopulation,
  MEMORY_HARD_BYTES,
  MEMORY_SOFT_BYTES,
  PIDS_HARD,
  PIDS_SOFT,
  type Population,
  VIRTUAL_NODE,
} from './population.ts';
import { createRandom, type Random } from './random.ts';

export type VirtualOrder = {
  readonly hours: number;
  readonly seed: number;
  readonly pods: number;
  /** A record that says something else: a soak that does not find it proves nothing. */
  readonly doctored?: (entry: RecordEntry) => RecordEntry;
};
export type VirtualSoak = {
  readonly seed: number;
  readonly hours: number;
  readonly wallSeconds: number;
  readonly looks: number;
  readonly arrivals: number;
  readonly departures: number;
  readonly reloads: number;
  readonly decisions: { readonly [kind: string]: number };
  readonly outcomes: { readonly [kind: string]: number };
  readonly replayed: number;
  /** Of those: decided with somebody passed over because of what happened before (D3, D6). */
  readonly withHistory: number;
  readonly mostTimers: number;
  readonly mostStateChars: number;
  readonly recordBytes: number;
  /** After collections, the median of each tenth of the time: how many pods there are differs from one to the next. */
  readonly heapMiB: readonly number[];
  /** The most of it after the second tenth, over the second: the first warms up. */
  readonly heapGrowth: number;
  readonly problems: readonly string[];
};

const HOUR_MS = 3_600_000;
const LOOK_CPU_MS = 0.06;
const TEARDOWN_MS = 150;
const GUARD = { kills: 3, windowMs: 600_000 };
const HEAPS = 100;
/** A verification holds the loop for some milliseconds: so many decisions at a time. */
const BATCH = 20;
const MAX_TIMERS = 50;
const MAX_STATE_CHARS = 40_000;
const STATE_EVERY_LOOKS = 500;

/** Hours of random pressure in virtual time, through the agent's own loop, core and recorder. */
export async function soakVirtually(order: VirtualOrder): Promise<VirtualSoak> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'nodewarden-soak-'));
  try {
    return await run(order, directory);
  } finally {
    fs.rmSync(directory, { recursive: true });
  }
}

async function run(order: VirtualOrder, directory: string): Promise<VirtualSoak> {
  const { hours, seed, pods } = order;
  const real = createClock();
  const startMs = real.monoMs();
  const random = createRandom(seed);
  const timed = countingClock();
  const { clock } = timed;
  const population = createPopulation(random, clock.monoMs);
  const checker = createChecker(GUARD, order.doctored);
  const counts = { arrivals: 0, departures: 0, reloads: 0, looks: 0, mostStateChars: 0 };
  for (let i = 0; i < pods; i++) population.arrive();
  const agent = startAgent({ directory, real, clock, population, checker, counts });
  meddle({ clock, random, population, pods, counts });
  const untilMs = hours * HOUR_MS;
  const heaps: number[] = [];
  const turn = async (nowMs: number): Promise<void> => {
    await turnOfLoop();
    await agent.recorded();
    await turnOfLoop();
    if (checker.waiting() >= BATCH) await checker.verify();
    if (nowMs < ((heaps.length + 1) * untilMs) / HEAPS) return;
    await checker.verify();
    heaps.push(heapAfterCollection());
  };
  await clock.run(untilMs, turn, new AbortController().signal);
  if (heaps.length < HEAPS) heaps.push(heapAfterCollection());
  await agent.stop();
  await checker.verify();
  if (timed.most() > MAX_TIMERS) checker.problem(`${timed.most()} timers at once`);
  if (counts.mostStateChars > MAX_STATE_CHARS) checker.problem(`a state of ${counts.mostStateChars} characters`);
  const heapMiB = tenthsOf(heaps);
  const [, warm = Number.NaN, ...later] = heapMiB;
  return {
    seed,
    hours,
    wallSeconds: Math.round((real.monoMs() - startMs) / 100) / 10,
    ...counts,
    ...checker.counts(),
    mostTimers: timed.most(),
    recordBytes: fs.readdirSync(directory).reduce((sum, name) => sum + fs.statSync(path.join(directory, name)).size, 0),
    heapMiB,
    heapGrowth: Math.round((Math.max(...later) / warm - 1) * 1_000) / 1_000,
    problems: checker.problems(),
  };
}

type Counts = { arrivals: number; departures: number; reloads: number; looks: number; mostStateChars: number };
type AgentNeeds = {
  readonly directory: string;
  /** Of the disk, which is a real one. */
  readonly real: Clock;
  readonly clock: Clock;
  readonly population: Population;
  readonly checker: Checker;
  readonly counts: Counts;
};
type Agent = {
  /** Virtual time stands still while the disk takes a decision. */
  readonly recorded: () => Promise<unknown>;
  readonly stop: () => Promise<void>;
};

/** Loop, core and recorder as they run live; node and effects are virtual. */
function startAgent({ directory, real, clock, population, checker, counts }: AgentNeeds): Agent {
  const configNow = (): CoreConfig => config(counts.reloads);
  const findings = new Map<string, Finding>();
  const recorder = openRecorder({ directory, real, config: configNow, findings, onEntry: checker.hear });
  const inbox = createInbox(clock);
  const put = (heard: Heard): void => {
    inbox.put(heard);
    if (!isEnd(heard)) return;
    const uid = checker.victimOf(heard.of);
    if (uid !== null) population.lose(uid);
    recorder.outcome(heard);
  };
  const node = { node: VIRTUAL_NODE, pods: population.pods, teardownMs: TEARDOWN_MS, lookCpuMs: LOOK_CPU_MS };
  const world = createWorld({ ...node, clock, put });
  const end = new AbortController();
  let intent: Promise<unknown> = Promise.resolve();
  const parts: Parts = {
    observer: world.observer,
    recorder: {
      ...recorder,
      intent: (step, deadlineMs) => {
        const written = recorder.intent(step, deadlineMs);
        intent = written;
        return written;
      },
    },
    inbox,
    config: configNow,
    begin: (decision) => {
      checker.decided(decision);
      world.begin(decision);
    },
    publish: (observation, verdict) => {
      counts.looks += 1;
      checkLook(checker, observation, verdict);
      if (counts.looks % STATE_EVERY_LOOKS !== 0) return;
      counts.mostStateChars = Math.max(counts.mostStateChars, JSON.stringify(verdict.state).length);
    },
  };
  const loop = runLoop(initialState('virtual'), parts, end.signal);
  return {
    recorded: () => intent,
    stop: async () => {
      end.abort();
      inbox.wake();
      await loop;
      await recorder.close();
      for (const { text } of findings.values()) checker.problem(`a finding is left: ${text}`);
    },
  };
}

function openRecorder(needs: {
  readonly directory: string;
  readonly real: Clock;
  readonly config: () => CoreConfig;
  readonly findings: Map<string, Finding>;
  readonly onEntry: (entry: RecordEntry) => void;
}): OpenRecorder {
  const { directory, real, findings } = needs;
  return createRecorder({
    ...needs,
    clock: real,
    stateFile: path.join(directory, 'state.json'),
    recordDirectory: directory,
    adopted: initialState('virtual'),
    dry: false,
    bootId: 'virtual',
    findings: {
      raise: (finding) => void findings.set(finding.id, finding),
      clear: (id) => void findings.delete(id),
      all: () => [...findings.values()],
    },
  });
}

/** Pods come, go and grow; the configuration changes. */
function meddle(needs: {
  readonly clock: Clock;
  readonly random: Random;
  readonly population: Population;
  readonly pods: number;
  readonly counts: { arrivals: number; departures: number; reloads: number };
}): void {
  const { clock, random, population, pods, counts } = needs;
  const every = (fromSeconds: number, toSeconds: number, act: () => void): void => {
    const again = (): void => {
      act();
      clock.after(random.whole(fromSeconds * 1_000, toSeconds * 1_000), again);
    };
    clock.after(random.whole(0, toSeconds * 1_000), again);
  };
  every(2, 15, () => {
    // Around so many: the more there are, the more likely one goes.
    if (random.whole(1, 2 * pods) > population.pods.length) {
      counts.arrivals += 1;
      population.arrive();
    } else {
      counts.departures += 1;
      population.leave();
    }
  });
  every(60, 240, population.pressure);
  every(1_200, 2_400, () => {
    counts.reloads += 1;
  });
}

/** What must hold at every look. */
function checkLook(
  checker: Checker,
  { atMs, signals }: Observation,
  { state, decisions, reasons, next }: Verdict,
): void {
  checker.looked(atMs);
  if (state.spent.length > 61) checker.problem(`${state.spent.length} entries of D2's minute`);
  if (state.ownerKills.length > 200) checker.problem(`${state.ownerKills.length} losses of owners`);
  const evictions = state.act.kind === 'evicting' ? state.act.evictions : [];
  const waitedFor = evictions.flatMap(({ cause, settledMs }) =>
    cause.kind === 'threshold' && settledMs === null ? [SIGNAL_FACTS[cause.threshold.signal].resource] : [],
  );
  // Resources do not wait for each other.
  const twice = waitedFor.find((resource, i) => waitedFor.indexOf(resource) !== i);
  if (twice !== undefined) checker.problem(`2 evictions for ${twice} are waited for at once (D3)`);
  const memory = signals['memory.available'];
  if (!memory.known || memory.value.available >= MEMORY_HARD_BYTES || next.afterMs === 0) return;
  // Without a new sample (a victim was signalled at the same instant), the look before has seen to it.
  const isSaid = reasons.some(({ code }) => ['no-candidate', 'clean-up-wait', 'sample-not-new'].includes(code));
  const isSeenTo = decisions.length > 0 || waitedFor.includes('memory') || isSaid;
  if (!isSeenTo) checker.problem(`at ${atMs} ms memory is below its hard threshold and nobody sees to it`);
}

type CountingClock = { readonly clock: ReturnType<typeof createVirtualClock>; readonly most: () => number };

/** The virtual clock, and how many timers ever waited at once. */
function countingClock(): CountingClock {
  const clock = createVirtualClock(Date.UTC(2026, 0, 1));
  let waiting = 0;
  let most = 0;
  return {
    most: () => most,
    clock: {
      ...clock,
      after: (ms, act) => {
        waiting += 1;
        most = Math.max(most, waiting);
        let isOver = false;
        const over = (): void => {
          if (!isOver) waiting -= 1;
          isOver = true;
        };
        const cancel = clock.after(ms, () => {
          over();
          act();
        });
        return () => {
          over();
          cancel();
        };
      },
    },
  };
}

function config(version: number): CoreConfig {
  const isOdd = version % 2 === 1;
  const mib = 2 ** 20;
  const amount = (of: number) => ({ kind: 'quantity', amount: quantityOfBytes(of, 'decimal') }) as const;
  const threshold = (signal: Threshold['signal'], of: number, graceMs: number, least: number | null): Threshold => ({
    id: `${signal}/${graceMs === 0 ? 'evictionHard' : 'evictionSoft'}`,
    signal,
    value: amount(of),
    graceMs,
    minReclaim: least === null ? null : amount(least),
  });
  const least = isOdd ? 512 * mib : null;
  return {
    thresholds: [
      threshold('memory.available', MEMORY_HARD_BYTES, 0, least),
      threshold('memory.available', MEMORY_SOFT_BYTES, isOdd ? 10_000 : 20_000, least),
      threshold('pid.available', PIDS_HARD, 0, null),
      threshold('pid.available', PIDS_SOFT, 5_000, null),
    ],
    pressureTransitionMs: isOdd ? 30_000 : 300_000,
    maxPodGraceSeconds: isOdd ? 20 : 5,
    pace: { minMs: 2, maxMs: 10_000, cpuShare: 0.01, cpus: 2 },
    guard: GUARD,
    localStorageLimits: 'enforce',
    isLive: true,
    reclaimSignals: [],
    phases: [],
    shutdownCancel: 'promptly',
    shutdownCarryOver: false,
  };
}

function tenthsOf(heaps: readonly number[]): readonly number[] {
  return Array.from({ length: 10 }, (_, tenth) => {
    const median = quantile(heaps.slice((tenth * HEAPS) / 10, ((tenth + 1) * HEAPS) / 10), 0.5);
    return Math.round(median * 100) / 100;
  });
}

let collect: (() => void) | null = null;

/** MiB. */
function heapAfterCollection(): number {
  if (collect === null) {
    setFlagsFromString('--expose-gc');
    collect = runInNewContext('gc') as () => void;
  }
  collect();
  collect();
  return process.memoryUsage().heapUsed / 2 ** 20;
}
