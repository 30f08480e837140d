import type { DirectoryIdentity } from '../../host/disk/directory-identity.ts';

/** Which directory was at each declared path when it was last seen there; one that is gone is remembered. */
export type SeenDirectories = {
  readonly note: (path: string, identity: DirectoryIdentity) => void;
  /** Null: never seen. */
  readonly at: (path: string) => DirectoryIdentity | null;
  readonly keepOnly: (paths: readonly string[]) => void;
};

export function createSeenDirectories(): SeenDirectories {
  const seen = new Map<string, DirectoryIdentity>();
  return {
    note: (path, { device, inode }) => void seen.set(path, { device, inode }),
    at: (path) => seen.get(path) ?? null,
    keepOnly: (paths) => {
      const declared = new Set(paths);
      for (const path of seen.keys()) if (!declared.has(path)) seen.delete(path);
    },
  };
}
