import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

/** The agent seen from outside, while every pod is at rest. */
export type Sample = {
  readonly minute: number;
  readonly rssKiB: number;
  /** Anonymous part of it: heap, stacks, buffers. Null where the kernel does not tell. */
  readonly anonKiB: number | null;
  readonly descriptors: number;
  readonly threads: number;
  readonly children: number;
  readonly cgroups: number;
  readonly stateBytes: number;
  readonly runtimeBytes: number;
  readonly runtimeFiles: number;
  /** Of the agent since its start. */
  readonly cpuSeconds: number;
  /** Of the machine, over the last minute. */
  readonly load: number;
};

/** USER_HZ on every Linux that Node.js runs on. */
const TICKS_A_SECOND = 100;

/** Throws when the process is gone. */
export function sampleAgent(pid: number, minute: number, cgroups: number, state: string, runtime: string): Sample {
  const status = fs.readFileSync(`/proc/${pid}/status`, 'latin1');
  const number = (field: string): number | null => {
    const found = new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(status)?.[1];
    return found === undefined ? null : Number(found);
  };
  const stat = fs.readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const children = fs
    .readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1')
    .split(' ')
    .filter((one) => one !== '');
  return {
    minute,
    rssKiB: number('VmRSS') ?? Number.NaN,
    anonKiB: number('RssAnon'),
    descriptors: fs.readdirSync(`/proc/${pid}/fd`).length,
    threads: number('Threads') ?? Number.NaN,
    children: children.length,
    cgroups,
    stateBytes: bytesIn(state),
    runtimeBytes: bytesIn(runtime),
    runtimeFiles: fs.readdirSync(runtime).length,
    cpuSeconds: (Number(fields[11]) + Number(fields[12])) / TICKS_A_SECOND,
    load: Math.round((os.loadavg()[0] ?? Number.NaN) * 100) / 100,
  };
}

function bytesIn(directory: string): number {
  return fs.readdirSync(directory).reduce((sum, name) => sum + fs.lstatSync(path.join(directory, name)).size, 0);
}
