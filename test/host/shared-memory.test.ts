import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { readSharedMemory } from '../../src/host/memory/shared-memory.ts';

const MIB = 1024 * 1024;
const directories: string[] = [];
afterEach(() => {
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true, force: true });
});
const temporary = (): string => {
  const directory = mkdtempSync(join(tmpdir(), 'nodewarden-shared-'));
  directories.push(directory);
  return directory;
};

/** A /proc with this list of mounts and of SysV segments. */
function aProc(mountinfo: string, shm?: string): string {
  const proc = temporary();
  mkdirSync(join(proc, 'self'));
  mkdirSync(join(proc, 'sysvipc'));
  writeFileSync(join(proc, 'self/mountinfo'), mountinfo);
  if (shm !== undefined) writeFileSync(join(proc, 'sysvipc/shm'), shm);
  return proc;
}

const canMount = (() => {
  try {
    execFileSync('unshare', ['--mount', 'true'], { stdio: 'ignore' });
    return process.getuid?.() === 0;
  } catch {
    return false;
  }
})();

describe('memory without a process', () => {
  it.skipIf(!canMount)('includes the largest files of each tmpfs, and follows no link', async () => {
    const at = temporary();
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=32m', 'nodewarden-test', at]);
    try {
      mkdirSync(join(at, 'deep/er'), { recursive: true });
      writeFileSync(join(at, 'deep/er/large'), Buffer.alloc(12 * MIB, 1));
      writeFileSync(join(at, 'small'), Buffer.alloc(5 * MIB, 1));
      symlinkSync('/usr', join(at, 'usr'));
      const proc = aProc(
        `36 35 0:99 / ${at} rw - tmpfs nodewarden-test rw\n37 35 0:99 / ${at}/again rw - tmpfs x rw\n`,
      );
      const found = await readSharedMemory(10 * MIB, proc);
      const files = [
        { path: join(at, 'deep/er/large'), bytes: 12 * MIB, uid: 0 },
        { path: join(at, 'small'), bytes: 5 * MIB, uid: 0 },
      ];
      expect(found).toEqual({
        known: true,
        value: { mounts: [{ path: at, usedBytes: 17 * MIB, files }], segments: [], unread: null },
      });
      expect(await readSharedMemory(20 * MIB, proc)).toMatchObject({ value: { mounts: [] } });
    } finally {
      execFileSync('umount', [at]);
    }
  });

  it('says what it could not read; a kernel without segments has none', async () => {
    const proc = aProc('', '');
    expect(await readSharedMemory(MIB, aProc(''))).toMatchObject({ value: { segments: [], unread: null } });
    rmSync(join(proc, 'sysvipc/shm'));
    mkdirSync(join(proc, 'sysvipc/shm'));
    expect(await readSharedMemory(MIB, proc)).toMatchObject({
      value: { unread: { known: false, why: 'unreadable', where: join(proc, 'sysvipc/shm') } },
    });
  });

  it('includes SysV segments that no process has attached', async () => {
    const head = 'key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime rss swap';
    const line = (id: number, attached: number, rss: number): string =>
      `  0 ${id} 600 ${rss} 1 1 ${attached} 33 33 33 33 0 0 0 ${rss} 0`;
    const proc = aProc('', [head, line(3, 0, 9 * MIB), line(4, 1, 90 * MIB), line(5, 0, 40 * MIB), ''].join('\n'));
    expect(await readSharedMemory(8 * MIB, proc)).toMatchObject({
      value: {
        segments: [
          { id: 5, bytes: 40 * MIB, uid: 33 },
          { id: 3, bytes: 9 * MIB, uid: 33 },
        ],
      },
    });
  });
});
