import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { startTicks, type Workload } from '../../../src/host/process/workload.ts';
import { type Agent, installedAgent } from '../agent.ts';
import { clock, type Played, until } from '../scene.ts';

/** A pod that is a service of lab.slice. */
export type UnitPod = {
  readonly name: string;
  readonly priority?: number;
  readonly requestMiB?: number;
  /** What load.pl does in it; a shell command instead. */
  readonly commands: readonly string[] | string;
  /** Further lines of its [Service]. */
  readonly service?: readonly string[];
  /** Further lines of its [Unit]. */
  readonly unit?: readonly string[];
  /** Started again after an eviction; else it stays down. */
  readonly isRestarted?: true;
  /** Further annotations of its manifest. */
  readonly annotations?: { readonly [name: string]: string };
  /** Without a file: `start` makes it by systemd-run, as a Type=simple. */
  readonly isTransient?: true;
  /** Not started before the body says so. */
  readonly isLate?: true;
  /** The manifest names an alias of its unit. */
  readonly hasAlias?: true;
  /** No unit of its own: its manifest claims that of this pod. */
  readonly claims?: string;
  /** No pod: a unit that no manifest names. */
  readonly isNobodys?: true;
  /** Bound to a container of Podman instead, and never there. */
  readonly isPodman?: true;
};
export type UnitSceneSpec = {
  readonly pods: readonly UnitPod[];
  readonly memoryMiB: number;
  readonly config: readonly string[];
  /** The body starts the agent itself. */
  readonly isAgentLate?: true;
};
export type UnitScene = {
  /** Tells systemd and does not wait for the units. */
  readonly start: (...pods: readonly string[]) => void;
  /** Writes the manifest of a unit that was nobody's, and returns what removes it. */
  readonly declare: (name: string) => () => void;
  readonly agent: Agent;
  readonly played: () => readonly Played[];
  readonly kernelOomKills: () => number;
  /** Writes the configuration anew with these lines and has the agent read it. */
  readonly reload: (config: readonly string[]) => void;
};

const UNITS = '/run/systemd/system';
const SLICE = 'lab.slice';
export const LOAD = path.join(import.meta.dirname, 'load.pl');
/** The kernel names the cgroup as the machine sees it: LAB_VM is the container's name there. */
const KILL = new RegExp(`oom-kill:.*oom_memcg=/[^,]*-${process.env['LAB_VM'] ?? ''}/${SLICE},`);

export const unitOf = (pod: string): string => `lab-${pod}.service`;
const aliasOf = (pod: string): string => `lab-${pod}-alias.service`;
export const systemctl = (...args: readonly string[]): string =>
  execFileSync('systemctl', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }).trim();

const quoted = (words: readonly string[]): string => words.map((word) => `"${word}"`).join(' ');
const execOf = ({ commands }: UnitPod): readonly string[] =>
  typeof commands === 'string' ? ['/bin/sh', '-c', commands] : ['/usr/bin/perl', LOAD, ...commands, 'stay'];

const hasUnitFile = ({ isTransient, isPodman, claims }: UnitPod): boolean =>
  isTransient !== true && isPodman !== true && claims === undefined;

const UNIT_LINES = ['StartLimitIntervalSec=0'];

function writeUnits({ pods, memoryMiB }: UnitSceneSpec): readonly string[] {
  const files = new Map([[SLICE, `[Slice]\nMemoryMax=${memoryMiB}M\n`]]);
  for (const pod of pods.filter(hasUnitFile)) {
    const lines = [`Slice=${SLICE}`, `ExecStart=${quoted(execOf(pod))}`, ...(pod.service ?? [])];
    files.set(
      unitOf(pod.name),
      `[Unit]\n${[...UNIT_LINES, ...(pod.unit ?? [])].join('\n')}\n[Service]\n${lines.join('\n')}\n`,
    );
  }
  for (const [name, text] of files) fs.writeFileSync(path.join(UNITS, name), text);
  const aliases = pods.filter(({ hasAlias }) => hasAlias === true);
  for (const { name } of aliases) fs.symlinkSync(unitOf(name), path.join(UNITS, aliasOf(name)));
  systemctl('daemon-reload');
  return [...files.keys(), ...aliases.map(({ name }) => aliasOf(name))].map((name) => path.join(UNITS, name));
}

function manifestOf(pod: UnitPod): string {
  const { name, priority = 0, requestMiB, hasAlias, isPodman, isRestarted, claims, annotations = {} } = pod;
  const unit = hasAlias === true ? aliasOf(name) : unitOf(claims ?? name);
  const further = Object.entries(annotations).map(([key, value]) => `, ${key}: ${value}`);
  const after = isRestarted === true ? 'restart' : 'stay';
  const bound = `nodewarden.dev/systemd-unit: ${unit}, nodewarden.dev/after-eviction: ${after}${further.join('')}`;
  const requests = requestMiB === undefined ? '{}' : `{ memory: ${requestMiB}Mi }`;
  return `apiVersion: v1
kind: Pod
metadata:
  name: ${name}
  namespace: lab
  annotations: { ${isPodman === true ? `nodewarden.dev/podman: ${name}` : bound} }
spec:
  priority: ${priority}
  containers: [{ name: main, resources: { requests: ${requests} } }]
`;
}

function writeConfiguration(agent: Agent, config: readonly string[]): void {
  const head = ['apiVersion: nodewarden.dev/v1alpha1', 'kind: NodewardenConfiguration', `cgroupRoot: /${SLICE}`];
  const lines = [...head, 'evictionPressureTransitionPeriod: 2s', ...config];
  fs.writeFileSync(agent.places.configFile, `${lines.join('\n')}\n`, { mode: 0o644 });
}

/** The main process of a unit as it is now, whatever systemd starts in its place later. */
function watched(unit: string): Workload {
  const pid = Number(systemctl('show', '-P', 'MainPID', unit));
  const ticks = startTicks(pid);
  if (pid === 0 || ticks === null) throw new Error(`${unit} has no main process`);
  let endedMs: number | null = null;
  const isAlive = (): boolean => {
    if (endedMs === null && startTicks(pid) !== ticks) endedMs = clock.monoMs();
    return endedMs === null;
  };
  return {
    pid,
    isAlive,
    ended: () => (isAlive() ? null : { atMs: endedMs ?? Number.NaN, signal: null, code: null }),
    write: () => undefined,
    kill: (signal) => void (isAlive() && process.kill(pid, signal)),
  };
}

/** Those of the kernel's log from now on that were for the slice's own limit. */
function countKernelKills(): { readonly count: () => number; readonly end: () => void } {
  // Only what comes: the buffer has those of earlier runs.
  const reader: ChildProcess = spawn('dmesg', ['--follow-new', '--notime'], { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  reader.stdout?.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  return {
    count: () => text.split('\n').filter((line) => KILL.test(line)).length,
    end: () => void reader.kill('SIGKILL'),
  };
}

/** The pods as units, all but the late ones running, and the installed agent; removes all of it. */
export async function withUnits(spec: UnitSceneSpec, body: (scene: UnitScene) => Promise<void>): Promise<void> {
  const agent = installedAgent();
  const kernel = countKernelKills();
  const played: Played[] = [];
  const files = writeUnits(spec);
  const startTransient = (pod: UnitPod): void => {
    const how = ['--quiet', '--no-block', '--collect', `--unit=${unitOf(pod.name)}`, `--slice=${SLICE}`];
    execFileSync('systemd-run', [...how, '--', ...execOf(pod)], { stdio: ['ignore', 'ignore', 'inherit'] });
  };
  const podOf = (name: string): UnitPod => {
    const pod = spec.pods.find((one) => one.name === name);
    if (pod === undefined) throw new Error(`no pod ${name}`);
    return pod;
  };
  const start = (...names: readonly string[]): void => {
    const pods = names.map(podOf);
    const units = pods.filter(({ isTransient }) => isTransient !== true).map(({ name }) => unitOf(name));
    if (units.length > 0) systemctl('start', '--no-block', ...units);
    for (const pod of pods) if (pod.isTransient === true) startTransient(pod);
  };
  const declare = (name: string): (() => void) => {
    const file = path.join(agent.places.manifests, `${name}.yaml`);
    fs.writeFileSync(file, manifestOf(podOf(name)));
    return () => fs.rmSync(file);
  };
  try {
    systemctl('start', SLICE);
    writeConfiguration(agent, spec.config);
    for (const { name, isNobodys } of spec.pods) if (isNobodys !== true) declare(name);
    const early = spec.pods.filter(({ isLate, claims }) => isLate !== true && claims === undefined);
    if (early.length > 0) systemctl('start', ...early.map(({ name }) => unitOf(name)));
    for (const { name, isNobodys } of early)
      played.push({ pod: isNobodys === true ? null : name, workload: watched(unitOf(name)) });
    if (spec.isAgentLate !== true) await agent.start();
    await body({
      start,
      declare,
      agent,
      played: () => played,
      kernelOomKills: kernel.count,
      reload: (config) => {
        writeConfiguration(agent, config);
        agent.reload();
      },
    });
  } finally {
    kernel.end();
    execFileSync('systemctl', ['kill', '--signal=SIGKILL', 'lab-*.service'], { stdio: 'ignore' });
    execFileSync('systemctl', ['stop', 'lab-*.service', SLICE], { stdio: 'ignore' });
    await agent.close();
    for (const file of files) fs.rmSync(file);
    systemctl('daemon-reload');
    systemctl('reset-failed');
    await until('the slice is empty', () => !fs.existsSync(`/sys/fs/cgroup/memory/${SLICE}`) || null);
  }
}
