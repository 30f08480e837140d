import { describe, expect, it } from 'vitest';
import { stepFencings } from '../../../src/core/guard/fencings.ts';
import type { AgentRun, DeviceAnswer, GuardObservation, GuardOutcome } from '../../../src/core/guard/observation.ts';
import type { FencingRecord, StoredRecord } from '../../../src/core/guard/record.ts';
import { type Fencing, initialGuardState, type NodeMemory } from '../../../src/core/guard/state.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import { aMemory, byUid } from './a-node.ts';
import { aFencing, aRecord, NODE, SINCE, WALL } from './a-turn.ts';

const AT = SINCE + 60_000;
const stored = (rest: Partial<FencingRecord> = {}, version = '1'): StoredRecord => ({
  id: 'w1-1',
  version,
  record: aRecord({ phase: 'proving', revision: 5, ...rest }),
});
const UNREADABLE: StoredRecord = { id: 'w1-1', version: '2', record: null, problem: 'no JSON', nodeKey: 'w1' };
const ANSWER = { method: 'vm w1', act: 'status', says: 'off', phase: 'proving', wallMs: WALL, tookMs: 250 } as const;
const PROVING = aRecord({ phase: 'proving', revision: 5 });

function stepped(fencing: Fencing | null, seen: Partial<GuardObservation> = {}, nodes: readonly NodeMemory[] = []) {
  const fencings = new Map(fencing === null ? [] : [[fencing.record.id, fencing]]);
  const observation = {
    ...{ atMs: AT, wallMs: WALL, outcomes: [], records: known([stored()]), answers: [] },
    ...{ asked: new Map(), attachments: unknown('not-asked', '', '') },
    ...{ self: { writer: 'me' }, ...seen },
  } as unknown as GuardObservation;
  const step = stepFencings({ fencings, nodes: byUid(nodes), self: initialGuardState(0, 0).self }, observation);
  return { ...step, before: fencings, now: step.fencings.get('w1-1') };
}

describe('a decision that was stored', () => {
  const becomes = (phase: FencingRecord['phase']) => aRecord({ phase, revision: 6 });
  const waiting = (phase: FencingRecord['phase'] = 'off-sent', rest: Partial<Fencing> = {}) =>
    aFencing(PROVING, {
      pending: { decision: '7', atMs: SINCE, becomes: becomes(phase) },
      failedMs: 3,
      readyMs: 4,
      isTakenOver: true,
      ...rest,
    });
  const outcome = (rest: Partial<GuardOutcome> = {}): GuardOutcome => ({
    ...{ of: '7', fencing: 'w1-1', atMs: AT - 5, store: { kind: 'stored', version: '2' }, act: null },
    ...rest,
  });
  const run = (rest: Partial<AgentRun> = {}): AgentRun => ({
    ...{ method: 'vm w1', isOk: true, begunMs: 100, endedMs: 350, detail: 'timed out' },
    ...rest,
  });
  const settled = (fencing: Fencing, ...outcomes: readonly GuardOutcome[]) =>
    stepped(fencing, { outcomes, records: unknown('timed-out', '', '') });

  it('is the record from then on', () => {
    const { now, reasons } = settled(waiting('proven'), outcome());
    expect(now).toEqual(
      aFencing(becomes('proven'), { version: '2', freedSinceMs: AT - 5, sinceMs: AT - 5, phaseSinceMs: AT - 5 }),
    );
    expect(reasons).toEqual([]);
  });
  it('has been in its phase since it came to it, however often that is stored', () => {
    const { now } = settled(waiting('proven'), outcome());
    const again = waiting('proven', { record: becomes('proven'), phaseSinceMs: now?.phaseSinceMs ?? 0 });
    expect(settled(again, outcome({ atMs: AT })).now).toMatchObject({ sinceMs: AT, phaseSinceMs: AT - 5 });
  });
  it.each<[string, Partial<GuardOutcome>]>([
    ['of another decision', { of: '6' }],
    ['of no fencing', { fencing: null }],
    ['of an unknown fencing', { fencing: 'w9-1' }],
    ['of nothing that is stored', { store: null }],
  ])('is not what the outcome %s says', (_, rest) => {
    const fencing = waiting('off-sent', { readyMs: null });
    expect(settled(fencing, outcome(rest)).now).toBe(fencing);
  });
  it('has its off returned, and what the agents said', () => {
    const act = { kind: 'ran', runs: [run(), run({ method: 'b', isOk: false })] } as const;
    const { now, reasons } = settled(waiting(), outcome({ act }));
    expect(now).toMatchObject({ acted: act, offBegunMs: 100, offReturnedMs: AT - 5, failedMs: null });
    const said = { phase: 'off-sent', act: 'off', wallMs: WALL, tookMs: 250 };
    expect(now?.record.answers).toEqual([
      { ...said, method: 'vm w1', says: 'ok' },
      { ...said, method: 'b', says: 'error' },
    ]);
    expect(reasons).toEqual([{ code: 'agent-failed', node: NODE, fencing: 'w1-1', method: 'b', detail: 'timed out' }]);
  });
  it('knows when its first off began, that of its storage included', () => {
    const act = { kind: 'ran', runs: [run(), run({ begunMs: 90 })] } as const;
    expect(settled(waiting('isolating'), outcome({ act })).now?.offBegunMs).toBe(90);
    expect(settled(waiting('off-sent', { offBegunMs: 9 }), outcome({ act })).now?.offBegunMs).toBe(9);
    expect(settled(waiting('on-sent'), outcome({ act })).now?.offBegunMs).toBeNull();
    expect(settled(waiting(), outcome({ act: { kind: 'ran', runs: [] } })).now?.offBegunMs).toBeNull();
  });
  it('keeps when the off returned, whatever comes after it', () => {
    const act = { kind: 'ran', runs: [run()] } as const;
    const { now } = settled(waiting('on-sent', { offReturnedMs: 9 }), outcome({ act }));
    expect(now?.offReturnedMs).toBe(9);
    expect(now?.record.answers).toMatchObject([{ act: 'on', phase: 'on-sent' }]);
    expect(settled(waiting('off-sent', { offReturnedMs: 9 }), outcome()).now?.offReturnedMs).toBe(9);
  });
  it.each<[string, GuardOutcome['act'], number | null, readonly object[]]>([
    [
      'failed',
      { kind: 'failed', why: 'error', detail: 'x' },
      AT - 5,
      [{ code: 'act-failed', node: NODE, fencing: 'w1-1', detail: 'x' }],
    ],
    ['was not begun', { kind: 'not-begun', detail: '' }, AT - 5, []],
    ['was patched', { kind: 'patched' }, null, []],
  ])('whose act %s', (_, act, failedMs, reasons) => {
    const step = settled(waiting('proven'), outcome({ act }));
    expect(step.now).toMatchObject({ failedMs, acted: act, record: { answers: [] } });
    expect(step.reasons).toEqual(reasons);
  });
  it('is overdue no more, unless it is the same phase again', () => {
    expect(settled(waiting('proving', { isOverdue: true }), outcome()).now?.isOverdue).toBe(true);
    expect(settled(waiting('proving'), outcome()).now?.isOverdue).toBe(false);
    expect(settled(waiting('proven', { isOverdue: true }), outcome()).now?.isOverdue).toBe(false);
  });
  it.each([
    ['conflict', [{ code: 'conflict', node: NODE, fencing: 'w1-1' }]],
    ['failed', []],
  ] as const)('is not, after a %s', (kind, reasons) => {
    const step = settled(waiting(), outcome({ store: { kind } }));
    expect(step.now).toEqual({ ...waiting(), pending: null, failedMs: AT - 5, readyMs: null });
    expect(step.reasons).toEqual(reasons);
    expect(settled(waiting('proven', { version: null }), outcome({ store: { kind } })).now).toBeUndefined();
  });
});

describe('a record that is read', () => {
  const known5 = aFencing(PROVING, { offReturnedMs: 9, failedMs: 3 });
  const read = (fencing: Fencing | null, ...records: readonly StoredRecord[]) =>
    stepped(fencing, { records: known(records) });
  const taken = (record: FencingRecord, version: string, phaseSinceMs = AT) =>
    aFencing(record, { version, sinceMs: AT, phaseSinceMs, decidedMs: AT, isTakenOver: true });

  it('costs nothing when nothing is open', () => {
    for (const records of [
      known([stored({ phase: 'closed' }), { id: 'x', version: '1', record: null, problem: '', nodeKey: null }]),
      unknown('absent', '', ''),
    ]) {
      const step = stepped(null, { records } as Partial<GuardObservation>);
      expect(step.fencings).toBe(step.before);
    }
  });
  it('is taken over when it was not known; of its own it is not said to be of another guard', () => {
    const told = { code: 'taken-over', node: NODE, fencing: 'w1-1', phase: 'proving' };
    const { now, reasons } = read(null, stored({ writer: 'other' }, '4'));
    expect(now).toEqual(taken(aRecord({ phase: 'proving', revision: 5, writer: 'other' }), '4'));
    expect(reasons).toEqual([{ ...told, by: 'other' }]);
    const own = read(null, stored());
    expect(own.now?.isTakenOver).toBe(true);
    expect(own.reasons).toEqual([{ code: 'own-found', node: NODE, fencing: 'w1-1' }]);
  });
  it('is taken over when it is newer than what is known', () => {
    const { now, reasons } = read(known5, stored({ revision: 6, writer: 'other' }, '4'));
    expect(now).toEqual(taken(aRecord({ phase: 'proving', revision: 6, writer: 'other' }), '4', known5.phaseSinceMs));
    expect(reasons.map(({ code }) => code)).toEqual(['taken-over']);
    const own = read(known5, stored({ revision: 6 }, '4'));
    expect(own.now?.isTakenOver).toBe(true);
    expect(own.reasons).toEqual([]);
  });
  it.each<[string, Partial<Fencing>, StoredRecord]>([
    ['the same', {}, stored({ writer: 'other' })],
    ['an older one', {}, stored({ revision: 4, writer: 'other' })],
    ['an older one that was closed', {}, stored({ revision: 4, phase: 'closed' })],
    ['unreadable while a decision is stored', { pending: { decision: '7', atMs: 0, becomes: PROVING } }, UNREADABLE],
    [
      'a newer one while a decision is stored',
      { pending: { decision: '7', atMs: 0, becomes: PROVING } },
      stored({ revision: 9 }),
    ],
  ])('changes nothing when it is %s', (_, rest, record) => {
    const fencing = { ...known5, ...rest };
    const { now, reasons } = read(fencing, record);
    expect(now).toBe(fencing);
    expect(reasons).toEqual([]);
  });
  it.each<[string, Partial<Fencing>, Partial<FencingRecord>]>([
    ['the same', {}, {}],
    ['the same but for answers that are not stored yet', { record: { ...PROVING, answers: [ANSWER] } }, {}],
    ['the same, of which the off was not begun', {}, { offSent: ['vm w1'] }],
    ['an older one, which is not read late', { sinceMs: AT - 10_001 }, { revision: 4, writer: 'other' }],
    ['an older one that was closed', { sinceMs: AT - 10_001 }, { revision: 4, phase: 'closed' }],
  ])('has another version in a ConfigMap that somebody touched: %s', (_, rest, record) => {
    const fencing = { ...known5, ...rest };
    expect(read(fencing, stored(record, '7'))).toMatchObject({ now: { ...fencing, version: '7' }, reasons: [] });
  });
  it('keeps its version when an older one is read late, or a decision is stored', () => {
    const fencing = { ...known5, sinceMs: AT - 10_000 };
    expect(read(fencing, stored({ revision: 4 }, '7')).now).toBe(fencing);
    const waiting = { ...known5, sinceMs: 0, pending: { decision: '7', atMs: 0, becomes: PROVING } };
    for (const revision of [4, 5]) expect(read(waiting, stored({ revision }, '7')).now).toBe(waiting);
  });
  it('is taken over when somebody wrote another one, or a later leader an older one', () => {
    expect(read(known5, stored({ phase: 'failed' }, '7')).now).toMatchObject({ isTakenOver: true, version: '7' });
    const later = read(known5, stored({ revision: 4, epoch: 4, writer: 'other' }, '7')).now;
    expect(later).toMatchObject({ isTakenOver: true, version: '7', record: { revision: 4 } });
  });
  it('is over when it has become unreadable', () => {
    expect(read(known5, UNREADABLE)).toMatchObject({ now: undefined, reasons: [] });
  });
  it('is over when it was closed', () => {
    expect(read(known5, stored({ phase: 'closed' })).now).toBeUndefined();
    expect(read(known5, stored({ phase: 'closed', revision: 6 })).now).toBeUndefined();
    expect(read(null, stored({ phase: 'closed' }), { ...stored(), id: 'w1-2' }).fencings.has('w1-1')).toBe(false);
  });
  it('that is gone is over, once it would have been read', () => {
    const gone = (sinceMs: number, rest: Partial<Fencing> = {}) => read({ ...known5, sinceMs, ...rest }).now;
    expect(gone(AT - 10_000)).toBeDefined();
    expect(gone(AT - 10_001)).toBeUndefined();
    expect(gone(AT - 10_001, { pending: { decision: '7', atMs: 0, becomes: PROVING } })).toBeDefined();
    expect(stepped({ ...known5, sinceMs: 0 }, { records: unknown('timed-out', '', '') }).now).toBeDefined();
  });
});

describe('what its devices say', () => {
  const answer = (rest: Partial<DeviceAnswer> = {}): DeviceAnswer => ({
    ...{ node: NODE.uid, method: 'vm w1', says: 'off', begunMs: 100, endedMs: 350, detail: '' },
    ...rest,
  });
  it('is recorded, the last 40 answers', () => {
    const said = { method: 'vm w1', act: 'status', says: 'off', phase: 'proving', wallMs: WALL, tookMs: 250 } as const;
    const old = Array.from({ length: 39 }, (_, i) => ({ ...said, wallMs: i }));
    const { now } = stepped(aFencing({ ...PROVING, answers: old }), {
      answers: [answer(), answer({ says: 'unknown' }), answer({ node: 'x' })],
    });
    expect(now?.record.answers).toEqual([...old.slice(1), said, { ...said, says: 'unknown' }]);
  });
  it('of other nodes changes nothing', () => {
    const fencing = aFencing(PROVING);
    expect(stepped(fencing, { answers: [answer({ node: 'x' })] }).now).toBe(fencing);
  });
});

describe('since when its node is back', () => {
  const seen = (rest: Parameters<typeof aMemory>[0] | null, readyMs: number | null = null) =>
    stepped(aFencing(PROVING, { readyMs }), {}, rest === null ? [] : [aMemory(rest)]).now?.readyMs;
  it.each<[string, Parameters<typeof aMemory>[0] | null, boolean]>([
    ['Ready and alive', {}, true],
    ['not Ready', { of: { conditions: [] } }, false],
    ['suspect', { isSuspect: true }, false],
    ['not heard by this process', { signMs: null }, false],
    ['gone', null, false],
  ])('%s', (_, rest, isBack) => {
    expect(seen(rest)).toBe(isBack ? AT : null);
    expect(seen(rest, 5)).toBe(isBack ? 5 : null);
  });
});
