import { known, type Reading, unknown } from '../core/reading.ts';
import type { CgroupMounts } from '../host/cgroup-mounts.ts';
import { directoryOf } from '../host/cgroup-walk.ts';
import type { DiskWalker, WalkedDisk } from '../host/disk-walk.ts';
import type { BoundPod, CgroupRef, DiskWalk } from '../ports.ts';
import type { ManifestPod } from './manifest.ts';

/** Measures a pod's disk usage: the directories that it declares, and the files that its processes hold open. */
export function podDisk(of: {
  readonly walker: DiskWalker;
  readonly mounts: CgroupMounts;
  readonly manifest: ManifestPod;
  readonly cgroup: Reading<CgroupRef>;
}): Pick<BoundPod, 'disk' | 'openFiles' | 'directories' | 'scratch'> {
  const { walker, mounts, manifest, cgroup } = of;
  const { declared, scratch } = manifest;
  const paths = [...manifest.disk, ...scratch];
  const noDirectory = unknown('not-applicable', `disk of ${declared.name}`, 'it declares no directory');
  return {
    directories: paths,
    scratch,
    disk: async (soFar) => {
      if (paths.length === 0) return noDirectory;
      const walked = await walker.walk(paths, (least) => soFar(asVolumes(declared, least)));
      return walked.known ? known(asVolumes(declared, walked.value)) : walked;
    },
    openFiles: async () =>
      cgroup.known ? walker.openFiles(directoryOf(mounts, cgroup.value.path), cgroup.value.inode) : cgroup,
  };
}

/** All declared directories together are the pod's volumes: a unit has no logs or layers to measure. */
function asVolumes({ containers }: ManifestPod['declared'], walked: WalkedDisk): DiskWalk {
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
    directories,
  };
}
