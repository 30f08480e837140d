import type {
  DiskWalk,
  FileCounts,
  OpenFiles,
  SharedCounts,
  SharedFiles,
  WalkedDirectory,
} from '../core/pod/disk-walk.ts';
import type { PodUid } from '../core/pod/pod.ts';
import type { BoundPod } from '../ports.ts';

export type Overlap = {
  /** Directories of other pods that are in this pod's. */
  readonly inside: Set<string>;
  /** Directories that this pod and another one have: `inside`, and its own ones in those of others. */
  readonly ofSeveral: Set<string>;
};

/** The declared directories that several pods have, by name. */
export function overlapsOf(pods: readonly BoundPod[]): ReadonlyMap<PodUid, Overlap> {
  const owners = new Map<string, Set<PodUid>>();
  const overlaps = new Map<PodUid, Overlap>();
  for (const { declared, directories = [] } of pods) {
    overlaps.set(declared.uid, { inside: new Set(), ofSeveral: new Set() });
    for (const path of directories) owners.set(path, (owners.get(path) ?? new Set()).add(declared.uid));
  }
  for (const [path, uids] of owners) {
    for (const above of [path, ...ancestorsOf(path)]) {
      for (const outer of owners.get(above) ?? []) {
        if (uids.has(outer) && uids.size === 1) continue;
        if (!uids.has(outer)) overlaps.get(outer)?.inside.add(path);
        for (const uid of [outer, ...uids]) overlaps.get(uid)?.ofSeveral.add(path);
      }
    }
  }
  return overlaps;
}

function ancestorsOf(path: string): readonly string[] {
  const names = path.split('/');
  return names.slice(2).map((_, i) => names.slice(0, i + 2).join('/'));
}

/** The same directory under two names, such as a bind mount, by st_dev and st_ino. */
export function rootsTwice(walks: Iterable<DiskWalk>): ReadonlySet<string> {
  const paths = new Map<string, string>();
  const several = new Set<string>();
  for (const directory of [...walks].flatMap(({ directories = [] }) => directories)) {
    const root = rootOf(directory);
    if ((paths.get(root) ?? directory.path) !== directory.path) several.add(root);
    paths.set(root, directory.path);
  }
  return several;
}

/** The directories of a walk with what is shared in them. */
export function withShared<W extends DiskWalk>(walk: W, files: readonly SharedFiles[]): W {
  const found = new Map(files.map((of) => [rootOf(of), of]));
  return withEach(walk, (directory) => ({ ...directory, shared: found.get(rootOf(directory)) ?? NOTHING_SHARED }));
}

/** All of a directory that two pods have under different names is shared: its files are not remembered one by one. */
export const withTwice = <W extends DiskWalk>(walk: W, roots: ReadonlySet<string>): W =>
  withEach(walk, (directory) =>
    roots.has(rootOf(directory)) ? { ...directory, shared: { unattributed: directory, others: NO_FILES } } : directory,
  );

function withEach<W extends DiskWalk>(walk: W, change: (directory: WalkedDirectory) => WalkedDirectory): W {
  return walk.directories === undefined ? walk : { ...walk, directories: walk.directories.map(change) };
}

export function withSharedOpen({ devices, isComplete }: OpenFiles, files: readonly SharedFiles[]): OpenFiles {
  const shared = (device: number) => files.find((of) => of.device === device && of.inode === 0) ?? NOTHING_SHARED;
  return { devices: devices.map((of) => ({ ...of, shared: shared(of.device) })), isComplete };
}

/** Until the round has ended, any file with a name elsewhere may be another pod's. */
export function sharedIn(directory: WalkedDirectory): SharedCounts {
  const { linkedBytes, linkedInodes, freshBytes, freshInodes, shared } = directory;
  if (shared !== undefined) return shared;
  const [fewerBytes, fewerInodes] = [Math.min(linkedBytes, freshBytes), Math.min(linkedInodes, freshInodes)];
  const unattributed = { bytes: linkedBytes, inodes: linkedInodes, freshBytes: fewerBytes, freshInodes: fewerInodes };
  return { unattributed, others: NO_FILES };
}

export type Amounts = { readonly bytes: number; readonly inodes: number };
export const unattributedIn = (directories: readonly WalkedDirectory[] = []): Amounts =>
  sumOf(directories.map((directory) => sharedIn(directory).unattributed));

export const unattributedOpen = ({ devices }: OpenFiles): Amounts =>
  sumOf(devices.map(({ shared = NOTHING_SHARED }) => shared.unattributed));

export function sumOf(amounts: readonly Amounts[]): Amounts {
  const sum = (count: keyof Amounts) => amounts.reduce((total, of) => total + of[count], 0);
  return { bytes: sum('bytes'), inodes: sum('inodes') };
}

export const mayShare = ({ directories = [] }: DiskWalk): boolean =>
  directories.some(({ linkedInodes }) => linkedInodes > 0);

const NO_FILES: FileCounts = { bytes: 0, inodes: 0, freshBytes: 0, freshInodes: 0 };
export const NOTHING_SHARED: SharedCounts = { unattributed: NO_FILES, others: NO_FILES };
export const rootOf = ({ device, inode }: { readonly device: number; readonly inode: number }): string =>
  `${device}:${inode}`;
