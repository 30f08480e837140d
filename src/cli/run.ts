import { Command } from 'commander';
import { runDaemon } from '../daemon/run.ts';
import { hastenThreads } from '../host/own/priority.ts';
import { sayLast } from '../host/own/stderr.ts';
import { withRights } from './denied.ts';
import { runUntilSignal } from './until-signal.ts';

type Options = { readonly config?: string; readonly dryRun?: true; readonly stopping?: true };

export function runCommand(): Command {
  return new Command('run')
    .description('Run the agent: monitor the node and evict pods under pressure')
    .option('-c, --config <file>', 'Configuration file (default: /etc/nodewarden/config.yaml or all defaults)')
    .option('--dry-run', 'Decide and report, but stop nothing and change nothing')
    .option('--stopping', 'Run the shutdown phases if the machine is going down, then exit (ExecStopPost=)')
    .addHelpText(
      'after',
      '\nExample:\n  nodewarden run --config /etc/nodewarden/config.yaml --dry-run\n\nnodewarden.service starts it without options; it also runs in a terminal.\nExit status: 0 after a clean stop, 2 for an invalid configuration, 1 for anything else.',
    )
    .action(async (options: Options) => {
      await hastenThreads();
      let isReady = false;
      await runUntilSignal({
        ...{ name: 'nodewarden', unit: 'nodewarden', afterSecond: '; the next run resumes where it left off' },
        // The previous run ended before it could receive the signal to stop.
        asked: options.stopping === true ? '--stopping' : undefined,
        run: (stop) =>
          runDaemon(
            {
              configFile: options.config ?? null,
              dryRun: options.dryRun ?? false,
              log: 'stdout',
              complain: (why) => sayLast(withRights(why, 'root')),
              onReady: () => {
                isReady = true;
              },
            },
            stop,
          ),
        why: (asked) => sayWhy(asked, isReady),
      });
    });
}

function sayWhy(signal: string | null, isReady: boolean): string {
  if (signal === null) return 'the shutdown it ran is complete';
  return isReady ? `received ${signal}` : `received ${signal} before its first sample (systemd: TimeoutStartSec=)`;
}
