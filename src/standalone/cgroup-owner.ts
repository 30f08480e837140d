import { podName } from '../core/pod/pod.ts';
import type { Reading } from '../core/reading.ts';
import { placesOf } from '../host/escaped.ts';
import { unitOfCgroup } from '../host/unit-path.ts';
import type { BoundPod } from '../ports.ts';

/** A slice only groups units, and belongs to none. The manager of a user has units of its own below it. */
const UNIT = /^(?!user@).*\.(?:service|scope|socket|mount|swap)$/;

/**
 * Who else than the victim has a part in a process of the victim that has left its cgroup: the pod or the unit of systemd that
 * has one of its threads in one of its cgroups, in any hierarchy. `home`: the victim's own cgroup. Null: nobody.
 */
export function ownerOf(
  pods: () => Reading<readonly BoundPod[]>,
  victim: string,
  home: string,
): (pid: number) => string | null {
  return (pid) => {
    const [bound, places] = [pods(), placesOf(pid)];
    if (!bound.known) return 'an unknown pod';
    if (!places.known) return 'an unknown owner';
    const paths = [...places.value];
    const isIn = (top: string): boolean => paths.some((path) => path === top || path.startsWith(`${top}/`));
    const other = bound.value.find(
      ({ declared, cgroup }) => declared.uid !== victim && cgroup.known && isIn(cgroup.value.path),
    );
    if (other !== undefined) return podName(other.declared);
    const unit = paths.map((path) => unitIn(path)).find((name) => name !== null && name !== unitIn(home));
    return unit === undefined || unit === null ? null : unitOfCgroup(unit.slice(unit.lastIndexOf('/') + 1));
  };
}

/** The path down to the first unit: what is below it is delegated to that unit, whatever its name. Null: there is none. */
export function unitIn(path: string): string | null {
  const parts = path.split('/');
  const at = parts.findIndex((part) => UNIT.test(part));
  return at < 0 ? null : parts.slice(0, at + 1).join('/');
}
