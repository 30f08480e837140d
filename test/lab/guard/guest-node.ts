// A guest with a real kubelet as a machine: its power is the process of its QEMU, and it boots from its disk when it is switched
// on. fence_qemu finds it where the scripts of the guests keep it.
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { LAB_CACHE, signalPart } from '../kube/cluster.ts';
import type { Lab } from './lab.ts';
import type { Machine, PodStarted } from './machine.ts';
import { aQemu, isOn, type Qemu } from './qemu.ts';
import { aRealMachine } from './real-machine.ts';

const LAB = path.resolve(import.meta.dirname, '..');
const NAME = `${process.env['LAB_KUBE'] ?? 'guard'}-guest`;
/** Another one for each cluster of this machine, of the network that QEMU makes up. */
const ADDRESS = `10.0.2.${20 + (Number(process.env['LAB_KUBE_PORT'] ?? 0) % 200)}`;
const KUBELET_PORT = 10_250;
const FORWARD = `tcp:${ADDRESS}:${KUBELET_PORT}-${ADDRESS}:${KUBELET_PORT}`;
/** An emulated processor that shares this machine's boots in a minute or more. */
export const BOOT_MS = 900_000;
const NEEDED = [
  '/usr/bin/qemu-system-x86_64',
  '/usr/bin/qemu-img',
  '/sys/fs/cgroup/memory/cgroup.procs',
  path.join(LAB_CACHE, 'vm/key'),
  path.join(process.env['KUBEBUILDER_ASSETS'] ?? path.join(LAB_CACHE, 'kube/bin'), 'kubelet'),
];

export type GuestNode = {
  readonly name: string;
  /** Where its kubelet listens, from this machine as well. */
  readonly kubelet: { readonly host: string; readonly port: number };
  readonly qemu: Qemu;
  readonly machine: (started: PodStarted) => Machine;
  /** A command of its shell, and what it prints. */
  readonly run: (command: string) => Promise<string>;
  /** Installs the node agent: what its configuration has beside what reaches the node, and in `kubernetes`. */
  readonly install: (config: string, kubernetes: string) => Promise<void>;
  /** The power button of a machine that has switched itself off. */
  readonly switchOn: () => Promise<void>;
};

/** Awaited, all of it: this process stands between the guard and the API server, and its machines have to renew. */
async function script(file: string, args: readonly string[], env: NodeJS.ProcessEnv = {}, input = ''): Promise<string> {
  const options = { encoding: 'utf8', env: { ...process.env, LAB_VM: NAME, ...env } } as const;
  const running = promisify(execFile)(file, args, options);
  // One that has not read it has ended, and its exit status says why.
  running.child.stdin?.on('error', () => undefined).end(input);
  return (await running).stdout;
}
const inLab = (file: string, ...rest: readonly string[]): Promise<string> => script(path.join(LAB, file), rest);

/** A guest and this machine as nodes, for as long as the body runs. It is skipped by its name where there can be none. */
export async function withGuestNode(lab: Lab, scene: string, body: (guest: GuestNode) => Promise<void>): Promise<void> {
  const missing = NEEDED.find((file) => !fs.existsSync(file));
  if (missing !== undefined) return lab.skip(scene, `there is no ${missing}`);
  const ends: (() => unknown)[] = [];
  try {
    await inLab('kube/node', '1g');
    ends.push(
      () => signalPart('containerd', 'SIGTERM'),
      () => signalPart('kubelet', 'SIGTERM'),
    );
    ends.push(() => inLab('vm/stop', '--purge'));
    await inLab('vm/stop', '--purge');
    await script(path.join(LAB, 'kube/vm-node'), [], { LAB_NODE_IP: ADDRESS, LAB_STATUS_EVERY: '10s' });
    const qemu = aQemu(path.join(LAB_CACHE, 'vm/run', NAME));
    writeStart(qemu);
    ends.push(() => script('ip', ['address', 'del', `${ADDRESS}/32`, 'dev', 'lo']));
    await script('ip', ['address', 'replace', `${ADDRESS}/32`, 'dev', 'lo']);
    // From its own address the guest takes no packet: QEMU passes on whichever comes from another one than loopback.
    const route = ['local', ADDRESS, 'dev', 'lo', 'table', 'local'];
    ends.push(() => script('ip', ['route', 'del', ...route]));
    await script('ip', ['route', 'replace', ...route, 'src', '127.0.0.1']);
    await qemu.tell('human-monitor-command', { 'command-line': `hostfwd_add n0 ${FORWARD}` });
    await body({
      name: NAME,
      kubelet: { host: ADDRESS, port: KUBELET_PORT },
      qemu,
      machine: (started) => guestMachine(qemu, started),
      run: (command) => inLab('vm/run', command),
      install,
      switchOn: async () => void (await script(path.join(qemu.directory, 'start'), [])),
    });
  } finally {
    for (const end of ends.reverse()) await end();
  }
}

async function install(config: string, kubernetes: string): Promise<void> {
  const directory = fs.mkdtempSync(path.join(tmpdir(), 'nodewarden-lab-'));
  try {
    await script(process.execPath, [path.resolve(LAB, '../../scripts/dist.mjs'), '--outdir', directory]);
    const [release] = fs.readdirSync(directory).filter((name) => name.endsWith('.tar.gz'));
    await script(
      path.join(LAB, 'kube/vm-agent'),
      [path.join(directory, release ?? '')],
      { MORE_KUBERNETES: kubernetes },
      config,
    );
  } finally {
    fs.rmSync(directory, { recursive: true });
  }
}

/** It starts the QEMU that runs now once more, whose kubelet this machine reaches then as well. */
function writeStart({ directory, pid }: Qemu): void {
  const file = (of: string): string => path.join(directory, of);
  const given = fs.readFileSync(`/proc/${pid()}/cmdline`, 'utf8').replaceAll('\0', '\n');
  fs.writeFileSync(file('arguments'), given.replace('user,id=n0', `$&,hostfwd=${FORWARD}`));
  const start = `#!/bin/sh
export NODEWARDEN_LAB_CACHE='${LAB_CACHE}' LAB_VM='${NAME}'
exec '${path.join(LAB, 'vm/again')}' '${file('arguments')}'
`;
  fs.writeFileSync(file('start'), start, { mode: 0o755 });
}

function guestMachine(qemu: Qemu, started: PodStarted): Machine {
  /** Its processor stands still in that process. */
  let stopped: number | null = null;
  return aRealMachine(
    {
      name: NAME,
      directory: qemu.directory,
      isOn: () => isOn(qemu),
      lives: () => isOn(qemu) && qemu.pid() !== stopped,
      kubelet: (state) => {
        stopped = state === 'silent' ? qemu.pid() : null;
        void qemu.tell(state === 'silent' ? 'stop' : 'cont');
      },
    },
    started,
  );
}
