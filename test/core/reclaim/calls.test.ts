import { describe, expect, it } from 'vitest';
import { reclaimCalls } from '../../../src/core/reclaim/calls.ts';
import type { FsLayout, Signal } from '../../../src/core/signal.ts';

const BOTH = ['containers', 'images'];

describe('what a node-level reclaim removes (kubelet-eviction.md 6.1)', () => {
  it.each<[FsLayout, Signal, readonly string[]]>([
    ['nodefs-only', 'nodefs.available', BOTH],
    ['nodefs-only', 'nodefs.inodesFree', BOTH],
    ['nodefs-only', 'imagefs.available', BOTH],
    ['imagefs-separate', 'nodefs.available', []],
    ['imagefs-separate', 'nodefs.inodesFree', []],
    ['imagefs-separate', 'imagefs.available', BOTH],
    ['imagefs-separate', 'imagefs.inodesFree', BOTH],
    ['imagefs-separate', 'containerfs.available', BOTH],
    ['containerfs-separate', 'nodefs.available', ['containers']],
    ['containerfs-separate', 'containerfs.available', ['containers']],
    ['containerfs-separate', 'imagefs.available', ['images']],
    ['containerfs-separate', 'imagefs.inodesFree', ['images']],
  ])('%s, %s: %j', (layout, signal, calls) => {
    expect(reclaimCalls(signal, layout)).toEqual(calls);
  });

  it.each(['memory.available', 'pid.available'] as const)('nothing for %s', (signal) => {
    expect(reclaimCalls(signal, 'nodefs-only')).toEqual([]);
  });
});
