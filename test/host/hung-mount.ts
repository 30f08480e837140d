import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';

export type HungMount = {
  /** Ends the server that never answered: calls that hang in the kernel return with ENOTCONN. Once is enough. */
  readonly release: () => Promise<void>;
};

/** Why it cannot be done here; null = it can. */
export const noHungMount: string | null =
  process.getuid?.() !== 0 ? 'needs root' : existsSync('/dev/fuse') ? null : 'needs /dev/fuse';

/** A real FUSE mount whose server never answers: every call on it hangs in the kernel, as on a dead network mount. */
export async function mountHungFileSystem(directory: string): Promise<HungMount> {
  const script = `exec 3<>/dev/fuse
    mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 nodewarden-test "$1" || exit 1
    echo mounted
    exec sleep 600`;
  const server = spawn('sh', ['-c', script, 'sh', directory], { stdio: ['ignore', 'pipe', 'inherit'] });
  await new Promise<void>((resolve, reject) => {
    server.stdout.once('data', () => resolve());
    server.once('exit', (code) => reject(new Error(`the mount failed with ${code}`)));
  });
  let isReleased = false;
  return {
    release: async () => {
      if (isReleased) return;
      isReleased = true;
      await ended(server);
      execFileSync('umount', ['-l', directory]);
    },
  };
}

function ended(server: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    server.once('exit', () => resolve());
    server.kill('SIGKILL');
  });
}
