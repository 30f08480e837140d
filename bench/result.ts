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
    commit: execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim(),
    loadBefore: Math.round((os.loadavg()[0] ?? 0) * 10) / 10,
    at: new Date().toISOString(),
  };
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

export function writeResult(name: string, result: unknown): void {
  const directory = path.join(import.meta.dirname, 'results');
  fs.mkdirSync(directory, { recursive: true });
  fs.writeFileSync(path.join(directory, `${name}.json`), `${JSON.stringify(result, null, 2)}\n`);
}

export const has = (command: string): boolean =>
  (process.env['PATH'] ?? '').split(':').some((directory) => fs.existsSync(path.join(directory, command)));
