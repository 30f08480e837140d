import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Reading } from '../../src/core/reading.ts';
import { openMemory } from '../../src/host/cgroup/cgroup-memory.ts';
import { type CgroupMounts, findCgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { openCgroupStall, podStall } from '../../src/host/cgroup/cgroup-stall.ts';
import { openCgroupSwap, swapBytes } from '../../src/host/cgroup/cgroup-swap.ts';
import { anonBytes, isPopulated, openPids, processesOf, refOf } from '../../src/host/cgroup/cgroupfs.ts';
import { cgroupPathsOf, createProcfs, isKernelThread, processName, rssBytes } from '../../src/host/procfs.ts';
import { createNodeMemory } from '../../src/observe/memory.ts';
import { must, read } from './oracle.ts';
import { type Attempt, type Example, example, type Target, type Workplace } from './target.ts';

/** A file of a captured tree: `<fixture>/<path>` and a line end, then what stands in it. */
type Damage = { readonly fixture: string; readonly path: string; readonly content: Buffer };

/** What a file may be instead of one; as the whole content of an example. */
const MISSING = '<missing>';
const DIRECTORY = '<directory>';
const LINK = '<link>';

function filesOf(fixtures: string, isOurs: (path: string) => boolean): readonly string[] {
  const names = readdirSync(fixtures, { recursive: true, encoding: 'utf8' });
  return names.filter((name) => statSync(join(fixtures, name)).isFile() && isOurs(name.slice(name.indexOf('/') + 1)));
}

function examplesOf(isOurs: (path: string) => boolean) {
  return ({ root }: Workplace): readonly Example[] => {
    const fixtures = join(root, 'test/fixtures');
    return filesOf(fixtures, isOurs).flatMap((name) => {
      const file = example(readFileSync(join(fixtures, name)), `${name}\n`);
      // The three other kinds once for each name of a file are enough.
      return [file, file, file, ...[MISSING, DIRECTORY, LINK].map((kind) => example(kind, `${name}\n`))];
    });
  };
}

function damageOf(input: Buffer): Damage {
  const end = input.indexOf(0x0a);
  const name = input.toString('utf8', 0, Math.max(0, end));
  const slash = name.indexOf('/');
  return { fixture: name.slice(0, slash), path: name.slice(slash + 1), content: input.subarray(end + 1) };
}

function put(file: string, content: Buffer): void {
  rmSync(file, { recursive: true, force: true });
  const kind = content.length < 20 ? content.toString() : '';
  if (kind === MISSING) return;
  if (kind === DIRECTORY) mkdirSync(file);
  else if (kind === LINK) symlinkSync('/proc/meminfo', file);
  else writeFileSync(file, content);
}

/** Reads a copy of the captured tree with one file damaged, then mends it. */
function inDamagedTree(readAll: (root: string, path: string) => boolean) {
  return ({ root, scratch }: Workplace): Attempt => {
    const copies = join(scratch, 'fixtures');
    cpSync(join(root, 'test/fixtures'), copies, { recursive: true });
    return (input) => {
      const { fixture, path, content } = damageOf(input);
      const file = join(copies, fixture, path);
      if (fixture === '' || path === '') return false;
      put(file, content);
      try {
        return readAll(join(copies, fixture), path);
      } finally {
        put(file, readFileSync(join(root, 'test/fixtures', fixture, path)));
      }
    };
  };
}

const isProc = (path: string): boolean =>
  (path.startsWith('proc/') && !path.endsWith('mountinfo')) || path.startsWith('sys/devices');

const machine: Target = {
  name: 'proc-files',
  syntax: 'text',
  examples: examplesOf(isProc),
  open: inDamagedTree((root) => {
    const procfs = createProcfs(root);
    try {
      const all = [
        procfs.memTotalBytes(),
        procfs.meminfo(),
        procfs.tasks(),
        procfs.pidLimit(),
        procfs.oomKills(),
        procfs.kernelsOwn(),
        procfs.psi('memory'),
        procfs.memoryStallMs(),
        procfs.psi('io'),
        procfs.psi('cpu'),
        procfs.onlineCpus(),
      ];
      read(all, 'procfs');
      const cpus = procfs.onlineCpus();
      must(!cpus.known || cpus.value > 0, 'a machine without a CPU', () => JSON.stringify(cpus));
      return all.every(({ known }) => known);
    } finally {
      procfs.close();
    }
  }),
};

const mountinfo: Target = {
  name: 'mountinfo',
  syntax: 'text',
  examples: examplesOf((path) => path.endsWith('mountinfo') || path.endsWith('cgroup.controllers')),
  open: inDamagedTree((root) => {
    const mounts = findCgroupMounts(root);
    read(mounts, 'mountinfo');
    if (!mounts.known) return false;
    for (const path of [mounts.value.memory, mounts.value.pids, mounts.value.systemd, mounts.value.unified]) {
      must(path === null || path.startsWith(`${root}/`), 'a mount outside its root', () => String(path));
    }
    return true;
  }),
};

/** The cgroup that the file is of, whichever hierarchy it lies in. */
function cgroupOf(path: string, root: string, mounts: CgroupMounts): string {
  const directory = dirname(join(root, path));
  const mount = [mounts.memory, mounts.pids, mounts.unified].find(
    (point) => point !== null && (directory === point || directory.startsWith(`${point}/`)),
  );
  return mount === undefined || mount === null ? '/' : directory.slice(mount.length) || '/';
}

const cgroups: Target = {
  name: 'cgroup-files',
  syntax: 'text',
  examples: examplesOf((path) => path.startsWith('sys/fs/cgroup')),
  open: inDamagedTree((root, path) => {
    const mounts = findCgroupMounts(root);
    read(mounts, 'mountinfo');
    if (!mounts.known) return false;
    const cgroup = cgroupOf(path, root, mounts.value);
    const all = [...controllersOf(mounts.value, cgroup), ...identityOf(mounts.value, cgroup)];
    const node = nodeOf(mounts.value, cgroup, root);
    // Not every kernel accounts them.
    const some = swapAndStallOf(mounts.value, cgroup);
    for (const one of [...all, ...some]) read(one, 'a cgroup');
    // More in use than there is, is a negative amount (kubelet-eviction.md 1.1.6).
    for (const one of node) read(one, 'a node', 'negative too');
    return [...all, ...node].filter((one) => !one.known).length <= 3;
  }),
};

function controllersOf(mounts: CgroupMounts, cgroup: string): readonly Reading<unknown>[] {
  const memory = openMemory(mounts, cgroup);
  const pids = openPids(mounts, cgroup);
  const swap = openCgroupSwap(mounts, cgroup);
  try {
    const use = memory.read();
    must(!use.known || use.value.workingSetBytes <= use.value.usageBytes, 'a working set larger than the usage');
    return [use, memory.limit(), memory.stat(), pids.current(), pids.max(), swap.freeBytes()];
  } finally {
    for (const open of [memory, pids, swap]) open.close();
  }
}

function swapAndStallOf(mounts: CgroupMounts, cgroup: string): readonly Reading<unknown>[] {
  const stall = openCgroupStall(mounts, cgroup);
  const swap = openCgroupSwap(mounts, cgroup);
  const ref = refOf(mounts, cgroup);
  try {
    const ofPod = ref.known ? [podStall(mounts, ref.value), swapBytes(mounts, ref.value)] : [ref];
    return [stall.stalledMs(), swap.use(), ...ofPod];
  } finally {
    for (const open of [stall, swap]) open.close();
  }
}

function identityOf(mounts: CgroupMounts, cgroup: string): readonly Reading<unknown>[] {
  const ref = refOf(mounts, cgroup);
  if (!ref.known) return [ref];
  const inside = [isPopulated, processesOf, anonBytes] as const;
  return [ref, ...inside.map((ask) => ask(mounts, ref.value))];
}

function nodeOf(mounts: CgroupMounts, cgroupRoot: string, root: string): readonly Reading<unknown>[] {
  const procfs = createProcfs(root);
  const memory = createNodeMemory({ mounts, procfs, cgroupRoot, memoryAvailable: 'reclaimable' });
  try {
    return [memory.available(1_000), ...Object.values(memory.figures(12_000))];
  } finally {
    memory.close();
    procfs.close();
  }
}

const PROCESS = {
  status: 'Name:\tweb\nUmask:\t0022\nState:\tS (sleeping)\nVmPeak:\t  2612 kB\nVmRSS:\t    936 kB\nThreads:\t1\n',
  stat: '77 (web) server) S 1 77 77 0 -1 4194560 95 0 0 0 0 0 0 0 20 0 1 0 9261 2674688 234 18446744073709551615 1 1 0\n',
  comm: 'web) S 1\n',
  cgroup:
    '12:pids:/system.slice/web.service\n4:memory,hugetlb:/system.slice/web.service\n1:name=systemd:/a:b\n0::/system.slice\n',
};

const processes: Target = {
  name: 'process-files',
  syntax: 'text',
  examples: () => Object.entries(PROCESS).map(([name, text]) => example(text, `${name}\n`)),
  open: ({ scratch }) => {
    const directory = join(scratch, 'proc/77');
    mkdirSync(directory, { recursive: true });
    for (const [name, text] of Object.entries(PROCESS)) writeFileSync(join(directory, name), text);
    return (input) => {
      const end = Math.max(0, input.indexOf(0x0a));
      const name = input.toString('utf8', 0, end);
      const good = Object.entries(PROCESS).find(([known]) => known === name);
      if (good === undefined) return false;
      writeFileSync(join(directory, name), input.subarray(end + 1));
      const all = [
        processName(77, scratch),
        rssBytes(77, scratch),
        isKernelThread(77, scratch),
        cgroupPathsOf(77, scratch),
      ];
      for (const one of all) read(one, 'a process');
      writeFileSync(join(directory, name), good[1]);
      return all.every(({ known }) => known);
    };
  },
};

export const KERNEL_TARGETS: readonly Target[] = [machine, mountinfo, cgroups, processes];
