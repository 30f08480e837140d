import { sayMachine, table } from '../bench/result.ts';
import { type Judged, judge, type Run } from './judge.ts';
import { LINES, type Line } from './lines.ts';
import { commandOf, PARTS, type PartName } from './parts.ts';

const partsOf = ({ uses }: Line): readonly PartName[] => [...new Set(uses.map(({ part }) => part))];

/** A command that several claims share counts once. */
export function minutesOf(lines: readonly Line[]): number {
  return [...new Set(lines.flatMap(partsOf))].reduce((sum, part) => sum + PARTS[part].minutes, 0);
}

const judged = (lines: readonly Line[], run: Run): readonly (readonly [Line, Judged])[] =>
  lines.map((line) => [line, judge(line, run)]);

/** For a terminal. */
export function sayRun(lines: readonly Line[], run: Run): string {
  const rows = judged(lines, run).map(
    ([{ name, claim }, { verdict, figure }]) => [`${verdict}`, name, claim, figure] as const,
  );
  const short = table(
    ['verdict', 'line', 'claim'],
    rows.map(([verdict, name, claim]) => [verdict.toUpperCase(), name, claim]),
  );
  const figures = rows.map(([, name, , figure]) => `${name}: ${figure}`);
  return [sayOn(run), '', short, '', ...figures].join('\n');
}

const sayOn = ({ on }: Run): string => `${sayMachine(on)}, ${on.at.slice(0, 10)}`;

/** A cell in a Markdown row. */
const cell = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('|', '\\|').replaceAll('<', '&lt;');
const row = (...cells: readonly string[]): string => `| ${cells.map(cell).join(' | ')} |`;
const BOLD: { readonly [verdict in Judged['verdict']]: string } = {
  holds: 'holds',
  'does not hold': '**does not hold**',
  'not run here': '**not run here**',
};

/** docs/proof.md. */
export function page(run: Run): string {
  const all = judged(LINES, run);
  const count = (verdict: Judged['verdict']): number =>
    all.filter(([, judgement]) => judgement.verdict === verdict).length;
  return `# The ten claims

nodewarden's ten claims, the commands that test each, and what they showed in one run of \`npm run proof\`, which writes this
page. As root: \`npm run proof\`, or \`npm run proof -- --only ${LINES[0]?.name}\` for a single claim. More runs of the labs:
[labs.md](labs.md). All benches: [bench/RESULTS.md](../bench/RESULTS.md).

Machine: ${sayOn(run)}. Its virtual machines have an emulated processor, which is many times slower.

${count('holds')} hold, ${count('does not hold')} do not hold, ${count('not run here')} were not run in full.

| | claim | tested by | measured in this run | |
|---|---|---|---|---|
${all
  .map(([line, { verdict, figure }], i) =>
    row(
      String(i + 1),
      line.claim,
      partsOf(line)
        .map((part) => `\`${commandOf(part)}\``)
        .join(', '),
      figure,
      BOLD[verdict],
    ),
  )
  .join('\n')}

${all.map(([line, judgement], i) => details(i + 1, line, judgement, run)).join('\n\n')}
`;
}

const WORD = { true: 'holds', false: '**does not hold**', null: 'not run' };

function details(number: number, { claim }: Line, { uses }: Judged, { parts }: Run): string {
  const shown = uses.flatMap(({ use, shown: checks, all }) => {
    const ran = parts[use.part];
    const took = ran === undefined || 'why' in ran ? '' : `: ${ran.seconds} s, at a load of ${ran.loadBefore} before`;
    const rows = checks.map(({ name, holds, figures }) => row(name, WORD[`${holds}`], figures));
    return [
      `\`${commandOf(use.part)}\`${took}`,
      ['| check | | figures |', '|---|---|---|', ...rows].join('\n'),
      ...(all.length === 0 ? [] : [all.map((figure) => `- ${figure}`).join('\n')]),
    ];
  });
  return [`## ${number}. ${claim}`, ...shown].join('\n\n');
}
