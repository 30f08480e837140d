import type { FencingId } from '../core/guard/record.ts';
import type { GuardState } from '../core/guard/state.ts';
import type { MonoMs } from '../core/reading.ts';
import type { Clock } from '../ports.ts';

/** The record of a fencing that was not stored twice in a row: it goes no further. */
export type UnstoredRecord = { readonly id: FencingId; readonly node: string; readonly why: string };

/** Each try is told at most this often: there is one each second. */
const TOLD_EVERY_MS = 60_000;
/** A fencing that was never stored is decided anew before that, or not any more. */
const FORGOTTEN_MS = 30_000;

type Row = UnstoredRecord & { readonly times: number; readonly lastMs: MonoMs; readonly toldMs: MonoMs };

/** Which records cannot be stored, for a person to see until they are, or nobody wants to store them. */
export function createUnstored(needs: {
  readonly clock: Pick<Clock, 'monoMs'>;
  readonly tell: (record: UnstoredRecord) => void;
  /** All of them, whenever they change. */
  readonly unstored: (records: readonly UnstoredRecord[]) => void;
}): {
  readonly failed: (record: UnstoredRecord) => void;
  /** It is stored, or another guard has written it. */
  readonly over: (id: FencingId) => void;
  /** `state` null: this guard stores nothing. */
  readonly looked: (state: Pick<GuardState, 'fencings'> | null) => void;
} {
  const rows = new Map<FencingId, Row>();
  const show = (): void => needs.unstored([...rows.values()].filter(({ times }) => times > 1));

  const isOver = ({ id, lastMs }: Row, { fencings }: Pick<GuardState, 'fencings'>): boolean => {
    const fencing = fencings.get(id);
    if (fencing === undefined) return needs.clock.monoMs() - lastMs > FORGOTTEN_MS;
    // That its answer alone was lost shows in what is read.
    return fencing.pending === null && fencing.failedMs === null;
  };

  return {
    failed: (record) => {
      const before = rows.get(record.id);
      const lastMs = needs.clock.monoMs();
      const isDue = before === undefined || lastMs - before.toldMs >= TOLD_EVERY_MS;
      if (isDue) needs.tell(record);
      rows.set(record.id, {
        ...record,
        times: (before?.times ?? 0) + 1,
        lastMs,
        toldMs: isDue ? lastMs : before.toldMs,
      });
      show();
    },
    over: (id) => {
      if (rows.delete(id)) show();
    },
    looked: (state) => {
      const over = [...rows.values()].filter((row) => state === null || isOver(row, state));
      for (const { id } of over) rows.delete(id);
      if (over.length > 0) show();
    },
  };
}
