import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

/** On what a figure was measured. */
export type Machine = {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly kernel: string;
  readonly node: string;
  readonly commit: string;
  readonly loadBefore: number;
  readonly at: string;
};

export function machine(): Machine {
  return {
    cpu: os.cpus()[0]?.model ?? 'unknown',
    cores: os.cpus().length,
    memoryGiB: Math.round(os.totalmem() / 2 ** 30),
    kernel: os.release(),
    node: process.versions.node,
    commit: commit(),
    loadBefore: Math.round((os.loadavg()[0] ?? 0) * 10) / 10,
    at: new Date().toISOString(),
  };
}

/** BENCH_COMMIT names it where no repository is. */
function commit(): string {
  const named = process.env['BENCH_COMMIT'];
  return named ?? execFileSync('git', ['describe', '--always', '--dirty', '--exclude=*'], { encoding: 'utf8' }).trim();
}

export function sayMachine({ cpu, cores, memoryGiB, kernel, node, commit, loadBefore }: Machine): string {
  return `${cpu}, ${cores} cores, ${memoryGiB} GiB, Linux ${kernel}, Node.js ${node}, ${commit}, load ${loadBefore} before`;
}

/** Nearest rank. NaN of nothing. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(q * sorted.length) - 1))] ?? Number.NaN;
}

/** A table with the first column to the left. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head, ...rows];
  const widths = head.map((_, i) => Math.max(...all.map((row) => row[i]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join('  ');
  return all.map(line).join('\n');
}

/** What is promised, and what was measured. A result carries its own as `bars`. */
export type Bar = {
  readonly name: string;
  /** With its unit: "<= 5 ms". */
  readonly bar: string;
  readonly value: string;
  /** Null: it was not measured, and `value` says why. */
  readonly holds: boolean | null;
};

/** NaN is a value that nothing was measured of. */
export function atMost(name: string, most: number, value: number, unit: string): Bar {
  const holds = Number.isNaN(value) ? null : value <= most;
  return { name, bar: `<= ${most} ${unit}`, value: holds === null ? 'not measured' : sayNumber(value, unit), holds };
}
export function atLeast(name: string, least: number, value: number, unit: string): Bar {
  const holds = Number.isNaN(value) ? null : value >= least;
  return { name, bar: `>= ${least} ${unit}`, value: holds === null ? 'not measured' : sayNumber(value, unit), holds };
}

/** Three digits that count: a bar is not judged by what is shown. */
function sayNumber(value: number, unit: string): string {
  return `${value !== 0 && Math.abs(value) < 100 ? Number(value.toPrecision(3)) : Math.round(value)} ${unit}`;
}

export function barsTable(bars: readonly Bar[]): string {
  const said = { true: 'holds', false: 'DOES NOT HOLD', null: 'unknown' };
  return table(
    ['bar', 'wanted', 'measured', ''],
    bars.map(({ name, bar, value, holds }) => [name, bar, value, said[`${holds}`]]),
  );
}

/** BENCH_RESULTS: another directory than that of the results that are kept. */
const RESULTS = process.env['BENCH_RESULTS'] ?? path.join(import.meta.dirname, 'results');
export const resultFile = (name: string): string => path.join(RESULTS, name);

export function writeResult(name: string, result: unknown): void {
  fs.mkdirSync(resultFile(''), { recursive: true });
  const text = JSON.stringify(result, null, 2);
  // A list of numbers has a line.
  const short = text.replace(/\[\s+(-?[\d.]+(?:,\s+-?[\d.]+)*)\s+\]/g, (all) => all.replace(/\s+/g, ' '));
  fs.writeFileSync(resultFile(`${name}.json`), `${short}\n`);
}

/** Our own file, as its bench wrote it; null: it never ran. */
export function readResult<T>(name: string): T | null {
  const file = resultFile(`${name}.json`);
  return fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, 'utf8')) : null;
}

export const has = (command: string): boolean =>
  (process.env['PATH'] ?? '').split(':').some((directory) => fs.existsSync(path.join(directory, command)));
