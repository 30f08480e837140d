import { describe, expect, it } from 'vitest';
import type { NodePlan } from '../../../src/core/guard/config.ts';
import { aGuardConfig } from './a-guard-config.ts';
import { aMachine, aPodOn } from './a-machine.ts';
import { aWorld } from './a-world.ts';

const MINUTE = 60_000;
const names = Array.from({ length: 10 }, (_, i) => `w${i + 1}`);
const BMC_FIRST: NodePlan = {
  isolation: [],
  levels: [['bmc {node}'], ['pdu {node}']],
  ofMachine: ['bmc {node}'],
};

/** Ten machines, of which w1 falls silent. `until`: half seconds at a time, for at most 25 minutes. */
function aSilentOne(defaultPlan: NodePlan) {
  const world = aWorld(
    names.map((name) => aMachine(name)),
    aGuardConfig({ defaultPlan }),
  );
  world.run(15 * MINUTE);
  const w1 = world.machine('w1');
  w1.isHeard = false;
  const until = (isSo: () => boolean): void => {
    for (let i = 0; i < 3_000 && !isSo(); i++) world.run(500);
  };
  const isSent = (method: string): boolean => world.commands.some((one) => one.act === 'off' && one.method === method);
  return { world, w1, until, isSent };
}

describe('what a device of another level says', () => {
  it.each<[string, NodePlan]>([
    ['after it', BMC_FIRST],
    ['before it', { ...BMC_FIRST, levels: BMC_FIRST.levels.toReversed() }],
  ])('on, of the machine itself: the outlet that says off is not its outlet; it is tried %s', (_, plan) => {
    const { world, w1, until, isSent } = aSilentOne(plan);
    w1.broken = new Set(['bmc w1', 'pdu w1']);
    until(() => isSent('pdu w1'));
    w1.lies = { 'pdu w1': 'off' };
    for (let i = 0; i < 600; i++) {
      world.run(500);
      expect(w1.taints).toEqual([]);
    }
    const lacks = world.reasons.flatMap(({ reason }) => (reason.code === 'not-proven' ? [reason.lacks] : []));
    expect(new Set(lacks)).toEqual(new Set(['says-on']));
  });
  it('on, of its outlet: a machine that its controller switched off is fed all the same', () => {
    const { world, w1, until } = aSilentOne(BMC_FIRST);
    w1.lies = { 'pdu w1': 'on' };
    until(() => world.phaseOf('w1') === 'booting');
    expect([world.phaseOf('w1'), w1.offs]).toEqual(['booting', 1]);
    expect(world.reasons.map(({ reason }) => reason.code)).not.toContain('life-after-proof');
  });
  it('nothing: a controller goes silent with the power of its machine', () => {
    const { world, w1, until, isSent } = aSilentOne(BMC_FIRST);
    w1.broken = new Set(['bmc w1']);
    until(() => isSent('pdu w1'));
    w1.lies = { 'bmc w1': 'mute' };
    until(() => world.phaseOf('w1') === 'tainted');
    expect(w1.taints).not.toEqual([]);
  });
  it('on, once the taint is there: it goes within a watch', () => {
    const { world, w1, until, isSent } = aSilentOne(BMC_FIRST);
    w1.broken = new Set(['bmc w1', 'pdu w1']);
    until(() => isSent('pdu w1'));
    w1.lies = { 'bmc w1': 'mute', 'pdu w1': 'off' };
    w1.pods = [aPodOn({ finalizers: ['example.com/keep'] })];
    until(() => world.phaseOf('w1') === 'tainted');
    expect(w1.taints).not.toEqual([]);
    w1.lies = { 'pdu w1': 'off' };
    world.run(13_000);
    expect(w1.taints.map(({ key }) => key)).not.toContain('node.kubernetes.io/out-of-service');
    expect(world.reasons.map(({ reason }) => reason.code)).toContain('life-after-proof');
  });
});
