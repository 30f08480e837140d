import { known, type Reading, type Unknown, unknown } from '../core/reading.ts';
import {
  type BoundedCgroup,
  listBoundedCgroups,
  openBoundedCgroup,
  removeBoundedCgroup,
} from '../host/cgroup/bounded-cgroup.ts';
import { type CgroupMounts, findCgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import {
  listScratchDirectories,
  makeScratchDirectory,
  removeScratchDirectory,
} from '../host/disk/scratch-directory.ts';
import { ensureDirectory, writeAtomic } from '../host/files.ts';
import { startTicks } from '../host/process/workload.ts';
import type { Clock } from '../ports.ts';
import { configOf, DEMO_PODS, type DemoPaths, manifestOf, NODE_MAX_PIDS, NODE_MEMORY_BYTES } from './load.ts';

/** The demo's node: a bounded cgroup, and a private directory with the agent's configuration and manifests. */
export type DemoNode = {
  readonly mounts: CgroupMounts;
  readonly cgroup: BoundedCgroup;
  readonly directory: string;
  /** In memory, like /run: the agent's state, sockets. */
  readonly runtimeDirectory: string;
  readonly configFile: string;
  /** Ends everything in it and removes both; the sentences say what is left. */
  readonly close: () => Promise<readonly string[]>;
};

/** Followed by the pid and start of the process, so that a later run knows which creators are dead. */
const PREFIX = 'nodewarden-demo-';
const NAME = /(?:^|\/)nodewarden-demo-([0-9]{1,10})-([0-9]{1,16})(?:[.-][^/]*)?$/;

/** If the real demo lacks something here, that is the `detail` of the unknown. */
export async function openDemoNode(clock: Clock): Promise<Reading<DemoNode>> {
  const uid = process.getuid?.();
  if (uid !== 0) return unknown('absent', 'root', `not root (uid ${uid}), and only root can create cgroups`);
  const mounts = findCgroupMounts();
  if (!mounts.known) return unknown(mounts.why, mounts.where, `no memory cgroups: ${mounts.where}: ${mounts.detail}`);
  const name = `${PREFIX}${process.pid}-${startTicks(process.pid) ?? 0}`;
  const limits = { memoryBytes: NODE_MEMORY_BYTES, maxPids: NODE_MAX_PIDS };
  const cgroup = await openBoundedCgroup({ mounts: mounts.value, clock, name, ...limits });
  if (!cgroup.known) return unknown(cgroup.why, cgroup.where, `${cgroup.where}: ${cgroup.detail}`);
  const directory = makeScratchDirectory(`${name}-`, 'disk');
  const runtime = makeScratchDirectory(`${name}-`, 'memory');
  const close = async (): Promise<readonly string[]> => {
    const left = [await cgroup.value.remove()];
    for (const made of [directory, runtime]) if (made.known) left.push(removeScratchDirectory(made.value));
    return left.filter((sentence) => sentence !== null);
  };
  const without = async ({ where, detail }: Unknown): Promise<Unknown> => {
    await close();
    return unknown('unreadable', where, `no private directory for the agent: ${where}: ${detail}`);
  };
  if (!directory.known) return await without(directory);
  if (!runtime.known) return await without(runtime);
  const paths = { directory: directory.value, runtimeDirectory: runtime.value };
  const files = writeFiles({ ...paths, cgroupRoot: cgroup.value.path });
  if (!files.known) return await without(files);
  const configFile = `${directory.value}/config.yaml`;
  return known({ mounts: mounts.value, cgroup: cgroup.value, ...paths, configFile, close });
}

/** Removes what killed runs left, and says what it was. Works without cgroups. */
export async function clearLeftovers(clock: Clock): Promise<readonly string[]> {
  const mounts = findCgroupMounts();
  const cgroups = mounts.known && process.getuid?.() === 0 ? listBoundedCgroups(mounts.value, PREFIX) : [];
  const said: string[] = [];
  for (const name of cgroups.filter(isAbandoned)) {
    const left = mounts.known ? await removeBoundedCgroup(mounts.value, name, clock) : null;
    said.push(left ?? `removed the cgroup ${name} that a killed demo left behind`);
  }
  for (const path of listScratchDirectories(PREFIX).filter(isAbandoned)) {
    said.push(removeScratchDirectory(path) ?? `removed the directory ${path} that a killed demo left behind`);
  }
  return said;
}

/** Its creator is gone: there is no such process, or another one got the same pid. */
function isAbandoned(name: string): boolean {
  const [, pid, ticks] = NAME.exec(name) ?? [];
  return pid !== undefined && startTicks(Number(pid)) !== Number(ticks);
}

function writeFiles(paths: DemoPaths): Reading<true> {
  const { directory } = paths;
  const files = [
    [`${directory}/config.yaml`, configOf(paths)],
    ...DEMO_PODS.map((pod) => [`${directory}/pods.d/${pod.name}.yaml`, JSON.stringify(manifestOf(pod))]),
  ];
  for (const name of ['pods.d', 'state']) {
    const made = ensureDirectory(`${directory}/${name}`, 0o700);
    if (!made.known) return made;
  }
  for (const [path, text] of files) {
    const written = writeAtomic(String(path), String(text), 0o600);
    if (!written.known) return written;
  }
  return known(true);
}
