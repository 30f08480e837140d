import { describe, expect, it } from 'vitest';
import type { ConsistentLook, NodeObject } from '../../../src/core/guard/observation.ts';
import { proofOf } from '../../../src/core/guard/proof.ts';
import type { FencingRecord } from '../../../src/core/guard/record.ts';
import type { DeviceMemory } from '../../../src/core/guard/state.ts';
import type { Turn } from '../../../src/core/guard/turn.ts';
import { known } from '../../../src/core/reading.ts';
import { aCondition, aNodeObject } from './a-node.ts';

/** The fencing came to this phase, and its last off returned. */
const SINCE = 1_000_000;
const NODE = { name: 'w1', uid: 'uid-w1', bootId: 'boot-1' };
const SILENT = aNodeObject({ conditions: [aCondition({ status: 'Unknown' })] });
const PERSON = { by: 'person', name: 'ana' } as const;

type Case = {
  readonly atMs?: number;
  readonly record?: Partial<FencingRecord>;
  /** When each status was begun; it took 1 s. */
  readonly rounds?: readonly number[];
  readonly device?: Partial<DeviceMemory>;
  readonly lookMs?: number;
  readonly node?: NodeObject | null;
  readonly lease?: ConsistentLook['lease'];
  readonly durationMs?: number;
};

/** Two rounds of off, 6 s apart, and a look after them that shows nothing new, but for what the case says. */
function proof({ atMs = 10_000, rounds = [1_000, 7_000], lookMs = 8_000, node = SILENT, ...rest }: Case) {
  const { record, device, lease, durationMs = 40_000 } = rest;
  const at = (ms: number): number => SINCE + ms;
  const recent = rounds.map((ms) => ({ says: 'off', begunMs: at(ms), endedMs: at(ms + 1_000) }) as const);
  const memory = { says: 'off', hasSaidOn: true, contradicted: null, recent, ...device };
  const renewal = lease === undefined ? { renewed: 'r1', durationMs: 40_000 } : lease;
  const look = known({ value: { node, lease: renewal, resourceVersion: '7' }, asOfMs: at(lookMs) });
  const turn = {
    record: {
      ...{ node: NODE, purpose: 'fence', renewed: 'r1', level: 0, plan: { isolation: [], levels: [['vm w1']] } },
      ...{ proof: null, order: null, silentMs: 120_000, ...record },
    },
    fencing: { sinceMs: SINCE },
    memory: { lease: { renewed: 'r1', durationMs } },
    state: { self: { electedMs: null }, devices: new Map([['uid-w1 vm w1', memory]]) },
    observation: { atMs: at(atMs), asked: new Map([['uid-w1', { look }]]) },
  } as unknown as Turn;
  return proofOf(turn, SINCE, SINCE);
}
const ORDERED = { order: { verb: 'fence', by: 'ana', because: 'a test' }, silentMs: 5_000 } as const;
const STATUS = { status: ['vm w1'] };
const AGAIN = { look: true, ...STATUS };

describe('proof of off', () => {
  it('is two rounds and a look after them; it is valid for 15 s from the second round', () => {
    const act = { kind: 'tell', resourceVersion: '7', notAfterMs: SINCE + 22_000 };
    const proven = { kind: 'proven', change: { proof: { by: 'devices', level: 0 } }, act };
    expect(proof({})).toEqual(proven);
    expect(proof({ atMs: 21_999 })).toEqual(proven);
    expect(proof({ atMs: 22_000 })).toEqual({ kind: 'wait', asks: STATUS, dueMs: null });
  });
  it.each<[string, Case]>([
    ['one round alone', { rounds: [7_000] }],
    ['two that are too near to each other', { rounds: [3_001, 7_000] }],
    ['one from before the off returned', { rounds: [-1, 7_000] }],
    ['a device that never said on', { device: { hasSaidOn: false } }],
    ['one that stands contradicted', { device: { contradicted: { why: 'life-after-proof', wallMs: 0 } } }],
    ['one that says on by now', { device: { says: 'on' } }],
  ])('%s is none', (_, lacks) => {
    expect(proof(lacks)).toEqual({ kind: 'rounds' });
  });
  it.each<[string, Case, ReturnType<typeof proof>]>([
    ['sent before the second round ended', { lookMs: 7_999 }, { kind: 'wait', asks: AGAIN, dueMs: null }],
    ['without its Node', { node: null }, { kind: 'gone' }],
    ['with another boot', { node: { ...SILENT, bootId: 'boot-2' } }, { kind: 'life' }],
    ['with a renewed lease', { lease: { renewed: 'r2', durationMs: 40_000 } }, { kind: 'life' }],
    ['without its lease', { lease: null }, { kind: 'no-lease' }],
    ['of one that had no token, and nobody ordered it', { record: { renewed: null } }, { kind: 'life' }],
    [
      'still Ready',
      { node: aNodeObject() },
      { kind: 'ready', asks: AGAIN, change: { proof: { by: 'devices', level: 0 } } },
    ],
    ['of one that had no token', { record: { ...ORDERED, renewed: null } }, { kind: 'baseline', renewed: 'r1' }],
  ])('a look %s', (_, look, said) => {
    expect(proof(look)).toEqual(said);
  });
  it('of a rehearsal may find it Ready: nothing is freed', () => {
    expect(proof({ record: { purpose: 'rehearse' }, node: aNodeObject() }).kind).toBe('proven');
  });
  it('of a node that was alive at the decision comes two renewals after the off', () => {
    const rounds = [11_000, 17_000];
    const early = proof({ record: ORDERED, rounds, atMs: 19_999, lookMs: 18_500 });
    expect(early).toEqual({ kind: 'wait', asks: { look: false, ...STATUS }, dueMs: SINCE + 20_000 });
    expect(proof({ record: ORDERED, rounds, atMs: 20_000, lookMs: 19_999 }).kind).toBe('wait');
    expect(proof({ record: ORDERED, rounds, atMs: 20_500, lookMs: 20_000 }).kind).toBe('proven');
    expect(proof({ record: { ...ORDERED, silentMs: 20_000 } }).kind).toBe('proven');
    expect(proof({ record: { silentMs: 5_000 } }).kind).toBe('proven');
  });
  it('of a node that was alive comes later if it renews its lease less often', () => {
    const late = { record: ORDERED, rounds: [51_000, 57_000], durationMs: 120_000 };
    expect(proof({ ...late, atMs: 59_999, lookMs: 58_500 }).kind).toBe('wait');
    expect(proof({ ...late, atMs: 60_500, lookMs: 60_000 }).kind).toBe('proven');
    expect(proof({ record: { ...ORDERED, silentMs: 20_000 }, durationMs: 120_000 }).kind).toBe('wait');
  });
  it('by a person needs no word of a device, which is asked all the same, and a look that is at most 15 s old', () => {
    const act = { kind: 'tell', resourceVersion: '7', notAfterMs: SINCE + 25_000 };
    expect(proof({ record: { proof: PERSON }, rounds: [] })).toEqual({
      kind: 'proven',
      change: { proof: PERSON },
      act,
    });
    const stale = proof({ record: { proof: PERSON }, rounds: [], atMs: 23_001 });
    expect(stale).toEqual({ kind: 'wait', asks: { look: true, ...STATUS }, dueMs: null });
  });
});
