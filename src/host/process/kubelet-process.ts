import { readlinkSync, statSync } from 'node:fs';
import { known, type Reading, unknown } from '../../core/reading.ts';
import type { Clock } from '../../ports.ts';
import { codeOf } from '../file-error.ts';
import { readText } from '../files.ts';
import { scanProcesses } from './process-scan.ts';

/** The kubelet of this machine, as it was started. */
export type KubeletProcess = { readonly argv: readonly string[]; readonly cwd: string };

const MAX_BYTES = 128 * 1024;

/**
 * A process of this name that tenants run is in a pod, and does not count. In k3s and others, the kubelet is part of
 * another program: then there is none.
 */
export async function findKubelet(clock: Clock, proc = '/proc'): Promise<Reading<KubeletProcess>> {
  const found = await scanProcesses(clock, kubeletAt, 1, { proc });
  if (!found.known) return found;
  const [kubelet] = found.value;
  return kubelet === undefined ? unknown('absent', proc, 'there is no process named kubelet') : known(kubelet);
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
    return { argv: read('cmdline').split('\0').slice(0, -1), cwd: targetOf(`${directory}/cwd`) };
  } catch {
    return null; // It has ended.
  }
}

/** Only root may read where it leads. Others get the link, through which they can read nothing either. */
function targetOf(link: string): string {
  try {
    return readlinkSync(link);
  } catch (cause) {
    if (codeOf(cause) === 'EACCES') return link;
    throw cause;
  }
}
