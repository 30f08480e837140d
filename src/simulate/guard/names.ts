import { sayUnknownName } from '../../document/check.ts';
import { nearestName } from '../../document/nearest.ts';

/** `w[1-5000]`: w1 to w5000. One range in a name; a name without one is itself. */
const RANGE = /^([^[\]]*)\[(\d{1,6})-(\d{1,6})\]([^[\]]*)$/;
/** More than any cluster has. */
export const MAX_NODES = 20_000;

/** Null: not a name or a range of names, or of more than MAX_NODES. */
export function expandNames(written: string): readonly string[] | null {
  if (!/[[\]]/.test(written)) return [written];
  const [, before = '', first = '', last = '', after = ''] = RANGE.exec(written) ?? [];
  const [from, to] = [Number(first), Number(last)];
  if (first === '' || to < from || to - from >= MAX_NODES) return null;
  return Array.from({ length: to - from + 1 }, (_, i) => `${before}${from + i}${after}`);
}

/** A node that is not there; of many that are, only the nearest is named. */
export function sayStranger(name: string, valid: readonly string[]): string {
  const nearest = nearestName(name, valid);
  return sayUnknownName(name, valid.length > 20 && nearest !== null ? [nearest] : valid.slice(0, 20), 'node');
}
