import type { Reading, Unknown } from '../core/reading.ts';
import { known } from '../core/reading.ts';
import { type Bounds, parseDocuments, type YamlDocument } from '../document/document.ts';
import { parseJsonDocument } from '../document/json.ts';
import { type Problem, problemOfFile, sayPath } from '../document/problem.ts';
import { linesOf, openText, type TextPieces, wholeText } from '../host/text-stream.ts';

export type SourceItem =
  | {
      readonly kind: 'document';
      readonly file: string;
      /** Its number in the file, counted from 1 without blank lines and empty YAML documents. */
      readonly document: number;
      readonly line: number;
      readonly yaml: YamlDocument;
      /** Problems of form: syntax errors that could be repaired, duplicate keys. */
      readonly problems: readonly Problem[];
    }
  /** A document without a value; `document` null = the file cannot be read, or not to its end. */
  | {
      readonly kind: 'problems';
      readonly file: string;
      readonly document: number | null;
      readonly problems: readonly Problem[];
    };

/**
 * The limit for one JSON file or line, in UTF-16 units: 10,000 looks at 110 pods with all their numbers take some 190
 * MB.
 */
const MAX_JSON_LENGTH = 256 * 1024 * 1024;
/** The tree with the positions in YAML is some 100 times as large as its text, and slow. */
const YAML_BOUNDS: Bounds = { maxLength: 16 * 1024 * 1024, maxTokens: 5_000_000, maxValues: 4_000_000 };

export const STDIN_NAME = '<stdin>';

/**
 * All documents of the files in order, one at a time (scenarios.md 1.1); `-` is `stdin`. A .jsonl file is held line by
 * line, any other as a whole. A failure in one file or document does not end the others.
 */
export async function* readScenarioFiles(
  files: readonly string[],
  stdin: () => TextPieces,
): AsyncGenerator<SourceItem> {
  for (const name of files) {
    const isStdin = name === '-';
    const file = isStdin ? STDIN_NAME : name;
    const pieces = isStdin ? stdin() : openText(name);
    let documents = 0;
    for await (const item of itemsOf(pieces, file, isStdin ? null : formatOf(name))) {
      documents += 1;
      yield item;
    }
    if (documents === 0) yield unreadable(problemOfFile(file, 'is empty'));
  }
}

type Format = 'yaml' | 'json' | 'jsonl';

/** By the file name's extension. */
export const isScenarioFile = (name: string): boolean => formatOf(name) !== null;

/** By the file name's extension; null = its content decides. */
function formatOf(name: string): Format | null {
  const [, end = ''] = /\.(yaml|yml|json|jsonl)(?:\.gz)?$/.exec(name) ?? [];
  return end === '' ? null : end === 'json' || end === 'jsonl' ? end : 'yaml';
}

async function* itemsOf(pieces: TextPieces, file: string, format: Format | null): AsyncGenerator<SourceItem> {
  if (format === 'jsonl') {
    yield* itemsOfLines(pieces, file);
  } else if (format === null) {
    const sniffed = await sniff(pieces);
    if (sniffed.isLines) yield* itemsOfLines(sniffed.pieces, file);
    else yield* itemsOfText(sniffed.pieces, file, null);
  } else yield* itemsOfText(pieces, file, format);
}

async function* itemsOfLines(pieces: TextPieces, file: string): AsyncGenerator<SourceItem> {
  let document = 0;
  let last = 1;
  for await (const line of linesOf(pieces, MAX_JSON_LENGTH)) {
    if (!line.known) {
      const problem = problemOfFile(file, sayUnreadable(line));
      yield unreadable(last === 1 ? problem : { ...problem, line: last, column: 1 });
      return;
    }
    const { text } = line.value;
    last = line.value.line + 1;
    if (/^\s*$/.test(text)) continue;
    document += 1;
    const parsed = parseJsonDocument(text, file, line.value.line);
    const [yaml] = parsed.documents;
    const { problems } = parsed;
    if (yaml === undefined) yield { kind: 'problems', file, document, problems };
    else yield { kind: 'document', file, document, line: line.value.line, yaml, problems };
  }
}

async function* itemsOfText(
  pieces: TextPieces,
  file: string,
  format: 'yaml' | 'json' | null,
): AsyncGenerator<SourceItem> {
  const text = await wholeText(pieces, format === 'yaml' ? YAML_BOUNDS.maxLength : MAX_JSON_LENGTH);
  if (!text.known) yield unreadable(problemOfFile(file, sayUnreadable(text)));
  else if (format === 'json' || (format === null && isJson(text.value))) yield* itemsOfJson(text.value, file);
  else yield* itemsOfYaml(text.value, file);
}

/** YAML that is also JSON is read as JSON: the result is the same, about 100 times faster. */
function isJson(text: string): boolean {
  if (!/^\s*[[{]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false; // It is YAML in flow style; the YAML reader reports what is wrong with it.
  }
}

function* itemsOfJson(text: string, file: string): Generator<SourceItem> {
  const { documents, problems } = parseJsonDocument(text, file);
  const [whole] = documents;
  if (whole === undefined) {
    yield { kind: 'problems', file, document: 1, problems };
    return;
  }
  if (!Array.isArray(whole.value)) {
    yield { kind: 'document', file, document: 1, line: whole.problemAt([], '').line, yaml: whole, problems };
    return;
  }
  for (const [index, value] of whole.value.entries()) {
    const yaml = elementOf(whole, value, index);
    const own = problems.flatMap((problem) => {
      const [start, number = ''] = /^\[(\d+)\]\.?/.exec(problem.path) ?? [];
      return number === String(index) ? [{ ...problem, path: problem.path.slice(start?.length) }] : [];
    });
    yield { kind: 'document', file, document: index + 1, line: yaml.problemAt([], '').line, yaml, problems: own };
  }
}

/** A document in a list of documents: its paths begin at itself. */
function elementOf(list: YamlDocument, value: unknown, index: number): YamlDocument {
  return {
    ...list,
    value,
    problemAt: (path, text, of) => ({ ...list.problemAt([index, ...path], text, of), path: sayPath(path) }),
  };
}

/** Each document with the problems from its line up to the next document. */
function* itemsOfYaml(text: string, file: string): Generator<SourceItem> {
  const { documents, problems } = parseDocuments(text, file, 'core', YAML_BOUNDS);
  const all = problems.length > 0 ? documents : documents.filter(({ value }) => value !== null);
  const lines = all.map((yaml) => yaml.problemAt([], '').line);
  for (const [index, yaml] of all.entries()) {
    const line = lines[index] ?? 1;
    const from = index === 0 ? 0 : line;
    const to = lines[index + 1] ?? Number.POSITIVE_INFINITY;
    const own = problems.filter((problem) => (problem.line ?? 1) >= from && (problem.line ?? 1) < to);
    yield { kind: 'document', file, document: index + 1, line, yaml, problems: own };
  }
  if (all.length === 0 && problems.length > 0) yield { kind: 'problems', file, document: 1, problems };
}

/** scenarios.md 1.1: lines of JSON if the first byte that is not blank is `{` and its line is a complete document. */
async function sniff(pieces: TextPieces): Promise<{ readonly isLines: boolean; readonly pieces: TextPieces }> {
  const iterator = pieces[Symbol.asyncIterator]();
  let head = '';
  let first: string | undefined;
  let hasLine = false;
  let end: Reading<string> | null = null;
  // If it does not begin with {, the format is known at once.
  while (first === undefined || (first === '{' && !hasLine)) {
    const next = await iterator.next();
    if (next.done === true) break;
    if (!next.value.known) {
      end = next.value;
      break;
    }
    const { value } = next.value;
    head += value;
    if (head.length > MAX_JSON_LENGTH) break;
    const from = first === undefined ? value.search(/\S/) : 0;
    if (from === -1) continue;
    first ??= value[from];
    hasLine = value.includes('\n', from);
  }
  async function* again(): AsyncGenerator<Reading<string>> {
    yield known(head);
    if (end !== null) yield end;
    else yield* { [Symbol.asyncIterator]: () => iterator };
  }
  const [line = ''] = first === '{' ? (/\S[^\n]*/.exec(head) ?? []) : [];
  return { isLines: isJson(line), pieces: again() };
}

function unreadable(problem: Problem): SourceItem {
  return { kind: 'problems', file: problem.file, document: null, problems: [problem] };
}

export function sayUnreadable({ why, detail }: Unknown): string {
  return why === 'absent' ? 'does not exist' : `cannot be read: ${detail}`;
}
