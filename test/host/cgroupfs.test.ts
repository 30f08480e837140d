import { spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, rmdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { known } from '../../src/core/reading.ts';
import { cgroupPathOf } from '../../src/host/cgroup/cgroup-members.ts';
import type { CgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { oomKillsOf } from '../../src/host/cgroup/cgroup-oom.ts';
import {
  anonBytes,
  countProcesses,
  isPopulated,
  isSame,
  killAtOnce,
  processesOf,
  refOf,
} from '../../src/host/cgroup/cgroupfs.ts';
import type { CgroupRef } from '../../src/ports.ts';
import { aCgroup, aProcess, enter, limitMemory, machine, until } from './test-cgroup.ts';
import { aTree } from './tree.ts';

/** A hierarchy that is only files. */
const v1 = (memory: string): CgroupMounts => ({
  layout: 'v1',
  version: 1,
  unified: null,
  memory,
  pids: null,
  systemd: null,
});
const v2 = (root: string): CgroupMounts => ({ ...v1(root), layout: 'v2', version: 2, unified: root, pids: root });

function refTo(mounts: CgroupMounts, path: string): CgroupRef {
  const ref = refOf(mounts, path);
  if (!ref.known) throw new Error(ref.detail);
  return ref.value;
}

describe('a cgroup is its inode', () => {
  it.each(['/', '/a', '/a/b/c', '/a/..b'])('refOf accepts the path %s', (path) => {
    const mounts = v1(aTree({ 'a/b/c': null, 'a/..b': null }));
    expect(refOf(mounts, path)).toEqual(known({ path, inode: statSync(mounts.memory + path).ino }));
  });

  it.each(['', 'a', '//', '/a/', '/a//b', '/.', '/..', '/a/..', '/a/../a', '/a/./b', '/a\0b'])(
    'refOf refuses the path %j',
    (path) => {
      expect(refOf(v1(aTree({ a: null })), path)).toMatchObject({ known: false, why: 'malformed' });
    },
  );

  it('a link and a file are not cgroups, and a missing one is absent', () => {
    const mounts = v1(aTree({ a: null, file: '' }));
    symlinkSync('a', `${mounts.memory}/link`);
    expect(refOf(mounts, '/link')).toMatchObject({ why: 'unreadable' });
    expect(refOf(mounts, '/file')).toMatchObject({ why: 'unreadable' });
    expect(refOf(mounts, '/none')).toMatchObject({ why: 'absent' });
  });

  it('another cgroup under the same path is not read, listed or killed in its place', () => {
    const mounts = v2(aTree({ 'a/cgroup.kill': '', 'a/cgroup.events': 'populated 1\n', 'a/cgroup.procs': '7\n' }));
    const ref = { ...refTo(mounts, '/a'), inode: 1 };
    const gone = { known: false, why: 'absent', detail: 'another cgroup has this path now' };
    expect(isSame(mounts, ref)).toBe(false);
    expect(isPopulated(mounts, ref)).toMatchObject(gone);
    expect(processesOf(mounts, ref)).toMatchObject(gone);
    expect(anonBytes(mounts, ref)).toMatchObject(gone);
    expect(killAtOnce(mounts, ref)).toMatchObject(gone);
  });

  it('an unknown names the file by its path, not by the descriptor through which it was reached', () => {
    const mounts = v2(aTree({ a: null }));
    expect(killAtOnce(mounts, refTo(mounts, '/a'))).toMatchObject({
      known: false,
      why: 'absent',
      where: `${mounts.memory}/a/cgroup.kill`,
    });
  });
});

describe('the anonymous memory of a cgroup', () => {
  const bytes = 20 * 2 ** 20;
  it.each([
    ['1', v1, { 'a/memory.stat': `total_rss ${bytes}\n`, 'a/memory.usage_in_bytes': '4096\n' }],
    ['2', v2, { 'a/memory.stat': `anon ${bytes}\n`, 'a/memory.current': '4096\n' }],
  ] as const)('is at most its usage, behind which memory.stat may lag, on version %s', (_, version, files) => {
    const mounts = version(aTree(files));
    expect(anonBytes(mounts, refTo(mounts, '/a'))).toEqual(known(4096));
  });
});

describe('processes of a tree of files', () => {
  it('come from it and its descendants, each once, without those of other pid namespaces', () => {
    const mounts = v2(aTree({ 'a/cgroup.procs': '5\n7\n', 'a/b/cgroup.procs': '7\n0\n', 'c/cgroup.procs': '9\n' }));
    expect(processesOf(mounts, refTo(mounts, '/a'))).toEqual(known([5, 7]));
  });

  it('are not found through links', () => {
    const mounts = v1(aTree({ 'a/cgroup.procs': '', 'c/cgroup.procs': '9\n' }));
    symlinkSync('../c', `${mounts.memory}/a/link`);
    expect(processesOf(mounts, refTo(mounts, '/a'))).toEqual(known([]));
    expect(isPopulated(mounts, refTo(mounts, '/a'))).toEqual(known(false));
  });

  it.each(['5\n7', '5\nx\n', '-5\n', '5 7\n', '\n'])('are malformed if the list is %j, not just shorter', (text) => {
    const mounts = v1(aTree({ 'a/cgroup.procs': text }));
    expect(processesOf(mounts, refTo(mounts, '/a'))).toMatchObject({ known: false, why: 'malformed' });
    expect(isPopulated(mounts, refTo(mounts, '/a'))).toMatchObject({ known: false, why: 'malformed' });
  });

  it('are found at any depth, even where no path can name it', () => {
    const mounts = v1(aTree({ a: null, 'a/cgroup.procs': '', 'a/cgroup.type': '' }));
    const name = 'x'.repeat(200);
    let fd = openSync(`${mounts.memory}/a`, 'r');
    for (let depth = 1; depth <= 70; depth++) {
      const directory = `/proc/self/fd/${fd}/${name}`;
      mkdirSync(directory);
      writeFileSync(`${directory}/cgroup.procs`, depth === 70 ? '5\n' : '');
      const next = openSync(directory, 'r');
      closeSync(fd);
      fd = next;
    }
    closeSync(fd);
    const ref = refTo(mounts, '/a');
    expect(isPopulated(mounts, ref)).toEqual(known(true));
    expect(processesOf(mounts, ref)).toEqual(known([5]));
    // No path reaches them for whoever clears up.
    spawnSync('find', [`${mounts.memory}/a`, '-delete']);
  });

  it('are found whatever bytes a name contains', () => {
    const mounts = v1(aTree({ 'a/cgroup.procs': '' }));
    for (const [i, name] of ['a\rb', 'a\u2028b', Buffer.from([0xff, 0xfe]), 'a"b'].entries()) {
      const directory = Buffer.concat([Buffer.from(`${mounts.memory}/a/`), Buffer.from(name)]);
      mkdirSync(directory);
      writeFileSync(Buffer.concat([directory, Buffer.from('/cgroup.procs')]), `${i + 5}\n`);
    }
    const listed = processesOf(mounts, refTo(mounts, '/a'));
    expect(listed.known && listed.value.toSorted()).toEqual([5, 6, 7, 8]);
  });

  it('of a tree too large for a look do not count as "empty" if none was found: anonymous memory decides', () => {
    const many = Array.from({ length: 700 }, (_, i) => [`a/${i}/cgroup.procs`, '']);
    const tree = { 'a/cgroup.procs': '', 'b/cgroup.procs': '', ...Object.fromEntries(many) };
    const mounts = v1(aTree({ ...tree, 'a/memory.stat': 'cache 0\ntotal_rss 4096\n' }));
    expect(isPopulated(mounts, refTo(mounts, '/a'))).toMatchObject({ known: false, why: 'unreadable' });
    writeFileSync(`${mounts.memory}/a/memory.stat`, 'cache 0\ntotal_rss 4194304\n');
    expect(isPopulated(mounts, refTo(mounts, '/a'))).toEqual(known(true));
    expect(isPopulated(mounts, refTo(mounts, '/b'))).toEqual(known(false));
  });

  it.each([
    ['0\n', known(false)],
    ['3\n', { known: false, why: 'unreadable' }],
  ])('of a tree too large for a look are none if the kernel counts none: %j threads', (counted, populated) => {
    const many = Array.from({ length: 700 }, (_, i) => [`a/${i}/cgroup.procs`, '']);
    const stat = 'cache 0\ntotal_rss 4096\n';
    const root = aTree({ 'a/cgroup.procs': '', 'a/memory.stat': stat, ...Object.fromEntries(many) });
    const mounts = { ...v1(root), pids: aTree({ 'a/pids.current': counted, 'a/pids.max': 'max\n' }) };
    expect(isPopulated(mounts, refTo(mounts, '/a'))).toMatchObject(populated);
  });

  it('are counted by their threads if there are too many for a look', () => {
    const many = Array.from({ length: 700 }, (_, i) => [`a/${i}/cgroup.procs`, '']);
    const mounts = v2(
      aTree({
        'a/cgroup.procs': '5\n',
        'a/pids.current': '900\n',
        'b/cgroup.procs': '6\n7\n',
        ...Object.fromEntries(many),
      }),
    );
    expect(countProcesses(mounts, refTo(mounts, '/a'))).toEqual(known(900));
    expect(countProcesses(mounts, refTo(mounts, '/b'))).toEqual(known(2));
  });

  it('are reported by cgroup.events on version 2, including those below', () => {
    const mounts = v2(
      aTree({
        'a/cgroup.events': 'populated 1\nfrozen 0\n',
        'b/cgroup.events': 'populated 0\nfrozen 0\n',
        'c/cgroup.events': 'populated\n',
        'd/cgroup.procs': '5\n',
        'cgroup.procs': '1\n',
      }),
    );
    expect(isPopulated(mounts, refTo(mounts, '/a'))).toEqual(known(true));
    expect(isPopulated(mounts, refTo(mounts, '/b'))).toEqual(known(false));
    expect(isPopulated(mounts, refTo(mounts, '/c'))).toMatchObject({ why: 'absent' });
    expect(isPopulated(mounts, refTo(mounts, '/d'))).toMatchObject({ why: 'absent' });
    expect(isPopulated(mounts, refTo(mounts, '/'))).toEqual(known(true));
  });
});

describe('OOM kills of a tree of files', () => {
  it('version 1 counts in each cgroup separately, so they are summed', async () => {
    const own = (kills: number): string => `oom_kill_disable 0\nunder_oom 0\noom_kill ${kills}\n`;
    const mounts = v1(aTree({ 'a/memory.oom_control': own(1), 'a/b/memory.oom_control': own(2), 'a/c': null }));
    expect(await oomKillsOf(mounts, refTo(mounts, '/a'))).toEqual(known(3));
  });

  it('version 2 counts descendants itself', async () => {
    const events = 'low 0\nhigh 0\nmax 9\noom 5\noom_kill 4\noom_group_kill 0\n';
    const mounts = v2(aTree({ 'a/memory.events': events, 'a/b/memory.events': events }));
    expect(await oomKillsOf(mounts, refTo(mounts, '/a'))).toEqual(known(4));
  });
});

describe.skipIf(machine === null)('real cgroups [needs root and a writable memory hierarchy]', () => {
  const mounts = machine ?? v1('/none');

  it('a removed cgroup is not the same as one created later under its path', () => {
    const path = aCgroup(mounts.memory);
    const ref = refTo(mounts, path);
    expect(isSame(mounts, ref)).toBe(true);
    rmdirSync(mounts.memory + path);
    expect(isSame(mounts, ref)).toBe(false);
    expect(isPopulated(mounts, ref)).toMatchObject({ known: false, why: 'absent' });
    mkdirSync(mounts.memory + path);
    expect(isSame(mounts, ref)).toBe(false);
    expect(isSame(mounts, refTo(mounts, path))).toBe(true);
  });

  it('a process that joins is seen at once, however often the list was read before', async () => {
    const path = aCgroup(mounts.memory);
    const ref = refTo(mounts, path);
    const { pid } = await aProcess('');
    for (let i = 0; i < 200; i++) expect(processesOf(mounts, ref)).toEqual(known([]));
    expect(isPopulated(mounts, ref)).toEqual(known(false));
    enter(mounts.memory + path, pid);
    expect(processesOf(mounts, ref)).toEqual(known([pid]));
    expect(isPopulated(mounts, ref)).toEqual(known(true));
    expect(cgroupPathOf(mounts, pid)).toEqual(known(path));
  });

  it('a process below is in it, and its end empties it', async () => {
    const path = aCgroup(mounts.memory);
    mkdirSync(`${mounts.memory}${path}/below`);
    const child = await aProcess('', `${mounts.memory}${path}/below`);
    const ref = refTo(mounts, path);
    expect(processesOf(mounts, ref)).toEqual(known([child.pid]));
    expect(isPopulated(mounts, ref)).toEqual(known(true));
    child.kill('SIGKILL');
    await until(() => child.ended() !== null);
    expect(processesOf(mounts, ref)).toEqual(known([]));
    expect(isPopulated(mounts, ref)).toEqual(known(false));
  });

  it('a process that joins below is seen even if another was found there just before', async () => {
    const path = aCgroup(mounts.memory);
    const below = `${mounts.memory}${path}/below`;
    mkdirSync(below);
    const first = await aProcess('', below);
    const second = await aProcess('');
    const ref = refTo(mounts, path);
    expect(processesOf(mounts, ref)).toEqual(known([first.pid]));
    enter(below, second.pid);
    await Promise.resolve();
    const seen = processesOf(mounts, ref);
    expect(seen.known && [...seen.value].sort()).toEqual([first.pid, second.pid].sort());
  });

  it('a process that was found below counts for the others only as long as it exists', async () => {
    const path = aCgroup(mounts.memory);
    const below = `${mounts.memory}${path}/below`;
    mkdirSync(below);
    const [first, second] = [await aProcess('', below), await aProcess('', below)];
    const ref = refTo(mounts, path);
    expect(isPopulated(mounts, ref)).toEqual(known(true));
    const elsewhere = mounts.memory + aCgroup(mounts.memory);
    enter(elsewhere, first.pid);
    expect(isPopulated(mounts, ref)).toEqual(known(true));
    await Promise.resolve();
    enter(elsewhere, second.pid);
    expect(isPopulated(mounts, ref)).toEqual(known(false));
    await Promise.resolve();
    enter(below, second.pid);
    expect(isPopulated(mounts, ref)).toEqual(known(true));
  });

  it('anonymous memory is what the process touched, and falls below 1 MiB when it has ended', async () => {
    const path = aCgroup(mounts.memory);
    const ref = refTo(mounts, path);
    const child = await aProcess('globalThis.kept = Buffer.alloc(64 * 2 ** 20, 1)', mounts.memory + path);
    const full = anonBytes(mounts, ref);
    expect(full.known && full.value).toBeGreaterThan(64 * 2 ** 20);
    child.kill('SIGKILL');
    // The kernel flushes these statistics up to 2 s late.
    await until(() => {
      const left = anonBytes(mounts, ref);
      return left.known && left.value < 2 ** 20;
    });
  });

  it("a process that the kernel's OOM killer kills is counted in its cgroup", async () => {
    const path = aCgroup(mounts.memory);
    const ref = refTo(mounts, path);
    expect(await oomKillsOf(mounts, ref)).toEqual(known(0));
    const child = await aProcess(
      "process.stdin.once('data', () => { globalThis.kept = Buffer.alloc(2 ** 28, 1) })",
      mounts.memory + path,
    );
    limitMemory(mounts, path, 100 * 2 ** 20);
    child.write('go');
    await until(() => child.ended() !== null);
    expect(child.ended()).toMatchObject({ signal: 'SIGKILL' });
    expect(await oomKillsOf(mounts, ref)).toEqual(known(1));
  });

  it.skipIf(machine?.unified === null)(
    'cgroup.kill kills a process and its child at once [needs a cgroup2 mount]',
    async () => {
      const unified = v2(mounts.unified ?? '/none');
      const path = aCgroup(unified.memory);
      const ref = refTo(unified, path);
      const child = await aProcess("require('child_process').spawn('sleep', ['1000'])", unified.memory + path);
      expect(processesOf(unified, ref)).toMatchObject({ value: [child.pid, expect.any(Number)] });
      expect(killAtOnce(unified, ref)).toEqual(known(true));
      await until(() => child.ended() !== null);
      expect(child.ended()).toMatchObject({ signal: 'SIGKILL' });
      await until(() => JSON.stringify(isPopulated(unified, ref)) === JSON.stringify(known(false)));
    },
  );
});
