import {
  accessSync,
  chmodSync,
  chownSync,
  constants,
  lstatSync,
  mkdirSync,
  realpathSync,
  type Stats,
  statSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { codeOf, fileUnknown } from '../file-error.ts';
import { listDirectory, STICKY, WRITABLE_BY_OTHERS } from '../files.ts';
import { userId } from '../user-name.ts';

const WRITABLE_BY_ALL = 0o002;
const ENTRIES_MAX = 10_000;

/**
 * Why a directory of our own, with the files in it for which `isOurs` is true, must not be used: a user who can write there
 * could have any process killed. A sentence with path, owner, mode and the command that fixes it; null = the directory and
 * everything above it belongs to root (or to the user we run as) and no other user can write there. The agent creates a missing
 * one.
 */
export function distrustDirectory(directory: string, isOurs: (name: string) => boolean): string | null {
  return distrustPath(directory) ?? distrustEntries(directory, isOurs);
}

/** The same for a single file or directory; links are followed. */
export function distrustPath(given: string): string | null {
  const all = pathsTo(given);
  // The target of a link comes last.
  const itself = [given, all.at(-1)];
  for (const path of all) {
    const facts = factsOf(path);
    if (typeof facts === 'string') return facts;
    if (facts === null) return null;
    if (facts.isSymbolicLink()) {
      if (!isTrustedUser(facts)) return `${say(path, facts)}: remove it, or name the directory itself`;
      continue;
    }
    const isItself = itself.includes(path);
    const isOpen = isItself
      ? (facts.mode & WRITABLE_BY_OTHERS) !== 0
      : (facts.mode & WRITABLE_BY_ALL) !== 0 && (facts.mode & STICKY) === 0;
    if (isTrustedUser(facts) && !isOpen) continue;
    // The sticky bit is set where others are meant to write.
    if (isTrustedUser(facts) && (facts.mode & STICKY) !== 0) return `${say(path, facts)}: name a directory of its own`;
    const first = isItself ? 'check what is in it, then: ' : '';
    return `${say(path, facts)}: ${first}chown root ${path} && chmod go-w ${path}`;
  }
  return null;
}

/** The directory, all its parents, and the same for the targets of links on the way. */
function pathsTo(given: string): readonly string[] {
  const above = (path: string): string[] => (path === '/' ? ['/'] : [...above(dirname(path)), path]);
  try {
    return [...new Set([...above(given), ...above(realpathSync(given))])];
  } catch {
    return above(given); // It does not exist yet.
  }
}

function distrustEntries(directory: string, isOurs: (name: string) => boolean): string | null {
  const names = listDirectory(directory, ENTRIES_MAX);
  if (!names.known) return names.why === 'absent' ? null : `${directory} cannot be examined: ${names.detail}`;
  for (const name of names.value.filter(isOurs)) {
    const path = join(directory, name);
    const facts = factsOf(path);
    if (typeof facts === 'string') return facts;
    if (facts?.isSymbolicLink() === true) return `${path} is a symbolic link, and is not followed: rm ${path}`;
    if (facts === null || (isTrustedUser(facts) && (facts.mode & WRITABLE_BY_OTHERS) === 0)) continue;
    return `${say(path, facts)}: if you do not know what wrote it, rm ${path}; else chown root ${path} && chmod go-w ${path}`;
  }
  return null;
}

/**
 * Why the listener of a socket must not be trusted; null = root (or the user we run as, or the named one) created the socket
 * where no other user could have put it. A missing one is not distrusted. `user`: a daemon's own, by its name on this host.
 */
export function distrustSocket(path: string, user: string | null = null): string | null {
  const uid = user === null ? null : userId(user);
  const isTrusted = (facts: Stats): boolean => isTrustedUser(facts) || facts.uid === uid;
  // Where this user may not look, asking fails, and says who may.
  const facts = factsOf(path, ['ENOENT', 'EACCES']);
  if (facts === null || typeof facts === 'string') return facts;
  if (!isTrusted(facts)) {
    const said = `${path} belongs to user ${facts.uid}`;
    return user === null
      ? `${said}, not to root: what listens there is not nodewarden`
      : `${said}, not to root or ${user}: if that user runs it, ask as that user, with setpriv or sudo -u`;
  }
  const directory = factsOf(dirname(path));
  if (directory === null || typeof directory === 'string') return directory;
  const isOpen = (directory.mode & WRITABLE_BY_OTHERS) !== 0 && (directory.mode & STICKY) === 0;
  return isTrusted(directory) && !isOpen ? null : `${say(dirname(path), directory)}: a socket in it is not trusted`;
}

const isTrustedUser = ({ uid }: Stats): boolean => uid === 0 || uid === process.getuid?.();

function say(path: string, { uid, mode }: Stats): string {
  const octal = (mode & 0o7777).toString(8).padStart(4, '0');
  return `${path} belongs to user ${uid} and has mode ${octal}, so that someone other than root could control this agent`;
}

/** Null: it does not exist, or an error of `without`. A sentence: it cannot be examined. */
function factsOf(path: string, without: readonly string[] = ['ENOENT']): Stats | string | null {
  try {
    return lstatSync(path);
  } catch (cause) {
    return without.includes(codeOf(cause) ?? '')
      ? null
      : `${path} cannot be examined: ${fileUnknown(path, cause).detail}`;
  }
}

/** A directory of our own as it was when we started to use it. */
export type OwnDirectory = {
  readonly path: string;
  /** False: it was removed or replaced. */
  readonly isThere: () => boolean;
  readonly has: (file: string) => boolean;
  /** Recreates it with the owner and mode that it had. Null, or why this failed. */
  readonly remake: () => string | null;
};

export function openOwnDirectory(path: string): OwnDirectory {
  const { mode, gid, ...first } = lstatSync(path);
  let { dev, ino } = first;
  return {
    path,
    isThere: () => {
      const now = factsOf(path);
      return now !== null && typeof now !== 'string' && now.ino === ino && now.dev === dev;
    },
    has: (file) => factsOf(file) !== null,
    remake: () => {
      try {
        if (mkdirSync(path, { recursive: true, mode: 0o750 }) !== undefined) {
          const made = statSync(path);
          if (made.gid !== gid) chownSync(path, -1, gid);
          chmodSync(path, mode & 0o7777);
        }
        ({ dev, ino } = statSync(path));
        accessSync(path, constants.W_OK);
        return null;
      } catch (cause) {
        return fileUnknown(path, cause).detail;
      }
    },
  };
}
