import { describe, expect, it } from 'vitest';
import { sayProblem } from '../../../src/document/problem.ts';
import { aScenario, type Json, read } from './a-world.ts';

const NODES = [{ names: 'w[1-3]' }];
const problems = (rest: Json): readonly string[] =>
  read(rest).problems.map((problem) => sayProblem(problem).replace(/^test.json:\d+:\d+: /, ''));

describe('a GuardScenario', () => {
  it('names nodes and their pods by a range', () => {
    const { nodes } = aScenario({ nodes: [{ names: 'w[9-11].lan', zone: 'a', pods: [{ name: 'db-{node}' }] }] });
    expect(nodes.map(({ name, labels, pods }) => [name, labels['topology.kubernetes.io/zone'], pods[0]?.name])).toEqual(
      [
        ['w9.lan', 'a', 'default/db-w9.lan'],
        ['w10.lan', 'a', 'default/db-w10.lan'],
        ['w11.lan', 'a', 'default/db-w11.lan'],
      ],
    );
  });

  it('has two guards outside, a BMC for each node, and half an hour after its last event', () => {
    const { guards, nodes, untilMs, config } = aScenario({ nodes: NODES, events: [{ at: '5m', api: 'down' }] });
    expect(guards).toEqual([
      { name: 'g1', on: null },
      { name: 'g2', on: null },
    ]);
    expect(nodes[0]?.devices).toEqual([{ kind: 'bmc', level: 1, sharesPower: false }]);
    expect(config.plans['w1']).toEqual({ isolation: [], levels: [['bmc w1']], ofMachine: ['bmc w1'] });
    expect(untilMs).toBe(35 * 60_000);
    expect(config.dryRun).toBe(false);
  });

  it('makes levels of its devices', () => {
    const devices = [{ kind: 'pdu', level: 2 }, { kind: 'bmc' }, { kind: 'pdu', level: 2 }, { kind: 'fabric' }];
    expect(aScenario({ nodes: [{ name: 'w1', devices }] }).config.plans['w1']).toEqual({
      isolation: ['fabric w1'],
      levels: [['bmc w1'], ['pdu-1 w1', 'pdu-2 w1']],
      ofMachine: ['bmc w1'],
    });
  });

  it('takes the first nodes for a share, a zone, or a rack behind a switch, and puts events in order', () => {
    const { events } = aScenario({
      nodes: [
        { names: 'a[1-4]', zone: 'a' },
        { names: 'b[1-4]', zone: 'b', rack: 'r1' },
      ],
      events: [
        { at: '2m', switchDown: { zone: 'b' } },
        { at: '1m', switchDown: { share: '25%' } },
        { at: '3m', switchDown: { rack: 'r1' } },
      ],
    });
    expect(events).toMatchObject([
      { atMs: 60_000, nodes: ['a1', 'a2'] },
      { atMs: 120_000, nodes: ['b1', 'b2', 'b3', 'b4'] },
      { atMs: 180_000, nodes: ['b1', 'b2', 'b3', 'b4'] },
    ]);
  });

  it.each<readonly [string, Json, string]>([
    ['no nodes', {}, 'nodes: missing'],
    ['an empty list', { nodes: [] }, 'nodes: must have at least 1 entry'],
    ['an unknown key', { nodes: NODES, node: [] }, 'node: unknown key; did you mean nodes?'],
    ['a range backwards', { nodes: [{ names: 'w[3-1]' }] }, 'nodes[0].names: expected a name, a range of names'],
    ['too many nodes', { nodes: [{ names: 'w[1-9999]' }, { names: 'x[1-19999]' }] }, 'nodes: more than 20000 nodes'],
    ['a name twice', { nodes: [...NODES, { name: 'w2' }] }, 'nodes[1]: another node has the name w2'],
    [
      'a pod twice',
      { nodes: [{ names: 'w[1-2]', pods: [{ name: 'db' }] }] },
      'nodes[0].pods: another pod has the name default/db',
    ],
    ['name and names', { nodes: [{ name: 'a', names: 'b[1-2]' }] }, 'nodes[0]: expected either name or names'],
    ['an event of nothing', { nodes: NODES, events: [{ at: 0 }] }, 'events[0]: what happens? one of power, freeze'],
    ['two events in one', { nodes: NODES, events: [{ at: 0, api: 'up', deleteRecords: true }] }, 'one event at a time'],
    ['power of what', { nodes: NODES, events: [{ at: 0, power: 'off' }] }, 'events[0].node: missing'],
    [
      'an unknown node',
      { nodes: NODES, events: [{ at: 0, node: 'w4', power: 'off' }] },
      'events[0].node: unknown node; did you mean w1?',
    ],
    [
      'an unknown guard',
      { nodes: NODES, events: [{ at: 0, guard: { name: 'g3', kill: true } }] },
      'events[0].guard: unknown guard; did you mean g1?',
    ],
    ['a guard that does nothing', { nodes: NODES, events: [{ at: 0, guard: { name: 'g1' } }] }, 'expected one of kill'],
    [
      'a phase that is none',
      { nodes: NODES, events: [{ at: 0, guard: { name: 'g1', kill: true, atPhase: 'x' } }] },
      'atPhase',
    ],
    ['a negative time', { nodes: NODES, events: [{ at: -1, api: 'up' }] }, 'events[0].at: must not be negative'],
    ['a guard on a stranger', { nodes: NODES, guards: [{ name: 'g1', on: 'x' }] }, 'guards[0].on: unknown node'],
    ['a week and more', { nodes: NODES, world: { duration: '170h' } }, 'more than seven days'],
    ['a period of nothing', { nodes: NODES, world: { leaseEvery: 0 } }, 'world.leaseEvery: must be more than 0'],
    [
      'an unknown expectation',
      { nodes: NODES, expect: { fence: [] } },
      'expect.fence: unknown key; did you mean fenced?',
    ],
  ])('is refused with %s', (_, rest, said) => {
    expect(problems(rest).join('\n')).toContain(said);
  });
});
