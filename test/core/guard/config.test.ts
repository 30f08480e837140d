import { describe, expect, it } from 'vitest';
import { meets, type NodePlan, planOf, withNodeName } from '../../../src/core/guard/config.ts';

const HOST0: NodePlan = { isolation: ['fc plug=2'], levels: [['bmc ip=10.0.9.10'], ['pdu plug=1']] };
const VM: NodePlan = { isolation: [], levels: [['vm plug={node}']] };
const NOTHING: NodePlan = { isolation: [], levels: [] };

describe('the plan of a node', () => {
  it('is the one listed for it', () => {
    expect(planOf({ plans: { host0: HOST0 }, defaultPlan: VM }, 'host0')).toEqual(HOST0);
  });
  it('is else the default one with its name', () => {
    expect(planOf({ plans: { host0: HOST0 }, defaultPlan: VM }, 'w1.lan')).toEqual({
      isolation: [],
      levels: [['vm plug=w1.lan']],
    });
  });
  it('is none where nothing is listed and there is no default', () => {
    expect(planOf({ plans: { host0: HOST0 }, defaultPlan: null }, 'w1')).toBeNull();
  });
  it('is none where the node is listed without a method', () => {
    expect(planOf({ plans: { host0: NOTHING }, defaultPlan: VM }, 'host0')).toBeNull();
  });
  it('is none for a name of JavaScript, and for one that is no DNS name', () => {
    for (const name of ['constructor', '__proto__', 'w1\naction=on', '$(id)', '', 'W1', 'a..b', 'w'.repeat(254)]) {
      expect(planOf({ plans: {}, defaultPlan: name === 'constructor' ? null : VM }, name)).toBeNull();
    }
  });
});

describe('{node} in a text', () => {
  it('becomes the name, each time', () => expect(withNodeName('{node}/{node}', 'w1')).toBe('w1/w1'));
  it('becomes nothing for a name that is no DNS name', () => expect(withNodeName('{node}', 'w 1')).toBeNull());
  it('is not needed', () => expect(withNodeName('1', 'w 1')).toBe('1'));
});

describe('a label selector', () => {
  it.each([
    ['In', { zone: 'a' }, true],
    ['In', { zone: 'c' }, false],
    ['In', {}, false],
    ['NotIn', { zone: 'a' }, false],
    ['NotIn', { zone: 'c' }, true],
    ['NotIn', {}, true],
    ['Exists', { zone: '' }, true],
    ['Exists', {}, false],
    ['DoesNotExist', { zone: '' }, false],
    ['DoesNotExist', {}, true],
  ] as const)('%s %j: %s', (operator, labels, expected) => {
    expect(meets(labels, [{ key: 'zone', operator, values: ['a', 'b'] }])).toBe(expected);
  });
  it('wants every requirement met, and selects every node with none', () => {
    const zoned = { key: 'zone', operator: 'Exists', values: [] } as const;
    expect(meets({ zone: 'a' }, [zoned, { ...zoned, key: 'rack' }])).toBe(false);
    expect(meets({}, [])).toBe(true);
  });
});
