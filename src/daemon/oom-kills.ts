import type { MonoMs } from '../core/reading.ts';
import { isNumber, isOneOf, isText, optional, recordOf, shape } from '../core/shape.ts';
import type { State } from '../core/state/state.ts';
import { writeAtomic } from '../host/files.ts';
import { readOwnFile } from '../host/own/own-file.ts';
import type { Mode } from '../mode.ts';
import type { OomCount, OomKills, OomWatch, PodCount } from '../observe/oom-kills.ts';
import type { Clock, Log, Recorder } from '../ports.ts';
import { lastEntry } from '../record/reading/record-file.ts';
import { sayInstant, sayKilled, sayOomKills } from '../words/phrases.ts';

type OomKillsNeeds = {
  readonly clock: Clock;
  readonly bootId: string;
  readonly runtimeDirectory: string;
  readonly stateDirectory: string;
  readonly oomWatch: OomWatch;
  readonly log: Log;
  readonly recorder: Pick<Recorder, 'note'>;
  readonly mode: { readonly isSettled: () => boolean; readonly pods: Pick<Mode['pods'], 'pods' | 'podsLately'> };
};
/** Logs and records kills by the kernel: they are never silent, and ours are never mistaken for one (product.md section 6). */
type TellOomKills = {
  /** After each look, with the state it led to. */
  readonly seen: (atMs: MonoMs, state: State) => void;
  /** Reads the counters once more, before the record closes. */
  readonly last: () => Promise<void>;
  /** Keeps the counters for the next run, unless a kill is not on the disk yet. */
  readonly keep: () => void;
};

/** How long the first reading waits for the pods: without them, no kill before the start could be attributed. */
const SETTLE_MS = 10_000;
/** After a crash, the kills of the time without an agent are known to fall within it and this. */
const KEEP_MS = 60_000;

type Kept = OomCount & { readonly schema: 1; readonly bootId: string };
const isKept = shape<Kept>({
  schema: isOneOf(1),
  bootId: isText,
  atMs: isNumber,
  kills: isNumber,
  pods: recordOf(isText, shape<PodCount>({ inode: isNumber, path: optional(isText), kills: isNumber })),
});

export function createOomKills(needs: OomKillsNeeds): TellOomKills {
  const { clock, bootId, runtimeDirectory, stateDirectory, oomWatch, log, recorder, mode } = needs;
  // A dry run shares it: what either has recorded, `history` shows.
  const path = `${runtimeDirectory}/oom-kills.json`;
  const openedMs = clock.monoMs();
  let keptMs = Number.NEGATIVE_INFINITY;
  /** Readings whose kills, if any, are not on the disk yet. */
  let unrecorded = 0;
  /** Readings that are not told yet: a stop right after a look must not lose what it saw. */
  let telling = Promise.resolve();
  // A watch that has counted continues across a reload.
  const before = oomWatch.counted() === null ? (loadCount(path, bootId) ?? countAtBoot(stateDirectory, bootId)) : null;
  if (before !== null) oomWatch.resume(before);
  let isWaiting = before !== null;

  /**
   * Only once all kills up to the count are on the disk. An agent that dies in between, a moment unless the disk is full or
   * slow, records them again, as unwatched: a kill told twice is better than one never told.
   */
  const keep = (): void => {
    const count = unrecorded > 0 ? null : oomWatch.counted();
    if (count === null) return;
    keptMs = count.atMs;
    const kept: Kept = { schema: 1, bootId, ...count };
    // If it fails, the next write makes good for it; what is wrong with the directory, the state file reports.
    writeAtomic(path, `${JSON.stringify(kept)}\n`, 0o640, 'boot');
  };
  const tell = async (reading: Promise<OomKills | null>): Promise<void> => {
    unrecorded++;
    const recorded = (): void => {
      unrecorded--;
      keep();
    };
    const kills = await reading;
    if (kills === null) {
      unrecorded--;
      return;
    }
    const atMs = clock.monoMs();
    const { count, unwatchedSinceMs: sinceMs } = kills;
    const since = sinceMs === undefined ? null : sayInstant(clock.wallMs() - (atMs - sinceMs));
    log.warn({ event: 'kernel-oom-kill', ...kills }, `${sayOomKills(count, since)}: ${sayKilled(kills)}`);
    recorder.note({ kind: 'kernel-oom-kill', atMs, ...kills }, recorded);
  };
  return {
    seen: (atMs, state) => {
      if (isWaiting && !mode.isSettled() && atMs - openedMs < SETTLE_MS) return;
      isWaiting = false;
      const reading = oomWatch.look(atMs, state, mode.pods.pods, mode.pods.podsLately);
      if (reading !== null) {
        const told = tell(reading);
        telling = telling.then(() => told);
      }
      // While memory is short, no look waits for a write that can wait.
      if (atMs - keptMs >= KEEP_MS && Object.keys(state.firstMetMs).length === 0) keep();
    },
    last: async () => {
      const reading = oomWatch.now(mode.pods.pods);
      await Promise.all([telling, reading === null ? null : tell(reading)]);
    },
    keep,
  };
}

function loadCount(path: string, bootId: string): OomCount | null {
  const kept = readOwnFile(path, (json) => (isKept(json) ? json : null));
  return kept.known && kept.value?.bootId === bootId ? kept.value : null;
}

/**
 * The kernel counts from 0 at the boot. If an agent has run on this machine, but not since then, the kills since the boot are
 * recorded nowhere. Null: one has (the kept count was lost, or an earlier version kept none), or none ever has: what happened
 * before the first start is not told.
 */
function countAtBoot(stateDirectory: string, bootId: string): OomCount | null {
  const boots = [false, true].flatMap((dry) => lastEntry(stateDirectory, dry)?.bootId ?? []);
  return boots.length === 0 || boots.includes(bootId) ? null : { atMs: 0, kills: 0, pods: {} };
}
