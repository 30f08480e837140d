import type { MonoMs } from '../reading.ts';

/**
 * What cuts the grace period of a stop in progress: a hard threshold (D4), or a phase of a shutdown. Each may come after
 * others; the earliest end holds.
 */
export type Hasten = {
  readonly isCut: () => boolean;
  /** When its time is over; what cut it before `fromMs` counts from then. Infinite: nothing has. */
  readonly endsMs: (fromMs: MonoMs) => MonoMs;
  /** The signal that it is to end by. */
  readonly first: () => 'sigterm' | 'sigkill';
  readonly whenCut: Promise<'hastened'>;
  /** The phase that has cut it. Null: nothing has, or a hard threshold, which has precedence. */
  readonly phase: () => PhaseCut | null;
};
/** `tier` present: the service manager has stopped the kubelet (beside-a-kubelet.md E12). */
export type PhaseCut = { readonly graceMs: number; readonly endsMs: MonoMs; readonly tier?: 'stop' };
