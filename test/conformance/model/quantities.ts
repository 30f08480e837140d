/** Amounts, percentages and durations as kubelet-eviction.md 2.3 to 2.6 and 2.8 describe them, in exact integers. */

/** `nano` is the value times 10^9. `echo` is the text it prints as long as no arithmetic touched it (2.6.3). */
export type Amount = {
  readonly nano: bigint;
  readonly format: 'binary' | 'decimal' | 'exponent';
  readonly echo?: string;
};

const ONE = 1_000_000_000n;
const BINARY = ['Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'];
const DECIMAL: { readonly [suffix: string]: number } = {
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
const LARGEST_BINARY = (2n ** 63n - 1n) * ONE;

export const bytes = (value: bigint): Amount => ({ nano: value * ONE, format: 'binary' });
export const count = (value: bigint): Amount => ({ nano: value * ONE, format: 'decimal' });
export const zero: Amount = { nano: 0n, format: 'decimal' };

/** An amount added to zero takes the format of the other (2.6.1). */
export function add(a: Amount, b: Amount): Amount {
  return { nano: a.nano + b.nano, format: a.nano === 0n ? b.format : a.format };
}

type Parts = { readonly negative: boolean; readonly whole: string; readonly fraction: string; readonly suffix: string };

/** 2.8 steps 2 to 5; null = format error. `whole` has no leading zeros and is '0' when nothing is left. */
function partsOf(text: string): Parts | null {
  const found = /^([+-]?)0*([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)$/.exec(text);
  if (found === null || text === '') return null;
  const [, sign = '', whole = '', fraction = '', suffix = ''] = found;
  return { negative: sign === '-', whole: whole === '' ? '0' : whole, fraction, suffix };
}

/** The value of a quantity, or null if it is none. Whoever reads pods trims first; eviction maps are not trimmed. */
export function parseQuantity(text: string): Amount | null {
  const parts = partsOf(text);
  if (parts === null) return null;
  const { negative, whole, fraction, suffix } = parts;
  const digits = BigInt(whole + fraction);
  const sign = negative ? -1n : 1n;
  const power = BINARY.indexOf(suffix) + 1;
  if (power > 0) return binaryAmount(text, parts, digits * sign, power * 10);
  const spelled = /^[eE]([+-]?[0-9]+)$/.exec(suffix);
  const exponent = spelled === null ? DECIMAL[suffix] : Number(spelled[1]);
  if (exponent === undefined) return null;
  if (Math.abs(exponent) > 60) throw new Error(`the model does not expand ${text}`);
  const format = spelled === null ? 'decimal' : 'exponent';
  const scale = exponent - fraction.length;
  const amount: Amount = { nano: scaledUp(digits * sign, scale + 9), format };
  const shown = whole + fraction;
  const canonical = shown.length <= 18 && scale >= -9 && scale % 3 === 0 && !shown.endsWith('000') && shown[0] !== '0';
  return canonical ? { ...amount, echo: text } : amount;
}

function binaryAmount(text: string, parts: Parts, signed: bigint, bits: number): Amount {
  const precise = scaledUp(signed * 2n ** BigInt(bits), 9 - parts.fraction.length);
  const large = precise > LARGEST_BINARY ? LARGEST_BINARY : precise < -LARGEST_BINARY ? -LARGEST_BINARY : precise;
  const small = large !== 0n && large < ONE && large > -ONE;
  const amount: Amount = { nano: large, format: small ? 'decimal' : 'binary' };
  const precision = 15 - parts.whole.length - Math.floor((bits * 3) / 10) - 1;
  const canonical = parts.fraction === '' && precision >= 0 && BigInt(parts.whole) % 8n !== 0n;
  return canonical ? { ...amount, echo: text } : amount;
}

/** value * 10^power, rounded away from zero (2.4.3). */
function scaledUp(value: bigint, power: number): bigint {
  if (power >= 0) return value * 10n ** BigInt(power);
  const divisor = 10n ** BigInt(-power);
  const quotient = value / divisor;
  if (value % divisor === 0n) return quotient;
  return value < 0n ? quotient - 1n : quotient + 1n;
}

/** How an amount stands in messages and annotations (2.6.2). */
export function print(amount: Amount): string {
  if (amount.echo !== undefined) return amount.echo;
  if (amount.nano === 0n) return '0';
  const sign = amount.nano < 0n ? '-' : '';
  let value = amount.nano < 0n ? -amount.nano : amount.nano;
  if (amount.format === 'binary' && value % ONE === 0n && value >= 1024n * ONE) {
    value /= ONE;
    let power = 0;
    while (value >= 1024n && value % 1024n === 0n && power < BINARY.length) {
      value /= 1024n;
      power += 1;
    }
    return `${sign}${value}${power === 0 ? '' : BINARY[power - 1]}`;
  }
  let exponent = -9;
  while (value % 10n === 0n) {
    value /= 10n;
    exponent += 1;
  }
  while (exponent % 3 !== 0) {
    value *= 10n;
    exponent -= 1;
  }
  if (amount.format === 'exponent') return `${sign}${value}${exponent === 0 ? '' : `e${exponent}`}`;
  const suffix = Object.keys(DECIMAL).find((name) => DECIMAL[name] === exponent);
  return `${sign}${value}${suffix ?? `e${exponent}`}`;
}

/** A percentage of an eviction map as the stored 32-bit fraction (2.3.1); null if the text is no float. */
export function parseFraction(text: string): number | null {
  const percent = parseFloat32(text.replace(/%+$/, ''));
  return percent === null ? null : Math.fround(percent / 100);
}

/** Go's float syntax without hexadecimal; the text is rounded once, to 32 bits (2.3.4). */
export function parseFloat32(text: string): number | null {
  const found = /^([+-]?)([0-9][0-9_]*)?(?:\.([0-9_]*))?(?:[eE]([+-]?[0-9]+))?$/.exec(text);
  if (found === null) return null;
  const [, sign = '', wholeText = '', fractionText = '', exponentText = '0'] = found;
  const whole = wholeText.replaceAll('_', '');
  const fraction = fractionText.replaceAll('_', '');
  if (whole + fraction === '') return null;
  const power = Number(exponentText) - fraction.length;
  const digits = BigInt(whole + fraction);
  const top = power >= 0 ? digits * 10n ** BigInt(power) : digits;
  const bottom = power >= 0 ? 1n : 10n ** BigInt(-power);
  const rounded = nearestFloat32(top, bottom);
  return sign === '-' ? -rounded : rounded;
}

/** The 32-bit float next to top / bottom, ties to even. */
function nearestFloat32(top: bigint, bottom: bigint): number {
  if (top === 0n) return 0;
  // 24 significant bits, the least of which is 2^exponent; below 2^-149 there is nothing.
  let exponent = top.toString(2).length - bottom.toString(2).length - 24;
  if (scaledQuotient(top, bottom, exponent) >= 2n ** 24n) exponent += 1;
  if (exponent < -149) exponent = -149;
  const [up, down] = exponent >= 0 ? [top, bottom * 2n ** BigInt(exponent)] : [top * 2n ** BigInt(-exponent), bottom];
  let significand = up / down;
  const twice = (up % down) * 2n;
  if (twice > down || (twice === down && significand % 2n === 1n)) significand += 1n;
  return Number(significand) * 2 ** exponent;
}

function scaledQuotient(top: bigint, bottom: bigint, exponent: number): bigint {
  return exponent >= 0 ? top / (bottom * 2n ** BigInt(exponent)) : (top * 2n ** BigInt(-exponent)) / bottom;
}

const UNITS: { readonly [unit: string]: bigint } = {
  ns: 1n,
  us: 1000n,
  µs: 1000n,
  μs: 1000n,
  ms: 1_000_000n,
  s: ONE,
  m: 60n * ONE,
  h: 3600n * ONE,
};

/** A Go duration in nanoseconds (2.5); null if it is none. */
export function parseDuration(text: string): bigint | null {
  if (/^[+-]?0$/.test(text)) return 0n;
  const found = /^([+-]?)((?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)$/.exec(text);
  if (found === null) return null;
  let total = 0n;
  for (const part of (found[2] ?? '').matchAll(/([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)/g)) {
    const [, whole = '', fraction = '', unit = ''] = part;
    const size = UNITS[unit] ?? 0n;
    total += BigInt(whole === '' ? '0' : whole) * size;
    if (fraction !== '') total += (BigInt(fraction) * size) / 10n ** BigInt(fraction.length);
  }
  return found[1] === '-' ? -total : total;
}
