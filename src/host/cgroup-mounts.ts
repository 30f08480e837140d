import { known, type Reading, unknown } from '../core/reading.ts';
import { readKernelFile } from './kernel-file.ts';

/** Directories are absolute, without a slash at the end. */
export type CgroupMounts = {
  readonly layout: 'v1' | 'v2' | 'hybrid';
  /** Where the controllers are: a hybrid host is version 1 (kubelet-eviction.md 1.1.3). */
  readonly version: 1 | 2;
  /** The cgroup2 mount; in a hybrid layout it has no controllers. */
  readonly unified: string | null;
  /** Version 2: the unified mount. */
  readonly memory: string;
  /** Null: no pids controller. */
  readonly pids: string | null;
  /** systemd's own tree: the unified one on version 2, `name=systemd` on version 1. */
  readonly systemd: string | null;
};

/** Hosts with tens of thousands of mounts exist (one per volume). */
const MOUNTINFO_BYTES = 16 * 1024 * 1024;
const CONTROLLERS_BYTES = 4096;

type Mount = { readonly point: string; readonly type: string; readonly options: readonly string[] };

/** Detected from `<root>/proc/self/mountinfo` (a captured tree; '' = this machine). Unknown where no memory controller is mounted whole. */
export function findCgroupMounts(root = ''): Reading<CgroupMounts> {
  const where = `${root}/proc/self/mountinfo`;
  const bytes = readKernelFile(where, MOUNTINFO_BYTES);
  if (!bytes.known) return bytes;
  const mounts = parseMountinfo(bytes.value.toString('utf8'));
  const v1 = (option: string): string | null => {
    const found = mounts.find(({ type, options }) => type === 'cgroup' && options.includes(option));
    return found === undefined ? null : root + found.point;
  };
  const cgroup2 = mounts.find(({ type }) => type === 'cgroup2');
  const unified = cgroup2 === undefined ? null : root + cgroup2.point;
  const controllers = unified === null ? known([]) : readControllers(unified);
  if (unified !== null && controllers.known && controllers.value.includes('memory')) {
    const pids = controllers.value.includes('pids') ? unified : null;
    return known({ layout: 'v2', version: 2, unified, memory: unified, pids, systemd: unified });
  }
  const memory = v1('memory');
  if (memory !== null) {
    const layout = unified === null ? 'v1' : 'hybrid';
    return known({ layout, version: 1, unified, memory, pids: v1('pids'), systemd: v1('name=systemd') });
  }
  if (!controllers.known) return controllers;
  return unknown('absent', where, 'no mount of a cgroup hierarchy with the memory controller');
}

/** Where a controller of version 1 is mounted whole; null: it is not. */
export function findHierarchy(controller: 'cpu' | 'freezer'): string | null {
  const bytes = readKernelFile('/proc/self/mountinfo', MOUNTINFO_BYTES);
  if (!bytes.known) return null;
  const found = parseMountinfo(bytes.value.toString('utf8')).find(
    ({ type, options }) => type === 'cgroup' && options.includes(controller),
  );
  return found?.point ?? null;
}

function readControllers(unified: string): Reading<readonly string[]> {
  const bytes = readKernelFile(`${unified}/cgroup.controllers`, CONTROLLERS_BYTES);
  return bytes.known ? known(bytes.value.toString('latin1').trim().split(' ')) : bytes;
}

/**
 * The cgroup mounts that show their whole hierarchy, those below /sys/fs/cgroup first: a bind mount of a part of it (root
 * other than `/`) would give paths another meaning than /proc/PID/cgroup does.
 */
function parseMountinfo(text: string): readonly Mount[] {
  const mounts = new Map<string, Mount>();
  for (const line of text.split('\n')) {
    const [before = '', after = ''] = line.split(' - ', 2);
    const [, , , top, point] = before.split(' ');
    const [type, , options] = after.split(' ');
    if (point === undefined || type === undefined) continue;
    // A later mount on the same point hides the earlier one, whatever it is.
    mounts.delete(point);
    if (top !== '/' || options === undefined || (type !== 'cgroup' && type !== 'cgroup2')) continue;
    mounts.set(point, { point: unescapeOctal(point), type, options: options.split(',') });
  }
  const isUsual = ({ point }: Mount): number => (/^\/sys\/fs\/cgroup(\/|$)/.test(point) ? 0 : 1);
  return [...mounts.values()].sort((a, b) => isUsual(a) - isUsual(b));
}

/** The kernel writes blank, tab, line end and backslash as three octal digits. */
function unescapeOctal(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}
