import { groupBy } from '../../core/group-by.ts';
import type { RecordEntry } from '../entry.ts';

/**
 * The entries of each boot. Boots are in the order of each record, because the wall clock may have been wrong; one that only
 * one record has comes by its clock between those that both have. `entries`: of the real record, of the dry one, or of both.
 */
export function bootsInOrder(entries: readonly RecordEntry[]): readonly (readonly RecordEntry[])[] {
  const boots = groupBy(entries, ({ bootId }) => bootId);
  const wallMs = (id: string): number => boots.get(id)?.at(-1)?.atWallMs ?? 0;
  const real = new Set(entries.flatMap(({ dry, bootId }) => (dry ? [] : [bootId])));
  const dry = [...new Set(entries.flatMap((entry) => (entry.dry ? [entry.bootId] : [])))];
  const placeIn = new Map(dry.map((id, place) => [id, place]));
  const ids: string[] = [];
  let next = 0;
  const takeDry = (isBefore: (id: string) => boolean): void => {
    for (let id = dry[next]; id !== undefined && isBefore(id); id = dry[++next]) if (!real.has(id)) ids.push(id);
  };
  for (const id of real) {
    const place = placeIn.get(id);
    takeDry(place === undefined ? (other) => !real.has(other) && wallMs(other) < wallMs(id) : () => next <= place);
    ids.push(id);
  }
  takeDry(() => true);
  return ids.map((id) => boots.get(id) ?? []);
}
