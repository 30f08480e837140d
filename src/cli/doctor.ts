import { Command } from 'commander';
import pkg from '../../package.json' with { type: 'json' };
import { lookAround } from '../doctor/look.ts';
import { doctorReport } from '../doctor/report.ts';
import { createClock } from '../host/clock.ts';
import { hostName } from '../host/host-name.ts';
import { doctorText } from './doctor-text.ts';
import { type Format, formatOption, printAs } from './print.ts';

type Options = { readonly config?: string; readonly output: Format };

const BLOCKING = 1;
const HELP = `
Examples:
  nodewarden doctor
  nodewarden doctor -o json | jq -r '.findings[] | select(.kind == "blocking") | .text'

It changes nothing, and works without a running agent. docs/doctor.md explains each finding by its code.
Exit status: 0 when nothing is blocking, 1 when something is, 2 for a usage error.`;

export function doctorCommand(): Command {
  return new Command('doctor')
    .description('Find what stands in the way on this host, and what to do about it')
    .option('-c, --config <file>', 'Configuration file (default: /etc/nodewarden/config.yaml or all defaults)')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async ({ config, output }: Options) => {
      const clock = createClock();
      const facts = await lookAround(config ?? null, clock);
      const here = { version: pkg.version, nodeVersion: process.versions.node };
      const where = { atWallMs: clock.wallMs(), node: hostName(), ...here };
      const report = doctorReport(facts, where);
      printAs(output, report, (paint) => doctorText(report, paint));
      process.exitCode = report.findings.some(({ kind }) => kind === 'blocking') ? BLOCKING : 0;
    });
}
