import { describe, expect, it } from 'vitest';
import type { DiskWalk, WalkedDirectory } from '../../src/core/pod/disk-walk.ts';
import { known, unknown } from '../../src/core/reading.ts';
import { createDiskFacts } from '../../src/observe/disk-facts.ts';
import type { BoundPod } from '../../src/ports.ts';
import { aBoundPod, aDiskWalk } from './a-bound-pod.ts';

const HERE = 41;
const ELSEWHERE = 42;
const LIFE = '7/0';
const NOW_MS = 100_000;
const ROUND = 9;
const NOT_COUNTED = unknown('not-applicable', 'io.stat', 'version 1 attributes no writes');

function directory(bytes: number, of: Partial<WalkedDirectory> = {}): WalkedDirectory {
  return {
    path: '/srv/web',
    device: HERE,
    bytes,
    inodes: 5,
    inode: 9,
    ownBytes: 0,
    freshBytes: 0,
    freshInodes: 0,
    linkedBytes: 0,
    linkedInodes: 0,
    ...of,
  };
}
type Walk = DiskWalk & { readonly stops: number };
function aWalk(...directories: readonly WalkedDirectory[]): Walk {
  const sum = directories.reduce((total, { bytes }) => total + bytes, 0);
  return { ...aDiskWalk(sum), directories, stops: 0 };
}
const cutShort = (walk: Walk): Walk => ({ ...walk, pod: { ...walk.pod, isAtLeast: true } });

function ask(
  facts: ReturnType<typeof createDiskFacts>,
  walk: Walk | null,
  {
    nowMs = NOW_MS,
    life = LIFE,
    stops = 0,
    scratch = [] as readonly string[],
    round = ROUND,
    isTooOld = (_: number): boolean => false,
  } = {},
) {
  const pod: BoundPod = { ...aBoundPod({ name: 'web' }), scratch, stops };
  const none = unknown('not-applicable', 'disk of web', 'it declares no directory');
  const latest = walk === null ? none : known(walk);
  return facts.on({ pod, device: HERE, latest, life, written: NOT_COUNTED, nowMs, round, isTooOld });
}
const grown = (facts: ReturnType<typeof createDiskFacts>, walk: Walk, now = {}) => {
  const { bytes } = ask(facts, walk, now).relief.grownLastMinute;
  return bytes.known ? bytes.value : bytes.why;
};

describe('what a pod uses on one file system', () => {
  it('is what its directories hold there, plus the deleted files that it holds open there', () => {
    const facts = createDiskFacts();
    const open = [
      { device: HERE, bytes: 3_000, inodes: 1 },
      { device: ELSEWHERE, bytes: 9_000, inodes: 2 },
    ];
    facts.noteOpen('uid-web', known({ devices: open, isComplete: true }), LIFE, NOW_MS);
    const { usage, relief } = ask(facts, aWalk(directory(100), directory(5_000, { device: ELSEWHERE })));
    expect(usage).toMatchObject(known({ volumesBytes: 3_100, volumesInodes: 6, isOfFileSystem: true }));
    expect(usage.known && usage.value.isAtLeast).toBe(undefined);
    expect(relief.deletedOpen).toEqual({ bytes: known(3_000), inodes: known(1) });
  });

  it('is a lower bound if the walk or the check of its open files was cut short', () => {
    expect(ask(createDiskFacts(), cutShort(aWalk(directory(100)))).usage).toMatchObject(known({ isAtLeast: true }));
    const facts = createDiskFacts();
    facts.noteOpen('uid-web', known({ devices: [], isComplete: false }), LIFE, NOW_MS);
    expect(ask(facts, aWalk(directory(100))).usage).toMatchObject(known({ volumesBytes: 100, isAtLeast: true }));
  });

  it('is a lower bound if its open files could not be read, or were read too long ago', () => {
    const [unread, old] = [createDiskFacts(), createDiskFacts()];
    unread.noteOpen('uid-web', unknown('unreadable', 'open files of web', 'EIO'), LIFE, NOW_MS);
    const open = [{ device: HERE, bytes: 7, inodes: 1 }];
    old.noteOpen('uid-web', known({ devices: open, isComplete: true }), LIFE, NOW_MS);
    const isTooOld = (atMs: number) => atMs === NOW_MS;
    for (const { usage, relief } of [
      ask(unread, aWalk(directory(100))),
      ask(old, aWalk(directory(100)), { isTooOld }),
    ]) {
      expect(usage).toMatchObject(known({ volumesBytes: 100, isAtLeast: true }));
      expect(relief.deletedOpen.bytes.known).toBe(false);
    }
    expect(ask(old, aWalk(directory(100))).relief.deletedOpen.bytes).toEqual(known(7));
  });

  it('is unknown if it declares no directory, or at least what it holds open', () => {
    const facts = createDiskFacts();
    expect(ask(facts, null).usage).toMatchObject({ known: false, why: 'not-applicable' });
    facts.noteOpen(
      'uid-web',
      known({ devices: [{ device: HERE, bytes: 7, inodes: 1 }], isComplete: true }),
      LIFE,
      NOW_MS,
    );
    expect(ask(facts, null).usage).toMatchObject(known({ volumesBytes: 7, isAtLeast: true }));
    expect(ask(facts, null, { life: '8/0' }).usage.known).toBe(false);
  });
});

describe("what a pod's end would free", () => {
  it('is what its scratch directories hold, without the directories themselves', () => {
    const scratch = ['/srv/web/tmp'];
    const { relief } = ask(
      createDiskFacts(),
      aWalk(directory(100), directory(904, { path: '/srv/web/tmp', ownBytes: 4 })),
      { scratch },
    );
    expect(relief.scratch).toEqual({ bytes: known(900), inodes: known(4) });
    expect(ask(createDiskFacts(), aWalk(directory(100)), { scratch }).relief.scratch.bytes).toEqual(known(0));
  });

  it('is what grew since the oldest walk of the last minute, also over a restart of its own, but not over a stop of ours', () => {
    const facts = createDiskFacts();
    facts.noteWalk('uid-web', aWalk(directory(100)), 20_000, ROUND);
    facts.noteWalk('uid-web', aWalk(directory(500)), 50_000, ROUND);
    facts.noteWalk('uid-web', aWalk(directory(800)), 90_000, ROUND);
    expect(grown(facts, aWalk(directory(900)))).toBe(400);
    expect(grown(facts, aWalk(directory(900)), { nowMs: 60_000 })).toBe(800);
    expect(grown(facts, aWalk(directory(900)), { life: '8/0' })).toBe(400);
    expect(grown(facts, aWalk(directory(900)), { life: '8/1', stops: 1 })).toBe('stale');
    facts.noteWalk('uid-web', { ...aWalk(directory(900)), stops: 1 }, 95_000, ROUND);
    expect(grown(facts, { ...aWalk(directory(950)), stops: 1 }, { life: '8/1', stops: 1 })).toBe(50);
  });

  it('is what was created in the last minute if there is no earlier walk to compare with', () => {
    const facts = createDiskFacts();
    const filled = aWalk(directory(900, { freshBytes: 700 }));
    expect(grown(facts, filled)).toBe(700);
    // It stays growth of that minute when the disk is full and nothing grows any more.
    facts.noteWalk('uid-web', filled, 90_000, ROUND);
    expect(grown(facts, filled)).toBe(700);
    expect(grown(facts, filled, { nowMs: 130_000 })).toBe(0);
  });

  it('is measured from the round before if rounds take longer than a minute, not from an earlier pressure', () => {
    const facts = createDiskFacts();
    facts.noteWalk('uid-web', aWalk(directory(100)), 10_000, ROUND);
    const walk = aWalk(directory(900));
    const later = { nowMs: 300_000 };
    expect(grown(facts, walk, { ...later, round: ROUND + 2 })).toBe(800);
    expect(grown(facts, walk, { ...later, round: ROUND + 3 })).toBe(0);
    facts.noteWalk('uid-web', walk, 300_000, ROUND + 1);
    expect(grown(facts, walk, { ...later, round: ROUND + 2 })).toBe(800);
  });

  it('remains nothing for older files, however often they are walked', () => {
    const facts = createDiskFacts();
    const settled = aWalk(directory(900, { freshBytes: 900 }));
    for (let atMs = 70_000; atMs <= 100_000; atMs += 100) facts.noteWalk('uid-web', settled, atMs, ROUND);
    expect(grown(facts, settled)).toBe(0);
  });

  it('is not what another directory holds that has the path now, but what is new in it', () => {
    const facts = createDiskFacts();
    facts.noteWalk('uid-web', aWalk(directory(100), directory(900, { path: '/srv/b' })), 50_000, ROUND);
    const [renamed, mounted] = [{ inode: 10 }, { inode: 11, freshBytes: 40 }];
    const now = aWalk(directory(5_000, renamed), directory(8_000, { path: '/srv/b', ...mounted }));
    expect(grown(facts, now)).toBe(40);
    // Nor does a smaller one hide what another directory has grown.
    expect(grown(facts, aWalk(directory(150), directory(1, { path: '/srv/b', inode: 12 })))).toBe(50);
  });

  it('is never negative, and never derived from incomplete walks', () => {
    const facts = createDiskFacts();
    facts.noteWalk('uid-web', aWalk(directory(500), directory(500, { path: '/srv/b' })), 50_000, ROUND);
    expect(grown(facts, aWalk(directory(100), directory(600, { path: '/srv/b' })))).toBe(0);
    expect(grown(facts, cutShort(aWalk(directory(100), directory(600, { path: '/srv/b' }))))).toBe(100);
    // A directory that a new manifest names is not growth.
    expect(grown(facts, aWalk(directory(500), directory(9_000, { path: '/srv/c' })))).toBe(0);
  });
});
