import type { Reading } from '../../core/reading.ts';
import type { RecordDisk } from '../../host/own/record-disk.ts';
import type { Clock, Findings } from '../../ports.ts';
import { RECORD, recordHangs, recordHeldUp, recordRefused } from '../../words/finding-own.ts';

/** Lines on their way to the disk. What the disk does not accept stays in memory until there is room. */
type Spool = {
  /**
   * `ended` is called with `waiting` whenever the disk refuses the line, which is kept, and finally with `durable` or `lost`.
   */
  readonly put: (line: string, ended?: Ended) => void;
  /** Checks whether the file is still in its place, as soon as nothing is being written. */
  readonly check: () => void;
  /** Resolves when everything is on the disk, or the disk refuses. */
  readonly drained: () => Promise<void>;
};
type SpoolNeeds = {
  readonly clock: Clock;
  readonly disk: RecordDisk;
  readonly findings: Findings;
  /** False: the disk of the record may not even have been asked (host/own/thread-pool.ts). */
  readonly isThreadFree: () => Promise<boolean>;
  /** The line that says how many were dropped. */
  readonly sayLost: (entries: number) => string;
};

/** product.md section 7: up to 10,000 entries in memory, then the oldest are counted and dropped. */
const ENTRIES_MAX = 10_000;
/** An entry with 1,000 pods has about 1 MB, so the count alone does not limit the memory. */
const CHARS_MAX = 8 * 1024 * 1024;
/** One write at a time; the next one takes everything queued meanwhile. */
const BATCH_CHARS = 1024 * 1024;
const RETRY_MS = 1_000;
/** A check and a write that take longer are reported: the disk hangs, and all that can be done is to continue. */
const HUNG_MS = 10_000;

type Ended = (how: 'durable' | 'waiting' | 'lost') => void;
type Waiting = { readonly line: string; readonly ended: Ended };

export function createSpool({ clock, disk, findings, isThreadFree, sayLost }: SpoolNeeds): Spool {
  let queue: Waiting[] = [];
  let chars = 0;
  let lost = 0;
  let writing: Promise<void> | null = null;
  let cancelRetry: (() => void) | null = null;
  let isCheckWanted = false;

  const bound = (): void => {
    while (queue.length > ENTRIES_MAX || (chars > CHARS_MAX && queue.length > 1)) {
      const dropped = queue.splice(0, 1);
      chars -= charsOf(dropped);
      lost++;
      tell(dropped, 'lost');
    }
  };
  const refused = (batch: readonly Waiting[], why: Extract<Reading<true>, { known: false }>): void => {
    queue = [...batch, ...queue];
    chars += charsOf(batch);
    bound();
    tell(queue, 'waiting');
    findings.raise(recordRefused(why.where, why.detail, ENTRIES_MAX));
    cancelRetry ??= clock.after(RETRY_MS, () => {
      cancelRetry = null;
      start();
    });
  };
  /** Reports a call that does not return; the returned function says that it has. */
  const awaited = (): (() => void) => {
    let isOver = false;
    const tellHung = async (): Promise<void> => {
      const isOwn = await isThreadFree();
      if (!isOver) findings.raise(isOwn ? recordHangs(HUNG_MS) : recordHeldUp(HUNG_MS));
    };
    const cancel = clock.after(HUNG_MS, () => void tellHung());
    return () => {
      isOver = true;
      cancel();
    };
  };
  const pump = async (): Promise<void> => {
    // Even with nothing to write: this opens the file before the first decision, and reports a disk that refuses early.
    do {
      const returned = awaited();
      if (isCheckWanted) {
        isCheckWanted = false;
        await disk.check();
      }
      const batch = takeBatch(queue);
      chars -= charsOf(batch);
      const toSay = lost;
      const text = (toSay > 0 ? sayLost(toSay) : '') + batch.map(({ line }) => line).join('');
      const written = await disk.append(text);
      returned();
      if (!written.known) {
        writing = null;
        refused(batch, written);
        return;
      }
      cancelRetry?.();
      cancelRetry = null;
      lost -= toSay;
      tell(batch, 'durable');
      findings.clear(RECORD);
    } while (queue.length > 0 || isCheckWanted);
    // Not in a later turn: a callee may queue the next line before that.
    writing = null;
  };
  const start = (): void => {
    writing ??= pump();
  };
  start();
  return {
    put: (line, ended = () => undefined) => {
      queue.push({ line, ended });
      chars += line.length;
      bound();
      start();
    },
    check: () => {
      isCheckWanted = true;
      start();
    },
    drained: async () => {
      start();
      await writing;
    },
  };
}

function takeBatch(queue: Waiting[]): readonly Waiting[] {
  let chars = 0;
  const end = queue.findIndex(({ line }) => {
    chars += line.length;
    return chars > BATCH_CHARS;
  });
  return queue.splice(0, end < 0 ? queue.length : Math.max(1, end));
}

const charsOf = (entries: readonly Waiting[]): number => entries.reduce((sum, { line }) => sum + line.length, 0);

function tell(entries: readonly Waiting[], how: Parameters<Ended>[0]): void {
  for (const { ended } of entries) ended(how);
}
