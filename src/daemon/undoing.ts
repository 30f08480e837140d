import type { Mode, UndoneStops } from '../mode.ts';
import type { Clock } from '../ports.ts';
import type { Progress } from '../shutdown/progress.ts';

/** After a cancelled shutdown, starts again what was stopped, and records what could not be started. */
export function undoing(needs: {
  readonly clock: Clock;
  readonly mode: Pick<Mode, 'undoStops' | 'setShuttingDown'>;
  readonly progress: Progress;
  readonly wake: () => void;
}): { readonly undoStops: () => void; readonly isUndoing: () => boolean } {
  const { clock, mode, progress, wake } = needs;
  let underWay = 0;
  const tell = ({ started, notUndone, rest }: UndoneStops): void => {
    void rest?.then(tell);
    if (started.length + notUndone.length === 0) return;
    progress.tell({ what: 'undone', started, notUndone }, clock.monoMs());
  };
  return {
    undoStops: () => {
      underWay += 1;
      mode.setShuttingDown(false);
      void mode.undoStops().then((undone) => {
        underWay -= 1;
        wake();
        tell(undone);
      });
    },
    isUndoing: () => underWay > 0,
  };
}
