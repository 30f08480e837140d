import type { Decision } from './decision.ts';
import type { MonoMs } from './reading.ts';
import type { Reason } from './reason.ts';
import type { Signal, SignalSample } from './signal.ts';
import type { EscapedFrom, State } from './state/state.ts';

/** What the next look must contain, and when it is due. */
export type NextLook = {
  readonly afterMs: number;
  readonly pods: Signal | 'all' | null;
  /** The usage of the pods' directories is needed, at most a minute old. */
  readonly isDiskNear?: true;
  /** A disk is short and waits for no victim: what it has asked for is still needed, whatever `pods` is for. */
  readonly isDiskShort?: true;
  /** The interval for sampling file systems meanwhile; absent: at every look. */
  readonly disksAfterMs?: number;
  /** What these still hold is needed; absent: nothing. */
  readonly escaped?: readonly EscapedFrom[];
  /** A reader asked for it: also measure what no threshold needs, and every pod if `pods` asks for none. */
  readonly isForReader?: true;
  /** Nothing else is awaited: until then, reading memory.available alone is enough. */
  readonly glance?: Glance;
};
/** D2: memory.available is just above a threshold, none of its thresholds is met, and nothing is in progress. */
export type Glance = {
  /** Just above the highest threshold. */
  readonly leastBytes: number;
  /** The fastest plausible fill. */
  readonly bytesPerMs: number;
  /** The minimum time between glances. */
  readonly floorMs: number;
  /** The same while memory falls so fast that a threshold would be met soon. */
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
