import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Dialect, inOrder, parseDocuments } from '../../src/document/document.ts';
import { nearestName } from '../../src/document/nearest.ts';
import { sayPath, sayProblem } from '../../src/document/problem.ts';

function read(text: string, dialect: Dialect = 'ours') {
  const { documents, problems } = parseDocuments(text, 'f.yaml', dialect);
  return { values: documents.map(({ value }) => value), problems: problems.map(sayProblem), documents };
}

/** All of up to four signs that may be part of a number, but those that mean a list or the start of a document. */
function plainWords(): readonly string[] {
  const signs = [...'018eE.+-_xo'];
  const longer = (words: readonly string[]) => words.flatMap((word) => signs.map((sign) => word + sign));
  const [one, two, three] = [longer(['']), longer(longer([''])), longer(longer(longer([''])))];
  return [...one, ...two, ...three, ...longer(three)].filter((word) => word !== '-' && !word.startsWith('---'));
}

function readWords(words: readonly string[], dialect: Dialect): readonly unknown[] {
  const text = words.map((word) => `- ${word}\n`).join('');
  const bounds = { maxLength: text.length, maxTokens: 10 * words.length, maxValues: 2 * words.length };
  const value: unknown = parseDocuments(text, 'f.yaml', dialect, bounds).documents[0]?.value;
  return Array.isArray(value) ? value : [];
}

/** YAML 1.2.2, section 10.3.2. */
function ofCoreSchema(word: string): unknown {
  if (/^[-+]?[0-9]+$/.test(word)) return Number.parseInt(word, 10);
  if (/^0o[0-7]+$/.test(word)) return Number.parseInt(word.slice(2), 8);
  if (/^0x[0-9a-fA-F]+$/.test(word)) return Number.parseInt(word.slice(2), 16);
  if (/^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$/.test(word)) return Number.parseFloat(word);
  return word;
}

describe('parseDocuments', () => {
  it('returns each document of a text, and none for an empty one', () => {
    expect(read('a: 1\n---\n- x\n- ~\n').values).toEqual([{ a: 1 }, ['x', null]]);
    expect(read('# only a comment\n')).toMatchObject({ values: [], problems: [] });
  });

  it('places a problem at a value, at a key, and at the nearest position above a missing one', () => {
    const [document] = read('top:\n  list:\n    - name: x\n').documents;
    if (document === undefined) throw new Error('no document');
    const say = (path: (string | number)[], of?: 'key') => sayProblem(document.problemAt(path, 'wrong', of));
    expect(say(['top', 'list', 0, 'name'])).toBe('f.yaml:3:13: top.list[0].name: wrong');
    expect(say(['top', 'list', 0, 'name'], 'key')).toBe('f.yaml:3:7: top.list[0].name: wrong');
    expect(say(['top', 'list', 0, 'nothing'])).toBe('f.yaml:3:7: top.list[0].nothing: wrong');
    expect(say([])).toBe('f.yaml:1:1: wrong');
  });

  it('reports syntax errors with their position, and reads what can be read', () => {
    const { problems, values } = read('a: [1\nb: 2\n');
    expect(problems).toEqual([expect.stringMatching(/^f\.yaml:2:1: not valid YAML: /)]);
    expect(values).toEqual([{ a: [1], b: 2 }]);
  });

  it('refuses a duplicate key, and keeps the first', () => {
    const { problems, values, documents } = read('a: 1\nb: 2\na: 3\n');
    expect(problems).toEqual(['f.yaml:3:1: a: appears twice in this mapping']);
    expect(values).toEqual([{ a: 1, b: 2 }]);
    const [document] = documents;
    expect(document && sayProblem(document.problemAt(['a'], 'wrong'))).toBe('f.yaml:1:4: a: wrong');
  });

  it('flags plain words and numbers that other parsers read differently', () => {
    expect(read('a: yes\nb: 010\nc: "yes"\nd: 0.5\ne: 0\nf: 99999999999999999999\n').problems).toEqual([
      'f.yaml:1:4: a: yes is text here but a boolean to other parsers: write true, or quote it ("yes")',
      'f.yaml:2:4: b: 010 is decimal here but octal to other parsers: write it without the leading zero, or quote it ("010")',
      'f.yaml:6:4: f: 99999999999999999999 is beyond 2^53 - 1 and would lose digits',
    ]);
  });

  it("reads the kubelet's files with YAML 1.1, including merge keys", () => {
    const text = 'a: yes\nb: 010\nc: &x {d: 1, e: 2}\nf: {<<: *x, e: 3}\n';
    const { values, problems } = read(text, 'kubelet');
    expect(problems).toEqual([]);
    expect(values).toEqual([{ a: true, b: 8, c: { d: 1, e: 2 }, f: { d: 1, e: 3 } }]);
  });

  it('reads short plain words as in the core schema of YAML 1.2', () => {
    const words = plainWords();
    expect(readWords(words, 'core')).toEqual(words.map(ofCoreSchema));
  });

  it("reads words such as e1 as text in the kubelet's files, too, for example a pod's name", () => {
    const words = plainWords();
    const read = readWords(words, 'kubelet');
    expect(words.filter((word, i) => !/[0-9]/.test(word.replace(/e[-+]?[0-9]+$/i, '')) && read[i] !== word)).toEqual(
      [],
    );
    expect(read.filter((value) => typeof value === 'number' && !Number.isFinite(value))).toEqual([]);
  });

  it('treats names with a meaning in JavaScript as ordinary keys', () => {
    const [value] = read('__proto__: {polluted: true}\nconstructor: 1\n').values;
    expect(JSON.stringify(value)).toBe('{"__proto__":{"polluted":true},"constructor":1}');
    expect(Object.getPrototypeOf(value)).toBeNull();
    expect(Reflect.get({}, 'polluted')).toBeUndefined();
  });

  it('limits size, depth and aliases, each reported once', () => {
    expect(read(`a: ${'x'.repeat(1024 * 1024)}`).problems).toEqual(['f.yaml: larger than 1024 KiB']);
    expect(read(`${'['.repeat(80)}${']'.repeat(80)}`).problems).toEqual([
      'f.yaml:1:66: [0][0][0][0]: nested deeper than 64 levels',
    ]);
    expect(read('a: &a [*a]').problems).toEqual([expect.stringContaining('nested deeper than 64 levels')]);
    expect(read(`a: &a 1\nb: [${'*a, '.repeat(101)}]`).problems).toEqual([
      expect.stringContaining('b[100]: more than 100 aliases'),
    ]);
    const bomb = ['a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]'];
    for (let i = 0; i < 8; i++) bomb.push(`${'bcdefghi'[i]}: &${'bcdefghi'[i]} [${`*${'abcdefgh'[i]}, `.repeat(10)}]`);
    expect(read(bomb.join('\n')).problems).toEqual([expect.stringContaining('more than 100 aliases')]);
  });

  it.each([
    ['[', 'nested deeper than 64 levels'],
    // On Node 20 this one ended the process: V8 ran out of stack inside a regular expression.
    ['{"a":', 'nested deeper than 64 levels'],
    ['- ', 'nested deeper than 64 levels'],
    ['? ', 'nested deeper than 64 levels'],
    [']', 'too many errors to continue from here'],
    ['&a ', 'too many errors to continue from here'],
    ['! ', 'too many errors to continue from here'],
    ['"', 'too many errors to continue from here'],
    ['\n', 'too large for one file: more than 50000 tokens'],
    ['- a\n', 'too large for one file: more than 50000 tokens'],
  ])('survives nesting that it cannot read: 64 KiB of %j', (unit, said) => {
    const { problems } = read(unit.repeat((64 * 1024) / unit.length));
    expect(problems.at(-1)).toContain(said);
    expect(problems.filter((problem) => problem.includes(said))).toHaveLength(1);
  });

  it('stops reading a list of commas, each of which costs an error', () => {
    expect(read(`[${','.repeat(1_000_000)}`).problems).toEqual(['f.yaml:1:105: too many errors to continue from here']);
  });

  it('returns the documents before one that exceeds a limit', () => {
    const { values, problems } = read(`a: 1\n---\nb: 2\n---\n${'['.repeat(200)}`);
    expect(JSON.stringify(values)).toBe('[{"a":1},{"b":2}]');
    expect(problems).toEqual(['f.yaml:5:129: nested deeper than 64 levels']);
  });

  it('resolves an alias to the last node before it with that anchor', () => {
    const { values, problems } = read('- &a x\n- &b [*a]\n- &a z\n- *b\n- *a\n- *c\n');
    expect(values).toEqual([['x', ['x'], 'z', ['x'], 'z', null]]);
    expect(problems).toEqual(['f.yaml:6:3: [5]: no anchor &c before this alias']);
  });

  it('ends soon if a list contains itself thousands of times', () => {
    const { problems } = read(`a: &a [${'*a, '.repeat(12_000)}]`);
    expect(problems).toEqual([expect.stringContaining('nested deeper than 64 levels')]);
  });

  it('reads or refuses any text', () => {
    const yaml = fc.string({
      unit: fc.constantFrom('a', ':', ' ', '\n', '-', '[', ']', '{', '}', '&', '*', '"', '<', '!', '|', '0'),
    });
    fc.assert(
      fc.property(fc.oneof(fc.string(), yaml), fc.constantFrom<Dialect>('ours', 'kubelet'), (text, dialect) => {
        for (const problem of parseDocuments(text, 'f', dialect).problems) {
          expect(sayProblem(problem)).toMatch(/^f:[1-9][0-9]*:[1-9][0-9]*: /);
        }
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('problems', () => {
  it('cannot move, hide or reorder text on a terminal', () => {
    const problem = { file: 'f', line: 1, column: 1, path: 'a\u001b[2J', text: 'x\u202ey\nz' };
    expect(sayProblem(problem)).toBe('f:1:1: a\\u001b[2J: x\\u202ey\\u000az');
  });

  it('stay one readable line even if a key or a value is as long as the file', () => {
    const long = 'x'.repeat(60_000);
    expect(sayProblem({ file: 'f', line: 1, column: 1, path: long, text: long })).toHaveLength(1_411);
  });

  it('write keys that are not identifiers in brackets', () => {
    expect(sayPath(['evictionHard', 'memory.available', 0, 'x-y'])).toBe('evictionHard["memory.available"][0].x-y');
  });

  it('are in the order of the files, without duplicates, and at most 100', () => {
    const at = (file: string, line: number) => ({ file, line, column: 1, path: '', text: `${file}${line}` });
    const sorted = inOrder([at('b', 2), at('a', 9), at('b', 1), at('b', 2)]);
    expect(sorted.map(({ text }) => text)).toEqual(['b1', 'b2', 'a9']);
    const many = inOrder(Array.from({ length: 150 }, (_, i) => at('a', i + 1)));
    expect([many.length, many.at(-1)?.text]).toEqual([100, 'and 51 more problems']);
  });
});

describe('nearestName', () => {
  it.each([
    ['memory.avialable', 'memory.available'],
    ['MEMORY.AVAILABLE', 'memory.available'],
    ['nodefs.inodesfree', 'nodefs.inodesFree'],
    ['memory', null],
    ['', null],
    ['x'.repeat(200), null],
  ])('suggests for %s: %s', (wrong, right) => {
    expect(nearestName(wrong, ['memory.available', 'nodefs.inodesFree', 'a'])).toBe(right);
  });
});
