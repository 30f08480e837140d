import type { CgroupRef } from '../../ports.ts';

/** Open files of cgroups, kept for as long as they are requested again and again. */
type OpenCgroups<T> = {
  /** Null: nothing of it is open, or another cgroup has its path. */
  readonly find: (ref: CgroupRef) => T | null;
  /** Replaces what was open of it. */
  readonly put: (ref: CgroupRef, open: T) => void;
  readonly forget: (ref: CgroupRef) => void;
  /** Closes what was not requested since the last call. */
  readonly sweep: () => void;
  readonly close: () => void;
  readonly size: () => number;
};

export function createOpenCgroups<T>(close: (open: T) => void): OpenCgroups<T> {
  /** By inode. */
  const kept = new Map<number, { readonly path: string; readonly open: T; isUsed: boolean }>();
  const forget = (inode: number): void => {
    const entry = kept.get(inode);
    kept.delete(inode);
    if (entry !== undefined) close(entry.open);
  };
  return {
    find: ({ path, inode }) => {
      const entry = kept.get(inode);
      if (entry?.path !== path) return null;
      entry.isUsed = true;
      return entry.open;
    },
    put: ({ path, inode }, open) => {
      forget(inode);
      kept.set(inode, { path, open, isUsed: true });
    },
    forget: ({ inode }) => forget(inode),
    sweep: () => {
      for (const [inode, entry] of kept) {
        if (!entry.isUsed) forget(inode);
        entry.isUsed = false;
      }
    },
    close: () => {
      for (const inode of [...kept.keys()]) forget(inode);
    },
    size: () => kept.size,
  };
}
