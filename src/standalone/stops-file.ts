import type { DecisionId } from '../core/decision.ts';
import type { PodUid } from '../core/pod.ts';
import type { MonoMs } from '../core/reading.ts';
import type { Clock } from '../ports.ts';
import { isListOf, isNumber, isObject, loadRuntimeFile, saveRuntimeFile } from './runtime-file.ts';

/** A pod that a shutdown stopped. */
export type StoppedPod = {
  readonly decision: DecisionId;
  readonly uid: PodUid;
  /** `namespace/name` */
  readonly pod: string;
  /** Null: its processes are signalled. */
  readonly unit: string | null;
  /** Why we cannot start it again, as a sentence; null: we can. */
  readonly cannot: string | null;
  /** Of the run that was stopped; another one means that somebody else started it. '' = systemd named none. */
  readonly invocationId: string;
  /** Of the unit, right before it was told; '' = none, or systemd did not say. */
  readonly activeState: string;
  /**
   * `noted`: about to be told. `told`: it has been told, or is told in the same turn: never again. `ended`: its stop is
   * over.
   */
  readonly stage: 'noted' | 'told' | 'ended';
  /** It was told by a signal, without a job of systemd: its unit stays active until it has ended. */
  readonly isSignalled?: boolean;
  readonly graceEndsMs: MonoMs;
};
export type StopsFile = {
  readonly schema: 1;
  /** All times belong to this boot. */
  readonly bootId: string;
  readonly pods: readonly StoppedPod[];
};

export const stopsPath = (runtimeDirectory: string): string => `${runtimeDirectory}/shutdown-stops.json`;

/** What a shutdown of this boot stopped and nobody undid. `complaint`: the file could not be used and was kept aside. */
export function loadStops(
  runtimeDirectory: string,
  bootId: string,
  clock: Clock,
): { readonly pods: readonly StoppedPod[]; readonly complaint: string | null } {
  const { value, complaint } = loadRuntimeFile(stopsPath(runtimeDirectory), readStops, clock);
  const isOfThisBoot = value !== null && bootId !== '' && value.bootId === bootId;
  return {
    pods: isOfThisBoot ? value.pods : [],
    complaint: complaint === null ? null : `${complaint}: units that a cancelled shutdown stopped stay down`,
  };
}

/** Null, or why it could not be written. */
export function saveStops(runtimeDirectory: string, bootId: string, pods: readonly StoppedPod[]): string | null {
  const file: StopsFile = { schema: 1, bootId, pods };
  return saveRuntimeFile(stopsPath(runtimeDirectory), file);
}

/** Null where it is not what `saveStops` writes. */
export function readStops(value: unknown): StopsFile | null {
  if (!isObject(value)) return null;
  const { schema, bootId, pods } = value;
  if (schema !== 1 || typeof bootId !== 'string' || !isListOf(pods, isStoppedPod)) return null;
  return { schema, bootId, pods };
}

const TEXTS = ['decision', 'uid', 'pod', 'invocationId', 'activeState'] as const;
const STAGES: readonly unknown[] = ['noted', 'told', 'ended'];

function isStoppedPod(value: unknown): value is StoppedPod {
  return (
    isObject(value) &&
    TEXTS.every((name) => typeof value[name] === 'string') &&
    isTextOrNull(value['unit']) &&
    isTextOrNull(value['cannot']) &&
    STAGES.includes(value['stage']) &&
    isNumber(value['graceEndsMs'])
  );
}

const isTextOrNull = (value: unknown): boolean => value === null || typeof value === 'string';
