/** A container that a kubelet made. */
export type ListedContainer = {
  readonly id: string;
  readonly name: string;
  readonly podUid: string;
  readonly state: 'created' | 'running' | 'exited' | 'unknown';
  readonly createdAtWallMs: number;
};

/**
 * The ids of those that a reclaim may remove, the oldest first (kubelet-eviction.md 6.5). Only what has exited, and never the
 * newest that has exited of a name in a living pod: it holds `lastTerminationState` and `logs -p` (beside-a-kubelet.md A12).
 * Of several that are the newest none is removed. A pod with anything that has not exited is living, whatever `isGone` says.
 */
export function deadContainers(
  containers: readonly ListedContainer[],
  isGone: (podUid: string) => boolean,
): readonly string[] {
  const living = new Set(containers.filter(({ state }) => state !== 'exited').map(({ podUid }) => podUid));
  const exited = containers.filter(({ state }) => state === 'exited');
  const newestMs = new Map<string, number>();
  for (const container of exited) {
    const { createdAtWallMs } = container;
    newestMs.set(groupOf(container), Math.max(createdAtWallMs, newestMs.get(groupOf(container)) ?? createdAtWallMs));
  }
  return exited
    .filter((container) => {
      const { podUid, createdAtWallMs } = container;
      return (!living.has(podUid) && isGone(podUid)) || createdAtWallMs < (newestMs.get(groupOf(container)) ?? 0);
    })
    .sort((a, b) => a.createdAtWallMs - b.createdAtWallMs)
    .map(({ id }) => id);
}

/** Neither holds a slash (H1). */
const groupOf = ({ podUid, name }: ListedContainer): string => `${podUid}/${name}`;
