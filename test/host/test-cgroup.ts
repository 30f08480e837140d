import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs';
import { onTestFinished } from 'vitest';
import { type CgroupMounts, findCgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { createClock, sleep } from '../../src/host/clock.ts';
import { startWorkload, type Workload } from '../../src/host/process/workload.ts';

export const clock = createClock();
/** Ends only a run that hangs; a guest without hardware help is ten times slower. */
const DEADLINE_MS = 45_000;

/** Null where tests cannot make cgroups. */
export const machine: CgroupMounts | null = ((): CgroupMounts | null => {
  const mounts = findCgroupMounts();
  if (!mounts.known || process.getuid?.() !== 0) return null;
  try {
    accessSync(mounts.value.memory, constants.W_OK);
    return mounts.value;
  } catch {
    return null; // Mounted read-only, as in a container.
  }
})();

export async function until(isTrue: () => boolean): Promise<void> {
  const endMs = clock.monoMs() + DEADLINE_MS;
  while (!isTrue()) {
    if (clock.monoMs() > endMs) throw new Error('it did not become true');
    await sleep(clock, 5);
  }
}

let count = 0;

/** The path, below the mount, of a new cgroup in the given hierarchies; it goes after the test with all that is in it. */
export function aCgroup(...hierarchies: readonly string[]): string {
  const path = `/nodewarden-test-${process.pid}-${++count}`;
  for (const hierarchy of new Set(hierarchies)) {
    mkdirSync(hierarchy + path);
    onTestFinished(() => removeCgroup(hierarchy + path));
  }
  return path;
}

export async function removeCgroup(directory: string): Promise<void> {
  if (!existsSync(directory)) return;
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    if (entry.isDirectory()) await removeCgroup(`${directory}/${entry.name}`);
  }
  await until(() => {
    for (const pid of readFileSync(`${directory}/cgroup.procs`, 'latin1').split('\n').filter(Boolean)) {
      try {
        process.kill(Number(pid), 'SIGKILL');
      } catch {
        // Ended meanwhile.
      }
    }
    try {
      rmdirSync(directory);
      return true;
    } catch {
      return false; // EBUSY until the kernel has torn the processes down.
    }
  });
}

/** Runs `script` in Node inside the cgroups and resolves when it wrote a line; it ends with the test. */
export async function aProcess(script: string, ...directories: readonly string[]): Promise<Workload> {
  let isReady = false;
  const started = startWorkload({
    argv: [process.execPath, '-e', `${script}; console.log('ready'); setInterval(() => undefined, 1000)`],
    join: directories,
    monoMs: clock.monoMs,
    line: () => {
      isReady = true;
    },
  });
  if (typeof started === 'string') throw new Error(started);
  onTestFinished(() => started.kill('SIGKILL'));
  await until(() => isReady);
  return started;
}

export function enter(directory: string, pid: number): void {
  writeFileSync(`${directory}/cgroup.procs`, String(pid));
}

export function limitMemory(mounts: CgroupMounts, path: string, bytes: number): void {
  const file = mounts.version === 1 ? 'memory.limit_in_bytes' : 'memory.max';
  writeFileSync(`${mounts.memory}${path}/${file}`, String(bytes));
}
