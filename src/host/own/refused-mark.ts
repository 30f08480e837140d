import { access, open, rm } from 'node:fs/promises';
import type { RecordDisk } from './record-disk.ts';

/**
 * The same disk, with an empty file at `path` from when it refuses text until it takes it: so whoever reads meanwhile knows that
 * something is missing, and the process after one that ended with its text in memory begins with `sayLost`. A full disk mostly has
 * room for it; where it has not, nothing says so.
 */
export function withRefusedMark(disk: RecordDisk, path: string, sayLost: () => string): RecordDisk {
  /** An earlier process left it; null: not looked yet. */
  let isLeft: boolean | null = null;
  let isOwn = false;
  return {
    ...disk,
    append: async (text) => {
      isLeft ??= await isThere(path);
      const written = await disk.append(isLeft ? `${sayLost()}${text}` : text);
      if (!written.known) isOwn ||= text !== '' && (await isMade(path));
      // One that cannot be removed is tried again with the next text.
      else if ((isLeft || isOwn) && (await isRemoved(path))) isLeft = isOwn = false;
      else if (isLeft) [isLeft, isOwn] = [false, true];
      return written;
    },
  };
}

const isThere = (path: string): Promise<boolean> => access(path).then(...yesOrNo);
const isRemoved = (path: string): Promise<boolean> => rm(path, { force: true }).then(...yesOrNo);
const isMade = (path: string): Promise<boolean> =>
  open(path, 'a', 0o640)
    .then((file) => file.close())
    .then(...yesOrNo);
const yesOrNo = [() => true, () => false] as const;
