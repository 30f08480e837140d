import { podName } from '../core/pod/pod.ts';
import type { Reading } from '../core/reading.ts';
import type { CgroupMounts } from '../host/cgroup-mounts.ts';
import { cgroupPathsOf } from '../host/procfs.ts';
import { unitOfCgroup } from '../host/unit-path.ts';
import type { BoundPod } from '../ports.ts';

type OwnerNeeds = {
  readonly mounts: CgroupMounts;
  readonly pods: () => Reading<readonly BoundPod[]>;
};
/** A slice only groups units, and belongs to none. */
const UNIT = /\.(?:service|scope|socket|mount|swap)$/;

/**
 * Whose cgroup a process of a victim has moved to: that of another pod, or of another unit of systemd. `home`: the victim's
 * own cgroup. Null: nobody else's.
 */
export function ownerOf(
  { mounts, pods }: OwnerNeeds,
  victim: string,
  home: string,
): (path: string, pid: number) => string | null {
  return (path, pid) => {
    const bound = pods();
    if (!bound.known) return 'an unknown pod';
    const isIn = (top: string): boolean => path === top || path.startsWith(`${top}/`);
    const other = bound.value.find(
      ({ declared, cgroup }) => declared.uid !== victim && cgroup.known && isIn(cgroup.value.path),
    );
    return other === undefined ? (unitIn(path, home) ?? unitNamedFor(mounts, pid, home)) : podName(other.declared);
  };
}

/** The first unit on the way to `path` that `home` is not in. */
function unitIn(path: string, home: string): string | null {
  const [there, here] = [path.split('/'), home.split('/')];
  const apart = there.findIndex((part, i) => part !== here[i]);
  const unit = apart < 0 ? undefined : there.slice(apart).find((part) => UNIT.test(part));
  return unit === undefined ? null : unitOfCgroup(unit);
}

/** On version 1, systemd may keep the memory of a unit with others; its own hierarchy has each apart. */
function unitNamedFor({ version }: CgroupMounts, pid: number, home: string): string | null {
  if (version === 2 || !home.split('/').some((part) => UNIT.test(part) || part.endsWith('.slice'))) return null;
  const paths = cgroupPathsOf(pid);
  const path = paths.known ? paths.value.get('name=systemd') : undefined;
  return path === undefined ? null : unitIn(path, home);
}
