import { Command } from 'commander';
import pkg from '../../../package.json' with { type: 'json' };
import { sayLast } from '../../host/own/stderr.ts';
import { runUntilSignal } from '../until-signal.ts';

export function guardRunCommand(): Command {
  return new Command('run')
    .description('Run the guard: fence machines that are dead, with proof, and free their pods')
    .option('-c, --config <file>', 'Configuration file (default: /etc/nodewarden/guard.yaml)')
    .addHelpText(
      'after',
      '\nExample:\n  nodewarden guard run --config /etc/nodewarden/guard.yaml\n\nWith dryRun: true it decides and reports, and changes nothing but its lease.\nExit status: 0 after a clean stop, 2 for an invalid configuration, 1 for anything else.',
    )
    .action(async ({ config }: { readonly config?: string }) => {
      const { runGuard } = await import('../../guard/run.ts');
      await runUntilSignal({
        ...{ name: 'nodewarden guard', unit: 'nodewarden-guard', afterSecond: '' },
        run: (stop) => runGuard({ version: pkg.version, configFile: config ?? null, complain: sayLast }, stop),
        why: (asked) => `received ${asked}`,
      });
    });
}
