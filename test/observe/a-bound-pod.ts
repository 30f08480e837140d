import type { DiskWalk } from '../../src/core/pod/disk-walk.ts';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import type { BoundPod, CgroupRef, Finding, Findings } from '../../src/ports.ts';
import { aPod } from '../a.ts';

type Overrides = Parameters<typeof aPod>[0] & {
  readonly cgroup?: Reading<CgroupRef>;
  readonly boundContainers?: BoundPod['containers'];
  readonly disk?: BoundPod['disk'];
};

/** A pod with a declaration, not bound to any cgroup and without directories, unless said otherwise. */
export function aBoundPod({ cgroup, boundContainers, disk, ...overrides }: Overrides): BoundPod {
  const { usage: _, ...declared } = aPod(overrides);
  return {
    declared,
    cgroup: cgroup ?? unknown('absent', declared.name, 'bound to nothing'),
    containers: boundContainers ?? [],
    disk: disk ?? (() => Promise.resolve(known(aDiskWalk(0)))),
  };
}

/** Directories that hold `volumesBytes` in one inode. */
export function aDiskWalk(volumesBytes: number): DiskWalk {
  const empty = { logsBytes: 0, rootfsBytes: 0, logsInodes: 0, rootfsInodes: 0 };
  return { pod: { ...empty, volumesBytes, volumesInodes: 1 }, containers: [], volumes: [] };
}

export function someFindings(): Findings {
  const present = new Map<string, Finding>();
  return {
    raise: (finding) => void present.set(finding.id, finding),
    clear: (id) => void present.delete(id),
    all: () => [...present.values()],
  };
}

/** Waits for a fact; the deadline only ends a hung run. */
export async function until(isSo: () => boolean, what: string): Promise<void> {
  const endsMs = performance.now() + 30_000;
  while (!isSo()) {
    if (performance.now() > endsMs) throw new Error(`it never came to this: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
