import { describe, expect, it } from 'vitest';
import type { Act, GuardDecision, GuardReason } from '../../src/core/guard/decision.ts';
import type { ActResult, GuardOutcome } from '../../src/core/guard/observation.ts';
import type { Phase } from '../../src/core/guard/record.ts';
import { initialGuardState } from '../../src/core/guard/state.ts';
import type { GuardLook } from '../../src/guard/loop.ts';
import { createTeller } from '../../src/guard/tell.ts';
import { heardParts } from '../standalone/needs.ts';
import { aRecord, ID, W1 } from './a-guard-api.ts';

const OFF: Act = { kind: 'off', methods: ['1', '2'] };
const advance = (phase: Phase, act: Act | null): GuardDecision => ({
  ...{ id: '7', atMs: 0, kind: 'advance', node: W1, from: 'decided' },
  ...{ fencing: ID, record: aRecord({ phase }), replaces: '1', act },
});
const UNMARK: GuardDecision = {
  ...{ id: '7', atMs: 0, kind: 'unmark', node: W1 },
  ...{ value: `nodewarden.${ID}`, act: { kind: 'clear' } },
};
const ACCEPTED: GuardDecision = {
  ...{ id: '7', atMs: 0, kind: 'answer', order: 'o1', answer: { isAccepted: true, fencing: null } },
  ...{ carries: null, keeps: false },
};
const PAUSE: GuardDecision = { ...ACCEPTED, keeps: true };
const REFUSED: GuardDecision = { ...ACCEPTED, answer: { isAccepted: false, gate: null, why: 'stale' } };
const STORED = { kind: 'stored', version: '2' } as const;
const ran = (...oks: readonly boolean[]): ActResult => ({
  kind: 'ran',
  runs: oks.map((isOk, i) => ({ method: `${i}`, isOk, begunMs: 0, endedMs: 1, detail: '' })),
});
const outcome = (rest: Pick<GuardOutcome, 'store' | 'act'>): GuardOutcome => ({
  ...{ of: '7', fencing: ID, atMs: 1 },
  ...rest,
});

type Seen = {
  readonly decisions?: readonly GuardDecision[];
  readonly outcomes?: readonly GuardOutcome[];
  readonly reasons?: readonly GuardReason[];
  readonly leads?: boolean;
  readonly atMs?: number;
};
function aTeller() {
  const { log, lines } = heardParts();
  const tell = createTeller(log);
  const look = ({ decisions = [], outcomes = [], reasons = [], leads = true, atMs = 0 }: Seen): readonly string[] => {
    const before = lines.length;
    const leadership = leads ? { isLeader: true, epoch: 1, sinceMs: 0, authorityUntilMs: 9 } : { isLeader: false };
    tell({
      observation: { atMs, self: { leadership }, outcomes },
      verdict: { state: initialGuardState(0, 0), decisions, reasons },
    } as unknown as GuardLook);
    return lines.slice(before).map((line) => line.replaceAll(ID, 'ID'));
  };
  look({});
  return look;
}

describe('what the guard logs of a decision', () => {
  it.each<[string, GuardDecision, readonly string[]]>([
    ['an off', advance('off-sent', OFF), ['phase: w1: stores the decision to send power off']],
    ['a cut', advance('isolating', OFF), ['phase: w1: stores the decision to cut off its storage']],
    [
      'an untell',
      advance('untainting', { kind: 'untell' }),
      ['phase: w1: stores the decision to leave no taint of the guard on it'],
    ],
    ['a step without an act', advance('proving', null), []],
    ['an unmark', UNMARK, ['fence: w1: will remove its mark nodewarden.ID: no open fencing stands for it']],
  ])('says of %s what will be done, and not that it is', (_, decision, lines) => {
    expect(aTeller()({ decisions: [decision] })).toEqual(lines);
  });

  const OUT = advance('off-sent', OFF);
  it('says once a minute what is decided each second because it cannot be stored', () => {
    const look = aTeller();
    const reasons: readonly GuardReason[] = [{ code: 'not-proven', node: W1, fencing: ID, lacks: 'silent' }];
    const failed = outcome({ store: { kind: 'failed' }, act: null });
    const first = look({ decisions: [OUT], reasons });
    expect(first).toHaveLength(2);
    for (const atMs of [1_000, 2_000, 59_000])
      expect(look({ atMs, decisions: [OUT], reasons, outcomes: [failed] })).toEqual([]);
    expect(look({ atMs: 60_000, decisions: [OUT], reasons, outcomes: [failed] })).toEqual(first);
    const stored = outcome({ store: STORED, act: ran(true) });
    expect(look({ atMs: 61_000, decisions: [OUT], outcomes: [stored] }).at(-1)).toBe(first.at(-1));
  });
  it.each<[GuardDecision, Pick<GuardOutcome, 'store' | 'act'>, readonly string[]]>([
    [OUT, { store: STORED, act: ran(true, true) }, ['phase: w1: power off is sent']],
    [
      OUT,
      { store: STORED, act: ran(true, false) },
      ['phase: w1: tried to send power off: 1 of 2 fence agents reported success'],
    ],
    [OUT, { store: STORED, act: ran() }, ['phase: w1: tried to send power off: 0 of 0 fence agents reported success']],
    [
      OUT,
      { store: STORED, act: { kind: 'not-begun', detail: 'authority has ended' } },
      ['phase: w1: the decision to send power off is stored, but it was not begun: authority has ended'],
    ],
    [OUT, { store: { kind: 'failed' }, act: null }, []],
    [
      OUT,
      { store: { kind: 'conflict' }, act: null },
      ['phase: w1: somebody else wrote the record first, so nothing was done'],
    ],
    [advance('proving', null), { store: STORED, act: null }, ['phase: w1: the devices are asked for proof']],
    [
      advance('untainting', { kind: 'untell' }),
      { store: STORED, act: { kind: 'failed', why: 'error', detail: 'no answer' } },
      [
        'phase: w1: the decision to leave no taint of the guard on it is stored, but it is not known to be done: no answer',
      ],
    ],
    [ACCEPTED, { store: STORED, act: null }, []],
    [
      ACCEPTED,
      { store: { kind: 'conflict' }, act: null },
      ['order: order o1: it was taken back, so nothing of it is done'],
    ],
    [
      ACCEPTED,
      { store: { kind: 'failed' }, act: null },
      ['order: order o1: nobody knows whether its answer is stored, so nothing of it is done'],
    ],
    [
      PAUSE,
      { store: { kind: 'conflict' }, act: null },
      ['order: order o1: it was taken back, or could not be kept: this pause is not in force'],
    ],
    [
      PAUSE,
      { store: { kind: 'failed' }, act: null },
      ['order: order o1: nobody knows whether its answer is stored; the pause is in force all the same'],
    ],
    [REFUSED, { store: { kind: 'failed' }, act: null }, []],
    [UNMARK, { store: null, act: { kind: 'patched' } }, ['fence: w1: its mark nodewarden.ID is removed']],
    [
      UNMARK,
      { store: null, act: { kind: 'failed', why: 'error', detail: 'no answer' } },
      ['fence: w1: its mark nodewarden.ID is not known to be removed: no answer'],
    ],
    [UNMARK, { store: null, act: null }, ['fence: w1: its mark nodewarden.ID is not known to be removed']],
  ])('says what became of it when it is over: %#', (decision, ended, lines) => {
    const look = aTeller();
    look({ decisions: [decision] });
    expect(look({})).toEqual([]);
    expect(look({ outcomes: [outcome(ended)] })).toEqual(lines);
  });

  it('says so also if it leads no longer, and once', () => {
    const look = aTeller();
    look({ decisions: [OUT] });
    const outcomes = [outcome({ store: STORED, act: ran(true) })];
    expect(look({ outcomes, leads: false })).toEqual([
      'leader: this guard leads no longer',
      'phase: w1: power off is sent',
    ]);
    expect(look({ outcomes, leads: false })).toEqual([]);
  });

  it('does not say the same failure twice', () => {
    const look = aTeller();
    look({ decisions: [advance('untainting', { kind: 'untell' })] });
    const reason: GuardReason = { code: 'act-failed', node: W1, fencing: ID, detail: 'no answer' };
    const failed: ActResult = { kind: 'failed', why: 'error', detail: 'no answer' };
    expect(look({ outcomes: [outcome({ store: STORED, act: failed })], reasons: [reason] })).toHaveLength(1);
  });
});
