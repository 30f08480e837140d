import { describe, expect, it } from 'vitest';
import { stepMarks } from '../../../src/core/guard/marks.ts';
import type { Phase } from '../../../src/core/guard/record.ts';
import type { Fencing } from '../../../src/core/guard/state.ts';
import { unknown } from '../../../src/core/reading.ts';
import { aFencing, aLook, aRecord, type Given, SINCE } from './a-turn.ts';
import { sayDecision } from './say-decision.ts';

const AT = SINCE + 10_000;
const OUT = { key: 'node.kubernetes.io/out-of-service', value: 'nodewarden.w1-1', effect: 'NoExecute' };
const FENCED = { key: 'nodewarden.dev/fenced', value: 'w1-1', effect: 'NoSchedule' };
const FOREIGN = { ...OUT, value: 'nodeshutdown' };
type Case = Omit<Given, 'fencing'> & {
  readonly taints: (typeof OUT)[];
  readonly fencing?: Fencing;
  readonly seen10sAgo?: string;
};

/** What is told and done, and what is remembered. */
function marks({ taints, fencing, seen10sAgo, ...given }: Case) {
  const before =
    seen10sAgo === undefined ? new Map() : new Map([['uid-w1', { what: seen10sAgo, asOfMs: AT - 10_000 }]]);
  const fencings = new Map(fencing === undefined ? [] : [[fencing.record.id, fencing]]);
  const look = aLook({ ...given, memory: { of: { taints } }, state: { marks: before, fencings, ...given.state } });
  const { decisions, reasons, state } = stepMarks({ state: look.state, decisions: [], reasons: [] }, look);
  const values = decisions.flatMap((decision) => (decision.kind === 'unmark' ? [decision.value] : []));
  return {
    told: [
      ...reasons.map((reason) => `${reason.code} ${'value' in reason ? reason.value : ''}`),
      ...decisions.map(sayDecision),
      ...values,
    ],
    marks: [...state.marks.values()].map(({ what, asOfMs }) => `${what} ${asOfMs - AT}`),
  };
}
const open = (phase: Phase, rest: Partial<Fencing> = {}) => aFencing(aRecord({ phase }), rest);

describe('a mark of ours', () => {
  const CLEAR = 'clear nodewarden.w1-1';
  const cleared = ['orphan-mark nodewarden.w1-1', 'unmark w1 clear', 'nodewarden.w1-1'];
  it('without a fencing is removed when it was seen 10 s before', () => {
    expect(marks({ taints: [OUT, FENCED] })).toEqual({ told: [], marks: [`${CLEAR} 0`] });
    expect(marks({ taints: [OUT, FENCED], seen10sAgo: CLEAR })).toEqual({ told: cleared, marks: [`${CLEAR} 0`] });
    expect(marks({ taints: [OUT], seen10sAgo: 'clear nodewarden.w1-9' })).toEqual({ told: [], marks: [`${CLEAR} 0`] });
    const early = new Map([['uid-w1', { what: CLEAR, asOfMs: AT - 9_999 }]]);
    expect(marks({ taints: [OUT], state: { marks: early } })).toEqual({ told: [], marks: [`${CLEAR} -9999`] });
  });
  it('is told in dry run alone', () => {
    expect(marks({ taints: [OUT], seen10sAgo: CLEAR, config: { dryRun: true } }).told).toEqual(cleared.slice(0, 1));
  });
  it('that keeps pods away is removed without a fencing too', () => {
    expect(marks({ taints: [FENCED], seen10sAgo: 'clear w1-1' }).told).toEqual([
      'orphan-mark w1-1',
      'unmark w1 clear',
      'w1-1',
    ]);
    expect(marks({ taints: [FENCED], fencing: open('booting') })).toEqual({ told: [], marks: [] });
  });
  it.each<[Phase, boolean]>([
    ['proving', true],
    ['proven', false],
    ['tainted', false],
    ['untainting', false],
    ['on-sent', true],
  ])('out of service in the phase %s: is removed %s', (phase, isRemoved) => {
    const seen10sAgo = 'untell nodewarden.w1-1';
    const told = isRemoved ? ['orphan-mark nodewarden.w1-1', 'unmark w1 untell', 'nodewarden.w1-1'] : [];
    expect(marks({ taints: [OUT, FENCED], fencing: open(phase), seen10sAgo }).told).toEqual(told);
  });
  it('is left alone while its fencing is being stored', () => {
    const pending = { decision: '1', atMs: 0, becomes: aRecord() };
    expect(
      marks({ taints: [OUT], fencing: open('proving', { pending }), seen10sAgo: 'untell nodewarden.w1-1' }).told,
    ).toEqual([]);
  });
  it.each<[string, Partial<Case>]>([
    ['without authority', { own: { leadership: { isLeader: false } } }],
    ['without the records', { seen: { records: unknown('timed-out', '', '') } }],
    [
      'while what is read may be old',
      {
        state: {
          self: { ...aLook().state.self, readMs: null },
          marks: new Map([['uid-w1', { what: CLEAR, asOfMs: 0 }]]),
        },
      },
    ],
  ])('is left alone %s', (_, rest) => {
    expect(marks({ taints: [OUT], seen10sAgo: CLEAR, ...rest }).told).toEqual([]);
  });
  it('is forgotten when it is gone', () => {
    expect(marks({ taints: [], seen10sAgo: CLEAR })).toEqual({ told: [], marks: [] });
  });
});

describe('a foreign mark', () => {
  it('is told once, and stays', () => {
    expect(marks({ taints: [FOREIGN] })).toEqual({
      told: ['foreign-taint nodeshutdown'],
      marks: ['foreign nodeshutdown 0'],
    });
    expect(marks({ taints: [FOREIGN], seen10sAgo: 'foreign nodeshutdown' })).toEqual({
      told: [],
      marks: ['foreign nodeshutdown -10000'],
    });
    expect(marks({ taints: [FOREIGN], seen10sAgo: 'foreign other' }).told).toEqual(['foreign-taint nodeshutdown']);
  });
});
