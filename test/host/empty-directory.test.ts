import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { empty } from './an-emptying.ts';
import { mountHungFileSystem, noHungMount } from './hung-mount.ts';

const isRoot = process.getuid?.() === 0;

/** As many as one owner needs to hit each moment of an emptying some times. */
const ROUNDS = 15;
/** What the owner does: @ARGV is its directory, and what is precious to another one. The numbers are those of x86-64. */
const MOUNTS = `
  my ($own, $precious) = @ARGV;
  while (1) {
    for my $at (glob("$own/tmp/*"), glob("$own/tmp/*/*")) {
      syscall(165, $precious, $at, 0, 4096, 0);
      select undef, undef, undef, 0.001;
      syscall(166, $at, 2);
    }
    select undef, undef, undef, 0.001;
  }`;
const LINKS = `
  my ($own, $precious) = @ARGV;
  while (1) {
    rename "$own/tmp", "$own/away"; symlink $precious, "$own/tmp";
    select undef, undef, undef, 0.002;
    unlink "$own/tmp"; rename "$own/away", "$own/tmp";
    select undef, undef, undef, 0.002;
  }`;
const MOVES = `
  my ($own, $precious) = @ARGV;
  mkdir "$own/other"; mkdir "$own/other/at";
  syscall(165, $precious, "$own/other/at", 0, 4096, 0);
  while (1) {
    rename "$own/tmp", "$own/away"; rename "$own/other", "$own/tmp";
    select undef, undef, undef, 0.002;
    rename "$own/tmp", "$own/other"; rename "$own/away", "$own/tmp";
    select undef, undef, undef, 0.002;
  }`;

const make = (path: string): void => {
  try {
    mkdirSync(path, { recursive: true });
  } catch {
    // Its place is just being changed.
  }
};

let root: string;
let scratch: string;
let precious: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nodewarden-empty-'));
  scratch = join(root, 'web/tmp');
  precious = join(root, 'precious');
  mkdirSync(scratch, { recursive: true });
  mkdirSync(precious);
  writeFileSync(join(precious, 'data'), 'of somebody else');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

describe.skipIf(!isRoot)('a scratch directory [needs root]', () => {
  it('is emptied of files, directories and links of any name, but kept', async () => {
    mkdirSync(join(scratch, 'a/b'), { recursive: true });
    writeFileSync(join(scratch, 'a/b/file'), 'x');
    writeFileSync(join(scratch, '-rf'), 'x');
    writeFileSync(join(scratch, '.hidden $HOME %n'), 'x');
    mkdirSync(Buffer.concat([Buffer.from(`${scratch}/`), Buffer.from([0xff, 0x0a, 0xfe])]));
    for (let i = 0; i < 300; i++) mkdirSync(join(scratch, `d${i}`));
    symlinkSync(precious, join(scratch, 'link'));
    symlinkSync(precious, join(scratch, 'a/link'));
    expect(await empty(scratch)).toBeNull();
    expect(readdirSync(scratch)).toEqual([]);
    expect(readdirSync(precious)).toEqual(['data']);
  });

  it('needs nothing if it does not exist', async () => {
    expect(await empty(join(root, 'web/gone'))).toBeNull();
  });

  it.each([
    ['itself', 'web/tmp'],
    ['with a directory above it', 'web'],
  ])("replaced, %s, by a link is left alone, and so is the link's target", async (_, replaced) => {
    mkdirSync(join(precious, 'tmp'));
    rmSync(join(root, replaced), { recursive: true });
    symlinkSync(precious, join(root, replaced));
    expect(await empty(scratch)).toContain('a symbolic link');
    expect(readdirSync(precious)).toEqual(['data', 'tmp']);
  });

  it.skipIf(!isRoot).each([
    ['at it', 'web/tmp'],
    ['below it', 'web/tmp/deep/er'],
  ])('with a file system or a bind mount %s is left alone [needs root]', async (_, at) => {
    mkdirSync(join(root, at), { recursive: true });
    execFileSync('mount', ['--bind', precious, join(root, at)]);
    try {
      expect(await empty(scratch)).toContain('mounted');
    } finally {
      execFileSync('umount', ['-l', join(root, at)]);
    }
    expect(existsSync(join(precious, 'data'))).toBe(true);
  });

  it.skipIf(noHungMount !== null)(
    `at which a file system is mounted that hangs says so, and takes no time from others [${noHungMount ?? 'root'}]`,
    async () => {
      const mount = await mountHungFileSystem(scratch);
      try {
        expect(await empty(scratch)).toContain('a file system is mounted at it');
      } finally {
        await mount.release();
      }
    },
  );

  it.skipIf(!isRoot)('with a file that cannot be removed says so, and loses the others [needs root]', async () => {
    const mount = join(root, 'web/tmp');
    writeFileSync(join(mount, 'other'), 'x');
    writeFileSync(join(mount, 'kept'), 'x');
    try {
      execFileSync('chattr', ['+i', join(mount, 'kept')], { stdio: 'ignore' });
    } catch {
      return; // No file system for it.
    }
    try {
      expect(await empty(mount)).toBe(`${mount} is not empty: not everything in it could be removed (EPERM)`);
      expect(readdirSync(mount)).toEqual(['kept']);
    } finally {
      execFileSync('chattr', ['-i', join(mount, 'kept')]);
    }
  });

  it.skipIf(!isRoot)('is emptied even on a file system without a free inode or block [needs root]', async () => {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k,nr_inodes=12', 'nodewarden-test', join(root, 'web')]);
    try {
      mkdirSync(scratch);
      mkdirSync(join(scratch, 'directory'));
      writeFileSync(join(scratch, 'directory/inside'), '');
      let i = 0;
      expect(() => {
        for (;;) writeFileSync(join(scratch, `file-${++i}`), '');
      }).toThrow('ENOSPC');
      expect(await empty(scratch)).toBeNull();
      expect(readdirSync(scratch)).toEqual([]);
    } finally {
      execFileSync('umount', ['-l', join(root, 'web')]);
    }
  });

  it.each([
    ['mounts over what is in it', MOUNTS],
    ['replaces it by a link', LINKS],
    ['puts directories in its place in which others are mounted', MOVES],
  ])('whose owner %s meanwhile, again and again, takes no files of others with it', async (_, hostile) => {
    const own = join(root, 'web');
    execFileSync('mount', ['--bind', own, own]);
    execFileSync('mount', ['--make-private', own]);
    const owner = spawn('perl', ['-e', hostile, own, precious], { stdio: 'ignore' });
    try {
      for (let round = 0; round < ROUNDS; round++) {
        // What its owner does may redirect the test itself, which then makes directories elsewhere.
        for (let i = 0; i < 50; i++) make(join(own, `tmp/d${round}/${i}`));
        await empty(scratch).catch(() => null);
        expect(existsSync(join(precious, 'data'))).toBe(true);
      }
    } finally {
      owner.kill('SIGKILL');
      await once(owner, 'exit');
      execFileSync('sh', [
        '-c',
        'while umount -l "$1"/*/* "$1"/*/*/* 2>/dev/null; do :; done; umount -l "$1"',
        'sh',
        own,
      ]);
    }
  });
});
