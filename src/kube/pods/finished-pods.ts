import { UNMOUNT_MS } from '../../core/eviction/under-way.ts';
import type { MonoMs } from '../../core/reading.ts';
import type { Clock } from '../../ports.ts';

export type FinishedPods = {
  /**
   * Since when it has been seen without a process in a container. `ids`: all its containers that are known; null: one has a
   * process. It counts anew once another one is known: that was another run, of which only the end was seen.
   */
  readonly sinceMs: (uid: string, ids: readonly string[] | null) => MonoMs | null;
  /** The kubelet has had less time since then than it has to free what the pod holds (D3). */
  readonly isRecent: (sinceMs: MonoMs) => boolean;
  /**
   * The same for one whose containers may be started again, once and not per run: it may be in a crash loop. `sinceMs`: as
   * above.
   */
  readonly isRecentOnce: (uid: string, sinceMs: MonoMs) => boolean;
  /** Forgets all others. */
  readonly keep: (live: Pick<ReadonlySet<string>, 'has'>) => void;
};

/** The kubelet forgets that a container has crashed once it has run for that long. */
const AGAIN_MS = 600_000;

export function createFinishedPods(clock: Pick<Clock, 'monoMs'>): FinishedPods {
  const seen = new Map<string, { readonly sinceMs: MonoMs; readonly ids: ReadonlySet<string> }>();
  const doubted = new Map<string, MonoMs>();
  const isRecent = (sinceMs: MonoMs): boolean => clock.monoMs() - sinceMs < UNMOUNT_MS;
  return {
    sinceMs: (uid, ids) => {
      if (ids === null) {
        seen.delete(uid);
        return null;
      }
      const before = seen.get(uid);
      if (before !== undefined && ids.every((id) => before.ids.has(id))) return before.sinceMs;
      const sinceMs = clock.monoMs();
      seen.set(uid, { sinceMs, ids: new Set([...(before?.ids ?? []), ...ids]) });
      return sinceMs;
    },
    isRecent,
    isRecentOnce: (uid, sinceMs) => {
      const before = doubted.get(uid);
      const firstMs = before === undefined || sinceMs - before >= AGAIN_MS ? sinceMs : before;
      doubted.set(uid, firstMs);
      return isRecent(firstMs);
    },
    keep: (live) => {
      for (const of of [seen, doubted]) for (const uid of of.keys()) if (!live.has(uid)) of.delete(uid);
    },
  };
}
