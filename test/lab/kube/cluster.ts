// The cluster that kube/up made: where it lies, its parts, and its pods' processes as the kernel has them.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const DEFAULT_CACHE = path.join(process.env['XDG_CACHE_HOME'] ?? path.join(os.homedir(), '.cache'), 'nodewarden-lab');
export const LAB_CACHE = process.env['NODEWARDEN_LAB_CACHE'] ?? DEFAULT_CACHE;
const CACHE = path.join(LAB_CACHE, 'kube');
const NAME = process.env['LAB_KUBE'] ?? 'default';
export const RUN = path.join(CACHE, 'run', NAME);
/** Of the API server: 20 for 1.20. */
export const minorVersion = (): number => Number(fs.readFileSync(path.join(RUN, 'minor'), 'utf8'));
export const hasAdmissionPolicies = (): boolean => minorVersion() >= 30;
export const policyVersion = (): string => (minorVersion() < 21 ? 'policy/v1beta1' : 'policy/v1');
/** Where `kubepods` lies, below each controller's mount. */
export const CGROUP_ROOT = `/nodewarden-lab/kube-${NAME}`;
export const NODE_NAME = 'lab-node';
/** Manifests of static pods. */
export const STATIC = path.join(RUN, 'static');
/** Mounted as /share in every container of the lab. */
export const SHARE = path.join(RUN, 'share');
export const AGENT_USER = `nodewarden:node:${NODE_NAME}`;
const MEMORY = '/sys/fs/cgroup/memory';
const KUBEPODS = path.join(MEMORY, CGROUP_ROOT, 'kubepods');
export const MIB = 1024 * 1024;

export type Part = 'apiserver' | 'scheduler' | 'containerd' | 'kubelet';

/** (Re)starts it and waits until it serves. */
export function startPart(part: Part, environment: { readonly [name: string]: string } = {}): void {
  const script = path.join(import.meta.dirname, 'start');
  execFileSync(script, [part], { env: { ...process.env, ...environment }, stdio: ['ignore', 'ignore', 'inherit'] });
}

export function signalPart(part: Part, signal: NodeJS.Signals | 0): void {
  process.kill(Number(fs.readFileSync(path.join(RUN, 'pid', part), 'utf8')), signal);
}

export function isRunning(part: Part): boolean {
  try {
    signalPart(part, 0);
    return true;
  } catch {
    return false;
  }
}

export const CTR = path.join(process.env['LAB_CONTAINERD'] ?? path.join(CACHE, 'deb/usr/bin'), 'ctr');
/** For the containerd that runs, in the namespace of the kubelet. */
export const ctrArguments = (...args: readonly string[]): readonly string[] => [
  ...['--address', path.join(RUN, 'containerd.sock'), '--namespace', 'k8s.io'],
  ...args,
];
export const ctr = (...args: readonly string[]): string =>
  execFileSync(CTR, ctrArguments(...args), { encoding: 'utf8', maxBuffer: 1 << 26 });

/** Loads an image of one program and so many MiB of padding. */
export function loadImage(name: string, mib: number): void {
  const file = path.join(RUN, 'image.tar');
  const script = path.join(import.meta.dirname, 'oci-image');
  execFileSync(script, [name, file, String(mib), path.join(CACHE, 'bin/load'), '--', '/bin/load']);
  ctr('images', 'import', file);
  fs.rmSync(file);
}

export const imageNames = (): readonly string[] => ctr('images', 'ls', '-q').split('\n').filter(Boolean);

/** Free bytes of the file system of the images. */
export function imagefsFree(): number {
  const { bavail, bsize } = fs.statfsSync(path.join(RUN, 'containerd'));
  return bavail * bsize;
}

export type PodsMemory = { readonly availableBytes: number; readonly capacityBytes: number };
const number = (file: string): number => Number(fs.readFileSync(file, 'utf8'));

/** allocatableMemory.available: the limit of the pods' cgroup without its working set. */
export function podsMemory(): PodsMemory {
  const capacityBytes = number(path.join(KUBEPODS, 'memory.limit_in_bytes'));
  const inactive = /^total_inactive_file (\d+)$/m.exec(fs.readFileSync(path.join(KUBEPODS, 'memory.stat'), 'utf8'));
  const usage = number(path.join(KUBEPODS, 'memory.usage_in_bytes'));
  return { availableBytes: capacityBytes - Math.max(0, usage - Number(inactive?.[1] ?? 0)), capacityBytes };
}

export type PodCgroup = { readonly uid: string; readonly directory: string };

export function podCgroups(): readonly PodCgroup[] {
  return ['', 'burstable', 'besteffort'].flatMap((qos) =>
    entriesOf(path.join(KUBEPODS, qos)).flatMap((name) =>
      name.startsWith('pod') ? [{ uid: name.slice(3), directory: path.join(KUBEPODS, qos, name) }] : [],
    ),
  );
}

/** The processes of the lab's own program in it: those of the sandbox are a shell. */
export function loadPids({ directory }: PodCgroup): readonly number[] {
  return entriesOf(directory).flatMap((container) =>
    textOf(path.join(directory, container, 'cgroup.procs'))
      .split('\n')
      .filter((pid) => pid !== '' && textOf(`/proc/${pid}/comm`) === 'load\n')
      .map(Number),
  );
}

/** In the pod and its containers: a removed cgroup takes its counter along. */
export function oomKills({ directory }: PodCgroup): number {
  return [directory, ...entriesOf(directory).map((name) => path.join(directory, name))].reduce((sum, one) => {
    const count = /^oom_kill (\d+)$/m.exec(textOf(path.join(one, 'memory.oom_control')))?.[1];
    return sum + Number(count ?? 0);
  }, 0);
}

function entriesOf(directory: string): readonly string[] {
  try {
    return fs.readdirSync(directory);
  } catch {
    return []; // It has just gone.
  }
}

function textOf(file: string): string {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

export type AuditEntry = {
  readonly atWallMs: number;
  readonly verb: string;
  readonly resource: string;
  readonly name: string;
  readonly code: number;
  readonly body: unknown;
};

/** What the agent asked of the API server since then, by the server's own log. */
export function audit(sinceWallMs: number): readonly AuditEntry[] {
  return textOf(path.join(RUN, 'audit.log'))
    .split('\n')
    .filter((line) => line.includes(AGENT_USER))
    .flatMap((line) => {
      const entry = JSON.parse(line);
      const atWallMs = Date.parse(entry.requestReceivedTimestamp);
      if (atWallMs < sinceWallMs) return [];
      const { resource = '', subresource, name = '' } = entry.objectRef ?? {};
      return [
        {
          atWallMs,
          verb: entry.verb,
          resource: subresource === undefined ? resource : `${resource}/${subresource}`,
          name,
          code: entry.responseStatus?.code ?? 0,
          body: entry.requestObject ?? null,
        },
      ];
    });
}
