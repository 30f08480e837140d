import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type BoundedCgroup, openBoundedCgroup } from '../../src/host/cgroup/bounded-cgroup.ts';
import { type CgroupMounts, findCgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { refOf } from '../../src/host/cgroup/cgroupfs.ts';
import { createClock } from '../../src/host/clock.ts';
import type { CgroupRef } from '../../src/ports.ts';

const found = findCgroupMounts();
/** Why no cgroup can be made here; null = it can. */
export const noCgroups: string | null =
  process.getuid?.() !== 0
    ? 'needs root'
    : found.known && found.value.pids !== null
      ? null
      : 'needs memory and pids cgroups';

export function realMounts(): CgroupMounts {
  if (!found.known) throw new Error(`${found.where}: ${found.detail}`);
  return found.value;
}

export const MIB = 2 ** 20;
export type TestNode = {
  readonly path: string;
  readonly mounts: CgroupMounts;
  /** Of the memory controller. */
  readonly directory: string;
  readonly write: (name: string, text: string, controller?: 'memory' | 'pids') => void;
  readonly addPod: (name: string) => TestPod;
  readonly remove: () => Promise<void>;
};
export type TestPod = {
  readonly ref: () => CgroupRef;
  readonly directory: string;
  /** A process in it that holds so much anonymous memory. Resolves when it does. */
  readonly start: (bytes: number) => Promise<ChildProcess>;
  /** Runs a shell script in it to its end. */
  readonly run: (script: string) => void;
};

let count = 0;

/** A bounded cgroup of this test's own, with real limits on memory and pids. */
export async function openTestNode(memoryBytes: number, maxPids: number): Promise<TestNode> {
  const mounts = realMounts();
  const name = `nodewarden-test-${process.pid}-${++count}`;
  const opened = await openBoundedCgroup({ mounts, clock: createClock(), name, memoryBytes, maxPids });
  if (!opened.known) throw new Error(`${opened.where}: ${opened.detail}`);
  const cgroup: BoundedCgroup = opened.value;
  const directory = join(mounts.memory, cgroup.path);
  const directoryOf = (controller: 'memory' | 'pids'): string =>
    controller === 'memory' ? directory : join(mounts.pids ?? '', cgroup.path);
  return {
    path: cgroup.path,
    mounts,
    directory,
    write: (file, text, controller = 'memory') => writeFileSync(join(directoryOf(controller), file), text),
    addPod: (pod) => {
      // Version 2 gives controllers from parent to child only when told to.
      const parent = pod.split('/').slice(0, -1).join('/');
      const control = join(directory, parent, 'cgroup.subtree_control');
      if (parent !== '' && mounts.version === 2) writeFileSync(control, '+memory +pids');
      const directories = cgroup.addChild(pod);
      if (!directories.known) throw new Error(directories.detail);
      return testPod(mounts, `${cgroup.path}/${pod}`, directories.value);
    },
    remove: async () => {
      const left = await cgroup.remove();
      if (left !== null) throw new Error(left);
    },
  };
}

const JOIN = 'for directory in "$@"; do echo $$ > "$directory/cgroup.procs"; done';
const HOLD = '$| = 1; my $held = "x" x $ARGV[0]; print "held\\n"; sleep 600';

function testPod(mounts: CgroupMounts, path: string, directories: readonly string[]): TestPod {
  return {
    directory: join(mounts.memory, path),
    ref: () => {
      const ref = refOf(mounts, path);
      if (!ref.known) throw new Error(ref.detail);
      return ref.value;
    },
    start: async (bytes) => {
      const script = `${JOIN}; exec perl -e '${HOLD}' ${bytes}`;
      const child = spawn('sh', ['-c', script, 'sh', ...directories], { stdio: ['ignore', 'pipe', 'inherit'] });
      await new Promise<void>((resolve, reject) => {
        child.stdout.once('data', () => resolve());
        child.once('exit', (code, signal) => reject(new Error(`it ended with ${code ?? signal}`)));
      });
      return child;
    },
    run: (script) => {
      try {
        execFileSync('sh', ['-c', `${JOIN}; ${script}`, 'sh', ...directories], { stdio: 'ignore' });
      } catch {
        // The script may be killed: that is what some tests want.
      }
    },
  };
}
