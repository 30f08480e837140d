import { isObject } from '../core/shape.ts';
import { parseDuration } from '../core/units/duration.ts';
import { bytesUp, decimalOf, parseQuantity } from '../core/units/quantity.ts';
import { sayNotAmong, sayUnknownName, sayValue } from '../document/check.ts';
import { inOrder, type YamlDocument } from '../document/document.ts';
import { parseInstant } from '../document/instant.ts';
import { type Path, type Problem, sayPath } from '../document/problem.ts';
import { MAX_MISTAKES } from './v1-pod.ts';

/** Collects the mistakes in a document, at most MAX_MISTAKES. */
export type Mistakes = {
  readonly add: (problems: readonly Problem[]) => void;
  readonly at: (path: Path, text: string, of?: 'key' | 'value') => void;
  readonly isFull: () => boolean;
  /** In the order of the document. */
  readonly all: () => readonly Problem[];
};

export function createMistakes(yaml: YamlDocument): Mistakes {
  const problems: Problem[] = [];
  const isFull = (): boolean => problems.length >= MAX_MISTAKES;
  return {
    add: (more) => void problems.push(...more),
    at: (path, text, of = 'value') => {
      // Finding a position searches the whole text, so it is done only for mistakes that are reported.
      if (!isFull() && !yaml.told.has(sayPath(path))) problems.push(yaml.problemAt(path, text, of));
    },
    isFull,
    all: () => inOrder(problems).slice(0, MAX_MISTAKES),
  };
}

/** The position of a walk through a value. The walk changes `path` as it proceeds. */
export type Place = {
  readonly path: (string | number)[];
  readonly mistakes: Mistakes;
  readonly startWallMs: number | null;
};

/** Reports the mistakes in a value. By hand, not by zod: a file may have thousands of summaries of 110 pods. */
export type Shape = (value: unknown, at: Place) => void;
type Fields = { readonly [name: string]: Shape };

/** A mapping in our own format: unknown keys are mistakes (scenarios.md 1.2). */
export function ours(fields: Fields, required: readonly string[] = []): Shape {
  const names = Object.keys(fields);
  return (value, at) => {
    if (!isObject(value)) return wrongType('a mapping', value, at);
    for (const key of Object.keys(value)) {
      if (at.mistakes.isFull()) return;
      const shape = Object.hasOwn(fields, key) ? fields[key] : undefined;
      at.path.push(key);
      if (shape === undefined) at.mistakes.at(at.path, sayUnknownName(key, names, 'key'), 'key');
      else shape(value[key], at);
      at.path.pop();
    }
    tellMissing(value, required, at);
  };
}

/** A mapping in a format of Kubernetes: unknown keys are ignored, and null counts as absent. */
export function theirs(fields: Fields, required: readonly string[] = []): Shape {
  const entries = Object.entries(fields);
  return (value, at) => {
    if (!isObject(value)) return wrongType('a mapping', value, at);
    for (const [key, shape] of entries) {
      const inner = value[key];
      if (inner === undefined || inner === null) continue;
      at.path.push(key);
      shape(inner, at);
      at.path.pop();
    }
    tellMissing(value, required, at);
  };
}

function tellMissing(value: { readonly [key: string]: unknown }, required: readonly string[], at: Place): void {
  for (const key of required) {
    if (value[key] === undefined || value[key] === null) at.mistakes.at([...at.path, key], 'missing');
  }
}

export function listOf(item: Shape, least = 0): Shape {
  return (value, at) => {
    if (!Array.isArray(value)) return wrongType('a list', value, at);
    if (value.length < least) at.mistakes.at(at.path, `must have at least ${least} entry`);
    for (let i = 0; i < value.length && !at.mistakes.isFull(); i++) {
      at.path.push(i);
      item(value[i], at);
      at.path.pop();
    }
  };
}

/** A mapping whose keys the writer chooses. */
export function mapOf(item: Shape): Shape {
  return (value, at) => {
    if (!isObject(value)) return wrongType('a mapping', value, at);
    for (const [key, inner] of Object.entries(value)) {
      at.path.push(key);
      item(inner, at);
      at.path.pop();
    }
  };
}

/** One of these, or a list of them. */
export function oneOrMore(item: Shape): Shape {
  const list = listOf(item, 1);
  return (value, at) => (Array.isArray(value) ? list : item)(value, at);
}

export function orNull(shape: Shape): Shape {
  return (value, at) => {
    if (value !== null) shape(value, at);
  };
}

export function among(valid: readonly string[]): Shape {
  return (value, at) => {
    if (typeof value !== 'string' || !valid.includes(value)) at.mistakes.at(at.path, sayNotAmong(valid, value));
  };
}

/** Text in a special format; `wanted` describes it with an example. */
export function matching(pattern: RegExp, wanted: string): Shape {
  return (value, at) => {
    if (typeof value !== 'string' || !pattern.test(value)) wrongType(wanted, value, at);
  };
}

/** `namespace/name`, both named. */
export const POD_NAME: Shape = matching(/^[^/]+\/[^/]+$/, 'namespace/name, for example "default/web"');

/** A key that another reader checks. */
export const elsewhere: Shape = () => undefined;

export const text: Shape = (value, at) => {
  if (typeof value !== 'string') wrongType('text', value, at);
};

export const flag: Shape = (value, at) => {
  if (typeof value !== 'boolean') wrongType('true or false', value, at);
};

export const whole: Shape = (value, at) => {
  if (!Number.isSafeInteger(value)) wrongType('a whole number', value, at);
};

/** Relative to the start, and possibly before it. Virtual time counts whole milliseconds. */
export const instant: Shape = (value, at) => {
  const ms = readMs(value);
  if (ms === null) {
    at.mistakes.at(at.path, 'expected whole milliseconds or a duration; for example 40000 or "40s"');
  } else if (!Number.isSafeInteger(ms)) {
    at.mistakes.at(at.path, `must be whole milliseconds, not ${sayValue(value)}`);
  }
};

/** Bytes or a count. */
export const count: Shape = (value, at) => {
  const read = readCount(value);
  if (!read.ok) at.mistakes.at(at.path, `${read.text}; for example 1073741824 or "1Gi"`);
};

export const time: Shape = (value, at) => {
  const read = readTime(value, at.startWallMs);
  if (!read.ok) at.mistakes.at(at.path, read.text);
};

function wrongType(wanted: string, value: unknown, at: Place): void {
  at.mistakes.at(at.path, value === undefined ? 'missing' : `expected ${wanted}, not ${sayValue(value)}`);
}

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

/** A duration in our own format (scenarios.md 1.2), in milliseconds: whole milliseconds or a Go duration; null = neither. */
export function readMs(value: unknown): number | null {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? value : null;
  const parsed = typeof value === 'string' ? parseDuration(value) : null;
  return parsed?.ok ? parsed.duration.ms : null;
}

/** scenarios.md 2.5.4: milliseconds since the start; null = `none`. An absolute time needs `startWallMs`. */
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
