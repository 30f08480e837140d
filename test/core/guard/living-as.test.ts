import { describe, expect, it } from 'vitest';
import type { GuardConfig } from '../../../src/core/guard/config.ts';
import { aGuardConfig } from './a-guard-config.ts';
import { aMachine, five, type Machine } from './a-machine.ts';
import { aWorld } from './a-world.ts';

const MINUTE = 60_000;

/** Five machines, and w1 as it joins later with another name. */
function clusterWith(renamed: Partial<Machine>, machines: readonly Machine[] = five()) {
  return aWorld([...machines, aMachine('w1b', { hardware: 'w1', isDeleted: true, isHeard: false, ...renamed })]);
}
type World = ReturnType<typeof aWorld>;
const joins = (world: World): void => void Object.assign(world.machine('w1b'), { isDeleted: false, isHeard: true });
const silences = (world: World, name: string): void => void Object.assign(world.machine(name), { isHeard: false });
const isRenamed = (world: World, withinMs: number): void => {
  silences(world, 'w1');
  world.run(withinMs);
  joins(world);
};
const offs = ({ commands }: World): readonly string[] =>
  commands.flatMap(({ act, method }) => (act === 'off' ? [method] : []));
const holds = (world: World): readonly string[] => world.kinds().filter((kind) => kind.startsWith('hold w1 '));
const AS = 'hold w1 scope lives-as';

describe('a machine that lives under another name', () => {
  it.each([
    ['renamed, with the boot that it had', { boots: 1 }],
    ['installed anew', { boots: 2 }],
  ])('is not powered off for its old Node: %s', (_, renamed) => {
    const world = clusterWith(renamed).run(5 * MINUTE);
    isRenamed(world, 90_000);
    world.run(10 * MINUTE);
    expect(offs(world)).toEqual([]);
    expect(holds(world)).toEqual([AS]);
  });
  it('nor when it joins at once, before its old Node is seen to be silent', () => {
    const world = clusterWith({}).run(5 * MINUTE);
    silences(world, 'w1');
    joins(world);
    world.run(10 * MINUTE);
    expect(offs(world)).toEqual([]);
  });
  it('nor by a guard that has never seen its old Node alive', () => {
    const world = clusterWith({ boots: 2, isDeleted: false, isHeard: true });
    silences(world, 'w1');
    world.run(10 * MINUTE);
    expect(offs(world)).toEqual([]);
    expect(holds(world)).toEqual([AS]);
  });
  it('nor when something still writes a sign of life to the old name after it was renamed', () => {
    const world = clusterWith({ isDeleted: false, isHeard: true }).run(5 * MINUTE);
    silences(world, 'w1');
    world.run(10 * MINUTE);
    expect(offs(world)).toEqual([]);
  });
  it('nor when it goes back to a name that it once had', () => {
    const world = clusterWith({ isDeleted: false }).run(5 * MINUTE);
    isRenamed(world, MINUTE);
    world.run(10 * MINUTE);
    expect(offs(world)).toEqual([]);
  });
  it('nor between the decision and the off, nor while it has not been silent for deadAfter itself', () => {
    const world = clusterWith({}).run(5 * MINUTE);
    silences(world, 'w1');
    while (world.phaseOf('w1') !== 'decided') world.run(500);
    joins(world);
    world.run(10 * MINUTE);
    expect(offs(world)).toEqual([]);
    world.machine('w1b').isHeard = false;
    world.run(110_000);
    expect(offs(world)).toEqual([]);
  });
  it('nor when its clock was ahead under its old name', () => {
    const old = aMachine('w1', {
      created: '2026-02-01T00:00:00Z',
      renewTime: (n) => `2027-02-01T00:${10 + n}:00.000000Z`,
    });
    const renamed = { boots: 2, created: '2026-02-02T00:00:00Z' };
    const world = clusterWith(renamed, [old, ...five().slice(1)]).run(5 * MINUTE);
    isRenamed(world, 90_000);
    world.run(10 * MINUTE);
    expect(offs(world)).toEqual([]);
    expect(holds(world)).toEqual([AS]);
  });
  it('nor by the order of a person', () => {
    const world = clusterWith({}).run(5 * MINUTE);
    isRenamed(world, MINUTE);
    world.run(15_000);
    const node = { name: 'w1', uid: 'uid-w1' };
    world.orders = [{ id: 'o1', to: world.writer(), by: 'ann', because: '', verb: 'fence', node }];
    world.run(MINUTE);
    expect(world.kinds()).toContain('answer o1 lives-as');
    expect(offs(world)).toEqual([]);
  });
  it('is powered off once it is dead under that name, too', () => {
    const many = Array.from({ length: 10 }, (_, i) => aMachine(`w${i + 1}`));
    const world = clusterWith({}, many).run(5 * MINUTE);
    isRenamed(world, MINUTE);
    world.run(5 * MINUTE);
    silences(world, 'w1b');
    expect(offs(world)).toEqual([]);
    world.run(5 * MINUTE);
    expect(offs(world)).not.toEqual([]);
  });
});

describe('the old Node of a machine that lives under another name', () => {
  const CONTROL_PLANE = { 'node-role.kubernetes.io/control-plane': '' };
  it.each<readonly [string, Partial<Machine>, Partial<GuardConfig>]>([
    ['in a storm of the workers', {}, {}],
    ['as an unhealthy node of the control plane', { labels: CONTROL_PLANE }, { controlPlane: 'oneAtATime' }],
  ])('does not count %s: the next one that dies is fenced', (_, rest, config) => {
    const renamed = aMachine('w1b', { ...rest, hardware: 'w1', isDeleted: true, isHeard: false });
    const three = five(rest).slice(0, 3);
    const workers = ['x1', 'x2', 'x3', 'x4'].map((name) => aMachine(name));
    const all = aGuardConfig({ ...config, nodes: [] });
    const world = aWorld([...three, renamed, ...(rest.labels === undefined ? [] : workers)], all).run(5 * MINUTE);
    silences(world, 'w1');
    joins(world);
    world.run(30 * MINUTE);
    silences(world, 'w2');
    world.run(10 * MINUTE);
    expect(offs(world)).toEqual(['vm w2']);
  });
});

describe('a machine that fell silent under its new name, too', () => {
  /** Renamed without a reboot, its old Node was left, and both names have the same kubelet. */
  function leftBehind(): World {
    const many = Array.from({ length: 20 }, (_, i) => aMachine(`w${i + 1}`));
    const world = clusterWith({}, many).run(5 * MINUTE);
    silences(world, 'w1');
    joins(world);
    return world.run(15 * MINUTE);
  }
  const isAnnounced = (world: World): void => {
    world.machine('w1b').announces = true;
    world.run(15_000);
    silences(world, 'w1b');
  };
  const losesItsSwitch = (world: World): void => {
    for (const name of ['w1b', 'w2', 'w3']) silences(world, name);
  };
  it.each<readonly [string, (world: World) => void]>([
    ['is in a reboot that it announced', isAnnounced],
    ['is behind a switch that failed', losesItsSwitch],
    ['has lost only the API', (world) => Object.assign(world.machine('w1b'), { isHeard: false, witness: 'answers' })],
    [
      'asked to be left alone',
      (world) => {
        world.machine('w1b').annotations['nodewarden.dev/guard'] = 'skip';
        world.run(15_000);
        silences(world, 'w1b');
      },
    ],
  ])('is not powered off for its old Node either if it %s', (_, what) => {
    const world = leftBehind();
    what(world);
    world.run(12 * MINUTE);
    expect(offs(world)).toEqual([]);
    expect(holds(world)).toEqual([AS]);
  });
  it('nor by a guard that is elected meanwhile, and saw it alive under no name', () => {
    const world = leftBehind();
    losesItsSwitch(world);
    world.run(3 * MINUTE);
    world.restart();
    world.run(20 * MINUTE);
    expect(offs(world)).toEqual([]);
  });
  it('is powered off once its reboot takes too long', () => {
    const world = leftBehind();
    isAnnounced(world);
    world.run(20 * MINUTE);
    expect(offs(world)).not.toEqual([]);
  });
});

describe('an id that two machines have, as boards of one kind do', () => {
  it('keeps neither from being fenced if they were seen to live at the same time', () => {
    const world = clusterWith({ boots: 2, isDeleted: false, isHeard: true }).run(5 * MINUTE);
    silences(world, 'w1');
    world.run(10 * MINUTE);
    expect(offs(world)).toEqual(['vm w1']);
  });
  it('nor if several of them live', () => {
    const world = aWorld(five({ hardware: 'board' }));
    silences(world, 'w1');
    world.machine('w1').lies['vm w1'] = 'on';
    world.run(10 * MINUTE);
    expect(offs(world)).toContain('vm w1');
  });
  it('nor if they were seen to live at the same time before the API server was away', () => {
    const made = { boots: 2, created: '2026-03-01T00:00:00Z', isDeleted: false, isHeard: true };
    const world = clusterWith(made, five({ created: '2026-02-01T00:00:00Z' })).run(5 * MINUTE);
    world.isApiUp = false;
    silences(world, 'w1');
    world.run(5 * MINUTE);
    world.isApiUp = true;
    world.run(10 * MINUTE);
    expect(offs(world)).toEqual(['vm w1']);
  });
  it.each([
    ['is fenced if the Node of the other one is the older one', '2026-01-01T00:00:00Z', ['vm w1']],
    ['is held if it is the newer one, as when it was installed anew', '2026-03-01T00:00:00Z', []],
  ])('also where no guard saw both alive: one that is dead when the guard starts %s', (_, made, expected) => {
    // Its own clock was a year ahead.
    const w1 = { created: '2026-02-01T00:00:00Z', isHeard: false, renewTime: () => '2027-02-01T00:00:00.000000Z' };
    const world = clusterWith({ boots: 2, created: made, isDeleted: false, isHeard: true }, [
      aMachine('w1', w1),
      ...five().slice(1),
    ]);
    world.run(10 * MINUTE);
    expect(offs(world)).toEqual(expected);
  });
});
