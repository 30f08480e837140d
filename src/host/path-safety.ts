import type { Stats } from 'node:fs';

/** The mode's bits for the group and others. An access list that lets further users write shows in those of the group. */
const OTHERS_WRITE = 0o022;
const STICKY = 0o1000;
const ROOT = 0;

type Owned = Pick<Stats, 'uid' | 'mode'>;

/**
 * Why whoever may write to a directory could put another user's directory at a name in it, which root would then take for
 * the one that was meant: a user who may neither read nor remove a file must not have root remove it. Null: nobody but root
 * and the owner of both could. `next` null: nothing has the name yet. The program that removes applies the same rule to what
 * it has opened (host/empty-directory-program.ts).
 */
export function unsafeStep(above: Owned, next: Owned | null, names: { above: string; next: string }): string | null {
  const { above: directory, next: name } = names;
  if ((above.mode & OTHERS_WRITE) !== 0 && (above.mode & STICKY) === 0) {
    return `${directory} can be written by its group or by others and has no sticky bit, so that they could put another directory in the place of ${name} (chmod go-w ${directory}, or chmod +t ${directory})`;
  }
  if (next === null || above.uid === ROOT || above.uid === next.uid) return null;
  return `${directory} belongs to user ${above.uid}, but ${name} to user ${next.uid}, so that the former could put another directory in its place (chown root ${directory})`;
}
