import { killCgroup } from '../act/kill.ts';
import type { Asked, KillEnd } from '../act/kill-order.ts';
import { oldestStartMs } from '../act/oldest-start.ts';
import type { CgroupMounts } from '../host/cgroup-mounts.ts';
import { hasProcesses, refOf } from '../host/cgroupfs.ts';
import type { DyingHelp } from '../host/dying-help.ts';
import type { Systemd } from '../host/systemd.ts';
import type { CgroupRef, Clock, Findings, StopOrder } from '../ports.ts';
import { cgroupPlace } from './bind.ts';
import { askUnit } from './stop-units.ts';

type StopUnlistedNeeds = {
  readonly clock: Clock;
  readonly mounts: CgroupMounts;
  readonly cgroupRoot: string;
  readonly systemd: Systemd;
  readonly findings: Findings;
  readonly help?: DyingHelp | undefined;
};
/** The former binding of a victim that no manifest binds there any more. */
type Unlisted = { readonly ref: CgroupRef; readonly unit: string | null };

/**
 * Continues the stop of a victim that an earlier run had signalled, and whose manifest was removed, broken or edited while
 * no agent ran: until it has ended, no other pod may be evicted in its place (D3). Null: no process that ran at the decision
 * is left there.
 */
export async function findUnlisted(needs: StopUnlistedNeeds, order: StopOrder): Promise<Unlisted | null> {
  const { mounts, cgroupRoot, systemd } = needs;
  const { victim, resumedFromMs, sentBefore, why } = order;
  if (why !== 'eviction' || resumedFromMs === null || sentBefore === undefined) return null;
  const [, kind, name] = /^(cgroup|unit) (.+)$/s.exec(victim.boundTo ?? '') ?? [];
  if (name === undefined) return null;
  const facts = kind === 'unit' ? await systemd.unit(name) : null;
  const path =
    facts === null
      ? cgroupPlace(cgroupRoot, { kind: 'cgroup', path: name }).path
      : facts.known
        ? facts.value.controlGroup
        : null;
  const ref = path === null ? null : refOf(mounts, path);
  if (ref === null || !ref.known || ref.value.inode !== (victim.cgroupInode ?? ref.value.inode)) return null;
  const oldestMs = oldestStartMs(mounts, ref.value);
  const isLeft = hasProcesses(mounts, ref.value) && oldestMs !== null && oldestMs <= resumedFromMs;
  return isLeft ? { ref: ref.value, unit: kind === 'unit' ? name : null } : null;
}

export function stopUnlisted(
  needs: StopUnlistedNeeds,
  { ref, unit }: Unlisted,
  order: StopOrder,
  how: Pick<Parameters<typeof killCgroup>[0], 'hasten' | 'signalled'>,
): Promise<KillEnd> {
  const { clock, mounts, help } = needs;
  const { first, graceMs, givesBack, usedBefore } = order;
  const request = unit === null ? null : (): Promise<Asked> => askUnit(needs, unit);
  const isAtOnce = first === 'sigkill';
  if (isAtOnce) void request?.();
  const ask = isAtOnce ? null : request;
  return killCgroup({ clock, mounts, ref, first, graceMs, givesBack, usedBefore, ask, help, ...how });
}
