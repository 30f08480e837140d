import { known, type MonoMs, type Reading } from '../core/reading.ts';
import { AGENT_END_MS } from '../core/shutdown/phase-time.ts';
import { sleep } from '../host/clock.ts';
import { startOwnLater } from '../host/systemd/start-later.ts';
import type { Systemd } from '../host/systemd/systemd.ts';
import type { Clock } from '../ports.ts';

export type SecondTier = {
  /**
   * Called when the agent is asked to stop: how long its phases may take if the machine is going down. Null: the machine stays
   * up, or is not known to go down, and no pod is stopped. `isAnnounced`: logind has announced a shutdown.
   */
  readonly leftMs: (isAnnounced: boolean) => Promise<number | null>;
  /** Whether systemd itself is already stopping everything. */
  readonly isMachineStopping: () => Promise<Reading<boolean>>;
  /** Whether systemd starts the agent again once it has ended, as in a restart; false if in doubt. */
  readonly isToStart: () => Promise<boolean>;
  /** The stop was cancelled: has the agent started again once it has ended. */
  readonly comeBack: () => Promise<void>;
  /** The same right before the end, by what no cancel takes back; unless somebody has ordered another stop since. */
  readonly comeBackLater: () => Promise<void>;
  /** TimeoutStopUSec of the agent's own unit, as last read; infinity: no limit; null: not known, or no unit. */
  readonly stopTimeoutMs: () => number | null;
  readonly close: () => void;
};

type SecondTierNeeds = {
  readonly systemd: Systemd;
  readonly clock: Clock;
  /** systemd started this process, so it will answer, even if it has not yet. */
  readonly isService: boolean;
};

/** systemd's default, if it does not answer. */
const DEFAULT_STOP_MS = 90_000;
const READ_EVERY_MS = 60_000;
/** A bus that is just coming back; systemd waits for us in the meantime. */
const ASK_AGAIN_MS = 5_000;
const ASK_PAUSE_MS = 100;

/** product.md section 9: whether the machine is going down without logind's signal, and how much time that leaves. */
export function createSecondTier({ systemd, clock, isService }: SecondTierNeeds): SecondTier {
  let stopTimeoutMs: number | null = null;
  let cancelTimer: () => void = () => undefined;
  let isClosed = false;
  // Read beforehand: on the way down there are better things to do.
  const read = async (): Promise<void> => {
    cancelTimer();
    const timeout = await systemd.ownStopTimeoutMs();
    if (timeout.known) stopTimeoutMs = timeout.value;
    cancelTimer();
    if (!isClosed) cancelTimer = clock.after(READ_EVERY_MS, () => void read());
  };
  const isStopping = async (toldMs: MonoMs): Promise<boolean> => {
    let state = await systemd.systemState();
    while (!state.known && isService && clock.monoMs() - toldMs < ASK_AGAIN_MS) {
      await sleep(clock, ASK_PAUSE_MS);
      state = await systemd.systemState();
    }
    return state.known && state.value === 'stopping';
  };
  const endUps = systemd.whenUp(() => void read());
  if (systemd.isUp()) void read();
  return {
    leftMs: async (isAnnounced) => {
      const toldMs = clock.monoMs();
      if (!isAnnounced && !(await isStopping(toldMs))) return null;
      // It may have been changed since it was read.
      await read();
      const spentMs = clock.monoMs() - toldMs;
      return Math.max(0, (stopTimeoutMs ?? DEFAULT_STOP_MS) - AGENT_END_MS - spentMs);
    },
    isMachineStopping: async () => {
      const state = await systemd.systemState();
      return state.known ? known(state.value === 'stopping') : state;
    },
    isToStart: async () => {
      const own = await systemd.ownName();
      const facts = own.known ? await systemd.ties(own.value) : own;
      return facts.known && facts.value.isToStart === true;
    },
    comeBack: async () => void (await systemd.startOwn()),
    comeBackLater: async () => void (await startOwnLater(systemd)),
    stopTimeoutMs: () => stopTimeoutMs,
    close: () => {
      isClosed = true;
      cancelTimer();
      endUps();
    },
  };
}
