import { fstatSync, writeSync } from 'node:fs';
import { sayCause } from '../../core/reading.ts';
import { sayLast } from './stderr.ts';

/**
 * Calls `end` with the exit status if standard output cannot be written: 0 if its reader went away (`| head`), else the
 * command's own, at least 1, after a line on standard error.
 */
export function watchOutput(end: (status: number) => void): void {
  const { stdout } = process;
  if (isFile()) stdout._write = writeWhole;
  stdout.on('error', (error) => {
    if ('code' in error && error.code === 'EPIPE') return end(0);
    sayLast(`the output is not complete: ${sayCause(error)}`);
    end(Math.max(1, Number(process.exitCode ?? 0)));
  });
}

function isFile(): boolean {
  try {
    return fstatSync(1).isFile();
  } catch {
    return false;
  }
}

/** On a disk that becomes full, write(2) takes a part; the stream of Node.js takes that for all. */
function writeWhole(chunk: Buffer, _: BufferEncoding, done: (error?: Error) => void): void {
  try {
    for (let at = 0; at < chunk.length; ) at += writeSync(1, chunk, at);
    done();
  } catch (error) {
    done(error instanceof Error ? error : new Error(String(error)));
  }
}
