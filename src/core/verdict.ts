import type { Decision } from './decision.ts';
import type { MonoMs } from './reading.ts';
import type { Reason } from './reason.ts';
import type { Signal, SignalSample } from './signal.ts';
import type { State } from './state/state.ts';

/** What the core wants of the next look. */
export type NextLook = {
  readonly afterMs: number;
  readonly pods: Signal | 'all' | null;
  /** The pods' directories have to be known, not older than a minute. */
  readonly isDiskNear?: true;
  /** How far apart the file systems may be sampled meanwhile; absent: as often as the looks come. */
  readonly disksAfterMs?: number;
  /** A reader asked for it: what no threshold counts is measured as well. */
  readonly isForReader?: true;
  /** Nothing else is waited for: meanwhile memory.available may be looked at alone. */
  readonly glance?: Glance;
};
/** D2 just above a threshold of memory.available, none of which is met, and nothing under way. */
export type Glance = {
  /** Above the highest of them. */
  readonly leastBytes: number;
  /** The fastest plausible fill. */
  readonly bytesPerMs: number;
  /** Not more often. */
  readonly floorMs: number;
  /** The same while memory falls so fast that it would be met soon. */
  readonly fallingFloorMs: number;
  /** The sample that shows how fast it falls. */
  readonly since: SignalSample;
  /** When the next full look is due. */
  readonly untilMs: MonoMs;
};
export type Verdict = {
  readonly state: State;
  readonly decisions: readonly Decision[];
  readonly reasons: readonly Reason[];
  readonly next: NextLook;
  /** How long the first signal may wait for the record's fsync: 5 if a decision is of a hard threshold, else 50. */
  readonly intentWaitMs: 5 | 50;
};
