// Two live guards against a fake cluster: what each costs at rest, and how long the death of a machine takes them.
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { stringify } from 'yaml';
import { sleep } from '../../src/host/clock.ts';
import { clock, until } from '../../test/lab/scene.ts';
import { endedCpuMsOf, memoryOf, ownCpuMsOf } from '../footprint/of.ts';
import { type FakeCluster, openFakeCluster } from './fake-cluster.ts';

export type Cost = {
  readonly nodes: number;
  readonly guard: 'leader' | 'standby';
  /** The most at rest, and the most since its start. */
  readonly rssMiB: number;
  readonly startMiB: number;
  /** Of one core; that of its agents is not part of it. */
  readonly cpuShare: number;
  readonly agentsShare: number;
  readonly requestsPerS: number;
};
export type Death = {
  readonly nodes: number;
  /** From the last renewal of its lease to the decision, and from the stored proof to the taint. */
  readonly toDecisionS: number;
  readonly proofToTaintMs: number;
  /** How often all ages began anew meanwhile, because answers of the API server came too late. */
  readonly begunAnew: number;
};
export type Live = { readonly costs: readonly Cost[]; readonly death: Death };

const PROGRAM = path.resolve(import.meta.dirname, '../../dist/nodewarden.js');
const LAB = path.resolve(import.meta.dirname, '../../test/lab/guard');
const SETTLE_S = 60;
const REST_MS = 60_000;
const SAMPLE_MS = 5_000;
/** The guard's default `deadAfter`, and what is promised beyond it. */
export const DEAD_AFTER_S = 120;
const DEATH_DEADLINE_MS = 400_000;

export async function measureLive(nodes: number, overMs: number): Promise<Live> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'nodewarden-bench-'));
  const cluster = await openFakeCluster(nodes);
  const guards: Guard[] = [];
  try {
    for (let i = 1; i <= nodes; i++) {
      fs.mkdirSync(path.join(directory, 'machines', `w${i}`), { recursive: true });
      fs.writeFileSync(path.join(directory, 'machines', `w${i}`, 'power'), 'on\n');
    }
    const agents = path.join(directory, 'agents');
    fs.mkdirSync(agents);
    fs.copyFileSync(path.join(LAB, 'fence_lab'), path.join(agents, 'fence_lab'));
    guards.push(startGuard('g1', cluster, directory));
    await until('g1 leads', () => (fs.readFileSync(guards[0]?.log ?? '').includes('"leader"') ? true : null), 120_000);
    guards.push(startGuard('g2', cluster, directory));
    await sleep(clock, SETTLE_S * 1_000 + REST_MS);
    const costs = await costsOf(guards, cluster, nodes, overMs);
    const settled = settlesIn(guards);
    const death = await deathOf(`w${Math.ceil(nodes / 2)}`, cluster, nodes);
    return { costs, death: { ...death, begunAnew: settlesIn(guards) - settled } };
  } finally {
    for (const { child } of guards) child.kill('SIGKILL');
    await cluster.close();
    fs.rmSync(directory, { recursive: true, force: true });
  }
}

type Guard = { readonly name: string; readonly child: ChildProcess; readonly log: string };

/** With the agent of the lab beside those of the machine, in a mount namespace of its own. */
function startGuard(name: string, cluster: FakeCluster, directory: string): Guard {
  const own = path.join(directory, name);
  fs.mkdirSync(own);
  const config = {
    apiVersion: 'nodewarden.dev/v1alpha1',
    kind: 'NodewardenGuardConfiguration',
    dryRun: false,
    settle: `${SETTLE_S}s`,
    kubernetes: { kubeconfig: cluster.kubeconfigOf(name) },
    socket: path.join(own, 'guard.sock'),
    stateDirectory: path.join(own, 'state'),
    fencing: {
      secretDirectory: own,
      templates: {
        lab: {
          ...{ agent: 'fence_lab', proof: 'power' },
          parameters: { directory: path.join(directory, 'machines'), plug: '{node}' },
        },
      },
      default: { power: [[{ template: 'lab' }]] },
    },
  };
  const file = path.join(own, 'guard.yaml');
  fs.writeFileSync(file, stringify(config), { mode: 0o600 });
  const log = path.join(own, 'guard.log');
  const out = fs.openSync(log, 'a');
  const overlay = 'mount -t overlay lab-agents -o "lowerdir=$0:/usr/sbin" /usr/sbin && exec "$@"';
  const program = [process.execPath, PROGRAM, 'guard', 'run', '--config', file];
  const child = spawn('unshare', ['--mount', 'bash', '-c', overlay, path.join(directory, 'agents'), ...program], {
    stdio: ['ignore', out, out],
  });
  fs.closeSync(out);
  return { name, child, log };
}

async function costsOf(
  guards: readonly Guard[],
  cluster: FakeCluster,
  nodes: number,
  overMs: number,
): Promise<readonly Cost[]> {
  const readings = guards.map(({ name, child: { pid = 0 } }) => ({
    ...{ pid, name, ownMs: ownCpuMsOf(pid), agentsMs: endedCpuMsOf(pid), requests: cluster.requestsOf(name) },
    rssMiB: [] as number[],
  }));
  const begunMs = clock.monoMs();
  while (clock.monoMs() - begunMs < overMs) {
    await sleep(clock, SAMPLE_MS);
    for (const { pid, rssMiB } of readings) rssMiB.push(memoryOf(pid)[0]?.rssMiB ?? Number.NaN);
  }
  const tookMs = clock.monoMs() - begunMs;
  return readings.map(({ pid, name, ownMs, agentsMs, requests, rssMiB }, i) => ({
    nodes,
    guard: i === 0 ? 'leader' : 'standby',
    rssMiB: Math.max(...rssMiB),
    startMiB: mostRssMiB(pid),
    cpuShare: (ownCpuMsOf(pid) - ownMs) / tookMs,
    agentsShare: (endedCpuMsOf(pid) - agentsMs) / tookMs,
    requestsPerS: ((cluster.requestsOf(name) - requests) * 1_000) / tookMs,
  }));
}

const mostRssMiB = (pid: number): number =>
  Number(/^VmHWM:\s+(\d+) kB/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]) / 1024;

const settlesIn = (guards: readonly Guard[]): number =>
  guards.reduce((sum, { log }) => sum + (fs.readFileSync(log, 'utf8').match(/"event":"settling"/g)?.length ?? 0), 0);

async function deathOf(node: string, cluster: FakeCluster, nodes: number): Promise<Omit<Death, 'begunAnew'>> {
  const lastMs = cluster.kill(node);
  const decidedMs = await until('the death is decided on', () => cluster.storedMs('decided'), DEATH_DEADLINE_MS);
  const taintedMs = await until('the node has the taint', () => cluster.taintedMs(), DEATH_DEADLINE_MS);
  const provenMs = cluster.storedMs('proven') ?? Number.NaN;
  return { nodes, toDecisionS: (decidedMs - lastMs) / 1_000, proofToTaintMs: taintedMs - provenMs };
}
