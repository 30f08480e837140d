import { sayTenths } from '../core/duration.ts';
import type { Finding } from '../ports.ts';
import type { BootRecord } from './boots.ts';
import type { RecordEntry } from './entry.ts';
import type { ShutdownRecord } from './shutdown-record.ts';
import { shutdownsOf } from './shutdowns.ts';

/** What the first run of the agent in a boot has to say of the boot before. */
export type BootReport = {
  readonly boot: BootRecord;
  /** Its last one; null: none is in the record. */
  readonly shutdown: ShutdownRecord | null;
  /** No trace of an end: power cut, panic, `reboot -f`. */
  readonly isUngraceful: boolean;
  /** For the log. Names of pods in it are as tenants chose them. */
  readonly sentence: string;
  /** null: nothing that a person has to look at. */
  readonly finding: Finding | null;
};

const FINDING = 'last-boot';
const LOOK = 'nodewarden history --shutdowns';
const NAMES_SAID = 20;

/**
 * null: a run of this boot has said it already (it is in the record that it started), or there is no earlier boot in the
 * record. `entries` are read before this run notes that it started.
 */
export function lastBoot(entries: readonly RecordEntry[], bootId: string): BootReport | null {
  const isSaid = entries.some(
    (entry) => entry.bootId === bootId && entry.kind === 'note' && entry.note.kind === 'started',
  );
  if (isSaid) return null;
  const { boots, shutdowns } = shutdownsOf(entries, bootId);
  const boot = boots.at(-1);
  if (boot === undefined) return null;
  const shutdown = shutdowns.findLast((one) => one.bootId === boot.bootId) ?? null;
  const sentence = sentenceOf(boot, shutdown);
  const isFinding = boot.end === 'ungraceful' || boot.end === 'cut';
  return {
    boot,
    shutdown,
    isUngraceful: boot.end === 'ungraceful',
    sentence,
    finding: isFinding ? { id: FINDING, text: `${sentence}; look at: ${LOOK}` } : null,
  };
}

function sentenceOf(boot: BootRecord, shutdown: ShutdownRecord | null): string {
  switch (boot.end) {
    case 'graceful':
      return shutdown?.end.kind === 'released'
        ? `the last boot ended with ${saidOf(shutdown)}`
        : 'the last boot ended in order, without phases of ours';
    case 'cut':
      return `the last boot ended with ${shutdown === null ? 'a shutdown that was cut' : saidOf(shutdown)}`;
    case 'ungraceful':
      return `the last boot did not end with a shutdown: power cut, crash, reboot -f, or nodewarden was killed before; ${sayRunning(boot)}`;
    case 'not-watched':
      return 'how the last boot ended is not known: nodewarden had been stopped before';
    case 'unknown':
      return 'how the last boot ended is not known: the record does not say that nodewarden ran';
  }
}

function saidOf({ plan, phases, end, released, beganMs }: ShutdownRecord): string {
  const type = plan?.type ?? null;
  const name = `a shutdown${type === null ? '' : ` (${type})`}`;
  const pods = phases.flatMap((phase) => phase.pods);
  // A pod that was started meanwhile has more than one stop.
  const count = pods.filter(({ isAgain }) => !isAgain).length;
  const late = pods.filter(({ isLate }) => isLate).map(({ pod }) => pod);
  const lost = pods.filter((stop) => stop.end.kind === 'cut-off' && !stop.isLate).map(({ pod }) => pod);
  const notInTime = late.length === 0 ? '' : `; not in time: ${sayNames([...new Set(late)])}`;
  const unknown = lost.length === 0 ? '' : `; how it ended is not known of ${sayNames([...new Set(lost)])}`;
  if (end.kind === 'released' && released !== null) {
    const took = sayTenths(released.atMs - beganMs);
    const why = released.why === 'out-of-time' ? 'its time was used up' : 'all phases were done';
    return `${name} of ${count} ${count === 1 ? 'pod' : 'pods'}: ${why} after ${took}${notInTime}${unknown}`;
  }
  const inPhase = `${end.kind === 'cut' && end.phase > 0 ? `in phase ${end.phase}` : 'before the first phase'} of ${phases.length}`;
  const how =
    end.kind === 'cut' && end.by === 'agent-ended'
      ? ` that was cut ${inPhase}: nodewarden ended before it was done`
      : `, and the record ends ${inPhase}: nodewarden or the machine ended before it was done`;
  return `${name}${how}${notInTime}${unknown}`;
}

function sayRunning({ running }: BootRecord): string {
  if (running === null) return 'what ran then is not recorded';
  return running.pods.length === 0 ? 'no pod was running' : `running were ${sayNames(running.pods)}`;
}

function sayNames(names: readonly string[]): string {
  const more = names.length - NAMES_SAID;
  return `${names.slice(0, NAMES_SAID).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}
