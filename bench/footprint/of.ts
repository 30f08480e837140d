import fs from 'node:fs';
import path from 'node:path';

export type Memory = {
  readonly rssMiB: number;
  /** Shared pages count in parts. */
  readonly pssMiB: number;
  /** Heap and stacks; the rest are pages of files, which the kernel has anyway. */
  readonly anonymousMiB: number;
};

/** The process first, then its children: the helpers of a daemon. Empty: it is gone. */
export function memoryOf(pid: number): readonly Memory[] {
  return [pid, ...childrenOf(pid)].flatMap((one) => {
    const text = read(`/proc/${one}/smaps_rollup`);
    const mib = (field: string): number => Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(text)?.[1]) / 1024;
    return text === '' ? [] : [{ rssMiB: mib('Rss'), pssMiB: mib('Pss'), anonymousMiB: mib('Anonymous') }];
  });
}

/** What all threads of it and of its children ran. */
export function cpuMsOf(pid: number): number {
  return [pid, ...childrenOf(pid)].reduce((sum, one) => sum + ownCpuMsOf(one), 0);
}

/** What its own threads ran, by the scheduler's clock: ticks of 10 ms are too coarse for a tenth of a percent. */
export function ownCpuMsOf(pid: number): number {
  const ns = tasksOf(pid).map((task) => Number(read(path.join(task, 'schedstat')).split(' ')[0]));
  return ns.reduce((sum, one) => sum + one, 0) / 1e6;
}

/** What its children ran that have ended, and theirs, in ticks of 10 ms. */
export function endedCpuMsOf(pid: number): number {
  const [, , ...fields] = read(`/proc/${pid}/stat`)
    .replace(/\(.*\)/, '()')
    .split(' ');
  return (Number(fields[13]) + Number(fields[14])) * 10;
}

function childrenOf(pid: number): readonly number[] {
  return tasksOf(pid).flatMap((task) =>
    read(path.join(task, 'children'))
      .split(' ')
      .filter((text) => text.trim() !== '')
      .map(Number),
  );
}

function tasksOf(pid: number): readonly string[] {
  const all = `/proc/${pid}/task`;
  return fs.existsSync(all) ? fs.readdirSync(all).map((task) => path.join(all, task)) : [];
}

function read(file: string): string {
  try {
    return fs.readFileSync(file, 'latin1');
  } catch {
    return ''; // A thread or a process that has ended.
  }
}
