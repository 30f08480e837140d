import { bytesUp, decimalOf, parseQuantity } from '../core/quantity.ts';
import { parseInstant } from '../document/instant.ts';
import { readMs } from './envelope.ts';

type Read<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly text: string };

/** scenarios.md 1.2: bytes or a count, a whole number from 0 to 2^53 - 1 or a quantity that is one. */
export function readCount(value: unknown): Read<number> {
  if (typeof value === 'number') {
    return Number.isSafeInteger(value) && value >= 0 ? { ok: true, value } : wrongNumber(value);
  }
  if (typeof value !== 'string') return wrong('expected a number or a quantity');
  const parsed = parseQuantity(value);
  if (!parsed.ok) return wrong(parsed.text);
  const decimal = decimalOf(parsed.quantity);
  const count = bytesUp(parsed.quantity);
  const isExact = String(count) === decimal;
  return isExact && count >= 0 ? { ok: true, value: count } : wrongNumber(decimal);
}

function wrongNumber(said: number | string): Read<number> {
  const text = String(said);
  if (text.startsWith('-')) return wrong(`must not be negative, it is ${text}`);
  return wrong(/[.]/.test(text) ? `must be a whole number, it is ${text}` : `must be at most 2^53 - 1, it is ${text}`);
}

/** scenarios.md 2.5.4: milliseconds since the start; null = `none`. A time of day needs to know when the start was. */
export function readTime(value: unknown, startWallMs: number | null): Read<number | null> {
  if (value === 'none') return { ok: true, value: null };
  const ms = readMs(value);
  if (ms !== null) return { ok: true, value: ms };
  const wallMs = typeof value === 'string' ? parseInstant(value) : null;
  if (wallMs === null) return wrong('expected milliseconds or a duration since the start, a time as RFC 3339, or none');
  if (startWallMs === null) return wrong('a time of day needs the key start, the time of day of at: 0');
  return { ok: true, value: wallMs - startWallMs };
}

function wrong(text: string): { readonly ok: false; readonly text: string } {
  return { ok: false, text };
}
