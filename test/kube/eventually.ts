import { vi } from 'vitest';

/** Ends only a test that hangs: a machine that is busy with other things decides nothing. */
const DEADLINE_MS = 60_000;

/** Once it throws no more. */
export const eventually = <T>(check: () => T | Promise<T>): Promise<T> => vi.waitFor(check, { timeout: DEADLINE_MS });
