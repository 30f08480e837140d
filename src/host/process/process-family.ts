import { readKernelFile } from '../kernel-file.ts';
import { processName, threadsOf } from '../procfs.ts';

const CHILDREN_BYTES = 64 * 1024;
const ARGUMENTS_BYTES = 2 * 1024 * 1024;
/** Of one family, and of each of them. */
const MAX_PROCESSES = 200;
const MAX_THREADS = 64;

/** A process, its children, and theirs; nothing of what has ended. */
export function familyOf(pid: number): readonly number[] {
  const family = [pid];
  for (let at = 0; at < family.length && family.length < MAX_PROCESSES; at++) {
    const parent = family[at] ?? pid;
    for (const tid of threadsOf(parent, MAX_THREADS)) family.push(...childrenOf(parent, tid));
  }
  return family.slice(0, MAX_PROCESSES);
}

function childrenOf(pid: number, tid: number): readonly number[] {
  const listed = readKernelFile(`/proc/${pid}/task/${tid}/children`, CHILDREN_BYTES);
  return listed.known ? listed.value.toString('latin1').split(' ').filter(Boolean).map(Number) : [];
}

/**
 * The name of the process if its arguments, which every user of the machine may read, hold one of the texts; else null. Null
 * also if it becomes another program meanwhile: whose arguments they were is not known.
 */
export function tellsInArguments(pid: number, texts: readonly string[]): string | null {
  const before = processName(pid);
  const line = readKernelFile(`/proc/${pid}/cmdline`, ARGUMENTS_BYTES);
  if (!line.known || !texts.some((text) => line.value.includes(text))) return null;
  const name = processName(pid);
  if (before.known && name.known && before.value !== name.value) return null;
  // It may have ended by then.
  const last = name.known ? name : before;
  return last.known ? last.value : `process ${pid}`;
}
