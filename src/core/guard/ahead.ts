import type { GuardObservation } from './observation.ts';
import type { FencingId, FencingRecord } from './record.ts';
import type { GuardState } from './state.ts';

/** Now, by both clocks, and what is known of times that are ahead of the own one. */
export type WallTime = Pick<GuardObservation, 'atMs' | 'wallMs'> & Pick<GuardState, 'ahead'>;

/**
 * A time that a record says, as one that is over (G7): one in the future was just now when this process first saw it, and is older
 * since by its own clock. The clock of another machine may be ahead by years.
 */
export function asPast(id: FencingId, saidWallMs: number, { atMs, wallMs, ahead }: WallTime): number {
  return Math.min(saidWallMs, wallMs - (atMs - (ahead.get(keyOf(id, saidWallMs)) ?? atMs)));
}

/** After a look at all records: what is ahead of the own clock now, and what once was. */
export function stepAhead(
  before: GuardState['ahead'],
  records: readonly FencingRecord[],
  { atMs, wallMs }: Pick<GuardObservation, 'atMs' | 'wallMs'>,
): GuardState['ahead'] {
  const after = new Map<string, number>();
  let isSame = true;
  for (const record of records) {
    for (const saidWallMs of timesOf(record)) {
      if (saidWallMs <= wallMs && before.size === 0) continue;
      const key = keyOf(record.id, saidWallMs);
      const seenMs = before.get(key);
      if (seenMs === undefined && saidWallMs <= wallMs) continue;
      after.set(key, seenMs ?? atMs);
      if (seenMs === undefined) isSame = false;
    }
  }
  return isSame && after.size === before.size ? before : after;
}

/** How far its times are ahead of the own clock; 0: they are not. */
export const aheadMs = (record: FencingRecord, wallMs: number): number =>
  Math.max(0, ...timesOf(record).map((saidWallMs) => saidWallMs - wallMs));

const keyOf = (id: FencingId, saidWallMs: number): string => `${id} ${saidWallMs}`;

const timesOf = ({ cutWallMs, steps }: FencingRecord): readonly number[] => {
  const times = steps.map((step) => step.wallMs);
  return cutWallMs === null ? times : [...times, cutWallMs];
};
