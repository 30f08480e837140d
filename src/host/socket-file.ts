import { lstatSync, readFileSync, unlinkSync } from 'node:fs';
import { known, type Reading, sayCause, unknown } from '../core/reading.ts';

/** Removes the socket that a dead process left. Anything else that lies there is left alone, and said. */
export function removeStaleSocket(path: string): Reading<true> {
  try {
    if (!lstatSync(path).isSocket()) return unknown('malformed', path, 'a file that is no socket lies there');
    unlinkSync(path);
    return known(true);
  } catch (error) {
    return unknown('unreadable', path, sayCause(error));
  }
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
