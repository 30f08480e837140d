// `npm run proof`: runs the commands that test the ten claims, and writes what they showed to docs/proof.md.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { machine, table } from '../bench/result.ts';
import { judge, type Left, type Ran, type Run } from './judge.ts';
import { LINES } from './lines.ts';
import { minutesOf, page, sayRun } from './page.ts';
import { commandOf, PARTS, type PartName } from './parts.ts';
import { run } from './run.ts';

const ROOT = path.join(import.meta.dirname, '..');
const RESULT = path.join(import.meta.dirname, 'result.json');
const PAGE = path.join(ROOT, 'docs/proof.md');
/** Commands run in process groups of their own, which Ctrl-C does not reach. */
const interrupt = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => interrupt.abort());

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true, default: [] },
    help: { type: 'boolean', short: 'h', default: false },
  },
});

function help(): string {
  const rows = LINES.map((line) => [line.name, `${minutesOf([line])} min`, line.claim]);
  return `Usage: npm run proof [-- --only LINE]...

Test the ten claims, each by the commands that show it. Run as root.

  --only LINE  test only this claim; may be repeated. Only a run of all ten writes docs/proof.md

${table(['line', 'at most', 'claim'], rows)}

All ten take about ${Math.round(minutesOf(LINES) / 3)} minutes on a quiet machine, and ${minutesOf(LINES)} at most: a command that takes longer is stopped.
Exit status: 0 if everything that was run holds, 1 if something does not hold, 2 for an invalid option.
`;
}

async function shown(name: PartName, results: string): Promise<Ran | Left> {
  if (!interrupt.signal.aborted) console.error(`\n== ${commandOf(name)}`);
  return await run(PARTS[name], results, interrupt.signal);
}

async function main(): Promise<number> {
  if (values.help) {
    process.stdout.write(help());
    return 0;
  }
  const unknown = values.only.find((only) => LINES.every(({ name }) => name !== only));
  if (unknown !== undefined) {
    console.error(`There is no line "${unknown}". The lines are: ${LINES.map(({ name }) => name).join(', ')}.`);
    return 2;
  }
  const isAll = values.only.length === 0;
  const lines = isAll ? LINES : LINES.filter(({ name }) => values.only.includes(name));
  const on = machine();
  const results = fs.mkdtempSync(path.join(os.tmpdir(), 'nodewarden-proof-'));
  const parts: { [name in PartName]?: Ran | Left } = {};
  try {
    for (const { part } of lines.flatMap(({ uses }) => uses)) parts[part] ??= await shown(part, results);
  } finally {
    fs.rmSync(results, { recursive: true });
  }
  const all: Run = { on, parts };
  console.log(`\n${sayRun(lines, all)}`);
  if (isAll && !interrupt.signal.aborted) {
    fs.writeFileSync(RESULT, `${JSON.stringify(all, null, 2)}\n`);
    fs.writeFileSync(PAGE, page(all));
  }
  return lines.some((line) => judge(line, all).verdict === 'does not hold') ? 1 : 0;
}

process.exitCode = await main();
