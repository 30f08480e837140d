// What holding units down, and their restart, is given.
import type { Reading } from '../../core/reading.ts';
import type { NodeCondition } from '../../core/signal.ts';
import type { Systemd } from '../../host/systemd/systemd.ts';
import type { Clock, Findings, Log, RecordNote } from '../../ports.ts';
import type { ManifestPod } from '../manifests/manifest.ts';

export type HoldNeeds = {
  /** What systemd stops along with the unit of a pod; `manifest` null: not a pod. Absent: unknown. */
  readonly stopsAlong?: (manifest: ManifestPod, unit: string) => readonly Along[];
  /** What runs in a slice; absent: unknown. */
  readonly unitsIn?: (slice: string) => readonly string[];
  readonly currentRun?: (unit: string) => Reading<string>;
  /** It is down or stopping, and systemd is about to start it again. Absent: no unit is known to be. */
  readonly isToStart?: (unit: string) => boolean;
};
type Along = { readonly unit: string; readonly manifest: ManifestPod | null };
export type RestartNeeds = HoldNeeds & {
  readonly clock: Clock;
  readonly systemd: Systemd;
  readonly runtimeDirectory: string;
  readonly bootId: string;
  readonly log: Log;
  readonly findings: Findings;
  readonly note: (note: RecordNote) => void;
  /** Those that are true in the adopted state; later changes are reported. */
  readonly conditions?: readonly NodeCondition[];
  /** False: no manifest declares that pod any more. Absent: that is not known of any. */
  readonly mayBeDeclared?: (pod: string) => boolean;
  /** In a dry run nothing is started or stopped again, but what others start or stop is let go. Absent: it never is one. */
  readonly isDryNow?: () => boolean;
  /** Units that a shutdown has stopped, and that a cancel has not started again yet. Absent: none. */
  readonly ofShutdown?: () => ReadonlySet<string>;
  /** An agent that acts has the file: this one is a dry run beside it. Absent: none has. */
  readonly isTaken?: () => boolean;
};
