import type { MonoMs } from '../../core/reading.ts';
import { LAST_WORD_MS } from '../../core/shutdown/chain.ts';
import type { CgroupMounts } from '../../host/cgroup/cgroup-mounts.ts';
import { childrenOf, directoryOf } from '../../host/cgroup/cgroup-walk.ts';
import type { Systemd } from '../../host/systemd/systemd.ts';
import { unitNameMistake } from '../../host/systemd/unit-name.ts';
import { cgroupOfUnit, unitOfCgroup } from '../../host/systemd/unit-path.ts';
import type { Clock } from '../../ports.ts';

/** How often its time is looked at, which a cancel extends and the next shutdown or a hard threshold cuts. */
const LOOK_MS = 100;
/** The maximum number remembered, because this is on the path to a kill. */
const MAX_UNITS = 256;

/**
 * The units that run in a slice now, by their cgroups. systemd restarts a slice but not the units in it: to restart them,
 * they must be known before the stop.
 */
export function unitsIn(mounts: CgroupMounts, slice: string): readonly string[] {
  const found: string[] = [];
  const open = [cgroupOfUnit(slice, null)];
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    const listed = childrenOf(directoryOf(mounts, path), MAX_UNITS);
    for (const name of listed.known ? listed.value.names : []) {
      const unit = unitOfCgroup(name);
      if (unitNameMistake(unit) !== null || found.length + open.length >= MAX_UNITS) continue;
      if (unit.endsWith('.slice')) open.push(`${path}/${name}`);
      else found.push(unit);
    }
  }
  return found;
}

type LastWordNeeds = {
  readonly clock: Clock;
  readonly mounts: CgroupMounts;
  readonly systemd: Pick<Systemd, 'unit' | 'stopNow'>;
};

/**
 * systemd stops the services of a slice in their order, and waits for each. Shortly before the end, those whose turn has not
 * come are stopped out of turn.
 */
export function lastWordIn(
  { systemd, clock, mounts }: LastWordNeeds,
  slice: string,
): { readonly begin: (overMs: () => MonoMs) => void; readonly cancel: () => void } {
  let cancel: (() => void) | null = null;
  const tell = (): void => {
    for (const unit of unitsIn(mounts, slice)) {
      void systemd.unit(unit).then((facts) => {
        const isWaiting = facts.known && facts.value.activeState === 'active' && facts.value.hasJob;
        if (isWaiting) void systemd.stopNow(unit);
      });
    }
  };
  return {
    begin: (overMs) => {
      if (cancel !== null) return;
      const beganMs = clock.monoMs();
      const look = (): void => {
        const endsMs = overMs();
        const leftMs = endsMs - Math.min(LAST_WORD_MS, (endsMs - beganMs) / 2) - clock.monoMs();
        cancel = leftMs <= 0 ? clock.after(0, tell) : clock.after(Math.min(leftMs, LOOK_MS), look);
      };
      look();
    },
    cancel: () => cancel?.(),
  };
}
