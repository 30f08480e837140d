import { lstatSync, readlinkSync } from 'node:fs';
import { known, type Reading, unknown } from '../../core/reading.ts';
import { childrenOf } from '../cgroup/cgroup-walk.ts';
import { fileUnknown } from '../file-error.ts';

/**
 * Where systemd puts a unit by its own rules, in its slice under its name, so that a unit that has just started is found
 * without a query. `slice`: as reported by systemd; null: not reported, so the rules for units without `Slice=` apply.
 */
export function cgroupOfUnit(unit: string, slice: string | null): string {
  if (unit.endsWith('.slice')) return cgroupOfSlice(unit);
  const within = cgroupOfSlice(slice ?? defaultSlice(unit));
  return `${within === '/' ? '' : within}/${escapeName(unit)}`;
}

/** `a-b.slice` is in `a.slice`. */
function cgroupOfSlice(slice: string): string {
  const name = slice.slice(0, -'.slice'.length);
  if (name === '-') return '/';
  const parts = name.split('-');
  return parts.map((_, i) => `/${escapeName(`${parts.slice(0, i + 1).join('-')}.slice`)}`).join('');
}

/** Instances of a template have a slice of their own; its name escapes the dash that would nest it. */
function defaultSlice(unit: string): string {
  const at = unit.indexOf('@');
  if (at < 0 || unit.endsWith('.scope')) return 'system.slice';
  const template = unit
    .slice(0, at)
    .replace(/^\./, '\\x2e')
    .replaceAll(/[-\\]/g, (char) => (char === '-' ? '\\x2d' : '\\x5c'));
  return `system-${template}.slice`;
}

const RUNS = '/run/systemd/units';

const CONTROLLERS =
  'cpu|cpuacct|cpuset|io|blkio|memory|devices|pids|bpf-(?:firewall|devices|foreign|socket-bind|restrict-network-interfaces)';
const COLLIDES = new RegExp(`^(?:[_.]|cgroup\\.|(?:${CONTROLLERS})\\.|(?:notify_on_release|release_agent|tasks)$)`);

/** A name that could be one of the kernel's own files gets a leading underscore (cg_escape). */
function escapeName(name: string): string {
  return COLLIDES.test(name) ? `_${name}` : name;
}

/** A slice only groups units, and belongs to none. The manager of a user has units of its own below it. */
const UNIT = /^(?!user@).*\.(?:service|scope|socket|mount|swap)$/;

/** The path down to the first unit: what is below it is delegated to that unit, whatever its name. Null: there is none. */
export function unitIn(path: string): string | null {
  const parts = path.split('/');
  const at = parts.findIndex((part) => UNIT.test(part));
  return at < 0 ? null : parts.slice(0, at + 1).join('/');
}

/** The unit that a cgroup right below a slice belongs to. */
export const unitOfCgroup = (name: string): string => name.replace(/^_/, '');

const MAX_SLICES = 4_096;
/** The maximum per slice; where a unit beyond it is stays unknown until systemd answers. */
const MAX_UNITS = 4_096;

/**
 * Searches every slice below `root` for the cgroup of a unit whose slice is not known. Null: it is in none. A tenant cannot
 * create cgroups in a slice of systemd's, only below a service or a scope.
 */
export function findUnit(root: string, unit: string): string | null {
  const name = escapeName(unit);
  const slices = [''];
  for (const slice of slices) {
    const children = childrenOf(`${root}${slice}`, MAX_UNITS);
    // A slice that has ended meanwhile contains nothing.
    const names = children.known ? children.value.names : [];
    if (names.includes(name)) return `${slice}/${name}`;
    for (const found of names) {
      if (found.endsWith('.slice') && slices.length < MAX_SLICES) slices.push(`${slice}/${found}`);
    }
  }
  return null;
}

/** Whether systemd has recorded that the unit runs. */
export function hasRun(unit: string, directory = RUNS): boolean {
  return lstatSync(`${directory}/invocation:${unit}`, { throwIfNoEntry: false }) !== undefined;
}

/**
 * The current run of this unit, as systemd records it when it starts a process: this needs no query, so no answer can be
 * late. Also unknown for slices, which have no runs.
 */
export function currentRun(unit: string, directory = RUNS): Reading<string> {
  const path = `${directory}/invocation:${unit}`;
  try {
    const id = readlinkSync(path);
    return /^[0-9a-f]{32}$/.test(id) ? known(id) : unknown('malformed', path, 'not the id of a run');
  } catch (cause) {
    return fileUnknown(path, cause);
  }
}
