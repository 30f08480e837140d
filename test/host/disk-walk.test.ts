import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chownSync,
  existsSync,
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
import { createClock, sleep } from '../../src/host/clock.ts';
import { createDiskWalker, type DiskWalker, type WalkedDisk } from '../../src/host/disk/disk-walk.ts';
import { WALK_PROGRAM } from '../../src/host/disk/disk-walk-program.ts';
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
    expect(await walk([root])).toMatchObject({ known: true, value: { ...du(root), isComplete: true } });
  });

  it('counts a symbolic link itself and never follows it, even in a loop', async () => {
    mkdirSync(join(root, 'loop'));
    symlinkSync('..', join(root, 'loop/up'));
    symlinkSync('/usr', join(root, 'loop/usr'));
    symlinkSync('/nowhere', join(root, 'broken'));
    expect(await walk([root])).toMatchObject({ known: true, value: { ...du(root), isComplete: true } });
  });

  it('counts names that are not UTF-8', async () => {
    const name = Buffer.concat([Buffer.from(`${root}/`), Buffer.from([0xff, 0xfe, 0x0a])]);
    mkdirSync(name);
    writeFileSync(Buffer.concat([name, Buffer.from('/file')]), 'x'.repeat(10_000));
    expect(await walk([root])).toMatchObject({ known: true, value: { ...du(root), isComplete: true } });
  });

  it('counts a directory once that is requested twice or is inside another one', async () => {
    mkdirSync(join(root, 'inner'));
    writeFileSync(join(root, 'inner/file'), 'x'.repeat(50_000));
    const reading = await walk([join(root, 'inner'), root, join(root, 'inner')]);
    expect(reading).toMatchObject({ known: true, value: { ...du(root), isComplete: true } });
  });

  it('adds nothing for a directory that does not exist', async () => {
    const nothing = { known: true, value: { bytes: 0, inodes: 0, isComplete: true } };
    expect(await walk([join(root, 'not-there')])).toMatchObject(nothing);
  });

  it('is unknown for a path that is a symbolic link or a file', async () => {
    symlinkSync('/usr', join(root, 'link'));
    writeFileSync(join(root, 'file'), '');
    for (const path of [join(root, 'link'), join(root, 'file')]) {
      const reading = await walk([root, path]);
      expect(reading).toMatchObject({ known: false, why: 'unreadable', where: path });
    }
  });

  it('counts what is deeper than any path can name, and what is beside it', async () => {
    // Longer than a path may be: built from the inside out.
    let inner = mkdtempSync(join(root, 'end-'));
    writeFileSync(join(inner, 'deepest'), 'x'.repeat(1_000_000));
    for (let level = 0; level < 600; level++) {
      const outer = mkdtempSync(join(root, 'd-'));
      renameSync(inner, join(outer, 'd'));
      if (level % 50 === 0) mkdirSync(join(outer, `beside-${level}`));
      inner = outer;
    }
    const reading = await walk([root]);
    expect(reading).toMatchObject({ known: true, value: { ...du(root), isComplete: true } });
    expect(reading.known && reading.value.bytes).toBeGreaterThan(1_000_000);
  });

  it('reports what is new: how much grew in the last minute, whatever was there before', async () => {
    writeFileSync(join(root, 'new'), 'x'.repeat(100_000));
    const reading = await walk([root]);
    const [directory] = reading.known ? reading.value.directories : [];
    expect(directory).toMatchObject({ path: root, device: statSync(root).dev, inodes: 2 });
    expect(directory?.freshBytes).toBeGreaterThanOrEqual(100_000);
    // A package may have been installed this minute; this directory is the one that nearly none touches.
    const [old] = await walk(['/usr/share/common-licenses']).then((of) => (of.known ? of.value.directories : []));
    expect(old).toMatchObject({ freshBytes: 0 });
    expect(old?.bytes).toBeGreaterThan(100_000);
  });

  it('reports as new only what was created since then, if that is less than a minute ago', async () => {
    writeFileSync(join(root, 'former'), 'x'.repeat(100_000));
    await sleep(clock, 50);
    const sinceMs = clock.monoMs();
    await sleep(clock, 50);
    const freshInodes = async (freshSinceMs?: number): Promise<unknown> => {
      const reading = await walker.walk([root], undefined, undefined, freshSinceMs);
      return reading.known ? reading.value.directories[0]?.freshInodes : reading;
    };
    expect([await freshInodes(), await freshInodes(sinceMs)]).toEqual([1, 0]);
    writeFileSync(join(root, 'own'), 'x'.repeat(100_000));
    expect([await freshInodes(), await freshInodes(sinceMs)]).toEqual([2, 1]);
  });

  it('reports no file as new that was created before the clock was set back', () => {
    for (const name of ['one', 'linked']) writeFileSync(join(root, name), 'x'.repeat(100_000));
    linkSync(join(root, 'linked'), join(root, 'again'));
    const newBytes = (aheadMs: number): unknown => {
      const question = { id: 1, paths: [root], deadlineMs: 60_000, maxLinked: 10 };
      const setClock = `const now = Date.now; Date.now = () => now() - ${aheadMs};`;
      const answer = execFileSync(process.execPath, ['--eval', `${setClock}${WALK_PROGRAM}`], {
        input: `${JSON.stringify(question)}\n`,
        encoding: 'utf8',
      });
      const [, , [counts]] = JSON.parse(answer.trim().split('\n').at(-1) ?? '');
      return counts[6];
    };
    expect(newBytes(0)).toBeGreaterThanOrEqual(200_000);
    expect(newBytes(3_600_000)).toBe(0);
  });

  it('reports nothing as new if there is only the directory itself', async () => {
    const reading = await walk([root]);
    expect(reading.known && reading.value.directories[0]).toMatchObject({ inodes: 1, freshBytes: 0, freshInodes: 0 });
  });

  it('reports what stays if the directory is removed: files with a name elsewhere', async () => {
    const [inner, other] = [join(root, 'inner'), join(root, 'other')];
    for (const made of [inner, other]) mkdirSync(made);
    for (const name of ['away', 'both']) writeFileSync(join(inner, name), 'x'.repeat(100_000));
    linkSync(join(inner, 'away'), join(root, 'elsewhere'));
    linkSync(join(inner, 'both'), join(inner, 'both-again'));
    const linked = async (...paths: readonly string[]) => {
      const reading = await walk(paths);
      return reading.known ? reading.value.directories.map(({ linkedInodes }) => linkedInodes) : [];
    };
    expect(await linked(inner)).toEqual([1]);
    linkSync(join(inner, 'both'), join(other, 'both'));
    expect(await linked(inner, other)).toEqual([2, 0]);
    expect(await linked(root)).toEqual([0]);
  });

  it('handles more files with several names than it remembers, large ones independently of small ones', async () => {
    for (let i = 0; i < 40; i++) {
      writeFileSync(join(root, `small-${i}`), 'x');
      linkSync(join(root, `small-${i}`), join(root, `small-${i}-again`));
    }
    writeFileSync(join(root, 'z-large'), 'x'.repeat(500_000));
    linkSync(join(root, 'z-large'), join(root, 'z-large-again'));
    const forgetful = createDiskWalker(clock, { maxLinked: 10 });
    const reading = await forgetful.walk([root]);
    forgetful.close();
    expect(reading).toMatchObject({ known: true, value: { ...du(root), isComplete: false } });
  });

  it('ends at its deadline with what it has counted, and says "at least"', async () => {
    for (let i = 0; i < 6_000; i++) writeFileSync(join(root, `f${i}`), '');
    const hasty = createDiskWalker(clock, { deadlineMs: 1 });
    const reading = await hasty.walk([root]);
    hasty.close();
    expect(reading).toMatchObject({ known: true, value: { isComplete: false } });
    expect(reading.known && reading.value.inodes > 0 && reading.value.inodes < 6_001).toBe(true);
  });

  it('survives more directories with the longest of names than fit its memory', async () => {
    // A disk would take minutes.
    const many = existsSync('/dev/shm') ? mkdtempSync('/dev/shm/nodewarden-walk-') : root;
    try {
      for (let i = 0; i < 180_000; i++) mkdirSync(join(many, String(i).padEnd(251, 'x')));
      expect(await walk([many])).toMatchObject({ known: true, value: { isComplete: false } });
    } finally {
      rmSync(many, { recursive: true });
    }
  }, 120_000);

  it('reports lower bounds meanwhile', async () => {
    for (let i = 0; i < 6_000; i++) writeFileSync(join(root, `f${i}`), '');
    const least: WalkedDisk[] = [];
    const reading = await walker.walk([root], (so) => least.push(so));
    expect(reading).toMatchObject({ value: { inodes: 6_001, isComplete: true } });
    expect(least.length).toBeGreaterThan(0);
    expect(least.map(({ inodes }) => inodes)).toEqual(least.map(({ inodes }) => inodes).toSorted((a, b) => a - b));
    expect(least.every(({ inodes, isComplete }) => inodes > 0 && inodes < 6_001 && !isComplete)).toBe(true);
  });

  it('answers simultaneous requests separately', async () => {
    const names = ['one', 'two', 'three'];
    for (const name of names) mkdirSync(join(root, name));
    writeFileSync(join(root, 'two/file'), '');
    const readings = await Promise.all(names.map((name) => walk([join(root, name)])));
    expect(readings.map((reading) => reading.known && reading.value.inodes)).toEqual([1, 2, 1]);
  });

  it('leaves no child behind once nothing is requested', async () => {
    const children = (): readonly string[] =>
      readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, 'latin1').trim().split(' ');
    const before = children();
    await walk([root]);
    const [child = ''] = children().filter((pid) => !before.includes(pid));
    expect(child).not.toBe('');
    while (children().includes(child)) await new Promise((resolve) => setTimeout(resolve, 20));
    expect(await walk([root])).toMatchObject({ known: true });
  });

  it.skipIf(noHungMount !== null)(
    `that hangs in the kernel does not affect others [${noHungMount ?? 'root'}]`,
    async () => {
      const hung = join(root, 'hung');
      mkdirSync(hung);
      const mount = await mountHungFileSystem(hung);
      try {
        const impatient = createDiskWalker(clock, { silentMs: 8_000 });
        expect(await impatient.walk([hung])).toMatchObject({ known: false });
        mkdirSync(join(root, 'well'));
        expect(await impatient.walk([join(root, 'well')])).toMatchObject({ value: { inodes: 1 } });
        impatient.close();
      } finally {
        await mount.release();
      }
    },
  );

  it.skipIf(noHungMount !== null)(
    `beside one that hangs is counted, and the sum is a lower bound [${noHungMount ?? 'root'}]`,
    async () => {
      const [hung, one, two] = [join(root, 'hung'), join(root, 'one'), join(root, 'two')];
      for (const path of [hung, one, two]) mkdirSync(path);
      writeFileSync(join(two, 'file'), '');
      const mount = await mountHungFileSystem(hung);
      const impatient = createDiskWalker(clock, { silentMs: 8_000 });
      try {
        const reading = await impatient.walk([one, hung, two]);
        const directories = [
          { path: one, inodes: 1 },
          { path: two, inodes: 2 },
        ];
        expect(reading).toMatchObject({ value: { inodes: 3, isComplete: false, directories } });
      } finally {
        impatient.close();
        await mount.release();
      }
    },
  );

  it.skipIf(!isRoot)('never enters another file system mounted inside [needs root]', async () => {
    const inside = join(root, 'mounted');
    mkdirSync(inside);
    const before = statSync(root);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'nodewarden-test', inside]);
    try {
      writeFileSync(join(inside, 'file'), 'x'.repeat(100_000));
      const reading = await walk([root]);
      const value = { bytes: before.blocks * 512, inodes: 1, isComplete: true };
      expect(reading).toMatchObject({ known: true, value });
    } finally {
      execFileSync('umount', [inside]);
    }
  });
});

describe('deleted files that processes hold open', () => {
  /** Not a cgroup, but a directory with the same file in it. */
  function aCgroup(pids: readonly (number | undefined)[]): number {
    mkdirSync(join(root, 'below'));
    writeFileSync(join(root, 'cgroup.procs'), '');
    writeFileSync(join(root, 'below/cgroup.procs'), pids.map((pid) => `${pid}\n`).join(''));
    return statSync(root).ino;
  }
  const HOLDER = `open(my $h, '>', $ARGV[0]) or die; unlink $ARGV[0]; print $h 'x' x 3_000_000; $h->flush;
    open(my $again, '>&', $h); open(my $kept, '>', "$ARGV[0]-kept"); print $kept 'x' x 1_000_000; $kept->flush;
    $| = 1; print "ready\\n"; sleep 600`;

  it('count once each, by file system, and files that still have a name do not count', async () => {
    const holder = spawn('perl', ['-MIO::Handle', '-e', HOLDER.replaceAll('\\\\', '\\'), join(root, 'log')]);
    try {
      await once(holder.stdout, 'data');
      const inode = aCgroup([holder.pid]);
      const reading = await walker.openFiles(root, inode);
      expect(reading).toMatchObject({ known: true, value: { isComplete: true } });
      const here = reading.known ? reading.value.devices.filter(({ device }) => device === statSync(root).dev) : [];
      expect(here).toMatchObject([{ inodes: 1 }]);
      expect(here[0]?.bytes).toBeGreaterThanOrEqual(3_000_000);
      expect(here[0]?.bytes).toBeLessThan(3_900_000);
    } finally {
      holder.kill('SIGKILL');
    }
  });

  it('are none for a process that is gone, and unknown for another cgroup under the same path', async () => {
    const inode = aCgroup([4_000_000]);
    expect(await walker.openFiles(root, inode)).toEqual({ known: true, value: { devices: [], isComplete: true } });
    expect(await walker.openFiles(root, inode + 1)).toMatchObject({ known: false, where: root });
  });
});

describe('what fills a file system', () => {
  const survey = async (by: 'bytes' | 'inodes', least: number) => {
    const found = await walker.survey(root, by, least);
    if (!found.known) throw new Error(found.detail);
    return found.value;
  };

  it('is explained by the deepest directories that hold enough, each byte once', async () => {
    mkdirSync(join(root, 'a/b/c'), { recursive: true });
    mkdirSync(join(root, 'small'));
    writeFileSync(join(root, 'a/b/c/one'), 'x'.repeat(2_000_000));
    linkSync(join(root, 'a/b/c/one'), join(root, 'a/b/c/again'));
    writeFileSync(join(root, 'a/two'), 'x'.repeat(1_500_000));
    writeFileSync(join(root, 'small/three'), 'x'.repeat(10_000));
    const { directories, elsewhere, isComplete } = await survey('bytes', 1_000_000);
    expect(isComplete).toBe(true);
    expect(directories.map(({ path }) => path).toSorted()).toEqual([join(root, 'a'), join(root, 'a/b/c')]);
    const told = directories.reduce((sum, { bytes }) => sum + bytes, 0);
    expect(told + elsewhere.bytes).toBe(du(root).bytes);
    expect(elsewhere.path).toBe(root);
  });

  it('is found without following links, and names are reported byte for byte as text', async () => {
    symlinkSync('/usr', join(root, 'usr'));
    mkdirSync(Buffer.concat([Buffer.from(`${root}/bad-`), Buffer.from([0xff])]));
    for (let i = 0; i < 50; i++)
      writeFileSync(Buffer.concat([Buffer.from(`${root}/bad-`), Buffer.from([0xff]), Buffer.from(`/${i}`)]), '');
    const { directories, elsewhere } = await survey('inodes', 50);
    expect(directories).toMatchObject([{ path: join(root, 'bad-\ufffd'), inodes: 50 }]);
    expect(elsewhere.inodes).toBe(2);
  });

  it.skipIf(!isRoot)('names the owner of most of it', async () => {
    mkdirSync(join(root, 'of-many'));
    for (const [name, kib, uid] of [
      ['one', 900, 7],
      ['two', 500, 8],
      ['three', 300, 7],
    ] as const) {
      writeFileSync(join(root, 'of-many', name), 'x'.repeat(kib * 1_024));
      chownSync(join(root, 'of-many', name), uid, uid);
    }
    expect((await survey('bytes', 1_000_000)).directories).toMatchObject([{ uid: 7 }]);
  });

  it('is reported in part if the time is over', async () => {
    for (let i = 0; i < 20_000; i++) writeFileSync(join(root, String(i)), '');
    const hasty = createDiskWalker(clock, { deadlineMs: 20 });
    try {
      expect(await hasty.survey(root, 'inodes', 100)).toMatchObject({ known: true, value: { isComplete: false } });
    } finally {
      hasty.close();
    }
  });
});
