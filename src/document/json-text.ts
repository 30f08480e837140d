/**
 * Reads JSON character by character for what JSON.parse does not report: the position of a value, where a text is not JSON,
 * and duplicate keys. Offsets count UTF-16 units. Slow compared with JSON.parse, so used only when there is a problem.
 */

export type Member = {
  readonly key: string | number;
  /** Where the key begins; in a list, where the value begins. */
  readonly keyOffset: number;
  readonly offset: number;
};
type Mistake = { readonly offset: number; readonly text: string };

const QUOTE = 34;
const BACKSLASH = 92;
const COLON = 58;
const SCALAR = /(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?)(?![\w.+-])/y;
const ESCAPED = /["\\/bfnrt]|u[0-9a-fA-F]{4}/y;

/** The number of keys in all mappings of a valid text, including duplicates. */
export function countKeys(text: string): number {
  let keys = 0;
  for (let at = text.indexOf('"'); at !== -1; at = text.indexOf('"', at)) {
    at = endOfString(text, at);
    if (text.charCodeAt(skipBlank(text, at)) === COLON) keys++;
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

/** The offset of the next character that is not white space. */
export function skipBlank(text: string, offset: number): number {
  let at = offset;
  for (; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code !== 32 && code !== 10 && code !== 13 && code !== 9) break;
  }
  return at;
}

/** The members of the mapping or list that begins at `offset` in a valid text; none for any other value. */
export function membersAt(text: string, offset: number): readonly Member[] {
  const members: Member[] = [];
  if (text[offset] === '{' || text[offset] === '[') {
    readContainer(text, offset, Number.POSITIVE_INFINITY, (member) => members.push(member));
  }
  return members;
}

/** Where a text that JSON.parse refuses stops being JSON, and what is expected there. */
export function findMistake(text: string, maxDepth: number): Mistake | null {
  const start = skipBlank(text, 0);
  const end = readValue(text, start, maxDepth);
  if (typeof end !== 'number') return end;
  const rest = skipBlank(text, end);
  return rest === text.length ? null : wrong(rest, 'unexpected text after the document');
}

/** The offset after a valid value, or the first mistake in it. */
function readValue(text: string, at: number, levels: number): number | Mistake {
  switch (text[at]) {
    case undefined:
      return wrong(at, 'the text ends where a value is expected');
    case '"':
      return readString(text, at);
    case '{':
    case '[':
      return readContainer(text, at, levels);
    default: {
      SCALAR.lastIndex = at;
      return SCALAR.test(text)
        ? SCALAR.lastIndex
        : wrong(at, 'expected a value: text in double quotes, a number, true, false, null, { or [');
    }
  }
}

function readContainer(
  text: string,
  offset: number,
  levels: number,
  hear?: (member: Member) => void,
): number | Mistake {
  if (levels === 0) return wrong(offset, 'nested too deeply');
  const isMap = text[offset] === '{';
  const close = isMap ? '}' : ']';
  let at = skipBlank(text, offset + 1);
  if (text[at] === close) return at + 1;
  for (let index = 0; ; index++) {
    const keyOffset = at;
    let keyEnd = at;
    if (isMap) {
      if (text[at] !== '"')
        return wrong(at, text[at] === undefined ? 'the text ends inside a mapping' : 'expected a key in double quotes');
      const end = readString(text, at);
      if (typeof end !== 'number') return end;
      keyEnd = end;
      at = skipBlank(text, end);
      if (text[at] !== ':') return wrong(at, 'expected a colon after the key');
      at = skipBlank(text, at + 1);
    }
    hear?.({ key: isMap ? String(JSON.parse(text.slice(keyOffset, keyEnd))) : index, keyOffset, offset: at });
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
  for (let at = offset + 1; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) return at + 1;
    if (code < 32) return wrong(at, 'a control character in a string; escape it with a backslash');
    if (code !== BACKSLASH) continue;
    ESCAPED.lastIndex = at + 1;
    if (!ESCAPED.test(text)) return wrong(at, 'not a valid JSON escape');
    at = ESCAPED.lastIndex - 1;
  }
  return wrong(offset, 'the string that begins here does not end');
}

function wrong(offset: number, text: string): Mistake {
  return { offset, text };
}
