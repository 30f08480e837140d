import { Command } from 'commander';
import pkg from '../../package.json' with { type: 'json' };
import { lookAround } from '../doctor/look.ts';
import { type DoctorReport, doctorReport } from '../doctor/report.ts';
import { createClock } from '../host/clock.ts';
import { hostName } from '../host/host-name.ts';
import { sayVerdict } from '../words/doctor.ts';
import { clean, type Format, formatOption, type Paint, printAs } from './print.ts';

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

type Kind = DoctorReport['findings'][number]['kind'];
const GROUPS = [
  { kind: 'blocking', heading: 'blocking', colour: 'red' },
  { kind: 'warning', heading: 'warnings', colour: 'yellow' },
  { kind: 'unknown', heading: 'not known', colour: 'yellow' },
] as const satisfies readonly { readonly kind: Kind; readonly heading: string; readonly colour: 'red' | 'yellow' }[];

/** The report for people. Everything that a tenant named is escaped. */
function doctorText(report: DoctorReport, paint: Paint): string {
  const groups = GROUPS.map(({ kind, heading, colour }) => {
    const findings = report.findings.filter((finding) => finding.kind === kind);
    if (findings.length === 0) return '';
    return `${paint(colour, heading)}\n${findings.map((finding) => findingText(finding, paint)).join('')}`;
  });
  const fine = report.fine.map(({ text }) => `  ${clean(text)}\n`).join('');
  const parts = [headText(report, paint), ...groups, fine === '' ? '' : `${paint('green', 'fine')}\n${fine}`];
  return parts.filter((part) => part !== '').join('\n');
}

function headText({ node, version, nodeVersion, mode, findings }: DoctorReport, paint: Paint): string {
  const count = (of: Kind): number => findings.filter(({ kind }) => kind === of).length;
  const counts = { blocking: count('blocking'), warnings: count('warning'), unknown: count('unknown') };
  const colour = counts.blocking > 0 ? 'red' : counts.warnings + counts.unknown > 0 ? 'yellow' : 'green';
  return (
    `${paint(colour, sayVerdict(counts))}\n` +
    `${paint('bold', `nodewarden ${version}`)} on ${clean(node)}: mode ${mode ?? 'not known'}, Node.js ${nodeVersion}\n`
  );
}

function findingText({ code, text, mend }: DoctorReport['findings'][number], paint: Paint): string {
  const todo = mend === null ? '' : `    ${paint('dim', `$ ${clean(mend)}`)}\n`;
  return `  ${paint('bold', code)}: ${clean(text)}\n${todo}`;
}
