import { groupBy } from '../../core/group-by.ts';
import type { MonoMs } from '../../core/reading.ts';
import { STOPS_AGAIN } from '../../core/shutdown/plan.ts';
import type { RecordNote } from '../../ports.ts';
import type { RecordEntry } from '../entry.ts';
import type { PodStop } from './pod-stops.ts';
import type { ShutdownRecord } from './shutdown-record.ts';

/** How an earlier boot ended, as far as the record shows it. */
export type BootRecord = {
  readonly bootId: string;
  /** Only a dry run shows how it ended: no other ran, or it had been stopped. */
  readonly dry: boolean;
  readonly firstWallMs: number;
  /** Its last entry: the boot ended some time later. */
  readonly lastWallMs: number;
  readonly end: BootEnd;
  /** Pods that were running when they were last recorded, at most a minute late; null: not recorded. */
  readonly running: { readonly atWallMs: number; readonly pods: readonly string[] } | null;
};
/**
 * `graceful`: a shutdown saw every pod end that it had to stop, or the agent was stopped because the machine went down.
 * `cut`: a shutdown had begun, and did not. `ungraceful`: the agent ran and left no trace of an end: power cut, panic, watchdog,
 * `reboot -f`, or it was killed and not started again. `not-watched`: the agent had been stopped while the machine stayed
 * up. `unknown`: the record does not show the start of the agent, as with an older version.
 */
type BootEnd = 'graceful' | 'cut' | 'ungraceful' | 'not-watched' | 'unknown';

/** `entries`: all undamaged ones of one boot. `shutdowns`: those of that boot. */
export function bootOf(entries: readonly RecordEntry[], shutdowns: readonly ShutdownRecord[]): BootRecord | null {
  const [first] = entries;
  if (first === undefined) return null;
  // By their places in each record: the clock may have been set back meanwhile.
  const records = [...groupBy(entries, ({ dry }) => dry).values()];
  const wallMs = (place: 0 | -1) => records.map((record) => (record.at(place) ?? first).atWallMs);
  const notes = entries.flatMap((entry): readonly Noted[] =>
    entry.kind === 'note' ? [{ ...entry.note, atWallMs: entry.atWallMs, dry: entry.dry }] : [],
  );
  const running = latest(notes.filter((note) => note.kind === 'running'));
  const { dry, end } = endOfBoot(entries, notes, shutdowns);
  return {
    bootId: first.bootId,
    dry,
    firstWallMs: Math.min(...wallMs(0)),
    lastWallMs: Math.max(...wallMs(-1)),
    end,
    running: running === null ? null : { atWallMs: running.atWallMs, pods: running.pods },
  };
}

type Noted = RecordNote & { readonly atWallMs: number; readonly dry: boolean };
type Run = { readonly kind: 'started'; readonly atMs: MonoMs } | Extract<RecordNote, { kind: 'stopped' }>;

/** A dry run beside a live one may end at any time: it counts if the live one had been stopped before that, or there was none. */
function endOfBoot(
  entries: readonly RecordEntry[],
  notes: readonly Noted[],
  shutdowns: readonly ShutdownRecord[],
): Pick<BootRecord, 'dry' | 'end'> {
  const isLive = entries.some((entry) => !entry.dry);
  const [ofDryRun] = notes.filter((note) => note.dry).filter(({ kind }) => kind === 'started' || kind === 'stopped');
  // Version 0.2.0 did not note that a reload went on in the other record.
  const isGoneOn = ofDryRun?.kind === 'stopped' && ofDryRun.hasRun === undefined;
  if (isLive && isGoneOn) return { dry: false, end: endOf(notes, shutdowns) };
  const endIn = (dry: boolean): BootEnd =>
    endOf(
      notes.filter((note) => note.dry === dry),
      shutdowns.filter((shutdown) => shutdown.dry === dry),
    );
  const live = endIn(false);
  if (isEnd(live)) return { dry: false, end: live };
  const stops = notes.filter((note) => note.kind === 'stopped').filter(({ dry }) => !dry);
  const stoppedMs = latest(stops)?.atMs ?? null;
  const hasGoneOn = stoppedMs === null || entries.some((entry) => entry.dry && isSince(entry, stoppedMs));
  const dry = hasGoneOn ? endIn(true) : 'unknown';
  return { dry: !isLive || isEnd(dry), end: isEnd(dry) || live === 'unknown' ? dry : live };
}

function isSince(entry: RecordEntry, sinceMs: MonoMs): boolean {
  if (entry.kind === 'decision') return entry.decision.atMs >= sinceMs;
  return entry.kind === 'note' && 'atMs' in entry.note && entry.note.atMs >= sinceMs;
}

/** Whether the record shows the end of the boot. */
const isEnd = (end: BootEnd): boolean => end !== 'not-watched' && end !== 'unknown';

function endOf(notes: readonly Noted[], shutdowns: readonly ShutdownRecord[]): BootEnd {
  const run = latest(notes.filter((note) => note.kind === 'started' || note.kind === 'stopped'));
  const sorted = shutdowns.toSorted((a, b) => a.beganMs - b.beganMs);
  const [before, last] = [sorted.at(-2), sorted.at(-1)];
  const end = last === undefined ? null : whatItCameTo(last, last.plan?.isSecond ? before : undefined, run);
  if (end !== null) return end;
  if (run === null) return notes.some(({ kind }) => kind === 'running') ? 'ungraceful' : 'unknown';
  if (run.kind === 'started') return 'ungraceful';
  return run.machine === 'goes-down' ? 'graceful' : 'not-watched';
}

/** null: the machine stayed up afterwards, so it says nothing about how the boot ended. */
function whatItCameTo(last: ShutdownRecord, before: ShutdownRecord | undefined, run: Run | null): BootEnd | null {
  const { end, beganMs, released, resumed } = last;
  if (end.kind === 'cancelled') return null;
  const goesOnMs = Math.max(beganMs, released?.atMs ?? 0, resumed.at(-1)?.atMs ?? 0);
  // systemd starts nothing while the machine goes down: a later run that did not resume the shutdown shows that it stayed up.
  if (run?.kind === 'started' && run.atMs > goesOnMs) return null;
  // A dry run has nothing to complete, and the machine went down.
  return last.dry || (end.kind === 'released' && isComplete(last, before)) ? 'graceful' : 'cut';
}

/** `before`: the phases after logind's signal, which `last` completed. */
function isComplete(last: ShutdownRecord, before: ShutdownRecord | undefined): boolean {
  if (isToBeContinued(last) || last.released?.why === 'out-of-time') return false;
  return leftRunning(last).length === 0 && unended([before, last]).length === 0;
}

/** Pods that were started again too often to be stopped. */
export const leftRunning = ({ startedAgain }: ShutdownRecord): readonly string[] =>
  startedAgain.flatMap(({ pod, times }) => (times >= STOPS_AGAIN ? [pod] : []));

/** Pods that it had to stop, and whose end it has not seen. */
export function unended(parts: readonly (ShutdownRecord | undefined)[]): readonly PodStop[] {
  const stops = parts.flatMap((part) => part?.phases.flatMap(({ pods }) => pods) ?? []);
  // A pod that is stopped again counts as it ended then.
  const lastStops = new Map(stops.map((stop) => [stop.uid ?? stop.pod, stop]));
  return [...lastStops.values()].filter((stop) => !hasEnded(stop));
}

/** Beside a kubelet, the phases after logind's signal are announced, and leave pods that are stopped with the agent (E14). */
export const isToBeContinued = ({ announced, released }: ShutdownRecord): boolean =>
  announced !== undefined && released !== null;

function hasEnded({ end }: PodStop): boolean {
  if (end.kind === 'dropped') return ENDED_BEFORE.includes(end.because);
  return end.kind === 'ended' || end.kind === 'unknown';
}
/** systemd stops what has no processes. */
const ENDED_BEFORE = ['gone', 'started-anew', 'left-to-systemd', 'dry-run'];

function latest<T extends { readonly atMs: MonoMs }>(list: readonly T[]): T | null {
  return list.reduce<T | null>((last, next) => (last === null || next.atMs >= last.atMs ? next : last), null);
}
