import { describe, expect, it } from 'vitest';
import type { CoreConfig } from '../../src/core/core-config.ts';
import type { Decision } from '../../src/core/decision.ts';
import type { Outcome } from '../../src/core/outcome.ts';
import { known } from '../../src/core/reading.ts';
import { quantityOfBytes } from '../../src/core/units/quantity.ts';
import { createVirtualClock, runVirtually, type VirtualPod, type VirtualRun } from '../virtual-node.ts';

const MIB = 1024 * 1024;
const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

function aPod(name: string, priority: number, workingSetBytes: (atMs: number) => number): VirtualPod {
  return {
    declared: {
      uid: `uid-${name}`,
      namespace: 'default',
      name,
      qos: 'BestEffort',
      priority,
      requests: { memoryBytes: 0, ephemeralStorageBytes: 0 },
      podLevelMemoryRequest: null,
      ephemeralStorageLimit: null,
      containers: [],
      volumes: [],
      tolerations: [],
      terminationGraceSeconds: 30,
      startedAtWallMs: null,
      ownerKey: null,
      isDaemonSet: false,
      isStaticCritical: false,
      isProtected: false,
      isTerminating: false,
      limitedBy: null,
    },
    workingSetBytes,
    processes: 3,
  };
}

const CONFIG: CoreConfig = {
  thresholds: [
    {
      id: 'memory.available/evictionHard',
      signal: 'memory.available',
      value: { kind: 'quantity', amount: quantityOfBytes(100 * MIB, 'binary') },
      graceMs: 0,
      minReclaim: null,
    },
  ],
  pressureTransitionMs: 5_000,
  maxPodGraceSeconds: 0,
  pace: { minMs: 2, maxMs: 10_000, cpuShare: 0.01, cpus: 2 },
  guard: null,
  localStorageLimits: 'off',
  reclaimSignals: [],
  phases: [],
  shutdownCancel: 'promptly',
  shutdownCarryOver: false,
};

type Told = { readonly decisions: Decision[]; readonly outcomes: Outcome[]; readonly looksMs: number[] };

async function story(change: Partial<VirtualRun> = {}): Promise<Told> {
  const told: Told = { decisions: [], outcomes: [], looksMs: [] };
  await runVirtually(
    {
      clock: createVirtualClock(0),
      node: {
        memoryBytes: 1024 * MIB,
        maxPids: 1000,
        disk: { bytesAvailable: 1, bytesCapacity: 2 },
        inodes: { free: 1, total: 2 },
      },
      // Crosses 1024 - 100 MiB at 8.24 s: 100 + 100 * t.
      pods: [aPod('leak', 0, (atMs) => (100 * atMs * MIB) / 1000), aPod('calm', 0, () => 100 * MIB)],
      teardownMs: 30,
      lookCpuMs: 0.06,
      config: CONFIG,
      untilMs: 30_000,
      decided: (decision) => told.decisions.push(decision),
      ended: (outcome) => told.outcomes.push(outcome),
      looked: (observation) => told.looksMs.push(observation.atMs),
      turn,
      ...change,
    },
    new AbortController().signal,
  );
  return told;
}

describe('a virtual clock', () => {
  it('runs what is due in order of time, and equal times in the order of their requests', async () => {
    const clock = createVirtualClock(1_000);
    const said: string[] = [];
    const note = (what: string) => () => void said.push(`${what}@${clock.monoMs()}/${clock.wallMs()}`);
    clock.after(20, note('late'));
    clock.after(10, note('first'));
    clock.after(10, note('second'));
    clock.after(15, note('never'))();
    clock.after(5, () => clock.after(3, note('nested')));
    clock.after(101, note('too late'));
    await clock.run(100, turn, new AbortController().signal);
    expect(said).toEqual(['nested@8/1008', 'first@10/1010', 'second@10/1010', 'late@20/1020']);
    expect(clock.monoMs()).toBe(100);
  });

  it('stops between two steps when asked to', async () => {
    const clock = createVirtualClock(0);
    const stop = new AbortController();
    clock.after(10, () => stop.abort());
    clock.after(20, () => expect.unreachable('after the stop'));
    await clock.run(100, turn, stop.signal);
    expect(clock.monoMs()).toBe(10);
  });
});

describe("a virtual node under the agent's loop", () => {
  it('loses its leaking pod once, right after the crossing, and frees its memory after the teardown', async () => {
    const { decisions, outcomes } = await story();
    const evicted = decisions.flatMap((decision) => (decision.kind === 'evict' ? [decision] : []));
    expect(evicted.map(({ victim }) => victim.name)).toEqual(['leak']);
    const [first] = evicted;
    const crossedMs = 8_240;
    expect(first?.threshold.sinceMs).toBeGreaterThan(crossedMs);
    expect(first?.threshold.sinceMs).toBeLessThanOrEqual(crossedMs + 20);
    const endMs = (first?.atMs ?? 0) + 30;
    expect(outcomes).toEqual([
      { of: first?.id, atMs: endMs, kind: 'ended', via: 'sigkill', releasedBytes: known((100 * endMs * MIB) / 1000) },
    ]);
  });

  it('sets the condition with the eviction and clears it after the transition period', async () => {
    const { decisions } = await story();
    const conditions = decisions.flatMap((decision) => (decision.kind === 'set-condition' ? [decision] : []));
    expect(conditions.map(({ condition, status }) => [condition, status])).toEqual([
      ['MemoryPressure', true],
      ['MemoryPressure', false],
    ]);
    const heldMs = (conditions[1]?.atMs ?? 0) - (conditions[0]?.atMs ?? 0);
    expect(heldMs).toBeGreaterThanOrEqual(5_000);
  });

  it('tells the same story twice, to the last look', async () => {
    expect(await story()).toEqual(await story());
  });

  it('looks rarely far from the threshold and every 2 ms close to it', async () => {
    const { looksMs } = await story();
    const gaps = looksMs.slice(1).map((atMs, i) => atMs - (looksMs[i] ?? 0));
    expect(Math.min(...gaps.filter((gap) => gap > 0))).toBeCloseTo(2, 6);
    expect(Math.max(...gaps)).toBeGreaterThan(100);
  });

  it('ends when asked to, with the loop', async () => {
    const stop = new AbortController();
    const looksMs: number[] = [];
    await runVirtually(
      {
        clock: createVirtualClock(0),
        node: {
          memoryBytes: MIB,
          maxPids: 9,
          disk: { bytesAvailable: 1, bytesCapacity: 2 },
          inodes: { free: 1, total: 2 },
        },
        pods: [],
        teardownMs: 1,
        lookCpuMs: 0,
        config: { ...CONFIG, thresholds: [] },
        untilMs: 1_000_000,
        decided: () => expect.unreachable('nothing to decide'),
        ended: () => expect.unreachable('nothing to end'),
        looked: (observation) => {
          looksMs.push(observation.atMs);
          if (looksMs.length === 3) stop.abort();
        },
        turn,
      },
      stop.signal,
    );
    expect(looksMs).toHaveLength(3);
  });
});
