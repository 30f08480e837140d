import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { createClock } from '../../src/host/clock.ts';
import { openLastGoodManifests } from '../../src/standalone/manifests/last-good-manifests.ts';

const clock = createClock();
const KI = 1024;

/** What a later run finds of these, in KiB of text each. */
function foundLater(texts: readonly (readonly [string, string])[]): readonly string[] {
  const directory = mkdtempSync(join(tmpdir(), 'nodewarden-good-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const open = () => openLastGoodManifests(directory, '/etc/nodewarden/pods.d', clock);
  open().keep(new Map(texts));
  const later = open();
  return texts.flatMap(([file, text]) => (later.of(file) === text ? [file] : []));
}

it('keeps the first ones of more last good manifests than it has room for', () => {
  const texts = ['a', 'b', 'c', 'd'].map((file) => [`${file}.yaml`, file.repeat(200 * KI)] as const);
  expect(foundLater(texts)).toEqual(['a.yaml', 'b.yaml']);
});

it('keeps one after one that is too large', () => {
  expect(
    foundLater([
      ['large.yaml', 'x'.repeat(600 * KI)],
      ['small.yaml', 'y'],
    ]),
  ).toEqual(['small.yaml']);
});

it('counts the bytes that are stored, so that a later run can read them', () => {
  const texts = ['a', 'b', 'c'].map((file) => [`${file}.yaml`, '\u{1F4A5}'.repeat(60 * KI)] as const);
  expect(foundLater(texts)).toEqual(['a.yaml', 'b.yaml']);
});

it('forgets one that was removed, also while it runs', () => {
  const directory = mkdtempSync(join(tmpdir(), 'nodewarden-good-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const good = openLastGoodManifests(directory, '/etc/nodewarden/pods.d', clock);
  good.keep(new Map([['a.yaml', 'a']]));
  expect(good.of('a.yaml')).toBe('a');
  good.keep(new Map());
  expect(good.of('a.yaml')).toBeNull();
});
