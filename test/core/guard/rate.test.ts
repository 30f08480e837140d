import { describe, expect, it } from 'vitest';
import { decideGuard } from '../../../src/core/guard/decide.ts';
import { lookOf, rateShutForAll } from '../../../src/core/guard/gates.ts';
import {
  controlPlaneHold,
  cutsWallMs,
  fencingsToday,
  inFlight,
  isLoop,
  rateHold,
} from '../../../src/core/guard/rate.ts';
import type { FencingRecord, Phase, StoredRecord } from '../../../src/core/guard/record.ts';
import type { Fencing } from '../../../src/core/guard/state.ts';
import { known } from '../../../src/core/reading.ts';
import { outlived } from '../../../src/guard/records.ts';
import { aGuardConfig } from './a-guard-config.ts';
import { aMemory, byUid } from './a-node.ts';
import { aFencing, aLook, aRecord } from './a-turn.ts';

const NOW = 1_700_000_000_000;
const AT = 5_000_000;
const HOUR = 3_600_000;
const step = (phase: Phase, agoMs: number) => ({ phase, wallMs: NOW - agoMs });
const stored = (id: string, rest: Partial<FencingRecord>): StoredRecord => ({
  id,
  version: '1',
  record: aRecord({ id, phase: 'closed', ...rest }),
});
const own = (id: string, rest: Partial<FencingRecord>, fencing: Partial<Fencing> = {}): [string, Fencing] => [
  id,
  aFencing(aRecord({ id, ...rest }), fencing),
];
const UNREADABLE: StoredRecord = { id: 'x', version: '1', record: null, problem: 'no JSON', nodeKey: null };

describe('the power-offs that count', () => {
  const cuts = (
    records: readonly StoredRecord[],
    fencings: readonly [string, Fencing][] = [],
    except: string | null = null,
  ) => {
    const state = { fencings: new Map(fencings), dryFenced: new Map(), ahead: new Map() };
    return cutsWallMs(records, state, { atMs: AT, wallMs: NOW }, except).map((ms) => NOW - ms);
  };
  it('are one for each fencing, at its last command, newest first', () => {
    const twice = stored('a', {
      steps: [step('decided', 90), step('off-sent', 80), step('off-sent', 70), step('proving', 60)],
    });
    const fabric = stored('b', { steps: [step('decided', 50), step('isolating', 40), step('aborted', 30)] });
    expect(cuts([twice, UNREADABLE, fabric])).toEqual([40, 70]);
  });
  it('are what is decided and not yet sent, and nothing that ended before', () => {
    expect(cuts([stored('a', { phase: 'decided', steps: [step('decided', 9), step('decided', 5)] })])).toEqual([5]);
    expect(cuts([stored('a', { phase: 'aborted', steps: [step('decided', 9), step('aborted', 5)] })])).toEqual([]);
    expect(cuts([stored('a', { phase: 'decided', steps: [] })])).toEqual([]);
  });
  it('are as this process knows them, and leave out the one in question', () => {
    const old = stored('a', { steps: [step('off-sent', 70)] });
    const known = own('a', { steps: [step('off-sent', 10)] });
    expect(cuts([old], [known])).toEqual([10]);
    expect(cuts([old], [known, own('b', { steps: [step('off-sent', 20)] })], 'a')).toEqual([20]);
  });
  it('include those of a dry run, by the own clock', () => {
    const dryFenced = new Map([['uid-w1', { atMs: AT - 30, wallMs: NOW + HOUR }]]);
    const state = { fencings: new Map(), dryFenced, ahead: new Map() };
    expect(cutsWallMs([], state, { atMs: AT, wallMs: NOW }, null)).toEqual([NOW - 30]);
  });
});

describe('a power-off by a guard whose clock is two hours ahead', () => {
  const cutWallMs = NOW + 2 * HOUR;
  const steps = [step('decided', -2 * HOUR), step('closed', -2 * HOUR - 60_000)];
  const record = { node: { name: 'w9', uid: 'uid-w9', bootId: 'b' }, offSent: ['vm w9'], cutWallMs, steps };
  const records = Array.from({ length: 6 }, (_, i) => stored(`w9-${i}`, record));
  /** `atMs` after the first look at it. */
  const looks = (seen: readonly StoredRecord[], ...times: readonly number[]) => {
    const config = aGuardConfig({ rate: { minIntervalMs: 30_000, maxPerHour: 6, maxInFlight: 2 } });
    const first = aLook({ memory: null }).observation;
    let { state } = aLook({ memory: null });
    return times.map((afterMs) => {
      const at = { atMs: first.atMs + afterMs, wallMs: NOW + afterMs };
      const clocks = { ...first.self, uptimeMs: first.self.uptimeMs + afterMs };
      const observation = { ...first, ...at, self: clocks, records: known(seen) };
      ({ state } = decideGuard(state, observation, config));
      const shut = rateShutForAll(lookOf(state, observation, config));
      const inMs = shut?.opensMs === null || shut === null ? null : shut.opensMs - at.atMs;
      const today = fencingsToday(seen, state.fencings, 'uid-w9', { ...at, ahead: state.ahead });
      const old = outlived(seen, { days: 1, entries: 0 }, { ...at, ahead: state.ahead }).length;
      return `${shut?.because ?? 'open'} ${inMs} today ${today} outlived ${old}`;
    });
  };
  it('was just now when it is first seen, and grows older from then on', () => {
    const one = records.slice(0, 1);
    expect(looks(one, 0, 10_000, 29_999, 30_000, HOUR, 25 * HOUR)).toEqual([
      'min-interval 30000 today 1 outlived 0',
      'min-interval 20000 today 1 outlived 0',
      'min-interval 1 today 1 outlived 0',
      'open null today 1 outlived 0',
      'open null today 1 outlived 0',
      'open null today 0 outlived 1',
    ]);
  });
  it('counts for an hour and a day from then', () => {
    expect(looks(records, 0, HOUR - 1, HOUR, 24 * HOUR - 1, 24 * HOUR)).toEqual([
      `min-interval ${HOUR} today 6 outlived 0`,
      'max-per-hour 1 today 6 outlived 0',
      'open null today 6 outlived 0',
      'open null today 6 outlived 0',
      'open null today 0 outlived 0',
    ]);
  });
});

describe('the rate', () => {
  const limits = { minIntervalMs: 1_000, maxPerHour: 2, maxInFlight: 1 };
  const hold = (...agoMs: readonly number[]) =>
    rateHold(
      agoMs.map((ms) => NOW - ms),
      NOW,
      limits,
    );
  it.each([
    [[], null],
    [[999], { because: 'min-interval', value: 999, limit: 1_000, inMs: 1 }],
    [[1_000], null],
    [[1_000, 2_000], { because: 'max-per-hour', value: 2, limit: 2, inMs: HOUR - 2_000 }],
    [[1_000, 2_000, 3_000], { because: 'max-per-hour', value: 3, limit: 2, inMs: HOUR - 2_000 }],
    [[1_000, HOUR - 1], { because: 'max-per-hour', value: 2, limit: 2, inMs: 1 }],
    [[1_000, HOUR], null],
  ])('after power-offs %j ms ago: %j', (agoMs, expected) => {
    expect(hold(...agoMs)).toEqual(expected);
  });
  it('counts as in flight what is not drained, neither overdue nor the one in question', () => {
    const phases: readonly Phase[] = [
      'decided',
      'isolating',
      'off-sent',
      'proving',
      'proven',
      'tainted',
      'untainting',
      'failed',
    ];
    const all = new Map(phases.map((phase) => own(phase, { phase })));
    expect(inFlight(all, null)).toBe(6);
    expect(inFlight(all, 'proven')).toBe(5);
    expect(inFlight(new Map([own('a', { phase: 'tainted' }, { isOverdue: true })]), null)).toBe(0);
  });
});

describe('the fencings of a node in a day', () => {
  const DAY = 24 * HOUR;
  const cut = { offSent: ['vm w1'], steps: [step('decided', DAY - 1), step('off-sent', 5)] };
  const now = { atMs: AT, wallMs: NOW, ahead: new Map() };
  const today = (...records: readonly StoredRecord[]) => fencingsToday(records, new Map(), 'uid-w1', now);
  it.each<[string, Partial<FencingRecord>, number]>([
    ['decided within it', {}, 1],
    ['decided a day ago', { steps: [step('decided', DAY)] }, 0],
    ['of unknown age', { steps: [] }, 1],
    ['in which nothing was sent', { offSent: [] }, 0],
    ['that was a rehearsal', { purpose: 'rehearse' }, 0],
    ['of another node', { node: { name: 'w2', uid: 'uid-w2', bootId: 'b' } }, 0],
  ])('%s', (_, rest, count) => {
    expect(today(stored('a', { ...cut, ...rest }))).toBe(count);
  });
  it('counts each once, open ones too', () => {
    const open = new Map([own('a', cut), own('b', cut)]);
    expect(fencingsToday([stored('a', cut), stored('c', cut), UNREADABLE], open, 'uid-w1', now)).toBe(3);
  });
  it('is a loop from its limit on', () => {
    const config = aGuardConfig();
    expect([1, 2, 3].map((count) => isLoop(count, config))).toEqual([false, true, true]);
  });
});

describe('the control plane', () => {
  const labels = { 'node-role.kubernetes.io/control-plane': '' };
  const master = (name: string, rest: Parameters<typeof aMemory>[0] = {}) =>
    aMemory({ ...rest, of: { name, labels, ...rest.of } });
  const hold = (others: ReturnType<typeof aMemory>[], fencings: readonly [string, Fencing][] = [], isSuspect = true) =>
    controlPlaneHold(
      {
        nodes: byUid([master('c1', { isSuspect }), aMemory({ of: { name: 'w1' } }), ...others]),
        livingAs: new Map(),
        fencings: new Map(fencings),
      },
      'uid-c1',
    );
  it('may lose one when all others are healthy and a majority is left', () => {
    expect(hold([master('c2'), master('c3')])).toBeNull();
    expect(hold([master('c2'), master('c3'), master('c4'), master('c5')])).toBeNull();
    expect(hold([master('c2')])).toEqual({ because: 'control-plane-majority', value: 1, limit: 2 });
    expect(hold([])).toEqual({ because: 'control-plane-majority', value: 0, limit: 1 });
  });
  it('does not count the one in question, though it lives', () => {
    expect(hold([master('c2')], [], false)?.because).toBe('control-plane-majority');
  });
  it.each<[string, ReturnType<typeof aMemory>]>([
    ['suspect', master('c3', { isSuspect: true })],
    ['heard again a moment ago', master('c3', { onsetMs: 5 })],
    ['not Ready', master('c3', { of: { conditions: [] } })],
  ])('loses none while another one is %s', (_, other) => {
    expect(hold([master('c2'), other])).toEqual({ because: 'another-control-plane', value: 1, limit: 2 });
  });
  it('loses none while another one is in a fencing', () => {
    const node = { name: 'c3', uid: 'uid-c3', bootId: 'boot-1' };
    expect(hold([master('c2'), master('c3')], [own('f', { node })])?.because).toBe('another-control-plane');
  });
});
