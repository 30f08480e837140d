import { expect, it } from 'vitest';
import { guardExplainText } from '../../src/cli/guard-explain-text.ts';
import { painter } from '../../src/cli/print.ts';
import type { Phase } from '../../src/core/guard/record.ts';
import { explainReport, isExplainReport } from '../../src/guard/report.ts';
import { aFencing, aLook, aRecord } from '../core/guard/a-turn.ts';

const NEXT = { afterMs: 1, witness: [], pods: [], attachments: false, members: [], looks: [], status: [] };

/** What `guard explain` says first of a node with a fencing in that phase. */
function verdictIn(phase: Phase): string | undefined {
  const fencing = aFencing(aRecord({ phase }));
  const { state, observation, config } = aLook({ state: { fencings: new Map([[fencing.record.id, fencing]]) } });
  const look = { observation, config, verdict: { state, decisions: [], reasons: [], next: NEXT } };
  const report = explainReport(look, 'w1');
  if (!isExplainReport(report)) throw new Error('the node is not known');
  return guardExplainText(report, painter(false)).split('\n')[2];
}

it.each<readonly [Phase, string]>([
  ['proving', 'it is being fenced; the gates below are those of another fencing'],
  ['failed', 'its fencing above is not over; the gates below are those of another one'],
  ['left-off', 'its fencing above is not over; the gates below are those of another one'],
  ['not-back', 'its fencing above is not over; the gates below are those of another one'],
])('of a node whose fencing is %s it says %s', (phase, said) => {
  expect(verdictIn(phase)).toBe(said);
});
