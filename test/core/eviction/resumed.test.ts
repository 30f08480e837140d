import { describe, expect, it } from 'vitest';
import type { CoreConfig } from '../../../src/core/core-config.ts';
import { decide } from '../../../src/core/decide.ts';
import { SEEN_BETWEEN_LOOKS_MS, withoutUnseen } from '../../../src/core/eviction/thresholds-met.ts';
import type { Observation } from '../../../src/core/observation.ts';
import type { PodView } from '../../../src/core/pod/pod.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import { type Eviction, initialState, type State } from '../../../src/core/state/state.ts';
import { quantityOfBytes } from '../../../src/core/units/quantity.ts';
import type { Verdict } from '../../../src/core/verdict.ts';
import { aConfig, anObservation, aPod, aThreshold, MI } from '../../a.ts';

const CAPACITY = 1_000 * MI;
const hardMemory = aThreshold('memory.available', 100 * MI);
const softMemory = aThreshold('memory.available', 200 * MI, { graceMs: 1_000 });
const hardDisk = aThreshold('nodefs.available', 100 * MI);
const web = aPod({ name: 'web', workingSetBytes: 300 * MI, diskBytes: 300 * MI, terminationGraceSeconds: 20 });

function aCore(config: CoreConfig, pods: readonly PodView[] = [web]) {
  let state: State = initialState('boot');
  return (atMs: number, mib: { memory?: number; nodefs?: number }, rest: Partial<Observation> = {}): Verdict => {
    const { memory = 500, nodefs = 500 } = mib;
    const signals = {
      'memory.available': { available: memory * MI, capacity: CAPACITY },
      'nodefs.available': { available: nodefs * MI, capacity: CAPACITY },
    };
    const verdict = decide(state, anObservation(atMs, signals, { pods: known(pods), ...rest }), config);
    state = verdict.state;
    return verdict;
  };
}
const evictionsOf = ({ state: { act } }: Verdict): readonly Eviction[] =>
  act.kind === 'evicting' ? act.evictions : [];
const only = ({ decisions }: Verdict, kind: string) => decisions.filter((decision) => decision.kind === kind);

describe('the grace that a victim gets', () => {
  it.each([
    ['none under a hard memory threshold (D12)', aConfig([hardMemory]), { memory: 50 }, 0, ['D12']],
    ['one second under a hard disk threshold', aConfig([hardDisk]), { nodefs: 50 }, 1_000, []],
  ] as const)('is %s', (_, config, mib, graceMs, differences) => {
    const verdict = aCore(config)(5_000, mib);
    expect(evictionsOf(verdict)).toMatchObject([
      { decidedMs: 5_000, graceEndsMs: 5_000 + graceMs, deadlineMs: 15_000, settledMs: null },
    ]);
    expect(only(verdict, 'evict')).toMatchObject([{ graceSeconds: 1, differences }]);
  });

  it.each([
    ['the smaller of the maximum and its own', 30, 20, 20_000],
    ['the maximum if that is smaller', 1, 1, 1_000],
    ['two seconds if the maximum is zero', 0, 0, 2_000],
  ])('is %s under a soft threshold', (_, maxPodGraceSeconds, graceSeconds, graceMs) => {
    const look = aCore(aConfig([softMemory], { maxPodGraceSeconds }));
    look(0, { memory: 150 });
    const verdict = look(1_000, { memory: 150 });
    expect(only(verdict, 'evict')).toMatchObject([{ graceSeconds }]);
    expect(evictionsOf(verdict)).toMatchObject([{ graceEndsMs: 1_000 + graceMs }]);
  });
});

describe('an agent that stood still while a victim was ending', () => {
  const config = aConfig([softMemory], { maxPodGraceSeconds: 5 });
  const other = aPod({ name: 'other', workingSetBytes: 200 * MI });
  const look = (state: State, atMs: number, rest: Partial<Observation> = {}): Verdict => {
    const signals = { 'memory.available': { available: 150 * MI, capacity: CAPACITY } };
    const observation = anObservation(atMs, signals, { pods: known([web, other]), ...rest });
    return decide(withoutUnseen(state, observation, SEEN_BETWEEN_LOOKS_MS), observation, config);
  };
  const chosen = look(look(initialState('boot'), 0).state, 1_000);
  const decision = only(chosen, 'evict')[0]?.id ?? '';
  const signal = (atMs: number, how: 'sigterm' | 'sigkill') =>
    ({ outcomes: [{ of: decision, atMs, kind: 'signalled', with: how }] }) as const;

  it('chooses nobody else before that victim has had its time', () => {
    const asked = look(chosen.state, 1_010, signal(1_010, 'sigterm'));
    const after = look(asked.state, 31_010);
    expect(only(after, 'evict')).toEqual([]);
    expect(evictionsOf(after)).toMatchObject([{ decision, deadlineMs: 16_010 + 29_000, settledMs: null }]);
  });

  it('no longer waits for a victim that had got SIGKILL before', () => {
    const killed = look(chosen.state, 1_010, signal(1_010, 'sigkill'));
    expect(only(look(killed.state, 31_010), 'evict')).toMatchObject([{ victim: { name: 'other' } }]);
  });
});

describe('a soft threshold whose agent stood still while a node-level reclaim ended', () => {
  const soft = aThreshold('memory.available', 200 * MI, { graceMs: 30_000 });
  const config = aConfig([hardDisk, soft], { isLive: true, reclaimSignals: ['nodefs.available'] });
  const short = { available: 150 * MI, capacity: CAPACITY };
  const unreadable = unknown('unreadable', 'memory.stat', 'test');
  /** `memory`: at the look that judges the reclaim. */
  const sinceMs = (memory: Observation['signals']['memory.available'] | typeof short): number | undefined => {
    let state: State = initialState('boot');
    const look = (atMs: number, nodefs: number, memoryNow: typeof memory, outcomes: Observation['outcomes'] = []) => {
      const signals = {
        'memory.available': memoryNow,
        'nodefs.available': { available: nodefs * MI, capacity: CAPACITY },
      };
      const observation = anObservation(atMs, signals, { pods: known([web]), podsFor: 'nodefs.available', outcomes });
      const verdict = decide(withoutUnseen(state, observation, SEEN_BETWEEN_LOOKS_MS), observation, config);
      state = verdict.state;
      return verdict;
    };
    const of = only(look(0, 50, short), 'reclaim')[0]?.id ?? '';
    look(10_000, 500, memory, [{ of, atMs: 5_000, kind: 'reclaimed', freed: known(450 * MI) }]);
    look(10_250, 500, short);
    return state.firstMetMs['memory.available/evictionSoft'];
  };

  it('has not seen that time, once', () => {
    expect(sinceMs(short)).toBe(9_000);
  });

  it('has seen none of it if its signal could not be read at its end', () => {
    expect(sinceMs(unreadable)).toBe(10_000);
  });
});

describe('a soft eviction that a hard threshold overtakes (D4)', () => {
  const config = aConfig([softMemory, hardMemory], { maxPodGraceSeconds: 30 });
  const begun = () => {
    const look = aCore(config);
    look(0, { memory: 150 });
    look(1_000, { memory: 150 });
    look(1_010, { memory: 150 }, { outcomes: [{ of: 'boot-2', atMs: 1_000, kind: 'signalled', with: 'sigterm' }] });
    return look;
  };

  it('ends at once, and is hastened once', () => {
    const look = begun();
    const verdict = look(2_000, { memory: 50 });
    expect(only(verdict, 'hasten')).toMatchObject([
      { eviction: 'boot-2', graceSeconds: 1, differences: ['D4', 'D12'] },
    ]);
    expect(evictionsOf(verdict)).toMatchObject([{ decision: 'boot-2', graceEndsMs: 2_000, deadlineMs: 12_000 }]);
    expect(only(look(2_010, { memory: 50 }), 'hasten')).toEqual([]);
  });

  it('gets no more time if its grace period is already over', () => {
    const verdict = begun()(21_500, { memory: 50 });
    expect(evictionsOf(verdict)).toMatchObject([{ graceEndsMs: 21_000 }]);
  });

  it('is waited for, and the remaining time is given', () => {
    const verdict = begun()(4_000, { memory: 150 });
    expect(verdict.reasons).toContainEqual({ code: 'waiting-for-victim', eviction: 'boot-2', remainingMs: 27_000 });
  });
});

describe('a pod over a local storage limit', () => {
  const limit = quantityOfBytes(100 * MI, 'binary');
  const over = (name: string) => aPod({ name, ephemeralStorageLimit: limit, diskBytes: 200 * MI });
  const config = aConfig([hardMemory]);

  it('gets one second, and is not chosen again while its end is awaited', () => {
    const look = aCore(config, [over('a'), over('b')]);
    const first = look(5_000, {});
    expect(evictionsOf(first)).toMatchObject(
      ['a', 'b'].map((name) => ({
        victim: { name },
        graceEndsMs: 6_000,
        deadlineMs: 15_000,
        cause: { kind: 'over-limit', limit: 'ephemeralpodfs' },
      })),
    );
    expect(look(5_010, {}).decisions).toEqual([]);
  });

  it('is decided once in a dry run, and again only after it was below its limit', () => {
    let pods = [over('a')];
    let state: State = initialState('boot');
    const look = (atMs: number, outcomes: Observation['outcomes'] = []) => {
      const verdict = decide(state, anObservation(atMs, {}, { pods: known(pods), outcomes }), config);
      state = verdict.state;
      return only(verdict, 'evict-over-limit').length;
    };
    expect(look(0)).toBe(1);
    expect(look(10, [{ of: 'boot-1', atMs: 5, kind: 'dropped', because: 'dry-run' }])).toBe(0);
    expect(look(20)).toBe(0);
    pods = [aPod({ name: 'a', ephemeralStorageLimit: limit })];
    expect(look(30)).toBe(0);
    pods = [over('a')];
    expect(look(40)).toBe(1);
  });

  it('does not delay a memory eviction (D3 is about thresholds)', () => {
    const look = aCore(config, [over('a'), web]);
    look(0, {});
    expect(only(look(10, { memory: 50 }), 'evict')).toMatchObject([{ victim: { name: 'web' } }]);
  });
});

describe('a node-level reclaim', () => {
  const config = aConfig([hardDisk], { reclaimSignals: ['nodefs.available'] });

  it('is judged after ten minutes if its outcome was lost, not before', () => {
    const look = aCore(config);
    expect(only(look(0, { nodefs: 50 }), 'reclaim')).toHaveLength(1);
    expect(only(look(599_999, { nodefs: 50 }), 'evict')).toEqual([]);
    const verdict = look(600_000, { nodefs: 50 });
    expect(only(verdict, 'evict')).toMatchObject([{ victim: { name: 'web' } }]);
  });

  it('has all the time that its commands may take', () => {
    const look = aCore({ ...config, reclaimMs: { 'nodefs.available': 1_800_000 } });
    look(0, { nodefs: 50 });
    expect(only(look(2_399_999, { nodefs: 50 }), 'evict')).toEqual([]);
    expect(only(look(2_400_000, { nodefs: 50 }), 'evict')).toHaveLength(1);
  });

  it('is not ended by the outcome of something else', () => {
    const look = aCore(config);
    look(0, { nodefs: 50 });
    const other = { of: 'boot-99', atMs: 5, kind: 'reclaimed', freed: known(0) } as const;
    expect(only(look(10, { nodefs: 50 }, { outcomes: [other] }), 'evict')).toEqual([]);
  });
});

describe('a condition', () => {
  it('that is no longer met gives the rest of its transition period', () => {
    const look = aCore(aConfig([hardMemory], { pressureTransitionMs: 60_000 }), []);
    look(1_000, { memory: 50 });
    const { reasons } = look(11_000, {});
    expect(reasons).toEqual([{ code: 'transition-period', condition: 'MemoryPressure', remainingMs: 50_000 }]);
    expect(look(61_000, {}).reasons).toEqual([]);
  });
});
