import type { PodView, Toleration } from '../core/pod.ts';
import type { MonoMs } from '../core/reading.ts';
import type { NodeCondition } from '../core/signal.ts';
import type { Clock } from '../ports.ts';
import { isListOf, isNumber, isObject, loadRuntimeFile, saveRuntimeFile } from './runtime-file.ts';

/** A unit that an eviction stopped. */
export type HeldUnit = {
  readonly unit: string;
  /** `namespace/name` */
  readonly pod: string;
  readonly qos: PodView['qos'];
  readonly tolerations: readonly Toleration[];
  readonly isStaticCritical: boolean;
  readonly after: 'restart' | 'stay';
  /** Those of the node when it was stopped: all of them must clear. */
  readonly conditions: readonly NodeCondition[];
  /** Of the run that was stopped; another one means that somebody else started it. '' = systemd named none. */
  readonly invocationId: string;
  /** How many times the back-off has doubled. */
  readonly level: number;
  /** When it is started; null: it may not come back yet. */
  readonly dueMs: MonoMs | null;
  readonly stoppedAgainMs: readonly MonoMs[];
};
/** Started again by us; forgotten after ten minutes of health. */
export type RestartedUnit = { readonly unit: string; readonly level: number; readonly startedMs: MonoMs };
export type Held = {
  readonly schema: 1;
  /** All times belong to this boot. */
  readonly bootId: string;
  readonly conditions: readonly NodeCondition[];
  readonly units: readonly HeldUnit[];
  readonly restarted: readonly RestartedUnit[];
};

export const heldPath = (runtimeDirectory: string): string => `${runtimeDirectory}/held.json`;
export const nothingHeld = (bootId: string): Held => ({
  schema: 1,
  bootId,
  conditions: [],
  units: [],
  restarted: [],
});

/** What the last run of this boot held down. `complaint`: the file could not be used and was kept aside. */
export function loadHeld(
  runtimeDirectory: string,
  bootId: string,
  clock: Clock,
): { readonly held: Held; readonly complaint: string | null } {
  const { value, complaint } = loadRuntimeFile(heldPath(runtimeDirectory), readHeld, clock);
  return {
    held: value !== null && value.bootId === bootId ? value : nothingHeld(bootId),
    complaint: complaint === null ? null : `${complaint}: units that an eviction stopped stay down`,
  };
}

/** Null, or why it could not be written. */
export function saveHeld(runtimeDirectory: string, held: Held): string | null {
  return saveRuntimeFile(heldPath(runtimeDirectory), held);
}

const CONDITIONS: readonly unknown[] = ['MemoryPressure', 'DiskPressure', 'PIDPressure'];
const QOS: readonly unknown[] = ['Guaranteed', 'Burstable', 'BestEffort'];

/** Null where it is not what `saveHeld` writes. */
export function readHeld(value: unknown): Held | null {
  if (!isObject(value)) return null;
  const { schema, bootId, conditions, units, restarted } = value;
  if (schema !== 1 || typeof bootId !== 'string') return null;
  if (!isListOf(conditions, isCondition) || !isListOf(units, isHeldUnit) || !isListOf(restarted, isRestarted))
    return null;
  return { schema, bootId, conditions, units, restarted };
}

function isHeldUnit(value: unknown): value is HeldUnit {
  if (!isObject(value)) return false;
  const texts = [value['unit'], value['pod'], value['invocationId']];
  return (
    texts.every((text) => typeof text === 'string') &&
    QOS.includes(value['qos']) &&
    typeof value['isStaticCritical'] === 'boolean' &&
    (value['after'] === 'restart' || value['after'] === 'stay') &&
    isNumber(value['level']) &&
    (value['dueMs'] === null || isNumber(value['dueMs'])) &&
    isListOf(value['conditions'], isCondition) &&
    isListOf(value['tolerations'], isToleration) &&
    isListOf(value['stoppedAgainMs'], isNumber)
  );
}

function isRestarted(value: unknown): value is RestartedUnit {
  return (
    isObject(value) && typeof value['unit'] === 'string' && isNumber(value['level']) && isNumber(value['startedMs'])
  );
}

function isToleration(value: unknown): value is Toleration {
  return isObject(value) && ['key', 'operator', 'value', 'effect'].every((name) => typeof value[name] === 'string');
}

const isCondition = (value: unknown): value is NodeCondition => CONDITIONS.includes(value);
