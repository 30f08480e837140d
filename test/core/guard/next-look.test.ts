import { describe, expect, it } from 'vitest';
import type { DeadNode } from '../../../src/core/guard/candidates.ts';
import type { GuardConfig } from '../../../src/core/guard/config.ts';
import { nextLook } from '../../../src/core/guard/next-look.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import { aGuardConfig } from './a-guard-config.ts';
import { aMachine, type Machine } from './a-machine.ts';
import { aMemory } from './a-node.ts';
import { aFencing, aLook, aRecord, DEAD, type Given, SINCE } from './a-turn.ts';
import { aWorld } from './a-world.ts';

const SECOND = 1_000;
const MINUTE = 60_000;
const NO_PATROL: Partial<GuardConfig> = { patrol: null };
const machines = (count: number): readonly Machine[] =>
  Array.from({ length: count }, (_, i) => aMachine(`w${i + 1}`, { labels: { zone: `z${i % 7}` } }));
const settled = (count: number, config: Partial<GuardConfig> = NO_PATROL) =>
  aWorld(machines(count), aGuardConfig(config)).run(3 * MINUTE);
type World = ReturnType<typeof settled>;
function silence(world: World, count: number): World {
  for (let i = 1; i <= count; i++) world.machine(`w${i}`).isHeard = false;
  return world;
}
const uids = (first: number, last: number): readonly string[] =>
  Array.from({ length: last - first + 1 }, (_, i) => `uid-w${first + i}`);

describe('what the next look wants to know', () => {
  const WANTED = {
    looks: [],
    pods: [],
    witness: [],
    status: [],
    attachments: false,
    members: [],
    dueMs: Number.POSITIVE_INFINITY,
  };
  const AT = SINCE + 10_000;
  const silentOnes = (count: number) =>
    Array.from({ length: count }, (_, i) => aMemory({ ...DEAD, of: { name: `s${i}` } }));
  const dead = (name: string, gate: string | null = null) =>
    ({ at: { memory: aMemory({ of: { name } }) }, closed: gate === null ? null : { gate } }) as unknown as DeadNode;
  type Case = Given & {
    readonly dead?: readonly DeadNode[];
    readonly dueMs?: number;
    readonly awaited?: readonly string[];
  };
  const next = ({ dead: list = [], dueMs = WANTED.dueMs, awaited = [], ...given }: Case) =>
    nextLook(aLook({ memory: null, ...given }), list, { ...WANTED, dueMs }, new Set(awaited), []);
  const readAt = (msAgo: number) => {
    const never = unknown('not-asked', '', '');
    const pods = known({ value: [], asOfMs: AT - msAgo });
    return { pods, witness: never, look: never, members: never };
  };

  it('is 20 suspects, those first of which least is known', () => {
    expect(next({ others: silentOnes(25), seen: { asked: new Map() } }).pods).toHaveLength(20);
    const ages = [10_000, 30_000, null, 20_000, null, 9_999];
    const asked = new Map(ages.flatMap((msAgo, i) => (msAgo === null ? [] : [[`uid-s${i}`, readAt(msAgo)] as const])));
    expect(next({ others: silentOnes(6), seen: { asked } }).pods).toEqual([
      'uid-s2',
      'uid-s4',
      'uid-s1',
      'uid-s3',
      'uid-s0',
    ]);
  });
  it('is all attachments every 5 s, if pods are asked for', () => {
    const read = (msAgo: number) => ({
      attachments: known({ value: new Map(), asOfMs: AT - msAgo }),
      asked: new Map(),
    });
    const asks = (msAgo: number, count = 1) => next({ others: silentOnes(count), seen: read(msAgo) }).attachments;
    expect([asks(4_999), asks(5_000), asks(5_000, 0)]).toEqual([false, true, false]);
  });
  it('is due with the next fencing, and at once if that is overdue', () => {
    expect([AT + 300, AT - 1, AT + 9_000].map((dueMs) => next({ dueMs }).afterMs)).toEqual([300, 0, 5_000]);
  });
  it.each(['stuck', 'left-off', 'not-back', 'tainted'] as const)('is not hurried by a fencing at rest: %s', (phase) => {
    const fencing = aFencing(aRecord({ phase }));
    const { afterMs } = next({ state: { fencings: new Map([[fencing.record.id, fencing]]) } });
    expect(afterMs).toBe(phase === 'tainted' ? 1_000 : 5_000);
  });
  it('is the devices of nodes that only these, a storm or the rate hold, and first of those that an order waits for', () => {
    const held = [dead('a'), dead('b', 'device'), dead('c', 'storm'), dead('d', 'rate'), dead('f', 'dead')];
    const list = [dead('e', 'witness'), ...held];
    const asked = next({ memory: {}, said: {}, dead: list, awaited: ['uid-w1', 'uid-gone'] }).status;
    expect(asked.map(({ node, for: reason }) => `${node.name} ${reason}`)).toEqual([
      ...['w1', 'a', 'b', 'c', 'd', 'f'].map((name) => `${name} dead`),
      // Of those that another gate holds, at leisure.
      'e patrol',
    ]);
    expect(next({ dead: list, config: { defaultPlan: null } }).status).toEqual([]);
  });
  it('is 20 devices at most', () => {
    const pair = { config: { defaultPlan: { isolation: [], levels: [['a {node}', 'b {node}', 'c {node}']] } } };
    const list = Array.from({ length: 8 }, (_, i) => dead(`d${i}`));
    expect(next({ ...pair, dead: list }).status).toHaveLength(20);
  });
});

describe('the next look', () => {
  it('is 5 s away as long as all is well, and 10 s above 500 nodes', () => {
    expect(settled(3).next()).toMatchObject({ afterMs: 5 * SECOND, witness: [], pods: [], attachments: false });
    expect(settled(500).next()?.afterMs).toBe(5 * SECOND);
    expect(settled(501).next()?.afterMs).toBe(10 * SECOND);
  });
  it('is a second away while a node is silent, and asks its kubelet and its devices, and for its pods and volumes', () => {
    const world = silence(settled(5), 1).run(50 * SECOND);
    while (world.next()?.pods.length === 0) world.run(500);
    expect(world.next()).toMatchObject({
      afterMs: SECOND,
      witness: ['uid-w1'],
      pods: ['uid-w1'],
      attachments: true,
      looks: [],
      status: [{ method: 'vm w1' }],
    });
  });
  it('asks the devices of 20 nodes at most that are not dead yet, and of none if there are more', () => {
    const asksOf = (count: number): number => {
      const world = silence(settled(60), count).run(40 * SECOND);
      while (world.next()?.pods.length === 0) world.run(500);
      return world.next()?.status.length ?? 0;
    };
    expect([1, 20, 21].map(asksOf)).toEqual([1, 20, 0]);
  });
  it('asks again after 10 s', () => {
    const world = silence(settled(5), 1).run(50 * SECOND);
    const asked: number[] = [];
    for (let i = 0; i < 60; i++) {
      world.run(500);
      if (world.next()?.witness.length === 1 && asked.at(-1) !== world.observe().atMs) asked.push(world.observe().atMs);
    }
    const first = asked.filter((atMs, i) => i === 0 || atMs - (asked[i - 1] ?? 0) > SECOND);
    expect(first.slice(1).map((atMs, i) => atMs - (first[i] ?? 0))).toEqual([10 * SECOND, 10 * SECOND]);
  });
  it('asks nothing on standby, or without authority', () => {
    const world = settled(5);
    world.isLeader = false;
    silence(world, 1).run(60 * SECOND);
    expect(world.next()).toMatchObject({ afterMs: 5 * SECOND, witness: [], pods: [], attachments: false, status: [] });
    const patrolling = settled(5, {});
    patrolling.isLeader = false;
    const asked = Array.from({ length: 60 }, () => patrolling.run(500).next()?.status.length);
    expect(new Set(asked.slice(1))).toEqual(new Set([0]));
  });
  it('of many silent nodes asks 20, first those of which least is known, and does not hurry', () => {
    const world = silence(settled(60), 21).run(40 * SECOND);
    while (world.next()?.pods.length === 0) world.run(500);
    expect(world.next()).toMatchObject({ afterMs: 5 * SECOND, pods: uids(1, 20), witness: uids(1, 20) });
    world.run(5 * SECOND);
    expect(world.next()).toMatchObject({ afterMs: 5 * SECOND, pods: uids(21, 21), witness: uids(21, 21) });
    world.run(5 * SECOND);
    expect(world.next()?.pods).toEqual(uids(1, 20));
  });
  it('hurries for 20', () => {
    const world = silence(settled(60), 20).run(60 * SECOND);
    expect(world.next()?.afterMs).toBe(SECOND);
  });
  it('asks for the status of the devices of 20 dead nodes at most, and of none before the other gates are open', () => {
    const world = silence(settled(60), 25).run(40 * SECOND);
    while (world.next()?.status.length === 0) world.run(500);
    expect(world.next()?.status).toHaveLength(20);
    const answering = settled(60);
    for (let i = 1; i <= 25; i++) answering.machine(`w${i}`).witness = 'answers';
    expect(
      silence(answering, 25)
        .run(5 * MINUTE)
        .next()?.status,
    ).toEqual([]);
  });
  it('is not hurried by a fencing that only waits for its node, but by one under way', () => {
    const world = silence(settled(5, { recovery: { ...aGuardConfig().recovery, powerOn: false } }), 1);
    const looks: { phase: string | null; afterMs: number }[] = [];
    for (let i = 0; i < 8 * 60; i++) {
      world.run(500);
      looks.push({ phase: world.phaseOf('w1'), afterMs: world.next()?.afterMs ?? 0 });
    }
    expect(world.phaseOf('w1')).toBe('left-off');
    expect(world.next()?.afterMs).toBe(5 * SECOND);
    const under = looks.filter(({ phase }) => phase !== null && phase !== 'left-off').slice(0, -3);
    expect(under.length).toBeGreaterThan(10);
    expect(Math.max(...under.map(({ afterMs }) => afterMs))).toBeLessThanOrEqual(SECOND);
  });
  it('is a second away while an order waits for its answer', () => {
    const world = settled(3);
    world.orders = [{ id: 'o1', to: world.writer(), by: 'ana', because: 'a test', verb: 'pause' }];
    const after = Array.from({ length: 10 }, () => world.run(500).next()?.afterMs);
    expect(new Set(after)).toEqual(new Set([5 * SECOND, SECOND]));
  });
});
