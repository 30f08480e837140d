import type { MachineAction } from '../../core/pod/pod.ts';
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
  /** It is down, or on its way there, and a job of anybody is to start it then, such as a restart. Absent: none. */
  readonly isToStart?: true;
  /** StopWhenUnneeded=: systemd stops it once no unit that needs it runs any more. */
  readonly stopsUnneeded: boolean;
  /** It has no file, but was made by a program, such as systemd-run: it is gone once it has ended. Absent: it has one. */
  readonly isTransient?: true;
  /** What systemd may do to the whole machine when it is stopped; absent: nothing. */
  readonly machineAction?: MachineAction;
  /** What systemd does to the whole machine when it is started too often, such as `StartLimitAction=reboot`; absent: nothing. */
  readonly startLimitAction?: string;
  /** All its lists of units, by systemd's names: After, Before, Requires, RequiredBy, BindsTo, BoundBy, PartOf, … */
  readonly relations: UnitRelations;
};
export type UnitTies = Pick<
  UnitFacts,
  | 'id'
  | 'loadState'
  | 'activeState'
  | 'subState'
  | 'isToStart'
  | 'stopsUnneeded'
  | 'machineAction'
  | 'startLimitAction'
  | 'relations'
>;
export type UnitState = Pick<UnitFacts, 'activeState' | 'subState'> & {
  /** When it was last active, on CLOCK_MONOTONIC: its stop began then, or it ended by itself. 0: it has not changed. */
  readonly activeUntilUs: number;
};
/** It has ended, and systemd is about to start it again (Restart=); from version 254 on also `auto-restart-queued`. */
export const isAutoRestart = (subState: string): boolean => subState.startsWith('auto-restart');

/** Its job, if that may be to start it again; null: it has none, or is not down and will not be. */
export function jobWhileDown(all: BusValue | undefined): string | null {
  const found = entriesOf(all);
  const [id, path] = [found.get('Job') ?? []].flat();
  const isDown = ['deactivating', 'inactive', 'failed'].includes(textIn(found, 'ActiveState'));
  return isDown && Number(id ?? 0) !== 0 && typeof path === 'string' ? path : null;
}

/** What may happen when it has failed, and when it has ended cleanly: which of them an eviction ends with is not foreseeable. */
const END_ACTIONS = ['FailureAction', 'SuccessAction'];
/** Lists of units that systemd starts then. */
const END_STARTS = ['OnFailure', 'OnSuccess'];
const IS_SHUTDOWN = /^(systemd-)?(reboot|soft-reboot|poweroff|halt|kexec|exit|shutdown)\.(target|service)$/;
const IS_RESCUE = /^(systemd-)?(rescue|emergency)\.(target|service)$/;
/** A start of it needs shutdown.target, which by default all other units are in conflict with. */
export const isShutdown = (unit: string): boolean => IS_SHUTDOWN.test(unit);
/** Also the end of a rescue shell stops most units. */
export const takesMachineDown = (unit: string): boolean => isShutdown(unit) || IS_RESCUE.test(unit);
/** Of a job of it, the start included: as long as it is queued, and as long as it runs. */
const JOB_TIMEOUTS = ['JobTimeoutUSec', 'JobRunningTimeoutUSec'];
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
  const machineAction = machineActionIn(found);
  const startLimitAction = actionIn(found, 'StartLimitAction');
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
    ...(found.get('Transient') === true ? { isTransient: true as const } : {}),
    ...(machineAction === null ? {} : { machineAction }),
    ...(startLimitAction === null ? {} : { startLimitAction }),
    relations: Object.fromEntries(lists),
  };
}

function machineActionIn(found: ReadonlyMap<string, BusValue>): MachineAction | null {
  const [atEnd] = [
    ...END_ACTIONS.flatMap((name) => actionIn(found, name) ?? []),
    ...END_STARTS.flatMap((name) => startIn(found, name) ?? []),
  ];
  if (atEnd !== undefined) return { what: atEnd, afterMs: 0 };
  const what = actionIn(found, 'JobTimeoutAction');
  const afterUs = Math.min(...JOB_TIMEOUTS.map((name) => Number(found.get(name) ?? Number.POSITIVE_INFINITY)));
  // systemd's infinity is the highest number that there is.
  return what === null || afterUs >= Number.MAX_SAFE_INTEGER ? null : { what, afterMs: Math.floor(afterUs / 1_000) };
}
function actionIn(found: ReadonlyMap<string, BusValue>, name: string): string | null {
  const action = textIn(found, name);
  return ['', 'none'].includes(action) ? null : `${name}=${action}`;
}
/** With `isolate`, all that the started unit does not need is stopped. */
function startIn(found: ReadonlyMap<string, BusValue>, name: string): string | null {
  const units = [found.get(name) ?? []].flat().filter((unit) => typeof unit === 'string');
  const last = units.find(takesMachineDown);
  if (last !== undefined) return `${name}=${last}`;
  return units.length > 0 && textIn(found, `${name}JobMode`) === 'isolate' ? `${name}JobMode=isolate` : null;
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
