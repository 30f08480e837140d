/**
 * JSON by the letter, for what JSON.parse does not tell: where a value stands, where a text is not JSON, which key was
 * written twice. Offsets count UTF-16 units. Slow beside JSON.parse, so asked only when there is something to tell.
 */

export type Member = {
  readonly key: string | number;
  /** Where the key begins; in a list where the value does. */
  readonly keyOffset: number;
  readonly offset: number;
};
type Mistake = { readonly offset: number; readonly text: string };

const QUOTE = 34;
const BACKSLASH = 92;
const [OPEN_LIST, CLOSE_LIST, OPEN_MAP, CLOSE_MAP] = [91, 93, 123, 125];
const COLON = 58;

/** Keys of all mappings of a valid text together, those that were written twice included. */
export function countKeys(text: string): number {
  let keys = 0;
  for (let at = text.indexOf('"'); at !== -1; at = text.indexOf('"', at)) {
    at = endOfString(text, at);
    if (text.charCodeAt(skipBlank(text, at)) === COLON) keys++;
  }
  return keys;
}

/** Of a string that begins at `offset`, the offset behind it. */
function endOfString(text: string, offset: number): number {
  let end = text.indexOf('"', offset + 1);
  // A quote behind an odd number of backslashes is part of the text.
  for (; end !== -1; end = text.indexOf('"', end + 1)) {
    let backslashes = 0;
    while (text.charCodeAt(end - 1 - backslashes) === BACKSLASH) backslashes++;
    if (backslashes % 2 === 0) return end + 1;
  }
  return text.length;
}

/** Of a value that begins at `offset` in a valid text, the offset behind it. */
function endOfValue(text: string, offset: number): number {
  let depth = 0;
  for (let at = offset; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = endOfString(text, at) - 1;
      if (depth === 0) return at + 1;
    } else if (code === OPEN_LIST || code === OPEN_MAP) depth++;
    else if (code === CLOSE_LIST || code === CLOSE_MAP) {
      depth--;
      if (depth === 0) return at + 1;
      // A number or a word ends with what it stands in.
      if (depth < 0) return at;
    } else if (depth === 0 && !isScalarCode(code)) return at;
  }
  return text.length;
}

/** Digits, letters, signs and points. */
function isScalarCode(code: number): boolean {
  return (
    (code >= 48 && code <= 57) ||
    (code >= 97 && code <= 122) ||
    code === 69 ||
    code === 43 ||
    code === 45 ||
    code === 46
  );
}

/** The next offset that is no white space. */
export function skipBlank(text: string, offset: number): number {
  let at = offset;
  for (; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code !== 32 && code !== 10 && code !== 13 && code !== 9) break;
  }
  return at;
}

/** What stands in the mapping or list that begins at `offset` in a valid text; nothing for any other value. */
export function membersAt(text: string, offset: number): readonly Member[] {
  const open = text.charCodeAt(offset);
  if (open !== OPEN_LIST && open !== OPEN_MAP) return [];
  const members: Member[] = [];
  let at = skipBlank(text, offset + 1);
  while (at < text.length && text.charCodeAt(at) !== CLOSE_LIST && text.charCodeAt(at) !== CLOSE_MAP) {
    const keyOffset = at;
    let key: string | number = members.length;
    if (open === OPEN_MAP) {
      const end = endOfString(text, at);
      key = String(JSON.parse(text.slice(at, end)));
      at = skipBlank(text, skipBlank(text, end) + 1);
    }
    members.push({ key, keyOffset, offset: at });
    at = skipBlank(text, endOfValue(text, at));
    if (text[at] === ',') at = skipBlank(text, at + 1);
  }
  return members;
}

/** The place of the first value that is nested deeper than `maxDepth` mappings and lists; null = none is. */
export function firstTooDeep(text: string, maxDepth: number): number | null {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at) - 1;
    else if (code === OPEN_LIST || code === OPEN_MAP) {
      depth++;
      if (depth > maxDepth) return at;
    } else if (code === CLOSE_LIST || code === CLOSE_MAP) depth--;
  }
  return null;
}

/** Where a text that JSON.parse refuses stops being JSON, and what is wanted there. */
export function findMistake(text: string, maxDepth: number): Mistake | null {
  const start = skipBlank(text, 0);
  const end = readValue(text, start, maxDepth);
  if (typeof end !== 'number') return end;
  const rest = skipBlank(text, end);
  return rest === text.length ? null : wrong(rest, 'unexpected text after the document');
}

/** The offset behind a valid value, or the first mistake in it. */
function readValue(text: string, at: number, levels: number): number | Mistake {
  switch (text[at]) {
    case undefined:
      return wrong(at, 'the text ends where a value is expected');
    case '"':
      return readString(text, at);
    case '{':
      return readContainer(text, at, levels);
    case '[':
      return readContainer(text, at, levels);
    default: {
      const scalar = /(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?)(?![\w.+-])/y;
      scalar.lastIndex = at;
      return scalar.test(text)
        ? scalar.lastIndex
        : wrong(at, 'expected a value: text in double quotes, a number, true, false, null, { or [');
    }
  }
}

function readContainer(text: string, offset: number, levels: number): number | Mistake {
  if (levels === 0) return wrong(offset, 'nested too deeply');
  const isMap = text[offset] === '{';
  const close = isMap ? '}' : ']';
  let at = skipBlank(text, offset + 1);
  if (text[at] === close) return at + 1;
  for (;;) {
    if (isMap) {
      if (text[at] !== '"')
        return wrong(at, text[at] === undefined ? 'the text ends inside a mapping' : 'expected a key in double quotes');
      const end = readString(text, at);
      if (typeof end !== 'number') return end;
      at = skipBlank(text, end);
      if (text[at] !== ':') return wrong(at, 'expected a colon after the key');
      at = skipBlank(text, at + 1);
    }
    const end = readValue(text, at, levels - 1);
    if (typeof end !== 'number') return end;
    at = skipBlank(text, end);
    if (text[at] === close) return at + 1;
    if (text[at] !== ',') {
      return wrong(
        at,
        text[at] === undefined ? `the text ends where a comma or ${close} is expected` : `expected a comma or ${close}`,
      );
    }
    at = skipBlank(text, at + 1);
    if (text[at] === close) return wrong(at, `no comma is allowed before ${close}`);
  }
}

function readString(text: string, offset: number): number | Mistake {
  const escaped = /["\\/bfnrt]|u[0-9a-fA-F]{4}/y;
  for (let at = offset + 1; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) return at + 1;
    if (code < 32) return wrong(at, 'a control character in a string; escape it with a backslash');
    if (code !== BACKSLASH) continue;
    escaped.lastIndex = at + 1;
    if (!escaped.test(text)) return wrong(at, 'not a valid JSON escape');
    at = escaped.lastIndex - 1;
  }
  return wrong(offset, 'the string that begins here does not end');
}

function wrong(offset: number, text: string): Mistake {
  return { offset, text };
}
