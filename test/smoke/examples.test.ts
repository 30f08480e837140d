import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '../..');
const TEXTS = ['README.md', 'docs', 'src/cli'].flatMap((place) =>
  place.endsWith('.md') ? [place] : readdirSync(path.join(ROOT, place)).map((name) => path.join(place, name)),
);

it('examples and scenarios that texts and --help name are installed there', () => {
  const named = TEXTS.filter((name) => /\.(md|ts)$/.test(name)).flatMap((name) =>
    [...readFileSync(path.join(ROOT, name), 'utf8').matchAll(/\/usr\/share\/nodewarden\/([a-z./-]*[a-z])/g)].map(
      ([, file = '']) => file,
    ),
  );
  expect(named).toContain('scenarios/memory-leak.yaml');
  const installed = readFileSync(path.join(ROOT, 'debian/nodewarden.install'), 'utf8');
  const isThere = (file: string): boolean =>
    existsSync(path.join(ROOT, 'config', file)) || installed.includes(`scripts/${file} usr/share/nodewarden\n`);
  expect(named.filter((file) => !isThere(file))).toEqual([]);
});
