import { describe, expect, it } from 'vitest';
import type { CoreConfig } from '../../../src/core/core-config.ts';
import { decide } from '../../../src/core/decide.ts';
import type { Heard } from '../../../src/core/outcome.ts';
import type { DiskRelief, PodView, Relief } from '../../../src/core/pod/pod.ts';
import { known } from '../../../src/core/reading.ts';
import { initialState } from '../../../src/core/state/state.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../../a.ts';
import { aCore, hardMemory, hardPids, idOf, sent, victims } from './a-live-core.ts';
import { codes, evictions, kinds } from './looks.ts';

const none: Relief = { bytes: known(0), inodes: known(0) };
const nothing: DiskRelief = { scratch: none, deletedOpen: none, grownLastMinute: none, writtenBytes: known(0) };
/** It has made many empty files in the last minute. */
const maker: PodView = {
  ...aPod({ name: 'maker', diskBytes: MI }),
  diskRelief: known({ ...nothing, grownLastMinute: { bytes: known(0), inodes: known(500_000) } }),
};
/** Its end would free nothing. */
const database: PodView = { ...aPod({ name: 'database', diskBytes: 5 * GI }), diskRelief: known(nothing) };
const bytes = aThreshold('nodefs.available', 100 * MI);
const inodes = aThreshold('nodefs.inodesFree', 1_000);

/** Bytes and inodes of one file system are short; the log of a service took the bytes. */
function aFullDisk(config: Partial<CoreConfig> = { isLive: true }, pods: readonly PodView[] = [database, maker]) {
  let state = initialState('boot');
  return (atMs: number, { mib = 90, inodesFree = 10, heard = [] as readonly Heard[] } = {}) => {
    const signals = {
      'nodefs.available': { available: mib * MI, capacity: 100 * GI },
      'nodefs.inodesFree': { available: inodesFree, capacity: 10_000_000 },
    };
    const rest = { pods: known(pods), podsFor: 'nodefs.available', outcomes: heard } as const;
    const verdict = decide(state, anObservation(atMs, signals, rest), aConfig([bytes, inodes], config));
    state = verdict.state;
    return verdict;
  };
}
const evicted = (verdict: ReturnType<ReturnType<typeof aFullDisk>>) =>
  evictions(verdict).map(({ threshold, victim }) => [threshold.signal, victim.name]);
const reclaimOf = ({ decisions }: ReturnType<ReturnType<typeof aFullDisk>>) => {
  const reclaim = decisions.find((decision) => decision.kind === 'reclaim');
  return { signal: reclaim?.threshold.signal, id: reclaim?.id ?? 'none' };
};
const over = (of: string, freed: number): readonly Heard[] => [{ of, atMs: 0, kind: 'reclaimed', freed: known(freed) }];

describe('if nobody may be evicted for the first of two thresholds of one file system', () => {
  it('somebody is evicted for the second, at once, and the first is named', () => {
    const verdict = aFullDisk()(0);
    expect(evicted(verdict)).toEqual([['nodefs.inodesFree', 'maker']]);
    expect(evictions(verdict)[0]?.differences).toContain('D14');
    const passedOver = verdict.reasons.flatMap((reason) => (reason.code === 'passed-over' ? [reason.uid] : []));
    expect(passedOver).toEqual([database.uid]);
    expect(verdict.reasons).toContainEqual(
      expect.objectContaining({ code: 'no-candidate', signal: 'nodefs.available' }),
    );
  });

  it('nobody else is evicted while that pod is being stopped', () => {
    const look = aFullDisk();
    look(0);
    expect(evicted(look(1_000))).toEqual([]);
  });

  it('and for the second neither, both are named', () => {
    const verdict = aFullDisk({ isLive: true }, [database])(0);
    const named = verdict.reasons.flatMap((reason) => (reason.code === 'no-candidate' ? [reason.signal] : []));
    expect(named).toEqual(['nodefs.available', 'nodefs.inodesFree']);
  });

  it('as the kubelet has it, there is always somebody for the first', () => {
    const pods = [aPod({ name: 'database', diskBytes: 5 * GI }), aPod({ name: 'maker', diskBytes: MI })];
    expect(evicted(aFullDisk({}, pods)(0))).toEqual([['nodefs.available', 'database']]);
  });

  it('from what was recorded of its pods, the same pod is evicted', () => {
    const verdict = aFullDisk({})(0);
    expect(evicted(verdict)).toEqual([['nodefs.inodesFree', 'maker']]);
    expect(evictions(verdict)[0]?.differences).toContain('D14');
  });

  const writer: PodView = {
    ...maker,
    diskRelief: known({ ...nothing, grownLastMinute: { bytes: known(2 * MI), inodes: known(500_000) } }),
  };
  it.each<[string, string, readonly PodView[]]>([
    ['is not fully measured', 'D13', [{ ...database, diskRelief: known({ ...nothing, isAtLeast: true }) }, writer]],
    ['may be declared by a manifest that is not read', 'D14', [{ ...database, limitedBy: 'manifest-unread' }, maker]],
  ])('because a pod %s, the second has its turn as well', (_, difference, pods) => {
    const verdict = aFullDisk({ isLive: true }, pods)(0);
    expect(evicted(verdict)).toEqual([['nodefs.inodesFree', 'maker']]);
    expect(evictions(verdict)[0]?.differences).toContain(difference);
    expect(verdict.reasons).toContainEqual(expect.objectContaining({ signal: 'nodefs.available' }));
  });

  it('what is reclaimed for the second comes before its eviction', () => {
    const look = aFullDisk({ isLive: true, reclaimSignals: ['nodefs.inodesFree'] });
    const first = look(0);
    expect([kinds(first).includes('evict'), reclaimOf(first).signal]).toEqual([false, 'nodefs.inodesFree']);
    expect(evicted(look(100, { heard: over(reclaimOf(first).id, 0) }))).toEqual([['nodefs.inodesFree', 'maker']]);
  });

  it('the second does not wait for ever for what is reclaimed for the first', () => {
    const look = aFullDisk({ isLive: true, reclaimSignals: ['nodefs.available', 'nodefs.inodesFree'] });
    const first = reclaimOf(look(0));
    const second = reclaimOf(look(100, { heard: over(first.id, MI) }));
    expect([first.signal, second.signal]).toEqual(['nodefs.available', 'nodefs.inodesFree']);
    expect(evicted(look(200, { heard: over(second.id, MI) }))).toEqual([['nodefs.inodesFree', 'maker']]);
  });

  it('the second is tried once the reclaims for the first were in vain', () => {
    const look = aFullDisk({ isLive: true, reclaimSignals: ['nodefs.available'] }, [database]);
    look(100, { heard: over(reclaimOf(look(0)).id, 0) });
    const verdict = look(1_200);
    expect(codes(verdict).filter((code) => code === 'no-candidate')).toHaveLength(2);
  });
});

describe('the second of two thresholds of memory has its turn', () => {
  it.each([
    ['', null],
    [', also while a manifest is not read', 'manifest-unread'],
  ] as const)('if nobody is a candidate for a stall, as the only pod stalls in its own limit%s', (_, limitedBy) => {
    const hog: PodView = { ...aPod({ name: 'hog', workingSetBytes: 900 * MI, limitedBy }), isStalledByOwnLimit: true };
    const fixed: PodView = { ...aPod({ name: 'static', workingSetBytes: 30 * MI }), isStaticCritical: true };
    const soft = aThreshold('memory.available', 1_500 * MI, { graceMs: 1_000 });
    const core = aCore(aConfig([hardMemory, soft, aThreshold('memory.stallFree', 5_000)]), [hog, fixed]);
    const looks = [0, 1_100].map((atMs) => core.look(atMs, { memory: 400, stallFree: 2_000 }));
    expect(looks.map(victims)).toEqual([[], ['hog']]);
    const decided = looks.flatMap(evictions)[0];
    expect([decided?.threshold.id, decided?.differences.includes('D17')]).toEqual([soft.id, true]);
  });
});

describe('the second of two thresholds of memory, or of process IDs, has no turn', () => {
  const requests = { memoryBytes: 500 * MI, ephemeralStorageBytes: 0 };
  const innocent = aPod({ name: 'innocent', workingSetBytes: 300 * MI, processes: 50, requests });
  const leaker = aPod({ name: 'leaker', workingSetBytes: 900 * MI, processes: 900, usage: { pidsHeld: known(900) } });
  const softMemory = aThreshold('memory.available', 1_500 * MI, { graceMs: 1_000 });

  it.each([
    ['a soft one, which lacks more than it holds', [hardMemory, softMemory], { memory: 40 }],
    ['a stall', [hardMemory, aThreshold('memory.stallFree', 5_000)], { memory: 40, stallFree: 2_000 }],
    ['swap', [hardMemory, aThreshold('swap.available', 100 * MI)], { memory: 40, swap: 50 }],
    ['a soft one of process IDs', [hardPids, aThreshold('pid.available', 3_000, { graceMs: 1_000 })], { pids: 400 }],
  ])('while a victim that cannot be ended holds what the first one lacks: %s', (_, thresholds, short) => {
    const core = aCore(aConfig(thresholds), [leaker, innocent]);
    const id = idOf(core.look(0, short));
    core.terminate('leaker');
    core.look(100, { ...short, heard: [sent(id, 50, 'sigkill')] });
    const survived: Heard = { of: id, atMs: 10_400, kind: 'survived', left: [], detail: 'it stays' };
    const looks = [10_500, 15_000, 45_000, 600_000].map((atMs, i) =>
      core.look(atMs, i === 0 ? { ...short, heard: [survived] } : short),
    );
    expect(looks.flatMap(victims)).toEqual([]);
    expect(looks[3]?.reasons).toContainEqual({ code: 'passed-over', uid: innocent.uid, because: 'escaped' });
  });

  it('while a survivor holds what the first one lacks, and only a DaemonSet within its request is left', () => {
    const survivor: PodView = { ...leaker, hasSurvived: true, isTerminating: true };
    const usage = { ...innocent.usage, swapBytes: known(300 * MI), memoryAndSwapBytes: known(600 * MI) };
    const daemon: PodView = { ...innocent, isDaemonSet: true, usage };
    const core = aCore(aConfig([hardMemory, aThreshold('swap.available', 100 * MI)]), [survivor, daemon]);
    expect([0, 3_000, 60_000].flatMap((atMs) => victims(core.look(atMs, { memory: 40, swap: 50 })))).toEqual([]);
  });

  it('while a pod that is still to be named holds what the first one lacks', () => {
    const unsaid = { why: 'undeclared', priority: true, requests: true } as const;
    const newcomer = aPod({ name: '?', limitedBy: 'unnamed', workingSetBytes: 300 * MI, unsaid });
    const core = aCore(aConfig([hardMemory, softMemory]), [newcomer, innocent]);
    const looks = [0, 500, 1_000, 1_500, 2_000].map((atMs) => core.look(atMs, { memory: 90 }));
    expect(looks.flatMap(victims)).toEqual([]);
    expect(looks[4]?.reasons).toContainEqual(expect.objectContaining({ code: 'no-candidate', because: 'awaited' }));
  });
});
