import * as z from 'zod/mini';
// By name: through the namespace they would bring every locale of the package into the bundle, 0.35 MB and 5 MiB of memory.
import {
  $ZodArray,
  $ZodDefault,
  $ZodEnum,
  $ZodNullable,
  $ZodObject,
  $ZodOptional,
  $ZodPrefault,
  $ZodRecord,
} from 'zod/v4/core';
import { escapeUnsafe } from '../core/units/escape.ts';
import type { YamlDocument } from './document.ts';
import { nearestName } from './nearest.ts';
import { type Path, type Problem, sayPath } from './problem.ts';

type Checked<T> = { readonly value: T | null; readonly problems: readonly Problem[] };
type Schema = z.core.$ZodType;
type Issue = z.core.$ZodIssue;

/**
 * The document's value in the form of the schema, or every mistake in it. `at` is the value's position in the document.
 * Sentences are built here from the issues' fields; a schema's own check gives its sentence as the message of a `custom`
 * issue, and an example of a valid value as `examples` in its metadata.
 */
export function check<S extends Schema>(schema: S, document: YamlDocument, at: Path = []): Checked<z.core.output<S>> {
  const value = valueAt(document.value, at);
  const result = z.safeParse(schema, value);
  if (result.success) return { value: result.data, problems: [] };
  const problems = result.error.issues.flatMap((issue) => problemsOf(issue, schema, document, at));
  return { value: null, problems };
}

/**
 * The same for a value that is not from a file; a mistake is `path: what is wrong`, without anything that could end a
 * line.
 */
export function checkValue<S extends Schema>(
  schema: S,
  value: unknown,
): { readonly ok: true; readonly value: z.core.output<S> } | { readonly ok: false; readonly mistake: string } {
  const problemAt: YamlDocument['problemAt'] = (path, text) => ({ ...NOWHERE, path: sayPath(path), text });
  const checked = check(schema, { file: '', value, problemAt, told: new Set() });
  if (checked.value !== null) return { ok: true, value: checked.value };
  const { path, text } = checked.problems[0] ?? { path: '', text: 'not what was expected' };
  return { ok: false, mistake: escapeUnsafe(path === '' ? text : `${path}: ${text}`).slice(0, MAX_MISTAKE) };
}
const NOWHERE = { file: '', line: 1, column: 1 };
const MAX_MISTAKE = 300;

/** Text for which `wrong` returns null; otherwise it returns a sentence that says what is wrong. */
export function text(wrong: (value: string) => string | null, facts: { readonly [key: string]: unknown }) {
  return z.string().check((context) => {
    const message = wrong(context.value);
    if (message !== null) context.issues.push({ code: 'custom', message, input: context.value, continue: true });
  }, z.meta(facts));
}

function problemsOf(issue: Issue, root: Schema, document: YamlDocument, at: Path): readonly Problem[] {
  const inner = issue.path.map((step) => (typeof step === 'symbol' ? String(step) : step));
  const path = [...at, ...inner];
  if (issue.code === 'unrecognized_keys') {
    const { what, valid } = namesOf(schemaAt(root, inner));
    return issue.keys.map((key) => document.problemAt([...path, key], sayUnknownName(key, valid, what), 'key'));
  }
  if (issue.code === 'invalid_key') {
    const { what, valid } = namesOf(schemaAt(root, inner.slice(0, -1)));
    const key = String(inner.at(-1) ?? '');
    const custom = issue.issues.find(({ code }) => code === 'custom');
    return [document.problemAt(path, custom?.message ?? sayUnknownName(key, valid, what), 'key')];
  }
  // A wrong name is reported in addition to a wrong value; a value is reported once.
  if (document.told.has(sayPath(path))) return [];
  const value = valueAt(document.value, path);
  const schema = schemaAt(root, inner);
  return [document.problemAt(path, `${sayIssue(issue, value)}${sayExample(schema, issue)}`)];
}

/** `unknown field`, with the valid name that was probably meant, or all valid names if they are few. */
export function sayUnknownName(name: string, valid: readonly string[], what: string): string {
  const nearest = nearestName(name, valid);
  if (nearest !== null) return `unknown ${what}; did you mean ${nearest}?`;
  const MAX_LISTED = 12;
  return valid.length === 0 || valid.length > MAX_LISTED
    ? `unknown ${what}`
    : `unknown ${what}; valid are ${valid.join(', ')}`;
}

/** What a value must be that is none of these, with the one that was probably meant. */
export function sayNotAmong(valid: readonly string[], value: unknown): string {
  const must = `must be ${valid.length === 1 ? '' : 'one of '}${valid.join(', ')}`;
  if (value === undefined) return `missing; ${must}`;
  const nearest = typeof value === 'string' ? nearestName(value, valid) : null;
  return `${must}, not ${sayValue(value)}${nearest === null ? '' : `; did you mean ${nearest}?`}`;
}

function sayIssue(issue: Issue, value: unknown): string {
  switch (issue.code) {
    case 'invalid_type':
      if (value === undefined) return 'missing';
      return `expected ${sayType(issue.expected)}, not ${sayValue(value)}${sayQuoted(issue.expected, value)}`;
    case 'invalid_value':
      return sayNotAmong(issue.values.map(String), value);
    case 'too_small':
      return `must ${sayBound(issue.origin, `at least ${issue.minimum}`)}${sayNot(value)}`;
    case 'too_big':
      return `must ${sayBound(issue.origin, `at most ${issue.maximum}`)}${sayNot(value)}`;
    case 'custom':
      return issue.message;
    default:
      return `is not valid: ${sayValue(value)}`;
  }
}

function sayQuoted(expected: string, value: unknown): string {
  return expected === 'boolean' && (value === 'true' || value === 'false') ? '; write it without quotes' : '';
}

function sayBound(origin: string, bound: string): string {
  if (origin === 'string') return `have a length of ${bound}`;
  return origin === 'array' ? `have ${bound} ${bound.endsWith(' 1') ? 'entry' : 'entries'}` : `be ${bound}`;
}

function sayNot(value: unknown): string {
  return typeof value === 'number' ? `, not ${value}` : '';
}

function sayType(expected: string): string {
  const words: { readonly [type: string]: string } = {
    string: 'text',
    number: 'a number',
    int: 'a whole number',
    boolean: 'true or false',
    array: 'a list',
    object: 'a mapping',
    record: 'a mapping',
  };
  return words[expected] ?? expected;
}

/** The offending value, short and with its kind, as `the number 60`. */
export function sayValue(value: unknown): string {
  if (value === null || value === undefined) return 'empty';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a mapping';
  // JSON has no .inf and no .nan.
  const said = typeof value === 'number' ? String(value) : JSON.stringify(value);
  const MAX_LENGTH = 80;
  const cut = said.length > MAX_LENGTH ? `${said.slice(0, MAX_LENGTH)}…` : said;
  return typeof value === 'string' ? cut : `the ${typeof value} ${cut}`;
}

function sayExample(schema: Schema | null, issue: Issue): string {
  // If the valid values are listed, an example adds nothing.
  if (schema === null || issue.code === 'invalid_value') return '';
  const { examples } = z.globalRegistry.get(schema) ?? {};
  const example = Array.isArray(examples) ? examples[0] : undefined;
  return example === undefined ? '' : `; for example ${JSON.stringify(example)}`;
}

/** The value at a path; undefined if there is none. */
export function valueAt(value: unknown, path: Path): unknown {
  let at = value;
  for (const step of path) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, step)) return undefined;
    at = Reflect.get(at, step);
  }
  return at;
}

/** The schema of the value at a path, or null if it is not defined. */
function schemaAt(root: Schema, path: Path): Schema | null {
  let schema = unwrapped(root);
  for (const step of path) {
    let next: Schema | undefined;
    if (schema instanceof $ZodObject) next = schema._zod.def.shape[String(step)];
    else if (schema instanceof $ZodArray) next = schema._zod.def.element;
    else if (schema instanceof $ZodRecord) next = schema._zod.def.valueType;
    if (next === undefined) return null;
    schema = unwrapped(next);
  }
  return schema;
}

/** Without surrounding default, optional and nullable, unless these have metadata. */
function unwrapped(schema: Schema): Schema {
  if (z.globalRegistry.has(schema)) return schema;
  const isWrapper =
    schema instanceof $ZodDefault ||
    schema instanceof $ZodPrefault ||
    schema instanceof $ZodOptional ||
    schema instanceof $ZodNullable;
  return isWrapper ? unwrapped(schema._zod.def.innerType) : schema;
}

/** The valid keys of a mapping, and what they are called: the title of a record's key schema. */
function namesOf(schema: Schema | null): { readonly what: string; readonly valid: readonly string[] } {
  if (schema instanceof $ZodObject) return { what: 'field', valid: Object.keys(schema._zod.def.shape) };
  if (!(schema instanceof $ZodRecord)) return { what: 'field', valid: [] };
  const key = schema._zod.def.keyType;
  const what = z.globalRegistry.get(key)?.title ?? 'name';
  return { what, valid: key instanceof $ZodEnum ? Object.values(key._zod.def.entries).map(String) : [] };
}
