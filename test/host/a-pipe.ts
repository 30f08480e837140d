import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';

const MAKE = 'use POSIX; mkfifo(pack("H*", $ARGV[0]), 0600) or die';
const WRITE = 'open(F, ">", pack("H*", $ARGV[0])) or die; print F "anon 1\n"';

/** A named pipe in place of a file. Resolves once somebody has opened it: a writer to a pipe waits for that. */
export async function whenOpened(path: Buffer): Promise<void> {
  const hex = path.toString('hex');
  execFileSync('perl', ['-e', MAKE, hex]);
  await once(spawn('perl', ['-e', WRITE, hex]), 'exit');
}
