import { describe, expect, it } from 'vitest';
import { explainNode } from '../../../src/core/guard/explain.ts';
import { aGuardConfig } from './a-guard-config.ts';
import { five } from './a-machine.ts';
import { turnRows } from './a-turn.ts';
import { aWorld } from './a-world.ts';

const MINUTE = 60_000;

/** Killed as soon as its machine is off; what its devices said was not kept by then. */
function killed(patrolEveryMs: number) {
  const config = aGuardConfig({ patrol: { everyMs: patrolEveryMs, maxPerMinute: 60 } });
  const world = aWorld(five(), config).run(5 * MINUTE);
  world.areDevicesKept = false;
  world.machine('w1').isHeard = false;
  while (world.machine('w1').isOn) world.run(500);
  world.restart();
  return world;
}

describe('a device that said on before the off of a fencing that is taken over', () => {
  it.each([
    ['in the patrol', 10 * MINUTE],
    ['since its node fell silent', 0],
  ])('%s: its off is proof for the next process too', (_, patrolEveryMs) => {
    const world = killed(patrolEveryMs).run(15 * MINUTE);
    expect(world.reasons.map(({ reason }) => reason.code)).not.toContain('not-proven');
    expect(world.commands.map(({ act }) => act)).toEqual(['off', 'on']);
    expect(world.machine('w1')).toMatchObject({ pods: [], attachments: [], isOn: true, offs: 1 });
  });
  it('is shown with what it said last', () => {
    const world = killed(0).run(1_000);
    const explained = explainNode(world.state(), world.observe(), world.config, 'w1');
    expect(explained?.devices).toMatchObject([{ method: 'vm w1', says: 'on', hasSaidOn: true }]);
  });
});

describe('what its devices said', () => {
  const NEVER = { said: { 'vm w1': ['off@93000', 'off@99000'] }, device: { hasSaidOn: false }, atMs: 100_000 } as const;
  const TWO_LEVELS = { plan: { isolation: [], levels: [['vm w1'], ['pdu w1']] } };
  const rows = turnRows(NEVER);
  rows('proving', { offSent: ['vm w1'], attempt: 1 }, [
    ['is no silence if none of it was ever on', {}, '> failed why=never-on !not-proven never-on'],
    [
      'then the next level is tried at once',
      { record: TWO_LEVELS },
      '> off-sent level=1 attempt=1 offSent=vm w1+pdu w1 [off pdu w1] !not-proven never-on',
    ],
    [
      'nor if it is not believed',
      { device: { contradicted: { why: 'off-while-alive', wallMs: 0 } } },
      '> failed why=contradicted !not-proven contradicted',
    ],
  ]);
});
