/** Milliseconds on CLOCK_MONOTONIC since boot. Comparable only within one boot id. */
export type MonoMs = number;

export type Unknown = {
  readonly known: false;
  /** `not-applicable`: product 4, this mode has no such source; never counted in failedLooks, never a finding. */
  readonly why: 'absent' | 'unreadable' | 'malformed' | 'timed-out' | 'stale' | 'not-asked' | 'not-applicable';
  /** File, property or call, as an operator would look for it. */
  readonly where: string;
  readonly detail: string;
};
export type Reading<T> = { readonly known: true; readonly value: T } | Unknown;

export function known<T>(value: T): Reading<T> {
  return { known: true, value };
}

/** The reason why there is no value. `where` is a file, property or call, as an operator would look for it. */
export function unknown(why: Unknown['why'], where: string, detail: string): Unknown {
  return { known: false, why, where, detail };
}

/** The result of `read` on the value, or the reason why there is no value. */
export function ifKnown<A, B>(reading: Reading<A>, read: (value: A) => Reading<B>): Reading<B> {
  return reading.known ? read(reading.value) : reading;
}

/** `otherwise` if it does not exist. */
export function orIfAbsent<T>(reading: Reading<T>, otherwise: T): Reading<T> {
  return !reading.known && reading.why === 'absent' ? known(otherwise) : reading;
}

/** The value, or null if unknown: only for display. */
export function valueOrNull<T>(reading: Reading<T>): T | null {
  return reading.known ? reading.value : null;
}

/** Marks an exhaustive switch over a union: a new member does not compile here. */
export function assertNever(x: never): never {
  throw new Error(`unexpected value ${JSON.stringify(x)}`);
}

/** The message of whatever was thrown. */
export function sayCause(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

/** The first unknown reading, if there is one. */
export function sumOf(readings: readonly Reading<number>[]): Reading<number> {
  let sum = 0;
  for (const reading of readings) {
    if (!reading.known) return reading;
    sum += reading.value;
  }
  return known(Math.min(sum, Number.MAX_SAFE_INTEGER));
}
