import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

/** A file that was read. `k`: on a descriptor that stays open; `f`: opened, read and closed. */
export type FileRead = { readonly how: 'k' | 'f'; readonly path: string };

/** The files that `run` reads with the synchronous calls of node:fs, in their order, as often as each is read from its start. */
export function traceReads(run: () => void): readonly FileRead[] {
  const { readSync, closeSync } = fs;
  const reads: { how: 'k' | 'f'; readonly path: string; readonly fd: number }[] = [];
  // What follows from further in is the same read, until its end was seen.
  fs.readSync = ((fd: number, buffer: NodeJS.ArrayBufferView, ...rest: [number, number, number]) => {
    if (rest[2] === 0) reads.push({ how: 'k', path: fs.readlinkSync(`/proc/self/fd/${fd}`), fd });
    return readSync(fd, buffer, ...rest);
  }) as typeof fs.readSync;
  fs.closeSync = (fd) => {
    const last = reads.findLast((read) => read.fd === fd);
    if (last !== undefined) last.how = 'f';
    closeSync(fd);
  };
  syncBuiltinESMExports();
  try {
    run();
    return reads.map(({ how, path }) => ({ how, path }));
  } finally {
    Object.assign(fs, { readSync, closeSync });
    syncBuiltinESMExports();
  }
}
