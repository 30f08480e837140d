import { sayCause, type Unknown, unknown } from '../core/reading.ts';

/** `ENOENT` and the like; null if the thrown value has none. */
export function codeOf(cause: unknown): string | null {
  return cause instanceof Error && 'code' in cause && typeof cause.code === 'string' ? cause.code : null;
}

// ENODEV: an open file of a removed cgroup. ESRCH: a file of a process that ended. ENOTDIR: a parent is no directory.
const ABSENT = new Set(['ENOENT', 'ENODEV', 'ESRCH', 'ENOTDIR']);

/** What a failed call on a file means: the file is absent, or it cannot be read. */
export function fileUnknown(path: string, cause: unknown): Unknown {
  const code = codeOf(cause);
  const detail = sayCause(cause);
  return unknown(code !== null && ABSENT.has(code) ? 'absent' : 'unreadable', path, detail);
}

/** Only this user may not read it: root, as whom the agent runs, may. So nothing is known about it here. */
export function isDenied({ detail }: Unknown): boolean {
  return detail.startsWith('EACCES') && process.getuid?.() !== 0;
}

/** The file exists, but this kernel, boot or cgroup does not support it (Linux has one number for both names). */
export function isUnsupported({ detail }: Unknown): boolean {
  return detail.startsWith('ENOTSUP') || detail.startsWith('EOPNOTSUPP');
}

/** This process, or the whole machine, may not open another file: nothing is known of the file itself. */
export function isOutOfFiles({ detail }: Unknown): boolean {
  return detail.startsWith('EMFILE') || detail.startsWith('ENFILE');
}
