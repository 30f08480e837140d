import { known, type Reading } from '../../core/reading.ts';
import { RECORD_KEPT, RECORD_MAX_BYTES } from '../../host/own/record-disk.ts';
import { type HeldText, holdText, linesOf } from '../../host/text-stream.ts';
import type { Finding } from '../../ports.ts';
import { lastBootUnclean } from '../../words/finding-own.ts';
import { type LastShutdown, sayLastBoot } from '../../words/last-boot.ts';
import { parseEntry, type RecordEntry } from '../entry.ts';
import { type BootRecord, isToBeContinued, leftRunning, unended } from './boots.ts';
import { recordName } from './record-file.ts';
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
    unended: namesOf(unended([shutdown]).filter(({ end: { kind }, isLate }) => kind !== 'cut-off' && !isLate)),
    leftRunning: [...new Set(leftRunning(shutdown))],
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

/** Boots and shutdowns leave few lines; a report reads no more than this. */
const ENTRIES_MAX = 20_000;
/** The heads of the lines of interest. The basis of decisions is most of the record, and is skipped unread. */
const WANTED =
  /"kind":"(?:note|outcome)"|"kind":"decision".{0,120}"kind":"(?:stop-for-shutdown|release-lock|take-lock|undo-stops)"/;
const HEAD_CHARS = 400;

/**
 * The entries about how boots ended, of the real record followed by the dry one: a reload changes from one to the other. Of
 * each, the two newest files, oldest first. They are read line by line, so that this affects neither memory nor looks.
 * Unknown: a file exists but cannot be read.
 */
export async function readBootEntries(directory: string): Promise<Reading<readonly RecordEntry[]>> {
  const real = await readOne(directory, false);
  if (!real.known) return real;
  const dry = await readOne(directory, true);
  return dry.known ? known([...real.value, ...dry.value]) : dry;
}

const FILES = 2;

async function readOne(directory: string, dry: boolean): Promise<Reading<readonly RecordEntry[]>> {
  const held: HeldText[] = [];
  try {
    // Newest first: a file that is renamed meanwhile moves to a name that is yet to come, and is found there.
    for (let n = 0; n <= RECORD_KEPT && held.length < FILES; n++) {
      const file = await holdText(`${directory}/${recordName(dry)}${n === 0 ? '' : `.${n}`}`);
      if (!file.known && file.why !== 'absent') return file;
      if (!file.known) continue;
      if (held.some(({ ino }) => ino === file.value.ino)) await file.value.close();
      else held.push(file.value);
    }
    return await entriesOf(held.toReversed());
  } finally {
    await Promise.all(held.map(({ close }) => close()));
  }
}

async function entriesOf(oldestFirst: readonly HeldText[]): Promise<Reading<readonly RecordEntry[]>> {
  const entries: RecordEntry[] = [];
  for (const { pieces } of oldestFirst) {
    for await (const line of linesOf(pieces, 2 * RECORD_MAX_BYTES)) {
      if (!line.known) return line;
      const { text } = line.value;
      const entry = WANTED.test(text.slice(0, HEAD_CHARS)) ? parseEntry(text) : null;
      if (entry !== null) entries.push(entry);
      if (entries.length > 2 * ENTRIES_MAX) entries.splice(0, ENTRIES_MAX);
    }
  }
  return known(entries.slice(-ENTRIES_MAX));
}
