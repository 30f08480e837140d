import type { ShutdownEvent } from '../core/observation.ts';
import { known, type MonoMs, type Reading } from '../core/reading.ts';
import { openSystemBus } from '../host/systemd/bus.ts';
import { takeInhibitLock } from '../host/systemd/inhibit-child.ts';
import { createLogind } from '../host/systemd/logind.ts';
import { createLogindDropIn } from '../host/systemd/logind-drop-in.ts';
import { createSystemd, type Systemd } from '../host/systemd/systemd.ts';
import type { Clock, Inhibitor, Log } from '../ports.ts';
import { keepInhibitor } from './inhibitor.ts';
import { createSecondTier, type SecondTier } from './second-tier.ts';

export type ShutdownListener = {
  readonly log: Log;
  readonly heard: (event: ShutdownEvent) => void;
  /** The status of the lock has changed. */
  readonly changed: () => void;
  readonly cancelNotHonoured: () => void;
};
/** The agent's side of logind. It outlives a reload of the configuration, which must not release the lock. */
export type ShutdownSide = {
  readonly inhibitor: Inhibitor;
  readonly secondTier: SecondTier;
  /** Uses the process's only connection to the system bus. */
  readonly systemd: Systemd;
  /** Delivers the events missed so far, the present state, and everything from then on. The returned function unsubscribes. */
  readonly listen: (listener: ShutdownListener) => () => void;
  /** Whether logind or systemd is taking the machine down. Known only if both answered, or one says yes. */
  readonly goesDown: () => Promise<Reading<boolean>>;
  /**
   * Whether user space started after `sinceMs`, when an earlier run of the agent was alive: then the machine went down and came
   * back (soft-reboot), and no shutdown of that run is in progress.
   */
  readonly cameBackSince: (sinceMs: MonoMs) => Promise<Reading<boolean>>;
  readonly close: () => Promise<void>;
};

const WAITING_MAX = 100;

export function openShutdown(clock: Clock, runtimeDirectory: string): ShutdownSide {
  const bus = openSystemBus(clock);
  let listener: ShutdownListener | null = null;
  let waiting: readonly ShutdownEvent[] = [];
  const say =
    (level: keyof Log): Log['info'] =>
    (fields, msg) =>
      listener?.log[level](fields, msg);
  const logind = createLogind(bus, clock);
  const systemd = createSystemd(bus);
  const inhibitor = keepInhibitor({
    clock,
    logind,
    takeLock: () => takeInhibitLock(clock),
    dropIn: createLogindDropIn(runtimeDirectory),
    log: { debug: say('debug'), info: say('info'), warn: say('warn'), error: say('error') },
    onEvent: (event) => {
      if (listener !== null) listener.heard(event);
      else waiting = [...waiting, event].slice(-WAITING_MAX);
    },
    onChange: () => listener?.changed(),
    onCancelNotHonoured: () => listener?.cancelNotHonoured(),
  });
  const secondTier = createSecondTier({ systemd, clock, isService: process.env['NOTIFY_SOCKET'] !== undefined });
  return {
    inhibitor,
    secondTier,
    systemd,
    listen: (next) => {
      listener = next;
      for (const event of waiting) next.heard(event);
      waiting = [];
      // Configurations subscribe one after another. The lock is kept in between, and reported to each.
      inhibitor.retell();
      return () => {
        if (listener === next) listener = null;
      };
    },
    goesDown: async () => {
      const [said, state] = await Promise.all([logind.preparingForShutdown(), systemd.systemState()]);
      const preparing = !said.known && (await logind.hasDied()) ? known(false) : said;
      if ((preparing.known && preparing.value) || (state.known && state.value === 'stopping')) return known(true);
      if (!preparing.known) return preparing;
      return state.known ? known(false) : state;
    },
    cameBackSince: async (sinceMs) => {
      const age = await systemd.userspaceAgeMs();
      if (!age.known) return age;
      return known(clock.monoMs() - age.value > sinceMs);
    },
    close: async () => {
      secondTier.close();
      await inhibitor.close();
      bus.close();
    },
  };
}
