// `npm run bench`: every part after the other, the picture, and a table of what was promised and what was measured. A part
// that breaks does not stop the others, but is the exit status; a bar that does not hold is said, no failure.
// `--short`: a try of some minutes, whose figures say little. `--only NAME,NAME`.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { writePlot } from './plot.ts';
import { writeReport } from './report.ts';
import { type Bar, barsTable, readResult, resultFile } from './result.ts';

type Part = { readonly name: string; readonly args: readonly string[]; readonly short: readonly string[] };

const PARTS: readonly Part[] = [
  { name: 'reaction', args: [], short: ['--runs', '3', '--few', '2', '--stays', '2'] },
  { name: 'guest', args: [], short: ['--runs', '2', '--few', '1', '--stays', '0', '--rates', '50'] },
  { name: 'duress', args: [], short: [] },
  { name: 'heap', args: [], short: ['--looks', '20000'] },
  {
    name: 'footprint',
    args: [],
    short: ['--seconds', '5', '--settle', '5', '--starts', '2', '--sits', '10', '--jumps', '2', '--pods', '10'],
  },
  { name: 'cuts', args: [], short: ['--cuts', '20', '--pods', '10'] },
  { name: 'scale', args: [], short: ['--pods', '10,110'] },
  { name: 'simulate', args: [], short: [] },
  { name: 'soak', args: [], short: ['--real-minutes', '0.5'] },
];

const { values } = parseArgs({ options: { short: { type: 'boolean' }, only: { type: 'string' } } });
const names = values.only?.split(',') ?? PARTS.map(({ name }) => name);

/** Null: it ended well. */
function run({ name, args, short }: Part): string | null {
  const file = path.join(import.meta.dirname, `${name}.ts`);
  if (!fs.existsSync(file)) return 'there is no such bench';
  console.log(`\n== ${name}`);
  const given = values.short === true ? short : args;
  const { status, signal } = spawnSync(process.execPath, ['--import', 'tsx', file, ...given], { stdio: 'inherit' });
  return status === 0 ? null : `ended with ${status ?? signal}`;
}

/** The bars of this run only: what an earlier one left says nothing of this tree. */
function barsSince(name: string, startMs: number): readonly Bar[] {
  const file = resultFile(`${name}.json`);
  if (!fs.existsSync(file) || fs.statSync(file).mtimeMs < startMs) return [];
  return (readResult<{ readonly bars?: readonly Bar[] }>(name)?.bars ?? []).map((bar) => ({
    ...bar,
    name: `${name}: ${bar.name}`,
  }));
}

const bars: Bar[] = [];
const broken: string[] = [];
for (const part of PARTS.filter(({ name }) => names.includes(name))) {
  const startMs = Date.now();
  const why = run(part);
  if (why !== null) broken.push(`${part.name}: ${why}`);
  bars.push(...barsSince(part.name, startMs));
}
writePlot();
writeReport();
console.log(`\n== all\n${barsTable(bars)}`);
const count = (holds: boolean | null): number => bars.filter((bar) => bar.holds === holds).length;
console.log(`\nbench: ${count(true)} bars hold, ${count(false)} do not hold, ${count(null)} unknown`);
for (const line of broken) console.log(`BROKEN  ${line}`);
process.exitCode = broken.length === 0 ? 0 : 1;
