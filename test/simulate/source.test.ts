import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sayProblem } from '../../src/document/problem.ts';
import { textOf } from '../../src/host/text-stream.ts';
import { readScenarioFiles, type SourceItem } from '../../src/simulate/source.ts';

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(path.join(tmpdir(), 'nodewarden-source-'));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

async function itemsOf(
  files: readonly string[],
  stdin: readonly (string | Buffer)[] = [],
): Promise<readonly SourceItem[]> {
  const pieces = () => textOf(Readable.from(stdin.map((piece) => Buffer.from(piece))), '<stdin>');
  const items: SourceItem[] = [];
  for await (const item of readScenarioFiles(files, pieces)) items.push(item);
  return items;
}

/** What a reader sees of each item, with file names shortened. */
async function read(files: readonly string[], stdin: readonly (string | Buffer)[] = []): Promise<readonly unknown[]> {
  const items = await itemsOf(files, stdin);
  return items.map((item) => {
    const problems = item.problems.map((problem) => sayProblem(problem).replace(`${directory}/`, ''));
    if (item.kind === 'problems') return problems;
    return [item.document, item.line, item.yaml.value, ...problems];
  });
}

function written(name: string, text: string | Buffer): string {
  const file = path.join(directory, name);
  writeFileSync(file, text);
  return file;
}

describe('the documents of a file', () => {
  it('are those between the marks of YAML, except empty ones', async () => {
    const text = '# first\na: 1\n---\n---\nb: on\n--- \n';
    expect(await read([written('a.yaml', text)])).toEqual([
      [1, 2, { a: 1 }],
      [2, 5, { b: 'on' }],
    ]);
    expect(await read([written('a.yml.gz', gzipSync(text))])).toHaveLength(2);
  });

  it('are the one of JSON, or a list of them, with paths relative to the document', async () => {
    expect(await read([written('a.json', '\n {"a": 1}')])).toEqual([[1, 2, { a: 1 }]]);
    const list = written('b.json', '[{"a": 1},\n {"b": {"c": 2, "c": 3}}]');
    expect(await read([list])).toEqual([
      [1, 1, { a: 1 }],
      [2, 2, { b: { c: 3 } }, 'b.json:2:17: b.c: appears twice in this mapping'],
    ]);
    const [, second] = await itemsOf([list]);
    expect(second?.kind === 'document' && second.yaml.problemAt(['b', 'c'], 'x')).toMatchObject({
      path: 'b.c',
      line: 2,
    });
  });

  it('are the non-blank lines of .jsonl, each with its line and the column in it', async () => {
    const text = '{"a": 1}\r\n\n  \n{"b": 2\n {"c": 3}';
    const expected = [
      [1, 1, { a: 1 }],
      ['x.jsonl:4:8: not valid JSON: expected a comma or }, but the text ends'],
      [3, 5, { c: 3 }],
    ];
    expect(await read([written('x.jsonl', text)])).toEqual(expected);
    expect(JSON.stringify(await read([written('x.jsonl.gz', gzipSync(text))]))).toBe(
      JSON.stringify(expected).replace('x.jsonl', 'x.jsonl.gz'),
    );
  });

  it('follow one file after another, and unreadable ones do not end the others', async () => {
    const broken = written('broken.jsonl.gz', gzipSync('{"a": 1}\n'.repeat(1000)).subarray(0, 12));
    const good = written('good.json', '{"a": 1}');
    const empty = written('empty.jsonl', '\n\n');
    expect(await read([path.join(directory, 'missing.yaml'), directory, broken, empty, good])).toEqual([
      ['missing.yaml: does not exist'],
      [expect.stringMatching(/^[^:]+: cannot be read: EISDIR/)],
      [expect.stringMatching(/^broken\.jsonl\.gz: cannot be read: unexpected end of file$/)],
      ['empty.jsonl: is empty'],
      [1, 1, { a: 1 }],
    ]);
  });

  it('of YAML have their mistakes reported with the document that contains them', async () => {
    expect(await read([written('m.yaml', 'a: 1\na: 2\n---\nb: 1\n---\nc: [1\n')])).toEqual([
      [1, 1, { a: 1 }, 'm.yaml:2:1: a: appears twice in this mapping'],
      [2, 4, { b: 1 }],
      [3, 6, { c: [1] }, expect.stringMatching(/^m\.yaml:7:1: not valid YAML: /)],
    ]);
  });

  it('of YAML may be many and large: 10,000 steps, or 500 pods as kubectl prints them', async () => {
    const steps = Array.from(
      { length: 10_000 },
      (_, i) => `- at: ${i}\n  summaryPatch: {node: {memory: {availableBytes: ${i}Mi}}}\n`,
    );
    const items = await itemsOf([written('many.yaml', `steps:\n${steps.join('')}`)]);
    expect(items.map(({ problems }) => problems)).toEqual([[]]);
  });
});

describe('standard input', () => {
  it('is lines of JSON if the first non-blank one is a complete document, in whatever pieces it arrives', async () => {
    const text = '\n {"a": "ä"}\n{"b": 2}\n';
    const expected = [
      [1, 2, { a: 'ä' }],
      [2, 3, { b: 2 }],
    ];
    expect(await read(['-'], [text])).toEqual(expected);
    expect(
      await read(
        ['-'],
        [...Buffer.from(text)].map((byte) => Buffer.from([byte])),
      ),
    ).toEqual(expected);
    expect(await read(['-'], ['{"a": 1}'])).toEqual([[1, 1, { a: 1 }]]);
  });

  it('is YAML otherwise, even if it looks like JSON', async () => {
    expect(await read(['-'], ['a: 1\n---\nb: 2\n'])).toEqual([
      [1, 1, { a: 1 }],
      [2, 3, { b: 2 }],
    ]);
    expect(await read(['-'], ['{"a": 1,\n', '"b": 2}\n'])).toEqual([[1, 1, { a: 1, b: 2 }]]);
    expect(await read(['-'], ['{a: 1}\n'])).toEqual([[1, 1, { a: 1 }]]);
    expect(await read(['-'], ['{a: 1,\na: 2}\n'])).toEqual([
      [1, 1, { a: 1 }, '<stdin>:2:1: a: appears twice in this mapping'],
    ]);
    expect(await read(['-'], [])).toEqual([['<stdin>: is empty']]);
  });

  it('holds one line at a time: 200 MB of lines pass in a heap of 128 MB', async () => {
    // In a process of its own, which ends when its heap is full: what this one holds depends on when it collects garbage.
    const source = new URL('../../src/simulate/source.ts', import.meta.url).href;
    const streams = new URL('../../src/host/text-stream.ts', import.meta.url).href;
    const script = `
      import { Readable } from 'node:stream';
      const { readScenarioFiles } = await import(${JSON.stringify(source)});
      const { textOf } = await import(${JSON.stringify(streams)});
      const line = Buffer.from('{"a": "' + 'x'.repeat(1_000_000) + '"}\\n');
      function* lines() { for (let i = 0; i < 200; i++) yield Buffer.from(line); }
      let count = 0;
      for await (const _ of readScenarioFiles(['-'], () => textOf(Readable.from(lines()), '<stdin>'))) count++;
      console.log(count);`;
    const argv = ['--max-old-space-size=128', '--import', 'tsx', '--input-type=module', '--eval', script];
    const { stdout } = await promisify(execFile)(process.execPath, argv);
    expect(stdout).toBe('200\n');
  });
});
