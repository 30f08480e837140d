/** Exact: `nanos` is the amount in 10^-9 as a decimal integer, at most 48 digits. Compared, added and printed by core/units/quantity.ts only. */
export type Quantity = {
  readonly nanos: string;
  readonly format: 'binary' | 'decimal' | 'exponent';
  /** As written; null for a computed amount. Messages may have to repeat it (kubelet-eviction.md 2.6.3). */
  readonly text: string | null;
};
type ParsedQuantity =
  | { readonly ok: true; readonly quantity: Quantity }
  | { readonly ok: false; readonly text: string };

/** Callers add an example of their own. */
const WRONG_FORMAT = 'not an amount';
/** Our own limit: the kubelet accepts any exponent and would expand 1e99999999999 (kubelet-eviction.md 2.4.4). */
const MAX_EXPONENT = 30;
/** Everything below 10^-9 rounds to 1n: this only bounds the arithmetic. */
const MIN_EXPONENT = -999;
/** Our own limit, beyond any meaningful amount: bounds the size of the big integers. */
const MAX_TEXT_LENGTH = 100;
const MAX_NANOS_DIGITS = 48;
const NANO_DIGITS = 9;
const INT64_MAX_NANOS = ((1n << 63n) - 1n) * 10n ** 9n;
const INT64_MIN = -(1n << 63n);

const BINARY_POWERS: { readonly [suffix: string]: number } = { Ki: 10, Mi: 20, Gi: 30, Ti: 40, Pi: 50, Ei: 60 };
const DECIMAL_POWERS: { readonly [suffix: string]: number } = {
  n: -9,
  u: -6,
  m: -3,
  '': 0,
  k: 3,
  M: 6,
  G: 9,
  T: 12,
  P: 15,
  E: 18,
};

/** What the scanner found: digits without leading zeros, and the suffix looked up (kubelet-eviction.md 2.8). */
type Scanned = {
  readonly isNegative: boolean;
  readonly whole: string;
  readonly fraction: string;
  readonly format: Quantity['format'];
  /** The exponent of 2 in the binary format, else of 10. */
  readonly power: number;
};

/** kubelet-eviction.md 2.4 and 2.8, in our own words; the bounds on length and exponent are ours. */
export function parseQuantity(text: string): ParsedQuantity {
  if (text.length > MAX_TEXT_LENGTH) {
    return { ok: false, text: `longer than ${MAX_TEXT_LENGTH} characters` };
  }
  const scanned = scan(text);
  if (typeof scanned === 'string') return { ok: false, text: scanned };
  const value = nanosOf(scanned);
  if (value.toString().length > MAX_NANOS_DIGITS) {
    return { ok: false, text: 'too large: it must be below 10^39' };
  }
  const isFractionOfOne = scanned.format === 'binary' && value > 0n && value < 10n ** 9n;
  const nanos = (scanned.isNegative ? -value : value).toString();
  return { ok: true, quantity: { nanos, format: isFractionOfOne ? 'decimal' : scanned.format, text } };
}

function scan(text: string): Scanned | string {
  const match = /^([+-]?)0*([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)$/.exec(text);
  if (match === null || text === '') return WRONG_FORMAT;
  const [, sign, whole = '', fraction = '', suffix = ''] = match;
  const digits = { isNegative: sign === '-', whole, fraction };
  const binary = Object.hasOwn(BINARY_POWERS, suffix) ? BINARY_POWERS[suffix] : undefined;
  if (binary !== undefined) return { ...digits, format: 'binary', power: binary };
  const decimal = Object.hasOwn(DECIMAL_POWERS, suffix) ? DECIMAL_POWERS[suffix] : undefined;
  if (decimal !== undefined) return { ...digits, format: 'decimal', power: decimal };
  if (!/^[eE][+-]?[0-9]+$/.test(suffix)) return `unknown unit ${suffix}`;
  const exponent = Number(suffix.slice(1));
  if (exponent > MAX_EXPONENT || exponent < MIN_EXPONENT) {
    return `the exponent must be from ${MIN_EXPONENT} to ${MAX_EXPONENT}, not ${suffix.slice(1)}`;
  }
  return { ...digits, format: 'exponent', power: exponent };
}

/** The magnitude in 10^-9, rounded away from zero; binary amounts are capped at 2^63 - 1 (2.4.3, 2.4.4). */
function nanosOf({ whole, fraction, format, power }: Scanned): bigint {
  const digits = BigInt(`0${whole}${fraction}`);
  const scaled = format === 'binary' ? digits << BigInt(power) : digits;
  const tens = NANO_DIGITS - fraction.length + (format === 'binary' ? 0 : power);
  const nanos = tens >= 0 ? scaled * 10n ** BigInt(tens) : divideUp(scaled, 10n ** BigInt(-tens));
  return format === 'binary' && nanos > INT64_MAX_NANOS ? INT64_MAX_NANOS : nanos;
}

function divideUp(amount: bigint, by: bigint): bigint {
  return (amount + by - 1n) / by;
}

/** Negative, zero or positive, as `a` is less than, equal to or more than `b`; formats do not matter. */
export function compareQuantity(a: Quantity, b: Quantity): number {
  const [x, y] = [BigInt(a.nanos), BigInt(b.nanos)];
  return x < y ? -1 : x > y ? 1 : 0;
}

/** An amount added to zero takes the other's format (kubelet-eviction.md 2.6.1). A sum has no text of its own. */
export function addQuantity(a: Quantity, b: Quantity): Quantity {
  const nanos = (BigInt(a.nanos) + BigInt(b.nanos)).toString();
  return { nanos, format: a.nanos === '0' ? b.format : a.format, text: null };
}

/**
 * A measured or computed whole amount: bytes are binary, inodes and PIDs decimal. Anything outside int64 becomes -2^63, as
 * in the kubelet on amd64, where `NaN%` is a threshold that is never met (kubelet-eviction.md 2.3.3).
 */
export function quantityOfBytes(amount: number, format: 'binary' | 'decimal'): Quantity {
  const whole = Math.abs(amount) < 2 ** 63 ? BigInt(Math.trunc(amount)) : INT64_MIN;
  return { nanos: (whole * 10n ** 9n).toString(), format, text: null };
}

/** Rounded up to a whole number, saturating at the safe integers. */
export function bytesUp(quantity: Quantity): number {
  const { nanos } = quantity;
  const whole = Number(nanos.slice(0, -NANO_DIGITS));
  const isRounded = !nanos.startsWith('-') && /[1-9]/.test(nanos.slice(-NANO_DIGITS));
  const up = whole + (isRounded ? 1 : 0);
  // Rounding up a negative fraction leaves only its sign.
  if (Number.isNaN(up)) return 0;
  return Math.min(Math.max(up, -Number.MAX_SAFE_INTEGER), Number.MAX_SAFE_INTEGER);
}

/** Whether the whole, safe number `amount` is less than the quantity: exact, without a big integer, for the hot path. */
export function isLess(amount: number, quantity: Quantity): boolean {
  const up = bytesUp(quantity);
  // A saturated bound exceeds every safe number except itself.
  if (up === Number.MAX_SAFE_INTEGER && amount === up) return BigInt(amount) * 10n ** 9n < BigInt(quantity.nanos);
  return amount < up;
}

/** The amount as an exact decimal without a unit, such as `1181116006.4`. */
export function decimalOf(quantity: Quantity): string {
  const isNegative = quantity.nanos.startsWith('-');
  const digits = quantity.nanos.slice(isNegative ? 1 : 0).padStart(NANO_DIGITS + 1, '0');
  const fraction = digits.slice(-NANO_DIGITS).replace(/0+$/, '');
  return `${isNegative ? '-' : ''}${digits.slice(0, -NANO_DIGITS)}${fraction === '' ? '' : `.${fraction}`}`;
}

/** As the kubelet prints it in messages: it repeats plausible original spellings (kubelet-eviction.md 2.6). */
export function sayQuantity(quantity: Quantity): string {
  if (quantity.nanos === '0') return '0';
  if (quantity.text !== null && isEchoed(quantity.text)) return quantity.text;
  const nanos = BigInt(quantity.nanos);
  const isWhole = nanos % 10n ** 9n === 0n;
  const value = nanos / 10n ** 9n;
  const isSmall = value > -1024n && value < 1024n;
  return quantity.format === 'binary' && isWhole && !isSmall ? sayBinary(value) : sayDecimal(nanos, quantity.format);
}

/** kubelet-eviction.md 2.6.3: whether the kubelet parses it in its fast path and takes it for canonical. */
function isEchoed(text: string): boolean {
  const scanned = scan(text);
  if (typeof scanned === 'string') return false;
  const { fraction, format, power } = scanned;
  const digits = `${scanned.whole === '' ? '0' : scanned.whole}${fraction}`;
  if (format === 'binary') {
    const room = 15 - digits.length - Math.trunc((power * 3) / 10) - 1;
    // The last three digits show whether a number is a multiple of 8.
    return fraction === '' && room >= 0 && power % 10 === 0 && Number(digits.slice(-3)) % 8 !== 0;
  }
  const scale = power - fraction.length;
  const isFast = digits.length <= 18 && scale >= -NANO_DIGITS;
  return isFast && scale % 3 === 0 && !digits.endsWith('000') && !digits.startsWith('0');
}

function sayBinary(value: bigint): string {
  let rest = value;
  let power = 0;
  while (rest % 1024n === 0n && (rest >= 1024n || rest <= -1024n) && power < 60) {
    rest /= 1024n;
    power += 10;
  }
  return `${rest}${suffixOf(BINARY_POWERS, power)}`;
}

function sayDecimal(nanos: bigint, format: Quantity['format']): string {
  let rest = nanos;
  let power = -NANO_DIGITS;
  while (rest % 10n === 0n) {
    rest /= 10n;
    power += 1;
  }
  while (power % 3 !== 0) {
    rest *= 10n;
    power -= 1;
  }
  if (format === 'exponent') return `${rest}${power === 0 ? '' : `e${power}`}`;
  // Above E the kubelet finds no suffix and prints none, so that 10^23 reads `100`. Its mistake is kept.
  return `${rest}${suffixOf(DECIMAL_POWERS, power)}`;
}

function suffixOf(powers: { readonly [suffix: string]: number }, power: number): string {
  return Object.entries(powers).find(([, of]) => of === power)?.[0] ?? '';
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const;

/**
 * For people: `92.1 MiB`. Truncated, not rounded, so that an amount just below a round limit does not read like it. `places`:
 * after the point.
 */
export function sayBytes(bytes: number, places = 1): string {
  let amount = Math.abs(bytes);
  let unit: (typeof UNITS)[number] = 'B';
  for (const next of UNITS.slice(1)) {
    if (amount < 1024) break;
    amount /= 1024;
    unit = next;
  }
  const steps = 10 ** places;
  return `${bytes < 0 ? '-' : ''}${Math.floor(amount * steps) / steps} ${unit}`;
}
