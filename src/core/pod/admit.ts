import type { NodeCondition } from '../signal.ts';
import type { PodView, Toleration } from './pod.ts';

type Admission =
  | { readonly kind: 'admitted' }
  /** In the kubelet's words, with the conditions in the order given. */
  | { readonly kind: 'rejected'; readonly reason: 'Evicted'; readonly message: string };

const MEMORY_PRESSURE_TAINT = 'node.kubernetes.io/memory-pressure';

/** kubelet-eviction.md 4.15: may this pod run while the node has these conditions? */
export function admits(
  pod: Pick<PodView, 'qos' | 'tolerations' | 'isStaticCritical'>,
  conditions: readonly NodeCondition[],
): Admission {
  if (conditions.length === 0 || pod.isStaticCritical) return { kind: 'admitted' };
  const isMemoryOnly = conditions.every((condition) => condition === 'MemoryPressure');
  if (isMemoryOnly && (pod.qos !== 'BestEffort' || pod.tolerations.some(toleratesMemoryPressure))) {
    return { kind: 'admitted' };
  }
  const message = `Pod was rejected: The node had condition: [${conditions.join(' ')}]. `;
  return { kind: 'rejected', reason: 'Evicted', message };
}

function toleratesMemoryPressure({ key, operator, value, effect }: Toleration): boolean {
  if (effect !== '' && effect !== 'NoSchedule') return false;
  if (key !== '' && key !== MEMORY_PRESSURE_TAINT) return false;
  if (operator === 'Exists') return true;
  return (operator === '' || operator === 'Equal') && value === '';
}
