import type { PodView, Toleration } from '../../core/pod/pod.ts';
import type { MonoMs } from '../../core/reading.ts';
import { isFlag, isNumber, isOneOf, isText, optional, orNull, shape } from '../../core/shape.ts';
import { type NodeCondition, SIGNAL_FACTS } from '../../core/signal.ts';
import type { UnitFacts } from '../../host/systemd/unit-facts.ts';
import type { Clock } from '../../ports.ts';
import { loadRuntimeFile, remembered, saveRuntimeFile } from '../manifests/runtime-file.ts';

/** A unit that an eviction stopped. */
export type HeldUnit = {
  readonly unit: string;
  /** `namespace/name` */
  readonly pod: string;
  readonly qos: PodView['qos'];
  readonly tolerations: readonly Toleration[];
  readonly isStaticCritical: boolean;
  readonly after: 'restart' | 'stay';
  /** The node's conditions when it was stopped: all of them must clear. */
  readonly conditions: readonly NodeCondition[];
  /** The run that was stopped; a different one means that something else started it. '' = systemd reported none. */
  readonly invocationId: string;
  /** It is no victim: systemd may stop it with one. Absent in files of earlier versions. */
  readonly isAlong?: boolean;
  /** What the agent asks systemd for, written before; null: its stop is over. A stop may also end a later run, which then counts. */
  readonly asked: 'stop' | 'start' | null;
  /** That its stop had left it failed, as systemd said last. Absent: it did not, or that is not known. */
  readonly isFailed?: boolean;
  /** How many times the back-off has doubled. */
  readonly level: number;
  /** When it is started; null: it may not come back yet. */
  readonly dueMs: MonoMs | null;
};
/** A unit that the agent restarted; forgotten after ten minutes of health. */
type RestartedUnit = { readonly unit: string; readonly level: number; readonly startedMs: MonoMs };
/** `run`: as `invocationId`; missing in files of earlier versions. */
export type StoppedAgain = { readonly unit: string; readonly atMs: MonoMs; readonly run?: string };
export type Held = {
  readonly schema: 1;
  /** All times belong to this boot. */
  readonly bootId: string;
  readonly conditions: readonly NodeCondition[];
  readonly units: readonly HeldUnit[];
  readonly restarted: readonly RestartedUnit[];
  /** Each run that was stopped again because something else had started it while it was held. */
  readonly stoppedAgain: readonly StoppedAgain[];
  /** Held no longer, and to stay down until somebody starts them: as their manifest says, or who stopped them. */
  readonly leftDown: readonly string[];
};

export const heldPath = (runtimeDirectory: string): string => `${runtimeDirectory}/held.json`;
export const nothingHeld = (bootId: string): Held => ({
  schema: 1,
  bootId,
  conditions: [],
  units: [],
  restarted: [],
  stoppedAgain: [],
  leftDown: [],
});

/** Whether systemd reports another run than the one that was stopped, or is being stopped. */
export function isAnotherRun({ invocationId, asked }: HeldUnit, facts: Pick<UnitFacts, 'invocationId'>): boolean {
  // It is unknown which run is being stopped.
  if (invocationId === '' && asked === 'stop') return false;
  return facts.invocationId !== '' && facts.invocationId !== invocationId;
}

/**
 * Its stop had left it failed, and it is not any more. Systemd unloads a unit that has ended otherwise, and with it which run
 * that was.
 */
export const isReset = ({ asked, isFailed }: HeldUnit, { activeState }: Pick<UnitFacts, 'activeState'>): boolean =>
  asked === null && isFailed === true && activeState === 'inactive';

/** What the last run of this boot held down. `complaint`: the file could not be used and was kept aside. */
export function loadHeld(
  runtimeDirectory: string,
  bootId: string,
  clock: Clock,
): { readonly held: Held; readonly complaint: string | null } {
  const { value, complaint } = loadRuntimeFile(heldPath(runtimeDirectory), readHeld, clock);
  return {
    held: value !== null && value.bootId === bootId ? value : nothingHeld(bootId),
    complaint,
  };
}

/** Null, or why it could not be written. */
export function saveHeld(runtimeDirectory: string, held: Held): string | null {
  return saveRuntimeFile(heldPath(runtimeDirectory), held);
}

const conditions = remembered(isOneOf(...Object.values(SIGNAL_FACTS).map(({ condition }) => condition)));
const isHeldUnit = shape<HeldUnit>({
  unit: isText,
  pod: isText,
  qos: isOneOf('Guaranteed', 'Burstable', 'BestEffort'),
  tolerations: remembered(shape<Toleration>({ key: isText, operator: isText, value: isText, effect: isText })),
  isStaticCritical: isFlag,
  after: isOneOf('restart', 'stay'),
  conditions,
  invocationId: isText,
  isAlong: optional(isFlag),
  // Missing in files of earlier versions.
  asked: optional(isOneOf('stop', 'start', null)),
  isFailed: optional(isFlag),
  level: isNumber,
  dueMs: orNull(isNumber),
});
const isHeld = shape<Held>({
  schema: isOneOf(1),
  bootId: isText,
  conditions,
  units: remembered(isHeldUnit),
  restarted: remembered(shape<RestartedUnit>({ unit: isText, level: isNumber, startedMs: isNumber })),
  // Missing in files of earlier versions.
  stoppedAgain: optional(remembered(shape<StoppedAgain>({ unit: isText, atMs: isNumber, run: optional(isText) }))),
  leftDown: optional(remembered(isText)),
});

/** Null if it is not what `saveHeld` writes. */
export function readHeld(value: unknown): Held | null {
  if (!isHeld(value)) return null;
  const units = value.units.map(
    (unit) => ({ ...unit, asked: unit.asked === undefined ? 'stop' : unit.asked }) as const,
  );
  return { ...nothingHeld(value.bootId), ...value, units };
}
