import { describe, expect, it } from 'vitest';
import { guardExplainText } from '../../src/cli/guard-explain-text.ts';
import { painter } from '../../src/cli/print.ts';
import type { FencingRecord, Phase } from '../../src/core/guard/record.ts';
import { explainReport } from '../../src/guard/report.ts';
import { isExplainReport } from '../../src/guard/shown.ts';
import { aFencing, aLook, aRecord, type Given, SINCE } from '../core/guard/a-turn.ts';

const NEXT = { afterMs: 1, witness: [], pods: [], attachments: false, members: [], looks: [], status: [] };

function explained(given: Given): readonly string[] {
  const { state, observation, config } = aLook(given);
  const look = { observation, config, verdict: { state, decisions: [], reasons: [], next: NEXT } };
  const report = explainReport(look, 'w1');
  if (!isExplainReport(report)) throw new Error('the node is not known');
  return guardExplainText(report, painter(false)).split('\n');
}
const withFencing = (rest: Partial<FencingRecord>): Given => {
  const fencing = aFencing(aRecord(rest));
  return { state: { fencings: new Map([[fencing.record.id, fencing]]) } };
};
/** What it says first of a node with a fencing in that phase. */
const verdictIn = (phase: Phase): string | undefined => explained(withFencing({ phase }))[2];
/** Its gate and its line about the device. */
function ofDevice(given: Given): readonly string[] {
  const lines = explained(given);
  return lines.filter((line) => line.startsWith('device ')).map((line) => line.replace(/ {2,}/g, '  '));
}

it.each<readonly [Phase, string]>([
  ['proving', 'it is being fenced; the gates below are those of another fencing'],
  ['failed', 'its fencing above is not over; the gates below are those of another one'],
  ['left-off', 'its fencing above is not over; the gates below are those of another one'],
  ['not-back', 'its fencing above is not over; the gates below are those of another one'],
])('of a node whose fencing is %s it says %s', (phase, said) => {
  expect(verdictIn(phase)).toBe(said);
});

it('says of devices that were not asked a moment ago that they will be, and not that they do not answer', () => {
  expect(ofDevice({ said: { 'vm w1': ['on@-38000'] } })).toEqual([
    'device  closed  its devices have not been asked within the last 30s, or have not answered yet; they are asked before it is fenced  when they answer',
    'device  vm w1: says on, 48s ago',
  ]);
  expect(ofDevice({ said: { 'vm w1': ['on@-38000', 'unknown@-28000'] } })[0]).toBe(
    'device  closed  its devices do not all answer  not by time alone',
  );
});

it('says of a device that answers too late how long it took', () => {
  const recent = [{ says: 'on', begunMs: SINCE - 20_000, endedMs: SINCE - 4_000 }] as const;
  expect(ofDevice({ said: { 'vm w1': ['on@-20000'] }, device: { recent } })).toEqual([
    'device  closed  one of its devices took 16s to say whether the machine is on, and 14s is the most for a proof  not by time alone',
    'device  vm w1: says on, 30s ago, and took 16s for it',
  ]);
});

it('says why a fencing was not proven', () => {
  expect(explained(withFencing({ phase: 'failed', why: 'too-slow' }))[1]).toBe(
    'fencing w1-1: not proven off (failed: its devices answer too late for a proof) for 10s, begins anew in 50s at the earliest, once all gates are open',
  );
  expect(explained(withFencing({ phase: 'failed', why: 'not-proven' }))[1]).toContain('(failed: not-proven) for 10s');
});

describe('when a fencing goes on', () => {
  const line = (rest: Partial<FencingRecord>, state: Given['state'] = {}, own: Given['own'] = {}) => {
    const of = withFencing({ offSent: ['vm w1'], ...rest });
    return explained({ ...of, state: { ...of.state, ...state }, own, said: {} })[1];
  };
  const PAUSED = { paused: { by: 'ana', because: 'switch work', wallMs: 0 } };

  it('is said while nothing holds it', () => {
    expect(line({ phase: 'proving' })).toMatch(/ for 10s, goes on in .* at the latest$/);
  });
  it.each<Phase>(['isolating', 'off-sent', 'proving'])(
    'is not said of %s while the guard is paused: no off is sent',
    (phase) => {
      expect(line({ phase }, PAUSED)).toMatch(/ for 10s$/);
    },
  );
  it('is said of what needs no off, also while it is paused', () => {
    expect(line({ phase: 'booting' }, PAUSED)).toMatch(/ for 10s, goes on in .* at the latest$/);
  });
  it('is not known on a standby', () => {
    expect(line({ phase: 'booting' }, {}, { leadership: { isLeader: false } })).toMatch(/ for 10s$/);
  });
});
