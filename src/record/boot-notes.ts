import type { MonoMs } from '../core/reading.ts';
import type { Clock, Findings, Log, RecordNote } from '../ports.ts';
import { readBootEntries } from './boot-entries.ts';
import { lastBoot } from './boot-report.ts';
import { createRunningNote } from './running.ts';

export type BootNotesNeeds = {
  readonly clock: Clock;
  readonly bootId: string;
  /** Of the record. */
  readonly directory: string;
  /** False where parts were made anew within one run of the agent. */
  readonly isFirst: boolean;
  readonly parts: {
    readonly log: Log;
    readonly findings: Findings;
    readonly recorder: { readonly note: (note: RecordNote) => void };
    readonly mode: {
      readonly isSettled: () => boolean;
      readonly running: () => readonly { readonly namespace: string; readonly name: string }[];
    };
  };
};
/** What the next boot has to know of this one, and what this one says of the last. */
export type BootNotes = {
  /** Reads the record, says once in a boot how the last one ended, and notes that this run began. */
  readonly tell: (dry: boolean) => Promise<void>;
  readonly seen: (atMs: MonoMs) => void;
  readonly stopped: (machine: 'stays' | 'goes-down') => void;
  /** About the end of the last boot; null: not known (yet). */
  readonly sentence: () => string | null;
  readonly close: () => void;
};

/** Which pods have processes is asked this often. */
const RUNNING_MS = 10_000;

export function createBootNotes({ clock, bootId, directory, isFirst, parts }: BootNotesNeeds): BootNotes {
  const { log, findings, recorder, mode } = parts;
  const running = createRunningNote({ note: recorder.note, clock });
  // Before anything that is noted of a shutdown that this run goes on with.
  const startedMs = clock.monoMs();
  let sentence: string | null = null;
  let askedMs: MonoMs = Number.NEGATIVE_INFINITY;
  return {
    tell: async (dry) => {
      const entries = await readBootEntries(directory, dry);
      if (entries.known) {
        const earlier = entries.value.filter((entry) => entry.bootId !== bootId);
        sentence = lastBoot(earlier, bootId)?.sentence ?? null;
        const report = lastBoot(entries.value, bootId);
        if (report !== null) log[report.finding === null ? 'info' : 'warn']({ event: 'shutdown' }, report.sentence);
        if (report?.finding) findings.raise(report.finding);
      } else findings.raise({ id: 'last-boot', text: `${entries.where} cannot be read: ${entries.detail}` });
      if (isFirst) recorder.note({ kind: 'started', atMs: startedMs });
    },
    seen: (atMs) => {
      if (atMs - askedMs < RUNNING_MS || !mode.isSettled()) return;
      askedMs = atMs;
      running.seen(
        mode.running().map(({ namespace, name }) => `${namespace}/${name}`),
        atMs,
      );
    },
    stopped: (machine) => recorder.note({ kind: 'stopped', atMs: clock.monoMs(), machine }),
    sentence: () => sentence,
    close: running.close,
  };
}
