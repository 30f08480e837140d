import type { MonoMs } from '../../core/reading.ts';
import { isNumber } from '../../core/shape.ts';
import type { DecisionRecord, RecordEntry } from '../entry.ts';
import type { ShutdownRecord } from './shutdown-record.ts';

/** `atMs` null: not known. */
export type Moment = { readonly bootId: string; readonly atWallMs: number; readonly atMs: MonoMs | null };
/** When that was by the wall clock as it is set now or, in an earlier boot, as it was set at the end of that boot. */
export type Timeline = (moment: Moment) => number;

/**
 * The wall clock may be set while a machine runs: within a boot, only the time since its start gives the order, and how long ago
 * something was. `now` null: the present boot is not known.
 */
export function timelineOf(
  entries: readonly RecordEntry[],
  now: { readonly bootId: string; readonly wallMs: number; readonly atMs: MonoMs } | null,
): Timeline {
  const last = new Map<string, { readonly atMs: MonoMs; readonly startWallMs: number }>();
  const learn = (bootId: string, atMs: MonoMs, wallMs: number): void => {
    if (atMs >= (last.get(bootId)?.atMs ?? Number.NEGATIVE_INFINITY))
      last.set(bootId, { atMs, startWallMs: wallMs - atMs });
  };
  for (const entry of entries) {
    const { bootId, atWallMs, atMs } = momentOf(entry);
    if (atMs !== null) learn(bootId, atMs, atWallMs);
  }
  if (now !== null) learn(now.bootId, now.atMs, now.wallMs);
  return ({ bootId, atWallMs, atMs }) => {
    const startWallMs = last.get(bootId)?.startWallMs;
    return startWallMs === undefined || !isNumber(atMs) ? atWallMs : startWallMs + atMs;
  };
}

/** Bodies are not checked when they are read. */
export function momentOf(entry: RecordEntry): Moment {
  const { bootId, atWallMs } = entry;
  const of =
    entry.kind === 'decision'
      ? entry.decision
      : entry.kind === 'note' && entry.note.kind !== 'rung' && 'atMs' in entry.note
        ? entry.note
        : null;
  return { bootId, atWallMs, atMs: of !== null && isNumber(of.atMs) ? of.atMs : null };
}

export const momentOfDecision = ({ bootId, atWallMs, decision: { atMs } }: DecisionRecord): Moment => ({
  bootId,
  atWallMs,
  atMs,
});
export const momentOfShutdown = ({ bootId, beganWallMs, beganMs }: ShutdownRecord): Moment => ({
  bootId,
  atWallMs: beganWallMs,
  atMs: beganMs,
});
