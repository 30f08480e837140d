import { describe, expect, it } from 'vitest';
import type { GuardConfig } from '../../../src/core/guard/config.ts';
import { explainNode } from '../../../src/core/guard/explain.ts';
import { aGuardConfig } from './a-guard-config.ts';
import { aPodOn, five, type Machine } from './a-machine.ts';
import { aWorld } from './a-world.ts';

const MINUTE = 60_000;
type World = ReturnType<typeof aWorld>;
const settled = (config: Partial<GuardConfig> = {}, machines = five()): World =>
  aWorld(machines, aGuardConfig(config)).run(5 * MINUTE);
function silent(world: World, ...names: readonly string[]): World {
  for (const name of names) world.machine(name).isHeard = false;
  return world;
}
/** `off fabric w1`, in order. */
const commands = ({ commands: sent }: World): readonly string[] => sent.map(({ act, method }) => `${act} ${method}`);
const phases = (world: World, name = 'w1'): readonly string[] =>
  world.told.flatMap(({ decision }) =>
    'record' in decision && decision.node.name === name ? [decision.record.phase] : [],
  );
const recordOf = (world: World, name = 'w1') =>
  [...world.records.values()].map(({ record }) => record).findLast(({ node }) => node.name === name);
const on = (name: string) => ({ name, uid: `uid-${name}` });
const ANA = { by: 'ana', because: 'a test' };

describe('isolation', () => {
  const plan = { defaultPlan: { isolation: ['fabric {node}'], levels: [['vm {node}']] } };
  it('comes before the power-off, is no proof, and is undone first', () => {
    const world = silent(settled(plan), 'w1').run(15 * MINUTE);
    expect(commands(world)).toEqual(['off fabric w1', 'off vm w1', 'on fabric w1', 'on vm w1']);
    expect(phases(world).slice(0, 4)).toEqual(['decided', 'isolating', 'off-sent', 'proving']);
    expect(recordOf(world)?.proof).toEqual({ by: 'devices', level: 0 });
  });
  it('is undone when the node shows life before its power-off', () => {
    const world = silent(settled(plan), 'w1');
    while (world.phaseOf('w1') !== 'isolating') world.run(500);
    world.machine('w1').isHeard = true;
    Object.assign(world.machine('w1'), { renewals: 99 });
    world.run(5 * MINUTE);
    expect(commands(world)).toEqual(['off fabric w1', 'on fabric w1']);
    expect(world.machine('w1').offs).toBe(0);
    expect(recordOf(world)).toMatchObject({ phase: 'closed', why: 'alive' });
  });
  it('taken over is asked first, and what is missing is sent', () => {
    const world = silent(settled(plan), 'w1');
    while (world.phaseOf('w1') !== 'isolating') world.run(500);
    world.restart();
    const restartedMs = world.nowMs();
    world.run(15 * MINUTE);
    expect(commands(world)).toEqual(['off fabric w1', 'off fabric w1', 'off vm w1', 'on fabric w1', 'on vm w1']);
    expect(world.commands[1]?.atMs).toBeGreaterThanOrEqual(restartedMs + 48_000);
  });
});

describe('levels', () => {
  const pdu = { defaultPlan: { isolation: [], levels: [['bmc {node}'], ['pdu-a {node}', 'pdu-b {node}']] } };
  it('the second one after two attempts of the first, and all of its methods must say off', () => {
    const world = settled(pdu, five({ broken: new Set(['bmc w1']) }));
    silent(world, 'w1').run(20 * MINUTE);
    expect(commands(world)).toEqual([
      'off bmc w1',
      'off bmc w1',
      'off pdu-a w1',
      'off pdu-b w1',
      'on pdu-a w1',
      'on pdu-b w1',
      'on bmc w1',
    ]);
    expect(recordOf(world)?.proof).toEqual({ by: 'devices', level: 1 });
    expect(world.reasons.filter(({ reason }) => reason.code === 'not-proven')).toHaveLength(2);
  });
  it('the first one that answers, when a BMC died with its machine', () => {
    const world = settled(pdu);
    world.machine('w1').lies['bmc w1'] = 'mute';
    silent(world, 'w1').run(5 * MINUTE);
    expect(commands(world).slice(0, 2)).toEqual(['off pdu-a w1', 'off pdu-b w1']);
  });
  it('none is proven by half of its methods', () => {
    const world = settled({ defaultPlan: { isolation: [], levels: [['pdu-a {node}', 'pdu-b {node}']] } });
    world.machine('w1').lies['pdu-b w1'] = 'on';
    silent(world, 'w1').run(20 * MINUTE);
    expect(phases(world)).not.toContain('proven');
  });
});

describe('a machine that is off already', () => {
  it('is freed without a power-off, also in a storm, and is not ours to switch on', () => {
    const world = settled();
    for (const name of ['w1', 'w2', 'w3']) world.machine(name).isOn = false;
    world.run(10 * MINUTE);
    expect(commands(world)).toEqual([]);
    for (const name of ['w1', 'w2', 'w3']) {
      expect(recordOf(world, name)).toMatchObject({ phase: 'left-off', staysOff: 'nothing-sent', offSent: [] });
      expect(world.machine(name).pods).toEqual([]);
    }
  });
  it('gets no power-off either if its device said so only once before the decision', () => {
    const world = settled();
    Object.assign(world.machine('w1'), { isOn: false, lies: { 'vm w1': 'mute' } });
    world.run(3 * MINUTE);
    world.machine('w1').lies = {};
    while (world.phaseOf('w1') !== 'decided') world.run(500);
    expect(recordOf(world)?.why).toBeNull();
    world.run(10 * MINUTE);
    expect(commands(world)).toEqual([]);
    expect(recordOf(world)).toMatchObject({ phase: 'left-off', staysOff: 'nothing-sent', offSent: [] });
    expect(world.machine('w1').pods).toEqual([]);
  });
  it('that is switched on while that is being made sure is given time to boot, and then switched off like any other', () => {
    const world = settled();
    Object.assign(world.machine('w1'), { isHeard: false, lies: { 'vm w1': 'off' } });
    while (world.phaseOf('w1') !== 'decided') world.run(500);
    world.machine('w1').lies = {};
    world.run(9 * MINUTE);
    expect(commands(world)).toEqual([]);
    expect(world.phaseOf('w1')).toBe('closed');
    world.run(11 * MINUTE);
    expect(commands(world)).toEqual(['off vm w1', 'on vm w1']);
  });
  it('is closed when somebody has switched it on', () => {
    const world = settled();
    world.machine('w1').isOn = false;
    world.run(6 * MINUTE);
    Object.assign(world.machine('w1'), { isOn: true, boots: 2 });
    world.run(3 * MINUTE);
    expect(recordOf(world)).toMatchObject({ phase: 'closed' });
    expect(world.machine('w1').taints).toEqual([]);
  });
});

describe('recovery', () => {
  const recovery = aGuardConfig().recovery;
  it('leaves a machine off that was fenced too often in a day', () => {
    const world = settled({ recovery: { ...recovery, perNodePerDay: 1 } });
    silent(world, 'w1').run(15 * MINUTE);
    expect(world.phaseOf('w1')).toBe('closed');
    world.machine('w1').pods = [aPodOn()];
    silent(world, 'w1').run(15 * MINUTE);
    expect(recordOf(world)).toMatchObject({ phase: 'left-off', staysOff: 'loop' });
    expect(world.machine('w1').offs).toBe(2);
  });
  it('sends on at most so often, a minute apart, and then asks a person', () => {
    const world = silent(settled(), 'w1');
    while (world.phaseOf('w1') !== 'untainting') world.run(500);
    world.machine('w1').broken.add('vm w1');
    world.run(10 * MINUTE);
    const ons = world.commands.filter(({ act }) => act === 'on').map(({ atMs }) => atMs);
    expect(ons).toHaveLength(3);
    expect((ons[1] ?? 0) - (ons[0] ?? 0)).toBeGreaterThanOrEqual(60_000);
    expect(recordOf(world)).toMatchObject({ phase: 'not-back', why: 'on-refused' });
    expect(world.machine('w1').taints.map(({ key }) => key)).toEqual(['nodewarden.dev/fenced']);
  });
  it('of a machine that does not come back in time is a person’s, and ends by itself when it does', () => {
    const world = silent(settled(), 'w1');
    while (world.phaseOf('w1') !== 'booting') world.run(500);
    world.machine('w1').isHeard = false;
    world.run(11 * MINUTE);
    expect(recordOf(world)).toMatchObject({ phase: 'not-back', why: 'not-ready' });
    world.machine('w1').isHeard = true;
    expect(world.run(3 * MINUTE).phaseOf('w1')).toBe('closed');
  });
  it.each(['decided', 'proving', 'tainted', 'on-sent', 'booting'])(
    'never touches a machine whose Node was deleted: %s',
    (phase) => {
      const world = silent(settled(), 'w1');
      while (world.phaseOf('w1') !== phase) world.run(500);
      const before = commands(world).length;
      world.machine('w1').isDeleted = true;
      world.run(10 * MINUTE);
      expect(commands(world)).toHaveLength(before);
      expect(recordOf(world)?.phase).toMatch(/left-off|aborted|closed/);
    },
  );
  it.each(['decided', 'off-sent', 'proving', 'proven', 'tainted', 'untainting', 'on-sent', 'booting'])(
    'goes on when a list has left out its Node for a while: %s',
    (phase) => {
      const world = silent(settled(), 'w1');
      while (world.phaseOf('w1') !== phase) world.run(500);
      world.machine('w1').isLeftOut = true;
      world.run(MINUTE);
      world.machine('w1').isLeftOut = false;
      world.run(20 * MINUTE);
      expect(world.machine('w1')).toMatchObject({ pods: [], attachments: [], isOn: true, offs: 1 });
      expect(recordOf(world)).toMatchObject({ phase: 'closed', staysOff: null });
    },
  );
  it('the drain of a machine that stays off has no end: it is told once, and holds up no other', () => {
    const world = settled({
      recovery: { ...recovery, powerOn: false },
      drainWaitMs: MINUTE,
      rate: { ...aGuardConfig().rate, maxInFlight: 1 },
    });
    world.machine('w1').pods = [aPodOn({ finalizers: ['stays'] })];
    silent(world, 'w1').run(10 * MINUTE);
    expect(world.phaseOf('w1')).toBe('tainted');
    expect(world.reasons.filter(({ reason }) => reason.code === 'not-drained')).toHaveLength(1);
  });
});

describe('which one first', () => {
  const rate = { ...aGuardConfig().rate, maxInFlight: 1 };
  const storm = { ...aGuardConfig().storm, maxUnhealthyShare: 1, burst: { nodes: 9, withinMs: 1 }, domainShare: 1 };
  const first = (change: (world: World) => void): string | undefined => {
    const world = settled({ rate, storm });
    change(world);
    silent(world, 'w2', 'w3').run(5 * MINUTE);
    return world.told.flatMap(({ decision }) => (decision.kind === 'fence' ? [decision.node.name] : []))[0];
  };
  it('highest pod priority, then volumes, then longest silent, then name', () => {
    expect(first(() => {})).toBe('w2');
    expect(first((world) => silent(world, 'w3').run(12_000))).toBe('w3');
    expect(first((world) => Object.assign(world.machine('w2'), { attachments: [] }))).toBe('w3');
    expect(
      first((world) => Object.assign(world.machine('w3'), { attachments: [], pods: [aPodOn({ priority: 5 })] })),
    ).toBe('w3');
  });
});

describe('dry run', () => {
  it('decides and tells once, and touches nothing', () => {
    const world = silent(settled({ dryRun: true }), 'w1').run(30 * MINUTE);
    expect(world.told.filter(({ decision }) => decision.kind === 'fence')).toHaveLength(1);
    expect(world.told.every(({ decision }) => decision.kind !== 'fence' || decision.isDry)).toBe(true);
    expect(world.commands).toEqual([]);
    expect(world.records.size).toBe(0);
    expect(world.machine('w1').taints).toEqual([]);
    world.machine('w1').isHeard = true;
    silent(world.run(MINUTE), 'w1').run(10 * MINUTE);
    expect(world.told.filter(({ decision }) => decision.kind === 'fence')).toHaveLength(2);
  });
});

describe('a rehearsal', () => {
  const order = (world: World) => ({ id: 'r', to: world.writer(), ...ANA, verb: 'rehearse', node: on('w1') }) as const;
  const drained = { pods: [aPodOn({ ownerKind: 'DaemonSet' })], attachments: [], isUnschedulable: true };
  it('cuts one drained node without a taint, and makes its methods believed', () => {
    const world = settled({ requireRehearsal: true });
    Object.assign(world.machine('w1'), drained);
    world.orders = [order(world)];
    world.run(10 * MINUTE);
    expect(phases(world)).toEqual([
      'decided',
      'off-sent',
      'proving',
      'proving',
      'proving',
      'proven',
      'on-sent',
      'booting',
      'closed',
    ]);
    expect(world.kinds().join()).not.toContain('[tell]');
    expect(world.state().devices.get('uid-w1 vm w1')?.rehearsedWallMs).not.toBeNull();
    Object.assign(world.machine('w1'), { pods: [aPodOn()], isUnschedulable: false });
    silent(world.run(35 * MINUTE), 'w1').run(5 * MINUTE);
    expect(world.machine('w1').offs).toBe(2);
  });
  it.each<[string, Partial<Machine>, string]>([
    ['not cordoned', { ...drained, isUnschedulable: false }, 'not-cordoned'],
    ['not drained', { isUnschedulable: true }, 'not-drained'],
    ['not Ready', { ...drained, announces: true }, 'not-ready'],
  ])('is refused on a node that is %s', (_, rest, why) => {
    const world = settled();
    Object.assign(world.machine('w1'), rest);
    world.orders = [order(world)];
    world.run(40_000);
    expect(world.kinds()).toContain(`answer r ${why}`);
  });
  it('that cuts another node as well, or none, proves nothing', () => {
    const world = settled();
    Object.assign(world.machine('w1'), drained, { broken: new Set(['vm w1']) });
    world.orders = [order(world)];
    world.run(10 * MINUTE);
    expect(recordOf(world)).toMatchObject({ phase: 'closed', proof: null, offSent: ['vm w1'], attempt: 1 });
    expect(world.state().devices.get('uid-w1 vm w1')?.rehearsedWallMs).toBeNull();
    const both = settled();
    Object.assign(both.machine('w1'), drained);
    both.orders = [order(both)];
    while (both.commands.length === 0) both.run(500);
    silent(both, 'w2').run(10 * MINUTE);
    expect(recordOf(both)?.phase).toBe('closed');
    expect(both.state().devices.get('uid-w1 vm w1')?.rehearsedWallMs).toBeNull();
  });
});

describe('an order of a person', () => {
  const fence = (world: World) => ({ id: 'f', to: world.writer(), ...ANA, verb: 'fence', node: on('w1') }) as const;
  it('whose answer cannot be stored is carried out once, also when it was not read for a while', () => {
    const world = settled();
    const order = fence(world);
    const run = (ms: number): void => {
      for (let ranMs = 0; ranMs < ms; ranMs += 500) {
        world.orders = [order];
        world.run(500);
      }
    };
    run(5 * MINUTE);
    expect(recordOf(world)?.phase).toBe('closed');
    world.areMapsRead = false;
    run(MINUTE);
    world.areMapsRead = true;
    run(5 * MINUTE);
    expect(world.machine('w1').offs).toBe(1);
  });
  it('that does not work on a living node ends, and leaves it alone', () => {
    const world = settled();
    world.machine('w1').broken.add('vm w1');
    world.orders = [fence(world)];
    world.run(30 * MINUTE);
    expect(recordOf(world)).toMatchObject({ phase: 'closed', proof: null });
    expect(world.machine('w1').offs).toBe(0);
  });
  it.each<[string, 'fence' | 'rehearse', Partial<Machine>]>([
    ['to fence it', 'fence', {}],
    ['to rehearse it', 'rehearse', { pods: [], attachments: [], isUnschedulable: true }],
  ])('%s is not carried out on a living node by the next leader', (_, verb, drained) => {
    const world = settled();
    Object.assign(world.machine('w1'), drained);
    world.orders = [{ ...fence(world), verb }];
    while (world.phaseOf('w1') !== 'decided') world.run(500);
    world.restart();
    world.run(10 * MINUTE);
    expect(recordOf(world)).toMatchObject({ why: 'too-late', offSent: [] });
    expect(world.machine('w1').offs).toBe(0);
  });
});

describe('why, or why not', () => {
  const explained = (world: World, name = 'w1') => explainNode(world.state(), world.observe(), world.config, name);
  it('a living node, a suspect, a dead one that is held, and one that is fenced', () => {
    const world = settled();
    expect(explained(world)).toMatchObject({
      class: 'healthy',
      deciding: { gate: 'dead' },
      overruledBy: 'fence',
      fencing: null,
    });
    expect(explained(world, 'w9')).toBeNull();
    world.machine('w1').witness = 'answers';
    silent(world, 'w1').run(MINUTE);
    expect(explained(world)).toMatchObject({
      class: 'suspect',
      deciding: { gate: 'dead', because: 'not-silent-enough' },
    });
    world.run(3 * MINUTE);
    const held = explained(world);
    expect(held).toMatchObject({ class: 'dead', deciding: { gate: 'witness' }, overruledBy: null, opensMs: null });
    expect(held?.frees?.pods.map(({ name }) => name)).toEqual(['db-w1']);
    expect(held?.gates).toHaveLength(9);
    world.machine('w1').witness = 'silent';
    while (world.phaseOf('w1') !== 'booting') world.run(500);
    world.run(1_000);
    const booting = explained(world);
    expect(booting?.fencing?.fencing.record.phase).toBe('booting');
    expect(booting?.fencing?.dueMs).not.toBeNull();
    expect(booting?.devices.map(({ method }) => method)).toEqual(['vm w1']);
  });
  it('when it would be fenced by itself, and what a person may do', () => {
    const world = silent(settled(), 'w1', 'w2', 'w3').run(4 * MINUTE);
    expect(explained(world)).toMatchObject({
      deciding: { gate: 'storm', because: 'cluster' },
      overruledBy: 'release',
      opensMs: null,
    });
    for (const name of ['w2', 'w3']) world.machine(name).isHeard = true;
    world.run(MINUTE);
    // The cluster cools down, but a burst lasts while one of its nodes is silent.
    expect(explained(world)).toMatchObject({
      deciding: { gate: 'storm', because: 'burst' },
      overruledBy: 'release',
      opensMs: null,
    });
    world.orders = [{ id: 'p', to: world.writer(), ...ANA, verb: 'pause' }];
    world.run(6_000);
    expect(explained(world)).toMatchObject({ deciding: { gate: 'self', because: 'paused' }, overruledBy: 'resume' });
  });
});
