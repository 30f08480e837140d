import { readlinkSync, statSync } from 'node:fs';
import { known, type Reading, unknown } from '../core/reading.ts';
import type { Clock } from '../ports.ts';
import { sleep } from './clock.ts';
import { listDirectory, readText } from './files.ts';

/** The kubelet of this machine, as it was started. */
type KubeletProcess = { readonly argv: readonly string[]; readonly cwd: string };

const PROCESSES_MAX = 50_000;
/** At a time: the looks have to come in between. */
const SLICE = 100;
const MAX_BYTES = 128 * 1024;

/** One that tenants run under this name is in a pod. k3s and others have the kubelet within another program: then there is none. */
export async function findKubelet(clock: Clock, proc = '/proc'): Promise<Reading<KubeletProcess>> {
  const names = listDirectory(proc, PROCESSES_MAX);
  if (!names.known) return names;
  const pids = names.value.filter((name) => /^\d+$/.test(name));
  for (const [at, pid] of pids.entries()) {
    if (at % SLICE === SLICE - 1) await sleep(clock, 1);
    const found = kubeletAt(`${proc}/${pid}`);
    if (found !== null) return known(found);
  }
  return unknown('absent', proc, 'no process of the name kubelet');
}

function kubeletAt(directory: string): KubeletProcess | null {
  const read = (file: string): string => {
    const text = readText(`${directory}/${file}`, MAX_BYTES);
    return text.known ? text.value : '';
  };
  if (read('comm') !== 'kubelet\n') return null;
  const cgroup = read('cgroup');
  if (cgroup === '' || cgroup.includes('kubepods')) return null;
  try {
    if (statSync(directory).uid !== 0) return null;
    return { argv: read('cmdline').split('\0').slice(0, -1), cwd: readlinkSync(`${directory}/cwd`) };
  } catch {
    return null; // It has ended.
  }
}
