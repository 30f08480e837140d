import { known, type Reading, unknown } from '../../core/reading.ts';
import { cgroupPathOf } from '../../host/cgroup/cgroup-members.ts';
import type { CgroupMounts } from '../../host/cgroup/cgroup-mounts.ts';
import type { Systemd } from '../../host/systemd/systemd.ts';
import { cgroupOfUnit } from '../../host/systemd/unit-path.ts';
import type { Target } from './annotation.ts';
import type { Place } from './place.ts';
import { type AskPodman, resolvePodman } from './podman.ts';

export type AskedOfBindings = { readonly systemd: Systemd; readonly podman: AskPodman };

/**
 * Asks systemd about each, or podman about all at once; never on the decision path. By name. Unknown = something is wrong
 * with the binding; its detail says what.
 */
export async function resolveTargets(
  { systemd, podman }: AskedOfBindings,
  kind: 'unit' | 'podman',
  names: readonly string[],
): Promise<ReadonlyMap<string, Reading<Place>>> {
  if (kind === 'podman') return resolvePodman(podman, names);
  return new Map(await Promise.all(names.map(async (name) => [name, await resolveUnit(systemd, name)] as const)));
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
  // Its slice and its other settings are not known while it is masked.
  if (loadState === 'masked' && controlGroup === null) return unknown('absent', unit, 'its unit is masked');
  return known({ path: controlGroup ?? cgroupOfUnit(id, slice), unit: id, facts: facts.value });
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
