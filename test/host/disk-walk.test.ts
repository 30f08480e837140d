import { execFileSync } from 'node:child_process';
import {
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Reading } from '../../src/core/reading.ts';
import { createClock } from '../../src/host/clock.ts';
import { createDiskWalker, type DiskWalker, type WalkedDisk } from '../../src/host/disk-walk.ts';
import { mountHungFileSystem, noHungMount } from './hung-mount.ts';

const isRoot = process.getuid?.() === 0;
const clock = createClock();
let root: string;
let walker: DiskWalker;
const walk = (paths: readonly string[]): Promise<Reading<WalkedDisk>> => walker.walk(paths);

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nodewarden-walk-'));
  walker = createDiskWalker(clock);
});
afterEach(() => {
  walker.close();
  rmSync(root, { recursive: true, force: true });
});

/** What du(1) says: the slow, obvious answer. */
function du(path: string): { bytes: number; inodes: number } {
  const bytes =
    Number(execFileSync('du', ['-sx', '--block-size=512', path], { encoding: 'utf8' }).split('\t')[0]) * 512;
  const inodes = Number(execFileSync('du', ['-sx', '--inodes', path], { encoding: 'utf8' }).split('\t')[0]);
  return { bytes, inodes };
}

describe('a walk over directories', () => {
  it('counts blocks and inodes as du does, with hard links once', async () => {
    mkdirSync(join(root, 'a/b/c'), { recursive: true });
    writeFileSync(join(root, 'a/one'), 'x'.repeat(100_000));
    linkSync(join(root, 'a/one'), join(root, 'a/b/again'));
    linkSync(join(root, 'a/one'), join(root, 'a/b/c/and-again'));
    execFileSync('truncate', ['-s', '1G', join(root, 'a/sparse')]);
    execFileSync('mkfifo', [join(root, 'a/fifo')]);
    expect(await walk([root])).toEqual({ known: true, value: { ...du(root), isComplete: true } });
  });

  it('counts a symbolic link itself and never follows it, also in a loop', async () => {
    mkdirSync(join(root, 'loop'));
    symlinkSync('..', join(root, 'loop/up'));
    symlinkSync('/usr', join(root, 'loop/usr'));
    symlinkSync('/nowhere', join(root, 'broken'));
    expect(await walk([root])).toEqual({ known: true, value: { ...du(root), isComplete: true } });
  });

  it('counts names that are not UTF-8', async () => {
    const name = Buffer.concat([Buffer.from(`${root}/`), Buffer.from([0xff, 0xfe, 0x0a])]);
    mkdirSync(name);
    writeFileSync(Buffer.concat([name, Buffer.from('/file')]), 'x'.repeat(10_000));
    expect(await walk([root])).toEqual({ known: true, value: { ...du(root), isComplete: true } });
  });

  it('counts a directory once that is asked for twice or lies in another one', async () => {
    mkdirSync(join(root, 'inner'));
    writeFileSync(join(root, 'inner/file'), 'x'.repeat(50_000));
    const reading = await walk([join(root, 'inner'), root, join(root, 'inner')]);
    expect(reading).toEqual({ known: true, value: { ...du(root), isComplete: true } });
  });

  it('adds nothing for a directory that does not exist', async () => {
    const nothing = { known: true, value: { bytes: 0, inodes: 0, isComplete: true } };
    expect(await walk([join(root, 'not-there')])).toEqual(nothing);
  });

  it('is unknown for a path that is a symbolic link or a file', async () => {
    symlinkSync('/usr', join(root, 'link'));
    writeFileSync(join(root, 'file'), '');
    for (const path of [join(root, 'link'), join(root, 'file')]) {
      const reading = await walk([root, path]);
      expect(reading).toMatchObject({ known: false, why: 'unreadable', where: path });
    }
  });

  it('goes 256 levels deep and says "at least" for what lies deeper', async () => {
    // Longer than a path may be: built from the inside out.
    let inner = mkdtempSync(join(root, 'end-'));
    for (let level = 0; level < 300; level++) {
      const outer = mkdtempSync(join(root, 'd-'));
      renameSync(inner, join(outer, 'd'));
      inner = outer;
    }
    const reading = await walk([root]);
    // The root is the first level, and the directory at the limit is still counted itself.
    expect(reading).toMatchObject({ known: true, value: { inodes: 257, isComplete: false } });
  });

  it('ends at its deadline with what it has counted, and says "at least"', async () => {
    for (let i = 0; i < 6_000; i++) writeFileSync(join(root, `f${i}`), '');
    const hasty = createDiskWalker(clock, { deadlineMs: 1, silentMs: 10_000 });
    const reading = await hasty.walk([root]);
    hasty.close();
    expect(reading).toMatchObject({ known: true, value: { isComplete: false } });
    expect(reading.known && reading.value.inodes > 0 && reading.value.inodes < 6_001).toBe(true);
  });

  it('tells meanwhile what is there at least', async () => {
    for (let i = 0; i < 6_000; i++) writeFileSync(join(root, `f${i}`), '');
    const least: WalkedDisk[] = [];
    const reading = await walker.walk([root], (so) => least.push(so));
    expect(reading).toMatchObject({ value: { inodes: 6_001, isComplete: true } });
    expect(least.length).toBeGreaterThan(0);
    expect(least.map(({ inodes }) => inodes)).toEqual(least.map(({ inodes }) => inodes).toSorted((a, b) => a - b));
    expect(least.every(({ inodes, isComplete }) => inodes > 0 && inodes < 6_001 && !isComplete)).toBe(true);
  });

  it('answers several who ask at once, each for itself', async () => {
    const names = ['one', 'two', 'three'];
    for (const name of names) mkdirSync(join(root, name));
    writeFileSync(join(root, 'two/file'), '');
    const readings = await Promise.all(names.map((name) => walk([join(root, name)])));
    expect(readings.map((reading) => reading.known && reading.value.inodes)).toEqual([1, 2, 1]);
  });

  it('leaves no child behind when nobody asks any more', async () => {
    const children = (): readonly string[] =>
      readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, 'latin1').trim().split(' ');
    const before = children();
    await walk([root]);
    const [child = ''] = children().filter((pid) => !before.includes(pid));
    expect(child).not.toBe('');
    while (children().includes(child)) await new Promise((resolve) => setTimeout(resolve, 20));
    expect(await walk([root])).toMatchObject({ known: true });
  });

  it.skipIf(noHungMount !== null)(`that hangs in the kernel hides nobody else [${noHungMount ?? 'root'}]`, async () => {
    const hung = join(root, 'hung');
    mkdirSync(hung);
    const mount = await mountHungFileSystem(hung);
    try {
      const impatient = createDiskWalker(clock, { deadlineMs: 60_000, silentMs: 1_000 });
      expect(await impatient.walk([hung])).toMatchObject({ known: false });
      mkdirSync(join(root, 'well'));
      expect(await impatient.walk([join(root, 'well')])).toMatchObject({ value: { inodes: 1 } });
      impatient.close();
    } finally {
      await mount.release();
    }
  });

  it.skipIf(!isRoot)('never enters another file system mounted inside [needs root]', async () => {
    const inside = join(root, 'mounted');
    mkdirSync(inside);
    const before = statSync(root);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'nodewarden-test', inside]);
    try {
      writeFileSync(join(inside, 'file'), 'x'.repeat(100_000));
      const reading = await walk([root]);
      const value = { bytes: before.blocks * 512, inodes: 1, isComplete: true };
      expect(reading).toEqual({ known: true, value });
    } finally {
      execFileSync('umount', [inside]);
    }
  });
});
