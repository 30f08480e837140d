import { podName } from '../../core/pod/pod.ts';
import type { MonoMs } from '../../core/reading.ts';
import type { BootEndSaid, Clock, Findings, Log, RecordNote } from '../../ports.ts';
import { lastBootUnreadable } from '../../words/finding-own.ts';
import type { RecordEntry } from '../entry.ts';
import { lastBoot, readBootEntries } from '../reading/boot-report.ts';
import { recordName } from '../reading/record-file.ts';
import type { ShutdownRecord } from '../reading/shutdown-record.ts';

type BootNotesNeeds = {
  readonly clock: Clock;
  readonly bootId: string;
  /** The record's directory, and whether the parts are those of a dry run. */
  readonly directory: string;
  readonly dry: boolean;
  /** Gets the shutdown that ended the last boot. */
  readonly counters: {
    readonly lastShutdown: (times: { readonly startWallMs: number; readonly endWallMs: number | null }) => void;
  };
  /** The record in which this run of the agent has noted its start; null: none (yet). A reload may leave it for another. */
  readonly startedIn: { record: string | null };
  readonly parts: {
    readonly log: Log;
    readonly findings: Findings;
    readonly recorder: { readonly note: (note: RecordNote) => void };
    readonly mode: {
      readonly isSettled: () => boolean;
      readonly running: () => readonly { readonly namespace: string; readonly name: string }[];
      readonly shows?: { readonly lastBoot: (said: BootEndSaid) => void };
    };
  };
};
/** What the next boot has to know about this one, and what this one reports about the last. */
type BootNotes = {
  /** Reads the records, reports once per boot how the last one ended, and records the start of this run. */
  readonly tell: () => Promise<void>;
  readonly seen: (atMs: MonoMs) => void;
  readonly stopped: (machine: 'stays' | 'goes-down') => void;
  /** The run goes on with other parts: what happens in their record is not in this one. */
  readonly goesOn: (next: { readonly stateDirectory: string; readonly dryRun: boolean }) => void;
  /** About the end of the last boot; null: not known (yet). */
  readonly sentence: () => string | null;
  readonly close: () => void;
};

/** How often to check which pods have processes; a change is written at most once a minute. */
const RUNNING_MS = 30_000;

export function createBootNotes(needs: BootNotesNeeds): BootNotes {
  const { clock, bootId, directory, dry, counters, startedIn, parts } = needs;
  const { log, findings, recorder, mode } = parts;
  const record = pathOf(directory, dry);
  const running = createRunningNote({ note: recorder.note, clock });
  // Before any note about a shutdown that this run resumes.
  const startedMs = clock.monoMs();
  let sentence: string | null = null;
  let askedMs: MonoMs = Number.NEGATIVE_INFINITY;
  let isClosed = false;
  const started = (how: { readonly isUnreported?: true }): void => {
    if (startedIn.record !== record) recorder.note({ kind: 'started', atMs: startedMs, ...how });
    startedIn.record = record;
  };
  const stopped = (machine: 'stays' | 'goes-down'): void => {
    started({ isUnreported: true });
    recorder.note({ kind: 'stopped', atMs: clock.monoMs(), machine, hasRun: true });
  };
  const report = (entries: readonly RecordEntry[]): void => {
    const last = lastBoot(entries, bootId);
    if (last === null) return;
    const { bootId: id, end } = last.boot;
    // A dry run shows nothing to others, so that a live one says again what it has said.
    const isSaid = entries.some((entry) => entry.bootId === bootId && isReported(entry) && (dry || !entry.dry));
    sentence = last.sentence;
    mode.shows?.lastBoot({ bootId: id, end, isNew: !isSaid });
    if (last.shutdown !== null && !last.shutdown.dry) counters.lastShutdown(timesOf(last.shutdown));
    if (isSaid) return;
    log[last.finding === null ? 'info' : 'warn']({ event: 'shutdown' }, last.sentence);
    if (last.finding !== null) findings.raise(last.finding);
  };
  return {
    tell: async () => {
      const entries = await readBootEntries(directory);
      // The next parts report it, and their recorder is open.
      if (isClosed) return;
      if (entries.known) report(entries.value);
      else findings.raise(lastBootUnreadable(entries.where, entries.detail));
      started({});
    },
    seen: (atMs) => {
      if (atMs - askedMs < RUNNING_MS || !mode.isSettled()) return;
      askedMs = atMs;
      running.seen(mode.running().map(podName), atMs);
    },
    stopped,
    goesOn: ({ stateDirectory, dryRun }) => {
      if (pathOf(stateDirectory, dryRun) === record) return;
      stopped('stays');
      startedIn.record = null;
    },
    sentence: () => sentence,
    close: () => {
      isClosed = true;
      running.close();
    },
  };
}

const pathOf = (directory: string, dry: boolean): string => `${directory}/${recordName(dry)}`;
const isReported = (entry: RecordEntry): boolean =>
  entry.kind === 'note' && entry.note.kind === 'started' && entry.note.isUnreported === undefined;

function timesOf({ beganWallMs, beganMs, released }: ShutdownRecord) {
  return { startWallMs: beganWallMs, endWallMs: released === null ? null : beganWallMs + released.atMs - beganMs };
}

/** Records which pods are running, so that the report of an unexpected end can name them. */
type RunningNote = {
  /** `pods`: as namespace/name. */
  readonly seen: (pods: readonly string[], atMs: MonoMs) => void;
  /** Drops what is not yet written: an agent that ends in order leaves better evidence. */
  readonly close: () => void;
};
type RunningNoteNeeds = { readonly note: (note: RecordNote) => void; readonly clock: Clock };

/** Pods that come and go must not fill the record. */
const PACE_MS = 60_000;
/** The maximum, first by name; a node has at most a few hundred. */
const NAMES_MAX = 1_000;

/** Records the first set at once, and later ones if they differ, at most once a minute. */
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
