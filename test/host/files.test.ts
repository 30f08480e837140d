import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  Dir,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { known } from '../../src/core/reading.ts';
import {
  distrust,
  ensureDirectory,
  listDirectory,
  readDocument,
  readText,
  renameFile,
  writeAtomic,
} from '../../src/host/files.ts';
import { watchPath } from '../../src/host/watch-path.ts';
import { clock, until } from './test-cgroup.ts';
import { aTree } from './tree.ts';

const isRoot = process.getuid?.() === 0;
const { readSync } = Dir.prototype;

describe('readDocument', () => {
  it('refuses bytes that are not UTF-8 text, which would name something else', () => {
    const root = aTree({ file: 'häßlich' });
    writeFileSync(`${root}/bytes`, Buffer.from([0x78, 0x2f, 0xff]));
    expect(readDocument(`${root}/bytes`, 9)).toMatchObject({
      why: 'malformed',
      detail: expect.stringContaining('not UTF-8'),
    });
    expect(readDocument(`${root}/file`, 9)).toEqual(known('häßlich'));
  });
});

describe('readText', () => {
  it('reads a whole file up to the limit, and refuses one byte more', () => {
    const root = aTree({ file: 'häßlich', large: 'x'.repeat(200_000) });
    expect(readText(`${root}/file`, 9)).toEqual(known('häßlich'));
    expect(readText(`${root}/file`, 8)).toMatchObject({ why: 'unreadable', detail: 'larger than 8 bytes' });
    expect(readText(`${root}/large`, 200_000)).toEqual(known('x'.repeat(200_000)));
  });

  it('reads only regular files, and never waits for one', () => {
    const root = aTree({ file: 'x', directory: null });
    symlinkSync('file', `${root}/link`);
    execFileSync('mkfifo', [`${root}/fifo`]);
    expect(readText(`${root}/link`, 9)).toMatchObject({ known: false, why: 'unreadable' });
    expect(readText(`${root}/link`, 9, 'followed')).toEqual(known('x'));
    expect(readText(`${root}/directory`, 9)).toMatchObject({ why: 'unreadable', detail: 'not a regular file' });
    expect(readText(`${root}/fifo`, 9)).toMatchObject({ why: 'unreadable', detail: 'not a regular file' });
    expect(readText('/dev/zero', 9)).toMatchObject({ why: 'unreadable', detail: 'not a regular file' });
    expect(readText(`${root}/none`, 9)).toMatchObject({ why: 'absent', where: `${root}/none` });
    expect(readText(`${root}/file/below`, 9)).toMatchObject({ why: 'absent' });
  });

  it('reads a file of /proc, whose size is 0', () => {
    expect(readText('/proc/self/comm', 100)).toMatchObject({ known: true });
  });
});

describe('writeAtomic', () => {
  it('writes the text with exactly this mode, and leaves nothing else', () => {
    const root = aTree({});
    expect(writeAtomic(`${root}/file`, 'häßlich', 0o662)).toEqual(known(true));
    expect(readFileSync(`${root}/file`, 'utf8')).toBe('häßlich');
    expect(statSync(`${root}/file`).mode & 0o777).toBe(0o662);
    expect(writeAtomic(`${root}/file`, '', 0o600)).toEqual(known(true));
    expect(readFileSync(`${root}/file`, 'utf8')).toBe('');
    expect(readdirSync(root)).toEqual(['file']);
  });

  it('replaces a link, not its target, and what a killed writer left', () => {
    const root = aTree({ other: 'untouched', 'file.tmp': "somebody else's", 'file.nodewarden-tmp': 'half a fi' });
    symlinkSync('other', `${root}/file`);
    expect(writeAtomic(`${root}/file`, 'new', 0o600)).toEqual(known(true));
    expect(readFileSync(`${root}/other`, 'utf8')).toBe('untouched');
    expect(readFileSync(`${root}/file`, 'utf8')).toBe('new');
    expect(readdirSync(root).sort()).toEqual(['file', 'file.tmp', 'other']);
  });

  it('reports a missing directory, or a directory in its place, and leaves nothing', () => {
    const root = aTree({ 'directory/file': 'x' });
    expect(writeAtomic(`${root}/none/file`, 'new', 0o600)).toMatchObject({ known: false, why: 'absent' });
    expect(writeAtomic(`${root}/directory`, 'new', 0o600)).toMatchObject({ known: false, why: 'unreadable' });
    expect(readdirSync(root)).toEqual(['directory']);
  });

  it.skipIf(!isRoot)('keeps the old content on a full disk, and frees its space [needs root]', () => {
    const root = aTree({});
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'nodewarden-test', root]);
    onTestFinished(() => void spawnSync('umount', [root]));
    const old = 'old'.repeat(1000);
    expect(writeAtomic(`${root}/state`, old, 0o600)).toEqual(known(true));
    for (const bytes of [1_100_000, 5_000_000]) {
      const written = writeAtomic(`${root}/state`, 'n'.repeat(bytes), 0o600);
      expect(written).toMatchObject({ known: false, why: 'unreadable', detail: expect.stringContaining('ENOSPC') });
      expect(readFileSync(`${root}/state`, 'utf8')).toBe(old);
      expect(readdirSync(root)).toEqual(['state']);
    }
    expect(writeAtomic(`${root}/state`, 'n'.repeat(900_000), 0o600)).toEqual(known(true));
  });
});

describe('directories', () => {
  it('are listed up to a limit', () => {
    const root = aTree({ a: '', b: '', c: null });
    const names = listDirectory(root, 3);
    expect(names.known && [...names.value].sort()).toEqual(['a', 'b', 'c']);
    expect(listDirectory(root, 2)).toMatchObject({ why: 'unreadable', detail: 'more than 2 entries' });
    expect(listDirectory(`${root}/a`, 2)).toMatchObject({ known: false, why: 'absent' });
    expect(listDirectory(`${root}/none`, 2)).toMatchObject({ known: false, why: 'absent' });
  });

  it('are listed without what vanishes meanwhile, as a process that ends does from /proc', () => {
    const root = aTree({ a: '', b: '', c: '' });
    let calls = 0;
    const read = vi.spyOn(Dir.prototype, 'readSync').mockImplementation(function (this: Dir) {
      calls += 1;
      if (calls === 2) throw Object.assign(new Error('ENOENT'), { code: 'ENOENT', syscall: 'lstat' });
      return readSync.call(this);
    });
    onTestFinished(() => read.mockRestore());
    const names = listDirectory(root, 3);
    expect(names.known && [...names.value].sort()).toEqual(['a', 'b', 'c']);
    expect(calls).toBeGreaterThan(4);
  });

  it('are created with their parents; an existing one keeps its mode', () => {
    const root = aTree({ file: '' });
    expect(ensureDirectory(`${root}/a/b`, 0o770)).toEqual(known(true));
    expect(statSync(`${root}/a/b`).mode & 0o777).toBe(0o770);
    expect(ensureDirectory(`${root}/a/b`, 0o700)).toEqual(known(true));
    expect(statSync(`${root}/a/b`).mode & 0o777).toBe(0o770);
    expect(ensureDirectory(`${root}/file`, 0o700)).toMatchObject({ known: false });
    expect(ensureDirectory(`${root}/file/below`, 0o700)).toMatchObject({ known: false });
  });
});

it('are moved by renameFile, which reports if there is nothing to move', () => {
  const root = aTree({ a: 'x' });
  expect(renameFile(`${root}/a`, `${root}/b`)).toEqual(known(true));
  expect(renameFile(`${root}/a`, `${root}/b`)).toMatchObject({ known: false, why: 'absent' });
  expect(readdirSync(root)).toEqual(['b']);
});

describe('distrust', () => {
  it('accepts our own file that nobody else can write, and a missing one', () => {
    const root = aTree({ file: '', directory: null });
    chmodSync(`${root}/file`, 0o644);
    for (const path of ['file', 'directory', 'none']) expect(distrust(`${root}/${path}`)).toBeNull();
  });

  it.each([0o664, 0o646, 0o666])('refuses what others can write (mode %o)', (mode) => {
    const root = aTree({ file: '' });
    chmodSync(`${root}/file`, mode);
    expect(distrust(`${root}/file`)).toBe(
      `${root}/file can be written by its group or by others (chmod go-w ${root}/file)`,
    );
  });

  it('refuses a link', () => {
    const root = aTree({ file: '' });
    symlinkSync('file', `${root}/link`);
    expect(distrust(`${root}/link`)).toBe(`${root}/link is a symbolic link; name the file itself`);
  });

  it.skipIf(!isRoot)('refuses what belongs to somebody else [needs root]', () => {
    const root = aTree({ file: '' });
    chownSync(`${root}/file`, 1234, 0);
    expect(distrust(`${root}/file`)).toContain('belongs to user 1234');
  });
});

describe('watchPath', () => {
  function aWatch(path: string): { readonly count: () => number; readonly close: () => void } {
    let count = 0;
    const close = watchPath(path, () => count++, clock);
    onTestFinished(close);
    return { count: () => count, close };
  }

  it('reports a change of the file, and again after each replacement by rename', async () => {
    const root = aTree({ file: '1' });
    const { count } = aWatch(`${root}/file`);
    writeFileSync(`${root}/file`, '2');
    await until(() => count() === 1);
    for (const seen of [2, 3]) {
      writeAtomic(`${root}/file`, String(seen), 0o600);
      await until(() => count() === seen);
    }
    rmSync(`${root}/file`);
    await until(() => count() === 4);
    writeFileSync(`${root}/file`, 'back');
    await until(() => count() === 5);
  });

  it('reports many changes at once as one, and no other files', async () => {
    const root = aTree({ file: '1', other: '1' });
    const { count } = aWatch(`${root}/file`);
    writeFileSync(`${root}/other`, '2');
    for (let i = 0; i < 20; i++) writeFileSync(`${root}/file`, String(i));
    await until(() => count() === 1);
    writeFileSync(`${root}/other`, '3');
    const sentinel = aWatch(`${root}/other`);
    writeFileSync(`${root}/other`, '4');
    await until(() => sentinel.count() === 1);
    expect(count()).toBe(1);
  });

  it('reports changes of the entries of a directory, even if another directory takes its place', async () => {
    const root = aTree({ 'pods.d/a': '1', 'new/b': '1' });
    const { count } = aWatch(`${root}/pods.d`);
    writeFileSync(`${root}/pods.d/a`, '2');
    await until(() => count() === 1);
    renameSync(`${root}/pods.d`, `${root}/old`);
    renameSync(`${root}/new`, `${root}/pods.d`);
    await until(() => count() === 2);
    writeFileSync(`${root}/pods.d/b`, '2');
    await until(() => count() === 3);
    rmSync(`${root}/pods.d`, { recursive: true });
    await until(() => count() >= 4);
    expect(existsSync(`${root}/pods.d`)).toBe(false);
  });

  it('works once a missing parent directory exists', async () => {
    const root = aTree({});
    const { count } = aWatch(`${root}/parent/file`);
    mkdirSync(`${root}/parent`);
    writeFileSync(`${root}/parent/file`, '1');
    await until(() => count() === 1);
  });

  it('is silent once closed', async () => {
    const root = aTree({ file: '1' });
    const closed = aWatch(`${root}/file`);
    const open = aWatch(`${root}/file`);
    writeFileSync(`${root}/file`, '2');
    closed.close();
    await until(() => open.count() === 1);
    expect(closed.count()).toBe(0);
  });
});

describe('watchPath, if the kernel drops events', () => {
  const LIMIT = Number(readFileSync('/proc/sys/fs/inotify/max_queued_events', 'utf8'));
  /** In one turn, so that nothing is read meanwhile; each a change of another kind, which the kernel does not merge. */
  function flood(directory: string): void {
    for (let i = 0; i < LIMIT / 2; i++) {
      writeFileSync(`${directory}/${i}`, '');
      rmSync(`${directory}/${i}`);
    }
  }

  it('reads the directory again after what came last', async () => {
    const root = aTree({ 'pods.d/a': '1' });
    let seen: readonly string[] = [];
    const close = watchPath(`${root}/pods.d`, () => (seen = readdirSync(`${root}/pods.d`)), clock);
    onTestFinished(close);
    flood(`${root}/pods.d`);
    writeFileSync(`${root}/pods.d/last`, '1');
    await until(() => seen.includes('last'));
  });

  it('reads whatever else is watched, whose events may have been among them', async () => {
    const root = aTree({ 'etc/config': '1', 'etc/pods.d/a': '1' });
    let seen = '';
    const ends = [
      watchPath(`${root}/etc/pods.d`, () => undefined, clock),
      watchPath(`${root}/etc/config`, () => (seen = readFileSync(`${root}/etc/config`, 'utf8')), clock),
    ];
    onTestFinished(() => {
      for (const end of ends) end();
    });
    flood(`${root}/etc/pods.d`);
    writeFileSync(`${root}/etc/config`, '2');
    await until(() => seen === '2');
  });
});
