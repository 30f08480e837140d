/** A container that a kubelet created. */
export type ListedContainer = {
  readonly id: string;
  readonly name: string;
  readonly podUid: string;
  readonly state: 'created' | 'running' | 'exited' | 'unknown';
  readonly createdAtWallMs: number;
};

/**
 * The ids of the containers that a reclaim may remove, oldest first (kubelet-eviction.md 6.5). Only exited ones, and in a
 * living pod never the newest exited one of a name: it holds `lastTerminationState` and `logs -p` (beside-a-kubelet.md A12).
 * If several are the newest, none of them is removed. A pod with a container that has not exited is living, whatever `isGone`
 * says.
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

/** Neither contains a slash (H1). */
const groupOf = ({ podUid, name }: ListedContainer): string => `${podUid}/${name}`;
