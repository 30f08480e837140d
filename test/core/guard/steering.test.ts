import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { aGuardConfig } from './a-guard-config.ts';
import { aMachine, five, type Machine } from './a-machine.ts';
import { aWorld } from './a-world.ts';
import { sayDecision } from './say-decision.ts';

const MINUTE = 60_000;

/** What the guard does when w1 dies, with the times. */
function death(machines: readonly Machine[], config = aGuardConfig()): readonly string[] {
  const world = aWorld(machines, config).run(5 * MINUTE);
  world.machine('w1').isHeard = false;
  world.run(15 * MINUTE);
  const told = world.told.map(({ atMs, decision }) => `${atMs} ${sayDecision(decision)}`);
  return [...told, ...world.commands.map(({ atMs, act, method }) => `${atMs} ${act} ${method}`)];
}

describe('G7: no time that another machine wrote takes part in a decision', () => {
  const expected = death(five());
  it.each<[string, Machine['renewTime']]>([
    ['right', (renewal) => new Date(1_700_000_000_000 + renewal * 10_000).toISOString()],
    ['an hour fast', (renewal) => new Date(1_700_003_600_000 + renewal * 10_000).toISOString()],
    ['going back', (renewal) => new Date(1_700_000_000_000 - renewal * 10_000).toISOString()],
    ['in the year 9999', (renewal) => `9999-12-31T23:59:59.${String(renewal).padStart(6, '0')}Z`],
    ['no clock', (renewal) => `x${renewal}`],
  ])('leases of a clock that is %s', (_, renewTime) => {
    expect(expected.some((line) => line.endsWith(' off vm w1'))).toBe(true);
    expect(death(five({ renewTime }))).toEqual(expected);
  });
});

describe('G12: a node cannot steer what is done to it', () => {
  const plans = { w1: { isolation: ['fabric w1'], levels: [['bmc w1'], ['pdu w1']] } };
  const text = fc.string({ maxLength: 20 });
  const keys = fc.oneof(
    text,
    fc.constantFrom(
      'nodewarden.dev/method',
      'nodewarden.dev/plug',
      'ip',
      'plug',
      'kubernetes.io/hostname',
      '__proto__',
    ),
  );
  const said = fc.dictionary(keys, fc.oneof(text, fc.constantFrom('vm w2', 'bmc w2', 'w2', '{node}', '10.0.9.2')));
  it('by its annotations and labels: it is fenced through its own methods, whatever they say', () => {
    const config = aGuardConfig({ plans });
    const expected = death(five(), config);
    fc.assert(
      fc.property(said, said, (annotations, labels) => {
        const machines = [aMachine('w1', { annotations, labels }), ...five().slice(1)];
        expect(death(machines, config)).toEqual(expected);
      }),
      { numRuns: 20, seed: 20_261_126 },
    );
    expect(expected.flatMap((line) => line.match(/ off .*/) ?? [])).toEqual([' off fabric w1', ' off bmc w1']);
  });
  it.each(['w2 ', '../w2', 'w1;reboot', '{node}', '-w2', '$(w2)'])('by its name: %s has no method', (name) => {
    const machines = [aMachine(name), ...five()];
    const world = aWorld(machines).run(5 * MINUTE);
    world.machine(name).isHeard = false;
    world.run(15 * MINUTE);
    expect(world.commands).toEqual([]);
    expect(world.kinds()).toContain(`hold ${name} device no-method`);
  });
});
