// `npm run bench:simulate`: how many looks at 110 pods `nodewarden simulate FILE` takes a second, on one core, from start
// to end of the process. Makes its own input: 10,000 steps as patches, and with whole statistics each.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

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

function measure(name: string, output: string): void {
  const file = path.join(directory, name);
  const runs = Array.from({ length: RUNS }, () => run(file, output)).toSorted((a, b) => a.wallMs - b.wallMs);
  const [best, median] = [runs[0], runs[Math.floor(RUNS / 2)]];
  if (best === undefined || median === undefined) return;
  const size = `${(statSync(file).size / 1e6).toFixed(0)} MB`;
  const said = ({ wallMs, cpuMs, rssMiB }: Run): string =>
    `${(wallMs / 1000).toFixed(2)} s, CPU ${(cpuMs / 1000).toFixed(2)} s, ${rssMiB.toFixed(0)} MiB, ${Math.round(STEPS / (wallMs / 1000))} steps/s`;
  console.log(
    `${name.padEnd(14)} ${size.padStart(6)}  -o ${output.padEnd(5)}  best ${said(best)}; median ${said(median)}`,
  );
}

try {
  writeFileSync(path.join(directory, 'patches.json'), JSON.stringify(patched));
  writeFileSync(path.join(directory, 'patches.jsonl'), `${JSON.stringify(patched)}\n`);
  writeFileSync(path.join(directory, 'whole.json'), JSON.stringify(whole));
  writeFileSync(path.join(directory, 'whole.jsonl'), `${JSON.stringify(whole)}\n`);
  const [cpu] = os.cpus();
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
  console.log(
    `${cpu?.model ?? 'unknown CPU'}, ${os.cpus().length} cores, ${onOneCore.length > 0 ? 'held to one' : 'not held to one'}; ` +
      `Linux ${os.release()}, Node ${process.versions.node}, ${commit}; load ${os.loadavg()[0]?.toFixed(1)} before`,
  );
  console.log(`${STEPS} steps, ${PODS} pods, ${RUNS} runs each, from start to end of the process`);
  for (const name of ['patches.json', 'patches.jsonl', 'whole.json', 'whole.jsonl']) measure(name, 'text');
  measure('patches.json', 'jsonl');
} finally {
  rmSync(directory, { recursive: true });
}
