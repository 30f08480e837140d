import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export type SlowMount = {
  /** Its server. */
  readonly pid: number;
  /** Where its files are in truth: what changes there, the kernel does not report. */
  readonly backing: string;
  /** From now on; lines as in slow-fs.pl. */
  readonly order: (...lines: readonly string[]) => void;
  /** Once is enough. */
  readonly release: () => void;
};

/** Opcodes of FUSE. */
export const OPEN = 14;
export const READDIR = 28;
const SERVER = join(import.meta.dirname, 'slow-fs.pl');

/** A real FUSE mount that answers late or with errors, as ordered. Needs what `mountHungFileSystem` does. */
export async function mountSlowFileSystem(directory: string): Promise<SlowMount> {
  const root = mkdtempSync(join(tmpdir(), 'nodewarden-slow-'));
  const [backing, orders] = [join(root, 'files'), join(root, 'orders')];
  execFileSync('cp', ['-a', directory, backing]);
  const script = `exec 3<>/dev/fuse
    mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0,default_permissions nodewarden-slow "$1" || exit 1
    exec perl "$2" "$3" "$4"`;
  const server = spawn('sh', ['-c', script, 'sh', directory, SERVER, backing, orders], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await new Promise<void>((resolve, reject) => {
    server.stdout.once('data', () => resolve());
    server.once('exit', (code) => reject(new Error(`the mount failed with ${code}`)));
  });
  let isReleased = false;
  return {
    pid: server.pid ?? 0,
    backing,
    order: (...lines) => writeFileSync(orders, lines.join('\n')),
    release: () => {
      if (isReleased) return;
      isReleased = true;
      server.kill('SIGKILL');
      execFileSync('umount', ['-l', directory]);
      rmSync(root, { recursive: true });
    },
  };
}
