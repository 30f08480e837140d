import { describe, expect, it } from 'vitest';
import {
  countsSwap,
  fileSystemOf,
  forEachSignal,
  hasRequest,
  isDisk,
  isSignal,
  realFileSystem,
  SIGNAL_FACTS,
  SIGNALS,
  type Signal,
  signalsOf,
  usageUnit,
} from '../../src/core/signal.ts';
import { GI, MI } from '../a.ts';

const REQUESTED = ['over-request', 'priority', 'usage-over-request'];

describe('each signal', () => {
  it.each<readonly [Signal, string, string, string, string, string]>([
    ['memory.available', 'bytes', 'MemoryPressure', 'memory', 'workingSetBytes', 'memory'],
    ['allocatableMemory.available', 'bytes', 'MemoryPressure', 'memory', 'workingSetBytes', 'memory'],
    ['swap.available', 'bytes', 'MemoryPressure', 'memory', 'memoryAndSwapBytes', 'swap'],
    ['memory.stallFree', 'ms', 'MemoryPressure', 'memory', 'memoryAndSwapBytes', 'stall'],
    ['nodefs.available', 'bytes', 'DiskPressure', 'ephemeral-storage', 'disk', 'nothing'],
    ['nodefs.inodesFree', 'inodes', 'DiskPressure', 'inodes', 'disk', 'nothing'],
    ['imagefs.available', 'bytes', 'DiskPressure', 'ephemeral-storage', 'disk', 'nothing'],
    ['imagefs.inodesFree', 'inodes', 'DiskPressure', 'inodes', 'disk', 'nothing'],
    ['containerfs.available', 'bytes', 'DiskPressure', 'ephemeral-storage', 'disk', 'nothing'],
    ['containerfs.inodesFree', 'inodes', 'DiskPressure', 'inodes', 'disk', 'nothing'],
    ['pid.available', 'pids', 'PIDPressure', 'pids', 'processes', 'process-ids'],
  ])('%s is measured in %s, sets %s, is short of %s, ranks by %s and gets back: %s', (signal, ...facts) => {
    const { unit, condition, resource, counts, comesBack } = SIGNAL_FACTS[signal];
    expect([unit, condition, resource, counts, comesBack]).toEqual(facts);
  });

  it.each<readonly [Signal, readonly string[], string]>([
    ['memory.available', REQUESTED, 'sigkill'],
    ['allocatableMemory.available', REQUESTED, 'sigkill'],
    ['swap.available', REQUESTED, 'sigkill'],
    ['memory.stallFree', REQUESTED, 'sigkill'],
    ['nodefs.available', REQUESTED, 'sigterm'],
    ['containerfs.inodesFree', REQUESTED, 'sigterm'],
    ['pid.available', ['priority', 'usage'], 'sigkill'],
  ])('%s compares pods by %j, and its victim is sent %s first under a hard threshold', (signal, rankedBy, first) => {
    expect(SIGNAL_FACTS[signal]).toMatchObject({ rankedBy, firstWhenHard: first });
  });

  it('is acted on in this order, whatever the order of the thresholds (D1)', () => {
    const inOrder = SIGNALS.toSorted((a, b) => {
      const [x, y] = [SIGNAL_FACTS[a].order, SIGNAL_FACTS[b].order];
      return x.class - y.class || x.place - y.place;
    });
    expect(inOrder).toEqual([
      ...['memory.available', 'allocatableMemory.available', 'swap.available', 'memory.stallFree'],
      ...['pid.available', 'nodefs.available', 'nodefs.inodesFree', 'imagefs.available', 'imagefs.inodesFree'],
      ...['containerfs.available', 'containerfs.inodesFree'],
    ]);
    const ofMemory = SIGNALS.filter((signal) => SIGNAL_FACTS[signal].order.class === 0);
    expect(ofMemory).toEqual(inOrder.slice(0, 4));
  });

  it("acts before the node's kubelet by a margin that a fast fill does not use up", () => {
    // 2 GiB/s for the 100 ms of a reaction.
    const memory = { least: 0.2 * GI, share: 0.02 };
    const disk = { least: GI, share: 0.01 };
    const inodes = { least: 0, share: 0.01 };
    const margins = forEachSignal((_, { margin }) => margin);
    expect(margins['memory.available'].least).toBeGreaterThan(128 * MI);
    expect(margins).toEqual({
      'memory.available': memory,
      'allocatableMemory.available': memory,
      'swap.available': memory,
      'memory.stallFree': { least: 0, share: 0 },
      'nodefs.available': disk,
      'nodefs.inodesFree': inodes,
      'imagefs.available': disk,
      'imagefs.inodesFree': inodes,
      'containerfs.available': disk,
      'containerfs.inodesFree': inodes,
      'pid.available': { least: 512, share: 0.01 },
    });
  });

  it('is configured where the kubelet has it, else only where this agent does', () => {
    const own = forEachSignal((_, { configuredIn }) => configuredIn);
    const both = SIGNALS.filter((signal) => own[signal] === 'both-kinds');
    expect(both).toHaveLength(SIGNALS.length - 2);
    expect([own['swap.available'], own['memory.stallFree']]).toEqual(['own-kind', 'own-section']);
  });

  it('has a unique name', () => {
    expect(SIGNALS.filter(isSignal)).toEqual(SIGNALS);
    expect(['memory', 'toString', ''].filter(isSignal)).toEqual([]);
  });
});

describe('signals of one source', () => {
  it.each([
    [['node-memory'], ['memory.available']],
    [['pods-memory'], ['allocatableMemory.available']],
    [['swap'], ['swap.available']],
    [['memory-stall'], ['memory.stallFree']],
    [['pids'], ['pid.available']],
    [['nodefs'], ['nodefs.available', 'nodefs.inodesFree']],
    [['imagefs', 'bytes'], ['imagefs.available']],
    [['containerfs', 'inodes'], ['containerfs.inodesFree']],
    [['pids', 'bytes'], []],
  ] as const)('%j are %j', ([source, ...unit], signals) => {
    expect(signalsOf(source, unit[0])).toEqual(signals);
  });
});

describe('what a signal counts of a pod', () => {
  it('is in bytes, except for processes and inodes', () => {
    const units = forEachSignal((signal) => usageUnit(signal));
    const others = SIGNALS.filter((signal) => units[signal] !== 'bytes').map((signal) => [signal, units[signal]]);
    expect(others).toEqual([
      ['nodefs.inodesFree', 'inodes'],
      ['imagefs.inodesFree', 'inodes'],
      ['containerfs.inodesFree', 'inodes'],
      ['pid.available', 'pids'],
    ]);
  });

  it('includes swap for two of them (D17)', () => {
    expect(SIGNALS.filter(countsSwap)).toEqual(['swap.available', 'memory.stallFree']);
  });

  it('can be requested only for memory and disk bytes', () => {
    expect(SIGNALS.filter((signal) => !hasRequest(signal))).toEqual([
      'nodefs.inodesFree',
      'imagefs.inodesFree',
      'containerfs.inodesFree',
      'pid.available',
    ]);
  });
});

describe('the file system of a signal', () => {
  it('is the one after which it is named; memory and processes have none', () => {
    for (const signal of SIGNALS) {
      const [name = ''] = signal.split('.');
      const role = name.endsWith('fs') ? name : null;
      expect([signal, fileSystemOf(signal), isDisk(signal)]).toEqual([signal, role, role !== null]);
    }
  });

  it.each([
    ['nodefs', 'nodefs-only', 'nodefs'],
    ['imagefs', 'nodefs-only', 'nodefs'],
    ['containerfs', 'nodefs-only', 'nodefs'],
    ['nodefs', 'imagefs-separate', 'nodefs'],
    ['imagefs', 'imagefs-separate', 'imagefs'],
    ['containerfs', 'imagefs-separate', 'imagefs'],
    ['nodefs', 'containerfs-separate', 'nodefs'],
    ['imagefs', 'containerfs-separate', 'imagefs'],
    ['containerfs', 'containerfs-separate', 'nodefs'],
  ] as const)('for %s is, with %s, really %s', (role, layout, real) => {
    expect(realFileSystem(role, layout)).toBe(real);
  });
});
