/** A Go duration: exact as text, and in milliseconds for the timers, with a fraction if needed. */
type Duration = { readonly nanoseconds: string; readonly ms: number };
type ParsedDuration =
  | { readonly ok: true; readonly duration: Duration }
  | { readonly ok: false; readonly text: string };

/** An amount of time as two safe numbers, because 2^63 ns is not a safe number. */
type Split = { readonly seconds: number; readonly nanos: number };

const NANOS_PER_SECOND = 1e9;
/** 2^63 ns, the longest negative duration in Go's int64; the longest positive one is 1 ns shorter. */
const LIMIT: Split = { seconds: 9_223_372_036, nanos: 854_775_808 };
/** Our own limit: Go has none, and no meaningful duration comes near it. */
const MAX_TEXT_LENGTH = 200;
const NANOS_PER_UNIT: { readonly [unit: string]: number } = {
  ns: 1,
  us: 1e3,
  '\u00b5s': 1e3,
  '\u03bcs': 1e3,
  ms: 1e6,
  s: 1e9,
  m: 60e9,
  h: 3600e9,
};

/** Rounded to tenths of a second: enough for people. */
export function sayTenths(ms: number): string {
  return sayDuration(Math.round(ms / 100) * 100);
}

/** Go's time.ParseDuration, with its wording (kubelet-eviction.md 2.5). */
export function parseDuration(text: string): ParsedDuration {
  if (text.length > MAX_TEXT_LENGTH) return { ok: false, text: `longer than ${MAX_TEXT_LENGTH} characters` };
  const invalid = { ok: false, text: `time: invalid duration ${quote(text)}` } as const;
  const isNegative = text.startsWith('-');
  const body = text.replace(/^[+-]/, '');
  if (body === '0') return { ok: true, duration: durationOf({ seconds: 0, nanos: 0 }, false) };
  if (body === '') return invalid;
  let total: Split = { seconds: 0, nanos: 0 };
  let rest = body;
  while (rest !== '') {
    const match = /^([0-9]*)(\.?)([0-9]*)([^0-9.]*)/.exec(rest);
    const [term = '', whole = '', , fraction = '', unit = ''] = match ?? [];
    if (whole === '' && fraction === '') return invalid;
    if (unit === '') return { ok: false, text: `time: missing unit in duration ${quote(text)}` };
    const nanosPerUnit = Object.hasOwn(NANOS_PER_UNIT, unit) ? NANOS_PER_UNIT[unit] : undefined;
    if (nanosPerUnit === undefined) {
      return { ok: false, text: `time: unknown unit ${quote(unit)} in duration ${quote(text)}` };
    }
    const amount = termOf(whole, fraction, nanosPerUnit);
    total = add(total, amount);
    if (isBeyond(total, LIMIT)) return invalid;
    rest = rest.slice(term.length);
  }
  if (!isNegative && !isBeyond(LIMIT, total)) return invalid;
  return { ok: true, duration: durationOf(total, isNegative) };
}

/** One number with its unit. A whole part that is not a safe number becomes a value beyond LIMIT. */
function termOf(whole: string, fraction: string, nanosPerUnit: number): Split {
  const tooMuch = { seconds: LIMIT.seconds + 1, nanos: 0 };
  const digits = whole.replace(/^0+/, '');
  if (digits.length > 19) return tooMuch;
  const part = { seconds: 0, nanos: fractionNanos(fraction, nanosPerUnit) };
  if (nanosPerUnit >= NANOS_PER_SECOND) {
    const seconds = Number(digits) * (nanosPerUnit / NANOS_PER_SECOND);
    return seconds > LIMIT.seconds ? tooMuch : add({ seconds, nanos: 0 }, part);
  }
  // Units below a second are powers of ten, so the digits only move.
  const nanos = (digits + '0'.repeat(Math.log10(nanosPerUnit))).padStart(10, '0');
  if (nanos.length > 19) return tooMuch;
  return add({ seconds: Number(nanos.slice(0, -9)), nanos: Number(nanos.slice(-9)) }, part);
}

/** Go's arithmetic: float64(digits) * (float64(unit) / scale), truncated. Digits beyond an int64 are ignored. */
function fractionNanos(fraction: string, nanosPerUnit: number): number {
  let kept = '';
  for (const digit of fraction) {
    const longer = (kept + digit).replace(/^0+/, '');
    if (longer.length > 19 || (longer.length === 19 && longer > '9223372036854775808')) break;
    kept += digit;
  }
  return Math.trunc(Number(kept) * (nanosPerUnit / 10 ** kept.length));
}

function add(a: Split, b: Split): Split {
  const nanos = a.nanos + b.nanos;
  const carry = Math.floor(nanos / NANOS_PER_SECOND);
  return { seconds: a.seconds + b.seconds + carry, nanos: nanos - carry * NANOS_PER_SECOND };
}

function isBeyond(a: Split, b: Split): boolean {
  return a.seconds > b.seconds || (a.seconds === b.seconds && a.nanos > b.nanos);
}

function durationOf({ seconds, nanos }: Split, isNegative: boolean): Duration {
  const digits = seconds === 0 ? `${nanos}` : `${seconds}${`${nanos}`.padStart(9, '0')}`;
  const nanoseconds = isNegative && digits !== '0' ? `-${digits}` : digits;
  return { nanoseconds, ms: Number(nanoseconds) / 1e6 };
}

/** As Go prints it: `1m30s`, `1h30m0s`, `100µs`. */
export function sayNanoseconds(nanoseconds: string): string {
  const isNegative = nanoseconds.startsWith('-');
  const digits = nanoseconds.slice(isNegative ? 1 : 0).padStart(10, '0');
  const said = saySplit({ seconds: Number(digits.slice(0, -9)), nanos: Number(digits.slice(-9)) });
  return isNegative ? `-${said}` : said;
}

/** As Go prints it, rounded to the nearest nanosecond. */
export function sayDuration(ms: number): string {
  const seconds = Math.trunc(Math.abs(ms) / 1000);
  const nanos = Math.round((Math.abs(ms) - seconds * 1000) * 1e6);
  const said = saySplit(add({ seconds, nanos }, { seconds: 0, nanos: 0 }));
  return ms < 0 && said !== '0s' ? `-${said}` : said;
}

function saySplit({ seconds, nanos }: Split): string {
  if (seconds === 0) {
    if (nanos === 0) return '0s';
    if (nanos < 1e3) return `${nanos}ns`;
    if (nanos < 1e6) return `${decimal(nanos, 3)}\u00b5s`;
    return `${decimal(nanos, 6)}ms`;
  }
  const rest = `${seconds % 60}${decimal(nanos, 9).replace(/^0/, '')}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes === 0) return rest;
  return minutes < 60 ? `${minutes}m${rest}` : `${Math.floor(minutes / 60)}h${minutes % 60}m${rest}`;
}

/** `amount` / 10^places without trailing zeros. */
function decimal(amount: number, places: number): string {
  const digits = `${amount}`.padStart(places + 1, '0');
  const fraction = digits.slice(-places).replace(/0+$/, '');
  return `${digits.slice(0, -places)}${fraction === '' ? '' : `.${fraction}`}`;
}

/** Quoted as Go quotes it, so that a stray control character cannot reach a terminal. */
function quote(text: string): string {
  return JSON.stringify(text);
}
