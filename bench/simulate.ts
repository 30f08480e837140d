// `npm run bench:simulate`: how many looks at 110 pods `nodewarden simulate FILE` takes a second, on one core, from start
// to end of the process. Makes its own input: 10,000 steps as patches, and with whole statistics each.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { atMost, barsTable, machine, quantile, sayMachine, table, writeResult } from './result.ts';

const STEPS = 10_000;
const PODS = 110;
const RUNS = 5;
const BUNDLE = fileURLToPath(new URL('../dist/nodewarden.js', import.meta.url));

const names = Array.from({ length: PODS }, (_, i) => `pod-${i}`);
const pods = names.map((name, i) => ({
  metadata: { name },
  spec: {
    priority: (i % 7) * 100,
    containers: [{ name: 'main', resources: { requests: { memory: `${64 + i}Mi` } } }],
  },
}));

/** 500 steps down from plenty to pressure, then the pods are all back. */
function node(step: number): unknown {
  const used = (step % 500) * 1_000_000;
  return { memory: { availableBytes: 2_000_000_000 - used, workingSetBytes: 14_000_000_000 + used } };
}
function usages(step: number): readonly unknown[] {
  return names.map((name, i) => ({
    podRef: { name },
    memory: { workingSetBytes: 60_000_000 + i * 1_000_000 + ((step * 7919 * i) % 1_000_000) },
  }));
}

function scenario(statsOf: (step: number) => object): unknown {
  const steps = Array.from({ length: STEPS }, (_, step) => ({
    at: step * 1000,
    ...statsOf(step),
    ...(step > 0 && step % 500 === 0 ? { pods } : {}),
  }));
  const config = {
    evictionHard: { 'memory.available': '1Gi' },
    evictionSoft: { 'memory.available': '1600Mi' },
    evictionSoftGracePeriod: { 'memory.available': '30s' },
  };
  const head = { apiVersion: 'nodewarden.dev/v1alpha1', kind: 'EvictionScenario', metadata: { name: 'bench' } };
  return { ...head, config, pods, steps };
}

/** `pods` of a patch is a list, which a merge patch replaces as a whole: it changes with every tenth step. */
const patched = scenario((step) => {
  if (step === 0) return { summary: { node: node(0), pods: usages(0) } };
  return { summaryPatch: { node: node(step), ...(step % 10 === 0 ? { pods: usages(step) } : {}) } };
});
const whole = scenario((step) => ({ summary: { node: node(step), pods: usages(step) } }));

type Run = { readonly wallMs: number; readonly cpuMs: number; readonly rssMiB: number };

/** The child says at its end what it used. */
const HOOK = `process.on('exit', () => {
  const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
  process.stderr.write(JSON.stringify({ cpuMs: (userCPUTime + systemCPUTime) / 1000, rssMiB: maxRSS / 1024 }));
});`;

const directory = mkdtempSync(path.join(os.tmpdir(), 'nodewarden-bench-'));
const hook = path.join(directory, 'hook.cjs');
writeFileSync(hook, HOOK);
const onOneCore = spawnSync('taskset', ['-c', '0', 'true']).status === 0 ? ['taskset', '-c', '0'] : [];

function run(file: string, output: string): Run {
  const [command = '', ...args] = [...onOneCore, process.execPath, '-r', hook, BUNDLE, 'simulate', '-o', output, file];
  const began = process.hrtime.bigint();
  const { stderr, status } = spawnSync(command, args, { stdio: ['ignore', 'ignore', 'pipe'], encoding: 'utf8' });
  const wallMs = Number(process.hrtime.bigint() - began) / 1e6;
  if (status !== 0) throw new Error(`simulate ended with ${status}: ${stderr}`);
  const used: { readonly cpuMs: number; readonly rssMiB: number } = JSON.parse(stderr);
  return { wallMs, ...used };
}

type Row = { readonly file: string; readonly bytes: number; readonly output: string; readonly runs: readonly Run[] };

function measure(name: string, output: string): Row {
  const file = path.join(directory, name);
  const runs = Array.from({ length: RUNS }, () => run(file, output));
  return { file: name, bytes: statSync(file).size, output, runs };
}
const seconds = ({ runs }: Row, q: number): number =>
  quantile(
    runs.map(({ wallMs }) => wallMs / 1000),
    q,
  );

function say(row: Row): readonly string[] {
  const median = seconds(row, 0.5);
  const of = (figure: (one: Run) => number): number => quantile(row.runs.map(figure), 0.5);
  return [
    row.file,
    (row.bytes / 1e6).toFixed(0),
    row.output,
    seconds(row, 0).toFixed(2),
    median.toFixed(2),
    of(({ cpuMs }) => cpuMs / 1000).toFixed(2),
    of(({ rssMiB }) => rssMiB).toFixed(0),
    String(Math.round(STEPS / median)),
  ];
}

try {
  writeFileSync(path.join(directory, 'patches.json'), JSON.stringify(patched));
  writeFileSync(path.join(directory, 'patches.jsonl'), `${JSON.stringify(patched)}\n`);
  writeFileSync(path.join(directory, 'whole.json'), JSON.stringify(whole));
  writeFileSync(path.join(directory, 'whole.jsonl'), `${JSON.stringify(whole)}\n`);
  const on = machine();
  console.log(`${sayMachine(on)}, ${onOneCore.length > 0 ? 'held to one core' : 'not held to one core'}`);
  console.log(`${STEPS} steps, ${PODS} pods, ${RUNS} runs each, from start to end of the process`);
  const rows = ['patches.json', 'patches.jsonl', 'whole.json', 'whole.jsonl'].map((name) => measure(name, 'text'));
  rows.push(measure('patches.json', 'jsonl'));
  const [first] = rows;
  const took = first === undefined ? Number.NaN : seconds(first, 0.5);
  const bars = [atMost(`${STEPS} steps at ${PODS} pods as patches, median of ${RUNS}`, 2, took, 's')];
  const head = ['file', 'MB', '-o', 'least s', 'median s', 'CPU s', 'MiB', 'steps/s'];
  console.log(`${table(head, rows.map(say))}\n\n${barsTable(bars)}`);
  writeResult('simulate', { on, isOnOneCore: onOneCore.length > 0, bars, steps: STEPS, pods: PODS, rows });
} finally {
  rmSync(directory, { recursive: true });
}
