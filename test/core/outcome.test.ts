import { expect, it } from 'vitest';
import { type Rung, withRung } from '../../src/core/outcome.ts';

const asked: Rung = { atMs: 1, act: 'evict', answer: 'asked' };
const deleted: Rung = { ...asked, act: 'delete' };
const later: Rung = { ...asked, atMs: 2 };

it('the answer to a step takes its place, and every other step comes after those before it', () => {
  const steps = [asked, deleted, later];
  expect(steps.reduce(withRung, [])).toEqual(steps);
  const answered = { ...deleted, answer: 'accepted', isAccepted: true };
  expect(withRung(steps, answered)).toEqual([asked, answered, later]);
});
