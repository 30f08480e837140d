import { describe, expect, it } from 'vitest';
import { decide } from '../../../src/core/decide.ts';
import { firstSignal, type Threshold, withContainerfs } from '../../../src/core/eviction/threshold.ts';
import type { Observation } from '../../../src/core/observation.ts';
import { known } from '../../../src/core/reading.ts';
import { initialState } from '../../../src/core/state/state.ts';
import { aConfig, anObservation, aPod, aThreshold, GI } from '../../a.ts';

describe('of several ripe thresholds, the one that is acted on (D1)', () => {
  const soft = { graceMs: 1_000 };
  const memory = aThreshold('memory.available', 10);
  const softMemory = aThreshold('memory.available', 10, soft);
  const softAllocatable = aThreshold('allocatableMemory.available', 10, soft);
  const allocatable = aThreshold('allocatableMemory.available', 10);
  const pids = aThreshold('pid.available', 10);
  const softPids = aThreshold('pid.available', 10, soft);
  const nodefs = aThreshold('nodefs.available', 10);
  const inodes = aThreshold('nodefs.inodesFree', 10);
  const softNodefs = aThreshold('nodefs.available', 10, soft);
  const byHand = { ...memory, id: 'memory.available/evictionSoft' as const };

  it.each([
    ['is a memory threshold, hard or soft', softMemory, pids],
    ['is hard, for either memory signal', allocatable, softMemory],
    ['is hard, for any other signal', inodes, softPids],
    ['is for the whole node before what pods may use', softMemory, softAllocatable],
    ['is for process IDs before a disk', pids, nodefs],
    ['is for bytes before inodes', nodefs, inodes],
    ['is soft if none is hard, in the same order', softPids, softNodefs],
    ['is the one in evictionHard, of two for one signal', memory, byHand],
  ])('%s', (_, first, other) => {
    const few = { available: 1, capacity: 100 };
    const low = (atMs: number, rest: Partial<Observation> = {}) =>
      anObservation(
        atMs,
        {
          'memory.available': few,
          'allocatableMemory.available': few,
          'pid.available': few,
          'nodefs.available': few,
          'nodefs.inodesFree': few,
        },
        rest,
      );
    const pods = known([aPod({ name: 'web', workingSetBytes: 9, processes: 9, diskBytes: 9 })]);
    const actedOn = (...thresholds: readonly Threshold[]): readonly string[] => {
      const config = aConfig(thresholds);
      // The pods come when both are ripe.
      const { state } = decide(initialState('boot'), low(0), config);
      const { decisions } = decide(state, low(1_000, { pods }), config);
      return decisions.flatMap((decision) => (decision.kind === 'evict' ? [decision.threshold.id] : []));
    };
    expect(actedOn(first, other)).toEqual([first.id]);
    expect(actedOn(other, first)).toEqual([first.id]);
  });
});

it.each([
  ['a hard memory threshold', 'memory.available', true, 'sigkill'],
  ['a soft memory threshold', 'memory.available', false, 'sigterm'],
  ['a hard disk threshold', 'nodefs.available', true, 'sigterm'],
] as const)('%s decides the first signal to its victim (D12)', (_, signal, isHard, first) => {
  expect(firstSignal({ signal, isHard })).toBe(first);
});

describe('thresholds of containerfs', () => {
  it('never have the same name twice, even if a handwritten soft one has no grace period and is hard', () => {
    const hard = aThreshold('nodefs.available', 10 * GI);
    const soft = aThreshold('nodefs.available', 20 * GI, { graceMs: 30_000 });
    const byHand = {
      ...aThreshold('containerfs.available', 7 * GI),
      id: 'containerfs.available/evictionSoft' as const,
    };
    const copies = withContainerfs([hard, soft, byHand], 'nodefs-only').all.slice(2);
    expect(copies.map(({ id, graceMs, value }) => ({ id, graceMs, value }))).toEqual([
      { id: 'containerfs.available/evictionSoft', graceMs: 0, value: hard.value },
      { id: 'containerfs.available/evictionSoft/twin', graceMs: 30_000, value: soft.value },
    ]);
  });

  it('written by hand twice in one kind: the last is overwritten, as in the kubelet', () => {
    const nodefs = aThreshold('nodefs.available', 10 * GI);
    const first = aThreshold('containerfs.available', 7 * GI);
    const last = { ...first, id: 'containerfs.available/evictionSoft' as const };
    const { all } = withContainerfs([nodefs, first, last], 'nodefs-only');
    expect(all).toEqual([nodefs, first, { ...last, value: nodefs.value }]);
  });

  it.each([
    ['nodefs-only', 'nodefs.available'],
    ['containerfs-separate', 'nodefs.available'],
    ['imagefs-separate', 'imagefs.available'],
  ] as const)('are hard and soft copies of those of the file system it is on, with %s', (layout, source) => {
    const hard = aThreshold(source, 10 * GI);
    const soft = aThreshold(source, 20 * GI, { graceMs: 30_000 });
    const { all, atOnce } = withContainerfs([hard, soft], layout);
    expect(atOnce).toEqual([hard, soft]);
    expect(all.slice(2)).toEqual([
      { ...hard, id: 'containerfs.available/evictionHard', signal: 'containerfs.available' },
      { ...soft, id: 'containerfs.available/evictionSoft', signal: 'containerfs.available' },
    ]);
  });

  it('written by hand are dropped if the file system it is on has none of their kind', () => {
    const byHand = aThreshold('containerfs.available', 7 * GI);
    const other = aThreshold('imagefs.available', 10 * GI);
    expect(withContainerfs([byHand, other], 'nodefs-only').all).toEqual([other]);
  });
});
