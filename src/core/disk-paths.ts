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

/** Where container runtimes keep images and what containers have written, unless they are told otherwise. */
const USUAL_ROOTS = [
  '/var/lib/containerd',
  '/var/lib/containers/storage',
  '/var/lib/docker',
  '/var/lib/rancher/k3s/agent/containerd',
  '/var/lib/rancher/rke2/agent/containerd',
];
/** Also behind a link, whose other name nobody says. */
const LAYERS = /^(.+?)\/(?:io\.containerd\.|overlay2?\/[0-9a-f]{64})/;

/**
 * The root directory of the container runtime that the directory belongs to; null: of none, or it is in a volume, whose files
 * are their owner's. `late` as in pathOf.
 */
export function runtimeRootOf(path: string, late: Reading<RuntimePaths> = NONE): string | null {
  const { imagefsPath, containerfsPath } = late.known ? late.value : { imagefsPath: null, containerfsPath: null };
  // What a runtime names for its images and layers is often one of several directories in its root.
  const told = [imagefsPath, containerfsPath].flatMap(
    (at) => at?.replace(/\/(?:io\.containerd\.|overlay)[^/]*$/, '') ?? [],
  );
  const isIn = (root: string): boolean =>
    path === root || (path.startsWith(`${root}/`) && !path.startsWith(`${root}/volumes/`));
  return [...USUAL_ROOTS, ...told].find(isIn) ?? LAYERS.exec(path)?.[1] ?? null;
}
