import type { GuardEffective } from '../config/guard/effective.ts';
import type { StoredRecord } from '../core/guard/record.ts';

const DAY_MS = 86_400_000;
/** At one time; the rest has time. */
const MOST = 20;

/**
 * Closed records that `history` no longer keeps, the oldest first. Those of the last day stay whatever it says: the limits
 * per hour and day are counted in them. Open and unreadable ones stay.
 */
export function outlived(
  records: readonly StoredRecord[],
  { days, entries }: GuardEffective['history'],
  wallMs: number,
): readonly StoredRecord[] {
  return records
    .flatMap((stored) =>
      stored.record?.phase === 'closed' ? [{ stored, ageMs: ageOf(stored.record.steps, wallMs) }] : [],
    )
    .sort((a, b) => a.ageMs - b.ageMs)
    .filter(({ ageMs }, index) => ageMs > DAY_MS && (index >= entries || ageMs > days * DAY_MS))
    .slice(-MOST)
    .reverse()
    .map(({ stored }) => stored);
}

/** A time in the future is just now (G7). */
const ageOf = (steps: readonly { readonly wallMs: number }[], wallMs: number): number =>
  Math.max(0, wallMs - (steps.at(-1)?.wallMs ?? wallMs));
