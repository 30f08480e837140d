// Guards of the lab: the built program, with fence_lab beside the agents of the machine, its API behind a proxy.
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { stringify } from 'yaml';
import type { FencingRecord } from '../../../src/core/guard/record.ts';
import { readRecord } from '../../../src/guard/records.ts';
import { ask } from '../kube/api.ts';
import { RUN } from '../kube/cluster.ts';
import { until } from '../scene.ts';
import { type ApiProxy, anApiProxy, clientCertificate } from './api-proxy.ts';
import { MACHINES } from './fleet.ts';
import { outOfService } from './out-of-service.ts';
import type { Qemu } from './qemu.ts';

export type GuardSpec = {
  readonly name: string;
  readonly namespace?: string;
  /** A label selector of the nodes that it sees; absent: all. */
  readonly nodes?: string;
  /** Changes of the configuration. */
  readonly config?: { readonly [field: string]: unknown };
  /** What its device takes as password. */
  readonly secret?: string;
};
export type Guard = {
  readonly name: string;
  readonly configFile: string;
  readonly proxy: ApiProxy;
  readonly start: () => void;
  readonly signal: (signal: NodeJS.Signals) => void;
  readonly pid: () => number | null;
  /** What it logged, one object for each line of JSON. */
  readonly log: () => readonly { readonly event?: string; readonly [field: string]: unknown }[];
  readonly logText: () => string;
  /** A command of the program with this guard's configuration; what it prints, and its exit status. */
  readonly run: (...args: readonly string[]) => Promise<Ran>;
  readonly close: () => Promise<void>;
};
export type Ran = { readonly code: number | null; readonly stdout: string; readonly stderr: string };

export const NAMESPACE = 'nodewarden-guard';
const CERTIFICATE = 'guard';
const STARTED: ChildProcess[] = [];
// Also when the lab itself is stopped: a guard that is left over would go on.
process.on('exit', () => {
  for (const child of STARTED) child.kill('SIGKILL');
});
export const PROGRAM = path.resolve(import.meta.dirname, '../../../dist/nodewarden.js');

/** Quick, so that a scene takes minutes; what may not be quicker is refused by the program itself. */
const QUICK = {
  dryRun: false,
  suspectAfter: '30s',
  deadAfter: '60s',
  settle: '30s',
  kubeletAnswers: 'hold',
  rate: { minInterval: '1s', maxPerHour: 1_000, maxInFlight: 100 },
  recovery: { powerOn: true, bootTime: '3m', stableFor: '5s', attempts: 3, perNodePerDay: 100 },
  patrol: { every: '1m', maxPerMinute: 600 },
};

const placeOf = (guard: string): string => path.join(RUN, 'guards', guard);
const BY_LAB = { agent: 'fence_lab', proof: 'power', parameters: { directory: MACHINES, plug: '{node}' } };

/** The `fencing` of that guard: one node by fence_qemu, all others by fence_lab. */
export const fencingByQemu = (guard: string, node: string, { directory }: Qemu) => ({
  deadline: '30s',
  secretDirectory: path.join(placeOf(guard), 'secrets'),
  templates: {
    lab: BY_LAB,
    qemu: { ...BY_LAB, agent: 'fence_qemu', parameters: { directory: path.dirname(directory), plug: '{node}' } },
  },
  nodes: { [node]: { power: [[{ template: 'qemu' }]] } },
  default: { power: [[{ template: 'lab' }]] },
});

export async function aGuard({ name, namespace = NAMESPACE, nodes, config = {}, secret }: GuardSpec): Promise<Guard> {
  clientCertificate(CERTIFICATE, '/O=nodewarden:guards/CN=nodewarden:guard');
  const directory = placeOf(name);
  fs.rmSync(directory, { recursive: true, force: true });
  fs.mkdirSync(path.join(directory, 'secrets'), { recursive: true, mode: 0o700 });
  if (secret !== undefined) fs.writeFileSync(path.join(directory, 'secrets', 'device'), `${secret}\n`, { mode: 0o600 });
  const proxy = await anApiProxy(name, CERTIFICATE, directory, nodes);
  const configFile = path.join(directory, 'guard.yaml');
  const socket = path.join(directory, 'guard.sock');
  const document = {
    apiVersion: 'nodewarden.dev/v1alpha1',
    kind: 'NodewardenGuardConfiguration',
    ...QUICK,
    kubernetes: { kubeconfig: proxy.kubeconfig, namespace, outOfService: outOfService() },
    socket,
    stateDirectory: path.join(directory, 'state'),
    fencing: {
      deadline: '10s',
      secretDirectory: path.join(directory, 'secrets'),
      templates: { lab: { ...BY_LAB, ...(secret === undefined ? {} : { secrets: { password: 'device' } }) } },
      default: { power: [[{ template: 'lab' }]] },
    },
    ...config,
  };
  fs.writeFileSync(configFile, stringify(document), { mode: 0o600 });
  const logFile = path.join(directory, 'guard.log');
  let child: ChildProcess | null = null;
  const logText = (): string => (fs.existsSync(logFile) ? fs.readFileSync(logFile, 'utf8') : '');

  return {
    name,
    configFile,
    proxy,
    logText,
    start: () => {
      const out = fs.openSync(logFile, 'a');
      child = spawn(process.execPath, [PROGRAM, 'guard', 'run', '--config', configFile], {
        stdio: ['ignore', out, out],
      });
      fs.closeSync(out);
      STARTED.push(child);
    },
    signal: (signal) => void child?.kill(signal),
    pid: () => (child?.exitCode === null && child.signalCode === null ? (child.pid ?? null) : null),
    log: () =>
      logText()
        .split('\n')
        .flatMap((line) => {
          try {
            // Before it stands the level, for the journal.
            return [JSON.parse(line.replace(/^<\d>/, ''))];
          } catch {
            return [];
          }
        }),
    run: (...args) => runProgram(...args, '--config', configFile),
    close: async () => {
      const running = child;
      if (running !== null && running.exitCode === null && running.signalCode === null) {
        running.kill('SIGCONT');
        running.kill('SIGTERM');
        await until(
          'the guard has ended',
          () => (running.exitCode !== null || running.signalCode !== null ? true : null),
          20_000,
        ).catch(() => running.kill('SIGKILL'));
      }
      proxy.close();
    },
  };
}

export function runProgram(...args: readonly string[]): Promise<Ran> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [PROGRAM, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, NO_COLOR: '1' },
    });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (data) => (stdout += data));
    child.stderr.on('data', (data) => (stderr += data));
    child.on('close', (code) => resolve({ code, stdout, stderr }));
  });
}

/** The records of fencings as the API server has them; ones that cannot be read fail the scene. */
export async function fencings(namespace = NAMESPACE): Promise<readonly FencingRecord[]> {
  const { items } = await ask(`/api/v1/namespaces/${namespace}/configmaps`);
  return (items as readonly unknown[]).flatMap((map) => {
    const stored = readRecord(map);
    if (stored === null) return [];
    if (stored.record === null) throw new Error(`${stored.id}: ${stored.problem}`);
    return [stored.record];
  });
}

/** The oldest first. */
export const fencingsOf = async (node: string): Promise<readonly FencingRecord[]> =>
  (await fencings()).filter((record) => record.node.name === node);

export const areClosed = async (namespace?: string): Promise<boolean> =>
  (await fencings(namespace)).every(({ phase }) => phase === 'closed');

/** Nothing of an earlier scene is left in the namespace. */
export async function cleanNamespace(namespace = NAMESPACE): Promise<void> {
  const { items } = await ask(`/api/v1/namespaces/${namespace}/configmaps`);
  for (const { metadata } of items) {
    if (/^(fencing-|guard-)/.test(metadata.name))
      await ask(`/api/v1/namespaces/${namespace}/configmaps/${metadata.name}`, { method: 'DELETE' });
  }
  await ask(`/api/v1/namespaces/${namespace}/configmaps`, {
    method: 'POST',
    body: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'guard-orders' } },
  });
  await ask(`/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/nodewarden-guard`, { method: 'DELETE' }).catch(
    () => undefined,
  );
}
