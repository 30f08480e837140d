import { describe, expect, it } from 'vitest';
import { entryOf, parseEntry, sayEntry } from '../../src/record/entry.ts';

const head = { atWallMs: 1_700_000_000_000, bootId: 'boot', dry: false };

describe('a line of the record', () => {
  it('is read back as it was written', () => {
    const entry = entryOf(head, { kind: 'lost', entries: 3 });
    expect(parseEntry(sayEntry(entry))).toEqual(entry);
  });

  it.each([
    ['cut', '{"schema":1,"atWallMs":1'],
    ['of something else', '{"a":1}'],
    [
      'with a kind that is a list',
      '{"schema":1,"atWallMs":1,"bootId":"b","dry":false,"kind":["outcome"],"outcome":{}}',
    ],
    [
      'with a time beyond every calendar',
      sayEntry(entryOf({ ...head, atWallMs: 8.64e15 + 1 }, { kind: 'lost', entries: 3 })),
    ],
    ['with an invalid decision', sayEntry(entryOf(head, { kind: 'lost', entries: 3 })).replace('"lost"', '"decision"')],
  ])('%s is damage', (_, line) => {
    expect(parseEntry(line)).toBeNull();
  });
});
