import { describe, expect, it } from 'vitest';
import { lostOf } from '../../../src/core/guard/accepted-orders.ts';
import type { Order } from '../../../src/core/guard/observation.ts';
import type { Carried } from '../../../src/core/guard/state.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import { aMachine } from './a-machine.ts';
import { aRecord } from './a-turn.ts';
import { aWorld } from './a-world.ts';

type Said<O> = O extends Order ? Omit<O, 'id' | 'to' | 'by' | 'because'> : never;
const MINUTE = 60_000;
const RELEASE = { verb: 'release', scope: { kind: 'cluster' }, forMs: 120 * MINUTE } as const;

/** Ten nodes, long watched. */
const settled = () => aWorld(Array.from({ length: 10 }, (_, i) => aMachine(`w${i + 1}`))).run(5 * MINUTE);
type World = ReturnType<typeof aWorld>;

let given = 0;
function order(world: World, said: Said<Order>, by = 'ana'): void {
  given += 1;
  world.orders = [...world.orders, { id: `o${given}`, to: world.writer(), by, because: 'a test', ...said } as Order];
}
/** Five nodes fall silent in one moment. */
function burst(world: World): World {
  for (let i = 1; i <= 5; i += 1) world.machine(`w${i}`).isHeard = false;
  return world.run(3 * MINUTE);
}

describe('an order whose answer is not stored', () => {
  it.each(['conflict', 'failed'] as const)('releases nobody of a burst (%s)', (end) => {
    const world = burst(settled());
    world.answersEnd = end;
    order(world, RELEASE);
    world.run(10 * MINUTE);
    expect(world.commands).toEqual([]);
    expect(world.state().releases).toEqual([]);
  });
  it('that is stored in the end releases', () => {
    const world = burst(settled());
    order(world, RELEASE);
    world.run(10 * MINUTE);
    expect(world.commands).not.toEqual([]);
  });
  it.each(['conflict', 'failed'] as const)('ends no pause (%s)', (end) => {
    const world = settled();
    order(world, { verb: 'pause' });
    world.run(5_000).answersEnd = end;
    order(world, { verb: 'resume' });
    expect(world.run(5_000).state().paused?.by).toBe('ana');
    world.answersEnd = 'stored';
    order(world, { verb: 'resume' });
    expect(world.run(5_000).state().paused).toBeNull();
  });
  it('pauses nothing if a person has taken it back, and what was in force before stays', () => {
    const world = settled();
    world.answersEnd = 'conflict';
    order(world, { verb: 'pause' });
    expect(world.run(5_000).state().paused).toBeNull();
    world.answersEnd = 'stored';
    order(world, { verb: 'pause' }, 'bob');
    world.run(5_000).answersEnd = 'conflict';
    order(world, { verb: 'pause' });
    expect(world.run(5_000).state().paused?.by).toBe('bob');
  });
  it('pauses if nobody knows whether the person reads it', () => {
    const world = settled();
    world.answersEnd = 'failed';
    order(world, { verb: 'pause' });
    expect(world.run(5_000).state().paused?.by).toBe('ana');
  });
});

describe('a pause', () => {
  it('is in force and to be kept before it is answered', () => {
    const world = settled();
    order(world, { verb: 'pause' });
    order(world, { verb: 'resume' });
    world.run(500);
    expect(world.told.at(-1)?.decision).toMatchObject({ kind: 'answer', keeps: true });
    expect(world.state().paused?.by).toBe('ana');
    // What comes after it waits until it is known what became of it.
    world.run(5_000);
    expect(world.told.at(-1)?.decision).toMatchObject({ kind: 'answer', keeps: false });
    expect(world.state().paused).toBeNull();
  });
});

describe('an accepted order whose record is not stored', () => {
  const answersOf = ({ told }: World) =>
    told.flatMap(({ decision }) => (decision.kind === 'answer' ? [decision.answer] : []));
  /** A person has a node fenced that has nothing to free, while no record can be stored. */
  const fenced = (answersEnd: World['answersEnd'] = 'stored'): World => {
    const world = aWorld(Array.from({ length: 5 }, (_, i) => aMachine(`w${i + 1}`, { pods: [], attachments: [] })));
    world.run(5 * MINUTE).machine('w1').isHeard = false;
    Object.assign(world.run(3 * MINUTE), { conflicts: true, answersEnd });
    order(world, { verb: 'fence', node: { name: 'w1', uid: 'uid-w1' } });
    while (answersOf(world).length === 0) world.run(500);
    return world;
  };
  const accepted = { isAccepted: true, fencing: 'w1-1' };

  it('is carried out as soon as it can be', () => {
    const world = fenced().run(5_000);
    world.conflicts = false;
    world.run(5 * MINUTE);
    expect(world.commands.map(({ act, method }) => `${act} ${method}`)).toEqual(['off vm w1', 'on vm w1']);
    expect(new Set(answersOf(world).map((answer) => JSON.stringify(answer)))).toEqual(
      new Set([JSON.stringify(accepted)]),
    );
    // Not more than once a second.
    expect(answersOf(world).length).toBeLessThanOrEqual(7);
    expect(world.state().carried.size).toBe(0);
  });
  it('is refused after 25 s, and not carried out later', () => {
    const world = fenced().run(30_000);
    world.conflicts = false;
    world.run(10 * MINUTE);
    expect(answersOf(world).at(-1)).toEqual({ isAccepted: false, gate: null, why: 'not-stored' });
    expect(world.commands).toEqual([]);
    expect(world.state().carried.size).toBe(0);
  });
  it('is refused for what has changed meanwhile', () => {
    const world = fenced();
    world.machine('w1').labels = { 'remediation.medik8s.io/exclude-from-remediation': 'true' };
    world.run(10_000);
    expect(answersOf(world).at(-1)).toEqual({ isAccepted: false, gate: 'scope', why: 'excluded' });
  });
  it('is dropped if a person has taken it back', () => {
    const world = fenced('conflict');
    world.run(5_000).conflicts = false;
    world.run(10 * MINUTE);
    expect(answersOf(world)).toEqual([accepted]);
    expect(world.commands).toEqual([]);
  });
  it('was stored all the same if its record is read', () => {
    const lost = { isAnswered: true, lostMs: 1_000, fencing: 'w1-1', revision: 2, sinceMs: 0 } as Carried;
    const at = (atMs: number, revision: number | null, rest: Partial<Carried> = {}) => {
      const record = { id: 'w1-1', version: '1', record: aRecord({ revision: revision ?? 0 }) };
      return lostOf({ ...lost, ...rest }, { atMs, records: known(revision === null ? [] : [record]) });
    };
    expect([at(2_000, 2), at(90_000, 3)]).toEqual(['done', 'done']);
    expect([at(2_000, 1), at(24_999, null), at(25_000, 1)]).toEqual(['again', 'again', 'dropped']);
    expect([at(1_999, null), at(9_000, null, { isAnswered: false }), at(9_000, null, { lostMs: null })]).toEqual(
      Array.from({ length: 3 }, () => 'waits'),
    );
    expect(lostOf(lost, { atMs: 9_000, records: unknown('absent', '', '') })).toBe('waits');
  });
});
