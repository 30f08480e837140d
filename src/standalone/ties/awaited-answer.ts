import { type MonoMs, type Reading, type Unknown, unknown } from '../../core/reading.ts';
import type { Clock } from '../../ports.ts';

type AwaitedAnswer = {
  /** There is something that systemd has not said. The time of an answer that is awaited, or missing, goes on: news may not end. */
  readonly ask: () => void;
  /** The same when it can be asked again: one that is missing is awaited anew. */
  readonly askAgain: () => void;
  /** It has said all. */
  readonly came: () => void;
  readonly isHere: () => boolean;
  /** Why no pod may be chosen yet (D13); null: all is known, or it is waited for no longer. */
  readonly unsettled: () => Unknown | null;
  readonly close: () => void;
};

/** systemd has had enough time for it, if it answers at all; a node without memory has not. */
const PATIENCE_MS: MonoMs = 1_000;

/**
 * What systemd says of the pods' units: what would stop along with them, and whether that takes the machine down. It is waited
 * for whenever it is not known of one of them.
 */
export function createAwaitedAnswer(needs: {
  readonly clock: Clock;
  readonly wake: () => void;
  /** Choices do without it, until it comes after all. */
  readonly missing: (isMissing: boolean) => void;
}): AwaitedAnswer {
  const { clock } = needs;
  let state: 'here' | 'awaited' | 'missing' = 'here';
  let isSaid = false;
  let cancel: () => void = () => undefined;
  /** Of the patience with one choice: whatever is new again and again, it is held up no longer in all. */
  let leftMs = PATIENCE_MS;
  let heldUpMs: MonoMs | null = null;

  function end(as: 'here' | 'missing'): void {
    if (heldUpMs !== null) leftMs = Math.max(0, leftMs - (clock.monoMs() - heldUpMs));
    heldUpMs = null;
    cancel();
    state = as;
    const isMissing = as === 'missing';
    if (isMissing !== isSaid) needs.missing(isMissing);
    isSaid = isMissing;
  }
  function wait(): void {
    state = 'awaited';
    cancel = clock.after(leftMs, () => {
      end('missing');
      needs.wake();
    });
  }
  return {
    ask: () => {
      if (state === 'here') wait();
    },
    askAgain: () => {
      if (state !== 'awaited') wait();
    },
    came: () => end('here'),
    isHere: () => state === 'here',
    unsettled: () => {
      if (state === 'awaited') {
        heldUpMs ??= clock.monoMs();
        return unknown('stale', 'units', 'systemd has not yet said what would stop along with the pods');
      }
      leftMs = PATIENCE_MS;
      return null;
    },
    close: () => cancel(),
  };
}

/** Errors by which the bus says that systemd is not there, has not answered, or was not asked. */
const BY_THE_BUS =
  /DBus\.Error\.(NoReply|ServiceUnknown|NameHasNoOwner|Disconnected|Time(d)?out|LimitsExceeded|AccessDenied)/i;

/** Also a refusal is one: that systemd knows no such unit, or cannot say. */
export const isAnswer = (reading: Reading<unknown>): boolean =>
  reading.known || reading.why === 'malformed' || (reading.why === 'unreadable' && !BY_THE_BUS.test(reading.detail));
