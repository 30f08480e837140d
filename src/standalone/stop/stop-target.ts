import { goneAs } from '../../act/ended.ts';
import type { Asked } from '../../act/kill-order.ts';
import { NOT_MEASURED } from '../../act/released-memory.ts';
import type { Outcome } from '../../core/outcome.ts';
import type { Victim } from '../../core/pod/pod.ts';
import type { Unknown } from '../../core/reading.ts';
import type { CgroupMounts } from '../../host/cgroup/cgroup-mounts.ts';
import { hasProcesses, isSame, whereIs } from '../../host/cgroup/cgroupfs.ts';
import { busUp } from '../../host/systemd/bus.ts';
import type { Systemd } from '../../host/systemd/systemd.ts';
import { unitOfCgroup } from '../../host/systemd/unit-path.ts';
import type { CgroupRef, Clock, Findings, StopOrder } from '../../ports.ts';
import type { LivePod, StandaloneSource } from '../pods/source.ts';
import { askUnit } from './stop-units.ts';

/** What an order stops. */
export type StopTarget = {
  readonly ref: CgroupRef;
  /** It is stopped through systemd; null: its processes are signalled. */
  readonly unit: string | null;
  /** Null: it was signalled before, and its manifest is gone or names another place by now. */
  readonly live: LivePod | null;
};
export type Ending =
  | Pick<Extract<Outcome, { kind: 'ended' }>, 'kind' | 'via' | 'releasedBytes' | 'unreaped' | 'detail'>
  | Pick<Extract<Outcome, { kind: 'survived' }>, 'kind' | 'left' | 'detail' | 'escaped'>
  | Pick<Extract<Outcome, { kind: 'dropped' }>, 'kind' | 'because'>;
type TargetNeeds = {
  readonly mounts: CgroupMounts;
  readonly source: Pick<StandaloneSource, 'pods'>;
};

/**
 * A shutdown stops what its pod is bound to now. An eviction stops only what was measured, and that until it has ended once it
 * was signalled, whatever its manifest says by then: no other pod may be evicted in its place (D3). `live`: null if no manifest
 * declares it.
 */
export function stopTarget(needs: TargetNeeds, order: StopOrder, live: LivePod | null): StopTarget | Ending {
  const { victim, why, resumedFromMs, sentBefore, usedBefore = NOT_MEASURED } = order;
  const isBound = live !== null && isBoundAs(victim, live);
  if (why === 'eviction' && sentBefore !== undefined) return signalledTarget(needs, order, isBound ? live : null);
  if (live === null) {
    if (why === 'shutdown') return goneAs(order, 'sigterm', NOT_MEASURED);
    return { kind: 'dropped', because: needs.source.pods().known ? 'rebound' : 'unresolved' };
  }
  if (!isBound && (why === 'eviction' || resumedFromMs !== null)) return { kind: 'dropped', because: 'rebound' };
  const { cgroup, unit } = live;
  if (!cgroup.known && cgroup.why !== 'absent')
    return why === 'shutdown' ? notKnown(cgroup) : { kind: 'dropped', because: 'unresolved' };
  if (why === 'shutdown') {
    return cgroup.known ? { ref: cgroup.value, unit, live } : goneAs(order, askedBy(unit), usedBefore);
  }
  if (!cgroup.known) {
    const saved = savedRef(victim);
    const isElsewhere = saved !== null && hasProcesses(needs.mounts, saved);
    return { kind: 'dropped', because: isElsewhere ? 'moved' : 'gone' };
  }
  const { path, inode } = cgroup.value;
  const measured = { path: victim.cgroupPath ?? path, inode: victim.cgroupInode ?? inode };
  if (measured.inode !== inode && measured.path !== path) return { kind: 'dropped', because: 'moved' };
  const now = whereIs(needs.mounts, measured);
  // Another run of its unit was not measured.
  return { ref: now ?? measured, unit: now?.inode === inode ? unit : null, live };
}

/** `bound`: null if its manifest is gone or names another place. */
function signalledTarget({ mounts }: TargetNeeds, order: StopOrder, bound: LivePod | null): StopTarget | Ending {
  const { victim, usedBefore = NOT_MEASURED } = order;
  const { cgroup } = bound ?? {};
  if (bound !== null && cgroup?.known === true && cgroup.value.inode === (victim.cgroupInode ?? cgroup.value.inode)) {
    return { ref: cgroup.value, unit: bound.unit, live: bound };
  }
  const saved = savedRef(victim);
  // As version 0.2.0 saved it, or it was between two runs.
  if (saved === null && bound !== null && cgroup?.known === false && cgroup.why === 'absent')
    return goneAs(order, askedBy(bound.unit), usedBefore);
  if (saved === null)
    return { kind: 'survived', left: [], detail: 'where it ran was not saved, and is not known any more' };
  return { ref: whereIs(mounts, saved) ?? saved, unit: unitOf(victim, saved), live: null };
}

/** Its manifest names what it named at the choice. */
export const isBoundAs = ({ boundTo }: Pick<Victim, 'boundTo'>, { manifest }: Pick<LivePod, 'manifest'>): boolean =>
  boundTo === undefined || boundTo === manifest.declared.boundTo;

function notKnown({ where, detail }: Unknown): Ending {
  return { kind: 'survived', left: [], detail: `its cgroup is not known: ${where}: ${detail}` };
}

/** The cgroup that was measured at the choice; null: it was not saved. */
export function savedRef({ cgroupPath, cgroupInode }: StopOrder['victim']): CgroupRef | null {
  return cgroupPath === undefined || cgroupInode === undefined ? null : { path: cgroupPath, inode: cgroupInode };
}

function unitOf({ boundTo = '' }: StopOrder['victim'], { path }: CgroupRef): string | null {
  const [, kind, name = ''] = /^(unit|podman) (.+)$/s.exec(boundTo) ?? [];
  if (kind === 'unit') return name;
  const scope = unitOfCgroup(path.slice(path.lastIndexOf('/') + 1));
  return kind === 'podman' && /\.(?:scope|slice)$/.test(scope) ? scope : null;
}

export const askedBy = (unit: string | null): 'sigterm' | 'stop-unit' => (unit === null ? 'sigterm' : 'stop-unit');

/** For a target whose manifest is gone: only if its unit still runs there. */
export async function askMeasured(
  needs: {
    readonly clock: Clock;
    readonly mounts: CgroupMounts;
    readonly systemd: Systemd;
    readonly findings: Findings;
  },
  unit: string,
  ref: CgroupRef,
  { first }: StopOrder,
): Promise<Asked> {
  await busUp(needs.systemd, needs.clock);
  const facts = await needs.systemd.unit(unit);
  const isThere = facts.known && (facts.value.controlGroup ?? ref.path) === ref.path;
  // What was sent SIGKILL is kept down, despite Restart= (D12).
  return isThere && (first === 'sigkill' || isSame(needs.mounts, ref)) ? askUnit(needs, unit) : 'not-told';
}
