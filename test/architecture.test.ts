import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import table from './architecture.json' with { type: 'json' };
import { emptyNames, forbiddenIdentifiers, forbiddenImports, importCycles, type Sources, tooLong } from './house.ts';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');

function sourcesUnder(directory: string): Sources {
  const files = fs.readdirSync(path.join(ROOT, directory), { recursive: true, encoding: 'utf8' });
  return new Map(
    files
      .filter((file) => file.endsWith('.ts'))
      .sort()
      .map((file) => [file, fs.readFileSync(path.join(ROOT, directory, file), 'utf8')]),
  );
}

describe('the structure of the sources', () => {
  const src = sourcesUnder('src');

  it('has as many files as a search finds: the checks below see them all', () => {
    expect(src.size).toBeGreaterThan(80);
    expect([...src.keys()]).toEqual(expect.arrayContaining(['core/decide.ts', 'host/clock.ts', 'main.ts']));
  });
  it('imports only in the directions of architecture.json', () => {
    expect(forbiddenImports(src, table)).toEqual([]);
  });
  it('has no cycle between files', () => {
    expect(importCycles(src)).toEqual([]);
  });
  it('keeps clocks, randomness and locale out of the core, and clocks in files of their own', () => {
    expect(forbiddenIdentifiers(src)).toEqual([]);
  });
  it('has no source of 400 lines and no test of 500', () => {
    expect(tooLong(src, 400)).toEqual([]);
    expect(tooLong(sourcesUnder('test'), 500)).toEqual([]);
  });
  it('has no file named after nothing', () => {
    expect(emptyNames(src)).toEqual([]);
  });
});

/** A check that finds nothing proves nothing until it has found what was planted. */
describe('the checks of the structure', () => {
  const planted = (file: string, text: string): Sources => new Map([[file, text]]);

  it.each([
    ['core/rank.ts', `import { readText } from '../host/files.ts';`, 'core/rank.ts must not import ../host/files.ts'],
    ['core/rank.ts', `import type { Clock } from '../ports.ts';`, 'core/rank.ts must not import ../ports.ts'],
    ['core/rank.ts', `import fs from 'node:fs';`, 'core/rank.ts must not import node:fs'],
    ['core/rank.ts', `export { x } from 'zod/mini';`, 'core/rank.ts must not import zod/mini'],
    ['observe/look.ts', `import {\n  a,\n  b,\n} from 'node:fs';`, 'observe/look.ts must not import node:fs'],
    ['host/a.ts', `import '../config/load.ts';`, 'host/a.ts must not import ../config/load.ts'],
    ['act/a.ts', `type A = typeof import('../config/load.ts');`, 'act/a.ts must not import ../config/load.ts'],
    [
      'serve/a.ts',
      `import pkg from '../../package.json' with { type: 'json' };`,
      'serve/a.ts must not import ../../package.json',
    ],
    ['kube/a.ts', `import { x } from '@grpc/proto-loader';`, 'kube/a.ts must not import @grpc/proto-loader'],
    ['new/a.ts', `import { x } from '../core/rank.ts';`, 'new/a.ts must not import ../core/rank.ts'],
    ['cli/a.ts', `const x = await import('./b.ts');`, 'cli/a.ts imports ./b.ts dynamically'],
  ])('find a forbidden import in %s: %s', (file, text, sentence) => {
    expect(forbiddenImports(planted(file, text), table)).toEqual([sentence]);
  });
  it('allow what the table allows, and ignore comments', () => {
    const text = `// import fs from 'node:fs';\n/* import fs from 'node:fs'; */\nimport { known } from './reading.ts';\n`;
    expect(forbiddenImports(planted('core/rank.ts', text), table)).toEqual([]);
    expect(forbiddenImports(planted('main.ts', `void import('./cli/run.ts');`), table)).toEqual([]);
    expect(forbiddenImports(planted('config/a.ts', `import { z } from 'zod/mini';`), table)).toEqual([]);
  });
  it('find a cycle over three files', () => {
    const sources = new Map([
      ['core/a.ts', `import { b } from './b.ts';`],
      ['core/b.ts', `import type { c } from '../core/c.ts';`],
      ['core/c.ts', `export { a } from './a.ts';`],
    ]);
    expect(importCycles(sources)).toEqual(['core/a.ts -> core/b.ts -> core/c.ts -> core/a.ts']);
  });
  it.each(['new Date()', 'Math.random()', 'Intl.x', 'globalThis.x', 'n.toLocaleString()'])(
    'find %s in the core',
    (text) => {
      expect(forbiddenIdentifiers(planted('core/a.ts', `const x = ${text};`))).toHaveLength(1);
      expect(forbiddenIdentifiers(planted('core/a.ts', `// const x = ${text};`))).toEqual([]);
    },
  );
  it.each(['Date.now()', 'performance.now()', 'setTimeout(f)', 'setInterval(f)'])(
    'find %s outside the clock',
    (text) => {
      expect(forbiddenIdentifiers(planted('act/a.ts', text))).toHaveLength(1);
      expect(forbiddenIdentifiers(planted('host/clock.ts', text))).toEqual([]);
    },
  );
  it('find a file that is too long, and one with an empty name', () => {
    expect(tooLong(planted('core/a.ts', 'x\n'.repeat(400)), 400)).toEqual(['core/a.ts has 400 lines']);
    expect(tooLong(planted('core/a.ts', 'x\n'.repeat(399)), 400)).toEqual([]);
    const generated = `// @generated by protoc-gen-es\n${'x\n'.repeat(400)}`;
    expect(tooLong(planted('kube/a_pb.ts', generated), 400)).toEqual([]);
    expect(tooLong(planted('kube/a.ts', generated), 400)).toHaveLength(1);
    expect(emptyNames(planted('core/utils.ts', ''))).toEqual(['core/utils.ts']);
  });
});
