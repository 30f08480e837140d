import type { Finding } from '../../ports.ts';
import { lastBootUnclean } from '../../words/finding-own.ts';
import { type LastShutdown, sayLastBoot } from '../../words/last-boot.ts';
import type { RecordEntry } from '../entry.ts';
import { type BootRecord, isToBeContinued } from './boots.ts';
import type { ShutdownRecord } from './shutdown-record.ts';
import { shutdownsOf } from './shutdowns.ts';

/** How the previous boot ended; the first run of the agent in a boot reports it. */
type BootReport = {
  readonly boot: BootRecord;
  /** The last shutdown of that boot; null: none is in the record. */
  readonly shutdown: ShutdownRecord | null;
  /** For the log. Pod names in it are as tenants chose them. */
  readonly sentence: string;
  /** null: nothing that needs a person's attention. */
  readonly finding: Finding | null;
};

/** null: the records have no earlier boot. `entries`: of the real record, followed by those of the dry one. */
export function lastBoot(entries: readonly RecordEntry[], bootId: string): BootReport | null {
  const { boots, shutdowns } = shutdownsOf(entries, bootId);
  const boot = boots.at(-1);
  if (boot === undefined) return null;
  const shutdown = shutdowns.findLast((one) => one.bootId === boot.bootId && one.dry === boot.dry) ?? null;
  const sentence = sayLastBoot({
    end: boot.end,
    running: boot.running?.pods ?? null,
    // A dry run stops no pod.
    shutdown: shutdown === null || shutdown.dry ? null : summaryOf(shutdown),
  });
  const isFinding = boot.end === 'ungraceful' || boot.end === 'cut';
  return {
    boot,
    shutdown,
    sentence,
    finding: isFinding ? lastBootUnclean(sentence) : null,
  };
}

function summaryOf(shutdown: ShutdownRecord): LastShutdown {
  const { plan, phases, end, released, beganMs } = shutdown;
  const pods = phases.flatMap((phase) => phase.pods);
  const namesOf = (stops: typeof pods): readonly string[] => [...new Set(stops.map(({ pod }) => pod))];
  return {
    type: plan?.type ?? null,
    phases: plan === null ? null : phases.length,
    // A pod that was started again meanwhile has more than one stop.
    pods: pods.filter(({ isAgain }) => !isAgain).length,
    late: namesOf(pods.filter(({ isLate }) => isLate)),
    lost: namesOf(pods.filter((stop) => stop.end.kind === 'cut-off' && !stop.isLate)),
    released:
      end.kind === 'released' && released !== null
        ? {
            tookMs: released.atMs - beganMs,
            how: howReleased(released),
            isToBeContinued: isToBeContinued(shutdown),
          }
        : null,
    cut: end.kind === 'cut' ? { phase: end.phase, byAgent: end.by === 'agent-ended' } : { phase: 0, byAgent: false },
  };
}

function howReleased({
  why,
  delayMs,
  isOvertaken,
}: NonNullable<ShutdownRecord['released']>): NonNullable<LastShutdown['released']>['how'] {
  if (why === 'out-of-time' || delayMs !== undefined) return 'out-of-time';
  return isOvertaken === true ? 'overtaken' : 'done';
}
