import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { known } from '../../src/core/reading.ts';
import { type BoundedCgroup, openBoundedCgroup } from '../../src/host/cgroup/bounded-cgroup.ts';
import { type CgroupMounts, findCgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { refOf } from '../../src/host/cgroup/cgroupfs.ts';
import { createClock } from '../../src/host/clock.ts';
import { createObserver, type OpenObserver } from '../../src/observe/look.ts';
import type { BoundPod, CgroupRef } from '../../src/ports.ts';
import { aBoundPod, someFindings } from '../../test/observe/a-bound-pod.ts';
import { has, quantile } from '../result.ts';
import { traceReads } from './file-trace.ts';

/** Of one look, median: from its beginning to its end, and the CPU of the whole process, which other load does not change. */
export type Timed = { readonly us: number; readonly cpuUs: number };
export type LookRow = {
  readonly pods: number;
  readonly shape: Shape;
  readonly files: number;
  /** Of them on descriptors that stay open. */
  readonly filesKept: number;
  readonly look: Timed;
  readonly p99Us: number;
  /** look.c over the same files, kept open as here, and opened each time; null without a C compiler. */
  readonly kept: Timed | null;
  readonly anew: Timed | null;
};
/** `unit`: one cgroup with its process, as a service. `pod`: two containers, the processes in the containers. */
export type Shape = 'unit' | 'pod';

const clock = createClock();
const TURNS = 3;
const WARM_UP = 20;
const ROUNDS_OF_ONE_POD = 3_000;
const LEAST_ROUNDS = 10;
const CONTAINERS = ['main', 'side'];
const HOLD = path.join(import.meta.dirname, 'hold.pl');

export async function measureLooks(sizes: readonly number[], shapes: readonly Shape[]): Promise<readonly LookRow[]> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'nodewarden-bench-'));
  const rows: LookRow[] = [];
  try {
    const program = compile(directory);
    for (const shape of shapes) {
      for (const pods of sizes)
        rows.push(await withPods(pods, shape, (node) => measure(node, pods, shape, program, directory)));
    }
    return rows;
  } finally {
    fs.rmSync(directory, { recursive: true });
  }
}

function compile(directory: string): string | null {
  if (!has('gcc')) return null;
  const program = path.join(directory, 'look');
  execFileSync('gcc', ['-O2', '-o', program, path.join(import.meta.dirname, 'look.c')]);
  return program;
}

type Node = { readonly mounts: CgroupMounts; readonly cgroup: BoundedCgroup; readonly bound: readonly BoundPod[] };

async function withPods<T>(count: number, shape: Shape, body: (node: Node) => T): Promise<T> {
  const found = findCgroupMounts();
  if (!found.known) throw new Error(found.detail);
  const mounts = found.value;
  const name = `nodewarden-bench-${process.pid}-${Math.trunc(clock.monoMs())}`;
  const opened = await openBoundedCgroup({ mounts, clock, name, memoryBytes: 4 * 2 ** 30, maxPids: 8_192 });
  if (!opened.known) throw new Error(opened.detail);
  const cgroup = opened.value;
  let held: Awaited<ReturnType<typeof holdProcesses>> | null = null;
  try {
    const join: string[] = [];
    const bound: BoundPod[] = [];
    for (let i = 0; i < count; i++) bound.push(makePod(mounts, cgroup, `pod-${i}`, shape, join));
    held = await holdProcesses(join);
    return body({ mounts, cgroup, bound });
  } finally {
    await held?.end();
    const left = await cgroup.remove();
    if (left !== null) console.error(left);
  }
}

/** A sleeping process in each: a line names the directories that it joins. */
export async function holdProcesses(lines: readonly string[]): Promise<{ readonly end: () => Promise<void> }> {
  const hold = spawn('/usr/bin/perl', [HOLD], { stdio: ['pipe', 'pipe', 'inherit'] });
  const end = async (): Promise<void> => {
    hold.stdin.end();
    if (hold.exitCode === null) await once(hold, 'exit');
  };
  hold.stdin.write(`${lines.join('\n')}\n\n`);
  const first = await Promise.race([once(hold.stdout, 'data'), once(hold, 'exit')]);
  if (hold.exitCode !== null) throw new Error(`the processes of the pods did not start: ${first}`);
  return { end };
}

/** `join` gets the directories of each of its processes. */
function makePod(mounts: CgroupMounts, cgroup: BoundedCgroup, name: string, shape: Shape, join: string[]): BoundPod {
  const make = (child: string): CgroupRef => {
    const directories = cgroup.addChild(child);
    if (!directories.known) throw new Error(directories.detail);
    if (shape === 'unit' || child !== name) join.push(directories.value.join(' '));
    const ref = refOf(mounts, `${cgroup.path}/${child}`);
    if (!ref.known) throw new Error(ref.detail);
    return ref.value;
  };
  const pod = make(name);
  const containers = shape === 'unit' ? [] : CONTAINERS;
  if (containers.length > 0 && mounts.version === 2) {
    fs.writeFileSync(path.join(mounts.memory, pod.path, 'cgroup.subtree_control'), '+memory +pids');
  }
  return aBoundPod({
    name,
    cgroup: known(pod),
    boundContainers:
      shape === 'unit'
        ? [{ name: 'main', cgroup: known(pod) }]
        : containers.map((container) => ({ name: container, cgroup: known(make(`${name}/${container}`)) })),
  });
}

function measure(node: Node, pods: number, shape: Shape, program: string | null, directory: string): LookRow {
  const observer = createObserver({
    clock,
    mounts: node.mounts,
    cgroupRoot: node.cgroup.path,
    memoryAvailable: 'workingSet',
    evictionStall: null,
    isSwapCounted: () => false,
    nodefsPath: directory,
    imagefsPath: null,
    containerfsPath: null,
    pods: () => known(node.bound),
    followPods: () => undefined,
    findings: someFindings(),
    wake: () => undefined,
  });
  try {
    for (let round = 0; round < WARM_UP; round++) {
      const seen = look(observer);
      if (seen !== pods) throw new Error(`a look saw ${seen} pods of ${pods}`);
    }
    const reads = traceReads(() => look(observer));
    const plan = path.join(directory, 'plan');
    fs.writeFileSync(plan, reads.map(({ how, path: file }) => `${how} ${file}\n`).join(''));
    const rounds = Math.max(LEAST_ROUNDS, Math.round(ROUNDS_OF_ONE_POD / pods));
    const ours: Timed[] = [];
    const kept: Timed[] = [];
    const anew: Timed[] = [];
    // In turns, so that all three meet the same machine.
    for (let turn = 0; turn < TURNS; turn++) {
      for (let round = 0; round < rounds; round++) ours.push(timed(() => look(observer)));
      if (program === null) continue;
      kept.push(...floor(program, plan, rounds, 'kept'));
      anew.push(...floor(program, plan, rounds, 'anew'));
    }
    return {
      pods,
      shape,
      files: reads.length,
      filesKept: reads.filter(({ how }) => how === 'k').length,
      p99Us: quantile(
        ours.map(({ us }) => us),
        0.99,
      ),
      look: middle(ours),
      kept: program === null ? null : middle(kept),
      anew: program === null ? null : middle(anew),
    };
  } finally {
    observer.close();
  }
}

/** One look as the loop makes it when memory asks for the pods. */
function look(observer: OpenObserver): number {
  const { pods } = observer.look({ afterMs: 10_000, pods: 'memory.available' }, { outcomes: [], events: [] });
  return pods.known ? pods.value.length : 0;
}

function floor(program: string, plan: string, rounds: number, how: 'kept' | 'anew'): readonly Timed[] {
  const printed = execFileSync(program, [plan, String(rounds + 1), how], { encoding: 'latin1' });
  const all = printed
    .trim()
    .split('\n')
    .map((line) => line.split(' ').map(Number));
  // The first round opens what is kept.
  return all.slice(1).map(([us = Number.NaN, cpuUs = Number.NaN]) => ({ us, cpuUs }));
}

function timed(run: () => void): Timed {
  const beganCpu = process.cpuUsage();
  const beganMs = clock.monoMs();
  run();
  const us = (clock.monoMs() - beganMs) * 1_000;
  const { user, system } = process.cpuUsage(beganCpu);
  return { us, cpuUs: user + system };
}

const middle = (all: readonly Timed[]): Timed => ({
  us: quantile(
    all.map(({ us }) => us),
    0.5,
  ),
  cpuUs: quantile(
    all.map(({ cpuUs }) => cpuUs),
    0.5,
  ),
});
