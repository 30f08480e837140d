import { type MonoMs, type Reading, valueOrNull } from '../core/reading.ts';
import { within } from '../host/clock.ts';
import { watchPath } from '../host/files.ts';
import type { ManifestPod } from './manifest.ts';
import { createManifestFiles, type ManifestFilesNeeds } from './manifest-files.ts';

type Needs = ManifestFilesNeeds & {
  /** The pods changed, or were read for the first time. */
  readonly changed: () => void;
  /** The same, for new ones that a choice waits for. */
  readonly added: () => void;
};
export type FollowedManifests = {
  /** Unknown until the directory was read, or reported as hanging. */
  readonly pods: () => Reading<readonly ManifestPod[]>;
  readonly declared: () => readonly ManifestPod[];
  /** Resolves once `isRead`. */
  readonly opened: () => Promise<void>;
  /** False: they may still be read. */
  readonly isRead: () => boolean;
  readonly rereadIfDue: () => void;
  /** Takes manifests that have just appeared. */
  readonly takeNew: () => Promise<void>;
  /** The same, for a choice (D13). A manifest that takes longer to read counts at the next one. */
  readonly freshen: () => Promise<void>;
  readonly close: () => void;
};

/** The directory is watched; this covers lost events. */
export const REREAD_MS = 30_000;
/** How long a choice waits for one call: on a local disk it takes some 0.1 ms. */
const FRESH_MS = 20;
/** How often it is checked whether the first reading hangs. */
const OPENED_MS = 100;

/** The manifests of the directory, kept current beside the loop. */
export function followManifests(needs: Needs): FollowedManifests {
  const { clock } = needs;
  const files = createManifestFiles(needs);
  let readMs: MonoMs = Number.NEGATIVE_INFINITY;
  let endWatch: (() => void) | null = null;
  let isClosed = false;

  async function read(): Promise<void> {
    readMs = clock.monoMs();
    const isChanged = await files.read();
    if (isClosed || !files.pods().known) return;
    if (isChanged || endWatch === null) needs.changed();
    // Not earlier: where reading hangs, this would hang the loop.
    endWatch ??= watchPath(needs.podManifests, () => void read(), clock);
  }

  async function takeNew(): Promise<void> {
    const isNew = await files.readNew();
    if (isClosed) return;
    if (isNew) needs.added();
    if (files.isReadDue()) void read();
  }

  const isRead = (): boolean => {
    const pods = files.pods();
    return pods.known || pods.why === 'timed-out';
  };
  const first = read();
  // A failure is for those who wait for it. An agent that fails meanwhile says so itself.
  first.catch(() => undefined);
  return {
    pods: files.pods,
    declared: () => valueOrNull(files.pods()) ?? [],
    opened: async () => {
      while (!isRead() && !isClosed) await within(clock, OPENED_MS, first, () => undefined);
    },
    isRead,
    rereadIfDue: () => {
      if (clock.monoMs() - readMs >= REREAD_MS) void read();
    },
    takeNew,
    freshen: () =>
      new Promise((resolve, reject) => {
        let cancel = (): void => undefined;
        takeNew()
          .finally(() => cancel())
          .then(resolve, reject);
        const check = (): void => {
          const leftMs = FRESH_MS - files.silentMs();
          if (leftMs <= 0) resolve();
          else cancel = clock.after(leftMs, check);
        };
        check();
      }),
    close: () => {
      isClosed = true;
      endWatch?.();
      files.close();
    },
  };
}
