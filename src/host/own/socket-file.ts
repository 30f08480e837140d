import {
  chownSync,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  type Stats,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { known, type Reading, sayCause, unknown } from '../../core/reading.ts';
import { isThere } from '../files.ts';

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

/**
 * Replaces a socket that no process serves by the bound one, which gets the group first (null: it keeps that of this process).
 * Anything else at that path is left alone and reported.
 */
export function placeSocket(binding: string, path: string, groupId: number | null): Reading<PlacedSocket> {
  try {
    const there = statOf(path);
    if (there !== null && !there.isSocket()) {
      rmSync(binding, { force: true });
      return unknown('malformed', path, 'there is a file that is not a socket');
    }
    const ours = groupId === null ? lstatSync(binding) : giveToGroup(binding, groupId);
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

/** Of open(2); Node.js does not name it. */
const O_PATH = 0o10000000;

/**
 * The group is changed of what was opened, so that nobody can put another file in its place in between. Not setegid(2) before
 * it is bound: libc waits for all threads then, and one in a call on a file system that hangs keeps it waiting.
 */
function giveToGroup(socket: string, groupId: number): Stats {
  const fd = openSync(socket, O_PATH | constants.O_NOFOLLOW);
  const facts = fstatSync(fd);
  try {
    if (facts.isSocket() && facts.gid !== groupId) chownSync(`/proc/self/fd/${fd}`, -1, groupId);
  } catch {
    // Neither root nor a member: it keeps the group of this process.
  } finally {
    closeSync(fd);
  }
  return facts;
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
