import { describe, expect, it } from 'vitest';
import { isWaiting } from '../../../src/core/guard/explain.ts';
import { aGuardConfig } from './a-guard-config.ts';
import { aMachine, type Machine } from './a-machine.ts';
import { aWorld } from './a-world.ts';

type World = ReturnType<typeof aWorld>;
const MINUTE = 60_000;
const workers = (count: number): readonly Machine[] => Array.from({ length: count }, (_, i) => aMachine(`w${i + 1}`));
function silent(world: World, ...names: readonly string[]): World {
  for (const name of names) world.machine(name).isHeard = false;
  return world;
}
function until(phase: string, world: World, name: string): World {
  while (world.phaseOf(name) !== phase) world.run(500);
  return world;
}
const FOREIGN = { key: 'node.kubernetes.io/out-of-service', value: 'nodeshutdown', effect: 'NoExecute' } as const;
const commands = ({ commands: sent }: World): readonly string[] => sent.map(({ act, method }) => `${act} ${method}`);

describe('devices that are corrected while nothing is proven', () => {
  it('are used by another fencing, once what got an off was sent its on', () => {
    const config = { ...aGuardConfig({ defaultPlan: { isolation: [], levels: [['bmc {node}']] } }) };
    const world = silent(aWorld(workers(5), config).run(5 * MINUTE), 'w1');
    const machine = world.machine('w1');
    machine.broken.add('bmc w1');
    until('off-sent', world, 'w1');
    Object.assign(machine.lies, { 'bmc w1': 'mute' });
    until('failed', world, 'w1');
    Object.assign(config, { defaultPlan: { isolation: [], levels: [['pdu {node}']] } });
    expect(commands(world.run(10 * MINUTE))).toEqual([
      ...['off bmc w1', 'off bmc w1', 'on bmc w1'],
      ...['off pdu w1', 'on pdu w1'],
    ]);
    expect(machine.offs).toBe(1);
    expect(world.phaseOf('w1')).toBe('closed');
  });
});

describe('an off that takes effect when its machine has come back', () => {
  it.each([10_000, 50_000, 110_000])('is followed by an on: %d ms after the first one', (lateMs) => {
    const recovery = { ...aGuardConfig().recovery, stableForMs: 20_000 };
    const world = silent(aWorld(workers(5), aGuardConfig({ recovery })).run(5 * MINUTE), 'w1');
    const machine = world.machine('w1');
    machine.broken.add('vm w1');
    until('proving', world, 'w1');
    machine.isHeard = true;
    until('booting', world, 'w1').run(lateMs);
    expect(world.phaseOf('w1')).toBe('booting');
    Object.assign(machine, { isOn: false, broken: new Set() });
    until('closed', world, 'w1');
    expect(machine).toMatchObject({ isOn: true, ready: 'True', taints: [], offs: 0 });
    expect(commands(world)).toEqual(['off vm w1', 'on vm w1', 'on vm w1']);
  });
});

describe('fencings that wait for their gates, decided and not begun', () => {
  const order = (world: World, verb: 'pause' | 'resume'): World => {
    world.orders = [{ id: verb, to: world.writer(), by: 'ana', because: 'a test', verb }];
    return world.run(2_000);
  };
  /** Two that were decided and paused at once, for a minute. */
  const paused = (): World => {
    const world = aWorld(workers(12)).run(5 * MINUTE);
    for (const name of ['w1', 'w2']) {
      until('decided', silent(world, name), name);
      order(world, 'pause');
      Object.assign(world.machine(name).lies, { [`vm ${name}`]: 'mute' });
      order(world.run(MINUTE), 'resume').run(MINUTE);
    }
    return world;
  };
  it('stand in the way of no other one, and end when the gates stay closed', () => {
    const world = paused();
    expect(['w1', 'w2'].map((name) => world.phaseOf(name))).toEqual(['decided', 'decided']);
    until('closed', silent(world, 'w3'), 'w3');
    expect(commands(world)).toEqual(['off vm w3', 'on vm w3']);
    const ended = ['w1', 'w2'].map(
      (name) => [...world.run(15 * MINUTE).records.values()].find(({ record }) => record.node.name === name)?.record,
    );
    expect(ended).toMatchObject([
      { phase: 'closed', why: 'silent' },
      { phase: 'closed', why: 'silent' },
    ]);
  });
  it('keep the limits together when all gates open at once', () => {
    const world = paused();
    for (const name of ['w1', 'w2']) world.machine(name).lies = {};
    world.run(5 * MINUTE);
    const [first, second] = world.commands.filter(({ act }) => act === 'off').map(({ atMs }) => atMs);
    expect((second ?? 0) - (first ?? 0)).toBeGreaterThanOrEqual(30_000);
  });
});

describe('a clock that jumps', () => {
  const HOUR = 60 * MINUTE;
  const plan = (isolation: readonly string[]) => aGuardConfig({ defaultPlan: { isolation, levels: [['vm {node}']] } });
  const dead = (isolation: readonly string[]): World => {
    const world = silent(aWorld(workers(5), plan(isolation)).run(5 * MINUTE), 'w1');
    world.machine('w1').broken.add('vm w1');
    while (commands(world).length === 0) world.run(500);
    return world;
  };
  it.each<[string, readonly string[]]>([
    ['the second attempt', []],
    ['the off after the fabric was cut', ['fabric {node}']],
  ])('holds a further off of that very look, whatever was decided before: %s', (_, isolation) => {
    const other = dead(isolation);
    while (commands(other).length < 2) other.run(500);
    const dueMs = other.commands[1]?.atMs ?? 0;
    const world = dead(isolation);
    world.run(dueMs - world.nowMs() - 500);
    world.skewMs = HOUR;
    world.run(500);
    expect(world.reasons.at(-1)).toMatchObject({ atMs: dueMs, reason: { code: 'settling', for: 'clock-jump' } });
    expect(commands(world)).toHaveLength(1);
    expect(commands(world.run(MINUTE)).slice(0, 2)).toEqual(commands(other).slice(0, 2));
  });
  it('holds an off whose record was just stored', () => {
    const world = dead([]);
    let jumpedMs: number | null = null;
    world.meanwhile = ({ attempt }) => {
      if (attempt !== 2 || jumpedMs !== null) return;
      jumpedMs = world.nowMs();
      world.skewMs = HOUR;
    };
    while (jumpedMs === null) world.run(500);
    expect(commands(world)).toHaveLength(1);
    expect(commands(world.run(MINUTE)).slice(0, 2)).toEqual(['off vm w1', 'off vm w1']);
  });
});

describe('what holds an off after the decision', () => {
  it('G5: a storm that begins after the first command holds the next one until its cool-down is over', () => {
    const world = until('proving', silent(aWorld(workers(10)).run(5 * MINUTE), 'w1'), 'w1');
    Object.assign(world.machine('w1').lies, { 'vm w1': 'mute' });
    silent(world, 'w2', 'w3', 'w4').run(4 * MINUTE);
    expect(commands(world)).toEqual(['off vm w1']);
    expect(world.phaseOf('w1')).toBe('proving');
    for (const name of ['w2', 'w3', 'w4']) world.machine(name).isHeard = true;
    expect(commands(world.run(9 * MINUTE))).toEqual(['off vm w1']);
    expect(commands(world.run(3 * MINUTE))).toEqual(['off vm w1', 'off vm w1']);
  });
  it('G5: the next level too', () => {
    const config = aGuardConfig({ defaultPlan: { isolation: [], levels: [['bmc {node}'], ['pdu {node}']] } });
    const world = silent(aWorld(workers(10), config).run(5 * MINUTE), 'w1');
    world.machine('w1').broken.add('bmc w1');
    while (commands(world).length < 2) world.run(500);
    Object.assign(world.machine('w1').lies, { 'bmc w1': 'mute' });
    silent(world, 'w2', 'w3', 'w4').run(6 * MINUTE);
    expect(commands(world)).toEqual(['off bmc w1', 'off bmc w1']);
  });
  it('G9: another control-plane node that falls silent, also for the order of a person', () => {
    const labels = { 'node-role.kubernetes.io/control-plane': '' };
    const machines = [...['c1', 'c2', 'c3'].map((name) => aMachine(name, { labels })), ...workers(3)];
    const world = aWorld(machines, aGuardConfig({ controlPlane: 'oneAtATime' })).run(5 * MINUTE);
    const node = { name: 'c1', uid: 'uid-c1' };
    silent(world, 'c1').run(MINUTE);
    world.orders = [{ id: 'o1', to: world.writer(), by: 'ana', because: 'a test', verb: 'fence', node }];
    until('proving', world, 'c1');
    Object.assign(world.machine('c1').lies, { 'vm c1': 'mute' });
    silent(world, 'c2').run(4 * MINUTE);
    expect(commands(world)).toEqual(['off vm c1']);
    world.machine('c2').isHeard = true;
    expect(commands(world.run(2 * MINUTE))).toEqual(['off vm c1', 'off vm c1']);
  });
  it.each<[string, (world: World) => unknown]>([
    ['a kubelet that answers by now', (world) => Object.assign(world.machine('w1'), { witness: 'answers' })],
    ['a storm that began meanwhile', (world) => silent(world, 'w2', 'w3', 'w4')],
  ])('G6: %s, when the API was away before anything was sent', (_, happens) => {
    const world = until('decided', silent(aWorld(workers(10)).run(5 * MINUTE), 'w1'), 'w1');
    world.isApiUp = false;
    happens(world.run(MINUTE));
    world.isApiUp = true;
    expect(commands(world.run(10 * MINUTE))).toEqual([]);
  });
});

describe('what happens while the record of an act is being stored', () => {
  const MEANWHILE: readonly (readonly [string, (machine: Machine, world: World) => unknown])[] = [
    ['it renews its lease', (machine) => Object.assign(machine, { isHeard: true, renewals: machine.renewals + 1 })],
    ['it boots', (machine) => Object.assign(machine, { isHeard: true, boots: 2 })],
    ['it is to be left alone', ({ annotations }) => Object.assign(annotations, { 'nodewarden.dev/guard': 'skip' })],
    ['its Node is another one', (machine) => Object.assign(machine, { uid: 'uid-new', isHeard: true })],
    [
      'it is excluded',
      ({ labels }) => Object.assign(labels, { 'remediation.medik8s.io/exclude-from-remediation': 'true' }),
    ],
  ];
  const at = (phase: string, happens: (machine: Machine, world: World) => unknown): World => {
    const world = silent(aWorld(workers(10)).run(5 * MINUTE), 'w1');
    world.meanwhile = (record) => {
      if (record.phase !== phase) return;
      world.meanwhile = () => undefined;
      happens(world.machine('w1'), world);
    };
    return world;
  };

  it.each(MEANWHILE)('%s: no off is sent, and it is not called sent', (_, happens) => {
    const world = at('off-sent', happens).run(9 * MINUTE);
    expect(commands(world)).toEqual([]);
    const [fencing] = [...world.records.values()];
    expect(fencing?.record.offSent).toEqual([]);
    expect(['aborted', 'closed']).toContain(fencing?.record.phase);
  });

  it('a living machine is not set out of service', () => {
    const world = at('proven', (machine) => Object.assign(machine, { isOn: true, isHeard: true, boots: 2 }));
    world.run(9 * MINUTE);
    expect(world.kinds().filter((kind) => kind.includes('tainted'))).toEqual([]);
  });

  it('a machine that somebody else set out of service meanwhile is switched on when that is over', () => {
    const world = at('on-sent', ({ taints }) => taints.push(FOREIGN)).run(12 * MINUTE);
    expect(commands(world)).toEqual(['off vm w1']);
    world.machine('w1').taints = [];
    expect(commands(world.run(3 * MINUTE))).toEqual(['off vm w1', 'on vm w1']);
  });
  it('so it is by the next leader, to which its device does not answer for as long as the taint is there', () => {
    const world = at('on-sent', ({ taints }) => taints.push(FOREIGN)).run(12 * MINUTE);
    const machine = world.machine('w1');
    Object.assign(machine.lies, { 'vm w1': 'mute' });
    world.restart();
    world.run(30 * MINUTE);
    machine.taints = [];
    machine.lies = {};
    expect(commands(world.run(3 * MINUTE))).toEqual(['off vm w1', 'on vm w1']);
  });
  it('and until then, it is not called sent', () => {
    const world = at('on-sent', ({ taints }) => taints.push(FOREIGN)).run(12 * MINUTE);
    const [fencing] = [...world.state().fencings.values()];
    expect(fencing && isWaiting(fencing)).toBe(true);
    expect([...world.records.values()][0]?.record).toMatchObject({ phase: 'on-sent', onSent: [], onAttempt: 0 });
    world.machine('w1').taints = [];
    while (commands(world).length < 2) world.run(500);
    const sent = world.state().fencings.get(fencing?.record.id ?? '');
    expect(sent && isWaiting(sent)).toBe(false);
  });
});

describe('a Node that is made anew while its fencing is under way', () => {
  const anew = (phase: string, isHeard: boolean): World => {
    const world = until(phase, silent(aWorld(workers(5)).run(5 * MINUTE), 'w1'), 'w1');
    const machine = world.machine('w1');
    if (isHeard) Object.assign(machine, { isOn: true, boots: 2, isHeard });
    machine.uid = 'uid-new';
    return world;
  };
  const order = (world: World) => ({
    ...{ id: 'o1', to: world.writer(), by: 'ana', because: 'a test' },
    ...({ verb: 'power-on', node: { name: 'w1', uid: 'uid-new' } } as const),
  });
  const phase = (world: World): string | undefined => [...world.records.values()][0]?.record.phase;

  it.each(['proving', 'tainted', 'booting'])('lives, and is sent nothing: %s ends, and it is closed', (before) => {
    const world = anew(before, true);
    const sent = commands(world);
    expect(phase(world.run(30_000))).toBe('left-off');
    expect(phase(world.run(2 * MINUTE))).toBe('closed');
    expect(commands(world)).toEqual(sent);
  });
  it('is silent, and is switched on by the order of a person alone', () => {
    const world = anew('proving', false).run(70 * MINUTE);
    expect([phase(world), ...commands(world)]).toEqual(['left-off', 'off vm w1']);
    world.orders = [order(world)];
    expect(commands(world.run(3 * MINUTE))).toEqual(['off vm w1', 'on vm w1']);
    expect(phase(world)).toBe('closed');
  });
  it('is not switched on under a taint of somebody else that was set while its record was being stored', () => {
    const world = anew('proving', false).run(MINUTE);
    world.meanwhile = ({ phase: to }) => {
      if (to === 'on-sent') world.machine('w1').taints = [FOREIGN];
    };
    world.orders = [order(world)];
    expect(commands(world.run(20 * MINUTE))).toEqual(['off vm w1']);
    Object.assign(world, { meanwhile: () => undefined });
    world.machine('w1').taints = [];
    expect(commands(world.run(3 * MINUTE))).toEqual(['off vm w1', 'on vm w1']);
    expect(phase(world)).toBe('closed');
  });
});
