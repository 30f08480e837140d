export type FailureKind = 'throws' | 'complains' | 'slow' | 'large' | 'hangs' | 'dies';
export type Failure = {
  readonly kind: FailureKind;
  /** Failures with the same words are one. */
  readonly what: string;
  readonly detail: string;
  /** Where the input lies. */
  readonly file: string;
};
export type Tally = {
  readonly executions: number;
  readonly accepted: number;
  readonly slowestMs: number;
  /** The most that the process ever had. */
  readonly peakRssMiB: number;
};
/** A line that a worker prints. */
export type WorkerLine = { readonly failure: Failure } | { readonly tally: Tally };
export type TargetReport = Tally & {
  readonly target: string;
  readonly seconds: number;
  readonly failures: readonly Failure[];
};

/** What a worker is told, as JSON in its first argument. */
export type Order = {
  readonly target: string;
  readonly seed: string;
  readonly root: string;
  readonly scratch: string;
  /** The file of its examples: unpacking them must not count as the target's memory. */
  readonly examples: string;
  /** Where failing inputs are kept. */
  readonly saved: string;
  readonly seconds: number;
  /** Whatever the time. */
  readonly atLeast: number;
  readonly executions: number;
  /** Also what grows out of little, at 64 KiB. */
  readonly bombs: boolean;
  /** Only this input, nothing made up. */
  readonly input: string | null;
  readonly limits: Limits;
};
export type Limits = {
  readonly slowMs: number;
  readonly rssMiB: number;
  /** An input that takes more CPU time than this, or ten times as long, hangs: the process is ended. */
  readonly hangMs: number;
};

/** In the scratch directory: the input that is being tried, behind two 32-bit numbers: which one it is, and its length. */
export const CURRENT = 'current';
export const CURRENT_HEAD_BYTES = 8;
export const LIMITS: Limits = { slowMs: 1_000, rssMiB: 200, hangMs: 10_000 };

export function sayReport({ target, seconds, failures, ...tally }: TargetReport): string {
  const share = tally.executions === 0 ? 0 : Math.round((100 * tally.accepted) / tally.executions);
  const columns = [
    target.padEnd(16),
    `${tally.executions}`.padStart(9),
    `${share} %`.padStart(6),
    `${Math.round(tally.slowestMs)} ms`.padStart(8),
    `${Math.round(tally.peakRssMiB)} MiB`.padStart(8),
    `${Math.round(seconds)} s`.padStart(6),
    failures.length === 0 ? 'ok' : `${failures.length} FAILED`,
  ];
  return columns.join('  ');
}

export const HEADING = [
  'target'.padEnd(16),
  'executions'.padStart(9),
  'taken'.padStart(6),
  'slowest'.padStart(8),
  'peak RSS'.padStart(8),
  'time'.padStart(6),
].join('  ');
