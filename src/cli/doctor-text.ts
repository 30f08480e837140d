import type { DoctorReport } from '../doctor/report.ts';
import { sayVerdict } from '../words/doctor.ts';
import { clean, type Paint } from './print.ts';

type Kind = DoctorReport['findings'][number]['kind'];
const GROUPS = [
  { kind: 'blocking', heading: 'blocking', colour: 'red' },
  { kind: 'warning', heading: 'warnings', colour: 'yellow' },
  { kind: 'unknown', heading: 'not known', colour: 'yellow' },
] as const satisfies readonly { readonly kind: Kind; readonly heading: string; readonly colour: 'red' | 'yellow' }[];

/** The report for people. Everything that a tenant named is escaped. */
export function doctorText(report: DoctorReport, paint: Paint): string {
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
