import { execFileSync } from 'node:child_process';
import { linkSync, mkdirSync, mkdtempSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createClock } from '../../src/host/clock.ts';
import { walkDirectories } from '../../src/host/disk-walk.ts';
import type { Clock } from '../../src/ports.ts';

const isRoot = process.getuid?.() === 0;
const clock = createClock();
let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nodewarden-walk-'));
});
afterEach(() => {
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
    expect(await walkDirectories([root], clock)).toEqual({ known: true, value: { ...du(root), isComplete: true } });
  });

  it('counts a symbolic link itself and never follows it, also in a loop', async () => {
    mkdirSync(join(root, 'loop'));
    symlinkSync('..', join(root, 'loop/up'));
    symlinkSync('/usr', join(root, 'loop/usr'));
    symlinkSync('/nowhere', join(root, 'broken'));
    expect(await walkDirectories([root], clock)).toEqual({ known: true, value: { ...du(root), isComplete: true } });
  });

  it('counts names that are not UTF-8', async () => {
    const name = Buffer.concat([Buffer.from(`${root}/`), Buffer.from([0xff, 0xfe, 0x0a])]);
    mkdirSync(name);
    writeFileSync(Buffer.concat([name, Buffer.from('/file')]), 'x'.repeat(10_000));
    expect(await walkDirectories([root], clock)).toEqual({ known: true, value: { ...du(root), isComplete: true } });
  });

  it('counts a directory once that is asked for twice or lies in another one', async () => {
    mkdirSync(join(root, 'inner'));
    writeFileSync(join(root, 'inner/file'), 'x'.repeat(50_000));
    const reading = await walkDirectories([join(root, 'inner'), root, join(root, 'inner')], clock);
    expect(reading).toEqual({ known: true, value: { ...du(root), isComplete: true } });
  });

  it('adds nothing for a directory that does not exist', async () => {
    const nothing = { known: true, value: { bytes: 0, inodes: 0, isComplete: true } };
    expect(await walkDirectories([join(root, 'not-there')], clock)).toEqual(nothing);
  });

  it('is unknown for a path that is a symbolic link or a file', async () => {
    symlinkSync('/usr', join(root, 'link'));
    writeFileSync(join(root, 'file'), '');
    for (const path of [join(root, 'link'), join(root, 'file')]) {
      const reading = await walkDirectories([root, path], clock);
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
    const reading = await walkDirectories([root], clock);
    // The root is the first level, and the directory at the limit is still counted itself.
    expect(reading).toMatchObject({ known: true, value: { inodes: 257, isComplete: false } });
  });

  it('ends after a minute with what it has counted, and says "at least"', async () => {
    for (let i = 0; i < 100; i++) writeFileSync(join(root, `f${i}`), 'x');
    let nowMs = 0;
    // A clock on which each look at it takes two seconds.
    const slow: Clock = { ...clock, monoMs: () => (nowMs += 2_000), after: (_ms, run) => clock.after(0, run) };
    const reading = await walkDirectories([root], slow);
    expect(reading).toMatchObject({ known: true, value: { isComplete: false } });
    if (!reading.known) return;
    expect(reading.value.inodes).toBeGreaterThan(5);
    expect(reading.value.inodes).toBeLessThan(40);
  });

  it('gives the event loop back within a slice', async () => {
    for (let i = 0; i < 3_000; i++) writeFileSync(join(root, `f${i}`), '');
    let rests = 0;
    const counting: Clock = {
      ...clock,
      after: (ms, run) => {
        rests += 1;
        return clock.after(ms, run);
      },
    };
    expect(await walkDirectories([root], counting)).toMatchObject({ value: { inodes: 3_001, isComplete: true } });
    expect(rests).toBeGreaterThan(0);
  });

  it.skipIf(!isRoot)('never enters another file system mounted inside [needs root]', async () => {
    const inside = join(root, 'mounted');
    mkdirSync(inside);
    const before = statSync(root);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'nodewarden-test', inside]);
    try {
      writeFileSync(join(inside, 'file'), 'x'.repeat(100_000));
      const reading = await walkDirectories([root], clock);
      const value = { bytes: before.blocks * 512, inodes: 1, isComplete: true };
      expect(reading).toEqual({ known: true, value });
    } finally {
      execFileSync('umount', [inside]);
    }
  });
});
