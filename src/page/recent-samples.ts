import type { Signal } from '../core/signal.ts';
import type { HistoryAnswer } from '../serve/signal-history.ts';
import type { StatusReport } from '../serve/status.ts';
import type { Point } from './forecast.ts';

const HOUR_MS = 3_600_000;
/** How long samples that this page has seen are kept, for the rate of the last minute. */
const FINE_MS = 90_000;

type Curves = { readonly at: readonly number[]; readonly amounts: readonly (number | null)[] };
export type RecentSamples = {
  readonly heard: (status: StatusReport) => void;
  readonly steps: (history: HistoryAnswer) => void;
  /** The last hour, in seconds since 1970, up to the last sample; null: unknown, or not sampled. */
  readonly curve: (signal: Signal) => Curves;
  /** The last minutes in the finest available resolution. */
  readonly points: (signal: Signal) => readonly Point[];
};

/** The agent's history of the last hour, continued by what this page has seen itself. */
export function createRecentSamples(): RecentSamples {
  let history: HistoryAnswer | null = null;
  let fine: readonly { readonly atMs: number; readonly amounts: ReadonlyMap<Signal, number> }[] = [];
  const stepsOf = (signal: Signal): readonly { readonly atMs: number; readonly amount: number | null }[] =>
    (history?.atWallMs ?? []).map((atMs, i) => ({ atMs, amount: history?.lowest[signal]?.[i] ?? null }));
  return {
    heard: ({ atWallMs, signals }) => {
      if (fine.at(-1)?.atMs === atWallMs) return;
      const known = signals.flatMap(({ signal, available }) =>
        available === null ? [] : [[signal, available] as const],
      );
      fine = [
        ...fine.filter(({ atMs }) => atMs > atWallMs - FINE_MS && atMs < atWallMs),
        { atMs: atWallMs, amounts: new Map(known) },
      ];
    },
    steps: (answer) => {
      history = answer;
    },
    curve: (signal) => {
      const steps = stepsOf(signal);
      const last = fine.at(-1);
      const lastStepMs = steps.at(-1)?.atMs ?? 0;
      const all = [
        ...steps,
        ...(last !== undefined && last.atMs > lastStepMs
          ? [{ atMs: last.atMs, amount: last.amounts.get(signal) ?? null }]
          : []),
      ].filter(({ atMs }) => atMs > (last?.atMs ?? atMs) - HOUR_MS);
      return withGaps(all, (history?.stepMs ?? 0) * 3);
    },
    points: (signal) => {
      const seen = fine.flatMap(({ atMs, amounts }) => {
        const amount = amounts.get(signal);
        return amount === undefined ? [] : [{ atMs, amount }];
      });
      const sinceMs = seen[0]?.atMs ?? Number.POSITIVE_INFINITY;
      const stepMs = history?.stepMs ?? 0;
      // The lowest amount of a step is somewhere in it; if the amount falls, at its end.
      const before = stepsOf(signal).flatMap(({ atMs, amount }) =>
        amount === null || atMs + stepMs >= sinceMs ? [] : [{ atMs: atMs + stepMs, amount }],
      );
      return [...before, ...seen];
    },
  };
}

/** If samples are missing for longer than their interval, no line connects the two sides. */
function withGaps(all: readonly { readonly atMs: number; readonly amount: number | null }[], mostMs: number): Curves {
  const at: number[] = [];
  const amounts: (number | null)[] = [];
  for (const { atMs, amount } of all) {
    const lastSeconds = at.at(-1);
    if (lastSeconds !== undefined && mostMs > 0 && atMs / 1_000 - lastSeconds > mostMs / 1_000) {
      at.push(lastSeconds + 1);
      amounts.push(null);
    }
    at.push(atMs / 1_000);
    amounts.push(amount);
  }
  return { at, amounts };
}
