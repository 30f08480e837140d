import { describe, expect, it } from 'vitest';
import type { Order } from '../../../src/core/guard/observation.ts';
import { aGuardConfig } from './a-guard-config.ts';
import { aMachine, aPodOn, type Machine } from './a-machine.ts';
import { aWorld } from './a-world.ts';

const MINUTE = 60_000;
const SETTLED = 5 * MINUTE;
const many = (count: number, rest: Partial<Machine> = {}): readonly Machine[] =>
  Array.from({ length: count }, (_, i) => aMachine(`w${i + 1}`, rest));
type World = ReturnType<typeof aWorld>;

const settled = (machines: readonly Machine[] = many(5), config = aGuardConfig()): World =>
  aWorld(machines, config).run(SETTLED);
function silent(world: World, ...names: readonly string[]): World {
  for (const name of names) world.machine(name).isHeard = false;
  return world;
}
const powerOffs = ({ commands }: World): readonly string[] =>
  commands.filter(({ act }) => act === 'off').map(({ method }) => method);
const fenced = (world: World): readonly string[] =>
  world.told.flatMap(({ decision }) => (decision.kind === 'fence' ? [decision.node.name] : []));
const holds = (world: World, name: string): readonly string[] =>
  world.kinds().filter((kind) => kind.startsWith(`hold ${name} `));
const codes = (world: World): readonly string[] => world.reasons.map(({ reason }) => reason.code);
const taintsOf = (world: World, name: string): readonly string[] => world.machine(name).taints.map(({ key }) => key);

describe('G1: no taint without proof', () => {
  it('none while a device says off only once, or nothing, or has never said on', () => {
    const world = settled();
    world.machine('w1').lies['vm w1'] = 'mute';
    silent(world, 'w1').run(20 * MINUTE);
    expect(fenced(world)).toEqual([]);
    expect(holds(world, 'w1')).toEqual(['hold w1 device silent']);
    const never = settled([aMachine('w1', { isOn: false, isHeard: false }), ...many(5).slice(1)]).run(20 * MINUTE);
    expect(holds(never, 'w1')).toEqual(['hold w1 device never-on']);
  });
  it('none when the off command has no effect: two attempts, and again after 1, 2 and 5 minutes, then a person', () => {
    const world = settled();
    world.machine('w1').broken.add('vm w1');
    silent(world, 'w1').run(30 * MINUTE);
    expect(powerOffs(world)).toHaveLength(8);
    expect(world.phaseOf('w1')).toBe('stuck');
    expect(world.kinds().some((kind) => kind.includes('tell'))).toBe(false);
  });
  it('none when the machine stays silent but boots another time before the proof', () => {
    const world = silent(settled(), 'w1').run(MINUTE);
    while (world.phaseOf('w1') !== 'proving') world.run(500);
    world.machine('w1').boots += 1;
    world.run(MINUTE);
    expect(world.kinds().some((kind) => kind.includes('tell'))).toBe(false);
  });
});

describe('G2: the taint never meets a running machine', () => {
  const tainted = (): World => {
    const world = settled();
    world.machine('w1').pods = [aPodOn({ finalizers: ['stays'] })];
    silent(world, 'w1').run(3 * MINUTE);
    expect(taintsOf(world, 'w1')).toContain('node.kubernetes.io/out-of-service');
    return world;
  };
  it('is taken away within 10 s when somebody switches the machine on', () => {
    const world = tainted();
    world.machine('w1').isOn = true;
    world.run(12_000);
    expect(taintsOf(world, 'w1')).toEqual(['nodewarden.dev/fenced']);
    expect(codes(world)).toContain('life-after-proof');
  });
  it('is taken away when the lease is renewed, whatever the device says', () => {
    const world = tainted();
    Object.assign(world.machine('w1'), { isOn: true, isHeard: true, lies: { 'vm w1': 'off' } });
    world.run(16_000);
    expect(taintsOf(world, 'w1')).toEqual(['nodewarden.dev/fenced']);
  });
  it('is gone before the power-on, also when a finalizer keeps a pod', () => {
    const world = tainted().run(10 * MINUTE);
    expect(codes(world).filter((code) => code === 'not-drained')).toHaveLength(1);
    const untold = world.kinds().findIndex((kind) => kind.includes('[untell]'));
    expect(world.kinds().findIndex((kind) => kind.includes('[on]'))).toBeGreaterThan(untold);
    expect(world.run(5 * MINUTE).phaseOf('w1')).toBe('closed');
  });
  it('a device that said off for a machine that lived is not believed again', () => {
    const world = tainted();
    Object.assign(world.machine('w1'), { isOn: true, isHeard: true, lies: { 'vm w1': 'off' } });
    world.run(4 * MINUTE);
    expect(world.phaseOf('w1')).toBe('closed');
    expect(codes(world)).toContain('device-contradicted');
    silent(world, 'w1').run(20 * MINUTE);
    expect(holds(world, 'w1').at(-1)).toBe('hold w1 device contradicted');
  });
});

describe('G4: one fencing, one effective power-off', () => {
  /** Where the process ends: after so many decisions of the fencing. */
  it.each([1, 2, 3, 4, 5, 6, 7, 8])('when the process ends after decision %i, and another one goes on', (count) => {
    const world = silent(settled(), 'w1');
    const decisions = () => world.kinds().filter((kind) => !kind.startsWith('hold')).length;
    while (decisions() < count) world.run(500);
    world.restart();
    world.run(20 * MINUTE);
    expect(world.machine('w1').offs).toBe(1);
    expect(world.phaseOf('w1')).toBe('closed');
    expect(world.machine('w1').taints).toEqual([]);
  });
  it('also when it ends while a command runs', () => {
    const world = silent(settled(), 'w1');
    while (world.commands.length === 0) world.run(500);
    world.restart();
    world.run(20 * MINUTE);
    expect(powerOffs(world)).toEqual(['vm w1']);
    expect(world.phaseOf('w1')).toBe('closed');
  });
});

describe('G5: a storm is fenced by nobody', () => {
  it.each([
    ['a rack of 5 of 100, without labels', 100, 5, 'burst'],
    ['60 of 100', 100, 60, 'cluster'],
    ['all', 4, 4, 'cluster'],
    ['two of three', 3, 2, 'cluster'],
  ])('%s: none, through 30 minutes, the heal and the cool-down', (_, count, cut, kind) => {
    const world = settled(many(count));
    const names = many(cut).map(({ name }) => name);
    silent(world, ...names).run(10 * MINUTE);
    expect(world.state().holds.map((hold) => hold.kind)).toContain(kind);
    for (const name of names) world.machine(name).isHeard = true;
    world.run(2 * MINUTE);
    expect(fenced(world)).toEqual([]);
  });
  it('one more that dies during the cool-down is held, then fenced', () => {
    const world = settled(many(10));
    silent(world, 'w1', 'w2', 'w3', 'w4', 'w5').run(3 * MINUTE);
    for (const name of ['w1', 'w2', 'w3', 'w4', 'w5']) world.machine(name).isHeard = true;
    silent(world.run(MINUTE), 'w9').run(5 * MINUTE);
    expect(holds(world, 'w9').at(-1)).toBe('hold w9 storm cool-down');
    expect(fenced(world.run(8 * MINUTE))).toEqual(['w9']);
  });
  it('a domain of which more than half is silent holds, and the others do not', () => {
    const machines = [...many(20), ...[1, 2, 3, 4].map((i) => aMachine(`z${i}`, { labels: { zone: 'z' } }))];
    const world = settled(machines);
    silent(world, 'z1').run(35_000);
    silent(world, 'z2').run(35_000);
    silent(world, 'z3').run(50_000);
    expect(world.state().holds.map(({ kind, scope }) => ({ kind, scope }))).toEqual([
      { kind: 'domain', scope: { kind: 'domain', label: 'zone', value: 'z' } },
    ]);
  });
  it('a person releases a node for some time', () => {
    const world = silent(settled(many(10)), 'w1', 'w2', 'w3').run(5 * MINUTE);
    expect(fenced(world)).toEqual([]);
    world.orders = [anOrder(world, { verb: 'release', scope: { kind: 'node', name: 'w2' }, forMs: 10 * MINUTE })];
    world.run(5 * MINUTE);
    expect(fenced(world)).toEqual(['w2']);
  });
});

describe('G6: in doubt about itself it does nothing', () => {
  it.each([
    ['paused', (world: World) => world.orders.push(anOrder(world, { verb: 'pause' })), 'paused'],
    ['not leader', (world: World) => Object.assign(world, { isLeader: false }), 'not-leader'],
    ['after its clock jumped', (world: World) => Object.assign(world, { skewMs: 60_000 }), 'settling'],
  ])('%s', (_, doubt, because) => {
    const world = silent(settled(), 'w1').run(100_000);
    doubt(world);
    world.run(30_000);
    expect(fenced(world)).toEqual([]);
    if (because !== 'settling') expect(holds(world, 'w1').at(-1)).toBe(`hold w1 self ${because}`);
  });
  it('the API away for 10 minutes: every age begins anew, and nobody is fenced for the outage', () => {
    const world = settled();
    world.isApiUp = false;
    world.run(10 * MINUTE);
    world.isApiUp = true;
    world.run(30 * MINUTE);
    expect(fenced(world)).toEqual([]);
    expect(codes(world)).toContain('settling');
  });
  it('a machine that died in an outage is fenced after it', () => {
    const world = settled();
    world.isApiUp = false;
    silent(world, 'w1').run(10 * MINUTE);
    world.isApiUp = true;
    world.run(5 * MINUTE);
    expect(fenced(world)).toEqual(['w1']);
  });
});

describe('G9: not the last one', () => {
  const cp = { labels: { 'node-role.kubernetes.io/control-plane': '' } };
  const masters = (): readonly Machine[] => ['c1', 'c2', 'c3'].map((name) => aMachine(name, cp));
  const allowed = aGuardConfig({ controlPlane: 'oneAtATime' });
  it('never the own node: its leader resigns', () => {
    const world = settled();
    world.self = 'w1';
    silent(world, 'w1').run(10 * MINUTE);
    expect(fenced(world)).toEqual([]);
    expect(world.kinds()).toContain('resign');
  });
  it('control-plane nodes only when allowed', () => {
    expect(fenced(silent(settled([...masters(), ...many(3)]), 'c1').run(10 * MINUTE))).toEqual([]);
    expect(fenced(silent(settled([...masters(), ...many(3)], allowed), 'c1').run(10 * MINUTE))).toEqual(['c1']);
  });
  it('and one at a time, with a majority left', () => {
    const two = silent(settled([...masters().slice(1), ...many(3)], allowed), 'c2').run(10 * MINUTE);
    expect(holds(two, 'c2').at(-1)).toMatch(/control-plane-majority|device/);
    expect(fenced(two)).toEqual([]);
    const both = silent(settled([...masters(), ...many(3)], allowed), 'c1').run(50_000);
    expect(fenced(silent(both, 'c2').run(10 * MINUTE))).toEqual([]);
  });
});

describe('G11: it removes only what carries its mark', () => {
  it('a foreign out-of-service taint stays, holds, and is told', () => {
    const world = settled();
    const taint = { key: 'node.kubernetes.io/out-of-service', value: 'nodeshutdown', effect: 'NoExecute' };
    world.machine('w1').taints = [taint];
    silent(world, 'w1').run(10 * MINUTE);
    expect(world.machine('w1').taints).toEqual([taint]);
    expect(codes(world).filter((code) => code === 'foreign-taint')).toHaveLength(1);
    expect(holds(world, 'w1').at(-1)).toBe('hold w1 scope other-owner');
  });
  it('a mark of its own without a record is removed, and told', () => {
    const world = settled();
    world.machine('w1').taints = [
      { key: 'node.kubernetes.io/out-of-service', value: 'nodewarden.w1-7', effect: 'NoExecute' },
      { key: 'nodewarden.dev/fenced', value: 'w1-7', effect: 'NoSchedule' },
    ];
    world.run(30_000);
    expect(world.machine('w1').taints).toEqual([]);
    expect(codes(world)).toContain('orphan-mark');
  });
  it('a mark is not called one without a record while what is read may be old, paused or not', () => {
    const world = settled();
    world.orders = [anOrder(world, { verb: 'pause' })];
    silent(world, ...many(5).map(({ name }) => name)).run(30_000);
    world.machine('w1').taints = [{ key: 'nodewarden.dev/fenced', value: 'w1-7', effect: 'NoSchedule' }];
    expect(codes(world.run(MINUTE))).not.toContain('orphan-mark');
    const away = settled();
    away.machine('w1').taints = [{ key: 'nodewarden.dev/fenced', value: 'w1-7', effect: 'NoSchedule' }];
    away.run(5_000).isApiUp = false;
    expect(codes(away.run(MINUTE))).not.toContain('orphan-mark');
  });
});

describe('an unreadable record', () => {
  const edited = (id: string, nodeKey: string | null, world = settled()): World => {
    world.edited.set(id, nodeKey);
    return world;
  };
  it('keeps its node from being fenced, and no other one, until it is deleted', () => {
    const world = silent(edited('w1-1', 'w1'), 'w1').run(5 * MINUTE);
    expect(fenced(world)).toEqual([]);
    expect(holds(world, 'w1').at(-1)).toBe('hold w1 scope unreadable-record');
    expect(codes(world).filter((code) => code === 'unreadable-record')).toHaveLength(1);
    world.edited.clear();
    expect(fenced(world.run(MINUTE))).toEqual(['w1']);
    expect(fenced(silent(edited('w1-1', 'w1'), 'w2').run(5 * MINUTE))).toEqual(['w2']);
  });
  it('of a node that its name does not tell keeps every node from being fenced', () => {
    const world = silent(edited('notes', null), 'w1').run(5 * MINUTE);
    expect(fenced(world)).toEqual([]);
    expect(holds(world, 'w1').at(-1)).toBe('hold w1 self records-unknown');
  });
  it('refuses fence and confirm-off for its node', () => {
    const world = edited('w1-1', 'w1');
    const node = { name: 'w1', uid: 'uid-w1' };
    world.machine('w1').lies['vm w1'] = 'off';
    silent(world, 'w1').run(MINUTE);
    world.orders = [
      anOrder(world, { verb: 'fence', node }),
      anOrder(world, { verb: 'confirm-off', node, checked: 'w1', isDeviceWrong: false }),
    ];
    world.run(MINUTE);
    const answers = world.kinds().filter((kind) => kind.startsWith('answer'));
    expect(answers.map((kind) => kind.split(' ')[2])).toEqual(['unreadable-record', 'unreadable-record']);
  });
  it('in the middle of a fencing ends it, and its taint goes', () => {
    const world = settled();
    world.machine('w1').pods = [aPodOn({ finalizers: ['stays'] })];
    silent(world, 'w1').run(3 * MINUTE);
    expect(taintsOf(world, 'w1')).toContain('node.kubernetes.io/out-of-service');
    edited('w1-1', 'w1', world).run(30_000);
    expect(taintsOf(world, 'w1')).toEqual([]);
    const sent = world.commands.length;
    world.run(20 * MINUTE);
    expect(world.commands).toHaveLength(sent);
  });
  it('that was first seen on standby is told after the election, once', () => {
    const world = settled();
    Object.assign(edited('w1-1', 'w1', world), { isLeader: false }).run(MINUTE);
    expect(codes(world)).not.toContain('unreadable-record');
    Object.assign(world, { isLeader: true, epoch: 2 }).run(MINUTE);
    expect(codes(world).filter((code) => code === 'unreadable-record')).toHaveLength(1);
  });
});

type Said<O> = O extends Order ? Omit<O, 'id' | 'to' | 'by' | 'because'> : never;
let orders = 0;
function anOrder(world: World, order: Said<Order>, by = 'ana'): Order {
  orders += 1;
  return { id: `o${orders}`, to: world.writer(), by, because: 'a test', ...order } as Order;
}

describe('orders', () => {
  const on = (name: string) => ({ name, uid: `uid-${name}` });
  const answers = (world: World) => world.kinds().filter((kind) => kind.startsWith('answer'));
  it.each([
    ['fence', 'alive but frozen, kubelet refused', 'accepted'],
    ['fence', 'kubelet answers', 'kubelet-answers'],
  ] as const)('%s a node that is %s: %s', (verb, how, answer) => {
    const world = settled();
    world.machine('w1').witness = how === 'kubelet answers' ? 'answers' : 'refused';
    world.orders = [anOrder(world, { verb, node: on('w1') })];
    world.run(4 * MINUTE);
    expect(answers(world)[0]).toMatch(new RegExp(`${answer}$`));
  });
  it('fence: a living node is switched off and proven by its silence, though nobody waited for it', () => {
    const world = settled();
    world.orders = [anOrder(world, { verb: 'fence', node: on('w1') })];
    world.run(10 * MINUTE);
    expect(world.phaseOf('w1')).toBe('closed');
    expect(world.machine('w1').offs).toBe(1);
    expect(world.kinds().some((kind) => kind.includes('[tell]'))).toBe(true);
  });
  it('confirm-off stands for the proof, and leaves the machine off', () => {
    const world = settled();
    Object.assign(world.machine('w1'), { isOn: false, lies: { 'vm w1': 'mute' } });
    silent(world, 'w1').run(3 * MINUTE);
    world.orders = [anOrder(world, { verb: 'confirm-off', node: on('w1'), checked: 'w1', isDeviceWrong: false })];
    world.run(5 * MINUTE);
    expect(answers(world)).toEqual([expect.stringMatching(/accepted$/)]);
    expect(world.phaseOf('w1')).toBe('left-off');
    expect(world.machine('w1').pods).toEqual([]);
    expect(world.commands).toEqual([]);
  });
  it('confirm-off is refused while a device says on, unless that is overruled, and without the name', () => {
    const world = silent(settled(), 'w1').run(50_000);
    const said = { verb: 'confirm-off', node: on('w1'), checked: 'w1' } as const;
    world.orders = [
      anOrder(world, { ...said, isDeviceWrong: false }),
      anOrder(world, { ...said, checked: 'w2', isDeviceWrong: false }),
    ];
    world.run(10_000);
    expect(answers(world).map((kind) => kind.split(' ')[2])).toEqual(['not-checked', 'device-says-on']);
    world.orders = [anOrder(world, { ...said, isDeviceWrong: true })];
    world.run(10_000);
    expect(answers(world).at(-1)).toMatch(/accepted$/);
  });
  it('power-on switches on what was left off', () => {
    const recovery = { ...aGuardConfig().recovery, powerOn: false };
    const world = silent(settled(many(5), aGuardConfig({ recovery })), 'w1').run(5 * MINUTE);
    expect(world.phaseOf('w1')).toBe('left-off');
    world.orders = [anOrder(world, { verb: 'power-on', node: on('w1') })];
    world.run(5 * MINUTE);
    expect(world.phaseOf('w1')).toBe('closed');
  });
  it('refuses what was written for another leader, without a name, or with a verb it does not know', () => {
    const world = settled();
    world.orders = [
      { ...anOrder(world, { verb: 'pause' }), to: 'guard-0' },
      anOrder(world, { verb: 'pause' }, ' '),
      anOrder(world, { verb: 'unknown', said: 'reboot' }),
      anOrder(world, { verb: 'release', scope: { kind: 'cluster' }, forMs: 3 * 3_600_000 }),
      anOrder(world, { verb: 'fence', node: { name: 'w1', uid: 'uid-w2' } }),
      anOrder(world, { verb: 'power-on', node: on('w1') }),
    ];
    world.run(6_000);
    const whys = answers(world).map((kind) => kind.split(' ')[2]);
    expect(whys).toEqual(['stale', 'no-by', 'unknown-verb', 'more-than-2h', 'no-such-node', 'no-fencing']);
    expect(world.state().paused).toBeNull();
  });
});

describe('what holds a dead node', () => {
  it.each<[string, Partial<Machine>, string]>([
    ['a kubelet that answers', { witness: 'answers' }, 'witness kubelet-answers'],
    ['nothing to free', { pods: [], attachments: [] }, 'worth nothing-to-free'],
    ['an announced shutdown', { announces: true }, 'planned kubelet'],
    ['a skip', { annotations: { 'nodewarden.dev/guard': 'skip' } }, 'scope skip'],
    ['another owner', { annotations: { 'cluster.x-k8s.io/machine': 'm' } }, 'scope other-owner'],
    ['kured', { annotations: { 'weave.works/kured-reboot-in-progress': 'x' } }, 'planned kured'],
    [
      'an autoscaler',
      { taints: [{ key: 'ToBeDeletedByClusterAutoscaler', value: '1', effect: 'NoSchedule' }] },
      'scope leaving',
    ],
    ['medik8s', { labels: { 'remediation.medik8s.io/exclude-from-remediation': 'true' } }, 'scope excluded'],
  ])('%s', (_, rest, why) => {
    const world = settled([aMachine('w1', rest), ...many(5).slice(1)]);
    silent(world, 'w1').run(10 * MINUTE);
    expect(fenced(world)).toEqual([]);
    expect(holds(world, 'w1').map((kind) => kind.replace('hold w1 ', ''))).toContain(why);
  });
});
