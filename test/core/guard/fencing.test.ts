import { describe, expect, it } from 'vitest';
import { aPodOn, five } from './a-machine.ts';
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
