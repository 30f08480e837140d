import { describe, expect, it } from 'vitest';
import { firstCandidate } from '../../src/core/eviction/candidate.ts';
import { rank } from '../../src/core/eviction/rank.ts';
import type { DiskWalk, OpenFiles } from '../../src/core/pod/disk-walk.ts';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import { createDiskFacts } from '../../src/observe/disk-facts.ts';
import { aPod, GI, MI } from '../a.ts';
import { aBoundPod, aDiskWalk } from './a-bound-pod.ts';

const HERE = 41;
const LIFE = '7/0';
const NOW_MS = 100_000;

type Measured = {
  readonly walk: Reading<DiskWalk & { readonly stops: number }>;
  /** Null: not read yet. */
  readonly open?: Reading<OpenFiles> | null;
  readonly openMs?: number;
  readonly written?: number;
  /** Of ours, that have ended. */
  readonly stops?: number;
};
function aWalk(bytes: number, freshBytes: number, isCut = false): Measured['walk'] {
  const { pod, ...rest } = aDiskWalk(bytes);
  const none = { ownBytes: 0, linkedBytes: 0, linkedInodes: 0 };
  return known({
    ...rest,
    pod: { ...pod, sampledAtMs: NOW_MS, ...(isCut ? { isAtLeast: true as const } : {}) },
    directories: [{ path: '/srv', device: HERE, inode: 9, bytes, inodes: 3, freshBytes, freshInodes: 1, ...none }],
    stops: 0,
  });
}
const holding = (bytes: number, isComplete = true): Reading<OpenFiles> =>
  known({ devices: bytes === 0 ? [] : [{ device: HERE, bytes, inodes: 1 }], isComplete });

/** Whom a disk that lacks 10 GiB costs its life: the pod that may fill it, one that has made a file of 2 MiB, or nobody. */
function chosen(hog: Measured): string {
  const facts = createDiskFacts();
  const view = (name: string, { walk, open = holding(0), openMs = NOW_MS, written, stops = 0 }: Measured) => {
    if (open !== null) facts.noteOpen(`uid-${name}`, open, LIFE, openMs);
    const openFiles = () => Promise.resolve(holding(0));
    const { usage, relief } = facts.on({
      pod: { ...aBoundPod({ name }), scratch: [], stops, openFiles },
      device: HERE,
      latest: walk,
      life: LIFE,
      written: written === undefined ? unknown('not-applicable', 'io.stat', 'version 1') : known(written),
      nowMs: NOW_MS,
      round: 9,
      isTooOld: (atMs) => atMs < NOW_MS,
    });
    return aPod({ name, usage: { disk: usage }, diskRelief: known(relief) });
  };
  const pods = [view('hog', hog), view('innocent', { walk: aWalk(GI, 2 * MI) })];
  const ranking = rank('nodefs.available', pods, 'nodefs-only');
  return firstCandidate('nodefs.available', ranking, [], () => false, 10 * GI).victim?.name ?? 'nobody';
}

describe('an innocent pod does not go in place of one', () => {
  const hung = unknown('timed-out', 'disk of hog', 'a walk hangs in a file system');
  it.each([
    ['whose walk failed', { walk: hung }],
    ['whose walk failed, and that holds a small deleted file', { walk: hung, open: holding(4096) }],
    ['whose walk failed, and that has written a block', { walk: hung, written: 4096 }],
    ['whose walk was cut short and found a small new file', { walk: aWalk(MI, 4096, true) }],
    ['whose growth is not known since its stop', { walk: aWalk(2 * GI, 0), stops: 1 }],
  ])('%s', (_, hog) => {
    expect(chosen(hog)).toBe('nobody');
  });

  describe.each([
    ['with a directory', aWalk(8192, 0)],
    ['without one', unknown('not-applicable', 'disk of hog', 'it declares no directory')],
  ])('%s', (_, walk) => {
    it.each([
      ['whose open files have not been read yet', { open: null }],
      ['whose open files could not be read', { open: unknown('unreadable', 'disk walk', 'its child was killed') }],
      ['of whose open files not all were read', { open: holding(0, false) }],
      ['of whose open files not all were read, but a small deleted one', { open: holding(4096, false) }],
      ['whose open files were read before the pressure', { open: holding(40 * GI), openMs: NOW_MS - 1 }],
    ])('%s', (_, open) => {
      expect(chosen({ walk, ...open })).toBe('nobody');
    });

    it('but in place of none that is known to hold nothing of note', () => {
      expect(chosen({ walk })).toBe('innocent');
      expect(chosen({ walk, open: holding(4096) })).toBe('innocent');
      expect(chosen({ walk, open: holding(40 * GI) })).toBe('hog');
    });
  });
});
