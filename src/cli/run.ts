import { Command } from 'commander';
import { runDaemon } from '../daemon.ts';
import { exitWithin } from '../host/clock.ts';
import { sayLast } from '../host/last-words.ts';

type Options = { readonly config?: string; readonly dryRun?: true; readonly stopping?: true };

/** How long a daemon that has ended may take for its last writes. */
const LAST_MS = 1_000;

export function runCommand(): Command {
  return new Command('run')
    .description('the daemon: watches the node and evicts; systemd starts it, and it runs in a terminal as well')
    .option('-c, --config <file>', 'configuration (default: /etc/nodewarden/config.yaml, or all defaults)')
    .option('--dry-run', 'decide and tell, but stop nothing and change nothing')
    .option('--stopping', 'run the phases of a shutdown if the machine goes down, and end (for ExecStopPost=)')
    .addHelpText(
      'after',
      '\nExample:\n  nodewarden run --config /etc/nodewarden/config.yaml --dry-run\n\nExit status: 0 clean stop, 2 bad configuration, 1 anything else.',
    )
    .action(async (options: Options) => {
      const stop = new AbortController();
      let asked: string | null = null;
      let isReady = false;
      const end = (signal: string): void => {
        // For who does not want to wait.
        if (asked !== null)
          leave(`a second signal, ${signal}, ended nodewarden at once; the next run goes on where it was`);
        asked = signal;
        stop.abort();
      };
      // The run before this one was ended before it could hear that it is to stop.
      if (options.stopping === true) end('--stopping');
      for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, end);
      process.on('SIGABRT', () => leave(WATCHDOG));
      const status = await runDaemon(
        {
          configFile: options.config ?? null,
          dryRun: options.dryRun ?? false,
          log: 'stdout',
          complain: sayLast,
          onReady: () => {
            isReady = true;
          },
        },
        stop.signal,
      );
      if (status === 0) sayLast(`nodewarden has ended: ${sayWhy(asked, isReady)}`, 'info');
      else sayLast(`nodewarden has ended with status ${status}`);
      process.exitCode = status;
      // Whatever were left open by a mistake must not keep systemd, and the machine that goes down, waiting.
      exitWithin(LAST_MS, status);
    });
}

const WATCHDOG =
  "SIGABRT ended nodewarden: from systemd's watchdog it means that no sign of life came within WatchdogSec= (see: systemctl status nodewarden)";

function leave(why: string): void {
  sayLast(why);
  process.exit(1);
}

function sayWhy(signal: string | null, isReady: boolean): string {
  if (signal === null) return 'the shutdown that it ran is over';
  return isReady ? `${signal} asked it to` : `${signal} asked it to before its first look (systemd: TimeoutStartSec=)`;
}
