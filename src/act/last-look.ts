import type { MetThreshold } from '../core/eviction/threshold.ts';
import { type MonoMs, type Reading, unknown } from '../core/reading.ts';
import type { SignalSample } from '../core/signal.ts';
import { isLess } from '../core/units/quantity.ts';
import type { Clock, Observer } from '../ports.ts';
import { sayAmount, sayLimit } from '../words/phrases.ts';

type LastLookNeeds = { readonly clock: Clock; readonly observer: Pick<Observer, 'reread'> };

/** D9: a reading that takes longer does not stop the kill. */
const LAST_LOOK_MS = 10;
/** How old a choice may be that an earlier run had not begun to carry out: after that, all it was made from may have changed. */
const STALE_MS = 1_000;

/** D9: the sentence why the kill is dropped; null if it proceeds, also because the reading is unknown or too slow. */
export async function lastLook(needs: LastLookNeeds, threshold: MetThreshold): Promise<string | null> {
  const { signal, target } = threshold;
  const sample = await inTime(needs.clock, needs.observer.reread(signal));
  if (!sample.known || isLess(sample.value.available, target)) return null;
  return `${signal} ${sayAmount(signal, sample.value.available)} has recovered to ${sayLimit(signal, target)} or more`;
}

/** D9, of all that wait for it. */
export async function areOver(needs: LastLookNeeds, thresholds: readonly MetThreshold[]): Promise<boolean> {
  const said = await Promise.all(thresholds.map((threshold) => lastLook(needs, threshold)));
  return said.every((why) => why !== null);
}

function inTime(clock: Clock, reading: Promise<Reading<SignalSample>>): Promise<Reading<SignalSample>> {
  return new Promise((resolve) => {
    const late = unknown('timed-out', 'last check', `no reading within ${LAST_LOOK_MS} ms`);
    const cancel = clock.after(LAST_LOOK_MS, () => resolve(late));
    reading
      .catch((error: unknown) => unknown('unreadable', 'last check', String(error)))
      .then((value) => {
        cancel();
        resolve(value);
      });
  });
}

export const isStale = ({ clock }: Pick<LastLookNeeds, 'clock'>, decidedMs: MonoMs): boolean =>
  clock.monoMs() - decidedMs > STALE_MS;
