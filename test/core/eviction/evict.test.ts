import { describe, expect, it } from 'vitest';
import { decide } from '../../../src/core/decide.ts';
import type { Observation } from '../../../src/core/observation.ts';
import type { Outcome } from '../../../src/core/outcome.ts';
import type { PodView } from '../../../src/core/pod/pod.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import { readState } from '../../../src/core/state/read.ts';
import { initialState, type State } from '../../../src/core/state/state.ts';
import { quantityOfBytes } from '../../../src/core/units/quantity.ts';
import { sayDecision } from '../../../src/words/decision.ts';
import { aConfig, anObservation, aPod, aThreshold, MI } from '../../a.ts';
import { codes, evictions, kinds, looks } from './looks.ts';

const NODE = 1_000 * MI;
const hard = aThreshold('memory.available', 100 * MI);
const hardPids = aThreshold('pid.available', 1_000);
const soft = aThreshold('memory.available', 200 * MI, { graceMs: 30_000 });
const leaker = aPod({ name: 'leaker', workingSetBytes: 300 * MI });
const database = aPod({
  name: 'db',
  workingSetBytes: 400 * MI,
  requests: { memoryBytes: 500 * MI, ephemeralStorageBytes: 0 },
});

function memory(atMs: number, availableMiB: number, rest: Partial<Observation> = {}): Observation {
  const available = availableMiB * MI;
  return anObservation(
    atMs,
    { 'memory.available': { available, capacity: NODE } },
    { pods: known([database, leaker]), ...rest },
  );
}

describe('a hard threshold', () => {
  it('is unmet at exactly its value and met one byte below', () => {
    const at = looks(aConfig([hard]), memory(0, 100));
    expect(kinds(at[0])).toEqual([]);
    const below = looks(
      aConfig([hard]),
      anObservation(0, { 'memory.available': { available: 100 * MI - 1, capacity: NODE } }, { pods: known([leaker]) }),
    );
    expect(evictions(below[0]).map(({ message }) => message)).toEqual([
      'The node was low on resource: memory. Threshold quantity: 100Mi, available: 104857599. Container main was using 300Mi, request is 0, has larger consumption of memory. ',
    ]);
  });

  it('sets the condition and evicts the pod that exceeds its request, with a grace of 1 s and D12 named', () => {
    const [first] = looks(aConfig([hard]), memory(0, 50));
    expect(kinds(first)).toEqual(['set-condition', 'evict']);
    const [evict] = evictions(first);
    expect(evict).toMatchObject({ victim: { name: 'leaker' }, graceSeconds: 1, differences: ['D12'] });
    expect(first?.intentWaitMs).toBe(5);
  });

  it('says what grew, where that is known: for the memory of the node alone', () => {
    const memoryGrowth = known({ overMs: 1_000, podsBytes: 0, outsideBytes: 9 * MI, others: [] });
    const at = (signal: 'memory.available' | 'allocatableMemory.available', rest: Partial<Observation>) => {
      const signals = { [signal]: { available: 50 * MI, capacity: NODE } };
      return decide(initialState('boot'), anObservation(0, signals, rest), aConfig([aThreshold(signal, 100 * MI)]));
    };
    const pods = known([leaker]);
    expect(evictions(at('memory.available', { pods, memoryGrowth }))[0]?.growth).toMatchObject({
      value: { totalBytes: 9 * MI },
    });
    expect(evictions(at('memory.available', { pods }))[0]).not.toHaveProperty('growth');
    expect(evictions(at('allocatableMemory.available', { pods, memoryGrowth }))[0]).not.toHaveProperty('growth');
    const nobody = at('memory.available', { pods: known([]), memoryGrowth }).reasons;
    expect(nobody).toContainEqual(expect.objectContaining({ code: 'no-candidate', growth: expect.anything() }));
  });

  it('numbers its decisions, after the start of the boot ID', () => {
    const { decisions } = decide(initialState('7f3c1a22-9d4e-4c1b-8a55-012345678900'), memory(0, 50), aConfig([hard]));
    expect(decisions.map(({ id }) => id)).toEqual(['7f3c1a22-1', '7f3c1a22-2']);
  });

  it.each<Partial<PodView>>([
    { boundTo: 'unit leaker.service' },
    { cgroupInode: 7, cgroupPath: '/web' },
    { unsaid: { why: 'unreadable', priority: true, requests: true } },
  ])('says of its victim, if it is so: %j', (said) => {
    const [first] = looks(aConfig([hard]), memory(0, 50, { pods: known([{ ...leaker, ...said }]) }));
    const { uid, namespace, name, qos, priority } = leaker;
    expect(evictions(first)[0]?.victim).toEqual({ uid, namespace, name, qos, priority, ...said });
  });

  it('ranks a pod with the priority of the pods that end with it, and names them (D16)', () => {
    const cache = aPod({ name: 'cache', workingSetBytes: 300 * MI, priority: 10 });
    const shared = { inherited: { priority: 1_000, from: 'default/db' }, takesAlong: ['default/db', 'helper.service'] };
    const tied = { ...leaker, ...shared };
    const [first] = looks(aConfig([hard]), memory(0, 50, { pods: known([tied, cache]) }));
    expect(evictions(first)).toMatchObject([{ victim: { name: 'cache' }, differences: ['D16', 'D12'] }]);
    const [alone] = looks(aConfig([hard]), memory(0, 50, { pods: known([tied]) }));
    expect(evictions(alone)).toMatchObject([{ victim: { name: 'leaker' }, ...shared }]);
  });

  it('asks for the pods if it has none, and looks again at once', () => {
    const asking = memory(0, 50, { pods: unknown('not-asked', 'pods', 'not asked') });
    const [first, second] = looks(aConfig([hard]), asking, memory(0.2, 50));
    expect(first?.next).toEqual({ afterMs: 0, pods: 'memory.available' });
    expect(kinds(first)).toEqual(['set-condition']);
    expect(kinds(second)).toEqual(['evict']);
  });

  it('uses a disk sample for the second look too, once the pods are there', () => {
    const full = { 'nodefs.available': known({ available: 1, capacity: 100 * MI, sampledAtMs: -5 }) };
    const config = aConfig([aThreshold('nodefs.available', 10 * MI)]);
    const notAsked = unknown('not-asked', 'pods', 'not asked');
    const [first, second, third] = looks(
      config,
      anObservation(0, full, { pods: notAsked }),
      anObservation(1, full, { pods: known([aPod({ name: 'filler', diskBytes: 5 * MI })]) }),
      anObservation(2, full, { pods: known([aPod({ name: 'filler', diskBytes: 5 * MI })]) }),
    );
    expect(first?.next.afterMs).toBe(0);
    expect(kinds(second)).toEqual(['evict']);
    expect(codes(third)).toContain('sample-not-new');
  });
});

describe('a soft threshold', () => {
  const config = aConfig([soft], { maxPodGraceSeconds: 60 });
  it('sets the condition at once and evicts when its grace period is exactly over, with the smaller of the two graces', () => {
    const verdicts = looks(config, memory(0, 150), memory(10_000, 150), memory(29_999, 150), memory(30_000, 150));
    expect(verdicts.map(kinds)).toEqual([['set-condition'], [], [], ['evict']]);
    expect(evictions(verdicts[3])[0]?.graceSeconds).toBe(30);
    expect(verdicts[3]?.intentWaitMs).toBe(50);
  });

  it('starts again after one unmet look that came a second or more after the previous one', () => {
    const verdicts = looks(
      config,
      memory(0, 150),
      memory(25_000, 300),
      memory(26_000, 150),
      memory(55_999, 150),
      memory(56_000, 150),
    );
    expect(verdicts.map((verdict) => evictions(verdict).length)).toEqual([0, 0, 0, 0, 1]);
  });

  it('completes its grace period although the signal rises above it for 50 ms every second (D2)', () => {
    const observations: Observation[] = [];
    for (let atMs = 0; atMs <= 31_000; atMs += 10)
      observations.push(memory(atMs, atMs % 1_000 < 50 && atMs > 0 ? 300 : 150));
    const verdicts = looks(config, ...observations);
    const at = verdicts.findIndex((verdict) => evictions(verdict).length > 0);
    // At 30,000 ms the signal is above for the moment: the first look that finds it below again.
    expect(observations[at]?.atMs).toBe(30_050);
  });

  it('has recovered after a second of unmet looks (D2)', () => {
    const observations: Observation[] = [memory(0, 150)];
    for (let atMs = 100; atMs <= 1_200; atMs += 100) observations.push(memory(atMs, 300));
    const verdicts = looks(config, ...observations);
    expect(verdicts.map(({ state }) => state.firstMetMs[soft.id] !== undefined).lastIndexOf(true)).toBe(10);
  });

  it('stands still while the signal cannot be read, and decides nothing meanwhile (D5)', () => {
    const lost = (atMs: number): Observation =>
      anObservation(
        atMs,
        { 'memory.available': unknown('unreadable', 'memory.stat', 'gone') },
        { pods: known([leaker]) },
      );
    const verdicts = looks(
      config,
      memory(0, 150),
      memory(10_000, 150),
      lost(20_000),
      lost(50_000),
      memory(69_999, 150),
      memory(70_000, 150),
    );
    expect(verdicts.map((verdict) => evictions(verdict).length)).toEqual([0, 0, 0, 0, 0, 1]);
    expect(codes(verdicts[3])).toContain('signal-unknown');
  });

  it('gives the pod 0 s if no maximum is configured, as the kubelet does', () => {
    const verdicts = looks(aConfig([soft]), memory(0, 150), memory(30_000, 150));
    expect(evictions(verdicts[1])[0]?.graceSeconds).toBe(0);
  });
});

describe('one proven kill at a time (D3)', () => {
  const outcome = (of: string, atMs: number): Outcome => ({
    of,
    atMs,
    kind: 'ended',
    via: 'sigkill',
    releasedBytes: known(1),
  });
  it('chooses nobody else until the victim has ended, and then the next pod', () => {
    const config = aConfig([hard]);
    const first = decide(initialState('boot'), memory(0, 50), config);
    const second = decide(first.state, memory(5_000, 40), config);
    expect(kinds(second)).toEqual([]);
    expect(codes(second)).toContain('waiting-for-victim');
    const [evict] = evictions(first);
    const third = decide(
      second.state,
      memory(5_010, 40, { outcomes: [outcome(evict?.id ?? '', 5_005)], pods: known([database]) }),
      config,
    );
    expect(evictions(third).map(({ victim }) => victim.name)).toEqual(['db']);
  });

  it('moves on to the next pod if no signal could be sent for 10 s, and says so', () => {
    const config = aConfig([hard]);
    const first = decide(initialState('boot'), memory(0, 50), config);
    expect(kinds(decide(first.state, memory(9_999, 40), config))).toEqual([]);
    const late = decide(first.state, memory(10_000, 40), config);
    expect(evictions(late).map(({ victim }) => victim.name)).toEqual(['db']);
    expect(late.reasons).toContainEqual({ code: 'not-signalled', eviction: 'boot-2', uid: 'uid-leaker' });
    const sent = { of: 'boot-2', atMs: 5, kind: 'signalled', with: 'sigkill' } as const;
    const told = decide(first.state, memory(10, 40, { outcomes: [sent] }), config);
    expect(codes(decide(told.state, memory(10_010, 40), config))).not.toContain('not-signalled');
  });

  it("chooses nobody for the soft threshold while the memory of the hard one's victim is still being freed", () => {
    const config = aConfig([hard, soft], { maxPodGraceSeconds: 60 });
    const start = looks(config, memory(0, 150), memory(29_000, 150), memory(29_500, 50));
    expect(evictions(start[2]).map(({ victim }) => victim.name)).toEqual(['leaker']);
    // The kernel has given back a part: above the hard threshold, below the soft one, whose grace is over by now.
    const half = decide(start[2]?.state ?? initialState('boot'), memory(30_100, 120), config);
    expect(kinds(half)).toEqual([]);
    expect(codes(half)).toContain('waiting-for-victim');
  });

  it('does not wait for a victim that was signalled once its threshold is no longer met', () => {
    const config = aConfig([hard]);
    const first = decide(initialState('boot'), memory(0, 50), config);
    const [evict] = evictions(first);
    const sent = { of: evict?.id ?? '', atMs: 5, kind: 'signalled', with: 'sigkill' } as const;
    const recovered = decide(first.state, memory(20, 300, { outcomes: [sent] }), config);
    expect(evictions(decide(recovered.state, memory(40, 50), config)).map(({ victim }) => victim.name)).toEqual(['db']);
  });
});

describe('a hard threshold during a soft eviction (D4)', () => {
  it('cuts the grace period once, waits only briefly for the record, and waits 10 s for the end', () => {
    const config = aConfig([hard, soft], { maxPodGraceSeconds: 60 });
    const verdicts = looks(
      config,
      memory(0, 150),
      memory(30_000, 150),
      memory(31_000, 50),
      memory(31_100, 50),
      memory(41_000, 50),
    );
    expect(verdicts.map(kinds)).toEqual([['set-condition'], ['evict'], ['hasten'], [], ['evict']]);
    expect(verdicts[2]?.decisions[0]).toMatchObject({ graceSeconds: 1, threshold: { isHard: true } });
    expect(verdicts[2]?.intentWaitMs).toBe(5);
  });
});

it('a ripe threshold waits for a new sample, and says from when the last one is', () => {
  const sample = known({ available: 50 * MI, capacity: NODE, sampledAtMs: 7 });
  const at = (ms: number) => anObservation(ms, { 'memory.available': sample }, { pods: known([]) });
  const [, second] = looks(aConfig([hard]), at(10), at(20));
  expect(second?.reasons).toContainEqual({ code: 'sample-not-new', signal: 'memory.available', sampledAtMs: 7 });
});

describe('min reclaim', () => {
  const config = aConfig([aThreshold('memory.available', 100 * MI, { minReclaimBytes: 50 * MI })]);
  it('never starts a threshold, keeps a ripe one met, and releases it at threshold plus min reclaim', () => {
    const done = (id: string): readonly Outcome[] => [
      { of: id, atMs: 0, kind: 'ended', via: 'sigkill', releasedBytes: known(0) },
    ];
    const verdicts = looks(
      config,
      memory(0, 120),
      memory(10_000, 90),
      memory(20_000, 140, { outcomes: done('boot-2') }),
      memory(30_000, 150, { outcomes: done('boot-3') }),
      memory(40_000, 140),
    );
    expect(verdicts.map((verdict) => evictions(verdict).length)).toEqual([0, 1, 1, 0, 0]);
    expect(evictions(verdicts[2])[0]?.message).toContain('Threshold quantity: 100Mi, available: 140Mi. ');
    expect(codes(verdicts[2])).toContain('min-reclaim-pending');
  });
});

describe('dry run', () => {
  it('decides once, then not again until the threshold is unmet', () => {
    const config = aConfig([hard]);
    const dropped = (of: string): readonly Outcome[] => [{ of, atMs: 0, kind: 'dropped', because: 'dry-run' }];
    const verdicts = looks(
      config,
      memory(0, 50),
      memory(1_000, 50, { outcomes: dropped('boot-2') }),
      memory(2_000, 50),
      memory(3_000, 500),
      memory(4_000, 50),
    );
    expect(verdicts.map((verdict) => evictions(verdict).length)).toEqual([1, 0, 0, 0, 1]);
  });
});

describe('the conditions', () => {
  it('stay true for the transition period, and not at its end', () => {
    const config = aConfig([hard], { pressureTransitionMs: 30_000 });
    const verdicts = looks(config, memory(0, 50), memory(10_000, 500), memory(29_000, 500), memory(30_000, 500));
    expect(verdicts.map(({ state }) => state.conditionLastMetMs.MemoryPressure !== undefined)).toEqual([
      true,
      true,
      true,
      false,
    ]);
    expect(verdicts[3]?.decisions).toMatchObject([
      { kind: 'set-condition', condition: 'MemoryPressure', status: false },
    ]);
  });

  it('do not end while the signal that was met cannot be read, and if it has recovered, with the first look that can (D5)', () => {
    const config = aConfig([hard], { pressureTransitionMs: 30_000 });
    const lost = (atMs: number) =>
      anObservation(atMs, { 'memory.available': unknown('stale', 'memory.stat', 'hangs') });
    const verdicts = looks(config, memory(0, 50), lost(29_000), lost(30_000), lost(90_000), memory(91_000, 500));
    expect(verdicts.map(kinds).slice(1)).toEqual([[], [], [], ['set-condition']]);
    expect(verdicts.map((verdict) => codes(verdict).includes('transition-period'))).toEqual([
      ...[false, true, false, false, false],
    ]);
    expect(verdicts[3]?.next.afterMs).toBeGreaterThan(0);
  });

  it('end while a signal cannot be read that was not met, or had recovered', () => {
    const config = aConfig([hard, hardPids], { pressureTransitionMs: 30_000 });
    const at = (atMs: number, availableMiB: number | null) =>
      anObservation(atMs, {
        'memory.available':
          availableMiB === null
            ? unknown('stale', 'memory.stat', 'hangs')
            : { available: availableMiB * MI, capacity: NODE },
        'pid.available': unknown('stale', 'loadavg', 'hangs'),
      });
    const verdicts = looks(config, at(0, 50), at(10_000, 500), at(20_000, null), at(30_000, null));
    expect(verdicts.map(kinds)).toEqual([['set-condition'], [], [], ['set-condition']]);
  });

  it('are looked at again when the first transition period ends', () => {
    const pace = { minMs: 2, maxMs: 600_000, cpuShare: 0.01, cpus: 2 };
    const conditionLastMetMs = { MemoryPressure: 59_000, DiskPressure: 10_000 };
    const state: State = { ...initialState('boot'), lastLookMs: 59_000, conditionLastMetMs };
    const { next } = decide(state, anObservation(60_000, {}), aConfig([], { pressureTransitionMs: 60_000, pace }));
    expect(next.afterMs).toBe(10_000);
  });
});

describe('a pod over its own storage limit', () => {
  it('is evicted without any pressure, and the next look is 20 ms later', () => {
    const over = aPod({ name: 'over', diskBytes: 9 * MI, ephemeralStorageLimit: quantityOfBytes(MI, 'binary') });
    const verdict = decide(initialState('boot'), anObservation(0, {}, { pods: known([over]) }), aConfig([]));
    expect(kinds(verdict)).toEqual(['evict-over-limit']);
    expect(verdict.next.afterMs).toBe(20);
  });

  it('names whom it takes along (D16), as do the text and the log', () => {
    const takesAlong = ['default/front', 'helper.service'];
    const limit = { ephemeralStorageLimit: quantityOfBytes(MI, 'binary') };
    const over = aPod({ name: 'over', diskBytes: 9 * MI, ...limit, takesAlong });
    const { decisions } = decide(initialState('boot'), anObservation(0, {}, { pods: known([over]) }), aConfig([]));
    expect(decisions).toMatchObject([{ kind: 'evict-over-limit', takesAlong }]);
    expect(decisions.map((decision) => sayDecision(decision)).join()).toContain(
      '; also stops default/front, helper.service',
    );
  });

  it('is not evicted while its end may reset the machine', () => {
    const limit = { ephemeralStorageLimit: quantityOfBytes(MI, 'binary') };
    const over = aPod({ name: 'over', diskBytes: 9 * MI, ...limit, limitedBy: 'ends-machine' });
    const { decisions } = decide(initialState('boot'), anObservation(0, {}, { pods: known([over]) }), aConfig([]));
    expect(decisions).toEqual([]);
  });

  it('is not evicted while that may also stop a pod that is protected or must not go for a disk, and that is said (D7)', () => {
    const limit = { ephemeralStorageLimit: quantityOfBytes(MI, 'binary') };
    const over = { name: 'over', diskBytes: 9 * MI, ...limit, isProtected: true, takesAlong: ['default/other'] };
    const spared = { limitSpares: 'default/other' };
    const beside = (rest: Partial<PodView>) => ({ pods: known([aPod({ ...over, ...rest })]) });
    const verdicts = looks(
      aConfig([hard]),
      anObservation(0, {}, beside(spared)),
      // Between two walks of the directories.
      anObservation(100, {}),
      anObservation(200, {}, beside({ ...spared, isStaticCritical: true })),
      anObservation(300, {}, beside({})),
      anObservation(400, {}),
    );
    expect(verdicts.map(kinds)).toEqual([[], [], [], ['evict-over-limit'], []]);
    const said = { code: 'limit-spared', uid: 'uid-over', pod: 'default/over', spares: 'default/other' };
    const all = verdicts.map(({ reasons }) => reasons.filter(({ code }) => code === 'limit-spared'));
    expect(all).toEqual([[said], [said], [said], [], []]);
    expect(readState(JSON.parse(JSON.stringify(verdicts[0]?.state)))).toEqual(verdicts[0]?.state);
  });

  it('is decided on once in a dry run, and anew after it was below its limit', () => {
    const using = (diskBytes: number) => {
      const limit = { ephemeralStorageLimit: quantityOfBytes(MI, 'binary') };
      return {
        pods: known([aPod({ name: 'over', diskBytes, ...limit }), aPod({ name: 'next', diskBytes: 9 * MI, ...limit })]),
      };
    };
    const dropped = ['boot-1', 'boot-2'].map((of): Outcome => ({ of, atMs: 0, kind: 'dropped', because: 'dry-run' }));
    const verdicts = looks(
      aConfig([]),
      anObservation(0, {}, using(9 * MI)),
      anObservation(1_000, {}, { ...using(9 * MI), outcomes: dropped }),
      anObservation(2_000, {}, using(0)),
      anObservation(3_000, {}, using(9 * MI)),
    );
    expect(verdicts.map((verdict) => kinds(verdict).length)).toEqual([2, 0, 0, 1]);
  });
});
