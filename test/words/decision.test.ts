import { expect, it } from 'vitest';
import type { Decision } from '../../src/core/decision.ts';
import { sayDecision, victimIn } from '../../src/words/decision.ts';
import { anEviction } from '../serve/a-report.ts';

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
