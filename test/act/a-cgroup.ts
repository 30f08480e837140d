import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs';
import { onTestFinished } from 'vitest';
import { cgroupPathOf } from '../../src/host/cgroup/cgroup-members.ts';
import { findCgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { refOf } from '../../src/host/cgroup/cgroupfs.ts';
import { createClock, sleep } from '../../src/host/clock.ts';
import { startWorkload, type Workload } from '../../src/host/process/workload.ts';
import type { CgroupRef } from '../../src/ports.ts';

const clock = createClock();
const found = findCgroupMounts();
export const mounts = found.known ? found.value : null;
/** Why machine tests cannot run here; '' = they can. */
export const needsCgroups = process.getuid?.() !== 0 ? '[needs root]' : mounts === null ? '[needs cgroups]' : '';
let made = 0;

/** For `run`: a thread lives on after the main one has called pthread_exit. */
export const HEADLESS = `exec python3 -c '
import ctypes, threading, time
def live():
    print("up", flush=True)
    time.sleep(1000)
threading.Thread(target=live).start()
time.sleep(0.2)
ctypes.CDLL(None).pthread_exit(None)
'`;

export type TestCgroup = {
  readonly ref: CgroupRef;
  readonly path: string;
  /** Its directories, one for each hierarchy. */
  readonly roots: readonly string[];
  /** A shell script that runs in it; resolves when it has said a line. */
  readonly run: (script: string) => Promise<Workload>;
  /** A process in a new cgroup below it; `script` as in `run`. */
  readonly child: (name: string, script?: string) => Promise<Workload>;
  /** Moves a process so many levels down. */
  readonly deep: (name: string, levels: number, pid: number) => void;
  /** Moves a process in, and back out by what it returns. */
  readonly enter: (pid: number) => () => void;
  readonly limitPids: (max: number) => void;
  readonly pids: () => readonly number[];
  readonly remove: () => Promise<void>;
};

/** A cgroup of its own in the memory and pids hierarchies; `remove` ends whatever is in it. */
export function makeCgroup(): TestCgroup {
  if (mounts === null) throw new Error('no cgroups here');
  made += 1;
  const path = `/nodewarden-test-${process.pid}-${made}-${Math.floor(clock.monoMs())}`;
  const roots = [...new Set([mounts.memory, mounts.pids ?? mounts.memory])].map((mount) => mount + path);
  for (const root of roots) mkdirSync(root);
  const ref = refOf(mounts, path);
  if (!ref.known) throw new Error(ref.detail);
  const start = async (script: string, directories: readonly string[]): Promise<Workload> => {
    let said = '';
    const workload = startWorkload({
      argv: ['/bin/sh', '-c', script],
      join: directories,
      monoMs: clock.monoMs,
      line: (line) => {
        said += line;
      },
    });
    if (typeof workload === 'string') throw new Error(workload);
    while (said === '' && workload.isAlive()) await sleep(clock, 5);
    return workload;
  };
  return {
    ref: ref.value,
    path,
    roots,
    run: (script) => start(script, roots),
    child: (name, script = 'echo up; exec sleep 1000') => {
      const directories = roots.map((root) => `${root}/${name}`);
      for (const directory of directories) mkdirSync(directory);
      return start(script, directories);
    },
    deep: (name, levels, pid) => {
      for (const root of roots) moveDown(root, name, levels, pid);
    },
    enter: (pid) => {
      const home = cgroupPathOf(mounts, pid);
      if (!home.known) throw new Error(home.detail);
      writeFileSync(`${mounts.memory}${path}/cgroup.procs`, String(pid));
      return () => writeFileSync(`${mounts.memory}${home.value}/cgroup.procs`, String(pid));
    },
    limitPids: (max) => writeFileSync(`${mounts.pids}${path}/pids.max`, String(max)),
    pids: () => pidsBelow(roots[0] ?? ''),
    remove: async () => {
      for (const root of roots) {
        // Names of any bytes, and trees that are deeper than a path: nobody is left in them but for a moment.
        for (let i = 0; i < FIND_TRIES && spawnSync('find', [root, ...REMOVE]).status !== 0; i++)
          await sleep(clock, 20);
        await removeTree(root);
      }
    },
  };
}

/** A process in these directories whose parent is not, and reaps it by its own end. */
export async function unreapedIn(roots: readonly string[], seconds: string): Promise<ChildProcess> {
  const script = `if (!fork) { for (@ARGV) { open F, '>', $_; print F 0; close F } $| = 1; print 'up'; sleep 1000 } select(undef, undef, undef, ${seconds})`;
  const files = roots.map((root) => `${root}/cgroup.procs`);
  const parent = spawn('perl', ['-e', script, ...files], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void parent.kill('SIGKILL'));
  await once(parent.stdout, 'data');
  return parent;
}

export const NS_LAST_PID = '/proc/sys/kernel/ns_last_pid';
export function isPidChosen(): boolean {
  try {
    accessSync(NS_LAST_PID, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

const REPLACE = `
kill -9 $1
while [ -e /proc/$1 ]; do :; done
for try in $(seq 1000); do
  echo $(($1 - 1)) > ${NS_LAST_PID}
  sleep 1000 > /dev/null 2>&1 &
  [ $! = $1 ] && break
  kill $!
done
echo $!`;

/** Kills a process that another one reaps, and returns the one outside its cgroup that has got its id. */
export const replaced = (pid: number): number =>
  Number(spawnSync('sh', ['-c', REPLACE, 'sh', String(pid)], { encoding: 'latin1' }).stdout);

const FIND_TRIES = 10;
const REMOVE = ['-mindepth', '1', '-depth', '-type', 'd', '-delete'];

/** From descriptor to descriptor: the kernel takes no path of 4,096 bytes. */
function moveDown(root: string, name: string, levels: number, pid: number): void {
  let fd = openSync(root, 'r');
  for (let level = 1; level <= levels; level++) {
    const directory = `/proc/self/fd/${fd}/${name}`;
    mkdirSync(directory);
    const next = openSync(directory, 'r');
    closeSync(fd);
    fd = next;
  }
  writeFileSync(`/proc/self/fd/${fd}/cgroup.procs`, String(pid));
  closeSync(fd);
}

function pidsBelow(directory: string): readonly number[] {
  if (!existsSync(directory)) return [];
  const own = readFileSync(`${directory}/cgroup.procs`, 'latin1').split('\n').filter(Boolean).map(Number);
  return [...own, ...childrenOf(directory).flatMap(pidsBelow)];
}

const childrenOf = (directory: string): readonly string[] =>
  readdirSync(directory, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => `${directory}/${entry.name}`);

async function removeTree(directory: string): Promise<void> {
  while (existsSync(directory)) {
    for (const pid of pidsBelow(directory)) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It ended since it was listed.
      }
    }
    try {
      for (const child of childrenOf(directory)) await removeTree(child);
      rmdirSync(directory);
    } catch {
      // Somebody is still dying in it.
    }
    await sleep(clock, 5);
  }
}
