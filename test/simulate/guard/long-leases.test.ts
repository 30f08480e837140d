import { describe, expect, it } from 'vitest';
import { run } from './a-world.ts';

const POD = { name: 'db-{node}', statefulSet: 'db', volumes: 1 };

/** `nodeLeaseDurationSeconds` of the kubelets: they renew every quarter of it. */
const worldWith = (leaseS: number) => ({ leaseEvery: `${leaseS / 4}s`, readyUnknownAfter: `${leaseS + 10}s` });

describe('leases that last long', () => {
  it.each(['k', 'rack-a-', 'h', 'u'])('fence nobody when a rack of five %s is cut off', (rack) => {
    const { result, violations } = run({
      world: worldWith(120),
      nodes: [{ names: 'w[1-95]' }, { names: `${rack}[1-5]`, pods: [POD] }],
      events: [
        { at: '5m', cut: `${rack}[1-5]`, from: 'all' },
        { at: '20m', heal: 'all' },
      ],
    });
    expect(result).toMatchObject({ fenced: [], poweredOff: {} });
    expect(violations).toEqual([]);
  });
  it('do not keep one that died from being fenced, though the others say something rarely', () => {
    const { result, violations } = run({
      world: worldWith(160),
      nodes: [{ names: 'w[1-4]', pods: [POD] }],
      events: [{ at: '10m', node: 'w1', freeze: true }],
    });
    expect(result).toMatchObject({ fenced: ['w1'], poweredOff: { w1: 1 } });
    expect(violations).toEqual([]);
  });
});
