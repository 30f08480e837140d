import { known, type Reading, unknown } from '../../core/reading.ts';
import { type Mount, readMounts } from '../disk/mounts.ts';
import { readKernelFile } from '../kernel-file.ts';

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
  /** Version 2: what a cgroup's `memory.min` protects, its children share (5.7, systemd 248). */
  readonly isProtectionRecursive?: boolean;
};

const CONTROLLERS_BYTES = 4096;

/** Detected from `<root>/proc/self/mountinfo` (a captured tree; '' = this machine). Unknown where no memory controller is mounted whole. */
export function findCgroupMounts(root = ''): Reading<CgroupMounts> {
  const where = `${root}/proc/self/mountinfo`;
  const all = readMounts(where);
  if (!all.known) return all;
  const mounts = wholeHierarchies(all.value);
  const v1 = (option: string): string | null => pointOf(mounts.find(isVersion1With(option)), root);
  const version2 = mounts.find(({ type }) => type === 'cgroup2');
  const unified = pointOf(version2, root);
  const controllers = unified === null ? known([]) : readControllers(unified);
  if (unified !== null && controllers.known && controllers.value.includes('memory')) {
    const pids = controllers.value.includes('pids') ? unified : null;
    const isRecursive = version2?.options.split(',').includes('memory_recursiveprot') === true;
    const found = { layout: 'v2', version: 2, unified, memory: unified, pids, systemd: unified } as const;
    return known(isRecursive ? { ...found, isProtectionRecursive: true } : found);
  }
  const memory = v1('memory');
  if (memory !== null) {
    const layout = unified === null ? 'v1' : 'hybrid';
    return known({ layout, version: 1, unified, memory, pids: v1('pids'), systemd: v1('name=systemd') });
  }
  if (!controllers.known) return controllers;
  return unknown('absent', where, 'no mount of a cgroup hierarchy with the memory controller');
}

/** The mount point of the whole hierarchy of a version 1 controller; null: none. */
export function findHierarchy(controller: 'cpu' | 'freezer'): string | null {
  const all = readMounts();
  return all.known ? pointOf(wholeHierarchies(all.value).find(isVersion1With(controller))) : null;
}

const isVersion1With =
  (option: string) =>
  ({ type, options }: Mount): boolean =>
    type === 'cgroup' && options.split(',').includes(option);

const pointOf = (mount: Mount | undefined, root = ''): string | null =>
  mount === undefined ? null : root + Buffer.from(mount.at, 'latin1').toString();

function readControllers(unified: string): Reading<readonly string[]> {
  const bytes = readKernelFile(`${unified}/cgroup.controllers`, CONTROLLERS_BYTES);
  return bytes.known ? known(bytes.value.toString('latin1').trim().split(' ')) : bytes;
}

/**
 * The cgroup mounts that show their whole hierarchy, those below /sys/fs/cgroup first. In a bind mount of a part of it (root
 * other than `/`), paths would mean something other than in /proc/PID/cgroup.
 */
function wholeHierarchies(all: readonly Mount[]): readonly Mount[] {
  // A later mount on the same point hides the earlier one, whatever it is.
  const last = new Map<string, Mount>();
  for (const mount of all) {
    last.delete(mount.at);
    last.set(mount.at, mount);
  }
  const isCgroup = ({ type }: Mount): boolean => type === 'cgroup' || type === 'cgroup2';
  const whole = [...last.values()].filter((mount) => mount.top === '/' && isCgroup(mount));
  const isUsual = ({ at }: Mount): number => (/^\/sys\/fs\/cgroup(\/|$)/.test(at) ? 0 : 1);
  return whole.sort((a, b) => isUsual(a) - isUsual(b));
}
