import type { Observation } from '../core/observation.ts';
import { SIGNALS, type Signal } from '../core/signal.ts';
import type { Clock } from '../ports.ts';

/** What `/api/history` answers. */
export type HistoryAnswer = {
  readonly schema: 1;
  readonly stepMs: number;
  /** When each step began, oldest first. */
  readonly atWallMs: readonly number[];
  /**
   * The lowest amount available at a sample in the step; null: none was known. Signals that were never known are
   * omitted.
   */
  readonly lowest: { readonly [S in Signal]?: readonly (number | null)[] };
};
export type SignalHistory = {
  readonly seen: (observation: Observation) => void;
  readonly answer: () => HistoryAnswer;
  /** Frees its memory. */
  readonly forget: () => void;
};

const STEP_MS = 10_000;
/** One hour or more: samples are up to 10 s apart. */
const STEPS = 360;

/**
 * The last hour in memory of a fixed size, allocated at the first sample: one time and eleven amounts of 8 bytes for each of
 * 360 steps, 34,560 bytes.
 */
export function createSignalHistory(clock: Clock): SignalHistory {
  let kept: Rings | null = null;
  return {
    seen: (observation) => {
      kept ??= createRings();
      kept.put(observation);
    },
    answer: () => {
      const aheadMs = clock.wallMs() - clock.monoMs();
      const { times, amounts } = kept?.read() ?? { times: [], amounts: new Map<Signal, readonly number[]>() };
      const known = [...amounts].filter(([, of]) => of.some((amount) => !Number.isNaN(amount)));
      return {
        schema: 1,
        stepMs: STEP_MS,
        atWallMs: times.map((atMs) => Math.round(atMs + aheadMs)),
        lowest: Object.fromEntries(known.map(([signal, of]) => [signal, of.map(orNull)])),
      };
    },
    forget: () => {
      kept = null;
    },
  };
}

const orNull = (amount: number): number | null => (Number.isNaN(amount) ? null : amount);

type Rings = {
  readonly put: (observation: Observation) => void;
  readonly read: () => { readonly times: readonly number[]; readonly amounts: ReadonlyMap<Signal, readonly number[]> };
};

function createRings(): Rings {
  const times = new Float64Array(STEPS);
  const rings = SIGNALS.map((signal) => ({ signal, amounts: new Float64Array(STEPS) }));
  let steps = 0;
  const inOrder = (ring: Float64Array): readonly number[] => {
    const first = Math.max(0, steps - STEPS);
    return Array.from({ length: steps - first }, (_, i) => ring[(first + i) % STEPS] ?? Number.NaN);
  };
  return {
    put: ({ atMs, signals }) => {
      const isNext = steps === 0 || atMs - (times[(steps - 1) % STEPS] ?? 0) >= STEP_MS;
      if (isNext) steps += 1;
      const at = (steps - 1) % STEPS;
      if (isNext) times[at] = atMs;
      for (const { signal, amounts } of rings) {
        const sample = signals[signal];
        const before = isNext ? Number.NaN : (amounts[at] ?? Number.NaN);
        const now = sample.known ? sample.value.available : Number.NaN;
        amounts[at] = Number.isNaN(before) || now < before ? now : before;
      }
    },
    read: () => ({
      times: inOrder(times),
      amounts: new Map(rings.map(({ signal, amounts }) => [signal, inOrder(amounts)])),
    }),
  };
}
