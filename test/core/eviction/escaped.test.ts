import { describe, expect, it } from 'vitest';
import { decide } from '../../../src/core/decide.ts';
import type { HeldOutside } from '../../../src/core/observation.ts';
import type { Heard } from '../../../src/core/outcome.ts';
import { known } from '../../../src/core/reading.ts';
import { initialState, type State } from '../../../src/core/state/state.ts';
import { aConfig, anObservation, aPod, aThreshold, MI } from '../../a.ts';
import { aCore, codes, hardDisk, hardMemory, hardPids, idOf, sent, victims } from './a-live-core.ts';

const requests = { memoryBytes: 500 * MI, ephemeralStorageBytes: 0 };
const leaker = aPod({ name: 'leaker', workingSetBytes: 900 * MI });
const innocent = aPod({ name: 'innocent', priority: 0, workingSetBytes: 300 * MI, requests });
const escaped = (of: string, atMs: number): Heard => ({
  ...{ of, atMs, kind: 'survived', left: [], detail: 'it left' },
  escaped: { cgroup: { path: '/leaker', inode: 1 }, processes: [{ pid: 2, startTicks: 3 }] },
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

  it('does not save a pod that exceeds its request', () => {
    const other = aPod({ name: 'other', priority: 0, workingSetBytes: 300 * MI });
    expect(victims(afterSurvival([innocent, other]).next)).toEqual(['other']);
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
    const holding = (mib: number): readonly HeldOutside[] => [
      { of: id, memoryBytes: mib * MI, processIds: mib === 0 ? 0 : 1 },
    ];
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
    expect(asked).toMatchObject([{ cgroup: { path: '/leaker', inode: 1 }, processes: [{ pid: 2, startTicks: 3 }] }]);
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

  it.each(['swap.available', 'memory.stallFree'] as const)('counts by its memory for %s, too', (signal) => {
    const state: State = {
      ...initialState('boot'),
      escaped: [{ decision: 'd', cgroup: { path: '/leaker', inode: 1 }, processes: [] }],
    };
    const short = { [signal]: { available: 40, capacity: 1_000 } };
    const at = (memoryBytes: number) =>
      victims(
        decide(
          state,
          anObservation(0, short, { pods: known([innocent]), escaped: [{ of: 'd', memoryBytes, processIds: 1 }] }),
          aConfig([aThreshold(signal, 100)], { isLive: true }),
        ),
      );
    expect([at(60), at(59)]).toEqual([[], ['innocent']]);
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
