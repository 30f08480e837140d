import { Variant } from 'dbus-next';
import { known, type Reading, sayCause, unknown } from '../../core/reading.ts';

/**
 * The body of a message: text, numbers, booleans, lists (arrays, structs and bytes), dictionaries with text keys as plain
 * objects, and variants. No type of the D-Bus package.
 */
export type BusValue =
  | string
  | number
  | boolean
  | readonly BusValue[]
  | BusVariant
  | { readonly [key: string]: BusValue };
export type BusVariant = { readonly signature: string; readonly value: BusValue };

/** The specification's own limit on nesting is 32 of each kind. */
const MAX_DEPTH = 16;
const MAX_TEXT_BYTES = 1024 * 1024;

type Encoded = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly text: string };

/**
 * The body as the package marshals it, or why it must not be sent: the bus daemon closes the connection on a malformed
 * message (dependencies.md B8), and a value that cannot be marshalled leaks its reply handler (B9).
 */
export function encodeBody(signature: string, body: readonly BusValue[]): Encoded {
  const types = splitSignature(signature);
  if (types === null) return { ok: false, text: `${signature} is not a signature` };
  if (types.length !== body.length) return { ok: false, text: `${body.length} values for the signature ${signature}` };
  return encodeList(types, body, 0);
}

/** The package's values without its types: variants as our own, 64-bit integers as saturated numbers. */
export function decodeValue(value: unknown): BusValue {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value;
  if (typeof value === 'bigint') return saturated(value);
  if (value instanceof Variant) return { signature: value.signature, value: decodeValue(value.value) };
  if (Array.isArray(value)) return value.map(decodeValue);
  // Arrays of bytes arrive as buffers.
  if (value instanceof Uint8Array) return [...value];
  if (typeof value !== 'object' || value === null) return String(value);
  const decoded: { [key: string]: BusValue } = Object.create(null);
  for (const [key, entry] of Object.entries(value)) decoded[key] = decodeValue(entry);
  return decoded;
}

/** The whole answer; unknown: its values are nested too deep. */
export function decodeBody(body: readonly unknown[], where: string): Reading<readonly BusValue[]> {
  try {
    return known(body.map(decodeValue));
  } catch (cause) {
    return unknown('malformed', where, sayCause(cause));
  }
}

function saturated(value: bigint): number {
  return Math.max(Number.MIN_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, Number(value)));
}

/** The complete types that a signature consists of; null if it is invalid. */
export function splitSignature(signature: string): readonly string[] | null {
  const types: string[] = [];
  for (let at = 0; at < signature.length; ) {
    const end = endOfType(signature, at, 0);
    if (end === null) return null;
    types.push(signature.slice(at, end));
    at = end;
  }
  return types;
}

function endOfType(signature: string, at: number, depth: number): number | null {
  const first = signature[at];
  if (first === undefined || depth > MAX_DEPTH) return null;
  if ('ybnqiuxtdsogv'.includes(first)) return at + 1;
  if (first === 'a' && signature[at + 1] === '{') {
    const key = signature[at + 2];
    // The package would turn other keys into text (B10).
    if (key !== 's' && key !== 'o') return null;
    const end = endOfType(signature, at + 3, depth + 1);
    return end !== null && signature[end] === '}' ? end + 1 : null;
  }
  if (first === 'a') return endOfType(signature, at + 1, depth + 1);
  if (first !== '(') return null;
  let next: number | null = at + 1;
  while (next !== null && signature[next] !== ')') next = endOfType(signature, next, depth + 1);
  return next === null || next === at + 1 ? null : next + 1;
}

function encodeList(types: readonly string[], values: readonly BusValue[], depth: number): Encoded {
  const encoded: unknown[] = [];
  for (const [i, type] of types.entries()) {
    const value = values[i];
    const one: Encoded = value === undefined ? { ok: false, text: `no value for ${type}` } : encode(type, value, depth);
    if (!one.ok) return one;
    encoded.push(one.value);
  }
  return { ok: true, value: encoded };
}

function encode(type: string, value: BusValue, depth: number): Encoded {
  const no = (text: string): Encoded => ({ ok: false, text: `${text}, not ${sayKind(value)}` });
  if (depth > MAX_DEPTH) return no(`nested deeper than ${MAX_DEPTH}`);
  const bounds = INTEGERS[type];
  if (bounds !== undefined) {
    const isFit = typeof value === 'number' && Number.isSafeInteger(value) && value >= bounds[0] && value <= bounds[1];
    return isFit ? { ok: true, value } : no(`${type} requires a whole number in its range`);
  }
  if (type === 'd')
    return typeof value === 'number' && Number.isFinite(value) ? { ok: true, value } : no('d requires a number');
  if (type === 'b') return typeof value === 'boolean' ? { ok: true, value } : no('b requires a boolean');
  if (type === 's' || type === 'o' || type === 'g')
    return isText(type, value) ? { ok: true, value } : no(`${type} requires text`);
  if (type === 'v') return encodeVariant(value, depth);
  if (type.startsWith('a{')) return encodeDictionary(type, value, depth);
  if (!Array.isArray(value)) return no(`${type} requires a list`);
  if (type === 'ay') return encodeBytes(value);
  const types = type.startsWith('(') ? splitSignature(type.slice(1, -1)) : value.map(() => type.slice(1));
  if (types === null || types.length !== value.length) return no(`${type} requires as many values`);
  return encodeList(types, value, depth + 1);
}

const INTEGERS: { readonly [type: string]: readonly [number, number] | undefined } = {
  y: [0, 255],
  n: [-(2 ** 15), 2 ** 15 - 1],
  q: [0, 2 ** 16 - 1],
  i: [-(2 ** 31), 2 ** 31 - 1],
  u: [0, 2 ** 32 - 1],
  x: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
  t: [0, Number.MAX_SAFE_INTEGER],
};

function isText(type: string, value: BusValue): boolean {
  if (typeof value !== 'string' || value.includes('\0') || value.length > MAX_TEXT_BYTES) return false;
  // A lone surrogate has no UTF-8, and the daemon closes the connection over it.
  if (/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(value)) return false;
  if (type === 'o') return isObjectPath(value);
  return type === 's' || splitSignature(value) !== null;
}

export function isObjectPath(path: string): boolean {
  return path === '/' || /^(\/[A-Za-z0-9_]+)+$/.test(path);
}

function encodeBytes(value: readonly BusValue[]): Encoded {
  const isBytes = value.every((byte) => typeof byte === 'number' && Number.isInteger(byte) && byte >= 0 && byte <= 255);
  return isBytes ? { ok: true, value: Buffer.from(value.map(Number)) } : { ok: false, text: 'ay requires bytes' };
}

function encodeVariant(value: BusValue, depth: number): Encoded {
  if (!isVariant(value)) return { ok: false, text: `v requires a signature with a value, not ${sayKind(value)}` };
  const types = splitSignature(value.signature);
  if (types?.length !== 1) return { ok: false, text: `a variant has one type, not ${value.signature}` };
  const inner = encode(value.signature, value.value, depth + 1);
  return inner.ok ? { ok: true, value: new Variant(value.signature, inner.value) } : inner;
}

function encodeDictionary(type: string, value: BusValue, depth: number): Encoded {
  if (typeof value !== 'object' || Array.isArray(value)) return { ok: false, text: `${type} requires a dictionary` };
  const encoded: { [key: string]: unknown } = {};
  for (const [key, entry] of Object.entries(value)) {
    if (!isText(type.charAt(2), key)) return { ok: false, text: `${type} requires other keys` };
    const one = encode(type.slice(3, -1), entry, depth + 1);
    if (!one.ok) return one;
    encoded[key] = one.value;
  }
  return { ok: true, value: encoded };
}

export function isVariant(value: BusValue | undefined): value is BusVariant {
  if (typeof value !== 'object' || Array.isArray(value)) return false;
  return (
    Object.keys(value).length === 2 && 'signature' in value && 'value' in value && typeof value.signature === 'string'
  );
}

function sayKind(value: BusValue): string {
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'string' ? 'this text' : typeof value;
}
