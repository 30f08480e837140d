import { describe, expect, it } from 'vitest';
import { guardExplainText } from '../../src/cli/guard/explain.ts';
import { guardStatusText } from '../../src/cli/guard/status.ts';
import { painter } from '../../src/cli/print.ts';
import { MARK, OUT_OF_SERVICE } from '../../src/core/guard/node-facts.ts';
import type { FencingRecord, Phase } from '../../src/core/guard/record.ts';
import { known, unknown } from '../../src/core/reading.ts';
import { explainReport, guardReport } from '../../src/guard/report.ts';
import { isExplainReport } from '../../src/guard/shown.ts';
import { aCondition } from '../core/guard/a-node.ts';
import { aFencing, aLook, aRecord, type Given, SINCE, WALL } from '../core/guard/a-turn.ts';

const NEXT = { afterMs: 1, witness: [], pods: [], attachments: false, members: [], looks: [], status: [] };

function explained(given: Given): readonly string[] {
  const { state, observation, config } = aLook(given);
  const look = { observation, config, verdict: { state, decisions: [], reasons: [], next: NEXT } };
  const report = explainReport(look, 'w1');
  if (!isExplainReport(report)) throw new Error('the node is not known');
  return guardExplainText(report, painter(false)).split('\n');
}
function statusLines(given: Given): readonly string[] {
  const { state, observation, config } = aLook(given);
  const look = { observation, config, verdict: { state, decisions: [], reasons: [], next: NEXT } };
  const report = guardReport({
    ...{
      version: '1',
      writer: 'me',
      holder: null,
      isHolderKnown: true,
      heldBack: null,
      heardMs: null,
      findings: [],
      look,
    },
    ...{ config: { file: 'f', hash: 'h', core: config }, nowMs: observation.atMs },
  });
  return guardStatusText(report, painter(false)).split('\n');
}
const statusOf = (given: Given): string | undefined => statusLines(given).find((line) => line.startsWith('fencing'));
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

it('says that a fencing goes no further while its next step cannot be stored, and not what it did last', () => {
  const given = (failedMs: number | null): Given => {
    const fencing = aFencing(aRecord({ phase: 'off-sent' }), { failedMs });
    return { state: { fencings: new Map([[fencing.record.id, fencing]]) } };
  };
  expect(statusOf(given(null))).toContain('w1: power off is being sent, for');
  const said = 'goes no further yet: its next step is not known to be stored, and is tried again';
  expect(statusOf(given(SINCE))).toContain(`w1: ${said}, for`);
  expect(explained(given(SINCE))[1]).toContain(`fencing w1-1: ${said} (off-sent) for`);
});

describe('of what no guard here has seen the beginning', () => {
  const AT = SINCE + 10_000;
  const verdict = (given: Given): string | undefined => explained(given)[1];
  const quiet = (memory: Given['memory']): Given => ({ memory: { overdueMs: null, ...memory } });
  const storm = (sinceMs: number, endedMs: number | null): Given => ({
    state: { holds: [{ kind: 'cluster', scope: { kind: 'cluster', group: 'workers' }, sinceMs, endedMs }] },
  });
  const stormOf = (given: Given) => statusLines(given).find((line) => line.startsWith('storm'));
  const AHEAD = WALL + 5_000_000;
  const cut = (wallMs: number): Given => {
    const record = aRecord({ id: 'w9-1', node: { name: 'w9', uid: 'w9', bootId: 'b' }, phase: 'closed' });
    const stored = { ...record, steps: [{ phase: 'off-sent', wallMs }] } as const;
    return { seen: { records: known([{ id: 'w9-1', version: '1', record: stored }]) } };
  };
  const seenAhead = { state: { ahead: new Map([[`w9-1 ${AHEAD}`, AT - 20_000]]) } };

  it.each<readonly [string, Given]>([
    ['gate planned: its agent announced a shutdown, and it is silent for 3m10s (', { memory: { announced: 'agent' } }],
    [
      'gate planned: its agent announced a shutdown, and it is silent for at least 3m10s (',
      { memory: { announced: 'agent', signMs: null, sinceMs: SINCE - 180_000 } },
    ],
    ['gate dead: it is silent for 3m10s (limit', quiet({})],
    ['gate dead: it is silent for at least 3m10s (limit', quiet({ signMs: null, sinceMs: SINCE - 180_000 })],
    ['gate dead: it is silent for 3m10s, and has', { memory: { overdueMs: AT } }],
    [
      'gate dead: it is silent for at least 3m10s, and has',
      { memory: { overdueMs: AT, signMs: null, sinceMs: SINCE - 180_000 } },
    ],
    ['gate storm: a storm ended 1m0s ago (', storm(0, AT - 60_000)],
    ['gate storm: a storm ended at least 1m0s ago (', storm(AT - 60_000, AT - 60_000)],
    ['gate rate: the last power-off, decided or done, real or in dry run, was 20s ago (', cut(WALL + AT - 20_000)],
    [
      'gate rate: the last power-off, decided or done, real or in dry run, was at least 20s ago (',
      { ...cut(AHEAD), ...seenAhead },
    ],
  ])('it says: %s', (said, given) => {
    expect(verdict(given)).toContain(said);
  });

  it.each<readonly [string, Given]>([
    ['cluster (cluster) began at least 5m0s ago', storm(AT - 300_000, null)],
    ['cluster (cluster) began at least 5m0s ago, over for 1m0s: cool-down', storm(AT - 300_000, AT - 60_000)],
    ['cluster (cluster) over for at least 1m0s: cool-down', storm(AT - 60_000, AT - 60_000)],
  ])('the status says: %s', (said, given) => {
    expect(stormOf(given)?.replace(/^storm +/, '')).toBe(said);
  });

  it('does not call a node never heard whose age alone is not known', () => {
    expect(explained({ memory: { overdueMs: null, isSuspect: false, lease: null } })[0]).toBe(
      'w1: new, how long it is silent is not known',
    );
  });
});

it('says how long a fencing has been in its phase, also if this guard was restarted meanwhile', () => {
  const wallMs = WALL + SINCE - 4_860_000;
  const steps = [
    { phase: 'failed', wallMs: wallMs - 1 },
    { phase: 'stuck', wallMs },
    { phase: 'stuck', wallMs: WALL + SINCE },
  ] as const;
  const given = withFencing({ phase: 'stuck', steps });
  expect(explained(given)[1]).toContain(' for 1h21m10s');
  expect(statusOf(given)).toContain(', for 1h21m10s;');
  const ahead = withFencing({ phase: 'stuck', steps: [{ phase: 'stuck', wallMs: WALL + 2 * SINCE }] });
  expect(explained(ahead)[1]).toContain(' for 10s');
});

it.each([
  ['not known: nobody asked in the last 30s', unknown('not-asked', '', 'not asked yet')],
  ['not known: what was read is older than 30s', known({ value: new Map(), asOfMs: 0 })],
  ['not known: volumeattachments is forbidden', unknown('unreadable', '', 'volumeattachments is forbidden')],
])('says of what a fencing would free: %s', (said, attachments) => {
  const frees = explained({ seen: { attachments } }).find((line) => line.startsWith('frees '));
  expect(frees).toBe(`frees       ${said}`);
});

it('says that the taint of the guard is gone only if it is', () => {
  const given = withFencing({ phase: 'untainting' });
  const taints = [{ key: OUT_OF_SERVICE, value: `${MARK}w1-1`, effect: 'NoExecute' }];
  expect(explained(given)[1]).toContain('no taint of the guard is to stay on it (untainting)');
  const tainted = { ...given, memory: { of: { taints } } };
  const STAYS = 'no taint of the guard is to stay on it, and its node still carries one';
  expect(explained(tainted)[1]).toContain(STAYS);
  expect(statusOf(tainted)).toContain(STAYS);
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
  it('is when it ends, of one that is decided and waits for a gate, which is its own', () => {
    const steps = [{ phase: 'decided', wallMs: WALL + SINCE }] as const;
    const fencing = aFencing(aRecord({ steps }), { isOverdue: true, isTakenOver: true });
    const given: Given = { state: { fencings: new Map([['w1-1', fencing]]), ...PAUSED } };
    expect(explained(given).slice(1, 3)).toEqual([
      'fencing w1-1: decided, and waits: no power off is sent (decided) for 10s, this try ends in 14m50s if it cannot begin before',
      'not begun: it waits for gate self: ana has paused it; the gates below are its own',
    ]);
    expect(statusOf(given)).toContain('w1: decided, and waits: no power off is sent, for 10s');
  });
  it('is not said of one that sends no on, because of the taint of somebody else', () => {
    const fencing = aFencing(aRecord({ phase: 'on-sent', offSent: ['vm w1'] }), { isOverdue: true });
    const taints = [{ key: OUT_OF_SERVICE, value: 'nodeshutdown', effect: 'NoExecute' }];
    const given: Given = { state: { fencings: new Map([['w1-1', fencing]]) }, memory: { of: { taints } } };
    expect(explained(given).slice(1, 3)).toEqual([
      'fencing w1-1: waits: no power on is sent while somebody else has set its node out of service (on-sent) for 10s',
      'not powered on: it waits until whoever set the out-of-service taint of its node has removed it; the gates below are those of another one',
    ]);
    expect(statusOf(given)).toContain('w1: waits: no power on is sent while somebody else has set its node out of');
  });
  it('is after drainWait, of one that is off and whose Node stays Ready', () => {
    const record = aRecord({ phase: 'proving', offSent: ['vm w1'], offHeard: ['vm w1'] });
    const fencing = aFencing(record, { isOverdue: true });
    const conditions = [aCondition()];
    const given: Given = {
      ...{ state: { fencings: new Map([['w1-1', fencing]]) }, memory: { of: { conditions } } },
      ...{ said: { 'vm w1': ['off@1000', 'off@8000'] }, atMs: 10_000 },
    };
    expect(explained(given).slice(1, 3)).toEqual([
      'fencing w1-1: waits: its node is not set out of service before it has a lease, and Kubernetes has marked it as not Ready (proving) for 10s, goes on in 9m50s at the latest',
      'not set out of service: it waits until its node has a lease, and Kubernetes has marked it as not Ready; the gates below are those of another one',
    ]);
    expect(statusOf(given)).toContain('w1: waits: its node is not set out of service before it has a lease');
  });
  it('is not said in dry run, nor that anything is being done', () => {
    const dry = { ...withFencing({ phase: 'off-sent', offSent: ['vm w1'] }), config: { dryRun: true } };
    expect(explained(dry).slice(1, 3)).toEqual([
      'fencing w1-1: in dry run it goes no further (off-sent) for 10s',
      'its fencing above is not over; the gates below are those of another one',
    ]);
    expect(statusOf(dry)).toContain('w1: in dry run it goes no further, for 10s');
    const stuck = { ...withFencing({ phase: 'stuck', offSent: ['vm w1'] }), config: { dryRun: true } };
    expect(explained(stuck)[1]).toContain('stuck: a person must look');
  });
  it('is not known on a standby', () => {
    expect(line({ phase: 'booting' }, {}, { leadership: { isLeader: false } })).toMatch(/ for 10s$/);
  });
});
