import type { MonoMs } from '../../core/reading.ts';
import type { Clock } from '../../ports.ts';
import { isPodmans } from '../manifests/podman.ts';
import { type Entry, isUnlocated, NOT_ASKED } from './pod-place.ts';

type PodmanDoubts = {
  /** A job of this unit has begun. */
  readonly began: (unit: string) => void;
  /** Podman may have started something that systemd did not tell of. */
  readonly doubt: () => void;
  /** One that was in doubt has its answer. */
  readonly answered: () => void;
  readonly close: () => void;
};

/**
 * A machine may start containers without a pause. In between, one that does not run is believed, or it would be unknown without
 * end: for so long after the last answer, however long podman takes for all of them, but a limited time after the doubt, as one
 * that hangs must not keep the others from being doubted.
 */
const BELIEVED_MS = 4_000;
const MOST_BELIEVED_MS = 12_000;

/** Podman starts something, maybe one of these under another id: what it last said of those that do not run holds no more. */
export function createPodmanDoubts(needs: {
  readonly clock: Clock;
  readonly entries: () => Iterable<Entry>;
  /** One that has just ended, to be made anew, is known as running until it is looked at. */
  readonly look: () => void;
  readonly doubted: () => void;
}): PodmanDoubts {
  const { clock, entries } = needs;
  let doubtedMs: MonoMs = Number.NEGATIVE_INFINITY;
  let answeredMs: MonoMs = Number.NEGATIVE_INFINITY;
  let cancel: (() => void) | null = null;

  function doubt(): void {
    const believedMs = Math.max(doubtedMs, answeredMs) + BELIEVED_MS;
    const waitMs = Math.min(believedMs, doubtedMs + MOST_BELIEVED_MS) - clock.monoMs();
    if (waitMs > 0) {
      cancel ??= clock.after(waitMs, () => {
        cancel = null;
        doubt();
      });
      return;
    }
    needs.look();
    const doubted = [...entries()].filter(isDoubtful);
    if (doubted.length === 0) return;
    doubtedMs = clock.monoMs();
    // One that waits for its answer keeps its turn.
    for (const entry of doubted) {
      const isBelieved = !isUnlocated(entry);
      Object.assign(entry, { isAnew: true, isOutrun: entry.isAsking });
      if (isBelieved) Object.assign(entry, { unanswered: NOT_ASKED, isReported: false });
    }
    needs.doubted();
  }

  /** One that is started again is found where podman last said that it runs. */
  const isAt = (unit: string): boolean => [...entries()].some(({ place }) => place.path?.endsWith(`/${unit}`) === true);

  return {
    began: (unit) => {
      if (isPodmans(unit) && !isAt(unit)) doubt();
    },
    doubt,
    answered: () => {
      answeredMs = clock.monoMs();
    },
    close: () => cancel?.(),
  };
}

const isDoubtful = (entry: Entry): boolean =>
  entry.manifest.target.kind === 'podman' && !entry.cgroup.known && (entry.isAsking || !isUnlocated(entry));
