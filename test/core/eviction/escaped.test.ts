import { describe, expect, it } from 'vitest';
import { decide } from '../../../src/core/decide.ts';
import type { HeldOutside } from '../../../src/core/observation.ts';
import type { Heard } from '../../../src/core/outcome.ts';
import type { PodView } from '../../../src/core/pod/pod.ts';
import { known } from '../../../src/core/reading.ts';
import { initialState, type State } from '../../../src/core/state/state.ts';
import { aConfig, anObservation, aPod, aThreshold, MI } from '../../a.ts';
import { aCore, codes, ended, hardDisk, hardMemory, hardPids, idOf, sent, softMemory, victims } from './a-live-core.ts';

const requests = { memoryBytes: 500 * MI, ephemeralStorageBytes: 0 };
const leaker = aPod({ name: 'leaker', workingSetBytes: 900 * MI });
const innocent = aPod({ name: 'innocent', priority: 0, workingSetBytes: 300 * MI, requests });
const escaped = (of: string, atMs: number): Heard => ({
  ...{ of, atMs, kind: 'survived', left: [], detail: 'it left' },
  escaped: { cgroup: { path: '/leaker', inode: 1 } },
});

describe('a victim that cannot be ended (D3)', () => {
  /** It uses 900 MiB, and was not ended within its time; 40 MiB of 100 are available. */
  const afterSurvival = (others = [innocent]) => {
    const core = aCore(aConfig([hardMemory]), [leaker, ...others]);
    const id = idOf(core.look(0, { memory: 40 }));
    core.terminate('leaker');
    core.look(100, { memory: 40, heard: [sent(id, 50, 'sigkill')] });
    const survived: Heard = { of: id, atMs: 10_400, kind: 'survived', left: [], detail: 'it stays' };
    return { core, next: core.look(10_500, { memory: 40, heard: [survived] }) };
  };

  it('is no reason to evict a pod within its request while it holds what is lacking', () => {
    const { core, next } = afterSurvival();
    // Memory falls on.
    const looks = [39, 30, 20, 1].map((memory, i) => core.look(11_000 + i * 10_000, { memory }));
    expect([next, ...looks].flatMap(victims)).toEqual([]);
    expect(looks[3]?.reasons).toContainEqual({ code: 'passed-over', uid: innocent.uid, because: 'escaped' });
    core.empty('leaker');
    expect(victims(core.look(60_000, { memory: 1 }))).toEqual(['innocent']);
  });

  it('is none either in the moment before its outcome says that, when its deadline has passed', () => {
    const core = aCore(aConfig([hardMemory]), [leaker, innocent]);
    const id = idOf(core.look(0, { memory: 40 }));
    core.terminate('leaker');
    // The kubelet stands still: its memory volume stays.
    const unmount: Heard = { of: id, atMs: 60, kind: 'signalled', with: 'unmount' };
    const waiting = core.look(100, { memory: 40, heard: [sent(id, 50, 'sigkill'), unmount] });
    const looks = [30_059, 30_060, 30_500].map((ms) => core.look(ms, { memory: 40 }));
    const over = core.look(30_600, { memory: 40, heard: [ended(id, 30_600)] });
    const later = [61_000, 90_000].map((ms) => core.look(ms, { memory: 39 }));
    expect([waiting, ...looks, over, ...later].flatMap(victims)).toEqual([]);
  });

  it('does not save a pod that exceeds its request', () => {
    const other = aPod({ name: 'other', priority: 0, workingSetBytes: 300 * MI });
    expect(victims(afterSurvival([innocent, other]).next)).toEqual(['other']);
  });
});

describe('a pod that has finished, whose memory volumes the kubelet has not freed yet (D3)', () => {
  const finished = aPod({ name: 'job', workingSetBytes: 900 * MI, limitedBy: 'finished' });
  const chosenBeside = (other: PodView) => aCore(aConfig([hardMemory]), [finished, other]).look(0, { memory: 40 });

  it('is not evicted, nor is a pod within its request in its place', () => {
    const step = chosenBeside(innocent);
    expect(victims(step)).toEqual([]);
    expect(step.reasons).toContainEqual({ code: 'passed-over', uid: finished.uid, because: 'finished' });
    expect(step.reasons).toContainEqual({ code: 'passed-over', uid: innocent.uid, because: 'escaped' });
  });

  it('does not save a pod that exceeds its request', () => {
    expect(victims(chosenBeside(aPod({ name: 'other', workingSetBytes: 300 * MI })))).toEqual(['other']);
  });

  it('saves no pod once the signal is urgent if it may be started again: then, its memory may not come back', () => {
    const maybe = aPod({ name: 'job', workingSetBytes: 900 * MI, limitedBy: 'maybe-finished' });
    const chosen = (memory: number) => victims(aCore(aConfig([hardMemory]), [maybe, innocent]).look(0, { memory }));
    expect([chosen(50), chosen(49)]).toEqual([[], ['innocent']]);
  });

  it('saves others for a disk, too, as far as its files are what is lacking', () => {
    const chosen = (holds: number): readonly string[] => {
      const job = aPod({ name: 'job', diskBytes: holds, limitedBy: 'finished' });
      const within = { memoryBytes: 0, ephemeralStorageBytes: 500 * MI };
      const other = aPod({ name: 'other', priority: 1_000, diskBytes: 50 * MI, requests: within });
      return victims(aCore(aConfig([hardDisk]), [job, other]).look(0, { nodefs: 40 }));
    };
    expect([chosen(60 * MI), chosen(60 * MI - 1)]).toEqual([[], ['other']]);
  });

  it.each([
    ['hard', hardMemory, 40],
    ['soft', softMemory, 150],
  ])('saves others, too, once its sandbox is dead: under a %s threshold', (_, threshold, memory) => {
    const other = aPod({ name: 'other', workingSetBytes: 300 * MI });
    const chosen = (beside: PodView, mib: number, used: number = memory) => {
      const core = aCore(aConfig([threshold]), [beside]);
      const looks = [0, 1_000].map((ms) => core.look(ms, { memory: used, comesBack: { job: mib } }));
      return looks.flatMap(victims);
    };
    expect(chosen(innocent, 900)).toEqual([]);
    // However little memory is available.
    expect(chosen(innocent, 900, 1)).toEqual([]);
    expect(chosen(innocent, 10)).toEqual(['innocent']);
    expect(chosen(other, 900)).toEqual(['other']);
  });

  it('saves nobody for process IDs', () => {
    const core = aCore(aConfig([hardPids]), [innocent]);
    expect(victims(core.look(0, { pids: 900, comesBack: { job: 900 } }))).toEqual(['innocent']);
  });
});

describe('a victim that holds memory outside its cgroup (D3)', () => {
  /** 40 MiB of 100 are available: the leaker was stopped, and left its cgroup with so many MiB. */
  const afterEscape = (others = [innocent]) => {
    const core = aCore(aConfig([hardMemory]), [leaker, ...others]);
    const id = idOf(core.look(0, { memory: 40 }));
    core.look(100, { memory: 40, heard: [sent(id, 50, 'sigkill')] });
    core.lose('leaker');
    core.look(1_000, { memory: 40, heard: [escaped(id, 1_000)] });
    const holding = (mib: number): readonly HeldOutside[] => [{ of: id, memoryBytes: mib * MI, processIds: 0 }];
    return { core, holding };
  };

  it('is no reason to evict a pod within its request while that is what is lacking', () => {
    const { core, holding } = afterEscape();
    const looks = [31_500, 60_000, 3_600_000].map((ms) => core.look(ms, { memory: 40, escaped: holding(60) }));
    expect(looks.flatMap(victims)).toEqual([]);
    expect(looks[2]?.reasons).toContainEqual(
      expect.objectContaining({ code: 'no-candidate', because: 'escaped', signal: 'memory.available' }),
    );
    expect(looks[2]?.reasons).toContainEqual({ code: 'passed-over', uid: innocent.uid, because: 'escaped' });
  });

  it('is read again at each look as long as it holds anything', () => {
    const { core, holding } = afterEscape();
    const asked = core.look(31_500, { memory: 40, escaped: holding(60) }).next.escaped;
    expect(asked).toMatchObject([{ cgroup: { path: '/leaker', inode: 1 } }]);
    const [held] = holding(0);
    const parts = [{ memoryBytes: 1 }, { processIds: 1 }, { of: 'another' }].map((part) => ({ ...held, ...part }));
    for (const [i, part] of parts.entries())
      expect(core.look(31_600 + i, { memory: 40, escaped: [part as HeldOutside] }).next.escaped).toHaveLength(1);
    expect(core.look(32_000, { memory: 40, escaped: holding(0) }).next.escaped).toBeUndefined();
  });

  it('is one of the last 16', () => {
    const heard = Array.from({ length: 17 }, (_, i) => escaped(`d${i}`, 0));
    const asked = aCore(aConfig([hardMemory]), []).look(0, { heard }).next.escaped ?? [];
    expect(asked.map(({ decision }) => decision)).toEqual(heard.slice(1).map(({ of }) => of));
  });

  it('is not one that survived in its cgroup', () => {
    const core = aCore(aConfig([hardMemory]), [leaker, innocent]);
    const id = idOf(core.look(0, { memory: 40 }));
    const survived: Heard = { of: id, atMs: 900, kind: 'survived', left: [], detail: 'it stays' };
    expect(core.look(1_000, { memory: 40, heard: [sent(id, 50, 'sigkill'), survived] }).next.escaped).toBeUndefined();
  });

  it('is not assumed to hold less before that is read', () => {
    const { core } = afterEscape();
    expect(victims(core.look(31_500, { memory: 40 }))).toEqual([]);
  });

  it('may hold all of it as long as one of several was not read', () => {
    const held = (of: string) => ({ of, memoryBytes: MI, processIds: 1 });
    const core = aCore(aConfig([hardMemory]), [innocent]);
    core.look(0, { heard: [escaped('d1', 0), escaped('d2', 0)] });
    expect(victims(core.look(100, { memory: 40, escaped: [held('d1')] }))).toEqual([]);
    expect(victims(core.look(200, { memory: 40, escaped: [held('d1'), held('d2')] }))).toEqual(['innocent']);
  });

  it('holds nobody back for a disk, where files outlive their writers', () => {
    const requests = { memoryBytes: 0, ephemeralStorageBytes: 900 * MI };
    const core = aCore(aConfig([hardDisk]), [aPod({ name: 'within', diskBytes: MI, requests })]);
    core.look(0, { heard: [escaped('d1', 0)] });
    expect(victims(core.look(100, { nodefs: 40 }))).toEqual(['within']);
  });

  it.each([
    ['a byte less than is lacking', 60 - 1 / MI],
    ['nothing any more', 0],
  ])('holds nobody back with %s', (_, mib) => {
    const { core, holding } = afterEscape();
    expect(victims(core.look(31_500, { memory: 40, escaped: holding(mib) }))).toEqual(['innocent']);
  });

  it('holds no pod back that exceeds its request', () => {
    const { core, holding } = afterEscape([innocent, aPod({ name: 'other', workingSetBytes: 200 * MI })]);
    expect(victims(core.look(31_500, { memory: 40, escaped: holding(900) }))).toEqual(['other']);
  });

  it.each([
    ['counts by its swap for swap', 'swap.available', { swapBytes: 60 }, []],
    ['holds nobody back for swap by less, or by memory', 'swap.available', { swapBytes: 59 }, ['innocent']],
    [
      'holds nobody back for a stall, of which nobody knows how much is due to it',
      'memory.stallFree',
      {},
      ['innocent'],
    ],
  ] as const)('%s', (_, signal, rest, expected) => {
    const state: State = {
      ...initialState('boot'),
      escaped: [{ decision: 'd', cgroup: { path: '/leaker', inode: 1 } }],
    };
    const short = { [signal]: { available: 40, capacity: 1_000 } };
    const escaped = [{ of: 'd', memoryBytes: 900, processIds: 1, ...rest }];
    const now = anObservation(0, short, { pods: known([innocent]), escaped });
    expect(victims(decide(state, now, aConfig([aThreshold(signal, 100)], { isLive: true })))).toEqual(expected);
  });

  it('counts by its process IDs if these are lacking', () => {
    const bomb = aPod({ name: 'bomb', processes: 5_000 });
    const core = aCore(aConfig([hardPids]), [bomb, aPod({ name: 'small', processes: 10 })]);
    const id = idOf(core.look(0, { pids: 500 }));
    core.lose('bomb');
    core.look(1_000, { pids: 500, heard: [sent(id, 50, 'sigkill'), escaped(id, 1_000)] });
    const held = { of: id, memoryBytes: 900 * MI, processIds: 499 };
    expect(codes(core.look(31_500, { pids: 500, escaped: [{ ...held, processIds: 500 }] }))).toContain('no-candidate');
    expect(victims(core.look(31_600, { pids: 500, escaped: [held] }))).toEqual(['small']);
  });
});

describe('a victim that holds what only the min reclaim lacks (D3)', () => {
  const threshold = aThreshold('pid.available', 1_000, { minReclaimBytes: 500 });
  const held: State = {
    ...initialState('boot'),
    lastLookMs: 0,
    firstMetMs: { [threshold.id]: 0 },
    unresolved: [threshold.id],
  };
  const withPids = (name: string, pids: number, isTerminating = false) =>
    aPod({ name, isTerminating, usage: { pidsHeld: known(pids) } });

  it.each([
    ['saves a pod that does not', 299, []],
    ['does not save one that does, too', 300, ['other']],
  ])('%s', (_, pids, expected) => {
    const pods = known([withPids('survivor', 300, true), withPids('other', pids)]);
    const now = anObservation(100, { 'pid.available': { available: 1_200, capacity: 32_768 } }, { pods });
    expect(victims(decide(held, now, aConfig([threshold], { isLive: true })))).toEqual(expected);
  });

  it('saves a pod while it holds what the limit lacks, however much more the min reclaim does', () => {
    const pods = known([withPids('survivor', 200, true), withPids('other', 50)]);
    const now = anObservation(100, { 'pid.available': { available: 800, capacity: 32_768 } }, { pods });
    expect(victims(decide(held, now, aConfig([threshold], { isLive: true })))).toEqual([]);
  });
});

it('a proven end leaves nothing to wait for', () => {
  const core = aCore(aConfig([hardMemory]), [leaker, innocent]);
  const id = idOf(core.look(0, { memory: 40 }));
  core.lose('leaker');
  const heard: Heard = { of: id, atMs: 900, kind: 'ended', via: 'sigkill', releasedBytes: known(0) };
  expect(core.look(1_000, { memory: 40, heard: [sent(id, 50, 'sigkill'), heard] }).next.escaped).toBeUndefined();
});

describe('a victim whose dead processes nobody reaps', () => {
  const bystander = aPod({ name: 'bystander', processes: 50, workingSetBytes: 300 * MI, requests });
  /** The leaker was evicted for memory. 400 process IDs of 1,000 are available at the look that brings its end. */
  const afterDeath = (others = [bystander]) => {
    const core = aCore(aConfig([hardMemory, hardPids]), [leaker, ...others]);
    const id = idOf(core.look(0, { memory: 50, pids: 1_500 }));
    core.lose('leaker');
    const ended: Heard = { of: id, atMs: 15, kind: 'ended', via: 'sigkill', releasedBytes: known(900 * MI) };
    const heard = [sent(id, 2, 'sigkill'), { ...ended, unreaped: { path: '/leaker', inode: 1 } }];
    const dead = (processIds: number): readonly HeldOutside[] => [{ of: id, memoryBytes: 0, processIds }];
    return { core, dead, atDeath: (node: { memory?: number; pids?: number }) => core.look(20, { ...node, heard }) };
  };

  it('is no reason to evict a pod for the process IDs that they hold, whatever it was evicted for', () => {
    const { core, dead, atDeath } = afterDeath();
    const looks = [atDeath({ pids: 400 })];
    // Others take more and more.
    for (const [ms, pids] of [
      [40, 400],
      [31_500, 390],
      [3_600_000, 200],
    ] as const)
      looks.push(core.look(ms, { pids, escaped: dead(1_000 - pids) }));
    expect(looks.flatMap(victims)).toEqual([]);
    expect(looks[3]?.reasons).toContainEqual({ code: 'passed-over', uid: bystander.uid, because: 'escaped' });
    expect(victims(core.look(3_600_100, { pids: 400, escaped: dead(0) }))).toEqual(['bystander']);
  });

  it('holds nobody back by fewer than are lacking, nor a pod that has as many', () => {
    const few = afterDeath();
    few.atDeath({ pids: 400 });
    expect(victims(few.core.look(40, { pids: 400, escaped: few.dead(599) }))).toEqual(['bystander']);
    const bomb = afterDeath([bystander, aPod({ name: 'bomb', processes: 600 })]);
    expect(victims(bomb.atDeath({ pids: 400 }))).toEqual(['bomb']);
  });

  it('holds no memory', () => {
    const { core, atDeath } = afterDeath();
    atDeath({ memory: 60 });
    expect(victims(core.look(31_000, { memory: 60 }))).toEqual(['bystander']);
  });
});

describe('memory that a pod left, charged to its empty cgroup', () => {
  const core = (others: Parameters<typeof aCore>[1] = []) => aCore(aConfig([hardMemory]), [innocent, ...others]);

  it('is no reason to evict a pod within its request while that is what is lacking, until half of the limit is used up', () => {
    const { look } = core();
    const looks = [99, 60, 50].map((memory, i) => look(i * 100, { memory, left: 50 }));
    expect(looks.flatMap(victims)).toEqual([]);
    expect(looks[2]?.reasons).toContainEqual({ code: 'passed-over', uid: innocent.uid, because: 'escaped' });
    expect(looks[2]?.next.afterMs).toBeLessThanOrEqual(100);
    const urgent = look(400, { memory: 49, left: 500 });
    expect(victims(urgent)).toEqual(['innocent']);
  });

  it('holds nobody back by less than is lacking, nor ever a pod that exceeds its request', () => {
    expect(victims(core().look(0, { memory: 60, left: 39 }))).toEqual(['innocent']);
    const over = aPod({ name: 'over', priority: 9, workingSetBytes: 501 * MI, requests });
    for (const memory of [99, 60, 50]) expect(victims(core([over]).look(0, { memory, left: 2_000 }))).toEqual(['over']);
  });

  it('saves nobody but by what victims hold that exceeds its request by less than a tenth of that', () => {
    const escaped = (mib: number) => [{ of: 'd', memoryBytes: mib * MI, processIds: 1 }];
    const state: State = {
      ...initialState('boot'),
      escaped: [{ decision: 'd', cgroup: { path: '/leaker', inode: 1 } }],
    };
    const over = aPod({ name: 'over', priority: 9, workingSetBytes: 501 * MI, requests });
    const short = { 'memory.available': { available: 60 * MI, capacity: 9_000 * MI } };
    const chosen = (mib: number) => {
      const rest = { pods: known([innocent, over]), escaped: escaped(mib), leftBytes: 50 * MI };
      return victims(decide(state, anObservation(0, short, rest), aConfig([hardMemory], { isLive: true })));
    };
    expect([chosen(39), chosen(40)]).toEqual([['over'], []]);
  });

  it('holds nobody back for process IDs', () => {
    const { look } = aCore(aConfig([hardPids]), [innocent]);
    expect(victims(look(0, { pids: 900, left: 5_000 }))).toEqual(['innocent']);
  });

  it('saves a pod from a min reclaim, too, however large that is', () => {
    const threshold = aThreshold('memory.available', 100 * MI, { minReclaimBytes: 500 * MI });
    const held = {
      ...initialState('boot'),
      lastLookMs: 0,
      firstMetMs: { [threshold.id]: 0 },
      unresolved: [threshold.id],
    };
    const now = (leftBytes: number) =>
      anObservation(
        100,
        { 'memory.available': { available: 110 * MI, capacity: 9_000 * MI } },
        { pods: known([innocent]), leftBytes },
      );
    const chosen = (mib: number) => victims(decide(held, now(mib * MI), aConfig([threshold], { isLive: true })));
    expect([chosen(490), chosen(489)]).toEqual([[], ['innocent']]);
  });
});

describe('unreaped dead processes of a running pod', () => {
  const pod = (
    name: string,
    processes: number,
    dead: number,
    rest: { priority?: number; isDaemonSet?: boolean } = {},
  ) => aPod({ ...rest, name, processes, usage: { deadHeld: known(dead), pidsHeld: known(processes + dead) } });
  /** 940 of 32,768 process IDs are available: 60 are lacking. */
  const chosen = (...pods: readonly ReturnType<typeof pod>[]) =>
    aCore(aConfig([hardPids]), pods).look(0, { pids: 940 });

  it('make it the one to evict, not those before it that hold less', () => {
    const verdict = chosen(
      pod('low', 50, 0, { priority: -1 }),
      pod('mid', 399, 0),
      pod('zombies', 1, 400, { priority: 9 }),
    );
    expect(victims(verdict)).toEqual(['zombies']);
    expect(verdict.decisions[1]).toMatchObject({ differences: ['D3', 'D12'] });
    expect(verdict.reasons).toContainEqual({ code: 'passed-over', uid: 'uid-low', because: 'escaped' });
  });

  it('do not save a pod that comes before it and holds as much', () => {
    expect(victims(chosen(pod('bomb', 401, 0), pod('zombies', 1, 400)))).toEqual(['bomb']);
    expect(victims(chosen(pod('bomb', 30, 400), pod('zombies', 1, 400)))).toEqual(['bomb']);
  });

  it('do not save a pod that comes before it and holds as much by its threads', () => {
    const threads = (held: number) =>
      aPod({ name: 'threads', processes: 3, usage: { deadHeld: known(0), pidsHeld: known(held) } });
    const web = pod('web', 20, 400, { priority: 100_000 });
    expect(victims(chosen(threads(400), web))).toEqual(['threads']);
    expect(victims(chosen(threads(399), web))).toEqual(['web']);
  });

  it('do not count if they are fewer than are lacking, or fewer than 1 % of all process IDs', () => {
    expect(victims(chosen(pod('web', 3, 0), pod('zombies', 1, 327)))).toEqual(['web']);
    const short = aCore(aConfig([hardPids]), [pod('web', 3, 0), pod('zombies', 1, 400)]);
    expect(victims(short.look(0, { pids: 599 }))).toEqual(['web']);
  });

  it('are no excuse for a DaemonSet pod, although these come last', () => {
    expect(victims(chosen(pod('web', 3, 0), pod('zombies', 1, 400, { isDaemonSet: true })))).toEqual(['zombies']);
  });

  it('save the others if their pod may not be evicted', () => {
    const critical = { ...pod('zombies', 1, 400), isStaticCritical: true };
    const verdict = chosen(pod('web', 3, 0), critical);
    expect(victims(verdict)).toEqual([]);
    expect(verdict.reasons).toContainEqual(expect.objectContaining({ code: 'no-candidate', because: 'escaped' }));
  });
});
