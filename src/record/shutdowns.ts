import { type BootRecord, bootOf } from './boots.ts';
import type { RecordEntry } from './entry.ts';
import { groupBy } from './group.ts';
import { type ShutdownRecord, shutdownsOfBoot } from './shutdown-record.ts';
import { isSound } from './sound.ts';

export type Shutdowns = {
  /** In the order of the record; also those of the boot that runs. */
  readonly shutdowns: readonly ShutdownRecord[];
  /** Every earlier boot, in the order of the record: the wall clock of one may have been wrong. */
  readonly boots: readonly BootRecord[];
  /** Entries whose body is damaged: left out. */
  readonly damaged: number;
};

/**
 * What the record tells of shutdowns, and of how boots ended. `entries`: of one record, or of the real and the dry one
 * behind each other. `bootId`: of the boot that runs, which has not ended; null = not known, then nothing is said of
 * how the last boot in the record ended.
 */
export function shutdownsOf(entries: readonly RecordEntry[], bootId: string | null): Shutdowns {
  const sound = entries.filter(isSound);
  const boots = groupBy(sound, (entry) => entry.bootId);
  const runningId = bootId ?? newest(sound)?.bootId ?? null;
  const told = [...boots.values()].map((ofBoot) => {
    const boot = ofBoot[0]?.bootId === runningId ? 'running' : 'over';
    const shutdowns = [...groupBy(ofBoot, ({ dry }) => String(dry)).values()].flatMap((entriesOfRun) =>
      shutdownsOfBoot(entriesOfRun, boot),
    );
    return { shutdowns, boot: boot === 'running' ? null : bootOf(ofBoot, shutdowns) };
  });
  return {
    shutdowns: told.flatMap(({ shutdowns }) => shutdowns),
    boots: told.flatMap(({ boot }) => boot ?? []),
    damaged: entries.length - sound.length,
  };
}

function newest(entries: readonly RecordEntry[]): RecordEntry | null {
  return entries.reduce<RecordEntry | null>((a, b) => (a === null || b.atWallMs >= a.atWallMs ? b : a), null);
}
