import type { ShutdownEvent } from '../core/observation.ts';
import type { TakeLock } from '../host/inhibit-child.ts';
import type { Logind } from '../host/logind.ts';
import type { LogindDropIn } from '../host/logind-drop-in.ts';
import type { Clock, Inhibitor, Log } from '../ports.ts';

export type InhibitorNeeds = {
  readonly clock: Clock;
  readonly logind: Logind;
  readonly takeLock: TakeLock;
  readonly dropIn: LogindDropIn;
  readonly log: Log;
  readonly onEvent: (event: ShutdownEvent) => void;
  /** `status()` gives something else now. */
  readonly onChange?: () => void;
  /** Once for a shutdown: `shutdown -c` came in the delay, and logind goes down all the same (252). */
  readonly onCancelNotHonoured?: () => void;
  /**
   * An earlier run of the agent was in the middle of a shutdown that logind had announced, or had released the lock for
   * it: if logind knows nothing of one now, that is `cancelled`.
   */
  readonly wasPreparing?: boolean;
};

/** Keeps the lock from the first `want` on. It does nothing before. */
export function keepInhibitor(needs: InhibitorNeeds): Inhibitor {
  void needs;
  return {
    want: () => undefined,
    take: () => undefined,
    release: () => undefined,
    status: () => ({ lock: { kind: 'off' }, isPreparing: false, type: null, scheduled: null }),
    close: () => Promise.resolve(),
  };
}
