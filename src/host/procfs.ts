import { opendirSync } from 'node:fs';
import type { Psi, StallAverages } from '../core/observation.ts';
import { ifKnown, known, type Reading } from '../core/reading.ts';
import { isUnsupported } from './file-error.ts';
import {
  garbled,
  key,
  noLine,
  openKernelFile,
  openNumberFile,
  parseKeyed,
  readKernelFile,
  readKernelFileShared,
} from './kernel-file.ts';
import { type KernelsOwn, readKernelsOwn } from './memory/kernels-own.ts';
import { bytesOf, type KernelKind, kibOf, type Meminfo, parseKernelKinds, parseMeminfo } from './memory/meminfo.ts';

/** A counter: how long all tasks were stalled on memory, in ms. `absent` if the kernel does not record pressure. */
export type StallTime = { readonly stalledMs: () => Reading<number>; readonly close: () => void };
type PsiResource = 'memory' | 'io' | 'cpu';
export type Procfs = {
  readonly memTotalBytes: () => Reading<number>;
  readonly meminfo: () => Reading<Meminfo>;
  readonly kernelKinds: () => Reading<readonly KernelKind[]>;
  /** The number of threads that exist (kubelet-eviction.md 1.3.2). */
  readonly tasks: () => Reading<number>;
  /** The smaller of pid_max and threads-max; one that cannot be read is left out (kubelet-eviction.md 1.3.1). */
  readonly pidLimit: () => Reading<number>;
  /** A counter: how many processes the kernel's OOM killer has killed since boot. */
  readonly oomKills: () => Reading<number>;
  /** Takes longer than a look, and the longer the more CPUs there are. */
  readonly kernelsOwn: () => Reading<KernelsOwn>;
  /** `absent` if the kernel has no /proc/pressure or it is switched off. */
  readonly psi: (resource: PsiResource) => Reading<Psi>;
  /** For the whole machine. */
  readonly memoryStallMs: () => Reading<number>;
  readonly onlineCpus: () => Reading<number>;
  readonly close: () => void;
};

const MEM_TOTAL = key('MemTotal:');
const OOM_KILL = key('oom_kill ');

/** meminfo and vmstat: 2 to 5 KiB on 6.18. */
const TEXT_BYTES = 64 * 1024;
const LINE_BYTES = 4096;
/** One entry per hierarchy, each with a path of up to 4 KiB. */
const CGROUP_BYTES = 128 * 1024;

/** Facts about the whole machine, from `<root>/proc` and `<root>/sys`; files that a look needs stay open. */
export function createProcfs(root = ''): Procfs {
  const paths = { meminfo: `${root}/proc/meminfo`, vmstat: `${root}/proc/vmstat`, loadavg: `${root}/proc/loadavg` };
  const meminfo = openKernelFile(paths.meminfo, TEXT_BYTES, 'at-once');
  const vmstat = openKernelFile(paths.vmstat, TEXT_BYTES, 'in-pieces');
  const loadavg = openKernelFile(paths.loadavg, LINE_BYTES, 'at-once');
  const pidLimits = ['pid_max', 'threads-max'].map((name) => openNumberFile(`${root}/proc/sys/kernel/${name}`));
  const pressure = (resource: PsiResource) =>
    openKernelFile(`${root}/proc/pressure/${resource}`, LINE_BYTES, 'at-once');
  const memoryStall = openStallTime(`${root}/proc/pressure/memory`);
  const stalls = { memory: pressure('memory'), io: pressure('io'), cpu: pressure('cpu') };
  const readMeminfo = (): Reading<Meminfo> =>
    ifKnown(meminfo.read(), (bytes) => known(parseMeminfo(bytes, paths.meminfo)));
  return {
    memTotalBytes: () => ifKnown(meminfo.read(), (bytes) => kibOf(bytes, MEM_TOTAL, paths.meminfo)),
    meminfo: readMeminfo,
    kernelKinds: () => ifKnown(meminfo.read(), (bytes) => parseKernelKinds(bytes, paths.meminfo)),
    tasks: () => ifKnown(loadavg.read(), (bytes) => parseLoadavgTasks(bytes.toString('latin1'), paths.loadavg)),
    pidLimit: () => smallest(pidLimits.map((file) => file.read())),
    oomKills: () =>
      ifKnown(
        vmstat.read(),
        (bytes) => parseKeyed(bytes, OOM_KILL, '', paths.vmstat) ?? noLine(paths.vmstat, 'oom_kill (Linux 4.13)'),
      ),
    kernelsOwn: () => readKernelsOwn(root, readMeminfo),
    psi: (resource) => {
      const bytes = stalls[resource].read();
      if (bytes.known) return parsePsi(bytes.value.toString('latin1'), `${root}/proc/pressure/${resource}`);
      // Older kernels booted with psi=0 still show the files.
      return isUnsupported(bytes) ? { ...bytes, why: 'absent' } : bytes;
    },
    memoryStallMs: memoryStall.stalledMs,
    onlineCpus: () => {
      const path = `${root}/sys/devices/system/cpu/online`;
      return ifKnown(readKernelFile(path, LINE_BYTES), (bytes) => parseCpuList(bytes.toString('latin1'), path));
    },
    close: () => {
      for (const file of [meminfo, vmstat, loadavg, memoryStall, ...pidLimits, ...Object.values(stalls)]) file.close();
    },
  };
}

/** The number after the slash in the fourth field: threads, not processes. */
function parseLoadavgTasks(text: string, where: string): Reading<number> {
  const tasks = /^\d+\.\d\d \d+\.\d\d \d+\.\d\d \d+\/(\d+) \d+\n$/.exec(text)?.[1];
  return tasks === undefined ? garbled(text, where) : known(Math.min(Number(tasks), Number.MAX_SAFE_INTEGER));
}

function smallest(limits: readonly Reading<number>[]): Reading<number> {
  const values = limits.filter((limit) => limit.known).map(({ value }) => value);
  const failed = limits.find((limit) => !limit.known);
  return values.length > 0 || failed === undefined ? known(Math.min(...values)) : failed;
}

const PSI = /^(?:some (?<some>[^\n]*)\n)(?:full (?<full>[^\n]*)\n)?$/;
const STALL = /^avg10=(\d{1,3}\.\d\d) avg60=(\d{1,3}\.\d\d) avg300=(\d{1,3}\.\d\d) total=\d+$/;

/** `full` is null if the kernel has none: cpu before 5.13. */
function parsePsi(text: string, where: string): Reading<Psi> {
  const groups = PSI.exec(text)?.groups;
  const some = parseStall(groups?.['some']);
  const fullText = groups?.['full'];
  const full = parseStall(fullText);
  if (some === null || (fullText !== undefined && full === null)) return garbled(text, where);
  return known({ some, full });
}

function parseStall(text: string | undefined): StallAverages | null {
  const [, avg10, avg60, avg300] = STALL.exec(text ?? '') ?? [];
  return avg10 === undefined ? null : { avg10: Number(avg10), avg60: Number(avg60), avg300: Number(avg300) };
}

const FULL_STALL = /^full .* total=(\d{1,16})$/m;

/** On a kept descriptor. */
export function openStallTime(path: string): StallTime {
  const file = openKernelFile(path, LINE_BYTES, 'at-once');
  return {
    stalledMs: () => {
      const bytes = file.read();
      if (bytes.known) return stalledMsIn(bytes.value, path);
      return isUnsupported(bytes) ? { ...bytes, why: 'absent' } : bytes;
    },
    close: file.close,
  };
}

/** Written in microseconds. */
export function stalledMsIn(bytes: Buffer, where: string): Reading<number> {
  const text = bytes.toString('latin1');
  const total = text.endsWith('\n') ? FULL_STALL.exec(text)?.[1] : undefined;
  return total === undefined ? garbled(text, where) : known(Number(total) / 1_000);
}

/** `0-3,8,10-11` */
function parseCpuList(text: string, where: string): Reading<number> {
  if (!/^\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*\n$/.test(text)) return garbled(text, where);
  const ranges = text.trim().split(',');
  const counts = ranges.map((range) => {
    const [first = 0, last = first] = range.split('-').map(Number);
    return last - first + 1;
  });
  if (counts.some((count) => count < 1)) return garbled(text, where);
  return known(counts.reduce((sum, count) => sum + count, 0));
}

/** The name that the process gave itself, up to 15 bytes of anything: to be escaped before it is shown. */
export function processName(pid: number, root = ''): Reading<string> {
  const bytes = readKernelFile(`${root}/proc/${pid}/comm`, LINE_BYTES);
  return ifKnown(bytes, (name) => known(name.toString('utf8').replace(/\n$/, '')));
}

const VM_RSS = key('VmRSS:');
/** Any living thread shows the memory of the whole process. */
const FEW_THREADS = 16;

/** Resident memory. 0 if it has none: a kernel thread, or an ended process that was not reaped. */
export function rssBytes(pid: number, root = ''): Reading<number> {
  const where = `${root}/proc/${pid}/status`;
  const bytes = readKernelFile(where, LINE_BYTES);
  if (!bytes.known) return bytes;
  // Not statm: it counts in pages, whose size would have to be looked up.
  return bytesOf(parseKeyed(bytes.value, VM_RSS, ' kB', where) ?? ofOtherThreads(pid, root));
}

/** A main thread that has ended shows none, although the other threads still have it. In KiB. */
function ofOtherThreads(pid: number, root: string): Reading<number> {
  for (const tid of root === '' ? threadsOf(pid, FEW_THREADS) : []) {
    const where = `/proc/${pid}/task/${tid}/status`;
    const bytes = tid === pid ? null : readKernelFile(where, LINE_BYTES);
    const kib = bytes?.known === true ? parseKeyed(bytes.value, VM_RSS, ' kB', where) : null;
    if (kib?.known === true) return kib;
  }
  return known(0);
}

/** As /proc names it. */
export type Thread = `${number}/task/${number}`;

/**
 * By controller (`memory`, `name=systemd`; those of a joint hierarchy separately); the unified hierarchy is `''`. Paths are
 * bytes, as latin1: a name may contain anything but a line end.
 */
export function cgroupPathsOf(process: number | Thread, root = ''): Reading<ReadonlyMap<string, string>> {
  const where = `${root}/proc/${process}/cgroup`;
  const bytes = readKernelFileShared(where, CGROUP_BYTES);
  return bytes.known ? parseCgroupPaths(bytes.value.toString('latin1'), where) : bytes;
}

function parseCgroupPaths(text: string, where: string): Reading<ReadonlyMap<string, string>> {
  const paths = new Map<string, string>();
  if (!text.endsWith('\n')) return garbled(text, where);
  for (const line of text.slice(0, -1).split('\n')) {
    // A path may contain colons; a list of controllers may not.
    const first = line.indexOf(':');
    const second = line.indexOf(':', first + 1);
    const isNumbered = first > 0 && /^\d+$/.test(line.slice(0, first));
    if (!isNumbered || second < 0 || line[second + 1] !== '/') return garbled(line, where);
    const path = line.slice(second + 1);
    for (const controller of line.slice(first + 1, second).split(',')) paths.set(controller, path);
  }
  return known(paths);
}

/** At most this many threads of a process; empty if it is gone. */
export function threadsOf(pid: number, max: number): readonly number[] {
  const tids: number[] = [];
  try {
    const directory = opendirSync(`/proc/${pid}/task`, { bufferSize: 256 });
    try {
      for (let entry = directory.readSync(); entry !== null && tids.length < max; entry = directory.readSync()) {
        tids.push(Number(entry.name));
      }
    } finally {
      directory.closeSync();
    }
  } catch {
    // It ended.
  }
  return tids;
}

const PF_KTHREAD = 0x0020_0000;
const PF_EXITING = 0x4;

export function isKernelThread(pid: number, root = ''): Reading<boolean> {
  return hasFlag(pid, PF_KTHREAD, root);
}

/** This thread, or the main one, is ending. Version 1 no longer shows its cgroup then, although it is in it until it has ended. */
export const isExiting = (thread: number | Thread): Reading<boolean> => hasFlag(thread, PF_EXITING, '');

function hasFlag(pid: number | Thread, flag: number, root: string): Reading<boolean> {
  const flags = statField(pid, 6, /^\d{1,10}$/, root);
  return flags.known ? known(Math.floor(Number(flags.value) / flag) % 2 === 1) : flags;
}

/** The state letter of its main thread, as in ps. */
export function processState(pid: number): Reading<string> {
  return statField(pid, 0, /^[A-Za-z]$/, '');
}

/** `hasEnded`: only its parent has not noticed. `startedTicks`: since boot, in clock ticks. */
export type Descent = { readonly hasEnded: boolean; readonly session: number; readonly startedTicks: number };

/** State, parent, group, session, and the start time 16 fields later. */
const DESCENT = /^([A-Za-z]) \d+ \d+ (\d{1,10}) (?:-?\d+ ){15}(\d{1,15}) /;

export function descentOf(pid: number): Reading<Descent> {
  const where = `/proc/${pid}/stat`;
  const bytes = readKernelFileShared(where, LINE_BYTES);
  if (!bytes.known) return bytes;
  const text = bytes.value.toString('latin1');
  const fields = DESCENT.exec(text.slice(text.lastIndexOf(')') + 2));
  if (fields === null) return garbled(text, where);
  const [, state = '', session, started] = fields;
  return known({ hasEnded: 'ZX'.includes(state), session: Number(session), startedTicks: Number(started) });
}

/** Fields are counted from the state, the first one after the name. */
function statField(pid: number | Thread, index: number, form: RegExp, root: string): Reading<string> {
  const where = `${root}/proc/${pid}/stat`;
  const bytes = readKernelFileShared(where, LINE_BYTES);
  if (!bytes.known) return bytes;
  const text = bytes.value.toString('latin1');
  // The name before the last ")" may contain anything.
  const field = text.slice(text.lastIndexOf(')') + 2).split(' ')[index];
  return field === undefined || !form.test(field) ? garbled(text, where) : known(field);
}
