import { describe, expect, it } from 'vitest';
import type { Order } from '../../../src/core/guard/observation.ts';
import { aMachine } from './a-machine.ts';
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
