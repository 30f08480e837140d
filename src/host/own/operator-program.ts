import { statSync } from 'node:fs';
import { codeOf, fileUnknown } from '../file-error.ts';
import { distrustPath } from './own-directory.ts';

const EXECUTABLE = 0o111;

/** Why a program must not, or cannot, be run by root, as a sentence with its path; null: nothing is wrong. */
export function programFault(path: string): string | null {
  try {
    const facts = statSync(path);
    if (!facts.isFile()) return `${path} is not a file`;
    if ((facts.mode & EXECUTABLE) === 0) return `${path} is not executable: chmod +x ${path}`;
    return distrustPath(path);
  } catch (cause) {
    if (codeOf(cause) === 'ENOENT') return `${path} does not exist`;
    return `${path} cannot be examined: ${fileUnknown(path, cause).detail}`;
  }
}
