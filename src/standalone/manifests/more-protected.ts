import { EVICT_RESOURCES } from '../../core/pod/evict-for.ts';
import type { PodView } from '../../core/pod/pod.ts';

type Declared = Omit<PodView, 'usage'>;

/** Two manifests bind one thing: the one counts that evicts it for less, or later, not the one whose file comes first. */
export function moreProtected(a: Declared, b: Declared): number {
  const [ofA, ofB] = [ranksOf(a), ranksOf(b)];
  return ofA.map((rank, i) => (ofB[i] ?? 0) - rank).find((difference) => difference !== 0) ?? 0;
}

const ranksOf = ({ isStaticCritical, evictFor, isProtected, priority, requests }: Declared): readonly number[] => [
  Number(isStaticCritical),
  -(evictFor ?? EVICT_RESOURCES).length,
  Number(isProtected),
  priority,
  requests.memoryBytes,
];
