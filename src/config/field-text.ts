import { parseDuration, sayDuration } from '../core/units/duration.ts';
import { text } from '../document/check.ts';

/** The formats of text fields. Each check reports what is wrong with a value and shows an example. */

export const DURATION_PATTERN = '^[+-]?(0|(([0-9]+\\.?[0-9]*|\\.[0-9]+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h))+)$';
export const AMOUNT_PATTERN = '^([+-]?[0-9.]+([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?|[^\\s%]+%+)$';

/** A Go duration of at least `minMs` and at most `maxMs` (any, if absent). */
export function duration(
  description: string,
  example: string,
  minMs = Number.NEGATIVE_INFINITY,
  maxMs = Number.POSITIVE_INFINITY,
) {
  const wrong = (value: string): string | null => {
    const parsed = parseDuration(value);
    if (!parsed.ok) return parsed.text;
    if (parsed.duration.ms < minMs) return `must be at least ${sayDuration(minMs)}, not ${value}`;
    return parsed.duration.ms > maxMs ? `must be at most ${sayDuration(maxMs)}, not ${value}` : null;
  };
  return text(wrong, { description, examples: [example], pattern: DURATION_PATTERN });
}

export function absolutePath(description: string, example: string) {
  return text(sayPath, { description, examples: [example], pattern: '^/' });
}
function sayPath(value: string): string | null {
  return value.startsWith('/') ? sayDots(value) : `must be an absolute path, not ${JSON.stringify(value)}`;
}
/** Others keep files there, too: it can be neither closed to them nor searched for files of one program. */
const SHARED = [
  ...[
    '/',
    '/boot',
    '/dev',
    '/dev/shm',
    '/etc',
    '/home',
    '/media',
    '/mnt',
    '/opt',
    '/root',
    '/run',
    '/run/lock',
    '/srv',
  ],
  ...['/tmp', '/usr', '/usr/local', '/var', '/var/cache', '/var/lib', '/var/log', '/var/run', '/var/spool', '/var/tmp'],
];
/** A directory that is created where it is missing: below /proc Node.js 20 would retry indefinitely. */
export function ownDirectory(description: string, example: string) {
  const wrong = (value: string): string | null => {
    const names = value.split('/').filter((name) => name !== '' && name !== '.');
    const isKernels = names[0] === 'proc' || names[0] === 'sys';
    const isShared = SHARED.includes(`/${names.join('/')}`);
    return (
      sayPath(value) ??
      (isKernels ? 'must not be in /proc or /sys, where no directory can be created' : null) ??
      (isShared ? `must be a directory of its own, not ${value}` : null)
    );
  };
  return text(wrong, { description, examples: [example], pattern: '^/' });
}

export function percentage(description: string, example: string, most = 100) {
  const wrong = (value: string): string | null => {
    const match = /^([0-9]+(?:\.[0-9]+)?)%$/.exec(value);
    const percent = Number(match?.[1] ?? Number.NaN);
    return percent > 0 && percent <= most
      ? null
      : `must be a percentage above 0% and up to ${most}%, not ${JSON.stringify(value)}`;
  };
  return text(wrong, { description, examples: [example], pattern: '^[0-9.]+%$' });
}

export function sayDots(value: string): string | null {
  return value.split('/').includes('..') ? 'must not contain ..' : null;
}
