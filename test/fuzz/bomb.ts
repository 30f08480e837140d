/** What grows out of little: texts of a given size that are hard to parse rather than strange. */
export type Bomb = { readonly name: string; readonly of: (bytes: number) => Buffer };

const filled = (unit: string, bytes: number, before = '', after = ''): Buffer => {
  const middle = Buffer.from(unit);
  const times = Math.max(1, Math.floor((bytes - before.length - after.length) / middle.length));
  return Buffer.concat([Buffer.from(before), Buffer.alloc(times * middle.length, middle), Buffer.from(after)]);
};
const numbered = (line: (i: number) => string, bytes: number, before = '', after = ''): Buffer => {
  const lines: string[] = [];
  for (let i = 0, size = 0; size < bytes - before.length - after.length; i++) {
    const text = line(i);
    lines.push(text);
    size += text.length;
  }
  return Buffer.from(before + lines.join('') + after);
};
const repeated = (name: string, unit: string, before = '', after = ''): Bomb => ({
  name,
  of: (bytes) => filled(unit, bytes, before, after),
});

const ANY: readonly Bomb[] = [
  repeated('nothing but NUL', '\u0000'),
  repeated('nothing but line ends', '\n'),
  repeated('nothing but blanks', ' '),
  repeated('nothing but tabs', '\t'),
  repeated('one long word', 'x'),
  repeated('one long number', '9'),
  { name: 'bytes that are no UTF-8', of: (bytes) => Buffer.alloc(bytes, 0xff) },
  repeated('quotes', '"'),
  repeated('backslashes', '\\', '"'),
  repeated('open brackets', '['),
  repeated('open braces', '{"a":'),
  repeated('closed brackets', ']'),
  repeated('commas', ',', '['),
];
const JSON_BOMBS: readonly Bomb[] = [
  repeated('a long list', '1,', '{"items":[', '1]}'),
  repeated('a list of lists', '[],', '{"items":[', '[]]}'),
  repeated('a long key', 'k', '{"', '":1}'),
  repeated('a long text', '\\u001b', '{"a":"', '"}'),
  repeated('one key many times', '"a":1,', '{', '"a":1}'),
  { name: 'many keys', of: (bytes) => numbered((i) => `"k${i}":${i},`, bytes, '{', '"a":1}') },
  { name: 'deep nesting', of: (bytes) => Buffer.from('['.repeat(bytes / 2) + ']'.repeat(bytes / 2)) },
];
const YAML_BOMBS: readonly Bomb[] = [
  repeated('many documents', '---\n'),
  repeated('many small documents', '---\na: 1\n'),
  repeated('a block list', '- a\n'),
  repeated('nested block lists', '- '),
  repeated('one key many times', 'a: 1\n'),
  { name: 'many keys', of: (bytes) => numbered((i) => `k${i}: ${i}\n`, bytes) },
  repeated('many unknown fields that are no names', '? [a]\n: 1\n'),
  repeated('comments', '# x\n'),
  repeated('many aliases', '- *a\n', '- &a x\n'),
  repeated('aliases of nothing', '- *b\n'),
  { name: 'aliases of aliases', of: (bytes) => numbered((i) => `- &a${i + 1} [*a${i}, *a${i}]\n`, bytes, '- &a0 x\n') },
  repeated('an alias of itself', '*a, ', 'a: &a [', ']'),
  repeated('merge keys', '<<: *a\n', 'a: &a {b: 1}\n'),
  repeated('unknown tags', '- !x y\n'),
  repeated('empty tags', '! '),
  repeated('anchors', '&a '),
  repeated('question marks', '? '),
  repeated('colons', ': '),
  repeated('a long block scalar', 'x\n  ', 'a: |\n  '),
  repeated('a long folded scalar', 'x y\n\n  ', 'a: >\n  '),
  repeated('a long plain scalar over many lines', ' x\n', 'a:\n'),
  repeated('a long key', 'k', '', ': 1\n'),
  repeated('a quoted text over many lines', ' x\n', 'a: "', '"\n'),
  repeated('directives', '%A b\n'),
  repeated('open quotes', "- '\n"),
  repeated('text that is ambiguous', '- yes\n'),
  repeated('octal numbers', '- 0777\n'),
];
const LINE_BOMBS: readonly Bomb[] = [
  repeated('many empty objects', '{}\n'),
  repeated('many lines that are nothing', 'x\n'),
  repeated('a long list', '1,', '{"items":[', '1]}\n'),
];

export type Syntax = 'yaml' | 'json' | 'jsonl' | 'text';

export function bombsOf(syntax: Syntax): readonly Bomb[] {
  if (syntax === 'text') return ANY;
  if (syntax === 'jsonl') return [...ANY, ...LINE_BOMBS, ...JSON_BOMBS];
  return syntax === 'json' ? [...ANY, ...JSON_BOMBS] : [...ANY, ...JSON_BOMBS, ...YAML_BOMBS];
}
