import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const SIZE = 16 * 1024 * 1024;

/** A small file system of its own that can be frozen: who writes there meanwhile dies of nothing. */
export type FrozenDisk = { readonly file: string; readonly freeze: () => void; readonly thaw: () => void };

export const frozenDiskMissing = (): string | null =>
  fs.existsSync('/dev/loop-control') ? null : 'there are no loop devices';

export async function withFrozenDisk<T>(body: (disk: FrozenDisk) => Promise<T>): Promise<T> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'nodewarden-lab-frozen-'));
  const [image, mount] = [path.join(directory, 'image'), path.join(directory, 'mount')];
  fs.writeFileSync(image, '');
  fs.truncateSync(image, SIZE);
  fs.mkdirSync(mount);
  execFileSync('mkfs.ext4', ['-q', image]);
  execFileSync('mount', ['-o', 'loop', image, mount]);
  let isFrozen = false;
  const disk = {
    file: path.join(mount, 'stuck'),
    freeze: () => {
      execFileSync('fsfreeze', ['--freeze', mount]);
      isFrozen = true;
    },
    thaw: () => {
      if (isFrozen) execFileSync('fsfreeze', ['--unfreeze', mount]);
      isFrozen = false;
    },
  };
  try {
    return await body(disk);
  } finally {
    disk.thaw();
    // Who was held there lets go of it a moment later.
    spawnSync('umount', ['--lazy', mount]);
    fs.rmSync(image);
    fs.rmdirSync(mount);
    fs.rmdirSync(directory);
  }
}
