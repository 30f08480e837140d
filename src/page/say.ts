import type { Signal } from '../core/signal.ts';
import { SIGNAL_FACTS, usageUnit } from '../core/signal.ts';
import { sayBytes } from '../core/units/quantity.ts';

const whole = new Intl.NumberFormat('en-GB');
const compact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumSignificantDigits: 3 });
const time = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' });
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });
const zone = new Intl.DateTimeFormat('en-GB', { hour: 'numeric', timeZoneName: 'short' });

/** "92.1 MiB", "1,204 inodes", "5.5 seconds" */
export function sayAmount(signal: Signal, amount: number): string {
  const { unit } = SIGNAL_FACTS[signal];
  if (unit === 'bytes') return sayBytes(amount);
  return unit === 'ms' ? sayFor(amount) : `${whole.format(amount)} ${unit}`;
}

/** The same for an axis: "256 MiB", "16.8M". */
export function sayShort(signal: Signal, amount: number): string {
  const { unit } = SIGNAL_FACTS[signal];
  return unit === 'bytes' ? sayBytes(amount) : unit === 'ms' ? `${amount / 1_000} s` : compact.format(amount);
}

/** A pod's usage, in the unit that the ranking for the signal counts. */
export function sayUsage(signal: Signal, amount: number): string {
  return usageUnit(signal) === 'bytes' ? sayBytes(amount) : whole.format(amount);
}

const UNITS = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
] as const;

/** A duration in words, by its two largest units: "4 minutes 10 seconds", "0.4 seconds". */
export function sayFor(ms: number): string {
  if (ms < 10_000) return `${whole.format(Math.round(ms / 100) / 10)} second${Math.round(ms / 100) === 10 ? '' : 's'}`;
  let rest = Math.round(ms / 1_000);
  const parts: string[] = [];
  for (const [name, seconds] of UNITS) {
    const count = Math.floor(rest / seconds);
    rest -= count * seconds;
    if (count > 0) parts.push(`${count} ${name}${count === 1 ? '' : 's'}`);
    if (parts.length === 2 || (parts.length === 1 && count === 0)) break;
  }
  return parts.join(' ');
}

/** "about 4 minutes": no more exact than a forecast. */
export function sayAbout(ms: number): string {
  if (ms < 5_000) return 'a few seconds';
  const step = ms < 90_000 ? 5_000 : 60_000;
  return `about ${sayFor(Math.round(ms / step) * step)}`;
}

/** "just now", "12 seconds ago", "3 hours ago": by the largest unit. */
export function sayAgo(ms: number): string {
  const seconds = Math.floor(ms / 1_000);
  if (seconds < 2) return 'just now';
  const [name, length] = UNITS.find(([, of]) => seconds >= of) ?? UNITS[3];
  const count = Math.floor(seconds / length);
  return `${count} ${name}${count === 1 ? '' : 's'} ago`;
}

/** Local time with its zone, and the day if it is not today: "02:03:21 CET", "26 Nov 02:03:21 CET". */
export function sayWhen(wallMs: number, nowWallMs: number): string {
  const said = `${time.format(wallMs)} ${zoneOf(wallMs)}`;
  return day.format(wallMs) === day.format(nowWallMs) ? said : `${day.format(wallMs)} ${said}`;
}

/** Local time of day. */
export const sayTime = (wallMs: number): string => time.format(wallMs);

function zoneOf(wallMs: number): string {
  return zone.formatToParts(wallMs).find(({ type }) => type === 'timeZoneName')?.value ?? '';
}

/** As the beginning of a sentence. */
export const capital = (text: string): string => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
