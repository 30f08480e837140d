import type { DecisionId } from '../../core/decision.ts';
import type { PodUid } from '../../core/pod/pod.ts';
import type { MonoMs } from '../../core/reading.ts';
import { isFlag, isNumber, isOneOf, isText, optional, orNull, shape } from '../../core/shape.ts';
import type { Clock } from '../../ports.ts';
import { loadRuntimeFile, remembered, saveRuntimeFile } from '../manifests/runtime-file.ts';

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
  /** The run that was stopped; a different one means that something else started it. '' = systemd reported none. */
  readonly invocationId: string;
  /** State of the unit right before it was asked to stop; '' = none, or systemd did not report it. */
  readonly activeState: string;
  /**
   * `noted`: about to be asked to stop. `told`: it was asked to stop, or is asked in the same turn; never again. `ended`: its
   * stop is over.
   */
  readonly stage: 'noted' | 'told' | 'ended';
  /** It was signalled without a systemd job: its unit stays active until it has ended. */
  readonly isSignalled?: boolean;
  /** When it was asked to stop, in its turn. Absent: not yet, or not known. */
  readonly toldMs?: MonoMs;
  readonly graceEndsMs: MonoMs;
};
type StopsFile = {
  readonly schema: 1;
  /** All times belong to this boot. */
  readonly bootId: string;
  readonly pods: readonly StoppedPod[];
};

export const stopsPath = (runtimeDirectory: string): string => `${runtimeDirectory}/shutdown-stops.json`;

/** What a shutdown of this boot stopped and was not undone. `complaint`: the file could not be used and was kept aside. */
export function loadStops(
  runtimeDirectory: string,
  bootId: string,
  clock: Clock,
): { readonly pods: readonly StoppedPod[]; readonly complaint: string | null } {
  const { value, complaint } = loadRuntimeFile(stopsPath(runtimeDirectory), readStops, clock);
  const isOfThisBoot = value !== null && bootId !== '' && value.bootId === bootId;
  return {
    pods: isOfThisBoot ? value.pods : [],
    complaint,
  };
}

/** Null, or why it could not be written. */
export function saveStops(runtimeDirectory: string, bootId: string, pods: readonly StoppedPod[]): string | null {
  const file: StopsFile = { schema: 1, bootId, pods };
  return saveRuntimeFile(stopsPath(runtimeDirectory), file);
}

const isStoppedPod = shape<StoppedPod>({
  decision: isText,
  uid: isText,
  pod: isText,
  unit: orNull(isText),
  cannot: orNull(isText),
  invocationId: isText,
  activeState: isText,
  stage: isOneOf('noted', 'told', 'ended'),
  isSignalled: optional(isFlag),
  toldMs: optional(isNumber),
  graceEndsMs: isNumber,
});
const isStops = shape<StopsFile>({ schema: isOneOf(1), bootId: isText, pods: remembered(isStoppedPod) });

/** Null if it is not what `saveStops` writes. */
export function readStops(value: unknown): StopsFile | null {
  return isStops(value) ? value : null;
}
