import { ifKnown, known, type Reading } from './reading.ts';

/** As configured; null: not. */
export type DiskPaths = {
  readonly nodefsPath: string;
  readonly imagefsPath: string | null;
  readonly containerfsPath: string | null;
};
/** Of the file systems that only the container runtime knows; null: it has none of its own. */
export type RuntimePaths = Omit<DiskPaths, 'nodefsPath'>;
const NONE: Reading<RuntimePaths> = known({ imagefsPath: null, containerfsPath: null });

/** The configured path, else that of the container runtime. `late`: what that has said; absent: there is none. */
export function pathOf(
  role: 'imagefs' | 'containerfs',
  configured: DiskPaths,
  late: Reading<RuntimePaths> = NONE,
): Reading<string | null> {
  const path = configured[`${role}Path`];
  return path === null ? ifKnown(late, (paths) => known(paths[`${role}Path`])) : known(path);
}
