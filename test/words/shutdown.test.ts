import { expect, it } from 'vitest';
import { sayFact } from '../../src/words/shutdown.ts';

it.each([
  [['a.service'], ['b: it is masked'], 'restarted: a.service; not restarted: b: it is masked'],
  [['a.service'], [], 'restarted: a.service'],
  [[], ['b: it is masked'], 'not restarted: b: it is masked'],
])('says what was restarted after a cancel, and what was not: %j, %j', (started, notUndone, said) => {
  expect(sayFact({ what: 'undone', started, notUndone })).toBe(`shutdown cancelled: ${said}`);
});
