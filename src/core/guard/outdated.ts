import { planOf } from './config.ts';
import type { Turn } from './turn.ts';

/** Why a fencing ended of which the devices are configured otherwise by now. */
export const OUTDATED = 'devices-changed';

/**
 * Its devices are configured otherwise by now. It keeps those that it began with, which did not prove it off: it ends, and the
 * node may be fenced anew.
 */
export function isOutdated({ record, config }: Turn): boolean {
  const now = planOf(config, record.node.name);
  if (now === null || record.onSent.length > 0) return false;
  const sayPlan = ({ isolation, levels }: typeof now): string => JSON.stringify([isolation, levels]);
  return sayPlan(now) !== sayPlan(record.plan) || config.outdated?.includes(record.node.name) === true;
}

/** None is configured any more. */
export const hasNoMethod = ({ record, config }: Turn): boolean => planOf(config, record.node.name) === null;
