import { describe, expect, it } from 'vitest';
import { decide } from '../../../src/core/decide.ts';
import { resumeEvictions } from '../../../src/core/eviction/under-way.ts';
import type { Heard } from '../../../src/core/outcome.ts';
import { known } from '../../../src/core/reading.ts';
import { adoptState } from '../../../src/core/state/adopt.ts';
import { initialState } from '../../../src/core/state/state.ts';
import { aConfig, anObservation, aPod, aThreshold, MI } from '../../a.ts';

const config = aConfig([aThreshold('memory.available', 100 * MI)]);
const look = (atMs: number) =>
  anObservation(
    atMs,
    { 'memory.available': { available: 50 * MI, capacity: 1_000 * MI } },
    { pods: known([aPod({ name: 'hog', workingSetBytes: 500 * MI }), aPod({ name: 'quiet', workingSetBytes: MI })]) },
  );
const killed = decide(initialState('boot'), look(0), config).state;

describe('a state that an agent left behind', () => {
  it("chooses no new pod while the dead agent's victim is being stopped, however long no agent ran", () => {
    const { state } = adoptState(killed, 'boot', 60_000);
    const waiting = decide(state, look(60_001), config);
    expect(waiting.decisions).toEqual([]);
    expect(waiting.reasons.map(({ code }) => code)).toContain('waiting-for-victim');
    expect(decide(waiting.state, look(70_000), config).decisions).toMatchObject([
      { kind: 'evict', victim: { name: 'quiet' } },
    ]);
  });

  it('chooses no new pod after a slow start', () => {
    const { state } = adoptState(killed, 'boot', 1_000);
    const verdict = decide(resumeEvictions(state, 60_000), look(60_001), config);
    expect(verdict.decisions).toEqual([]);
  });

  it('chooses no new pod if it learns late of the signal that the dead agent had sent', () => {
    const { state } = adoptState(killed, 'boot', 60_000);
    const [eviction] = state.act.kind === 'evicting' ? state.act.evictions : [];
    const outcomes: readonly Heard[] = [{ of: eviction?.decision ?? '', atMs: 5, kind: 'signalled', with: 'sigterm' }];
    expect(decide(state, { ...look(60_001), outcomes }, config).decisions).toEqual([]);
  });

  it('keeps its timers within a boot, and none across a boot', () => {
    expect(adoptState(killed, 'boot', 1).state.firstMetMs).toEqual(killed.firstMetMs);
    const { state, isInterrupted } = adoptState(killed, 'another', 1);
    expect(isInterrupted).toBe(false);
    expect(state).toEqual({ ...initialState('another'), nextDecision: killed.nextDecision });
  });

  it('decides a reclaim again that died with the agent', () => {
    const disk = aConfig([aThreshold('nodefs.available', 100 * MI)], { reclaimSignals: ['nodefs.available'] });
    const full = anObservation(0, { 'nodefs.available': { available: MI, capacity: 1_000 * MI } }, { pods: known([]) });
    const { state } = decide(initialState('boot'), full, disk);
    expect(state.reclaims).toHaveLength(1);
    expect(adoptState(state, 'boot', 1).state.reclaims).toEqual([]);
  });

  it.each([
    ['that was not signalled has 10 s for its first signal', { signalledMs: undefined }, 30_000],
    ['that was signalled has 10 s', { signalledMs: 5 }, 30_000],
    ['whose grace is not over has 10 s after that', { signalledMs: 5, graceEndsMs: 25_000 }, 35_000],
    ['keeps a deadline that is later', { signalledMs: 5, deadlineMs: 50_000 }, 50_000],
    ['that nothing waits for any more is left as it is', { signalledMs: 5, settledMs: 15_000 }, 10_000],
  ])('has an eviction %s', (_, given, deadlineMs) => {
    const [eviction] = killed.act.kind === 'evicting' ? killed.act.evictions : [];
    if (eviction === undefined) throw new Error('nobody was chosen');
    const { signalledMs, ...rest } = { ...eviction, ...given };
    const left = { ...rest, ...(signalledMs === undefined ? {} : { signalledMs }) };
    const state = { ...killed, act: { kind: 'evicting', evictions: [left] } } as const;
    expect(resumeEvictions(state, 20_000)).toEqual({
      ...state,
      act: { ...state.act, evictions: [{ ...left, deadlineMs }] },
    });
  });
});
