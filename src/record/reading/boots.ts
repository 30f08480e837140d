import type { MonoMs } from '../../core/reading.ts';
import type { RecordEntry } from '../entry.ts';
import type { ShutdownRecord } from './shutdown-record.ts';

/** How an earlier boot ended, as far as the record shows it. */
export type BootRecord = {
  readonly bootId: string;
  /** Only dry runs were recorded in it. */
  readonly dry: boolean;
  readonly firstWallMs: number;
  /** Its last entry: the boot ended some time later. */
  readonly lastWallMs: number;
  readonly end: BootEnd;
  /** Pods that were running when they were last recorded, at most a minute late; null: not recorded. */
  readonly running: { readonly atWallMs: number; readonly pods: readonly string[] } | null;
};
/**
 * `graceful`: a shutdown released its lock, or the agent was stopped because the machine went down. `cut`: a shutdown
 * had begun but did not finish. `ungraceful`: the agent ran and left no trace of an end: power cut, panic, watchdog,
 * `reboot -f`, or it was killed and not started again. `not-watched`: the agent had been stopped while the machine stayed
 * up. `unknown`: the record does not show the start of the agent, as with an older version.
 */
type BootEnd = 'graceful' | 'cut' | 'ungraceful' | 'not-watched' | 'unknown';

/** `entries`: all undamaged ones of one boot. `shutdowns`: those of that boot. */
export function bootOf(entries: readonly RecordEntry[], shutdowns: readonly ShutdownRecord[]): BootRecord | null {
  const [first] = entries;
  if (first === undefined) return null;
  const wallMs = entries.map(({ atWallMs }) => atWallMs);
  const notes = entries.flatMap((entry) =>
    entry.kind === 'note' ? [{ ...entry.note, atWallMs: entry.atWallMs }] : [],
  );
  const running = latest(notes.filter((note) => note.kind === 'running'));
  return {
    bootId: first.bootId,
    dry: entries.every(({ dry }) => dry),
    firstWallMs: wallMs.reduce((a, b) => Math.min(a, b)),
    lastWallMs: wallMs.reduce((a, b) => Math.max(a, b)),
    end: endOf(
      latest(notes.filter((note) => note.kind === 'started' || note.kind === 'stopped')),
      latest(shutdowns.map((shutdown) => ({ ...shutdown, atMs: shutdown.beganMs }))),
      running !== null,
    ),
    running: running === null ? null : { atWallMs: running.atWallMs, pods: running.pods },
  };
}

type Run =
  | { readonly kind: 'started'; readonly atMs: MonoMs }
  | { readonly kind: 'stopped'; readonly atMs: MonoMs; readonly machine: 'stays' | 'goes-down' };

function endOf(run: Run | null, shutdown: ShutdownRecord | null, hasRun: boolean): BootEnd {
  const end = shutdown === null ? null : whatItCameTo(shutdown, run);
  if (end !== null) return end;
  if (run === null) return hasRun ? 'ungraceful' : 'unknown';
  if (run.kind === 'started') return 'ungraceful';
  return run.machine === 'goes-down' ? 'graceful' : 'not-watched';
}

/** null: the machine stayed up afterwards, so it says nothing about how the boot ended. */
function whatItCameTo({ end, beganMs, released, resumed }: ShutdownRecord, run: Run | null): BootEnd | null {
  if (end.kind === 'cancelled') return null;
  const goesOnMs = Math.max(beganMs, released?.atMs ?? 0, resumed.at(-1)?.atMs ?? 0);
  // systemd starts nothing while the machine goes down: a later run that did not resume the shutdown shows that it stayed up.
  if (run?.kind === 'started' && run.atMs > goesOnMs) return null;
  return end.kind === 'released' ? 'graceful' : 'cut';
}

function latest<T extends { readonly atMs: MonoMs }>(list: readonly T[]): T | null {
  return list.reduce<T | null>((last, next) => (last === null || next.atMs >= last.atMs ? next : last), null);
}
