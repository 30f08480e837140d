import { expect, it } from 'vitest';
import { unknown } from '../../src/core/reading.ts';
import { type GuardLook, startLoop } from '../../src/guard/loop.ts';
import { aGuardConfig } from '../core/guard/a-guard-config.ts';
import { createVirtualClock } from '../kube/virtual-clock.ts';

const NOT_READ = unknown('not-asked', 'test', 'not read');

function aLoop(refresh: () => Promise<void> = () => Promise.resolve()) {
  const clock = createVirtualClock();
  const looks: GuardLook[] = [];
  let refreshed = 0;
  const loop = startLoop({
    clock,
    config: () => aGuardConfig({}),
    refresh: () => {
      refreshed += 1;
      return refresh();
    },
    observe: () => ({
      ...{ atMs: clock.monoMs(), wallMs: clock.wallMs(), nodes: NOT_READ, records: NOT_READ, kept: NOT_READ },
      self: {
        writer: 'g1-a',
        node: null,
        leadership: { isLeader: false },
        lastWriteMs: null,
        uptimeMs: clock.monoMs(),
      },
      ...{ asked: new Map(), attachments: NOT_READ, answers: [], outcomes: [], orders: [] },
    }),
    decided: (look) => void looks.push(look),
  });
  return { clock, loop, looks, refreshed: () => refreshed };
}

it('news bring the next decision at once, and once for all of one turn', async () => {
  const { clock, loop, looks } = aLoop();
  await clock.advance(1_000);
  expect(looks).toHaveLength(1);
  for (let i = 0; i < 5; i++) loop.poke();
  await clock.advance(1);
  expect(looks).toHaveLength(2);
});

it('news of thousands of nodes do not bring a decision each, but some ten a second', async () => {
  const { clock, loop, looks } = aLoop();
  await clock.advance(1_000);
  const before = looks.length;
  for (let i = 0; i < 1_000; i++) {
    loop.poke();
    await clock.advance(1);
  }
  expect(looks.length - before).toBeGreaterThanOrEqual(5);
  expect(looks.length - before).toBeLessThanOrEqual(15);
});

it('news that come all the time do not keep it from reading the cluster', async () => {
  const { clock, loop, refreshed } = aLoop();
  await clock.advance(10);
  const before = refreshed();
  for (let i = 0; i < 200; i++) {
    loop.poke();
    await clock.advance(100);
  }
  expect(refreshed() - before).toBeGreaterThanOrEqual(3);
});

it('what does not come within a second is not waited for', async () => {
  const { clock, looks } = aLoop(() => new Promise(() => undefined));
  await clock.advance(900);
  expect(looks).toHaveLength(0);
  await clock.advance(200);
  expect(looks).toHaveLength(1);
});

it('nothing is decided once it is closed', async () => {
  const { clock, loop, looks } = aLoop();
  await clock.advance(10);
  loop.close();
  loop.poke();
  await clock.advance(60_000);
  expect(looks).toHaveLength(1);
});
