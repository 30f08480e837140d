import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from 'node:fs';
import { join } from 'node:path';
import { known, type Reading, type Unknown, unknown } from '../../core/reading.ts';
import { fileUnknown } from '../file-error.ts';
import { distrustPath } from './own-directory.ts';
import { groupIdOf } from './socket-file.ts';

export const MAX_SECRET_BYTES = 4096;
/** What a key of a Kubernetes Secret may be, which is also a name of a file here. */
const NAME = /^[-._a-zA-Z0-9]{1,253}$/;
const CONTROL = /\p{Cc}/u;
/** Of the guard's service, whose secrets these are: also root, who checks them by hand, believes it. */
const GUARD_GROUP = 'nodewarden-guard';
const READ_BY_GROUP = 0o040;
const USED_BY_OTHERS = 0o037;

/**
 * A secret, without the line end that editors add (guard.md 8.5). Links are followed: in a mounted Secret each name is one.
 * Owner and mode are those of the file that was opened. What is wrong is a sentence that never holds any of it.
 */
export function readSecret(directory: string, name: string): Reading<string> {
  const path = join(directory, name);
  const refuse = (detail: string): Unknown => unknown('unreadable', path, detail);
  if (!NAME.test(name) || name === '.' || name === '..')
    return refuse('a secret is a file of its directory: its name has letters, digits, ".", "_" and "-" only');
  const fault = distrustPath(path);
  if (fault !== null) return refuse(fault);
  try {
    const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const facts = fstatSync(fd);
      if (!facts.isFile()) return refuse('it is not a file');
      const shared = sharedWith(facts);
      if (shared !== null) return refuse(`${shared}: chown root ${path} && chmod 0400 ${path}`);
      return secretIn(readWhole(fd), refuse);
    } finally {
      closeSync(fd);
    }
  } catch (cause) {
    return fileUnknown(path, cause);
  }
}

function readWhole(fd: number): Buffer {
  const bytes = Buffer.alloc(MAX_SECRET_BYTES + 2);
  let length = 0;
  while (length < bytes.length) {
    const count = readSync(fd, bytes, length, bytes.length - length, null);
    if (count === 0) break;
    length += count;
  }
  return bytes.subarray(0, length);
}

/** Who else may read it. The group may if it is root's, ours or the guard's: systemd's credentials and mounted Secrets say so. */
function sharedWith({ uid, gid, mode }: Stats): string | null {
  if (uid !== 0 && uid !== process.getuid?.()) return `it belongs to user ${uid}`;
  const isOurGroup =
    gid === 0 ||
    gid === process.getgid?.() ||
    process.getgroups?.().includes(gid) === true ||
    gid === groupIdOf(GUARD_GROUP);
  const refused = isOurGroup ? USED_BY_OTHERS : USED_BY_OTHERS | READ_BY_GROUP;
  return (mode & refused) === 0 ? null : `others may use it (mode ${(mode & 0o7777).toString(8).padStart(4, '0')})`;
}

function secretIn(bytes: Buffer, refuse: (detail: string) => Unknown): Reading<string> {
  const text = bytes.toString('utf8').replace(/\n$/, '');
  if (text === '') return refuse('it is empty');
  if (Buffer.byteLength(text) > MAX_SECRET_BYTES) return refuse(`it is larger than ${MAX_SECRET_BYTES} bytes`);
  if (text.includes('\uFFFD')) return refuse('it is not UTF-8 text');
  if (CONTROL.test(text)) return refuse('it contains a control character, such as a second line or a Windows line end');
  return known(text);
}
