import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { known, type Reading, sayCause, unknown } from '../../core/reading.ts';
import type { Clock } from '../../ports.ts';
import { startChild } from '../child-process.ts';
import { sleep } from '../clock.ts';
import type { CgroupMounts } from './cgroup-mounts.ts';

/** A cgroup of our own with limits and children, such as a container runtime makes for its pods. */
export type BoundedCgroup = {
  /** Relative to every mount, begins with '/'. */
  readonly path: string;
  /** How it was made, for people. */
  readonly made: string;
  /** Where the directories of a child are, or would be. */
  readonly childDirectories: (name: string) => readonly string[];
  /** The directories that a process must join to be in the new child. */
  readonly addChild: (name: string) => Reading<readonly string[]>;
  /** Ends every process in it and removes it. Returns a sentence about what is left; null: nothing. */
  readonly remove: () => Promise<string | null>;
};
type BoundedCgroupNeeds = {
  readonly mounts: CgroupMounts;
  readonly clock: Clock;
  /** One path element. */
  readonly name: string;
  readonly memoryBytes: number;
  readonly maxPids: number;
};

/** A dying process keeps its cgroup busy for some milliseconds; under load on a slow machine for much longer. */
const REMOVE_DEADLINE_MS = 5_000;
const REMOVE_ROUND_MS = 20;
const SCOPE_DEADLINE_MS = 5_000;
const MAX_CHILDREN = 1_000;
/** Where systemd puts the scopes of the system manager. */
const SCOPE_PARENT = 'system.slice';

const hierarchies = (mounts: CgroupMounts): readonly string[] =>
  mounts.version === 2 || mounts.pids === null ? [mounts.memory] : [mounts.memory, mounts.pids];

/**
 * Makes a cgroup with a memory and a pid limit, or says what stands in the way. Version 1: a directory under the memory
 * and the pids mount. Version 2: a delegated transient scope if systemd owns the tree, else a directory under the mount.
 */
export async function openBoundedCgroup(needs: BoundedCgroupNeeds): Promise<Reading<BoundedCgroup>> {
  if (needs.mounts.version === 1) return openVersion1(needs);
  return existsSync('/run/systemd/system') ? await openScope(needs) : openVersion2(needs);
}

/** Names of top-level cgroups that begin with `prefix`. */
export function listBoundedCgroups(mounts: CgroupMounts, prefix: string): readonly string[] {
  const parents = [...hierarchies(mounts), ...hierarchies(mounts).map((mount) => join(mount, SCOPE_PARENT))];
  const names = parents.flatMap((parent) => directoriesIn(parent)).filter((name) => name.startsWith(prefix));
  return [...new Set(names)].slice(0, MAX_CHILDREN);
}

/** Removes by name what a killed run left. Returns a sentence about what is still there; null: nothing. */
export async function removeBoundedCgroup(mounts: CgroupMounts, name: string, clock: Clock): Promise<string | null> {
  const paths = hierarchies(mounts).flatMap((mount) => [join(mount, name), join(mount, SCOPE_PARENT, name)]);
  const left: (string | null)[] = [];
  for (const path of paths) left.push(await removeTree(path, clock));
  return left.find((sentence) => sentence !== null) ?? null;
}

function openVersion1(needs: BoundedCgroupNeeds): Reading<BoundedCgroup> {
  const { mounts, name } = needs;
  if (mounts.pids === null) return unknown('absent', 'cgroup v1', 'no pids hierarchy is mounted');
  const memory = join(mounts.memory, name);
  const pids = join(mounts.pids, name);
  try {
    mkdirSync(memory);
    mkdirSync(pids);
    // Kernels before 5.11 count a child's memory in its parent only when asked; the file is gone in newer ones.
    const hierarchy = join(memory, 'memory.use_hierarchy');
    if (existsSync(hierarchy) && readFileSync(hierarchy, 'latin1').trim() === '0') writeFileSync(hierarchy, '1');
    writeFileSync(join(memory, 'memory.limit_in_bytes'), String(needs.memoryBytes));
    writeFileSync(join(pids, 'pids.max'), String(needs.maxPids));
  } catch (cause) {
    for (const path of [memory, pids]) if (existsSync(path)) rmdirSync(path);
    return unknown('unreadable', mounts.memory, `no cgroup can be created there: ${sayCause(cause)}`);
  }
  return known(opened(needs, `/${name}`, 'cgroup v1 directories'));
}

function openVersion2(needs: BoundedCgroupNeeds): Reading<BoundedCgroup> {
  const { mounts, name } = needs;
  const directory = join(mounts.memory, name);
  try {
    writeFileSync(join(mounts.memory, 'cgroup.subtree_control'), '+memory +pids');
    mkdirSync(directory);
    limitVersion2(directory, needs);
  } catch (cause) {
    if (existsSync(directory)) rmdirSync(directory);
    return unknown(
      'unreadable',
      mounts.memory,
      `no cgroup with memory and pids can be created there: ${sayCause(cause)}`,
    );
  }
  return known(opened(needs, `/${name}`, 'a cgroup v2 directory'));
}

function limitVersion2(directory: string, needs: BoundedCgroupNeeds): void {
  writeFileSync(join(directory, 'memory.max'), String(needs.memoryBytes));
  const swap = join(directory, 'memory.swap.max');
  if (existsSync(swap)) writeFileSync(swap, '0');
  writeFileSync(join(directory, 'pids.max'), String(needs.maxPids));
  writeFileSync(join(directory, 'cgroup.subtree_control'), '+memory +pids');
}

/** systemd owns the tree: it creates the scope and delegates the cgroups below it to us (Delegate=). */
async function openScope(needs: BoundedCgroupNeeds): Promise<Reading<BoundedCgroup>> {
  const unit = `${needs.name}.scope`;
  const properties = ['Delegate=yes', `MemoryMax=${needs.memoryBytes}`, 'MemorySwapMax=0', `TasksMax=${needs.maxPids}`];
  const argv = ['--scope', '--quiet', '--collect', `--unit=${unit}`, `--slice=${SCOPE_PARENT}`];
  for (const property of properties) argv.push('-p', property);
  // The holder keeps the scope alive and ends with us: its input is our pipe.
  const holder = startChild(() =>
    spawn('systemd-run', [...argv, '--', 'cat'], { stdio: ['pipe', 'ignore', 'pipe'], detached: true }),
  );
  if (typeof holder === 'string') return unknown('unreadable', 'systemd-run', holder);
  let complaint = '';
  // If no descriptor is left, it has no streams, whatever the types say.
  holder.stderr?.on('data', (chunk: Buffer) => {
    complaint = `${complaint}${chunk.toString('utf8')}`.slice(0, 500);
  });
  holder.on('error', (cause) => {
    complaint = sayCause(cause);
  });
  holder.stdin?.on('error', () => undefined);
  const directory = join(needs.mounts.memory, SCOPE_PARENT, unit);
  const inScope = (): boolean => {
    const pids = existsSync(directory) ? readFileSync(join(directory, 'cgroup.procs'), 'latin1') : '';
    return holder.pid !== undefined && pids.split('\n').includes(String(holder.pid));
  };
  const endsMs = needs.clock.monoMs() + SCOPE_DEADLINE_MS;
  while (!inScope() && holder.exitCode === null && needs.clock.monoMs() < endsMs) await sleep(needs.clock, 20);
  try {
    // Only a cgroup without processes of its own may give controllers to its children.
    mkdirSync(join(directory, 'holder'));
    writeFileSync(join(directory, 'holder', 'cgroup.procs'), String(holder.pid));
    writeFileSync(join(directory, 'cgroup.subtree_control'), '+memory +pids');
  } catch (cause) {
    holder.stdin?.end();
    holder.kill('SIGKILL');
    return unknown('unreadable', 'systemd-run', `no delegated scope: ${complaint.trim() || sayCause(cause)}`);
  }
  return known(opened(needs, `/${SCOPE_PARENT}/${unit}`, 'a delegated transient systemd scope (cgroup v2)'));
}

function opened({ mounts, clock }: BoundedCgroupNeeds, path: string, made: string): BoundedCgroup {
  const roots = hierarchies(mounts).map((mount) => join(mount, path));
  const childDirectories = (name: string): readonly string[] => roots.map((root) => join(root, name));
  return {
    path,
    made,
    childDirectories,
    addChild: (name) => {
      const directories = childDirectories(name);
      try {
        for (const directory of directories) mkdirSync(directory);
        return known(directories);
      } catch (cause) {
        return unknown('unreadable', path, `no cgroup for ${name}: ${sayCause(cause)}`);
      }
    },
    remove: async () => {
      const left: (string | null)[] = [];
      for (const root of roots) left.push(await removeTree(root, clock));
      return left.find((sentence) => sentence !== null) ?? null;
    },
  };
}

/** A fork may escape one round, and a dying process keeps its cgroup for a moment: repeat until the directory is gone. */
async function removeTree(root: string, clock: Clock): Promise<string | null> {
  const endsMs = clock.monoMs() + REMOVE_DEADLINE_MS;
  let complaint = '';
  while (existsSync(root)) {
    const tree = subtree(root);
    for (const directory of tree) for (const pid of pidsIn(directory)) killOnce(pid);
    try {
      for (const directory of tree) rmdirSync(directory);
    } catch (cause) {
      complaint = sayCause(cause);
    }
    if (clock.monoMs() > endsMs) return `${root} could not be removed: ${complaint}`;
    if (existsSync(root)) await sleep(clock, REMOVE_ROUND_MS);
  }
  return null;
}

/** Deepest first. */
function subtree(root: string): readonly string[] {
  return [...directoriesIn(root).flatMap((name) => subtree(join(root, name))), root];
}

function directoriesIn(path: string): readonly string[] {
  try {
    const entries = readdirSync(path, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
  } catch {
    return []; // Gone meanwhile, or this hierarchy never had it.
  }
}

/** Freshly opened: v1 serves a kept descriptor an old list. */
function pidsIn(directory: string): readonly number[] {
  try {
    const pids = readFileSync(join(directory, 'cgroup.procs'), 'latin1').split('\n').map(Number);
    return pids.filter((pid) => pid > 1 && pid !== process.pid);
  } catch {
    return []; // Gone meanwhile.
  }
}

function killOnce(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // Gone since the list was read; the next round reads a new one.
  }
}
