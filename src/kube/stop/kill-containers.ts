import { killCgroup } from '../../act/kill.ts';
import type { Asked, KillEnd } from '../../act/kill-order.ts';
import type { Hasten } from '../../core/eviction/hasten.ts';
import type { Signalled } from '../../core/outcome.ts';
import { sumOf } from '../../core/reading.ts';
import type { CgroupMounts } from '../../host/cgroup/cgroup-mounts.ts';
import { processesOf } from '../../host/cgroup/cgroupfs.ts';
import type { DyingHelp } from '../../host/process/dying-help.ts';
import { signalInCgroup } from '../../host/process/signal-process.ts';
import { startTicks } from '../../host/process/workload.ts';
import type { CgroupRef, Clock, StopOrder } from '../../ports.ts';

type KillNeeds = {
  readonly clock: Clock;
  readonly mounts: CgroupMounts;
  /** Absent: processes that were sent SIGKILL die without help. */
  readonly help?: DyingHelp | undefined;
};
type ContainerKill = Pick<StopOrder, 'first' | 'graceMs' | 'givesBack'> & {
  /** SIGTERM is sent only to the first process of each container, as by the runtime's stop; otherwise to all. */
  readonly isAsRuntime?: true;
  /** Another way to ask a container to stop. */
  readonly ask?: (ref: CgroupRef) => Promise<Asked>;
  readonly hasten: Hasten;
  readonly signalled: (how: Signalled['with']) => void;
  readonly resists: (who: string | null) => void;
};

/** Kills the cgroups of several containers at once. The first signals are sent before the promise is returned. */
export async function killContainers(
  needs: KillNeeds,
  refs: readonly CgroupRef[],
  kill: ContainerKill,
): Promise<KillEnd> {
  const { mounts } = needs;
  const ends = refs.map((ref) => {
    const asRuntime = kill.isAsRuntime === true ? async (): Promise<Asked> => askFirst(mounts, ref) : null;
    const { ask: asked, ...how } = kill;
    const ask = asked === undefined ? asRuntime : (): Promise<Asked> => asked(ref);
    return killCgroup({ ...needs, ...how, ref, ask });
  });
  return together(await Promise.all(ends));
}

/** A container's first process is its oldest one. */
export function askFirst(mounts: CgroupMounts, ref: CgroupRef): Asked {
  const pids = processesOf(mounts, ref);
  if (!pids.known) return 'not-told';
  const ageOf = (pid: number): number => startTicks(pid) ?? Number.POSITIVE_INFINITY;
  const first = pids.value.toSorted((a, b) => ageOf(a) - ageOf(b) || a - b)[0];
  return first !== undefined && signalInCgroup(mounts, ref, first, 'SIGTERM') === 'sent' ? 'told' : 'not-told';
}

const STRONGEST_FIRST = ['sigkill', 'cgroup.kill', 'oom-kill'] as const;

/** Combines several outcomes: ended only if all have ended; what was freed is the sum. */
function together(ends: readonly KillEnd[]): KillEnd {
  const survivors = ends.flatMap((end) => (end.kind === 'survived' ? [end] : []));
  if (survivors.length > 0) {
    return {
      kind: 'survived',
      left: survivors.flatMap(({ left }) => left),
      detail: survivors.map(({ detail }) => detail).join('; '),
    };
  }
  const ended = ends.flatMap((end) => (end.kind === 'ended' ? [end] : []));
  if (ended.length === 0) return { kind: 'gone' };
  const via = STRONGEST_FIRST.find((how) => ended.some((end) => end.via === how)) ?? 'sigterm';
  const releasedBytes = sumOf(ended.map((end) => end.releasedBytes));
  return { kind: 'ended', via, releasedBytes };
}
