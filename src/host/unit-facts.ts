import { type BusValue, isVariant } from './bus-value.ts';

export type UnitFacts = {
  /** Its own name; the requested one may be an alias. */
  readonly id: string;
  /** `not-found` and `masked` among others. */
  readonly loadState: string;
  readonly activeState: string;
  readonly subState: string;
  /** Below the root of systemd's hierarchy; null: it has none now. */
  readonly controlGroup: string | null;
  /** The slice it would be in; null: systemd knows no such unit. */
  readonly slice: string | null;
  /** Changes with each start; '' if it has not run since it was loaded. */
  readonly invocationId: string;
  /** Start of the unit; null: never since boot. */
  readonly activeSinceWallMs: number | null;
  /** A start or stop of it is in progress. */
  readonly hasJob: boolean;
  /** StopWhenUnneeded=: systemd stops it once no unit that needs it runs any more. */
  readonly stopsUnneeded: boolean;
  /** All its lists of units, by systemd's names: After, Before, Requires, RequiredBy, BindsTo, BoundBy, PartOf, … */
  readonly relations: UnitRelations;
};
export type UnitTies = Pick<UnitFacts, 'id' | 'activeState' | 'subState' | 'stopsUnneeded' | 'relations'>;
export type UnitState = Pick<UnitFacts, 'activeState' | 'subState'> & {
  /** When it was last active, on CLOCK_MONOTONIC: its stop began then, or it ended by itself. 0: it has not changed. */
  readonly activeUntilUs: number;
};
/** It has ended, and systemd is about to start it again (Restart=); from version 254 on also `auto-restart-queued`. */
export const isAutoRestart = (subState: string): boolean => subState.startsWith('auto-restart');

type UnitRelations = { readonly [name: string]: readonly string[] };

/** From those of a unit's properties that changed; '' for one that did not. */
export function stateIn(changed: BusValue | undefined): UnitState {
  const found = entriesOf(changed);
  return {
    activeState: textIn(found, 'ActiveState'),
    subState: textIn(found, 'SubState'),
    activeUntilUs: Number(found.get('ActiveExitTimestampMonotonic') ?? 0),
  };
}

/** From all properties of a unit. */
export function factsIn(all: BusValue | undefined): Omit<UnitFacts, 'controlGroup' | 'slice'> | null {
  const found = entriesOf(all);
  const text = (name: string): string => textIn(found, name);
  const id = text('Id');
  if (id === '' || text('LoadState') === '') return null;
  const sinceUs = Number(found.get('ActiveEnterTimestamp') ?? 0);
  const invocation = found.get('InvocationID');
  const job = found.get('Job');
  const lists = [...found].filter((entry): entry is [string, string[]] => isListOfText(entry[1]));
  return {
    id,
    loadState: text('LoadState'),
    activeState: text('ActiveState'),
    subState: text('SubState'),
    invocationId: Array.isArray(invocation) ? hexOf(invocation) : '',
    activeSinceWallMs: sinceUs > 0 ? Math.floor(sinceUs / 1_000) : null,
    hasJob: Array.isArray(job) && Number(job[0]) !== 0,
    stopsUnneeded: found.get('StopWhenUnneeded') === true,
    relations: Object.fromEntries(lists),
  };
}

function entriesOf(properties: BusValue | undefined): ReadonlyMap<string, BusValue> {
  const found = new Map<string, BusValue>();
  if (typeof properties !== 'object' || Array.isArray(properties)) return found;
  for (const [name, entry] of Object.entries(properties)) if (isVariant(entry)) found.set(name, entry.value);
  return found;
}
function textIn(found: ReadonlyMap<string, BusValue>, name: string): string {
  const value = found.get(name);
  return typeof value === 'string' ? value : '';
}
const isListOfText = (value: BusValue): boolean =>
  Array.isArray(value) && value.every((entry) => typeof entry === 'string');
/** As systemd's own tools show an id. */
export const hexOf = (bytes: readonly BusValue[]): string =>
  bytes.map((byte) => Number(byte).toString(16).padStart(2, '0')).join('');
