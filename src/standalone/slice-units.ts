import type { CgroupMounts } from '../host/cgroup-mounts.ts';
import { childrenOf, directoryOf } from '../host/cgroup-walk.ts';
import { unitNameMistake } from '../host/unit-name.ts';
import { cgroupOfUnit, unitOfCgroup } from '../host/unit-path.ts';

/** The maximum number remembered, because this is on the path to a kill. */
const MAX_UNITS = 256;

/**
 * The units that run in a slice now, by their cgroups. systemd restarts a slice but not the units in it: to restart them,
 * they must be known before the stop.
 */
export function unitsIn(mounts: CgroupMounts, slice: string): readonly string[] {
  const found: string[] = [];
  const open = [cgroupOfUnit(slice, null)];
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    const listed = childrenOf(directoryOf(mounts, path), MAX_UNITS);
    for (const name of listed.known ? listed.value.names : []) {
      const unit = unitOfCgroup(name);
      if (unitNameMistake(unit) !== null || found.length + open.length >= MAX_UNITS) continue;
      if (unit.endsWith('.slice')) open.push(`${path}/${name}`);
      else found.push(unit);
    }
  }
  return found;
}
