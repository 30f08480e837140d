import { Command } from 'commander';
import { runDaemon } from '../daemon.ts';
import { exitWithin } from '../host/clock.ts';

type Options = { readonly config?: string; readonly dryRun?: true };

/** How long a daemon that has ended may take for its last writes. */
const LAST_MS = 1_000;

export function runCommand(): Command {
  return new Command('run')
    .description('the daemon: watches the node and evicts; systemd starts it, and it runs in a terminal as well')
    .option('-c, --config <file>', 'configuration (default: /etc/nodewarden/config.yaml, or all defaults)')
    .option('--dry-run', 'decide and tell, but stop nothing and change nothing')
    .addHelpText(
      'after',
      '\nExample:\n  nodewarden run --config /etc/nodewarden/config.yaml --dry-run\n\nExit status: 0 clean stop, 2 bad configuration, 1 anything else.',
    )
    .action(async (options: Options) => {
      const stop = new AbortController();
      // Once: a second signal ends the process at once, for who does not want to wait.
      for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stop.abort());
      const status = await runDaemon(
        {
          configFile: options.config ?? null,
          dryRun: options.dryRun ?? false,
          log: 'stdout',
          complain: (line) => process.stderr.write(`${line}\n`),
        },
        stop.signal,
      );
      process.exitCode = status;
      // Whatever were left open by a mistake must not keep systemd, and the machine that goes down, waiting.
      exitWithin(LAST_MS, status);
    });
}
