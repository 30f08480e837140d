type ParsedFloat = { readonly ok: true; readonly value: number } | { readonly ok: false; readonly text: string };

const DIGITS = '[0-9]+(?:_[0-9]+)*';
const HEX = '[0-9a-f]+(?:_[0-9a-f]+)*';
const DECIMAL_FLOAT = new RegExp(`^[+-]?(?:${DIGITS}(?:\\.(?:${DIGITS})?)?|\\.${DIGITS})(?:e[+-]?${DIGITS})?$`, 'i');
const HEX_FLOAT = new RegExp(`^([+-]?)0x(?:_?(${HEX})(?:\\.(${HEX})?)?|\\.(${HEX}))p([+-]?${DIGITS})$`, 'i');
/** Our own limit: Go has none, and no meaningful percentage comes near it. */
const MAX_TEXT_LENGTH = 100;
const BEYOND = 2 ** 128;

/** Go's strconv.ParseFloat(text, 32): rounded once, directly to 32 bits (kubelet-eviction.md 2.3.1, 2.3.4). */
export function parseFloat32(text: string): ParsedFloat {
  if (text.length > MAX_TEXT_LENGTH) return { ok: false, text: `longer than ${MAX_TEXT_LENGTH} characters` };
  if (/^nan$/i.test(text)) return { ok: true, value: Number.NaN };
  const infinite = /^([+-]?)inf(?:inity)?$/i.exec(text);
  if (infinite !== null) return { ok: true, value: infinite[1] === '-' ? -Infinity : Infinity };
  const hex = HEX_FLOAT.exec(text);
  if (hex === null && !DECIMAL_FLOAT.test(text)) {
    return { ok: false, text: `strconv.ParseFloat: parsing ${JSON.stringify(text)}: invalid syntax` };
  }
  const value = hex === null ? roundDecimal(text.replaceAll('_', '')) : roundHex(hex);
  if (Number.isFinite(value)) return { ok: true, value };
  return { ok: false, text: `strconv.ParseFloat: parsing ${JSON.stringify(text)}: value out of range` };
}

/** The percentage with the fewest digits that parses to the same 32-bit fraction (kubelet-eviction.md 2.3.1). */
export function percentText(fraction: number): string {
  const percent = fraction * 100;
  for (let digits = 1; digits < 17; digits++) {
    const short = Number(percent.toPrecision(digits));
    if (Math.fround(Math.fround(short) / 100) === fraction) return `${short}%`;
  }
  return `${percent}%`;
}

/**
 * Rounding to 64 bits first is wrong only if that lands exactly between two 32-bit floats and the text does not: then the
 * side of the text decides.
 */
function roundDecimal(text: string): number {
  const wide = Number(text);
  const narrow = Math.fround(wide);
  if (narrow === wide) return narrow;
  // The successor of the largest float is infinite, but rounding treats it as if it existed.
  const nearest = Number.isFinite(narrow) ? narrow : Math.sign(wide) * BEYOND;
  // At a midpoint, the other neighbour is equally far away on the other side.
  const other = wide + (wide - nearest);
  if (Math.fround(other) !== other) return narrow;
  const side = compareDecimal(significant(text), significant(wide.toPrecision(100)));
  if (side === 0) return narrow;
  const [near, far] = Math.abs(narrow) < Math.abs(other) ? [narrow, other] : [other, narrow];
  return side < 0 ? near : far;
}

type Significant = { readonly digits: string; readonly point: number };

/** |text| as 0.digits * 10^point, without zeros at either end. */
function significant(text: string): Significant {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().replace(/^[+-]/, '').split('e');
  const [whole = '', fraction = ''] = mantissa.split('.');
  const digits = (whole + fraction).replace(/^0+/, '');
  const skipped = whole.length + fraction.length - digits.length;
  return { digits: digits.replace(/0+$/, ''), point: Number(exponent) + whole.length - skipped };
}

function compareDecimal(a: Significant, b: Significant): number {
  if (a.point !== b.point) return a.point - b.point;
  return a.digits < b.digits ? -1 : a.digits > b.digits ? 1 : 0;
}

/** 48 bits of mantissa are exact in a double; truncated digits set a sticky last bit, so that rounding sees them. */
function roundHex([, sign, whole = '', fraction = '', only = '', exponent = '0']: RegExpExecArray): number {
  const wholeDigits = whole.replaceAll('_', '');
  const fractionDigits = (fraction + only).replaceAll('_', '');
  const digits = (wholeDigits + fractionDigits).replace(/^0+/, '');
  const kept = digits.slice(0, 12);
  const cut = digits.slice(12);
  if (digits === '') return 0;
  const mantissa = Number(`0x${kept}`);
  const sticky = /[1-9a-f]/i.test(cut) ? 0.5 : 0;
  const power = Number(exponent.replaceAll('_', '')) + 4 * cut.length - 4 * fractionDigits.length;
  // In two steps: 2^power alone may be too small for a double even if the product is not.
  const half = Math.trunc(power / 2);
  const value = Math.fround((mantissa + sticky) * 2 ** half * 2 ** (power - half));
  return sign === '-' ? -value : value;
}
