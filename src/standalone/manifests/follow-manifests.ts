import { type MonoMs, type Reading, valueOrNull } from '../../core/reading.ts';
import { sleep, within } from '../../host/clock.ts';
import { watchPath } from '../../host/watch-path.ts';
import { MANIFESTS_UNWATCHED, manifestsUnwatched } from '../../words/finding-standalone.ts';
import type { ManifestPod } from './manifest.ts';
import { createManifestFiles, type ManifestFilesNeeds } from './manifest-files.ts';
import { HANG_MS } from './manifest-reader.ts';

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
  /** The same, for a choice (D13). A manifest that takes longer to read counts at a later one; until then, `areAllRead` is false. */
  readonly freshen: () => Promise<void>;
  /** False: pods may be declared that are not known. */
  readonly areAllRead: () => boolean;
  readonly close: () => void;
};

/** The directory is watched; this covers lost events. */
export const REREAD_MS = 30_000;
/** How long a choice waits for one call, and for all: on a local disk a call takes some 0.1 ms. */
const FRESH_MS = 20;
const FRESH_ALL_MS = 100;
/** How often it is checked whether the first reading hangs. */
const OPENED_MS = 100;

/** The manifests of the directory, kept current beside the loop. */
export function followManifests(needs: Needs): FollowedManifests {
  const { clock } = needs;
  const files = createManifestFiles({ ...needs, partlyRead: needs.changed });
  let readMs: MonoMs = Number.NEGATIVE_INFINITY;
  let endWatch: (() => void) | null = null;
  let isWatched = false;
  let isTakingNew = false;
  let isClosed = false;

  const isRead = (): boolean => {
    const pods = files.pods();
    return pods.known || pods.why !== 'stale';
  };

  async function read(): Promise<void> {
    readMs = clock.monoMs();
    const isChanged = await files.read();
    if (isClosed || isChanged === null) return;
    if (isChanged || endWatch === null) needs.changed();
    if (!isWatched) watch();
  }

  /** Not before the first answer: where reading hangs, this would hang the loop. */
  function watch(): void {
    endWatch?.();
    endWatch = watchPath(needs.podManifests, () => void read(), clock, {
      seen: files.touched,
      armed: (error) => {
        isWatched = error === null;
        if (isWatched) needs.findings.clear(MANIFESTS_UNWATCHED);
        else if (error !== 'ENOENT') needs.findings.raise(manifestsUnwatched(needs.podManifests, REREAD_MS / 1_000));
      },
    });
    if (!isWatched) return;
    // What may have changed before.
    files.touched(null);
    void read();
  }

  async function takeNew(): Promise<void> {
    isTakingNew = true;
    const isNew = await files.readNew().finally(() => {
      isTakingNew = false;
    });
    if (isClosed) return;
    if (isNew) needs.added();
    if (files.isReadDue()) void read();
  }

  /** Without a watch, only a new listing tells whether there are new files. A hang is reported, and holds nothing up. */
  const isListed = (): boolean => isWatched || !isTakingNew || files.silentMs() >= HANG_MS;

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
    areAllRead: () => files.areAllRead() && isListed(),
    freshen: async () => {
      // What has changed while this process stood still is heard in the next whole turn of the event loop: the first may be over.
      await sleep(clock, 0);
      await sleep(clock, 0);
      const endMs = clock.monoMs() + FRESH_ALL_MS;
      await new Promise<void>((resolve, reject) => {
        let cancel = (): void => undefined;
        takeNew()
          .finally(() => cancel())
          .then(resolve, reject);
        const check = (): void => {
          const leftMs = Math.min(FRESH_MS - files.silentMs(), endMs - clock.monoMs());
          if (leftMs <= 0) resolve();
          else cancel = clock.after(leftMs, check);
        };
        check();
      });
    },
    close: () => {
      isClosed = true;
      endWatch?.();
      files.close();
    },
  };
}
