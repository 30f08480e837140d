import { describe, expect, it } from 'vitest';
import { stepPastHolds } from '../../../src/core/guard/past-holds.ts';
import type { PastHold } from '../../../src/core/guard/record.ts';
import type { Hold } from '../../../src/core/guard/state.ts';
import { aMemory, byUid, heldBy } from './a-node.ts';

const nodes = byUid(['w1', 'w2'].map((name) => aMemory({ of: { name, uid: `uid-${name}` } })));
const storm = (rest: Partial<Hold>): Hold => ({
  ...{ kind: 'burst', scope: { kind: 'nodes', nodes: ['uid-w1'] }, sinceMs: 0, endedMs: null },
  ...rest,
});
type Now = { readonly held?: { readonly [uid: string]: string }; readonly holds?: readonly Hold[] };
const nowOf = ({ held = {}, holds = [] }: Now) => ({
  ...{ held: new Map(Object.entries(held).map(([uid, said]) => [uid, heldBy(said)])), holds, nodes },
  ...{ fencings: new Map(), dryFenced: new Map() },
});
const step = (
  past: readonly PastHold[],
  { held = {}, holds = [] }: Now,
  wallMs: number,
  before: Now = {},
): readonly PastHold[] => stepPastHolds(past, nowOf(before), nowOf({ held, holds }), wallMs);
const WITNESS = { 'uid-w1': 'witness kubelet-answers' };
const w1 = { kind: 'nodes', nodes: ['w1'] } as const;

describe('what was held back', () => {
  it('is remembered from when to when, by the names of the nodes', () => {
    const begun = step([], { held: WITNESS }, 5);
    expect(begun).toEqual([{ what: 'kubelet-answers', scope: w1, fromWallMs: 5, untilWallMs: null }]);
    expect(step(begun, { held: WITNESS }, 6)).toBe(begun);
    const other = step(begun, { held: { 'uid-w1': 'device silent' } }, 7);
    expect(other).toMatchObject([{ untilWallMs: 7 }, { what: 'silent', fromWallMs: 7, untilWallMs: null }]);
    expect(step(other, {}, 9)).toMatchObject([{ untilWallMs: 7 }, { untilWallMs: 9 }]);
    expect(step(begun, { held: WITNESS }, 8)).toBe(begun);
    expect(step(other, { held: WITNESS }, 9)).toMatchObject([
      { untilWallMs: 7 },
      { what: 'silent', untilWallMs: 9 },
      { what: 'kubelet-answers', fromWallMs: 9, untilWallMs: null },
    ]);
  });
  it('is told of a storm once, though its nodes change, and not of each node in it', () => {
    const held = { 'uid-w1': 'storm burst', 'uid-w2': 'self settling' };
    const begun = step([], { held, holds: [storm({})] }, 5);
    expect(begun).toEqual([{ what: 'burst', scope: w1, fromWallMs: 5, untilWallMs: null }]);
    const both = storm({ scope: { kind: 'nodes', nodes: ['uid-w1', 'uid-w2'] }, endedMs: 7 });
    expect(step(begun, { held, holds: [both] }, 8)).toBe(begun);
    const domain = storm({ kind: 'domain', scope: { kind: 'domain', label: 'zone', value: 'a' } });
    const now = { held: { 'uid-w1': 'storm domain' }, holds: [domain] };
    const seen = step(begun, now, 9);
    expect(seen).toMatchObject([{ untilWallMs: 9 }, { what: 'domain', fromWallMs: 9 }]);
    expect(seen).toHaveLength(2);
  });
  it('lasted at most until a new leader comes to know that it is over', () => {
    const begun = step([], { held: WITNESS }, 5);
    expect(step(begun, {}, 9)).toEqual([{ ...begun[0], untilWallMs: 9, isAtMost: true }]);
    expect(step(begun, {}, 9, { held: WITNESS })).toEqual([{ ...begun[0], untilWallMs: 9 }]);
  });
  it('names 20 nodes of a storm', () => {
    const uids = Array.from({ length: 21 }, (_, i) => `uid-w${i}`);
    const [burst] = step([], { holds: [storm({ scope: { kind: 'nodes', nodes: uids } })] }, 5);
    expect(burst?.scope.kind === 'nodes' && burst.scope.nodes.length).toBe(20);
  });
  it('is at most 100, of which those that last stay', () => {
    let past = step([], { held: WITNESS }, 0);
    for (let i = 1; i <= 300; i++) past = step(past, { held: { ...WITNESS, [`u${i}`]: 'device silent' } }, i);
    expect(past).toHaveLength(100);
    expect(past[0]).toMatchObject({ what: 'kubelet-answers', untilWallMs: null });
    expect(past.at(-1)).toMatchObject({ fromWallMs: 300, untilWallMs: null });
    const many = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`u${i}`, 'device silent']));
    const full = step([], { held: many }, 5);
    expect(full).toHaveLength(100);
    expect(step(full, { held: many }, 6)).toBe(full);
  });
});
