import { Command } from 'commander';
import { runDaemon } from '../daemon/run.ts';
import { exitWithin } from '../host/clock.ts';
import { sayLast } from '../host/stderr.ts';

type Options = { readonly config?: string; readonly dryRun?: true; readonly stopping?: true };

/** How long a daemon that is ending may take for its last writes. */
const LAST_MS = 1_000;

export function runCommand(): Command {
  return new Command('run')
    .description('Run the agent: monitor the node and evict pods under pressure')
    .option('-c, --config <file>', 'Configuration file (default: /etc/nodewarden/config.yaml or all defaults)')
    .option('--dry-run', 'Decide and report, but stop nothing and change nothing')
    .option('--stopping', 'Run the shutdown phases if the machine is going down, then exit (ExecStopPost=)')
    .addHelpText(
      'after',
      '\nExample:\n  nodewarden run --config /etc/nodewarden/config.yaml --dry-run\n\nsystemd starts it this way; it also runs in a terminal.\nExit status: 0 after a clean stop, 2 for an invalid configuration, 1 for anything else.',
    )
    .action(async (options: Options) => {
      const stop = new AbortController();
      let asked: string | null = null;
      let isReady = false;
      const end = (signal: string): void => {
        // A second signal is for a user who does not want to wait.
        if (asked !== null)
          leave(`a second signal, ${signal}, stopped nodewarden at once; the next run resumes where it left off`);
        asked = signal;
        stop.abort();
      };
      // The previous run ended before it could receive the signal to stop.
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
      if (status === 0) sayLast(`nodewarden stopped: ${sayWhy(asked, isReady)}`, 'info');
      else sayLast(`nodewarden exited with status ${status}`);
      process.exitCode = status;
      // A handle left open by a bug must not keep systemd, or a machine that is going down, waiting.
      exitWithin(LAST_MS, status);
    });
}

const WATCHDOG =
  "SIGABRT stopped nodewarden: if systemd's watchdog sent it, no keep-alive arrived within WatchdogSec= (see: systemctl status nodewarden)";

function leave(why: string): void {
  sayLast(why);
  process.exit(1);
}

function sayWhy(signal: string | null, isReady: boolean): string {
  if (signal === null) return 'the shutdown it ran is complete';
  return isReady ? `received ${signal}` : `received ${signal} before its first sample (systemd: TimeoutStartSec=)`;
}
