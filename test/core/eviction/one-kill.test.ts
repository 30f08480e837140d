import { describe, expect, it } from 'vitest';
import { decide } from '../../../src/core/decide.ts';
import type { Observation } from '../../../src/core/observation.ts';
import type { Heard } from '../../../src/core/outcome.ts';
import type { PodView } from '../../../src/core/pod/pod.ts';
import { known } from '../../../src/core/reading.ts';
import { initialState } from '../../../src/core/state/state.ts';
import { quantityOfBytes } from '../../../src/core/units/quantity.ts';
import type { Verdict } from '../../../src/core/verdict.ts';
import { sayReason } from '../../../src/words/reason.ts';
import { aConfig, anObservation, aPod, aThreshold, MI } from '../../a.ts';
import {
  aCore,
  CAPACITY,
  codes,
  database,
  differences,
  ended,
  hardDisk,
  hardMemory,
  hardPids,
  hastened,
  idOf,
  leaker,
  sent,
  softDisk,
  softMemory,
  victims,
  writer,
} from './a-live-core.ts';

describe('one proven kill at a time for each resource (D3)', () => {
  it('memory and process IDs do not wait for a disk', () => {
    const bomb = aPod({ name: 'bomb', processes: 29_000 });
    const { look } = aCore(aConfig([hardMemory, hardDisk, hardPids]), [leaker, writer, bomb, database]);
    const disk = look(0, { nodefs: 50 });
    expect(victims(disk)).toEqual(['writer']);
    const memory = look(10, { nodefs: 50, memory: 50, heard: [sent(idOf(disk), 5, 'sigterm')] });
    expect(victims(memory)).toEqual(['leaker']);
    expect(victims(look(20, { nodefs: 50, memory: 50, pids: 500 }))).toEqual(['bomb']);
    expect(victims(look(30, { nodefs: 40, memory: 40, pids: 400 }))).toEqual([]);
  });

  it('a disk gets its turn while memory waits or has no candidate', () => {
    const { look } = aCore(aConfig([hardMemory, hardDisk]), [writer, { ...leaker, isStaticCritical: true }]);
    expect(victims(look(0, { memory: 50, nodefs: 50 }))).toEqual(['writer']);
    const other = aCore(aConfig([hardMemory, hardDisk]));
    expect(victims(other.look(0, { memory: 50, nodefs: 50 }))).toEqual(['leaker']);
    expect(victims(other.look(2, { memory: 50, nodefs: 50 }))).toEqual(['writer']);
  });

  it('a reclaim for a disk holds back only that disk, and continues', () => {
    const { look } = aCore(aConfig([hardMemory, hardDisk], { reclaimSignals: ['nodefs.available'] }));
    expect(look(0, { nodefs: 50 }).decisions.map(({ kind }) => kind)).toContain('reclaim');
    const memory = look(10, { nodefs: 50, memory: 50 });
    expect(victims(memory)).toEqual(['leaker']);
    expect(codes(look(20, { nodefs: 50, memory: 50 }))).toContain('reclaim-running');
    // Heard in the look that judges the reclaim: the victim of memory is not forgotten, nor waited for any more.
    const freed: Heard = { of: 'boot-2', atMs: 25, kind: 'reclaimed', freed: known(0) };
    const judged = look(30, { nodefs: 50, memory: 500, heard: [freed, ended(idOf(memory), 28)] });
    expect(victims(judged)).toEqual(['writer']);
    expect(judged.state.reclaims).toEqual([]);
    expect(judged.state.act).toMatchObject({ evictions: [{ victim: { name: 'writer' } }] });
  });

  it('a reclaim waits for a pod that ends for that disk or over its own limit, not for one that ends for memory', () => {
    const config = aConfig([hardMemory, hardDisk], { reclaimSignals: ['nodefs.available'] });
    const over = aPod({ name: 'over', diskBytes: 9 * MI, ephemeralStorageLimit: quantityOfBytes(MI, 'binary') });
    const kinds = ({ decisions }: Verdict) => decisions.map(({ kind }) => kind);
    const limited = aCore(config, [over, writer]);
    expect(kinds(limited.look(0, {}))).toEqual(['evict-over-limit']);
    expect(codes(limited.look(10, { nodefs: 50 }))).toContain('waiting-for-victim');
    const memory = aCore(config);
    expect(victims(memory.look(0, { memory: 50 }))).toEqual(['leaker']);
    expect(kinds(memory.look(10, { memory: 50, nodefs: 50 }))).toContain('reclaim');
  });

  it('a reclaim that ends leaves that of another disk running', () => {
    const thresholds = [hardDisk, aThreshold('imagefs.available', 100 * MI)];
    const config = aConfig(thresholds, { isLive: true, reclaimSignals: ['nodefs.available', 'imagefs.available'] });
    const sample = (mib: number) => ({ available: mib * MI, capacity: CAPACITY });
    let state = initialState('boot');
    const look = (atMs: number, nodefs: number, outcomes: readonly Heard[] = []) => {
      const signals = { 'nodefs.available': sample(nodefs), 'imagefs.available': sample(50) };
      const rest = { pods: known([writer]), fsLayout: known('imagefs-separate' as const), outcomes };
      const verdict = decide(state, anObservation(atMs, signals, rest), config);
      state = verdict.state;
      return verdict;
    };
    const reclaims = [look(0, 50), look(10, 50)].flatMap(({ decisions }) =>
      decisions.filter(({ kind }) => kind === 'reclaim'),
    );
    expect(reclaims).toHaveLength(2);
    const freed: Heard = { of: reclaims[0]?.id ?? '', atMs: 15, kind: 'reclaimed', freed: known(MI) };
    expect(codes(look(20, 500, [freed]))).toContain('reclaim-sufficed');
    expect(state.reclaims.map(({ decision }) => decision)).toEqual([reclaims[1]?.id]);
  });

  it('a reclaim that freed its disk suffices even if memory is short', () => {
    const { look } = aCore(aConfig([hardMemory, hardDisk], { reclaimSignals: ['nodefs.available'] }));
    look(0, { nodefs: 50 });
    const freed: Heard = { of: 'boot-2', atMs: 5, kind: 'reclaimed', freed: known(MI) };
    const judged = look(10, { nodefs: 500, memory: 50, heard: [freed] });
    expect(codes(judged)).toContain('reclaim-sufficed');
    expect(victims(judged)).toEqual([]);
  });

  it('a resource waits for a pod that another one already stops, and hastens it', () => {
    const both = aPod({ name: 'both', workingSetBytes: 900 * MI, diskBytes: 900 * MI, terminationGraceSeconds: 60 });
    const config = aConfig([hardMemory, softMemory, softDisk], { maxPodGraceSeconds: 60 });
    const { look } = aCore(config, [both, database]);
    look(0, { nodefs: 150 });
    const disk = look(1_000, { nodefs: 150 });
    expect(victims(disk)).toEqual(['both']);
    const memory = look(2_000, { nodefs: 150, memory: 50, heard: [sent(idOf(disk), 1_001, 'sigterm')] });
    expect(victims(memory)).toEqual([]);
    expect(hastened(memory)).toMatchObject([{ eviction: idOf(disk), threshold: { signal: 'memory.available' } }]);
    expect(memory.state.act).toMatchObject({ evictions: [{ graceEndsMs: 2_000 }] });
    const next = look(2_100, { nodefs: 150, memory: 40 });
    expect(next.decisions).toEqual([]);
    expect(codes(next)).toContain('waiting-for-victim');
  });
});

describe('a victim whose zombies nobody reaps', () => {
  const bomb = aPod({ name: 'bomb', processes: 100 });
  const small = aPod({ name: 'small', processes: 1 });
  /** Killed at 5 ms; from then on 200 process ids a second are taken, by the bomb itself or by others. */
  const taken = (by: 'itself' | 'others'): readonly string[] => {
    const { look, hold } = aCore(aConfig([hardPids]), [bomb, small]);
    const first = look(0, { pids: 990 });
    const all = [first, look(10, { pids: 990, heard: [sent(idOf(first), 5, 'sigkill')] })];
    for (let ms = 100; ms < 3_000; ms += 100) {
      hold('bomb', by === 'itself' ? 100 + ms / 5 : 100);
      all.push(look(ms, { pids: 990 - ms / 5 }));
    }
    return all.flatMap(victims);
  };

  it('is waited for if it took what is lacking itself', () => {
    expect(taken('itself')).toEqual(['bomb']);
  });

  it('is no longer waited for if others take it', () => {
    expect(taken('others')).toEqual(['bomb', 'small']);
  });

  it('is waited for again if its threshold was unmet only for a moment', () => {
    const { look, hold } = aCore(aConfig([hardPids]), [bomb, small]);
    const first = look(0, { pids: 990 });
    look(10, { pids: 1_000, heard: [sent(idOf(first), 5, 'sigkill')] });
    hold('bomb', 300);
    const again = look(2_900, { pids: 790 });
    expect(victims(again)).toEqual([]);
    expect(codes(again)).toContain('waiting-for-victim');
    const over = look(3_010, { pids: 790, heard: [ended(idOf(first), 3_005)] });
    expect(victims(over)).toEqual([]);
    expect(codes(over)).toContain('clean-up-wait');
  });
});

describe('a victim that does not die', () => {
  /** Leaker is killed at 0; from then on so many MiB are left, 100 ms apart. */
  const falling = (mib: (ms: number) => number, isEmptied = false) => {
    const { look, empty } = aCore(aConfig([hardMemory]), [leaker, database]);
    const first = look(0, { memory: mib(0) });
    if (isEmptied) empty('leaker');
    const all = [first, look(10, { memory: mib(10), heard: [sent(idOf(first), 5, 'sigkill')] })];
    for (let ms = 100; ms <= 6_000; ms += 100) all.push(look(ms, { memory: mib(ms) }));
    return all.flatMap((verdict) => victims(verdict).map((name) => ({ name, atMs: verdict.state.lastLookMs })));
  };

  it('holds nobody back one second after its SIGKILL if the signal would reach zero within 10 s', () => {
    expect(falling((ms) => 95 - (ms * 10) / 1_000, true)).toEqual([
      { name: 'leaker', atMs: 0 },
      { name: 'database', atMs: 1_100 },
    ]);
  });

  it('holds everybody back while the signal has not fallen since it was killed', () => {
    expect(falling((ms) => 95 - Math.min(ms, 300) / 5, true)).toEqual([{ name: 'leaker', atMs: 0 }]);
  });

  it('holds everybody back while the signal is stable', () => {
    expect(falling(() => 90)).toEqual([{ name: 'leaker', atMs: 0 }]);
  });

  it('counts as about to be freed for 3 s: nobody else is chosen while that is enough', () => {
    expect(falling((ms) => 95 - (ms * 10) / 1_000)).toEqual([
      { name: 'leaker', atMs: 0 },
      { name: 'database', atMs: 3_100 },
    ]);
  });
});

describe.each([
  ['whose sandbox lives', true],
  ['that has no process left', false],
])('a dead victim that waits for the unmount of its memory volumes (D3): one %s', (_, isSandboxAlive) => {
  /** It holds so many MiB, and 95 that are available fall by so many a second. */
  const chosenBeside = (other: PodView, held: number, fallsBy: number, toMs: number): readonly string[] => {
    const { look, lose, use, limit } = aCore(aConfig([hardMemory]), [leaker, other]);
    const id = idOf(look(0, { memory: 95 }));
    if (isSandboxAlive) {
      use('leaker', { workingSetBytes: known(held * MI) });
      limit('leaker', 'finished');
    } else lose('leaker');
    const left = isSandboxAlive ? {} : { comesBack: { leaker: held } };
    const unmount: Heard = { of: id, atMs: 60, kind: 'signalled', with: 'unmount' };
    const looks = [look(100, { memory: 95, heard: [sent(id, 5, 'sigkill'), unmount], ...left })];
    for (let ms = 200; ms <= toMs; ms += 100) looks.push(look(ms, { memory: 95 - (ms * fallsBy) / 1_000, ...left }));
    return looks.flatMap(victims);
  };
  const within = { ...database, requests: { memoryBytes: 500 * MI, ephemeralStorageBytes: 0 } };

  it('is no reason to evict a pod within its request for what it holds, however fast memory falls', () => {
    expect([chosenBeside(within, 900, 10, 9_000), chosenBeside(within, 60, 20, 2_500)]).toEqual([[], []]);
    expect(chosenBeside(within, 20, 20, 4_000)).toEqual(['database']);
  });

  it('holds back others only while it is about to be freed', () => {
    expect([chosenBeside(database, 900, 10, 3_000), chosenBeside(database, 900, 10, 3_100)]).toEqual([
      [],
      ['database'],
    ]);
  });
});

describe('the time of a victim', () => {
  it('begins with its first signal: nobody is chosen within its grace period, however late that signal was', () => {
    const { look } = aCore(aConfig([softMemory], { maxPodGraceSeconds: 5 }));
    look(0, { memory: 150 });
    const first = look(1_000, { memory: 150 });
    look(9_000, { memory: 150, heard: [sent(idOf(first), 8_900, 'sigterm')] });
    for (let ms = 9_100; ms < 23_900; ms += 100) expect(victims(look(ms, { memory: 150 }))).toEqual([]);
    expect(victims(look(23_900, { memory: 150 }))).toEqual(['database']);
  });

  it('is not over because the threshold was unmet for a moment', () => {
    const { look } = aCore(aConfig([hardMemory]));
    look(0, { memory: 50 });
    look(10, { memory: 300 });
    expect(victims(look(20, { memory: 50 }))).toEqual([]);
  });

  it('is longer by that of the evidence for a soft eviction, whose first signal may be late after that, too', () => {
    const { look } = aCore(aConfig([softMemory], { maxPodGraceSeconds: 5 }));
    look(0, { memory: 150 });
    const first = look(1_000, { memory: 150 });
    // The command took all its 6 s, and systemd 5 s to answer.
    for (let ms = 1_100; ms <= 12_000; ms += 100) expect(victims(look(ms, { memory: 150 }))).toEqual([]);
    look(12_100, { memory: 150, heard: [sent(idOf(first), 12_000, 'sigterm')] });
    expect(victims(look(26_900, { memory: 150 }))).toEqual([]);
    expect(victims(look(27_000, { memory: 150 }))).toEqual(['database']);
  });

  it('is not longer once a hard threshold no longer waits for the evidence', () => {
    const { look } = aCore(aConfig([softMemory, hardMemory], { maxPodGraceSeconds: 5 }));
    look(0, { memory: 150 });
    look(1_000, { memory: 150 });
    look(2_000, { memory: 50 });
    expect(victims(look(11_999, { memory: 50 }))).toEqual([]);
    expect(victims(look(12_000, { memory: 50 }))).toEqual(['database']);
  });

  it('is 10 s if no signal can be sent; then that is said, and the next pod is chosen', () => {
    const { look } = aCore(aConfig([hardMemory]));
    const first = look(0, { memory: 50 });
    expect(victims(look(9_999, { memory: 50 }))).toEqual([]);
    const late = look(10_000, { memory: 50 });
    expect(victims(late)).toEqual(['database']);
    const reason = late.reasons.find(({ code }) => code === 'not-signalled');
    expect(reason).toEqual({ code: 'not-signalled', eviction: idOf(first), uid: 'uid-leaker' });
    expect(reason && sayReason(reason, () => 'default/leaker')).toBe(
      `eviction ${idOf(first)}: default/leaker could not be signalled in time: no longer waiting for it`,
    );
  });
});

describe('after a proven kill that did not end the pressure (D15)', () => {
  /** Leaker is proven dead at 20 with 90 MiB left. */
  const begun = (config = aConfig([hardMemory])) => {
    const core = aCore(config, [leaker, aPod({ name: 'small', workingSetBytes: 50 * MI }), database]);
    const first = core.look(0, { memory: 50 });
    core.lose('leaker');
    core.look(20, { memory: 90, heard: [sent(idOf(first), 2, 'sigkill'), ended(idOf(first), 15)] });
    return core;
  };

  it('nobody is chosen for 30 s while the signal is stable, and the reason is given', () => {
    const { look } = begun();
    const waiting = look(40, { memory: 90 });
    expect(waiting.reasons).toContainEqual({
      code: 'clean-up-wait',
      signal: 'memory.available',
      eviction: 'boot-2',
      remainingMs: 29_980,
    });
    expect(waiting.next.afterMs).toBe(20);
    for (let ms = 100; ms < 30_000; ms += 100) expect(victims(look(ms, { memory: 88 + (ms % 300) / 100 }))).toEqual([]);
    expect(victims(look(30_020, { memory: 90 }))).toEqual(['small']);
  });

  it.each([
    ['the next is chosen at once if others took all that it gave back', 900 * MI, ['small']],
    ['nobody is chosen if it gave back next to nothing', 99 * MI, []],
  ])('%s, and nothing is left', (_, releasedBytes, next) => {
    const core = aCore(aConfig([hardMemory]), [leaker, aPod({ name: 'small', workingSetBytes: 50 * MI }), database]);
    const first = core.look(0, { memory: 50 });
    core.lose('leaker');
    const end = { ...ended(idOf(first), 15), releasedBytes: known(releasedBytes) };
    const proven = core.look(20, { memory: 0, heard: [sent(idOf(first), 2, 'sigkill'), end] });
    expect([...victims(proven), ...victims(core.look(40, { memory: 0 }))]).toEqual(next);
  });

  it.each([
    ['nobody is chosen if it is no worse than then any more', 90, []],
    ['the next pod is chosen if it is still worse', 40, ['small']],
  ])('%s after a reclaim that began because it was', (_, then, next) => {
    const core = aCore(aConfig([hardMemory]), [leaker, aPod({ name: 'small', workingSetBytes: 50 * MI }), database]);
    const first = core.look(0, { memory: 50 });
    core.lose('leaker');
    core.look(20, { memory: 90, heard: [sent(idOf(first), 2, 'sigkill'), ended(idOf(first), 15)] });
    const reclaims = { reclaimSignals: ['memory.available'] as const };
    const [reclaim] = core.look(1_000, { memory: 40 }, reclaims).decisions;
    const heard = [{ of: reclaim?.id ?? '', atMs: 1_100, kind: 'reclaimed' as const, freed: known(MI) }];
    const judged = core.look(1_200, { memory: then, heard }, reclaims);
    expect([reclaim?.kind, victims(judged)]).toEqual(['reclaim', next]);
  });

  describe('or after a reclaim from 40 MiB, with a soft threshold at 200', () => {
    const reclaims = { reclaimSignals: ['memory.available'] as const };
    const judgedAt = (then: number, graceMs: number, isAfterKill = false) => {
      const config = aConfig([hardMemory, aThreshold('memory.available', 200 * MI, { graceMs })]);
      const core = aCore(config, isAfterKill ? [leaker, database] : [database]);
      if (isAfterKill) {
        const first = core.look(0, { memory: 50 });
        core.lose('leaker');
        core.look(20, { memory: 90, heard: [sent(idOf(first), 2, 'sigkill'), ended(idOf(first), 15)] });
      }
      const { decisions } = core.look(1_000, { memory: 40 }, reclaims);
      const of = decisions.find(({ kind }) => kind === 'reclaim')?.id ?? 'none';
      const heard = [{ of, atMs: 1_100, kind: 'reclaimed' as const, freed: known(80 * MI) }];
      return core.look(1_200, { memory: then, heard }, reclaims);
    };

    it.each([
      ['nobody is chosen for the hard one, which is no longer met', false],
      ['neither after a kill', true],
    ])('%s', (_, isAfterKill) => {
      expect(victims(judgedAt(120, 3_600_000, isAfterKill))).toEqual([]);
    });

    it('it is reclaimed for the soft one, too, if the grace period of that is over', () => {
      const { decisions } = judgedAt(120, 100);
      expect(decisions.filter(({ kind }) => kind === 'reclaim')).toHaveLength(1);
    });

    it('somebody is chosen for the hard one if it is still met', () => {
      expect(victims(judgedAt(40, 3_600_000))).toEqual(['database']);
    });
  });

  it.each([
    ['nobody is chosen while it is stable', 90, []],
    ['the next pod is chosen once it is worse than then', 80, ['small']],
  ])('%s, if the signal can be read only after the proof', (_, then, next) => {
    const core = aCore(aConfig([hardMemory]), [leaker, aPod({ name: 'small', workingSetBytes: 50 * MI }), database]);
    const first = core.look(0, { memory: 50 });
    core.lose('leaker');
    core.look(20, { memory: null, heard: [sent(idOf(first), 2, 'sigkill'), ended(idOf(first), 15)] });
    const after = [core.look(40, { memory: null }), core.look(60, { memory: 90 }), core.look(80, { memory: then })];
    expect(after.flatMap(victims)).toEqual(next);
  });

  it('the decision that was delayed by it says so, and no other', () => {
    const { look } = begun();
    for (let ms = 40; ms < 30_020; ms += 1_000) look(ms, { memory: 90 });
    expect(differences(look(30_020, { memory: 90 }))).toEqual(['D12', 'D15']);
    expect(differences(begun().look(40, { memory: 50 }))).toEqual(['D12', 'D15']);
    expect(differences(aCore(aConfig([hardMemory])).look(0, { memory: 50 }))).toEqual(['D12']);
    const long = begun();
    long.look(40, { memory: 90 });
    long.look(30_000, { memory: 300 });
    expect(differences(long.look(60_000, { memory: 90 }))).toEqual(['D12']);
  });

  it.each([
    ['more than 1% of the capacity is lost', aThreshold('memory.available', 1_000 * MI), 900, 790, 30_000],
    ['a tenth of what is left is lost within 3 s', hardMemory, 90, 80, 2_900],
  ])('the next pod is chosen at once if %s', (_, threshold, then, now, atMs) => {
    const core = aCore(aConfig([threshold]), [leaker, database]);
    const first = core.look(0, { memory: then });
    core.lose('leaker');
    core.look(20, { memory: then, heard: [sent(idOf(first), 2, 'sigkill'), ended(idOf(first), 15)] });
    expect(victims(core.look(atMs, { memory: now }))).toEqual(['database']);
  });

  it('the next pod is chosen within milliseconds if a second pod allocates 1 GiB/s', () => {
    const { look } = begun();
    const chosen = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12].find(
      (ms) => victims(look(20 + ms, { memory: 90 - ms * 1.024 })).length > 0,
    );
    expect(chosen).toBe(8);
  });

  it('nobody is chosen for a loss that would not reach zero within 30 s', () => {
    const { look } = begun();
    for (let ms = 100; ms < 10_000; ms += 100) {
      expect(victims(look(ms, { memory: 90 - (2 * ms) / 1_000 }))).toEqual([]);
    }
  });

  it('nobody is chosen for usage that comes and goes above the level at the proof', () => {
    const { look } = begun();
    for (let ms = 100; ms < 20_000; ms += 100) {
      expect(victims(look(ms, { memory: ms % 1_000 < 500 ? 92 : 300 }))).toEqual([]);
    }
  });

  it('the pressure of another resource does not wait', () => {
    const { look } = begun(aConfig([hardMemory, hardPids]));
    expect(victims(look(40, { memory: 90, pids: 500 }))).toHaveLength(1);
  });

  it('a fork bomb whose zombies wait for PID 1 costs no other pod', () => {
    const bomb = aPod({ name: 'bomb', processes: 31_000 });
    const pods = [bomb, ...['a', 'b', 'c'].map((name) => aPod({ name, processes: 1 }))];
    const core = aCore(aConfig([hardPids]), pods);
    const first = core.look(0, { pids: 900 });
    expect(victims(first)).toEqual(['bomb']);
    core.lose('bomb');
    // Each zombie still has its id; the scripts of the others come and go.
    core.look(600, { pids: 3, heard: [sent(idOf(first), 2, 'sigkill'), ended(idOf(first), 590)] });
    for (let ms = 620; ms < 30_600; ms += 20) expect(victims(core.look(ms, { pids: (ms / 20) % 4 }))).toEqual([]);
  });

  it('simulate decides as the kubelet does, which looks again at once', () => {
    const { isLive: _, ...config } = aConfig([hardMemory]);
    const memory = (atMs: number, rest: Partial<Observation> = {}) =>
      anObservation(
        atMs,
        { 'memory.available': { available: 50 * MI, capacity: CAPACITY } },
        { pods: known([leaker, database]), ...rest },
      );
    const first = decide(initialState('boot'), memory(0), config);
    const rest = { pods: known([database]), outcomes: [ended(idOf(first), 5)] };
    expect(victims(decide(first.state, memory(10, rest), config))).toEqual(['database']);
  });
});
