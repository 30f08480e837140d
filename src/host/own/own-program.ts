import { realpathSync } from 'node:fs';
import path from 'node:path';
import { type Reading, type Unknown, unknown } from '../../core/reading.ts';
import { type ExecResult, run } from '../exec.ts';
import { fileUnknown } from '../file-error.ts';
import { readText } from '../files.ts';

const PROGRAM = 'nodewarden.js';

/** A file next to the built program. */
export function readBesideProgram(name: string, maxBytes: number): Reading<string> {
  const directory = ownDirectory();
  return typeof directory === 'string' ? readText(path.join(directory, name), maxBytes) : directory;
}

/** Runs a command of this program in a process of its own, from its built file. */
export async function runOwnProgram(
  args: readonly string[],
  timeoutMs: number,
  maxOutputBytes: number,
): Promise<ExecResult> {
  const directory = ownDirectory();
  if (typeof directory !== 'string') return { kind: 'failed', detail: `${directory.where}: ${directory.detail}` };
  const argv = [process.execPath, ...process.execArgv, path.join(directory, PROGRAM), ...args];
  return await run(argv, { timeoutMs, maxOutputBytes });
}

/** Unknown: this process does not run from the built file. */
function ownDirectory(): string | Unknown {
  const [, started = ''] = process.argv;
  try {
    const program = realpathSync(started);
    return path.basename(program) === PROGRAM ? path.dirname(program) : unknown('absent', program, `not ${PROGRAM}`);
  } catch (cause) {
    return fileUnknown(started, cause);
  }
}
