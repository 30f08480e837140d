import { known, type MonoMs, type Reading } from '../core/reading.ts';
import type { SignalSample } from '../core/signal.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { openPids } from '../host/cgroup/cgroupfs.ts';
import type { Procfs } from '../host/procfs.ts';
import { cachedFor } from './cached-reading.ts';

type NodePidsNeeds = { readonly mounts: CgroupMounts; readonly procfs: Procfs; readonly cgroupRoot: string };
type NodePids = {
  readonly available: (atMs: MonoMs) => Reading<SignalSample>;
  readonly close: () => void;
};

/** Only an operator changes limits, and reading them opens three files. */
const LIMITS_PACE_MS = 1_000;

type Limit = { readonly pids: number; readonly of: 'machine' | 'cgroup' };

/**
 * pid.available of the node: the kernel's limits, or those of its cgroup if they are smaller (product.md section 4).
 */
export function createNodePids({ mounts, procfs, cgroupRoot }: NodePidsNeeds): NodePids {
  const own = cgroupRoot === '/' ? null : openPids(mounts, cgroupRoot);

  const machineLimit = cachedFor(LIMITS_PACE_MS, procfs.pidLimit);

  /** That of the cgroup is read together with its tasks: another one may have its path by now. */
  const limitAt = (atMs: MonoMs): Reading<Limit> => {
    const machine = machineLimit(atMs);
    const ofMachine: Reading<Limit> = machine.known ? known({ pids: machine.value, of: 'machine' }) : machine;
    if (own === null) return ofMachine;
    const max = own.max();
    if (!max.known) return max.why === 'absent' || max.why === 'not-applicable' ? ofMachine : max;
    if (max.value === null || (machine.known && max.value >= machine.value)) return ofMachine;
    return known({ pids: max.value, of: 'cgroup' });
  };
  return {
    available: (atMs) => {
      const limit = limitAt(atMs);
      if (!limit.known) return limit;
      const tasks = limit.value.of === 'cgroup' && own !== null ? own.current() : procfs.tasks();
      if (!tasks.known) return tasks;
      return known({ available: limit.value.pids - tasks.value, capacity: limit.value.pids, sampledAtMs: atMs });
    },
    close: () => own?.close(),
  };
}
