import type { MonoMs } from '../../core/reading.ts';
import type { Clock } from '../../ports.ts';
import type { Spooled } from './spool-file.ts';

/**
 * When each kept message is sent. A deletion that the server does not take keeps no other one from being sent; the events wait
 * for each other, so that a busy server gets one at a time.
 */
export type SpoolTurns = {
  /** Whoever puts a message may be sending it: it is due in a second, or when the one that it replaces is. */
  readonly put: (entry: Spooled, before: Spooled | undefined) => void;
  /** The server took it, or never will. */
  readonly answered: (entry: Spooled) => void;
  /** `retryAfterMs`: the delay that the server asks for, which may be longer than ours; null: none. */
  readonly failed: (entry: Spooled, retryAfterMs: number | null) => void;
  /** All of these are due, except those for which the server asked for a delay. */
  readonly relisted: (entries: Iterable<Spooled>) => void;
  readonly dueMs: (entry: Spooled) => MonoMs;
  /** Of those that are due: deletions first, then what was sent longest ago. Null: none is due. */
  readonly next: (entries: readonly Spooled[]) => Spooled | null;
};
/** `pauseMs`: after the next failure. `askedMs`: not before that, by the server. */
type Wait = { readonly dueMs: MonoMs; readonly pauseMs: number; readonly askedMs: MonoMs };

/** Twice as long each time. The kubelet restarts a killed container. */
export const AGAIN = { firstMs: 1_000, mostMs: 10_000 };
const NONE: Wait = { dueMs: 0, pauseMs: AGAIN.firstMs, askedMs: 0 };

export function createSpoolTurns({ monoMs }: Pick<Clock, 'monoMs'>): SpoolTurns {
  const waits = new WeakMap<Spooled, Wait>();
  /** By the number of the attempt. */
  const tried = new WeakMap<Spooled, number>();
  let tries = 0;
  let ofEvents = NONE;

  const waitOf = (entry: Spooled): Wait => waits.get(entry) ?? NONE;
  const dueMs = (entry: Spooled): MonoMs =>
    entry.kind === 'event' ? Math.max(waitOf(entry).dueMs, ofEvents.dueMs) : waitOf(entry).dueMs;
  const longer = ({ pauseMs }: Wait, retryAfterMs: number | null): Wait => {
    const askedMs = monoMs() + (retryAfterMs ?? 0);
    const dueMs = Math.max(askedMs, monoMs() + pauseMs);
    return { dueMs, pauseMs: dueMs === askedMs ? pauseMs : Math.min(AGAIN.mostMs, 2 * pauseMs), askedMs };
  };
  const afterRelist = ({ askedMs }: Wait): Wait => ({ ...NONE, dueMs: askedMs, askedMs });
  return {
    put: (entry, before) => {
      const soonMs = monoMs() + AGAIN.firstMs;
      waits.set(entry, { ...NONE, dueMs: before === undefined ? soonMs : Math.min(soonMs, waitOf(before).dueMs) });
    },
    answered: ({ kind }) => {
      if (kind === 'event') ofEvents = NONE;
    },
    failed: (entry, retryAfterMs) => {
      tried.set(entry, ++tries);
      if (entry.kind === 'event') ofEvents = longer(ofEvents, retryAfterMs);
      else waits.set(entry, longer(waitOf(entry), retryAfterMs));
    },
    relisted: (entries) => {
      ofEvents = afterRelist(ofEvents);
      for (const entry of entries) waits.set(entry, afterRelist(waitOf(entry)));
    },
    dueMs,
    next: (entries) => {
      const due = entries.filter((entry) => dueMs(entry) <= monoMs());
      const acts = due.filter(({ kind }) => kind === 'delete');
      const triedAt = (entry: Spooled): number => tried.get(entry) ?? 0;
      const longestAgo = (first: Spooled, other: Spooled): Spooled => (triedAt(other) < triedAt(first) ? other : first);
      const [first, ...others] = acts.length > 0 ? acts : due;
      return first === undefined ? null : others.reduce(longestAgo, first);
    },
  };
}
