import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { DirectoryIdentity } from '../../src/host/disk/directory-identity.ts';
import { unsafePlace } from '../../src/host/disk/mounts.ts';
import { empty } from './an-emptying.ts';

const isRoot = process.getuid?.() === 0;
const [TENANT, OTHER] = [65_534, 1];
/** user::rwx, user:65534:rwx, group::r-x, mask::rwx, other::r-x in the kernel's format (linux/posix_acl_xattr.h). */
const MAY_WRITE = `import os, struct, sys
entries = [(1, 7, -1), (2, 7, ${TENANT}), (4, 5, -1), (16, 7, -1), (32, 5, -1)]
os.setxattr(sys.argv[1], 'system.posix_acl_access', struct.pack('<I', 2) + b''.join(struct.pack('<HHi', *e) for e in entries))`;

let root: string;
let above: string;
let scratch: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nodewarden-whose-'));
  above = join(root, 'shared');
  scratch = join(above, 'web');
  mkdirSync(scratch, { recursive: true });
  writeFileSync(join(scratch, 'file'), 'x');
  chownSync(scratch, TENANT, TENANT);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const identityOf = (path: string): DirectoryIdentity => {
  const { dev, ino } = lstatSync(path);
  return { device: dev, inode: ino };
};
/** Another user's, closed to everybody else, in the place of the scratch directory. */
const replace = (): void => {
  mkdirSync(join(above, 'db'));
  writeFileSync(join(above, 'db/data'), 'of somebody else');
  chmodSync(join(above, 'db'), 0o700);
  chownSync(join(above, 'db'), OTHER, OTHER);
  renameSync(scratch, join(above, 'away'));
  renameSync(join(above, 'db'), scratch);
};

describe.skipIf(!isRoot)('a scratch directory at whose path another user could put a directory [needs root]', () => {
  it.each<[string, () => void, () => string]>([
    ['others may write to the directory above it', () => chmodSync(above, 0o777), () => `chmod go-w ${above}`],
    ['a group may write to the directory above it', () => chmodSync(above, 0o775), () => `or chmod +t ${above}`],
    ['the same further above', () => chmodSync(root, 0o722), () => `chmod go-w ${root}`],
    [
      'the directory above it belongs to another user',
      () => chownSync(above, OTHER, OTHER),
      () => `${above} belongs to user ${OTHER}, but ${scratch} to user ${TENANT}`,
    ],
    [
      'it belongs to root in a directory of a tenant',
      () => {
        chownSync(above, TENANT, TENANT);
        chownSync(scratch, 0, 0);
      },
      () => `chown root ${above}`,
    ],
  ])('is left alone, and a warning says so beforehand in the same words: %s', async (_, prepare, expected) => {
    prepare();
    const why = await unsafePlace(scratch);
    expect(why).toContain(expected());
    expect(await empty(scratch)).toBe(`${scratch} was not emptied: ${why}`);
    expect(readdirSync(scratch)).toEqual(['file']);
  });

  it('is left alone if an access list lets a further user write to the directory above it', async () => {
    try {
      execFileSync('python3', ['-c', MAY_WRITE, above], { stdio: 'ignore' });
    } catch {
      return; // No file system with access lists, or no python3.
    }
    expect(await unsafePlace(scratch)).toContain(`chmod go-w ${above}`);
    expect(await empty(scratch)).toContain('was not emptied');
    expect(readdirSync(scratch)).toEqual(['file']);
  });

  it.each<[string, () => void]>([
    ['the directory above it has the sticky bit', () => chmodSync(above, 0o1777)],
    ['it and the directory above it have one owner', () => chownSync(above, TENANT, TENANT)],
    ['others may write only to itself', () => chmodSync(scratch, 0o777)],
    ['it is of root, and so is all above it', () => chownSync(scratch, 0, 0)],
  ])('is emptied where nobody could: %s', async (_, prepare) => {
    prepare();
    expect(await unsafePlace(scratch)).toBeNull();
    expect(await empty(scratch)).toBeNull();
    expect(readdirSync(scratch)).toEqual([]);
  });

  it("does not cost the other user's files, neither in a directory of the tenant nor in one that all may write to", async () => {
    chownSync(above, TENANT, TENANT);
    replace();
    expect(await empty(scratch)).toContain(`${scratch} to user ${OTHER}`);
    chmodSync(above, 0o777);
    expect(await empty(scratch)).toContain(`chmod go-w ${above}`);
    expect(readdirSync(scratch)).toEqual(['data']);
  });

  it('is warned about before it exists', async () => {
    chmodSync(above, 0o777);
    expect(await unsafePlace(join(above, 'later/tmp'))).toContain(`chmod go-w ${above}`);
    expect(await unsafePlace(join(root, 'later/tmp'))).toBeNull();
  });
});

describe.skipIf(!isRoot)('what is at the path of a scratch directory [needs root]', () => {
  it('is left alone if it is not the directory that was measured', async () => {
    const measured = identityOf(scratch);
    replace();
    expect(await empty(scratch, { measured })).toBe(
      `${scratch} was not emptied: another directory is at this path than the one that was measured`,
    );
    expect(readdirSync(scratch)).toEqual(['data']);
    expect(await empty(join(above, 'away'), { measured })).toBeNull();
  });

  it('is left alone if it is the directory of another pod, by whatever name', async () => {
    mkdirSync(join(root, 'db/tmp'), { recursive: true });
    writeFileSync(join(root, 'db/tmp/data'), 'of somebody else');
    mkdirSync(join(root, 'bound'));
    execFileSync('mount', ['--bind', join(root, 'db'), join(root, 'bound')]);
    try {
      const others = [identityOf(join(root, 'db'))];
      const told = await empty(join(root, 'bound/tmp'), { kept: others, others });
      expect(told).toContain('it is, or is in, a directory that another pod declares');
      renameSync(scratch, join(above, 'away'));
      renameSync(join(root, 'db/tmp'), scratch);
      const its = [identityOf(scratch)];
      expect(await empty(scratch, { kept: its, others: its })).toContain('that another pod declares');
      expect(readdirSync(scratch)).toEqual(['data']);
    } finally {
      execFileSync('umount', ['-l', join(root, 'bound')]);
    }
  });

  it('loses all but the directory of a pod that was moved into it', async () => {
    mkdirSync(join(scratch, 'deep/db'), { recursive: true });
    mkdirSync(join(scratch, 'deep/gone'));
    writeFileSync(join(scratch, 'deep/db/data'), 'of somebody else');
    expect(await empty(scratch, { kept: [identityOf(join(scratch, 'deep/db'))] })).toBe(
      `${scratch} is not empty: it holds a directory that a pod declares as data, which stays`,
    );
    expect(readdirSync(scratch, { recursive: true }).toSorted()).toEqual(['deep', 'deep/db', 'deep/db/data']);
  });
});
