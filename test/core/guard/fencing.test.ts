import { describe, expect, it } from 'vitest';
import { cutsWallMs } from '../../../src/core/guard/rate.ts';
import { aGuardConfig } from './a-guard-config.ts';
import { aMachine, aPodOn, five } from './a-machine.ts';
import { aWorld } from './a-world.ts';

const MINUTE = 60_000;
const SETTLED = 5 * MINUTE;

describe('a machine that dies', () => {
  const world = aWorld(five()).run(SETTLED);
  world.machine('w1').isHeard = false;
  world.run(15 * MINUTE);

  it('is switched off once, freed, switched on, and left without a mark', () => {
    expect(world.kinds().filter((kind) => !kind.startsWith('hold'))).toEqual([
      'fence w1',
      'advance w1 decided > off-sent [off]',
      'advance w1 off-sent > proving',
      'advance w1 proving > proving',
      'advance w1 proving > proven [tell]',
      'advance w1 proven > tainted',
      'advance w1 tainted > untainting [untell]',
      'recover w1 untainting > on-sent [on]',
      'advance w1 on-sent > booting',
      'close w1 booting > closed [clear]',
    ]);
    const { offs, boots, taints, pods, attachments } = world.machine('w1');
    expect({ offs, boots, taints, pods, attachments }).toEqual({
      offs: 1,
      boots: 2,
      taints: [],
      pods: [],
      attachments: [],
    });
  });
  it('is decided within deadAfter and 20 s of its last sign of life', () => {
    const fenced = world.told.find(({ decision }) => decision.kind === 'fence');
    expect(fenced?.atMs).toBeLessThanOrEqual(SETTLED + 2 * MINUTE + 20_000);
  });
  it('leaves everybody else alone', () => {
    expect(world.commands.map(({ method }) => method)).toEqual(['vm w1', 'vm w1']);
  });
});

describe('what holds a dead machine', () => {
  it('is not told while its devices have only just been asked, and is once they stay silent', () => {
    const world = aWorld(five()).run(SETTLED);
    world.machine('w1').isHeard = false;
    world.run(15 * MINUTE);
    expect(world.kinds().filter((kind) => kind.startsWith('hold'))).toEqual([]);
    const mute = aWorld(five()).run(SETTLED);
    mute.machine('w1').isHeard = false;
    mute.machine('w1').lies = { 'vm w1': 'mute' };
    mute.run(5 * MINUTE);
    expect(mute.kinds()).toEqual(['hold w1 device silent']);
  });
});

/** `kubectl annotate`: another resourceVersion, and the same record. */
function touch({ records }: ReturnType<typeof aWorld>): void {
  for (const [id, stored] of records) records.set(id, { ...stored, version: stored.version + 1 });
}

describe('a fencing of which somebody annotates the ConfigMap', () => {
  it('goes on: the taint goes within 10 s when somebody switches the machine on', () => {
    const world = aWorld(five()).run(5 * MINUTE);
    const machine = world.machine('w1');
    Object.assign(machine, { isHeard: false, pods: [aPodOn({ finalizers: ['it-stays'] })] });
    const isTainted = (): boolean => machine.taints.some(({ key }) => key.endsWith('/out-of-service'));
    for (let ticks = 0; ticks < 1_000 && !isTainted(); ticks += 1) world.run(500);
    touch(world.run(5_000));
    Object.assign(machine, { isOn: true, isHeard: true, boots: 2, bootedMs: 0 });
    expect(isTainted()).toBe(true);
    world.run(15_000);
    expect(isTainted()).toBe(false);
    expect(world.reasons.filter(({ reason }) => reason.code === 'conflict')).toEqual([]);
  });
});

describe('a machine of which one of two outlets is silent after its off', () => {
  it('is not cut again if somebody has switched it on since, however long that is awaited (G4)', () => {
    const names = Array.from({ length: 10 }, (_, i) => `w${i + 1}`);
    const levels = [['pdu-a {node}', 'pdu-b {node}']];
    const world = aWorld(
      names.map((name) => aMachine(name)),
      aGuardConfig({ defaultPlan: { isolation: [], levels } }),
    );
    world.run(10 * MINUTE);
    const w1 = world.machine('w1');
    w1.isHeard = false;
    for (let i = 0; i < 3_000 && w1.offs === 0; i++) world.run(500);
    w1.lies = { 'pdu-b w1': 'mute' };
    const saysOff = () => world.state().devices.get('uid-w1 pdu-a w1')?.says === 'off';
    for (let i = 0; i < 100 && !saysOff(); i++) world.run(500);
    w1.isOn = true;
    // A server takes three minutes until it renews its lease.
    w1.bootedMs = 1_000_000 + world.nowMs() + 3 * MINUTE;
    w1.isHeard = true;
    world.run(170_000);
    expect([w1.offs, w1.isOn]).toEqual([1, true]);
  });
});

describe('a patch that the API refuses for two minutes', () => {
  const world = aWorld(five()).run(2 * SETTLED);
  world.machine('w1').isHeard = false;
  for (let i = 0; i < 3_000 && world.phaseOf('w1') !== 'tainted'; i++) world.run(500);
  world.refuses = ['untell'];
  const before = world.told.length;
  world.run(2 * MINUTE);
  const tried = world.told.length - before;
  world.refuses = [];
  // The last try was not long ago.
  const wasGoneBy = world.run(15_000).machine('w1').taints;
  world.run(5 * MINUTE);

  it('is one step, however often it is tried', () => {
    const phases = world.records.get('w1-1')?.record.steps.map(({ phase }) => phase);
    const before = ['decided', 'off-sent', 'proving', 'proven', 'tainted'];
    expect(phases).toEqual([...before, 'untainting', 'on-sent', 'booting', 'closed']);
  });
  it('is tried again and again, but not every second, and soon once the API takes it', () => {
    expect(tried).toBeLessThan(25);
    expect(wasGoneBy.map(({ key }) => key)).not.toContain('node.kubernetes.io/out-of-service');
  });
  it('does not make a power-off uncounted', () => {
    const { records, ...now } = world.observe();
    expect(cutsWallMs(records.known ? records.value : [], world.state(), now, null)).toHaveLength(1);
  });
});
