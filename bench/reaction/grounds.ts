import path from 'node:path';
import { openBoundedCgroup } from '../../src/host/cgroup/bounded-cgroup.ts';
import { findCgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { oomKillsOf } from '../../src/host/cgroup/cgroup-oom.ts';
import { refOf } from '../../src/host/cgroup/cgroupfs.ts';
import { startWorkload } from '../../src/host/process/workload.ts';
import { clock, type Scene, until } from '../../test/lab/scene.ts';

/** What a hog and who ends it need of a node; a scene of the lab has it as well. */
export type Grounds = Pick<Scene, 'cgroups'> & { readonly kernelOomKills: () => number | Promise<number> };

const LOAD = path.join(import.meta.dirname, '../../test/lab/load.pl');
const MAX_PIDS = 256;
let made = 0;

/** A bounded node in which no agent runs, with a cgroup for each pod. */
export async function withGrounds(
  memoryMiB: number,
  pods: readonly string[],
  body: (grounds: Grounds) => Promise<void>,
): Promise<void> {
  const mounts = findCgroupMounts();
  if (!mounts.known) throw new Error(`no cgroups: ${mounts.detail}`);
  const name = `nodewarden-bench-${process.pid}-${made++}`;
  const needs = { mounts: mounts.value, clock, name, memoryBytes: memoryMiB * 1024 * 1024, maxPids: MAX_PIDS };
  const node = await openBoundedCgroup(needs);
  if (!node.known) throw new Error(`no node: ${node.detail}`);
  try {
    const directories = new Map(pods.map((pod) => [pod, node.value.addChild(pod)]));
    const ref = refOf(mounts.value, node.value.path);
    await body({
      cgroups: (pod) => {
        const directory = directories.get(pod);
        if (directory?.known !== true) throw new Error(`no cgroup for ${pod}`);
        return directory.value;
      },
      kernelOomKills: async () => {
        const counted = ref.known ? await oomKillsOf(mounts.value, ref.value) : ref;
        if (!counted.known) throw new Error(counted.detail);
        return counted.value;
      },
    });
  } finally {
    const left = await node.value.remove();
    if (left !== null) console.error(left);
  }
}

export type Bystander = { readonly isAlive: () => boolean; readonly end: () => void };

/** Holds its memory and does nothing else. */
export async function startBystander(join: readonly string[], memoryMiB: number): Promise<Bystander> {
  let isDone = false;
  const argv = ['/usr/bin/perl', LOAD, `memory ${memoryMiB}`];
  const line = (text: string): void => {
    isDone ||= text === 'done';
  };
  const workload = startWorkload({ argv, join, monoMs: clock.monoMs, line });
  if (typeof workload === 'string') throw new Error(workload);
  const end = (): void => workload.kill('SIGKILL');
  try {
    await until('the bystander holds its memory', () => isDone || null);
  } catch (error) {
    end();
    throw error;
  }
  return { isAlive: workload.isAlive, end };
}
