import type { MonoMs } from '../core/reading.ts';
import type { Clock, RecordNote } from '../ports.ts';

/** Writes down which pods run, so that an end that nobody saw coming can be told with them. */
export type RunningNote = {
  /** `pods`: as namespace/name. */
  readonly seen: (pods: readonly string[], atMs: MonoMs) => void;
  /** What is not yet written is dropped: an agent that ends in order leaves a better trace. */
  readonly close: () => void;
};
export type RunningNoteNeeds = { readonly note: (note: RecordNote) => void; readonly clock: Clock };

/** Pods that come and go must not fill the record. */
const PACE_MS = 60_000;
/** The first by name; a node has at most a few hundred. */
const NAMES_MAX = 1_000;

/** The first set at once, every other one when it differs, at most once a minute. */
export function createRunningNote({ note, clock }: RunningNoteNeeds): RunningNote {
  let written: { readonly key: string; readonly atMs: MonoMs } | null = null;
  let latest: { readonly pods: readonly string[]; readonly key: string; readonly atMs: MonoMs } | null = null;
  let cancelTimer: (() => void) | null = null;
  const write = (): void => {
    cancelTimer?.();
    cancelTimer = null;
    if (latest === null || latest.key === written?.key) return;
    const { pods, key, atMs } = latest;
    written = { key, atMs };
    note({ kind: 'running', atMs, pods });
  };
  return {
    seen: (given, atMs) => {
      const pods = [...new Set(given)].toSorted().slice(0, NAMES_MAX);
      latest = { pods, key: JSON.stringify(pods), atMs };
      if (latest.key === written?.key) return;
      const waitMs = written === null ? 0 : written.atMs + PACE_MS - atMs;
      if (waitMs <= 0) write();
      else cancelTimer ??= clock.after(waitMs, write);
    },
    close: () => {
      cancelTimer?.();
      cancelTimer = null;
      latest = null;
    },
  };
}
