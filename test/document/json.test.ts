import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseJsonDocument } from '../../src/document/json.ts';
import { sayProblem } from '../../src/document/problem.ts';

const said = (text: string): readonly string[] => parseJsonDocument(text, 'a.json').problems.map(sayProblem);

function documentOf(text: string, line = 1) {
  const [document] = parseJsonDocument(text, 'a.json', line).documents;
  if (document === undefined) throw new Error('no document');
  return document;
}

describe('JSON as a document', () => {
  it('has the value that JSON.parse returns', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 6 }), (text) => {
        const { documents, problems } = parseJsonDocument(text, 'a.json');
        expect(problems).toEqual([]);
        expect(documents[0]?.value).toEqual(JSON.parse(text));
      }),
    );
  });

  it('reports a duplicate key with its position, even if it is escaped, deeply nested, or __proto__', () => {
    expect(said('{"a": 1,\n "b": {"c": [{"d": 1, "\\u0064": 2}]},\n "a": 3}')).toEqual([
      'a.json:2:23: b.c[0].d: appears twice in this mapping',
      'a.json:3:2: a: appears twice in this mapping',
    ]);
    expect(said('{"__proto__": 1, "__proto__": 2}')).toEqual(['a.json:1:18: __proto__: appears twice in this mapping']);
    expect(said('{"a": "b:c", "d": ":\\":"}')).toEqual([]);
  });

  it('reports the first hundred duplicate keys, however many there are', () => {
    const problems = said(`{${'"a": 1, '.repeat(1e5)}"a": 1}`);
    expect(problems).toHaveLength(100);
    expect(problems.at(-1)).toBe('a.json:1:802: a: appears twice in this mapping');
  });

  it('is refused below 64 levels, at the position that is too deep', () => {
    expect(said('['.repeat(64) + ']'.repeat(64))).toEqual([]);
    expect(said('['.repeat(65) + ']'.repeat(65))).toEqual(['a.json:1:65: nested deeper than 64 levels']);
    expect(said('['.repeat(1e6) + ']'.repeat(1e6))).toEqual(['a.json:1:65: nested deeper than 64 levels']);
    expect(said('['.repeat(1e6))).toHaveLength(1);
  });

  it.each([
    [
      '',
      '1:1: not valid JSON: expected a value: text in double quotes, a number, true, false, null, { or [, but the text ends',
    ],
    ['{"a": 1,}', '1:9: not valid JSON: expected a key in double quotes'],
    ['[1,]', '1:4: not valid JSON: expected a value: text in double quotes, a number, true, false, null, { or ['],
    ['{"a": 1\n "b": 2}', '2:2: not valid JSON: expected a comma, or the end of the mapping or list'],
    ['{"a" 1}', '1:6: not valid JSON: expected a colon after the key'],
    [
      '{a: 1}',
      '1:2: not valid JSON: expected a key in double quotes or a value: text in double quotes, a number, true, false, null, { or [',
    ],
    ['{"a": 01}', '1:8: not valid JSON: expected a comma, or the end of the mapping or list'],
    ['{"a": 1.}', '1:7: not valid JSON: a number without its last digits'],
    [
      '{"a": yes}',
      '1:7: not valid JSON: expected a key in double quotes or a value: text in double quotes, a number, true, false, null, { or [',
    ],
    ['{"a": "b', '1:7: not valid JSON: the string that begins here does not end in this line'],
    [
      '{"a": "\t"}',
      '1:7: not valid JSON: a control character in the string that begins here; escape it with a backslash',
    ],
    ['{"a": "\\x"}', '1:7: not valid JSON: not a valid JSON escape in the string that begins here'],
    ['{"a": "\\u12"}', '1:7: not valid JSON: a \\u without four hexadecimal digits in the string that begins here'],
    ['{"a": [1, 2', '1:12: not valid JSON: expected a comma or ], but the text ends'],
    ['{"a": 1', '1:8: not valid JSON: expected a comma or }, but the text ends'],
    ['{"a": 1} {', '1:10: not valid JSON: unexpected text after the document'],
    ['{"a": 1 // no\n}', '1:9: not valid JSON: there are no comments in JSON'],
  ])('says where %j is not JSON', (text, sentence) => {
    expect(said(text)).toEqual([`a.json:${sentence}`]);
  });

  it('is refused exactly if JSON.parse refuses it, with a place', () => {
    const whyNot = (text: string): string | null => {
      try {
        JSON.parse(text);
        return null;
      } catch (cause) {
        return String(cause);
      }
    };
    const damaged = fc
      .tuple(
        fc.json({ maxDepth: 3 }),
        fc.nat(),
        fc.constantFrom('', ',', '"', '{', '}', '\\', '0', '-', '.', 'e', ' ', '\n'),
      )
      .map(([text, at, char]) => text.slice(0, at % text.length) + char + text.slice((at % text.length) + 1));
    fc.assert(
      fc.property(damaged, (text) => {
        const why = whyNot(text);
        const { documents, problems } = parseJsonDocument(text, 'a.json');
        expect(documents.length === 0).toBe(why !== null);
        // The parser's own words would mean that no place was found.
        if (why !== null) expect(`SyntaxError: ${problems[0]?.text.replace('not valid JSON: ', '')}`).not.toBe(why);
      }),
      { numRuns: 5000 },
    );
  });
});

describe('the position of a value', () => {
  const text = ' {"a": {"b": [10, "x,}", {"c": true}]},\n  "d-e": [[], {}, -1.5e3]}';
  it.each([
    [[], 'value', '1:2', ''],
    [['a'], 'key', '1:3', 'a'],
    [['a'], 'value', '1:8', 'a'],
    [['a', 'b', 1], 'value', '1:19', 'a.b[1]'],
    [['a', 'b', 2, 'c'], 'value', '1:32', 'a.b[2].c'],
    [['a', 'b', 2, 'c'], 'key', '1:27', 'a.b[2].c'],
    [['d-e', 2], 'value', '2:19', 'd-e[2]'],
    [['a', 'missing', 'x'], 'value', '1:8', 'a.missing.x'],
  ] as const)('in %j (%s) is %s', (path, of, place, saidPath) => {
    expect(sayProblem(documentOf(text).problemAt(path, 'x', of))).toBe(
      `a.json:${place}: ${saidPath === '' ? '' : `${saidPath}: `}x`,
    );
  });

  it('in a file of lines is the line of the document and the column in it', () => {
    expect(sayProblem(documentOf(' {"a": 1}', 17).problemAt(['a'], 'x'))).toBe('a.json:17:8: a: x');
  });

  it('is found for each of 10,000 entries of one long list within seconds', () => {
    const document = documentOf(
      JSON.stringify({ steps: Array.from({ length: 10_000 }, (_, at) => ({ at, x: 'y'.repeat(500) })) }),
    );
    const columns = Array.from({ length: 10_000 }, (_, i) => document.problemAt(['steps', i, 'x'], 'wrong').column);
    expect(columns).toEqual(columns.toSorted((a, b) => a - b));
  }, 5_000);
});
