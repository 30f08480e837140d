import type { PodView, Toleration } from '../core/pod.ts';
import type { MonoMs } from '../core/reading.ts';
import type { NodeCondition } from '../core/signal.ts';
import { readText, renameFile, writeAtomic } from '../host/files.ts';
import { sayStamp } from '../host/record-disk.ts';
import type { Clock } from '../ports.ts';

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

/** As many manifests as there may be. */
export const MAX_HELD = 1_000;
const MAX_BYTES = 1024 * 1024;
const MODE = 0o640;

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
  const path = heldPath(runtimeDirectory);
  const text = readText(path, MAX_BYTES);
  if (!text.known && text.why === 'absent') return { held: nothingHeld(bootId), complaint: null };
  const held = text.known ? readHeld(parseJson(text.value)) : null;
  if (held !== null) return { held: held.bootId === bootId ? held : nothingHeld(bootId), complaint: null };
  const aside = `${path}.corrupt-${sayStamp(clock.wallMs())}`;
  const moved = renameFile(path, aside);
  const kept = moved.known ? `kept as ${aside}` : `it could not be kept aside (${moved.detail})`;
  return {
    held: nothingHeld(bootId),
    complaint: `${path} cannot be used, ${kept}: units that an eviction stopped stay down`,
  };
}

/** Null, or why it could not be written. */
export function saveHeld(runtimeDirectory: string, held: Held): string | null {
  const written = writeAtomic(heldPath(runtimeDirectory), `${JSON.stringify(held)}\n`, MODE);
  return written.known ? null : `${written.where}: ${written.detail}`;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Not JSON is nothing of ours; the caller keeps it aside.
    return null;
  }
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
const isNumber = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value);

function isListOf<T>(value: unknown, is: (entry: unknown) => entry is T): value is T[] {
  return Array.isArray(value) && value.length <= MAX_HELD && value.every(is);
}

function isObject(value: unknown): value is { readonly [name: string]: unknown } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
