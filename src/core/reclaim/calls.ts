import { type FsLayout, fileSystemOf, type Signal } from '../signal.ts';

/** Dead containers, or unused images. */
export type ReclaimCall = 'containers' | 'images';

/** kubelet-eviction.md 6.1: the calls of a node-level reclaim, in their order. */
export function reclaimCalls(signal: Signal, layout: FsLayout): readonly ReclaimCall[] {
  const role = fileSystemOf(signal);
  if (role === null) return [];
  switch (layout) {
    case 'nodefs-only':
      return ['containers', 'images'];
    case 'imagefs-separate':
      return role === 'nodefs' ? [] : ['containers', 'images'];
    case 'containerfs-separate':
      return role === 'imagefs' ? ['images'] : ['containers'];
  }
}
