import { known, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import type { SignalSample } from '../core/signal.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { openCgroupSwap } from '../host/cgroup/cgroup-swap.ts';
import type { Procfs } from '../host/procfs.ts';

type NodeSwapNeeds = {
  readonly mounts: CgroupMounts;
  readonly procfs: Procfs;
  readonly cgroupRoot: string;
  /** The cgroup whose memory is the node's. */
  readonly nodePath: (atMs: MonoMs) => Reading<string>;
};
type NodeSwap = {
  readonly available: (atMs: MonoMs) => Reading<SignalSample>;
  readonly close: () => void;
};

/** Only an operator adds swap, and /proc/meminfo takes the kernel longer than the rest of a look. */
const NONE_PACE_MS = 1_000;

/** Off unless a threshold counts it. */
export const NOT_COUNTED = unknown(
  'not-applicable',
  'swap',
  'neither a threshold of swap.available nor evictionStall is configured',
);

/** swap.available of the node: the machine's, or what its cgroup may use of it if that is less. */
export function createNodeSwap({ mounts, procfs, cgroupRoot, nodePath }: NodeSwapNeeds): NodeSwap {
  const own = openCgroupSwap(mounts, cgroupRoot);
  let noneMs = Number.NEGATIVE_INFINITY;

  const ofMachine = (atMs: MonoMs): Reading<SignalSample> => {
    if (atMs - noneMs < NONE_PACE_MS) return NO_SWAP;
    const meminfo = procfs.meminfo();
    if (!meminfo.known) return meminfo;
    const { swapTotalBytes: total, swapFreeBytes: free } = meminfo.value;
    if (!total.known) return total;
    if (!free.known) return free;
    if (total.value === 0) {
      noneMs = atMs;
      return NO_SWAP;
    }
    return known({ available: free.value, capacity: total.value, sampledAtMs: atMs });
  };
  return {
    available: (atMs) => {
      const machine = ofMachine(atMs);
      if (!machine.known || cgroupRoot === '/') return machine;
      const node = nodePath(atMs);
      if (!node.known) return node;
      const swap = node.value === '/' ? known(null) : own.use();
      if (!swap.known) return swap;
      if (swap.value === null) return machine;
      const { limitBytes, usedBytes } = swap.value;
      if (limitBytes === 0) return MAY_NOT_SWAP;
      const capacity = Math.min(limitBytes, machine.value.capacity);
      return known({ ...machine.value, available: Math.min(capacity - usedBytes, machine.value.available), capacity });
    },
    close: own.close,
  };
}

const NO_SWAP = unknown('not-applicable', '/proc/meminfo SwapTotal', 'this machine has no swap');
const MAY_NOT_SWAP = unknown('not-applicable', 'swap of the node', 'its cgroup may use none');
