import { expect, it } from 'vitest';
import type { Decision } from '../../src/core/decision.ts';
import { quantityOfBytes } from '../../src/core/units/quantity.ts';
import { sayDecision, victimIn } from '../../src/words/decision.ts';
import { sayThreshold } from '../../src/words/phrases.ts';
import { anEviction } from '../serve/a-report.ts';

const GI = 1024 ** 3;
it.each([
  [5 * GI - 1, 5 * GI, '4.9 GiB is below 5 GiB'],
  [5.03 * GI, 5.04 * GI, '5.03 GiB is below 5.04 GiB'],
  [5 * GI, 5 * GI + 512 * 1024, '5 GiB is below 5.0004 GiB'],
  [5 * GI, 5 * GI + 1, '5368709120 B is below 5368709121 B'],
])('%d bytes read as less than a threshold of %d', (available, limit, said) => {
  const { threshold } = anEviction('b-1');
  const met = { ...threshold, available, limit: quantityOfBytes(Math.round(limit), 'binary') };
  expect(sayThreshold(met)).toBe(`memory.available ${said}`);
});

it('a shortened grace period is reported with the name of its pod', () => {
  const hasten: Decision = {
    id: 'b-2',
    atMs: 0,
    kind: 'hasten',
    eviction: 'b-1',
    threshold: anEviction('b-1').threshold,
    graceSeconds: 1,
  };
  expect(sayDecision(hasten, victimIn([{ decision: anEviction('b-1') }]))).toMatch(
    /^cut the grace period of shop\/web: /,
  );
  expect(sayDecision(hasten, victimIn([]))).toMatch(/^cut the grace period of b-1: /);
});
