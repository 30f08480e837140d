import * as z from 'zod/mini';
import { parseDuration } from '../core/duration.ts';
import { MS_WANTED, readMs } from './envelope.ts';

/** shutdown-scenarios.md 1.2, read to whole milliseconds: an instant may lie before the signal, a delay may not. */
export const instant = z.pipe(
  z.unknown(),
  z.transform((value: unknown, context): number => {
    const ms = readMs(value);
    if (ms !== null && Number.isSafeInteger(ms)) return ms;
    const message = ms === null ? MS_WANTED : `must be whole milliseconds, not ${String(value)}`;
    context.issues.push({ code: 'custom', message, input: value });
    return z.NEVER;
  }),
);
export const delay = z.pipe(
  instant,
  z.number().check((context) => {
    if (context.value >= 0) return;
    const message = `must not be negative, it is ${context.value} ms`;
    context.issues.push({ code: 'custom', message, input: context.value });
  }),
);

/** A key that ends in `Seconds`: whole seconds, or a duration of whole seconds. */
export const seconds = z.pipe(
  z.unknown(),
  z.transform((value: unknown, context): number => {
    const parsed = typeof value === 'string' ? parseDuration(value) : null;
    const read = parsed?.ok ? parsed.duration.ms / 1_000 : value;
    if (typeof read === 'number' && Number.isSafeInteger(read)) return read;
    context.issues.push({ code: 'custom', message: 'expected whole seconds; for example 30 or "30s"', input: value });
    return z.NEVER;
  }),
);
