// Reads what a command showed, from its output or from the result file that it wrote.
import fs from 'node:fs';
import path from 'node:path';
import { type Row, reactionOf } from '../bench/reaction/series.ts';
import type { Bar } from '../bench/result.ts';

/** `holds`: null if it was not tried here; `figures` then says why. */
export type Check = { readonly name: string; readonly holds: boolean | null; readonly figures: string };
export type Evidence = {
  readonly checks: readonly Check[];
  readonly figures: readonly string[];
  /** It ran to its end: its last line is there. */
  readonly isWhole: boolean;
};
/** `results`: the directory that the benches write to. */
export type Output = { readonly text: string; readonly results: string };
export type Read = (output: Output) => Evidence;

const MOST_FIGURE_CHARS = 400;
const NOTHING: Evidence = { checks: [], figures: [], isWhole: false };

/** A lab prints "ok|FAILED|skipped NAME (N s)" with its figures indented below, and the figures of all checks in a line of their own. */
export function readLab({ text }: Output): Evidence {
  const checks: Check[] = [];
  const figures: string[] = [];
  for (const line of text.split('\n')) {
    const [, said = '', rest = ''] = /^(ok|FAILED|skipped) +(.+)$/.exec(line) ?? [];
    const last = checks.at(-1);
    if (said === 'skipped') {
      const [name = '', ...why] = rest.split(': ');
      checks.push({ name, holds: null, figures: why.join(': ') });
    } else if (said !== '') {
      checks.push({ name: rest.replace(/ \([\d.]+ s\)$/, ''), holds: said === 'ok', figures: '' });
    } else if (line.startsWith('        ') && last !== undefined) {
      const more = `${last.figures} ${line.trim()}`.trim().slice(0, MOST_FIGURE_CHARS);
      checks[checks.length - 1] = { ...last, figures: more };
    } else if (line.startsWith('figures: ')) figures.push(...line.slice('figures: '.length).split(', '));
  }
  return { checks, figures, isWhole: /\d+ passed, \d+ failed, \d+ skipped/.test(text) };
}

type Result = {
  readonly bars?: readonly Bar[];
  readonly rows?: readonly Row[];
  readonly skipped?: readonly { readonly name: string; readonly why: string }[];
};

/** A bench writes its bars, and rows for the peers that it measured side by side. Without a result it prints "skipped". */
export const readBench =
  (name: string): Read =>
  (output) => {
    const file = path.join(output.results, `${name}.json`);
    if (!fs.existsSync(file)) return { ...readLab(output), isWhole: true };
    const { bars = [], rows = [], skipped = [] }: Result = JSON.parse(fs.readFileSync(file, 'utf8'));
    return {
      checks: bars.map((bar) => ({ name: bar.name, holds: bar.holds, figures: `${bar.value}, wanted ${bar.bar}` })),
      figures: [...rows.map(sayRow), ...skipped.map((one) => `${one.name} was not compared: ${one.why}`)],
      isWhole: true,
    };
  };

function sayRow(row: Row): string {
  const at = row.isStaying
    ? 'grows a little and stays'
    : `${row.rate === 'max' ? 'as fast as it can' : `${row.rate} MiB/s`}`;
  const ms = (q: number): string => {
    const { ms: value, isAtLeast } = reactionOf(row, q);
    return `${isAtLeast ? 'over ' : ''}${value.toFixed(value < 10 ? 1 : 0)} ms`;
  };
  const times =
    row.runs === 0 || row.reactionMs.length + row.lostMs.length === 0 ? '' : `, median ${ms(0.5)}, p99 ${ms(0.99)}`;
  return `${row.peer}, ${at}: ${row.inTime} of ${row.runs} in time${times}`;
}

type VitestResult = {
  readonly testResults: readonly {
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[];
  }[];
};

export function readVitest({ text }: Output): Evidence {
  const json = text.split('\n').find((line) => line.startsWith('{"'));
  if (json === undefined) return NOTHING;
  const { testResults }: VitestResult = JSON.parse(json);
  const checks = testResults
    .flatMap(({ assertionResults }) => assertionResults)
    .filter(({ status }) => status !== 'skipped' && status !== 'pending')
    .map(({ fullName, status }) => ({ name: fullName, holds: status === 'passed', figures: '' }));
  return { checks, figures: [], isWhole: true };
}

export function readConformance({ text }: Output): Evidence {
  const [, said = '', failed = ''] = /^conformance: (.*?(\d+) failed.*)$/m.exec(text) ?? [];
  if (said === '') return NOTHING;
  const checks = [{ name: 'the answers of kubelet 1.36.2', holds: failed === '0', figures: said }];
  return { checks, figures: [], isWhole: true };
}
