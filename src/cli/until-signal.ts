import { exitWithin } from '../host/clock.ts';
import { sayLast } from '../host/own/stderr.ts';

/** How long a daemon that is ending may take for its last writes. */
const LAST_MS = 1_000;

type DaemonRun = {
  /** As its messages name it. */
  readonly name: string;
  readonly unit: string;
  /** Ends the sentence about a second signal. */
  readonly afterSecond: string;
  /** It was asked to stop before it began. */
  readonly asked?: string | undefined;
  /** Resolves to the exit status. */
  readonly run: (stop: AbortSignal) => Promise<number>;
  /** Why it stopped cleanly. `asked`: the signal; null: none came. */
  readonly why: (asked: string | null) => string;
};

/** Runs a daemon until it ends or a signal stops it, and says on the last line why it ended. */
export async function runUntilSignal(daemon: DaemonRun): Promise<void> {
  const { name, unit } = daemon;
  const stop = new AbortController();
  let asked: string | null = null;
  const end = (signal: string): void => {
    // A second signal is for a user who does not want to wait.
    if (asked !== null) leave(`a second signal, ${signal}, stopped ${name} at once${daemon.afterSecond}`);
    asked = signal;
    stop.abort();
  };
  if (daemon.asked !== undefined) end(daemon.asked);
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, end);
  process.on('SIGABRT', () =>
    leave(
      `SIGABRT stopped ${name}: if systemd's watchdog sent it, no keep-alive arrived within WatchdogSec= (see: systemctl status ${unit})`,
    ),
  );
  const status = await daemon.run(stop.signal);
  if (status === 0) sayLast(`${name} stopped: ${daemon.why(asked)}`, 'info');
  else sayLast(`${name} exited with status ${status}`);
  process.exitCode = status;
  // A handle left open by a bug must not keep systemd, or a machine that is going down, waiting.
  exitWithin(LAST_MS, status);
}

function leave(why: string): void {
  sayLast(why);
  process.exit(1);
}
