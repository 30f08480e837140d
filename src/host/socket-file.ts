import { lstatSync, readFileSync, renameSync, rmSync, type Stats } from 'node:fs';
import { dirname, join } from 'node:path';
import { known, type Reading, sayCause, unknown } from '../core/reading.ts';
import { isThere } from './files.ts';

/** A socket at its public path, identified by its inode, because another one may be there later. */
type PlacedSocket = {
  readonly isThere: () => boolean;
  /** Leaves a file that something else created there. */
  readonly remove: () => void;
};

/**
 * The path where a socket is bound before it is renamed into place: closing a bound socket removes the path it was bound to,
 * whatever is there by then.
 */
export function bindingPath(path: string): string {
  const binding = join(dirname(path), `.${process.pid.toString(36)}`);
  rmSync(binding, { force: true });
  return binding;
}

/** Replaces a socket that no process serves by the bound one. Anything else at that path is left alone and reported. */
export function placeSocket(binding: string, path: string): Reading<PlacedSocket> {
  try {
    const there = statOf(path);
    if (there !== null && !there.isSocket()) {
      rmSync(binding, { force: true });
      return unknown('malformed', path, 'there is a file that is not a socket');
    }
    const ours = lstatSync(binding);
    renameSync(binding, path);
    const isThere = (): boolean => {
      const now = statOf(path);
      return now !== null && now.ino === ours.ino && now.dev === ours.dev;
    };
    return known({
      isThere,
      remove: () => {
        if (isThere()) rmSync(path, { force: true });
      },
    });
  } catch (error) {
    return unknown('unreadable', path, sayCause(error));
  }
}

/** Null: nothing is there. */
function statOf(path: string): Stats | null {
  return lstatSync(path, { throwIfNoEntry: false }) ?? null;
}

/** The id of a group of this host; null: there is no such group. Only /etc/group: the agent asks no directory service. */
export function groupIdOf(name: string, root = ''): number | null {
  try {
    for (const line of readFileSync(`${root}/etc/group`, 'utf8').split('\n')) {
      const [group, , id] = line.split(':');
      if (group === name && id !== undefined && /^\d+$/.test(id)) return Number(id);
    }
  } catch {
    // A host without the file has no such group.
  }
  return null;
}

/** Node.js says EACCES where the directory is missing. */
export function sayListenError({ message }: Error, path: string): string {
  const there = isThere(dirname(path));
  return there.known && !there.value ? `the directory ${dirname(path)} does not exist` : message;
}
