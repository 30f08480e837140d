import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type BoundedCgroup, openBoundedCgroup } from '../../src/host/cgroup/bounded-cgroup.ts';
import { findCgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { directoryOf, walkCgroups } from '../../src/host/cgroup/cgroup-walk.ts';
import { createClock, sleep } from '../../src/host/clock.ts';
import { startWorkload, type Workload } from '../../src/host/process/workload.ts';
import type { DecisionRecord } from '../../src/record/entry.ts';
import { askDaemon } from '../../src/serve/ask.ts';
import type { StatusReport } from '../../src/serve/status.ts';
import { type Agent, type AgentPlaces, installedAgent, ownAgent } from './agent.ts';

/** Of version 1, and of version 2 without its descendants. */
const OOM_COUNTERS = ['memory.oom_control', 'memory.events.local'];

export type PodSpec = {
  readonly name: string;
  readonly priority?: number;
  readonly requestMiB?: number;
  readonly graceSeconds?: number;
  /** A bound of its own, below that of the node. */
  readonly maxPids?: number;
  /** Further annotations of its manifest, as YAML values. */
  readonly annotations?: { readonly [name: string]: string };
  /** What it has in `tmp` of its directory is scratch. */
  readonly hasScratch?: true;
  /** Its cgroup is not there until somebody makes it. */
  readonly isLate?: true;
};
export type SceneSpec = {
  readonly pods: readonly PodSpec[];
  /** Of the node; NODE_MIB when it does not matter. */
  readonly memoryMiB?: number;
  /** Of the node; NODE_PIDS when it does not matter. */
  readonly pids?: number;
  /** The body starts the agent itself. */
  readonly isAgentLate?: true;
  /** How many files the agent may have open. */
  readonly openFiles?: number;
  /** Lines of the configuration. */
  readonly config: readonly string[];
  /** A small tmpfs as nodefs. */
  readonly nodefs?: { readonly sizeMiB: number; readonly inodes: number };
};
export type History = { readonly decisions: readonly DecisionRecord[] };
/** `pod` null: in none. */
export type Played = { readonly pod: string | null; readonly workload: Workload };
/** A bounded node with its pods and a running agent. */
export type Scene = {
  /** Starts a workload in the pod's cgroup and waits until it obeyed. */
  readonly play: (pod: string, ...commands: readonly string[]) => Promise<Workload>;
  /** The same outside of the node: as the pod's that it will enter, or nobody's. */
  readonly playOutside: (pod: string | null, ...commands: readonly string[]) => Promise<Workload>;
  readonly played: () => readonly Played[];
  /** The directories that a process of the pod joins; of a late one, those that it would. */
  readonly cgroups: (pod: string) => readonly string[];
  /** What counts as its disk. */
  readonly directory: (pod: string) => string;
  readonly status: () => Promise<StatusReport>;
  readonly history: () => History;
  /** By the node's own counters: that of the machine counts other people's as well. */
  readonly kernelOomKills: () => number;
  /** What the agent logged in this scene: its standard output, or the journal of its unit. */
  readonly log: () => string;
  readonly agent: Agent;
};

export const NODE_MIB = 384;
export const NODE_PIDS = 256;
const LOAD = path.join(import.meta.dirname, 'load.pl');
const STEP_DEADLINE_MS = 180_000;
const LOG_SHOWN = 6_000;

export const clock = createClock();
/** Scenes may be played beside one another. */
let scenesMade = 0;

/** Waits for a fact; the deadline only ends a hung run. */
export async function until<T>(
  what: string,
  ask: () => T | null | Promise<T | null>,
  deadlineMs = STEP_DEADLINE_MS,
): Promise<T> {
  const endMs = clock.monoMs() + deadlineMs;
  for (;;) {
    const answer = await ask();
    if (answer !== null) return answer;
    if (clock.monoMs() > endMs) throw new Error(`waited ${deadlineMs / 1000} s in vain: ${what}`);
    await sleep(clock, 20);
  }
}

/** Makes the node, starts the agent, runs `body`, and leaves nothing behind whatever happens. */
export async function withScene(
  spec: SceneSpec,
  isInstalled: boolean,
  body: (scene: Scene) => Promise<void>,
): Promise<void> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'nodewarden-lab-'));
  const closers: (() => unknown)[] = [() => fs.rmSync(directory, { recursive: true })];
  try {
    const node = await openNode(spec);
    closers.push(node.remove);
    const nodefs = path.join(directory, 'nodefs');
    fs.mkdirSync(nodefs);
    if (spec.nodefs !== undefined) {
      mountTmpfs(nodefs, spec.nodefs);
      closers.push(() => void execFileSync('umount', ['--lazy', nodefs]));
    }
    for (const pod of spec.pods)
      fs.mkdirSync(path.join(nodefs, pod.name, pod.hasScratch ? 'tmp' : ''), { recursive: true });
    const agent = isInstalled ? installedAgent() : ownAgent(directory, spec.openFiles);
    closers.push(agent.close);
    writeConfiguration(agent.places, node.cgroup.path, nodefs, spec);
    if (spec.isAgentLate !== true) await agent.start();
    const played: Played[] = [];
    closers.push(() => {
      for (const { workload } of played) workload.kill('SIGKILL');
    });
    const playIn = (join: readonly string[], pod: string | null, commands: readonly string[]): Promise<Workload> =>
      startLoad(join, commands, (workload) => played.push({ pod, workload }));
    await tellingLog(agent, () =>
      body({
        play: (pod, ...commands) => playIn(node.directories.get(pod) ?? [], pod, commands),
        playOutside: (pod, ...commands) => playIn([], pod, commands),
        played: () => played,
        cgroups: (pod) => node.directories.get(pod) ?? [],
        directory: (pod) => path.join(nodefs, pod),
        status: () => askStatus(agent.places.socket),
        history: () => readHistory(agent),
        kernelOomKills: node.oomKills,
        log: agent.log,
        agent,
      }),
    );
  } finally {
    await closeAll(closers.reverse());
  }
}

/** A failure carries what the agent said meanwhile, and how it ranked. */
async function tellingLog(agent: Agent, body: () => Promise<void>): Promise<void> {
  try {
    await body();
  } catch (error) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    throw new Error(`${text}\nthe agent's log:\n${agent.log().slice(-LOG_SHOWN)}${sayRankings(agent)}`);
  }
}

function sayRankings(agent: Agent): string {
  const lines = readHistory(agent).decisions.map(({ decision }) =>
    decision.kind === 'evict' ? `ranking of ${decision.id}: ${JSON.stringify(decision.ranking)}\n` : '',
  );
  return lines.slice(-5).join('');
}

/** Every one, whatever the others do; the first failure is thrown at the end. */
async function closeAll(closers: readonly (() => unknown)[]): Promise<void> {
  const failures: unknown[] = [];
  for (const close of closers) {
    try {
      await close();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}

/** By a look that began after the call: far from every threshold the last one may be older than what was just played. */
export async function availableMiB(scene: Pick<Scene, 'status'>): Promise<number> {
  const calledWallMs = clock.wallMs();
  return until('a look at the memory', async () => {
    const { atWallMs, signals } = await scene.status();
    if (atWallMs < calledWallMs) return null;
    const memory = signals.find(({ signal }) => signal === 'memory.available');
    if (typeof memory?.available !== 'number') throw new Error('memory.available is not known');
    return memory.available / (1024 * 1024);
  });
}

type Node = {
  readonly cgroup: BoundedCgroup;
  readonly directories: ReadonlyMap<string, readonly string[]>;
  readonly oomKills: () => number;
  readonly remove: () => Promise<void>;
};

async function openNode({ pods, memoryMiB = NODE_MIB, pids = NODE_PIDS }: SceneSpec): Promise<Node> {
  const mounts = findCgroupMounts();
  if (!mounts.known) throw new Error(`no cgroups: ${mounts.detail}`);
  // A name of its own: systemd forgets a scope a moment after its end.
  const name = `nodewarden-lab-${process.pid}-${Math.trunc(clock.monoMs())}-${scenesMade++}`;
  const bounds = { memoryBytes: memoryMiB * 1024 * 1024, maxPids: pids };
  const cgroup = await openBoundedCgroup({ mounts: mounts.value, clock, name, ...bounds });
  if (!cgroup.known) throw new Error(`no node: ${cgroup.detail}`);
  const remove = async (): Promise<void> => {
    const left = await cgroup.value.remove();
    if (left !== null) throw new Error(left);
  };
  const directories = new Map<string, readonly string[]>();
  for (const pod of pods) {
    if (pod.isLate === true) {
      directories.set(pod.name, cgroup.value.childDirectories(pod.name));
      continue;
    }
    const child = cgroup.value.addChild(pod.name);
    if (!child.known) {
      await remove();
      throw new Error(child.detail);
    }
    directories.set(pod.name, child.value);
    for (const one of child.value) {
      const bound = path.join(one, 'pids.max');
      if (pod.maxPids !== undefined && fs.existsSync(bound)) fs.writeFileSync(bound, String(pod.maxPids));
    }
  }
  const oomKills = (): number => countOomKills(directoryOf(mounts.value, cgroup.value.path));
  return { cgroup: cgroup.value, directories, oomKills, remove };
}

/** Kills by the kernel in the cgroup and below it, however many and deep they are: version 1 counts in each apart. */
function countOomKills(directory: string): number {
  let kills = 0;
  for (const below of walkCgroups(directory)) {
    if (below === null) continue;
    for (const name of OOM_COUNTERS) kills += oomKillsIn(below.file(name));
  }
  return kills;
}

function oomKillsIn(file: Buffer): number {
  try {
    return Number(/^oom_kill (\d+)$/m.exec(fs.readFileSync(file, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0; // The cgroup has gone, or is of the other version.
  }
}

function mountTmpfs(target: string, { sizeMiB, inodes }: NonNullable<SceneSpec['nodefs']>): void {
  const options = `size=${sizeMiB}m,nr_inodes=${inodes},mode=0755`;
  execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'nodewarden-lab', target]);
}

function writeConfiguration(places: AgentPlaces, cgroupRoot: string, nodefs: string, spec: SceneSpec): void {
  const lines = [
    'apiVersion: nodewarden.dev/v1alpha1',
    'kind: NodewardenConfiguration',
    `cgroupRoot: ${cgroupRoot}`,
    `podManifests: ${places.manifests}`,
    `stateDirectory: ${places.stateDirectory}`,
    `runtimeDirectory: ${places.runtimeDirectory}`,
    `socket: ${places.socket}`,
    `nodefs: { path: ${nodefs} }`,
    'evictionPressureTransitionPeriod: 2s',
    ...spec.config,
  ];
  fs.writeFileSync(places.configFile, `${lines.join('\n')}\n`, { mode: 0o644 });
  for (const pod of spec.pods) {
    fs.writeFileSync(path.join(places.manifests, `${pod.name}.yaml`), manifestOf(pod, nodefs), { mode: 0o644 });
  }
}

function manifestOf(pod: PodSpec, nodefs: string): string {
  const requests = pod.requestMiB === undefined ? '{}' : `{ memory: ${pod.requestMiB}Mi }`;
  return `apiVersion: v1
kind: Pod
metadata:
  name: ${pod.name}
  namespace: lab
  annotations:
    nodewarden.dev/cgroup: ${pod.name}
    nodewarden.dev/disk: ${path.join(nodefs, pod.name)}
${pod.hasScratch ? `    nodewarden.dev/scratch: ${path.join(nodefs, pod.name, 'tmp')}\n` : ''}${Object.entries(
  pod.annotations ?? {},
)
  .map(([name, value]) => `    ${name}: ${value}\n`)
  .join('')}spec:
  priority: ${pod.priority ?? 0}
  terminationGracePeriodSeconds: ${pod.graceSeconds ?? 30}
  containers:
    - name: main
      resources: { requests: ${requests} }
`;
}

async function startLoad(
  join: readonly string[],
  commands: readonly string[],
  onStart: (workload: Workload) => void,
): Promise<Workload> {
  let done = 0;
  // The dead count against the pids of their cgroup until somebody has reaped them, and not every PID 1 does at once:
  // in a pid namespace of its own a fork bomb is reaped by the kernel.
  const reaped = commands.includes('bomb') ? ['/usr/bin/unshare', '--pid', '--fork'] : [];
  // With a fixed threshold glibc gives every MiB back at once.
  const argv = [...reaped, '/usr/bin/env', 'MALLOC_MMAP_THRESHOLD_=131072', '/usr/bin/perl', LOAD, ...commands];
  const line = (text: string): void => {
    if (text === 'done') done += 1;
  };
  const workload = startWorkload({ argv, join, monoMs: clock.monoMs, line });
  if (typeof workload === 'string') throw new Error(workload);
  onStart(workload);
  // One that was evicted before it was done has done its duty as well.
  await until(
    `the workload obeys ${commands.join(', ')}`,
    () => done >= commands.length || !workload.isAlive() || null,
  );
  return workload;
}

export async function askStatus(socket: string): Promise<StatusReport> {
  const asked = await askDaemon(socket, { ask: 'status' }, clock);
  if (asked.kind !== 'answer') throw new Error(`no status: ${asked.kind}`);
  // The lab trusts the agent's own JSON.
  return asked.answer as StatusReport;
}

function readHistory(agent: Agent): History {
  const [program = '', ...args] = agent.command;
  const text = execFileSync(program, [...args, 'history', '-o', 'json', '--config', agent.places.configFile], {
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  return JSON.parse(text);
}
