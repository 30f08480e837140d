import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { clock } from '../../test/lab/scene.ts';
import { readUnitStart } from '../../test/lab/unit-start.ts';
import { freePort } from '../../test/serve/a-web.ts';
import { has } from '../result.ts';

/** Something that is measured while it has nothing to do. */
export type Running = {
  readonly name: string;
  readonly pid: number;
  /** From being started until it says that it is ready, each time; empty: it never says so. */
  readonly startMs: readonly number[];
  readonly stop: () => Promise<void>;
};
export type Peer = {
  readonly name: string;
  /** Why it cannot be measured here, or it runs. */
  readonly start: () => Promise<Running | string>;
};

const BUNDLE = process.env['NODEWARDEN_BUNDLE'] ?? path.join(import.meta.dirname, '../../dist/nodewarden.js');
const UNIT = path.join(path.dirname(BUNDLE), '../systemd/nodewarden.service');
const HURRY = path.join(import.meta.dirname, '../cuts/hurry.cjs');
const OOMD = '/lib/systemd/systemd-oomd';
/** Node has no datagram sockets: says the clock of each message. */
const NOTIFIED = `use Socket; use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC); $| = 1;
socket(my $s, AF_UNIX, SOCK_DGRAM, 0) or die; bind($s, pack_sockaddr_un($ARGV[0])) or die; print "bound\\n";
while (defined recv($s, my $text, 4096, 0)) { printf "%.3f %s\\n", clock_gettime(CLOCK_MONOTONIC) * 1000, (split /\\n/, $text)[0] }`;

/** What the agent is told beside its places, by the name of its row. */
const CONFIGURED = {
  nodewarden: [],
  // D17: with them a look reads /proc/meminfo and the pressure of memory as well.
  'nodewarden, swap and stall': [
    'mergeDefaultEvictionSettings: true',
    'evictionHard: { swap.available: 10% }',
    'evictionStall: { memory: { full: 30%, for: 10s, belowAvailable: 25% } }',
  ],
} as const;

export const [HTTP, PAGE_OPEN] = [', http, nobody looks', ', http, a page open'];

/** Of a node with so many pods, beside a kubelet that this process plays. */
export async function startBesideKubelet(pods: number, times: number): Promise<Running> {
  // In the guest there is neither the API server nor the runtime.
  const node = await (await import('./kube-node.ts')).openKubeNode(pods);
  const agent = await start(`nodewarden, mode kubelet, ${pods} pods`, times, { config: node.config });
  const stop = async (): Promise<void> => {
    await agent.stop();
    await node.close();
  };
  return { ...agent, stop };
}

/** On a node with so many idle pods: without `http`, with it when nobody looks any more, and while a page is open. */
export async function startWithPages(pods: number, times: number): Promise<readonly Running[]> {
  // In the guest there is no browser.
  const { lookAt, openPodNode } = await import('./page-node.ts');
  const node = await openPodNode(pods);
  const agent = async (what: string, port?: number): Promise<Running> => {
    const http = port === undefined ? [] : [`http: { listen: "127.0.0.1:${port}" }`];
    const config = [...node.config, ...http];
    return start(`nodewarden, ${pods} pods${what}`, times, {
      config,
      manifests: node.manifests,
      options: ['--dry-run'],
    });
  };
  const [left, looked] = [await freePort(), await freePort()];
  const without = await agent('');
  const unseen = await agent(HTTP, left);
  const seen = await agent(PAGE_OPEN, looked);
  // What a page leaves behind is part of what it costs when nobody looks.
  await (await lookAt(left)).close();
  const page = await lookAt(looked);
  const stop = async (): Promise<void> => {
    await page.close();
    await seen.stop();
    await node.close();
  };
  return [without, unseen, { ...seen, stop }];
}

export const startAgent = (name: keyof typeof CONFIGURED, times: number): Promise<Running> =>
  start(name, times, { config: CONFIGURED[name], options: ['--dry-run'] });

/** One whose time passes so many times as fast. */
export const startHurried = (config: readonly string[], times: number) =>
  start('nodewarden', 1, { config, nodeOptions: ['--require', HURRY], env: { BENCH_HURRY: String(times) } });

/** Started `times` times as its unit starts it, nothing to evict and READY told as systemd hears it; the last one stays. */
async function start(
  name: string,
  times: number,
  {
    config,
    manifests = '',
    options = [],
    nodeOptions = [],
    env: more = {},
  }: {
    readonly config: readonly string[];
    readonly manifests?: string;
    readonly options?: readonly string[];
    readonly nodeOptions?: readonly string[];
    readonly env?: Readonly<Record<string, string>>;
  },
): Promise<Running & { readonly stateDirectory: string }> {
  // /run is a tmpfs where systemd runs.
  const directory = fs.mkdtempSync(
    path.join(fs.existsSync('/dev/shm') ? '/dev/shm' : os.tmpdir(), 'nodewarden-bench-'),
  );
  const file = writeConfiguration(directory, config);
  if (manifests !== '') fs.writeFileSync(path.join(directory, 'pods.d/pods.yaml'), manifests, { mode: 0o644 });
  const socket = path.join(directory, 'notify');
  const hears = spawn('/usr/bin/perl', ['-e', NOTIFIED, socket], { stdio: ['ignore', 'pipe', 'inherit'] });
  await lineOf(hears, (line) => line === 'bound');
  const { flags, environment } = readUnitStart(UNIT);
  const startMs: number[] = [];
  for (;;) {
    const atMs = clock.monoMs();
    const argv = [...flags, ...nodeOptions, BUNDLE, 'run', '--config', file, ...options];
    const env = { ...process.env, ...environment, ...more, NOTIFY_SOCKET: socket };
    const agent = spawn(process.execPath, argv, { env, stdio: 'ignore' });
    const ready = await lineOf(hears, (line) => line.endsWith(' READY=1'));
    startMs.push(Number(ready.split(' ')[0]) - atMs);
    const stop = (): Promise<void> => end(agent);
    if (startMs.length < times) {
      await stop();
      continue;
    }
    const stopAll = async (): Promise<void> => {
      await stop();
      await end(hears);
      fs.rmSync(directory, { recursive: true });
    };
    return { name, pid: agent.pid ?? 0, startMs, stop: stopAll, stateDirectory: path.join(directory, 'state') };
  }
}

function writeConfiguration(directory: string, more: readonly string[]): string {
  const file = path.join(directory, 'config.yaml');
  for (const made of ['pods.d', 'state', 'run']) fs.mkdirSync(path.join(directory, made), { mode: 0o700 });
  const lines = [
    'apiVersion: nodewarden.dev/v1alpha1',
    'kind: NodewardenConfiguration',
    `podManifests: ${directory}/pods.d`,
    `stateDirectory: ${directory}/state`,
    `runtimeDirectory: ${directory}/run`,
    `socket: ${directory}/run/nodewarden.sock`,
    ...more,
  ];
  fs.writeFileSync(file, `${lines.join('\n')}\n`, { mode: 0o644 });
  return file;
}

/** Those that this machine has, and the interpreter alone: nothing written for it can be smaller. */
export function idlePeers(times: number): readonly Peer[] {
  return [
    {
      name: 'node alone',
      start: async () => {
        const child = spawn(process.execPath, ['-e', 'setInterval(() => undefined, 1e9)'], { stdio: 'ignore' });
        return { name: 'node alone', pid: child.pid ?? 0, startMs: [], stop: () => end(child) };
      },
    },
    { name: 'earlyoom', start: () => startEarlyoom(times) },
    { name: 'systemd-oomd', start: () => startOomd(times) },
  ];
}

/** It kills nothing, and looks as always. Ready when it says what memory there is. */
async function startEarlyoom(times: number): Promise<Running | string> {
  if (!has('earlyoom')) return 'the package earlyoom is not installed';
  const startMs: number[] = [];
  for (;;) {
    const atMs = clock.monoMs();
    const child = spawn('earlyoom', ['--dryrun', '-r', '3600'], { stdio: ['ignore', 'pipe', 'pipe'] });
    await lineOf(child, (line) => line.startsWith('mem avail'));
    startMs.push(clock.monoMs() - atMs);
    if (startMs.length === times) return { name: 'earlyoom', pid: child.pid ?? 0, startMs, stop: () => end(child) };
    await end(child);
  }
}

async function startOomd(times: number): Promise<Running | string> {
  if (!fs.existsSync('/run/systemd/system')) return 'systemd is not running here: --guest measures it in a guest';
  if (!fs.existsSync(OOMD)) return 'the package systemd-oomd is not installed';
  const systemctl = (...args: readonly string[]): string =>
    execFileSync('systemctl', args, { encoding: 'utf8', stdio: 'pipe' }).trim();
  const startMs: number[] = [];
  while (startMs.length < times) {
    systemctl('stop', 'systemd-oomd.service');
    // Else systemd refuses the sixth start within 10 s.
    systemctl('reset-failed', 'systemd-oomd.service');
    const atMs = clock.monoMs();
    // Type=notify: returns when it has said READY.
    systemctl('start', 'systemd-oomd');
    startMs.push(clock.monoMs() - atMs);
  }
  const pid = Number(systemctl('show', '-P', 'MainPID', 'systemd-oomd'));
  return { name: 'systemd-oomd', pid, startMs, stop: async () => void systemctl('stop', 'systemd-oomd') };
}

/** The first such line of either output. */
function lineOf(child: ChildProcess, isMeant: (line: string) => boolean): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    const hear = (chunk: Buffer): void => {
      text += chunk.toString();
      const line = text.split('\n').slice(0, -1).find(isMeant);
      if (line === undefined) return;
      for (const stream of [child.stdout, child.stderr]) stream?.off('data', hear);
      child.off('exit', gone);
      resolve(line);
    };
    const gone = (): void => reject(new Error(`${child.spawnfile} has ended: ${text}`));
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', hear);
    child.once('exit', gone);
  });
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGTERM');
  await gone;
}
