import { createScanner, printParseErrorCode, visit } from 'jsonc-parser';
import { LineCounter } from 'yaml';
import { sayCause } from '../core/reading.ts';
import { MAX_DEPTH, type ParsedDocuments, type YamlDocument } from './document.ts';
import { type LocatedProblem, type Path, sayPath } from './problem.ts';

/**
 * One strict JSON text, which begins in `firstLine` of its file, as a document; objects have their usual prototype.
 * JSON.parse reads it at some 100 MB/s; positions, which are offsets in UTF-16 units, are searched for only to report a
 * problem. A duplicate key is a problem, as in YAML, but the last value is kept; the first hundred are reported.
 */
export function parseJsonDocument(text: string, file: string, firstLine = 1): ParsedDocuments {
  const places = createPlaces(text, file, firstLine);
  const refused = (mistake: Mistake): ParsedDocuments => ({
    documents: [],
    problems: [places.problemAtOffset(mistake.offset, [], mistake.text)],
  });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    // Both follow the same grammar; if they ever disagree, JSON.parse decides.
    return refused(mistakeIn(text) ?? { offset: 0, text: `not valid JSON: ${sayCause(cause)}` });
  }
  const keys = typeof value === 'object' && value !== null ? keysOf(value, MAX_DEPTH) : 0;
  if (keys === null) return refused(mistakeIn(text) ?? { offset: 0, text: TOO_DEEP });
  const duplicates = keys === countKeys(text) ? [] : duplicatesIn(text);
  const problems = duplicates.map(({ path, offset }) =>
    places.problemAtOffset(offset, path, 'appears twice in this mapping'),
  );
  const document: YamlDocument = { file, value, problemAt: places.problemAt, told: new Set() };
  return { documents: [document], problems };
}

/**
 * The number of keys in all mappings; null = nested deeper than `levels`. With for-in: Object.values takes six times as
 * long.
 */
function keysOf(value: object, levels: number): number | null {
  if (levels === 0) return null;
  const isList = Array.isArray(value);
  let keys = 0;
  for (const key in value) {
    if (!isList) keys++;
    const inner: unknown = Reflect.get(value, key);
    const below = typeof inner === 'object' && inner !== null ? keysOf(inner, levels - 1) : 0;
    if (below === null) return null;
    keys += below;
  }
  return keys;
}

const BACKSLASH = 92;
const COLON = /[ \n\r\t]*:/y;

/** The number of keys in all mappings of a valid text, including duplicates; several times as fast as any parser. */
function countKeys(text: string): number {
  let keys = 0;
  for (let at = text.indexOf('"'); at !== -1; at = text.indexOf('"', at)) {
    at = endOfString(text, at);
    COLON.lastIndex = at;
    if (COLON.test(text)) keys++;
  }
  return keys;
}

/** The offset after the string that begins at `offset`. */
function endOfString(text: string, offset: number): number {
  let end = text.indexOf('"', offset + 1);
  // A quote after an odd number of backslashes is part of the text.
  for (; end !== -1; end = text.indexOf('"', end + 1)) {
    let backslashes = 0;
    while (text.charCodeAt(end - 1 - backslashes) === BACKSLASH) backslashes++;
    if (backslashes % 2 === 0) return end + 1;
  }
  return text.length;
}

type Mistake = { readonly offset: number; readonly text: string };

const TOO_DEEP = `nested deeper than ${MAX_DEPTH} levels`;
const VALUE = 'a value: text in double quotes, a number, true, false, null, { or [';
/** By the parser's codes. It reports what is wrong in a string at the string's beginning. */
const SAID: { readonly [code: string]: string } = {
  InvalidSymbol: `expected a key in double quotes or ${VALUE}`,
  ValueExpected: `expected ${VALUE}`,
  PropertyNameExpected: 'expected a key in double quotes',
  ColonExpected: 'expected a colon after the key',
  CommaExpected: 'expected a comma, or the end of the mapping or list',
  CloseBraceExpected: 'expected a comma or }',
  CloseBracketExpected: 'expected a comma or ]',
  EndOfFileExpected: 'unexpected text after the document',
  InvalidCommentToken: 'there are no comments in JSON',
  UnexpectedEndOfString: 'the string that begins here does not end in this line',
  UnexpectedEndOfNumber: 'a number without its last digits',
  InvalidUnicode: 'a \\u without four hexadecimal digits in the string that begins here',
  InvalidEscapeCharacter: 'not a valid JSON escape in the string that begins here',
  InvalidCharacter: 'a control character in the string that begins here; escape it with a backslash',
};

/** Where a text first stops being JSON of a depth that we read; null: nowhere, or it is not known. */
function mistakeIn(text: string): Mistake | null {
  const found: Mistake[] = [];
  const stopAt = (offset: number, said: string): never => {
    found.push({ offset, text: said });
    throw new Error(said);
  };
  let depth = 0;
  const begin = (offset: number): void => {
    depth += 1;
    if (depth > MAX_DEPTH) stopAt(offset, TOO_DEEP);
  };
  const end = (): void => {
    depth -= 1;
  };
  const onError = (code: number, offset: number): void => {
    const said = SAID[printParseErrorCode(code)] ?? 'unexpected text';
    stopAt(offset, `not valid JSON: ${said}${offset < text.length ? '' : ', but the text ends'}`);
  };
  try {
    visit(
      text,
      { onObjectBegin: begin, onArrayBegin: begin, onObjectEnd: end, onArrayEnd: end, onError },
      { disallowComments: true },
    );
  } catch {
    // The visit ends with the first mistake.
  }
  return found[0] ?? null;
}

type Duplicate = { readonly path: Path; readonly offset: number };
/** More are not reported. */
const MAX_DUPLICATES = 100;

/** The keys of a valid text that their mapping already has. */
function duplicatesIn(text: string): readonly Duplicate[] {
  const duplicates: Duplicate[] = [];
  const open: Set<string>[] = [];
  visit(text, {
    onObjectBegin: () => {
      open.push(new Set());
    },
    onObjectProperty: (key, offset, _length, _line, _column, pathOf) => {
      const isNew = open.at(-1)?.has(key) === false;
      if (isNew) open.at(-1)?.add(key);
      else if (duplicates.length < MAX_DUPLICATES) duplicates.push({ path: [...pathOf(), key], offset });
    },
    onObjectEnd: () => {
      open.pop();
    },
  });
  return duplicates;
}

type Places = {
  readonly problemAtOffset: (offset: number, path: Path, text: string) => LocatedProblem;
  readonly problemAt: YamlDocument['problemAt'];
};

function createPlaces(text: string, file: string, firstLine: number): Places {
  let lines: LineCounter | null = null;
  const found = new Map<number, MemberOf>();

  const problemAtOffset = (offset: number, path: Path, said: string): LocatedProblem => {
    lines ??= linesOf(text);
    const { line, col } = lines.linePos(offset);
    return { file, line: firstLine + line - 1, column: col, path: sayPath(path), text: said };
  };
  /** Kept, because the next problem is often in the same long list. */
  const membersOf = (offset: number): MemberOf => {
    const memberOf = found.get(offset) ?? memberIn(membersAt(text, offset));
    found.set(offset, memberOf);
    return memberOf;
  };
  const offsetOf = (path: Path, of: 'key' | 'value'): number => {
    let offset = text.search(/\S/);
    for (const [index, step] of path.entries()) {
      const member = membersOf(offset)(step);
      if (member === undefined) break;
      offset = of === 'key' && index === path.length - 1 ? member.keyOffset : member.offset;
    }
    return offset;
  };
  return {
    problemAtOffset,
    problemAt: (path, said, of = 'value') => problemAtOffset(offsetOf(path, of), path, said),
  };
}

function linesOf(text: string): LineCounter {
  const lines = new LineCounter();
  lines.addNewLine(0);
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) lines.addNewLine(at + 1);
  return lines;
}

type Key = {
  readonly key: string | number;
  /** Where the key begins; in a list, where the value begins. */
  readonly keyOffset: number;
};
type Member = Key & { readonly offset: number };
type MemberOf = (step: string | number) => Member | undefined;

/** A list does not become a Map, which cannot hold more than 2^24 entries. */
function memberIn(members: readonly Member[]): MemberOf {
  if (typeof members[0]?.key === 'number') return (step) => (typeof step === 'number' ? members[step] : undefined);
  // For a duplicate key, the last one counts, as in the value.
  const byKey = new Map(members.map((member) => [member.key, member]));
  return (step) => byKey.get(step);
}

/**
 * The members of the mapping or list that begins at `offset` in a valid text; none for any other value. By tokens: a tree of
 * the whole text would be many times as large.
 */
function membersAt(text: string, offset: number): readonly Member[] {
  const scanner = createScanner(text, true);
  scanner.setPosition(offset);
  const members: Member[] = [];
  const isMap = text[offset] === '{';
  let key: Key | null = null;
  let depth = 0;
  do {
    scanner.scan();
    const at = scanner.getTokenOffset();
    const first = text[at] ?? '';
    if (depth === 1 && !',:]}'.includes(first)) {
      if (isMap && key === null) key = { key: scanner.getTokenValue(), keyOffset: at };
      else {
        members.push({ ...(key ?? { key: members.length, keyOffset: at }), offset: at });
        key = null;
      }
    }
    if (first === '{' || first === '[') depth += 1;
    else if (first === '}' || first === ']') depth -= 1;
  } while (depth > 0);
  return members;
}
