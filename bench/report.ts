// `npx tsx bench/report.ts`: bench/RESULTS.md from all of bench/results.
import fs from 'node:fs';
import path from 'node:path';
import { type Bar, type Machine, quantile, resultFile, sayMachine } from './result.ts';

type Table = { readonly head: readonly string[]; readonly rows: readonly (readonly string[])[] };
/** What may stand in a result beside its bars. */
type Result = {
  readonly on?: Machine;
  readonly emulatedOn?: Machine;
  readonly bars?: readonly Bar[];
  readonly real?: { readonly on: Machine };
  readonly virtual?: { readonly on: Machine };
  readonly rows?: readonly Reaction[] | readonly Duress[] | readonly Timed[];
  readonly skipped?: readonly { readonly name: string; readonly why: string }[];
  readonly idle?: readonly Idle[];
  readonly look?: readonly Look[];
};
type Reaction = {
  readonly peer: string;
  readonly rate: string;
  readonly runs: number;
  readonly inTime: number;
  readonly kernelKills: number;
  readonly otherKills: number;
  readonly reactionMs: readonly number[];
  readonly backMs: readonly number[];
};
type Duress = {
  readonly duress: string;
  readonly runs: number;
  readonly inTime: number;
  readonly recorded: number;
  readonly reactionMs: readonly number[];
};
type Timed = { readonly file: string; readonly output: string; readonly runs: readonly { readonly wallMs: number }[] };
type Idle = {
  readonly name: string;
  readonly memory: { readonly rssMiB: number; readonly pssMiB: number };
  readonly cpuShare: number;
  readonly startMs: readonly number[];
};
type Look = {
  readonly pods: number;
  readonly shape: string;
  readonly look: { readonly us: number };
  readonly kept: { readonly us: number };
  readonly anew: { readonly us: number };
};

const FILE = path.join(import.meta.dirname, 'RESULTS.md');
const TITLES: { readonly [name: string]: string } = {
  reaction: 'Reaction',
  guest: 'Reaction in the guest (cgroup v2, emulated processor)',
  duress: 'Reaction with nothing free',
  footprint: 'At rest, and just above a threshold for an hour',
  'footprint-swap': 'At rest with swap and stall thresholds, and just above a threshold for a minute',
  'footprint-30min': 'The same for half an hour, on a slower machine',
  'footprint-guest': 'At rest in the guest, beside systemd-oomd and earlyoom',
  'footprint-kubelet': 'At rest beside a kubelet',
  'footprint-page': 'At rest with 110 pods, with `http` and a page open',
  cuts: 'Connections to the API server cut again and again',
  guard: 'Guard',
  scale: 'Scale',
  simulate: 'Simulate',
  heap: 'Heap',
  soak: 'Soak, 24 h of virtual time',
  'soak-2h': 'Soak, 2 h of real time',
};

const three = (value: number | undefined): string =>
  value === undefined || Number.isNaN(value) ? '' : String(Number(value.toPrecision(3)));
const median = (values: readonly number[]): string => three(quantile(values, 0.5));
const p99 = (values: readonly number[]): string => three(quantile(values, 0.99));
const share = (value: number): string => `${three(value * 100)} %`;

const isReaction = (row: object): row is Reaction => 'peer' in row;
const isDuress = (row: object): row is Duress => 'duress' in row;

function tablesOf({ rows = [], idle = [], look = [] }: Result): readonly Table[] {
  const all: readonly (Reaction | Duress | Timed)[] = rows;
  const reactions = all.filter(isReaction);
  const duresses = all.filter(isDuress);
  const timed = all.filter((row): row is Timed => !isReaction(row) && !isDuress(row));
  const tables: readonly Table[] = [
    {
      head: [
        'agent',
        'MiB/s',
        'in time',
        'median ms',
        'p99 ms',
        'memory back, median ms',
        'kernel kills',
        'wrong kills',
      ],
      rows: reactions.map(({ peer, rate, runs, inTime, kernelKills, otherKills, reactionMs, backMs }) => [
        peer,
        rate,
        `${inTime} of ${runs}`,
        median(reactionMs),
        p99(reactionMs),
        median(backMs),
        String(kernelKills),
        String(otherKills),
      ]),
    },
    {
      head: ['what is short', 'in time', 'median ms', 'most ms', 'recorded'],
      rows: duresses.map(({ duress, runs, inTime, recorded, reactionMs }) => [
        duress,
        `${inTime} of ${runs}`,
        median(reactionMs),
        three(Math.max(...reactionMs)),
        String(recorded),
      ]),
    },
    {
      head: ['input', 'output', 'median ms', 'runs'],
      rows: timed.map(({ file, output, runs }) => [
        file,
        output,
        median(runs.map(({ wallMs }) => wallMs)),
        String(runs.length),
      ]),
    },
    {
      head: ['agent', 'RSS MiB', 'PSS MiB', 'share of a core', 'start, median ms'],
      rows: idle.map(({ name, memory, cpuShare, startMs }) => [
        name,
        three(memory.rssMiB),
        three(memory.pssMiB),
        share(cpuShare),
        median(startMs),
      ]),
    },
    {
      head: ['pods', 'shape', 'sample µs', 'C program, files kept open, µs', 'C program, files opened anew, µs'],
      rows: look.map(({ pods, shape, look, kept, anew }) => [
        String(pods),
        shape,
        three(look.us),
        three(kept.us),
        three(anew.us),
      ]),
    },
  ];
  return tables.filter(({ rows }) => rows.length > 0);
}

const said = { true: 'yes', false: '**no**', null: 'not measured' };
const markdown = ({ head, rows }: Table): string =>
  [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');

function section(name: string, result: Result): string {
  const { bars = [], skipped = [] } = result;
  const on = result.on ?? result.real?.on ?? result.virtual?.on;
  const parts = [
    `## ${TITLES[name] ?? name}`,
    on === undefined ? '' : `On ${sayMachine(on)}, ${on.at.slice(0, 10)}.`,
    result.emulatedOn === undefined ? '' : `Emulated on ${sayMachine(result.emulatedOn)}.`,
    skipped.map(({ name, why }) => `Not measured: ${name} (${why}).`).join('\n'),
    bars.length === 0
      ? ''
      : markdown({
          head: ['bar', 'wanted', 'measured', 'met'],
          rows: bars.map(({ name, bar, value, holds }) => [
            name,
            bar,
            value.startsWith('Infinity') ? 'not all in time' : value,
            said[`${holds}`],
          ]),
        }),
    ...tablesOf(result).map(markdown),
  ];
  return parts.filter((part) => part !== '').join('\n\n');
}

/** The whole page, from the results as they are. */
export function report(): string {
  const names = fs
    .readdirSync(resultFile(''))
    .filter((file) => file.endsWith('.json'))
    .map((file) => file.slice(0, -'.json'.length));
  const known = Object.keys(TITLES).filter((name) => names.includes(name));
  const others = names.filter((name) => !known.includes(name)).sort();
  const sections = [...known, ...others].map((name) =>
    section(name, JSON.parse(fs.readFileSync(resultFile(`${name}.json`), 'utf8'))),
  );
  const head = `# Results

Written by \`npm run bench:report\` from \`bench/results\`. How each figure is measured: [README.md](README.md).
Each section names its machine and its commit. p99 of 100 runs is the second longest.`;
  return `${[head, ...sections].join('\n\n')}\n`;
}

export const writeReport = (): void => fs.writeFileSync(FILE, report());

if (process.argv[1] === import.meta.filename) writeReport();
