import { InvalidArgumentError } from 'commander';
import { parseDuration } from '../core/units/duration.ts';

/** `--since`: an instant, or a time before now. */
export function parseSince(text: string): (nowWallMs: number) => number {
  const parsed = parseDuration(text);
  if (parsed.ok && parsed.duration.ms >= 0) return (nowWallMs) => nowWallMs - parsed.duration.ms;
  // Date parses a lone number as a month or a year.
  const instant = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(instant))
    throw new InvalidArgumentError('Use a duration such as 2h30m, or an instant such as 2026-01-31T12:00:00Z.');
  return () => instant;
}
