import type { Escaped } from '../core/outcome.ts';
import type { ProcessId, ProcessView } from '../core/pod/pod.ts';
import type { CgroupMounts } from '../host/cgroup-mounts.ts';
import { uptimeMs } from '../host/clock.ts';
import { CHARGED_LEAST_BYTES, chargedBytes, whereaboutsOf } from '../host/escaped.ts';
import { processName, rssBytes } from '../host/procfs.ts';
import { signalProcess } from '../host/signal-process.ts';
import { MS_PER_TICK, startTicks } from '../host/workload.ts';
import type { CgroupRef } from '../ports.ts';
import { type Escapee, sayEscaped, sayKilledOutside } from '../words/escaped.ts';
import { and } from '../words/phrases.ts';

/** A victim's own processes, known from its cgroup, to be found again if they leave it. */
export type Escapes = {
  /** They are in its cgroup, or were at `sinceBootMs`. */
  readonly note: (pids: readonly number[], sinceBootMs: number) => void;
  /** Whether one of them lives outside. */
  readonly isAny: () => boolean;
  /**
   * SIGKILL to those in which nobody else has a part, while memory stays charged to the victim's cgroup without a process in
   * it. `waiting`: the kernel may still be freeing that, or it is not known where one is.
   */
  readonly kill: () => 'sent' | 'waiting' | 'nobody';
  /** What is left of the victim outside, in words as well; null: nothing. */
  readonly left: () => EscapesLeft | null;
  /** Which were killed outside; null: none. */
  readonly sayKilled: () => string | null;
};
export type EscapesLeft = { readonly left: readonly ProcessView[]; readonly detail: string; readonly escaped: Escaped };
export type Following = {
  /** Some of its processes, as measured at the choice. */
  readonly processes: readonly ProcessView[];
  /** The pod or unit that has a part in the process; null: nobody else than the victim. */
  readonly ownerOf: (pid: number) => string | null;
};

type Outside = ProcessId & { readonly path: string | null };

/** The maximum to remember. */
const MOST = 1_000;
/** How long the kernel may take to free the memory of processes that have ended. */
const FREED_MS = 200;
/** As many as an outcome and the state name. */
const MOST_LEFT = 100;
const SHOWN_LEFT = 10;

export function createEscapes(mounts: CgroupMounts, ref: CgroupRef, { processes, ownerOf }: Following): Escapes {
  /** The start time of each by its pid. Those that have ended are forgotten. */
  const known = new Map<number, number>();
  const killed = new Map<number, Escapee>();
  let chargedSinceMs: number | null = null;
  for (const { pid, startTicks: ticks } of processes) if (ticks !== undefined) known.set(pid, ticks);

  function* outside(): Generator<Outside, void, void> {
    for (const [pid, ticks] of known) {
      const where = whereaboutsOf(mounts, ref, { pid, startTicks: ticks });
      if (where === 'ended') known.delete(pid);
      else if (where !== 'inside') yield { pid, startTicks: ticks, path: where.path.known ? where.path.value : null };
    }
  }
  const viewOf = ({ pid, startTicks: ticks, path }: Outside): Escapee => {
    const [rss, name] = [rssBytes(pid), processName(pid)];
    return {
      ...{ pid, startTicks: ticks },
      name: name.known ? name.value : '',
      rssBytes: rss.known ? rss.value : 0,
      path: path ?? 'an unknown cgroup',
      owner: path === null ? 'an unknown owner' : ownerOf(pid),
    };
  };
  const sayKilled = (): string | null => (killed.size === 0 ? null : sayKilledOutside([...killed.values()]));

  return {
    note: (pids, sinceBootMs) => {
      for (const pid of pids) {
        if (known.size >= MOST) return;
        const ticks = known.has(pid) ? null : startTicks(pid);
        // One that started later has the pid of one that ended.
        if (ticks !== null && ticks * MS_PER_TICK <= sinceBootMs) known.set(pid, ticks);
      }
    },
    isAny: () => outside().next().done !== true,
    kill: () => {
      const found = [...outside()];
      if (found.some(({ path }) => path === null)) return 'waiting';
      let isSent = false;
      // A process may have been in the cgroup for a moment only, such as an administrator's shell. What it has, it had before.
      const charged = chargedBytes(mounts, ref);
      if (charged === 0) return 'nobody';
      chargedSinceMs ??= nowSinceBootMs();
      if (nowSinceBootMs() - chargedSinceMs < FREED_MS) return 'waiting';
      // What one of them holds of that cannot be read: the largest first, and no more than could hold all of it. Behind one
      // that must not be killed, nobody is: that one may hold all.
      let toExplain = charged;
      const views = found.map((one) => ({ one, view: viewOf(one) }));
      for (const { one, view } of views.toSorted((a, b) => b.view.rssBytes - a.view.rssBytes)) {
        if (toExplain <= 0 || view.rssBytes < CHARGED_LEAST_BYTES || view.owner !== null) break;
        toExplain -= view.rssBytes;
        if (signalProcess(one, 'SIGKILL') !== 'sent') continue;
        isSent = true;
        if (!killed.has(one.pid)) killed.set(one.pid, view);
      }
      if (isSent) chargedSinceMs = null;
      return isSent ? 'sent' : 'nobody';
    },
    left: () => {
      const escapees = [...outside()].map(viewOf).toSorted((a, b) => b.rssBytes - a.rssBytes);
      const charged = chargedBytes(mounts, ref);
      if (escapees.length === 0 && charged === 0) return null;
      const ids = escapees.slice(0, MOST_LEFT).map(({ pid, startTicks: ticks = 0 }) => ({ pid, startTicks: ticks }));
      return {
        left: escapees.slice(0, SHOWN_LEFT).map(({ pid, name, rssBytes: bytes }) => ({ pid, name, rssBytes: bytes })),
        detail: and(sayEscaped(escapees, ref.path, charged), sayKilled() ?? ''),
        escaped: { cgroup: { ...ref }, processes: ids },
      };
    },
    sayKilled,
  };
}

/** Since boot; for a process that is noted now. */
export function nowSinceBootMs(): number {
  const uptime = uptimeMs();
  return uptime.known ? uptime.value : Number.POSITIVE_INFINITY;
}
