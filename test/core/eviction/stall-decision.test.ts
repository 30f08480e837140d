import { describe, expect, it } from 'vitest';
import { decide } from '../../../src/core/decide.ts';
import type { Observation } from '../../../src/core/observation.ts';
import type { PodView } from '../../../src/core/pod/pod.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import { initialState } from '../../../src/core/state/state.ts';
import { sayDecision } from '../../../src/words/decision.ts';
import { aConfig, anObservation, aPod, aThreshold, MI } from '../../a.ts';

const config = aConfig([aThreshold('memory.stallFree', 7_000), aThreshold('swap.available', 100 * MI)], {
  isLive: true,
});
const stalled = { available: 5_500, capacity: 10_000 };
const inSwap = (name: string, workingSet: number, swap: number, rest: Partial<PodView> = {}) =>
  aPod({ ...rest, name, workingSetBytes: workingSet * MI, usage: { swapBytes: known(swap * MI) } });

function decided(pods: readonly PodView[], signals: Parameters<typeof anObservation>[1]) {
  const observation: Observation = anObservation(60_000, signals, { pods: known(pods) });
  const { decisions, reasons } = decide({ ...initialState('boot'), lastLookMs: 59_000 }, observation, config);
  return { evict: decisions.find((decision) => decision.kind === 'evict'), reasons };
}

describe('a node that stalls on memory', () => {
  it('evicts the pod that uses most memory and swap above its request, with SIGKILL, and names the difference', () => {
    const { evict } = decided([inSwap('resident', 300, 0), inSwap('swapped', 50, 900)], {
      'memory.stallFree': stalled,
    });
    expect(evict).toMatchObject({ victim: { name: 'swapped' }, graceSeconds: 1, differences: ['D12', 'D17'] });
    expect(evict).toMatchObject({ annotations: { starved_resource: 'memory' } });
  });

  it('gives the share of time', () => {
    const { evict } = decided([inSwap('web', 300, 0)], { 'memory.stallFree': stalled });
    expect(evict && sayDecision(evict)).toContain(
      'memory.stallFree 5.5s is below 7s: all tasks stalled on memory for 45% of the last 10s',
    );
  });

  it('passes over a pod that stalls in its own memory limit, for this signal only', () => {
    const pods = [inSwap('limited', 900, 0, { isStalledByOwnLimit: true }), inSwap('web', 300, 0)];
    const { evict, reasons } = decided(pods, { 'memory.stallFree': stalled });
    expect(evict).toMatchObject({ victim: { name: 'web' }, differences: ['D17', 'D12'] });
    expect(reasons).toContainEqual({ code: 'passed-over', uid: 'uid-limited', because: 'own-limit' });
    const bySwap = decided(pods, { 'swap.available': { available: 10 * MI, capacity: 500 * MI } });
    expect(bySwap.evict).toMatchObject({ victim: { name: 'limited' } });
  });

  it('acts for memory first, then for swap, then for the stall', () => {
    const signals = { 'memory.stallFree': stalled, 'swap.available': { available: 10 * MI, capacity: 500 * MI } };
    const { evict } = decided([inSwap('web', 300, 0)], signals);
    expect(evict).toMatchObject({ threshold: { signal: 'swap.available' } });
  });

  it('asks for the pods if their swap was not read', () => {
    const unread = aPod({ name: 'web', usage: { swapBytes: unknown('not-asked', 'cgroup', 'nobody asked') } });
    const observation = anObservation(60_000, { 'memory.stallFree': stalled }, { pods: known([unread]) });
    const { decisions, next } = decide({ ...initialState('boot'), lastLookMs: 59_000 }, observation, config);
    expect(decisions.filter(({ kind }) => kind === 'evict')).toEqual([]);
    expect(next).toMatchObject({ pods: 'memory.stallFree', afterMs: 0 });
  });

  it('is looked at before it can be met: time advances like time, whatever the number of CPUs', () => {
    const free = { available: 10_000, capacity: 10_000 };
    const observation = anObservation(60_000, { 'memory.stallFree': free });
    const pace = { minMs: 2, maxMs: 10_000, cpuShare: 0.01, cpus: 64 };
    const { next } = decide({ ...initialState('boot'), lastLookMs: 59_000 }, observation, { ...config, pace });
    expect(next.afterMs).toBe(3_000);
  });
});

describe('after the victim of a stall', () => {
  const web = inSwap('web', 300, 0);
  const job = inSwap('job', 200, 0);
  /** Evicts, proves the victim dead at 61 s, and looks again later. */
  function afterProof(looks: readonly { readonly atMs: number; readonly available: number }[]) {
    const look = (atMs: number, available: number, pods: readonly PodView[], rest: Partial<Observation> = {}) =>
      anObservation(atMs, { 'memory.stallFree': { available, capacity: 10_000 } }, { pods: known(pods), ...rest });
    const first = decide({ ...initialState('boot'), lastLookMs: 59_000 }, look(60_000, 5_500, [web, job]), config);
    const [evict] = first.decisions.filter(({ kind }) => kind === 'evict');
    if (evict === undefined) throw new Error('nobody was evicted');
    const outcome = { of: evict.id, atMs: 61_000, kind: 'ended', via: 'sigkill', releasedBytes: known(0) } as const;
    let verdict = decide(first.state, look(61_000, 5_400, [job], { outcomes: [outcome] }), config);
    for (const { atMs, available } of looks) verdict = decide(verdict.state, look(atMs, available, [job]), config);
    return verdict.decisions.filter(({ kind }) => kind === 'evict').length;
  }

  it('nobody is chosen while the others read their memory back for a moment', () => {
    expect(afterProof([{ atMs: 61_500, available: 5_000 }])).toBe(0);
  });

  it('the next pod is chosen once the stall has lasted 30% of the window', () => {
    expect(afterProof([{ atMs: 65_000, available: 2_300 }])).toBe(1);
  });
});
