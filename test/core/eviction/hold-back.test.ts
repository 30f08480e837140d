import { describe, expect, it } from 'vitest';
import type { PodView } from '../../../src/core/pod/pod.ts';
import type { Verdict } from '../../../src/core/verdict.ts';
import { aConfig, aPod, aThreshold, MI } from '../../a.ts';
import {
  aCore,
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
} from './a-live-core.ts';

const waitedFor = ({ reasons }: Verdict): readonly string[] =>
  reasons.flatMap((reason) => (reason.code === 'waiting-for-victim' ? [reason.eviction] : []));

describe('a victim that is killed while its signal falls (D3)', () => {
  const soft = aThreshold('allocatableMemory.available', 200 * MI, { graceMs: 1_000 });

  /** Asked to end at 1 s, killed at 5 s; its signal falls all the while, others as given. */
  const killedAt5s = (others: { readonly allocatable?: number; readonly nodefs?: number }) => {
    const { look, empty } = aCore(aConfig([softMemory, soft, hardDisk], { maxPodGraceSeconds: 4 }));
    const chosen: { name: string; atMs: number }[] = [];
    let leakerId = '';
    for (let ms = 0; ms <= 7_000; ms += 100) {
      const verdict = look(ms, {
        memory: 190 - ms / 50,
        ...others,
        heard:
          ms === 1_100 ? [sent(leakerId, 1_000, 'sigterm')] : ms === 5_100 ? [sent(leakerId, 5_000, 'sigkill')] : [],
      });
      if (victims(verdict).includes('leaker')) {
        leakerId = idOf(verdict);
        empty('leaker');
      }
      chosen.push(...victims(verdict).map((name) => ({ name, atMs: ms })));
    }
    return chosen;
  };

  it('is waited for until one second after its SIGKILL, however fast the signal falls', () => {
    expect(killedAt5s({})).toEqual([
      { name: 'leaker', atMs: 1_000 },
      { name: 'database', atMs: 6_000 },
    ]);
  });

  it('holds nobody back after that, even if another signal of the resource is stable', () => {
    expect(killedAt5s({ allocatable: 150 })).toContainEqual({ name: 'database', atMs: 6_000 });
  });

  it('holds nobody back after that, even if a disk has a victim of its own', () => {
    expect(killedAt5s({ nodefs: 50 })).toEqual([
      { name: 'writer', atMs: 0 },
      { name: 'leaker', atMs: 1_000 },
      { name: 'database', atMs: 6_000 },
    ]);
  });
});

describe("what the end of another resource's victim is about to free", () => {
  const softMemoryNow = aThreshold('memory.available', 200 * MI, { graceMs: 1 });
  const reclaiming = aThreshold('memory.available', 100 * MI, { minReclaimBytes: 1_000 * MI });
  const guarded = { memoryBytes: 2_000 * MI, ephemeralStorageBytes: 0 };
  /** Memory would choose the leaker. */
  const holding = (mib: number): PodView =>
    aPod({ name: 'writer', diskBytes: 900 * MI, workingSetBytes: mib * MI, requests: guarded });

  it.each([
    ['is enough: nobody else is chosen', 60, 'sigkill', hardMemory, 40, []],
    [
      'is enough for the limit, also at the next look, when the min reclaim lacks more',
      60,
      'sigkill',
      reclaiming,
      40,
      [],
    ],
    ['is a byte too little', 60 - 1 / MI, 'sigkill', hardMemory, 40, ['leaker']],
    ['comes too late for a hard threshold while the grace period runs', 900, 'sigterm', hardMemory, 40, ['leaker']],
    ['is enough if a soft threshold leaves time for the grace period', 900, 'sigterm', softMemoryNow, 150, []],
    ['does not count before the victim is signalled', 900, null, softMemoryNow, 150, ['leaker']],
  ] as const)('%s', (_, mib, how, threshold, memory, chosen) => {
    const { look } = aCore(aConfig([hardDisk, threshold]), [holding(mib), leaker]);
    const id = idOf(look(0, { nodefs: 50 }));
    const heard = how === null ? [] : [sent(id, 5, how)];
    const looks = [look(10, { nodefs: 50, memory, heard }), look(20, { nodefs: 50, memory })];
    expect(looks.flatMap(victims)).toEqual(chosen);
  });

  it('counts until 3 s after its SIGKILL', () => {
    const { look } = aCore(aConfig([hardDisk, hardMemory]), [holding(900), leaker]);
    const id = idOf(look(0, { nodefs: 50 }));
    look(10, { nodefs: 50, heard: [sent(id, 5, 'sigkill')] });
    expect(victims(look(3_004, { nodefs: 50, memory: 40 }))).toEqual([]);
    expect(victims(look(3_005, { nodefs: 50, memory: 40 }))).toEqual(['leaker']);
  });

  it('is counted in process IDs if those are short', () => {
    const forking = aPod({ name: 'writer', priority: 1, diskBytes: 900 * MI, processes: 700 });
    const { look } = aCore(aConfig([hardDisk, hardPids]), [forking, leaker]);
    const id = idOf(look(0, { nodefs: 50 }));
    expect(victims(look(10, { nodefs: 50, pids: 400, heard: [sent(id, 5, 'sigkill')] }))).toEqual([]);
    expect(victims(look(20, { nodefs: 50, pids: 200 }))).toEqual(['leaker']);
  });

  it("is nothing for a disk, which no pod's end frees at once", () => {
    const { look } = aCore(aConfig([hardMemory, hardDisk]));
    const id = idOf(look(0, { memory: 50 }));
    expect(victims(look(10, { memory: 50, nodefs: 50, heard: [sent(id, 5, 'sigkill')] }))).toEqual(['writer']);
  });

  it('is attributed to the victim that holds it', () => {
    const bomb = aPod({ name: 'bomb', priority: -1, processes: 29_000, requests: guarded });
    const { look } = aCore(aConfig([hardPids, hardDisk, hardMemory]), [bomb, holding(900), leaker]);
    const first = idOf(look(0, { pids: 50 }));
    const second = idOf(look(10, { pids: 50, nodefs: 50, heard: [sent(first, 5, 'sigkill')] }));
    const heard = [sent(second, 15, 'sigkill')];
    expect(waitedFor(look(20, { memory: 50, heard }))).toEqual([second]);
  });
});

describe('a pod that another resource would choose too', () => {
  const both = aPod({ name: 'both', workingSetBytes: 900 * MI, diskBytes: 900 * MI });
  const forking = aPod({ name: 'forking', processes: 20_000, workingSetBytes: 100 * MI });
  const softPids = aThreshold('pid.available', 2_000, { graceMs: 1_000 });

  it('is hastened for a hard threshold, and only by what that demands', () => {
    const { look, terminate } = aCore(aConfig([softMemory, hardDisk], { maxPodGraceSeconds: 30 }), [both, database]);
    look(0, { memory: 150 });
    const id = idOf(look(1_000, { memory: 150 }));
    terminate('both');
    const disk = look(2_000, { memory: 150, nodefs: 50, heard: [sent(id, 1_010, 'sigterm')] });
    expect(hastened(disk)).toMatchObject([{ eviction: id, graceSeconds: 1, differences: ['D4'] }]);
    expect(disk.state.act).toMatchObject({ evictions: [{ graceEndsMs: 3_000, deadlineMs: 13_000 }] });
  });

  it('is not hastened if its time is over sooner anyway', () => {
    const { look, terminate } = aCore(aConfig([hardMemory, hardDisk, hardPids]), [both, database]);
    const id = idOf(look(0, { memory: 50 }));
    terminate('both');
    const disk = look(10, { memory: 50, nodefs: 50, heard: [sent(id, 10, 'sigkill')] });
    expect(disk.decisions.filter(({ kind }) => kind !== 'set-condition')).toEqual([]);
    expect(waitedFor(disk)).toEqual([id, id]);
    // At the very moment at which that would end it too.
    const pids = aCore(aConfig([hardMemory, hardPids]), [both]);
    const killed = sent(idOf(pids.look(0, { memory: 50 })), 10, 'sigkill');
    expect(hastened(pids.look(10, { memory: 50, pids: 50, heard: [killed] }))).toEqual([]);
  });

  it('is waited for beside other victims, whichever other pods are being stopped', () => {
    const leaving = aPod({ name: 'leaving', workingSetBytes: 950 * MI, isTerminating: true });
    const pods = [leaving, both, forking, database];
    const { look, terminate } = aCore(aConfig([hardDisk, hardPids, hardMemory]), pods);
    const disk = idOf(look(0, { nodefs: 50 }));
    look(10, { nodefs: 50, pids: 50 });
    terminate('both');
    terminate('forking');
    const memory = look(20, { nodefs: 50, pids: 50, memory: 50 });
    expect(victims(memory)).toEqual([]);
    expect(hastened(memory)).toMatchObject([{ eviction: disk, differences: ['D4', 'D12'] }]);
    expect(memory.state.act).toMatchObject({
      evictions: [{ victim: { name: 'both' }, alsoFor: [{ signal: 'memory.available' }] }, { decidedMs: 10 }],
    });
  });

  it('is waited for after a victim that was waited for in vain', () => {
    const reserved = { memoryBytes: 600 * MI, ephemeralStorageBytes: 0 };
    const pods = [leaker, { ...both, requests: reserved }, { ...database, requests: { ...reserved, memoryBytes: 0 } }];
    const { look } = aCore(aConfig([hardDisk, hardMemory]), pods);
    expect(victims(look(0, { memory: 50 }))).toEqual(['leaker']);
    const disk = look(9_000, { memory: 50, nodefs: 50 });
    expect(victims(disk)).toEqual(['both']);
    const next = look(10_000, { memory: 50, nodefs: 50 });
    expect(victims(next)).toEqual([]);
    expect(waitedFor(next)).toContain(idOf(disk));
  });

  it('is not waited for once its own resource is no longer short', () => {
    const { look } = aCore(aConfig([hardDisk, hardMemory]), [both, database]);
    const id = idOf(look(0, { nodefs: 50 }));
    look(10, { nodefs: 50, heard: [sent(id, 5, 'sigterm')] });
    look(1_200, {});
    expect(victims(look(5_000, { memory: 50 }))).toEqual(['database']);
  });

  it('is waited for until its time is over if it exceeds a storage limit, and no longer', () => {
    const filling = { ...both, ephemeralStorageLimit: { nanos: '1000000000', format: 'binary', text: null } } as const;
    const at = (atMs: number) => {
      const { look } = aCore(aConfig([hardMemory]), [filling, database]);
      look(0, {});
      return look(atMs, { memory: 50 });
    };
    expect(waitedFor(at(9_999))).toHaveLength(1);
    expect(victims(at(10_000))).toEqual(['database']);
  });

  it('still holds back the other resources when a hard threshold of one hastens it', () => {
    const all = aPod({ name: 'both', workingSetBytes: 900 * MI, diskBytes: 900 * MI, processes: 30_000 });
    const config = aConfig([softDisk, softMemory, softPids, hardMemory], { maxPodGraceSeconds: 30 });
    const { look } = aCore(config, [all, database]);
    look(0, { nodefs: 150 });
    const id = idOf(look(1_000, { nodefs: 150, memory: 150, pids: 1_500 }));
    look(2_000, { nodefs: 150, memory: 150, pids: 1_500, heard: [sent(id, 1_010, 'sigterm')] });
    look(2_010, { nodefs: 150, memory: 150, pids: 1_500 });
    const burning = look(2_020, { nodefs: 150, memory: 50, pids: 1_500 });
    expect(hastened(burning)).toMatchObject([{ eviction: id, threshold: { signal: 'memory.available' } }]);
    const next = look(2_040, { nodefs: 150, memory: 50, pids: 1_500 });
    expect(next.decisions).toEqual([]);
    expect(new Set(waitedFor(next))).toEqual(new Set([id]));
    expect(waitedFor(next)).toHaveLength(3);
  });
});

describe('a hard threshold during a soft eviction (D4)', () => {
  const hardAllocatable = aThreshold('allocatableMemory.available', 100 * MI);
  const chosenBySoft = (config = aConfig([softMemory, hardMemory, hardAllocatable], { maxPodGraceSeconds: 30 })) => {
    const core = aCore(config, [leaker, database]);
    core.look(0, { memory: 150 });
    return { ...core, id: idOf(core.look(1_000, { memory: 150 })) };
  };

  it('cuts the grace period, whichever other threshold of the resource is met', () => {
    const { look, id } = chosenBySoft();
    expect(hastened(look(2_000, { memory: 50, allocatable: 50 }))).toMatchObject([{ eviction: id }]);
  });

  it('gives as much time to send the first signal as if it had chosen, and none for evidence', () => {
    const { look } = chosenBySoft();
    look(5_000, { memory: 50 });
    expect(victims(look(14_999, { memory: 50 }))).toEqual([]);
    expect(victims(look(15_000, { memory: 50 }))).toEqual(['database']);
  });
});

describe('after a proven kill (D15)', () => {
  const hardAllocatable = aThreshold('allocatableMemory.available', 100 * MI);
  /** Leaker is proven dead at 20 with 90 MiB left. */
  const begun = () => {
    const core = aCore(aConfig([hardMemory, hardAllocatable]), [leaker, database]);
    const id = idOf(core.look(0, { memory: 50, allocatable: 90 }));
    core.lose('leaker');
    core.look(20, { memory: 90, allocatable: 90, heard: [sent(id, 2, 'sigkill'), ended(id, 15)] });
    return core;
  };

  it('allows the next choice as soon as a stable signal begins to fall', () => {
    const { look } = begun();
    for (let ms = 100; ms <= 10_000; ms += 100) expect(victims(look(ms, { memory: 90, allocatable: 90 }))).toEqual([]);
    expect(victims(look(10_900, { memory: 81, allocatable: 90 }))).toEqual(['database']);
  });

  it.each([
    [2_000, ['D12', 'D15']],
    [2_001, ['D12']],
  ])('a choice %i ms after one was held back names %o', (afterMs, expected) => {
    const { look } = begun();
    look(28_100, { memory: 90 });
    look(28_100 + 10, {});
    expect(differences(look(28_100 + afterMs, { memory: 90 }))).toEqual(expected);
  });

  it('keeps no trail of signals that nothing acts on', () => {
    const { look } = begun();
    expect(Object.keys(look(40, { memory: 90 }).state.trail)).toEqual([
      'memory.available',
      'allocatableMemory.available',
    ]);
  });
});
