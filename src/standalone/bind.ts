import { known, type Reading, type Unknown, unknown } from '../core/reading.ts';
import { parseJson } from '../core/shape.ts';
import { valueAt } from '../document/check.ts';
import { cgroupPathOf } from '../host/cgroup-members.ts';
import type { CgroupMounts } from '../host/cgroup-mounts.ts';
import { type ExecResult, run } from '../host/exec.ts';
import type { Systemd } from '../host/systemd.ts';
import type { UnitFacts } from '../host/unit-facts.ts';
import { cgroupOfUnit } from '../host/unit-path.ts';
import type { Target } from './annotation.ts';

/** What a binding refers to. */
export type Place = {
  /** Its path below the mount while it runs; whether it runs is seen from the cgroup itself. Null: unknown. */
  readonly path: string | null;
  /** What is stopped through systemd; null: its processes are signalled. */
  readonly unit: string | null;
  /** Only of a systemd-unit binding. */
  readonly facts: UnitFacts | null;
};

const PODMAN_MS = 5_000;
const PODMAN_OUTPUT_BYTES = 1024 * 1024;

/**
 * Asks systemd or podman; never on the decision path. Unknown = something is wrong with the binding; its detail says
 * what.
 */
export function resolveTarget(systemd: Systemd, target: Exclude<Target, { kind: 'cgroup' }>): Promise<Reading<Place>> {
  return target.kind === 'unit' ? resolveUnit(systemd, target.unit) : resolvePodman(target.name);
}

/** Needs no query: the manifest gives the path below the node. */
export function cgroupPlace(cgroupRoot: string, target: Extract<Target, { kind: 'cgroup' }>): Place {
  return { path: `${cgroupRoot.replace(/\/+$/, '')}${target.path}`, unit: null, facts: null };
}

/** Before any query, without the bus: where systemd puts a unit that sets no slice. */
export function likelyPlace(target: Exclude<Target, { kind: 'cgroup' }>): Place {
  if (target.kind === 'podman') return { path: null, unit: null, facts: null };
  return { path: cgroupOfUnit(target.unit, null), unit: target.unit, facts: null };
}

async function resolveUnit(systemd: Systemd, unit: string): Promise<Reading<Place>> {
  const facts = await systemd.unit(unit);
  if (!facts.known) return facts;
  const { id, loadState, controlGroup, slice } = facts.value;
  // Perhaps a transient unit that will return, or one that still runs after its file was removed.
  if (loadState === 'not-found' && controlGroup === null) return unknown('absent', unit, 'systemd knows no such unit');
  return known({ path: controlGroup ?? cgroupOfUnit(id, slice), unit: id, facts: facts.value });
}

async function resolvePodman(name: string): Promise<Reading<Place>> {
  const container = await inspect('container', name);
  if (container.known) return containerPlace(name, container.value);
  if (container.why !== 'absent') return container;
  const pod = await inspect('pod', name);
  if (pod.known) return podPlace(name, pod.value);
  return pod.why === 'absent' ? unknown('absent', name, 'podman knows no container and no pod of this name') : pod;
}

async function inspect(kind: 'container' | 'pod', name: string): Promise<Reading<object>> {
  const argv = ['podman', kind, 'inspect', name];
  const result = await run(argv, { timeoutMs: PODMAN_MS, maxOutputBytes: PODMAN_OUTPUT_BYTES });
  const where = argv.join(' ');
  if (result.kind !== 'exited')
    return unknown(result.kind === 'failed' ? 'unreadable' : 'timed-out', where, sayFailure(result));
  // podman also exits with 125 for its own errors; only the message distinguishes them.
  if (result.code !== 0) {
    const isAbsent = /no such (container|pod|object)|no (container|pod) with name or id/i.test(result.stderr);
    return unknown(isAbsent ? 'absent' : 'unreadable', where, result.stderr.trim().slice(0, 300));
  }
  const parsed = parseJson(result.stdout);
  const first: unknown = Array.isArray(parsed) ? parsed[0] : parsed;
  return typeof first === 'object' && first !== null
    ? known(first)
    : unknown('malformed', where, 'not the output of podman');
}

function sayFailure(result: Exclude<ExecResult, { kind: 'exited' }>): string {
  if (result.kind === 'timed-out') return `no answer within ${PODMAN_MS / 1_000} s`;
  return result.detail.includes('ENOENT') ? 'podman is not installed here' : result.detail;
}

/** The scope that systemd made for it: `libpod-<id>.scope`, wherever the container's own cgroup is below it. */
function containerPlace(name: string, container: object): Reading<Place> {
  const id = textAt(container, 'Id');
  const path = textAt(container, 'State', 'CgroupPath');
  if (!/^[0-9a-f]{64}$/.test(id)) return unknown('malformed', name, 'podman reported no container id');
  const unit = `libpod-${id}.scope`;
  if (textAt(container, 'State', 'Status') !== 'running' || path === '') {
    const parent = textAt(container, 'HostConfig', 'CgroupParent');
    const slice = /^[A-Za-z0-9:_.\\-]+\.slice$/.test(parent) ? parent : 'machine.slice';
    return known({ path: cgroupOfUnit(unit, slice), unit, facts: null });
  }
  const parts = path.split('/');
  const at = parts.indexOf(unit);
  if (at < 0 || parts.includes('..')) return notSystemd(name, path);
  return known({ path: rooted(parts.slice(0, at + 1)), unit, facts: null });
}

function podPlace(name: string, pod: object): Reading<Place> {
  const path = textAt(pod, 'CgroupPath');
  const parts = path.split('/');
  const unit = parts.at(-1) ?? '';
  if (!/^[A-Za-z0-9_-]+\.slice$/.test(unit) || parts.includes('..')) return notSystemd(name, path);
  return known({ path: rooted(parts), unit, facts: null });
}

const notSystemd = (name: string, path: string): Unknown =>
  unknown(
    'unreadable',
    name,
    `its cgroup is ${path || 'not named'}: only Podman's systemd cgroup manager is supported`,
  );
const rooted = (parts: readonly string[]): string => `/${parts.filter((part) => part !== '').join('/')}`;

function textAt(value: unknown, ...path: readonly string[]): string {
  const at = valueAt(value, path);
  return typeof at === 'string' ? at : '';
}

export type Guarded = { readonly what: string; readonly path: string };

/** The machine cannot be recovered without them (product.md section 5). */
const GUARDED_UNITS = [
  'dbus.service',
  'dbus-broker.service',
  'systemd-logind.service',
  'systemd-journald.service',
  'systemd-udevd.service',
  // A command, such as `adopt` or `doctor`, is not the agent.
  'nodewarden.service',
];

/** The current cgroups of what no binding may contain. */
export function guardedNow(mounts: CgroupMounts): readonly Guarded[] {
  const guarded = GUARDED_UNITS.map((unit) => ({ what: unit, path: `/system.slice/${unit}` }));
  const processes = [
    { what: 'pid 1', path: cgroupPathOf(mounts, 1) },
    { what: 'nodewarden itself', path: cgroupPathOf(mounts, process.pid) },
  ];
  for (const { what, path } of processes) if (path.known) guarded.push({ what, path: path.value });
  return guarded;
}

/** Their cgroups, if an administrator has moved them. */
export async function guardedUnits(systemd: Systemd): Promise<readonly Guarded[]> {
  const asked = await Promise.all(GUARDED_UNITS.map((unit) => systemd.unit(unit)));
  return asked.flatMap((facts, i) => {
    const path = facts.known ? facts.value.controlGroup : null;
    return path === null ? [] : [{ what: GUARDED_UNITS[i] ?? '', path }];
  });
}
