/** The reason of a failure, and for anyone but root, if the kernel denied it, whom it would not have denied. */
export function withRights(why: string, needs: 'to-read' | 'root'): string {
  if (!/\b(EACCES|EPERM)\b/.test(why) || process.getuid?.() === 0) return why;
  return needs === 'root'
    ? `${why}; only root may do this: use sudo`
    : `${why}; only root and the group nodewarden may read it: use sudo`;
}
