import { Command } from 'commander';
import pkg from '../../package.json' with { type: 'json' };
import { exitWithin } from '../host/clock.ts';
import { sayLast } from '../host/stderr.ts';

/** How long a guard that is ending may take for its last writes. */
const LAST_MS = 1_000;

export function guardRunCommand(): Command {
  return new Command('run')
    .description('Run the guard: fence machines that are dead, with proof, and free their pods')
    .option('-c, --config <file>', 'Configuration file (default: /etc/nodewarden/guard.yaml)')
    .addHelpText(
      'after',
      '\nExample:\n  nodewarden guard run --config /etc/nodewarden/guard.yaml\n\nWith dryRun: true it decides and reports, and changes nothing but its lease.\nExit status: 0 after a clean stop, 2 for an invalid configuration, 1 for anything else.',
    )
    .action(async ({ config }: { readonly config?: string }) => {
      const stop = new AbortController();
      let asked: string | null = null;
      const end = (signal: string): void => {
        // A second signal is for a user who does not want to wait.
        if (asked !== null) leave(`a second signal, ${signal}, stopped nodewarden guard at once`);
        asked = signal;
        stop.abort();
      };
      for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, end);
      process.on('SIGABRT', () => leave(WATCHDOG));
      const { runGuard } = await import('../guard/run.ts');
      const status = await runGuard(
        { version: pkg.version, configFile: config ?? null, complain: sayLast },
        stop.signal,
      );
      if (status === 0) sayLast(`nodewarden guard stopped: received ${asked}`, 'info');
      else sayLast(`nodewarden guard exited with status ${status}`);
      process.exitCode = status;
      exitWithin(LAST_MS, status);
    });
}

const WATCHDOG =
  "SIGABRT stopped nodewarden guard: if systemd's watchdog sent it, no keep-alive arrived within WatchdogSec= (see: systemctl status nodewarden-guard)";

function leave(why: string): void {
  sayLast(why);
  process.exit(1);
}
