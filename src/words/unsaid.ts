import type { RankValue } from '../core/decision.ts';
import { type Comparator, UNSAID } from '../core/eviction/comparator.ts';

/** Why the pod counts as first by a value that its declaration does not give; null: it does. */
export function sayUnsaid(by: Comparator, values: readonly RankValue[]): string | null {
  const value = values.find((entry) => entry.by === by)?.value;
  if (value === undefined || value.known || value.where !== UNSAID) return null;
  return `its ${by === 'priority' ? 'priority' : 'request'} is unknown (${value.detail})`;
}
