import { describe, expect, it } from 'vitest';
import { decide } from '../../../src/core/decide.ts';
import type { Observation } from '../../../src/core/observation.ts';
import type { Outcome } from '../../../src/core/outcome.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import { initialState, type State } from '../../../src/core/state/state.ts';
import { quantityOfBytes } from '../../../src/core/units/quantity.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../../a.ts';
import { codes, evictions, kinds, looks } from './looks.ts';

const NODE = 1_000 * MI;
const hard = aThreshold('memory.available', 100 * MI);
const leaker = aPod({ name: 'leaker', workingSetBytes: 300 * MI });

describe('a reclaim before any eviction', () => {
  const disk = (atMs: number, available: number, rest: Partial<Observation> = {}): Observation =>
    anObservation(
      atMs,
      { 'nodefs.available': { available: available * MI, capacity: NODE } },
      { pods: known([aPod({ name: 'filler', diskBytes: 9 * MI })]), ...rest },
    );
  const config = aConfig([aThreshold('nodefs.available', 100 * MI, { minReclaimBytes: 50 * MI })], {
    reclaimSignals: ['nodefs.available'],
  });
  const reclaimed: readonly Outcome[] = [{ of: 'boot-2', atMs: 0, kind: 'reclaimed', freed: known(1) }];

  it('is enough if the file system is back above threshold plus min reclaim', () => {
    const verdicts = looks(config, disk(0, 90), disk(1_000, 90), disk(2_000, 150, { outcomes: reclaimed }));
    expect(verdicts.map(kinds)).toEqual([['set-condition', 'reclaim'], [], []]);
    expect(codes(verdicts[2])).toEqual(['reclaim-sufficed']);
  });

  it('is followed by an eviction if it freed too little, with the reading from before it in the message', () => {
    const verdicts = looks(config, disk(0, 90), disk(2_000, 149, { outcomes: reclaimed }));
    expect(evictions(verdicts[1])[0]).toMatchObject({ victim: { name: 'filler' }, graceSeconds: 1 });
    expect(evictions(verdicts[1])[0]?.message).toContain('available: 90Mi. ');
  });

  it('is followed on a live node by an eviction for the reading after it', () => {
    const filler = (available: number, rest: Partial<Observation> = {}): Observation =>
      disk(available === 90 ? 0 : 2_000, available, { podsFor: 'nodefs.available', ...rest });
    const live = { ...config, isLive: true as const };
    const [, fuller] = looks(live, filler(90), filler(20, { outcomes: reclaimed }));
    expect(evictions(fuller)[0]).toMatchObject({ victim: { name: 'filler' }, threshold: { available: 20 * MI } });
    const [, held] = looks(live, filler(90), filler(149, { outcomes: reclaimed }));
    expect(evictions(held)[0]).toMatchObject({ threshold: { available: 149 * MI } });
  });

  it('is followed by nothing while the file system cannot be read, and is repeated if it is still too full then', () => {
    const low = { 'nodefs.available': unknown('timed-out', 'statfs /var', 'no answer within 2 s') };
    const pods = known([aPod({ name: 'filler', diskBytes: 9 * MI })]);
    const unread = (atMs: number, outcomes: readonly Outcome[] = []) => anObservation(atMs, low, { pods, outcomes });
    const live = { ...config, isLive: true as const };
    const recovered = looks(live, disk(0, 90), unread(2_000, reclaimed), unread(3_000), disk(4_000, 150));
    expect(recovered.map(kinds)).toEqual([['set-condition', 'reclaim'], [], [], []]);
    expect(codes(recovered[1])).toContain('signal-unknown');
    const full = looks(live, disk(0, 90), unread(2_000, reclaimed), disk(3_000, 90), disk(4_000, 90));
    expect(full.map(kinds)).toEqual([['set-condition', 'reclaim'], [], ['reclaim'], []]);
  });

  it.each([
    ['nodefs-only', 'nodefs.available', ['containers', 'images']],
    ['imagefs-separate', 'nodefs.available', null],
    ['imagefs-separate', 'imagefs.available', ['containers', 'images']],
    ['containerfs-separate', 'imagefs.available', ['images']],
    ['containerfs-separate', 'nodefs.available', ['containers']],
  ] as const)(
    'has the container runtime, if there is one, remove what it stores there: %s, %s',
    (layout, signal, calls) => {
      const threshold = aThreshold(signal, 100 * MI);
      const low = { [signal]: { available: 90 * MI, capacity: NODE } };
      const start = anObservation(0, low, { fsLayout: known(layout), pods: known([aPod({ name: 'filler' })]) });
      const [verdict] = looks(aConfig([threshold], { hasRuntime: true }), start);
      const reclaim = verdict?.decisions.find(({ kind }) => kind === 'reclaim');
      expect(reclaim).toEqual(calls === null ? undefined : expect.objectContaining({ calls }));
      const [without] = looks(aConfig([threshold]), start);
      expect(without?.decisions.map(({ kind }) => kind)).not.toContain('reclaim');
    },
  );

  describe('in vain, with no pod to evict', () => {
    const none = { pods: known([]), podsFor: 'nodefs.available' } as const;
    const live = { ...config, isLive: true as const };
    /** One look a second; each reclaim ends before the next look. */
    const reclaimsAt = (freed: number, toSecond: number, more: (atMs: number) => Partial<Observation> = () => ({})) => {
      const at: number[] = [];
      let state = initialState('boot');
      let running: string | null = null;
      for (let atMs = 0; atMs <= toSecond * 1_000; atMs += 1_000) {
        const ended = running === null ? [] : [{ of: running, atMs, kind: 'reclaimed' as const, freed: known(freed) }];
        const verdict = decide(state, disk(atMs, 90, { ...none, outcomes: ended, ...more(atMs) }), live);
        const reclaim = verdict.decisions.find(({ kind }) => kind === 'reclaim');
        running = reclaim?.id ?? null;
        if (reclaim !== undefined) at.push(atMs / 1_000);
        state = verdict.state;
      }
      return at;
    };

    it('is repeated after 10 s, and after a pause that doubles up to a minute, so that the record is not flooded', () => {
      expect(reclaimsAt(0, 200)).toEqual([0, 11, 32, 73, 134, 195]);
    });

    it('is repeated at once if it freed something, or before a pod is evicted', () => {
      expect(reclaimsAt(MI, 6)).toEqual([0, 2, 4, 6]);
      const filler = known([aPod({ name: 'filler', diskBytes: 9 * MI })]);
      const grown = (atMs: number) => (atMs < 5_000 ? {} : { pods: filler });
      expect(reclaimsAt(0, 6, grown)).toEqual([0, 5]);
    });
  });

  it('does not delay a memory threshold', () => {
    const both = { ...config, thresholds: [...config.thresholds, hard] };
    const start = looks(both, disk(0, 90))[0];
    const burning = anObservation(
      500,
      {
        'nodefs.available': { available: 90 * MI, capacity: NODE },
        'memory.available': { available: MI, capacity: NODE },
      },
      { pods: known([leaker]) },
    );
    const verdict = decide(start?.state ?? initialState('boot'), burning, both);
    expect(evictions(verdict)[0]?.threshold.signal).toBe('memory.available');
  });

  it('that is over does not delay one either while the directories are being measured, and is judged after that', () => {
    const both = { ...config, thresholds: [...config.thresholds, hard], isLive: true as const };
    const low = (available: number) => ({
      'nodefs.available': { available: 90 * MI, capacity: NODE },
      'memory.available': { available: available * MI, capacity: NODE },
    });
    const at = (atMs: number, memory: number, rest: Partial<Observation>) => anObservation(atMs, low(memory), rest);
    const measuring = { pods: unknown('timed-out', 'directories', 'their usage is being measured') };
    const notWalked = { disk: unknown('not-asked', 'disk', 'nobody needed it yet') };
    const unmeasured = aPod({ name: 'leaker', workingSetBytes: 300 * MI, usage: notWalked });
    const filler = aPod({ name: 'filler', diskBytes: 9 * MI });
    const verdicts = looks(
      both,
      at(0, 500, { pods: known([filler]) }),
      at(500, 1, { ...measuring, outcomes: reclaimed }),
      at(510, 1, { pods: known([unmeasured]), podsFor: 'memory.available' }),
      at(600, 500, { pods: known([filler]), podsFor: 'nodefs.available' }),
    );
    expect(verdicts[1]?.next.pods).toBe('memory.available');
    expect(evictions(verdicts[2])[0]?.threshold.signal).toBe('memory.available');
    expect(evictions(verdicts[3])[0]?.threshold.signal).toBe('nodefs.available');
  });
});

describe('a disk threshold', () => {
  const low = (atMs: number, pods: Observation['pods'], sampledAtMs = atMs): Observation =>
    anObservation(atMs, { 'nodefs.available': known({ available: MI, capacity: NODE, sampledAtMs }) }, { pods });
  const config = aConfig([aThreshold('nodefs.available', 100 * MI)]);
  const notWalked = unknown('not-asked', 'disk', 'nobody needed it yet');
  const hog = aPod({ name: 'hog', usage: { disk: notWalked } });
  const small = aPod({ name: 'small', priority: 1_000, diskBytes: 1 });

  it('does not rank by directories that were not measured for it, but asks for them', () => {
    const measured = known([small, aPod({ name: 'hog', diskBytes: 9 * MI })]);
    const [first, second] = looks(config, low(0, known([small, hog])), low(1, measured, 0));
    expect(first?.next).toEqual({ afterMs: 0, pods: 'nodefs.available', isDiskNear: true, isDiskShort: true });
    expect(evictions(second).map(({ victim }) => victim.name)).toEqual(['hog']);
  });

  it('does not rank by processes that were not counted for it, but asks for them', () => {
    const few = { 'pid.available': known({ available: 1, capacity: 1_000, sampledAtMs: 0 }) };
    const notCounted = unknown('not-asked', 'cgroup.procs', 'not asked');
    const innocent = aPod({ name: 'innocent', usage: { processes: notCounted } });
    const bomb = aPod({ name: 'bomb', priority: 1_000, usage: { processes: notCounted } });
    const [first] = looks(
      aConfig([aThreshold('pid.available', 100)]),
      anObservation(0, few, { pods: known([innocent, bomb]) }),
    );
    expect(first?.next).toMatchObject({ afterMs: 0, pods: 'pid.available' });
    expect(evictions(first)).toEqual([]);
  });

  it('keeps asking, and keeps its sample, while the directories are being measured', () => {
    const measuring = unknown('timed-out', 'directories', 'their usage is being measured');
    const verdicts = looks(config, low(0, measuring), low(250, measuring, 0), low(500, known([small]), 0));
    expect(verdicts.slice(0, 2).map(({ next }) => next.pods)).toEqual(['nodefs.available', 'nodefs.available']);
    expect(codes(verdicts[1])).toContain('pods-unknown');
    expect(evictions(verdicts[2])).toHaveLength(1);
  });

  it('does not delay a memory threshold that is met while the directories are being measured', () => {
    const measuring = unknown('timed-out', 'directories', 'their usage is being measured');
    const both = aConfig([aThreshold('nodefs.available', 100 * MI), hard], { isLive: true });
    const burning = {
      'nodefs.available': { available: 90 * MI, capacity: NODE },
      'memory.available': { available: MI, capacity: NODE },
    };
    const [first] = looks(both, anObservation(0, burning, { pods: measuring, podsFor: 'nodefs.available' }));
    expect(first?.next).toMatchObject({ afterMs: 0, pods: 'memory.available' });
    const [again] = looks(both, anObservation(0, burning, { pods: measuring, podsFor: 'memory.available' }));
    expect(again?.next).toMatchObject({ afterMs: 250, pods: 'memory.available' });
  });
});

describe('while it is not known which file systems images and layers are on', () => {
  const fsLayout = unknown('timed-out', 'imagefs.path', 'no answer within 5 s');
  const none = { logsBytes: 0, rootfsBytes: 0, volumesBytes: 0, logsInodes: 0, rootfsInodes: 0, volumesInodes: 0 };
  const builder = aPod({ name: 'builder', usage: { disk: known({ ...none, rootfsBytes: 50 * MI }) } });
  const logger = aPod({ name: 'logger', usage: { disk: known({ ...none, logsBytes: 20 * MI }) } });
  const config = aConfig([aThreshold('nodefs.available', 100 * MI)], { isLive: true, hasRuntime: true });
  const low = { 'nodefs.available': { available: 99 * MI, capacity: NODE } };
  const look = (atMs: number, rest: Partial<Observation>) =>
    anObservation(atMs, low, { pods: known([builder, logger]), podsFor: 'nodefs.available', ...rest });

  it('no pod is evicted for a disk and no image removed, and a later look with the same sample acts', () => {
    const verdicts = looks(config, look(0, { fsLayout }), look(250, { fsLayout: known('imagefs-separate') }));
    expect(verdicts.map(kinds)).toEqual([['set-condition'], ['evict']]);
    expect(codes(verdicts[0])).toEqual(['below-threshold', 'pods-unknown']);
    expect(verdicts[0]?.next).toMatchObject({ pods: 'nodefs.available', afterMs: 250 });
    expect(evictions(verdicts[1])[0]?.victim.name).toBe('logger');
  });

  it('nor is one of pods that could not be measured at all', () => {
    const late = { disk: unknown('timed-out', 'disk of the pod', 'it has not been measured yet') };
    const pods = known([aPod({ name: 'first', usage: late }), aPod({ name: 'second', usage: late })]);
    const verdicts = looks(config, look(0, { fsLayout, pods }), look(250, { fsLayout, pods }));
    expect(verdicts.flatMap(evictions)).toEqual([]);
    expect(codes(verdicts[1])).toContain('pods-unknown');
  });

  it('a pod is evicted if what was measured is about the file system, and one for memory all the same', () => {
    const filler = aPod({
      name: 'filler',
      usage: { disk: known({ ...none, volumesBytes: 9 * MI, isOfFileSystem: true }) },
    });
    expect(looks(config, look(0, { fsLayout, pods: known([filler]) })).map(kinds)).toEqual([
      ['set-condition', 'evict'],
    ]);
    const signals = { ...low, 'memory.available': { available: MI, capacity: NODE } };
    const both = aConfig([...config.thresholds, hard], { isLive: true });
    const observation = { fsLayout, pods: known([builder, leaker]), podsFor: 'memory.available' } as const;
    const [verdict] = looks(both, anObservation(0, signals, observation));
    expect(evictions(verdict).map(({ victim }) => victim.name)).toEqual(['leaker']);
  });

  it.each(['memory.available', 'pid.available'] as const)('a reclaim for %s is judged all the same', (signal) => {
    const isMemory = signal === 'memory.available';
    const other = isMemory ? hard : aThreshold(signal, 1_000);
    const both = aConfig([...config.thresholds, other], {
      isLive: true,
      reclaimSignals: ['nodefs.available', signal],
    });
    const hog = aPod({ name: 'hog', workingSetBytes: 300 * MI, processes: 29_000 });
    const counted = { ...hog, usage: { ...builder.usage, ...hog.usage, disk: builder.usage.disk } };
    const notCounted = { ...counted, usage: { ...counted.usage, processes: unknown('not-asked', 'pids', 'no') } };
    let state = initialState('boot');
    let podsFor: NonNullable<Observation['podsFor']> | null = null;
    const step = (atMs: number, available: number, outcomes: readonly Outcome[] = []) => {
      const pods = known([podsFor === signal ? counted : notCounted]);
      const signals = { ...low, [signal]: { available, capacity: NODE } };
      const verdict = decide(state, anObservation(atMs, signals, { fsLayout, pods, podsFor, outcomes }), both);
      ({ state } = verdict);
      podsFor = verdict.next.pods;
      return verdict;
    };
    const over = (of: string | undefined): readonly Outcome[] => [
      { of: of ?? '', atMs: 0, kind: 'reclaimed', freed: known(0) },
    ];
    const reclaimOf = ({ decisions }: ReturnType<typeof step>) => decisions.find(({ kind }) => kind === 'reclaim')?.id;
    const enough = NODE;
    const ofDisk = reclaimOf(step(0, enough));
    step(250, enough, over(ofDisk));
    const ofOther = reclaimOf(step(500, 10));
    expect([ofDisk, ofOther]).not.toContain(undefined);
    const verdicts = [step(750, 10, over(ofOther)), step(760, 10)];
    expect(verdicts.flatMap(evictions).map(({ threshold }) => threshold.signal)).toEqual([signal]);
    expect(state.reclaims.map(({ threshold }) => threshold.signal)).toEqual(['nodefs.available']);
  });

  it('a layer does not count for the limit of a container', () => {
    const limit = quantityOfBytes(10 * MI, 'binary');
    const used = { name: 'main', workingSetBytes: known(0), logsBytes: known(0), rootfsBytes: known(50 * MI) };
    const amounts = { memory: null, ephemeralStorage: null };
    const spec = {
      name: 'main',
      kind: 'app' as const,
      requests: amounts,
      limits: { ...amounts, ephemeralStorage: limit },
    };
    const pod = aPod({ name: 'builder', containers: [spec], usage: { containers: known([used]) } });
    const enforcing = aConfig([], { localStorageLimits: 'enforce' });
    const over = (of: Partial<Observation>) =>
      looks(enforcing, anObservation(0, {}, { pods: known([pod]), ...of })).map(kinds);
    expect(over({})).toEqual([['evict-over-limit']]);
    expect(over({ fsLayout })).toEqual([[]]);
  });
});

describe('process IDs and a disk that are short, while nobody may be evicted for either', () => {
  const thresholds = [aThreshold('pid.available', 1_000), aThreshold('nodefs.available', 100 * MI)];
  const config = aConfig(thresholds, { isLive: true });
  const none = { bytes: known(0), inodes: known(0) };
  const nothing = { scratch: none, deletedOpen: none, grownLastMinute: none, writtenBytes: known(0) };
  const notAsked = unknown('not-asked', 'the pod', 'it was read for another threshold');
  const critical = { ...aPod({ name: 'critical', diskBytes: GI }), isStaticCritical: true };
  type Asked = ReturnType<typeof decide>['next']['pods'];
  /** What is read of the pods if they are read for this. */
  const podsFor = (asked: Asked, isWalked: boolean): Partial<Observation> => {
    if (asked === null) return {};
    if (asked !== 'nodefs.available')
      return { podsFor: asked, pods: known([{ ...critical, usage: { ...critical.usage, disk: notAsked } }]) };
    if (!isWalked) return { podsFor: asked, pods: unknown('timed-out', 'disk', 'directories are being walked') };
    const { usage } = critical;
    return {
      podsFor: asked,
      pods: known([{ ...critical, diskRelief: known(nothing), usage: { ...usage, processes: notAsked } }]),
    };
  };
  const lookAt = (state: State, atMs: number, pids: number, rest: Partial<Observation>) => {
    const signals = {
      'pid.available': { available: pids, capacity: 32_768 },
      'nodefs.available': { available: 90 * MI, capacity: 10 * GI },
    };
    return decide(state, anObservation(atMs, signals, rest), config);
  };

  it.each([
    ['for as long as that lasts', true],
    ['while its directories are walked', false],
  ])('are looked at by turns, a few times a second, %s', (_, isWalked) => {
    const lookedFor: Asked[] = [];
    let verdict = lookAt(initialState('boot'), 0, 500, {});
    for (let atMs = 0; atMs < 10_000; atMs += Math.max(1, verdict.next.afterMs)) {
      const asked = verdict.next.pods;
      lookedFor.push(asked);
      verdict = lookAt(verdict.state, atMs, 500, podsFor(asked, isWalked));
    }
    expect(lookedFor.length).toBeLessThan(100);
    for (const signal of ['pid.available', 'nodefs.available'])
      expect(lookedFor.filter((asked) => asked === signal).length).toBeGreaterThan(9);
  });

  it('have the pods read at once for the one that becomes short last', () => {
    const first = lookAt(initialState('boot'), 0, 5_000, podsFor('nodefs.available', true));
    const { next } = lookAt(first.state, 1_000, 500, podsFor('nodefs.available', true));
    expect(next).toMatchObject({ pods: 'pid.available', afterMs: 0 });
  });
});
