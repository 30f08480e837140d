import { valueOrNull } from '../core/reading.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { createOomCounters } from '../host/cgroup/cgroup-oom.ts';
import { within } from '../host/clock.ts';
import { createProcfs } from '../host/procfs.ts';
import type { CgroupRef, Clock } from '../ports.ts';

/** Whether the kernel's OOM killer has killed in a victim since it was watched. */
export type OomKilled = 'no' | 'yes' | 'not-known';
type OomKillWatch = {
  /** Looks now and then: once the cgroup is gone, its counter cannot be read any more. */
  readonly note: () => void;
  readonly seen: () => Promise<OomKilled>;
  readonly close: () => void;
};

/** The kernel may hold the directory of a cgroup locked for minutes while it kills there (host/cgroup/cgroup-oom). */
const ANSWER_MS = 500;

/** The machine's counter is read at every note, that of the cgroup only if the machine's has changed. */
export function watchOomKills(mounts: CgroupMounts, ref: CgroupRef, clock: Clock): OomKillWatch {
  const procfs = createProcfs();
  const counters = createOomCounters(mounts);
  const onMachine = (): number | null => valueOrNull(procfs.oomKills());
  /** The machine's count up to which none was in the cgroup. */
  let noneUntil = onMachine();
  let before: number | null = null;
  let isKilled = false;
  let isClosed = false;
  let reading: Promise<void> | null = null;

  const read = async (judge: (kills: number | null) => void): Promise<void> => {
    const kills = await counters.read(ref);
    reading = null;
    if (!isClosed) judge(valueOrNull(kills));
  };
  const note = (): void => {
    if (isKilled || reading !== null) return;
    const machine = onMachine();
    if (machine !== null && machine === noneUntil) return;
    reading = read((kills) => {
      // A child that was removed takes its count along (version 1).
      if (before === null || kills === null || kills < before) return;
      if (kills > before) isKilled = true;
      else noneUntil = machine;
    });
  };
  reading = read((kills) => {
    // A kill meanwhile may be in the counter already.
    if (noneUntil === null || onMachine() === noneUntil) before = kills;
  });
  const answered = (): Promise<void> => within(clock, ANSWER_MS, reading ?? Promise.resolve(), () => undefined);
  return {
    note,
    seen: async () => {
      const machine = onMachine();
      if (machine !== null && machine === noneUntil) return 'no';
      await answered();
      note();
      await answered();
      if (isKilled) return 'yes';
      // Others may have been killed elsewhere since, too.
      return machine !== null && noneUntil !== null && noneUntil >= machine ? 'no' : 'not-known';
    },
    close: () => {
      isClosed = true;
      procfs.close();
      counters.close();
    },
  };
}
