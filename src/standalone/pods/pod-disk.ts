import type { DiskWalk } from '../../core/pod/disk-walk.ts';
import { known, type MonoMs, type Reading, unknown } from '../../core/reading.ts';
import type { CgroupMounts } from '../../host/cgroup/cgroup-mounts.ts';
import { directoryOf } from '../../host/cgroup/cgroup-walk.ts';
import type { DiskWalker, WalkedDisk } from '../../host/disk/disk-walk.ts';
import { unsafePlace } from '../../host/disk/mounts.ts';
import type { BoundPod, CgroupRef } from '../../ports.ts';
import type { ManifestPod } from '../manifests/manifest.ts';
import type { SeenDirectories } from './seen-directories.ts';

/** Measures a pod's disk usage: the directories that it declares, and the files that its processes hold open. */
export function podDisk(needs: {
  readonly walker: DiskWalker;
  readonly mounts: CgroupMounts;
  readonly manifest: ManifestPod;
  readonly cgroup: Reading<CgroupRef>;
  readonly seen?: SeenDirectories;
  /** When our last stop of it had ended; null or absent: it was not stopped. */
  readonly stoppedMs?: MonoMs | null;
}): Pick<BoundPod, 'disk' | 'openFiles' | 'sharedFiles' | 'directories' | 'scratch'> {
  const { walker, mounts, manifest, cgroup, seen, stoppedMs } = needs;
  const { declared, scratch } = manifest;
  const paths = [...manifest.disk, ...scratch];
  const noDirectory = unknown('not-applicable', `disk of ${declared.name}`, 'it declares no directory');
  return {
    directories: paths,
    scratch,
    disk: async (soFar, round) => {
      if (paths.length === 0) return noDirectory;
      // Other pods' directories are counted separately.
      const walkedPaths = [...paths, ...(round?.inside ?? [])];
      const several = round?.ofSeveral ?? [];
      const asked = round === undefined ? undefined : { round: round.number, pod: declared.uid, several };
      // D14: until it is known, none is known to be emptied. Asked once the walk has opened them all: each call on a file system
      // that hangs would hold a thread for good.
      let full: readonly string[] = scratch;
      let judged: Promise<void> | null = null;
      const judge = (): Promise<void> => {
        judged ??= fullAmong(scratch).then((found) => {
          full = found;
        });
        return judged;
      };
      const least = (soFarWalked: WalkedDisk): void => {
        void judge();
        soFar(asVolumes(declared, soFarWalked, full));
      };
      // What its former life created is not growth of this one.
      const walked = await walker.walk(walkedPaths, least, asked, stoppedMs ?? undefined);
      if (!walked.known) return walked;
      await judge();
      for (const directory of walked.value.directories) {
        if (paths.includes(directory.path)) seen?.note(directory.path, directory);
      }
      return known(asVolumes(declared, walked.value, full));
    },
    openFiles: async (round) => {
      const asked = round === undefined ? undefined : { round, pod: declared.uid };
      return cgroup.known
        ? walker.openFiles(directoryOf(mounts, cgroup.value.path), cgroup.value.inode, asked)
        : cgroup;
    },
    sharedFiles: (walked) => walker.shared(declared.uid, walked),
  };
}

/** Those that would not be emptied as they are now. */
async function fullAmong(scratch: readonly string[]): Promise<readonly string[]> {
  const full: string[] = [];
  for (const path of scratch) if ((await unsafePlace(path)) !== null) full.push(path);
  return full;
}

/** All declared directories together are the pod's volumes: a unit has no logs or layers to measure. */
function asVolumes({ containers }: ManifestPod['declared'], walked: WalkedDisk, full: readonly string[]): DiskWalk {
  const none = known(0);
  const { bytes, inodes, directories, isComplete } = walked;
  return {
    pod: {
      ...{ logsBytes: 0, rootfsBytes: 0, volumesBytes: bytes },
      ...{ logsInodes: 0, rootfsInodes: 0, volumesInodes: inodes },
      ...(isComplete ? {} : { isAtLeast: true }),
    },
    containers: containers.map(({ name }) => ({ name, logsBytes: none, rootfsBytes: none })),
    volumes: [],
    directories: directories.map((of) => (full.includes(of.path) ? { ...of, staysFull: true } : of)),
  };
}
