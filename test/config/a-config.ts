import type { Effective } from '../../src/config/effective.ts';
import { configOf, type LoadedConfig } from '../../src/config/load.ts';
import type { HostSizes } from '../../src/config/margin.ts';
import { UNKNOWN_SIZES } from '../../src/config/margin.ts';
import { sayProblem } from '../../src/document/problem.ts';

export const HEAD = 'apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\n';
export const KUBELET_HEAD = 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n';
const GIB = 1024 ** 3;
/** 8 GiB of memory, 2 GiB of swap, pressure stall information, 32,768 pids, 100 GiB and 6,553,600 inodes on nodefs. */
export const SIZES: HostSizes = {
  memoryBytes: 8 * GIB,
  pids: 32_768,
  swapBytes: 2 * GIB,
  hasMemoryPressure: true,
  beyondReach: UNKNOWN_SIZES.beyondReach,
  nodefs: { bytes: 100 * GIB, inodes: 6_553_600 },
  imagefs: null,
  node: () => null,
};
export const NO_SIZES: HostSizes = UNKNOWN_SIZES;

/** A configuration of our kind, its head left away; its third line is the text's first. */
export function load(text: string, sizes: HostSizes = NO_SIZES): LoadedConfig {
  return configOf(HEAD + text, 'c.yaml', sizes);
}

export function problems(text: string): readonly string[] {
  return load(text).problems.map(sayProblem);
}

export function effective(text: string, sizes: HostSizes = NO_SIZES): Effective {
  return good(load(text, sizes));
}

export function good(loaded: LoadedConfig): Effective {
  if (loaded.effective === null) throw new Error(loaded.problems.map(sayProblem).join('\n'));
  return loaded.effective;
}
