import { describe, expect, it } from 'vitest';
import { toBeFreed } from '../../../src/core/guard/freed.ts';
import { type FencingRecord, PHASES } from '../../../src/core/guard/record.ts';
import type { Fencing } from '../../../src/core/guard/state.ts';
import { stepTurns } from '../../../src/core/guard/turns.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import { aPodOn } from './a-machine.ts';
import { aCondition } from './a-node.ts';
import { aFencing, aLook, aRecord, type Given, NODE, RENEWED, SINCE, WALL } from './a-turn.ts';
import { sayDecision } from './say-decision.ts';

const AT = SINCE + 10_000;
type Case = Omit<Given, 'fencing' | 'record'> & { readonly open?: readonly Fencing[] };
const inPhase = (record: Partial<FencingRecord>, rest: Partial<Fencing> = {}) => aFencing(aRecord(record), rest);

function stepped({ open = [], ...given }: Case) {
  const look = aLook(given);
  const fencings = new Map(open.map((fencing) => [fencing.record.id, fencing]));
  const state = { ...look.state, fencings };
  const step = stepTurns({ state, decisions: [], reasons: [] }, { ...look, state });
  return { ...step.progress, told: step.progress.decisions.map(sayDecision), wanted: step.wanted };
}
const NOTHING = {
  members: [],
  looks: [],
  pods: [],
  witness: [],
  status: [],
  attachments: false,
  dueMs: Number.POSITIVE_INFINITY,
};

describe('the fencings at a look', () => {
  it('make one arrow each: the record is stored with who wrote it, and when', () => {
    const { told, decisions, state } = stepped({ open: [inPhase({}, { version: '4' })] });
    expect(told).toEqual(['advance w1 decided > off-sent [off]']);
    const record = {
      ...{ phase: 'off-sent', revision: 2, epoch: 3, writer: 'me', level: 0, attempt: 1, offSent: ['vm w1'] },
      steps: [
        { phase: 'decided', wallMs: WALL },
        { phase: 'off-sent', wallMs: WALL + AT },
      ],
    };
    expect(decisions[0]).toMatchObject({ id: '1', atMs: AT, fencing: 'w1-1', replaces: '4', record });
    expect(state.fencings.get('w1-1')).toMatchObject({
      record: { phase: 'decided' },
      pending: { decision: '1', atMs: AT, becomes: record },
    });
    expect(state.nextDecision).toBe(2);
  });
  const FABRIC = { isolation: ['f'], levels: [['vm w1']] };
  const SENT = { offSent: ['vm w1'], attempt: 1, proof: { by: 'devices', level: 0 } } as const;
  const OFF_TWICE = { said: { 'vm w1': ['off@1000', 'off@7000'] } } as const;
  it.each<readonly [string, Partial<FencingRecord>, Case & { readonly fencing?: Partial<Fencing> }]>([
    ['advance failed > decided', { ...SENT, phase: 'failed', proof: null }, { atMs: 60_000 }],
    ['advance decided > isolating', { plan: FABRIC }, { config: { plans: { w1: FABRIC } } }],
    ['advance decided > proving', {}, OFF_TWICE],
    ['advance proving > proven', { ...SENT, phase: 'proving', proof: null }, OFF_TWICE],
    [
      'advance proven > tainted',
      { ...SENT, phase: 'proven' },
      { ...OFF_TWICE, fencing: { acted: { kind: 'patched' } } },
    ],
    ['advance tainted > untainting', { ...SENT, phase: 'tainted' }, { memory: RENEWED }],
    ['recover failed > on-sent', { ...SENT, phase: 'failed', proof: null }, { memory: RENEWED }],
    ['advance on-sent > booting', { ...SENT, phase: 'on-sent', onSent: ['vm w1'] }, { memory: RENEWED }],
    ['advance booting > not-back', { ...SENT, phase: 'booting', onSent: ['vm w1'] }, { atMs: 600_000 }],
    ['advance off-sent > failed', { ...SENT, phase: 'off-sent', proof: null }, { memory: RENEWED }],
    ['advance failed > stuck', { ...SENT, phase: 'failed', onSent: ['vm w1'] }, {}],
    [
      'advance failed > proving',
      { ...SENT, phase: 'failed' },
      { ...OFF_TWICE, fencing: { acted: { kind: 'patched' } } },
    ],
    ['abort decided > aborted', {}, { memory: null, node: null }],
    ['leave-off tainted > left-off', { ...SENT, phase: 'tainted' }, { memory: null, node: null }],
    ['close aborted > closed', { phase: 'aborted' }, { atMs: 60_000 }],
  ])('make an arrow that is called %s, and a step of it', (called, record, { fencing, ...given }) => {
    const { decisions } = stepped({ open: [inPhase(record, fencing)], ...given });
    const seen = decisions.map((one) =>
      'from' in one ? `${one.kind} ${one.from} > ${one.record.phase}, ${one.record.steps.at(-1)?.phase}` : one.kind,
    );
    expect(seen).toEqual([`${called}, ${called.split(' ').at(-1)}`]);
  });
  it('are stored again without another step when only more is known, or a patch is tried again', () => {
    const pods = toBeFreed({ pods: [aPodOn()], attachments: [] }).pods.map((pod) => ({ ...pod, goneWallMs: WALL }));
    const stored = { id: 'w1-1', version: '1', record: aRecord({ phase: 'left-off' }) };
    const seen = { records: known([stored]) };
    const stepsOf = (record: Partial<FencingRecord>) => {
      const { decisions } = stepped({ open: [inPhase(record)], atMs: 30_000, lookMs: null, seen });
      return decisions.flatMap((one) => ('record' in one ? [one.record.steps.map(({ phase }) => phase)] : []));
    };
    expect(stepsOf({ phase: 'left-off', freed: { pods, volumes: [] } })).toEqual([['decided']]);
    expect(stepsOf({ phase: 'untainting' })).toEqual([['decided']]);
  });
  it('keep the first step and the last 59', () => {
    const steps = Array.from({ length: 60 }, (_, i) => ({ phase: 'proving' as const, wallMs: i }));
    const stepsAfter = (list: typeof steps) => {
      const [decision] = stepped({ open: [inPhase({ steps: list })] }).decisions;
      return decision !== undefined && 'record' in decision ? decision.record.steps.map(({ wallMs }) => wallMs) : [];
    };
    expect(stepsAfter(steps)).toEqual([0, ...steps.slice(2).map(({ wallMs }) => wallMs), WALL + AT]);
    expect(stepsAfter(steps.slice(1))).toHaveLength(60);
  });
  it.each<[string, Case]>([
    ['without authority', { own: { leadership: { isLeader: false } } }],
    ['in dry run', { config: { dryRun: true } }],
    [
      'under a record of a higher epoch',
      { seen: { records: known([{ id: 'x', version: '1', record: aRecord({ epoch: 4 }) }]) } },
    ],
    [
      'before the nodes were listed: every one would seem to be deleted',
      { memory: null, seen: { nodes: unknown('not-asked', '/api/v1/nodes', '') } },
    ],
    ['of one that is closed', { open: [inPhase({ phase: 'closed' })] }],
    ['also if its Node was deleted', { open: [inPhase({ phase: 'closed' })], memory: null }],
    ['while one is stored', { open: [inPhase({}, { pending: { decision: '9', atMs: 0, becomes: aRecord() } })] }],
  ])('make none %s', (_, given) => {
    const open = given.open ?? [inPhase({}), inPhase({ id: 'w1-2', phase: 'untainting' })];
    expect(stepped({ open, ...given })).toMatchObject({ told: [], wanted: NOTHING });
  });
  it('wait a second after a failure', () => {
    const failed = (agoMs: number) => stepped({ open: [inPhase({}, { failedMs: AT - agoMs })] });
    expect(failed(999)).toMatchObject({ told: [], wanted: { ...NOTHING, dueMs: AT + 1 } });
    expect(failed(1_000).told).toHaveLength(1);
  });
});

describe('a fencing whose Node was deleted', () => {
  const ended = (record: Partial<FencingRecord>, atMs = 10_000) => {
    const { decisions, wanted } = stepped({ open: [inPhase(record)], memory: null, node: null, atMs });
    return [...decisions.flatMap((one) => ('record' in one ? [one.record] : [])), ...wanted.looks];
  };
  it.each(PHASES.slice(0, PHASES.indexOf('aborted')))('ends in the phase %s: left off', (phase) => {
    expect(ended({ phase, offSent: ['vm w1'] })).toMatchObject([{ phase: 'left-off', staysOff: 'node-deleted' }]);
  });
  it('is aborted when nothing was sent', () => {
    expect(ended({ phase: 'decided' })).toMatchObject([{ phase: 'aborted', why: 'node-deleted' }]);
  });
  it('is closed a minute later', () => {
    expect(ended({ phase: 'aborted' }, 59_999)).toEqual([]);
    expect(ended({ phase: 'aborted' }, 60_000)).toMatchObject([{ phase: 'closed' }]);
  });
});

describe('what they want to know', () => {
  const tainted = inPhase({ phase: 'tainted', proof: { by: 'devices', level: 0 }, offSent: ['vm w1'] });
  it('a look, when it is due', () => {
    expect(stepped({ open: [inPhase({})], lookMs: null }).wanted).toEqual({ ...NOTHING, looks: [NODE] });
    expect(stepped({ open: [inPhase({ phase: 'failed' })] }).wanted).toEqual({ ...NOTHING, dueMs: SINCE + 60_000 });
  });
  it('a status right after an `off`, whenever the device was last asked before it', () => {
    const proving = (offAgoMs: number, askedAgoMs: number) =>
      stepped({
        open: [inPhase({ phase: 'proving', offSent: ['vm w1'] }, { offReturnedMs: AT - offAgoMs })],
        said: { 'vm w1': [`on@${10_000 - askedAgoMs}`] },
      }).wanted.status.length;
    expect(proving(500, 2_000)).toBe(1);
    expect(proving(2_000, 500)).toBe(0);
    expect(proving(7_000, 6_000)).toBe(1);
  });
  it('pods and attachments every 5 s, a status every 10 s', () => {
    const asOf = (pods: number) =>
      new Map([
        [
          NODE.uid,
          {
            witness: unknown('not-asked', '', ''),
            look: unknown('not-asked', '', ''),
            members: unknown('not-asked', '', ''),
            pods: known({ value: [], asOfMs: AT - pods }),
          },
        ],
      ]);
    const wanted = (pods: number, said: number) => {
      const attached = unknown('not-asked', '', '');
      const at = 10_000 - said;
      return stepped({
        open: [tainted],
        said: { 'vm w1': [`off@${at}`] },
        seen: { asked: asOf(pods), attachments: attached },
      }).wanted;
    };
    expect(wanted(4_999, 9_999)).toMatchObject({ pods: [], attachments: false, status: [] });
    expect(wanted(5_000, 10_000)).toMatchObject({
      pods: [NODE.uid],
      attachments: true,
      status: [{ method: 'vm w1', for: 'fencing' }],
      dueMs: SINCE + 600_000,
    });
    expect(stepped({ open: [tainted], said: {}, seen: { asked: new Map() } }).wanted.pods).toEqual([NODE.uid]);
  });
  it('the kubelet’s port every 10 s, for its gates', () => {
    const wanted = (agoMs: number) => {
      const never = unknown('not-asked', '', '');
      const asked = new Map([
        [
          NODE.uid,
          {
            witness: known({ value: 'answers' as const, asOfMs: AT - agoMs }),
            look: never,
            pods: never,
            members: never,
          },
        ],
      ]);
      return stepped({ open: [inPhase({}, { isTakenOver: true })], seen: { asked } }).wanted.witness;
    };
    expect([wanted(9_999), wanted(10_000)]).toEqual([[], [NODE.uid]]);
  });
});

describe('what they tell', () => {
  const overdue = inPhase({ phase: 'tainted', staysOff: 'loop', proof: { by: 'devices', level: 0 } });
  it('an overdue drain once', () => {
    const at = { atMs: 600_000, said: { 'vm w1': ['off@590000'] } } as const;
    const first = stepped({ open: [overdue], ...at });
    expect(first.reasons).toMatchObject([{ code: 'not-drained', node: NODE, left: { pods: [{ name: 'db-0' }] } }]);
    const unread = stepped({ open: [overdue], ...at, pods: null });
    expect(unread.reasons).toMatchObject([{ code: 'not-drained', left: { pods: [], attachments: [] } }]);
    expect(first.state.fencings.get('w1-1')?.isOverdue).toBe(true);
    const again = stepped({ open: [{ ...overdue, isOverdue: true }], ...at });
    expect(again.reasons).toEqual([]);
  });
  it.each<[string, Case]>([
    ['lease', { memory: RENEWED }],
    ['boot', { memory: { of: { bootId: 'boot-2' } } }],
    ['power', { said: { 'vm w1': ['on@1'] } }],
  ])('by which sign a machine lives after its proof: %s', (sign, given) => {
    const proven = { phase: 'tainted', proof: { by: 'devices', level: 0 }, offSent: ['vm w1'] } as const;
    const { reasons } = stepped({ open: [inPhase(proven)], ...given });
    expect(reasons).toMatchObject([{ code: 'life-after-proof', node: { name: 'w1', uid: 'uid-w1' }, sign }]);
  });
  const back = { atMs: 60_000, memory: { ...RENEWED, isSuspect: false, of: { conditions: [aCondition()] } } };
  const booted = (record: Partial<FencingRecord>) =>
    inPhase(
      { phase: 'booting', proof: { by: 'devices', level: 0 }, ...record },
      { readyMs: SINCE, offBegunMs: SINCE, offReturnedMs: SINCE },
    );
  it('a device that is not believed any more, and hold that against it', () => {
    const { reasons, state } = stepped({ open: [booted({})], ...back });
    const by = { why: 'life-after-proof', wallMs: WALL + SINCE + 60_000 };
    expect(reasons).toMatchObject([
      { code: 'life-after-proof', node: NODE, fencing: 'w1-1', sign: 'same-boot' },
      { code: 'device-contradicted', node: NODE, method: 'vm w1', by },
    ]);
    expect(state.devices.get('uid-w1 vm w1')?.contradicted).toEqual(by);
  });
  it('and believe one that a rehearsal has shown', () => {
    const memory = { ...back.memory, of: { ...back.memory.of, bootId: 'boot-2' } };
    const { state, told } = stepped({ open: [booted({ purpose: 'rehearse' })], ...back, memory });
    expect(told).toEqual(['close w1 booting > closed [clear]']);
    expect(state.devices.get('uid-w1 vm w1')?.rehearsedWallMs).toBe(WALL + SINCE + 60_000);
    expect(
      stepped({ open: [booted({})], ...back, memory }).state.devices.get('uid-w1 vm w1')?.rehearsedWallMs,
    ).toBeNull();
  });
});
