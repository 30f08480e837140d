import { groupBy } from '../core/group-by.ts';
import { known, type Reading } from '../core/reading.ts';
import { type CgroupLimit, memoryLimitOf, pathsAbove } from '../host/cgroup/cgroup-memory.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';

/** A cgroup with a memory limit, and the names of the pods in it, at least two. */
export type SharedLimit = CgroupLimit & { readonly pods: readonly string[] };

/** The limits between the node and its pods. A pod's own limit, or one that only one pod has above it, is not shared. */
export function sharedLimits(
  mounts: CgroupMounts,
  node: string,
  pods: readonly { readonly name: string; readonly path: string }[],
): Reading<readonly SharedLimit[]> {
  const levelsAbove = pathsAbove(`${node}/pod`).length;
  const placed = pods.flatMap(({ name, path }) =>
    pathsAbove(path)
      .slice(levelsAbove)
      .map((above) => ({ name, above })),
  );
  const shared: SharedLimit[] = [];
  for (const [path, members] of groupBy(placed, ({ above }) => above)) {
    if (members.length < 2) continue;
    const limit = memoryLimitOf(mounts, path);
    // It may have ended meanwhile, or have no memory controller.
    if (!limit.known && limit.why !== 'absent') return limit;
    if (limit.known && limit.value !== null)
      shared.push({ path, bytes: limit.value, pods: members.map(({ name }) => name) });
  }
  return known(shared);
}
