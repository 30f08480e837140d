import { randomBytes } from 'node:crypto';
import { closeSync, constants, openSync, statfsSync, unlinkSync, writeSync } from 'node:fs';
import { known, type Reading, unknown } from '../core/reading.ts';
import { fileUnknown } from './file-error.ts';

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_RDWR } = constants;
const SHARED_MEMORY = '/dev/shm';
const TMPFS_MAGIC = 0x01021994;

/**
 * A descriptor of a file that holds the text, has no name and lies in memory: whoever it is handed to reads the text whole,
 * up to its end, from the beginning. It loses its name before the text is written, so that the text never has one.
 */
export function openUnlinked(text: string, directory = SHARED_MEMORY): Reading<number> {
  try {
    if (statfsSync(directory).type !== TMPFS_MAGIC)
      return unknown('unreadable', directory, `${directory} is not in memory: mount a tmpfs there`);
    const path = `${directory}/nodewarden-${randomBytes(16).toString('hex')}`;
    const fd = openSync(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
    try {
      unlinkSync(path);
      const bytes = Buffer.from(text);
      // With a position, for a plain write would move on the place where the child begins to read.
      for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at, bytes.length - at, at);
      return known(fd);
    } catch (cause) {
      closeSync(fd);
      throw cause;
    }
  } catch (cause) {
    return fileUnknown(directory, cause);
  }
}
