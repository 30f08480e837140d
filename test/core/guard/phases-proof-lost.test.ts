import { describe, expect, it } from 'vitest';
import { aPodOn, five } from './a-machine.ts';
import { elected, LEASE, RENEWED, SINCE, turnRows } from './a-turn.ts';
import { aWorld } from './a-world.ts';

const rows = turnRows();
const SENT = { offSent: ['vm w1'], attempt: 1, proof: { by: 'devices', level: 0 } } as const;
const LOST = '> failed why=proof-lost [untell] !not-proven proof-lost';
const slow = (said: readonly number[]) => ({
  device: { recent: said.map((ms) => ({ says: 'off', begunMs: SINCE + ms, endedMs: SINCE + ms + 16_000 }) as const) },
});

describe('a fencing that is proven, and whose patch was not taken', () => {
  const refused = { fencing: { acted: { kind: 'failed', why: 'error', detail: '' } } } as const;
  rows('proven', SENT, [
    ['asks its devices for two more rounds', { ...refused, atMs: 54_999, said: {} }, '? vm w1/6000'],
    ['fails when they do not come, and removes what it may have written', { ...refused, atMs: 55_000, said: {} }, LOST],
    [
      'waits longer for a device that is slow',
      { ...refused, ...slow([60_000, 82_000]), atMs: 99_999, said: { 'vm w1': ['off@82000'] } },
      '? vm w1/6000',
    ],
    [
      'but no longer when its answers come too late to be of use',
      { ...refused, ...slow([60_000, 82_000]), atMs: 100_000, said: { 'vm w1': ['off@82000'] } },
      LOST,
    ],
    [
      'asks first when it was a standby that knew the record for long',
      { fencing: { isTakenOver: true }, atMs: 354_999, said: {}, ...elected(300_000) },
      '? vm w1/6000',
    ],
    [
      'and fails if they do not come',
      { fencing: { isTakenOver: true }, atMs: 355_000, said: {}, ...elected(300_000) },
      LOST,
    ],
  ]);
});

describe('a fencing that failed after its proof', () => {
  const untold = { fencing: { acted: { kind: 'patched' } } } as const;
  const TWICE_OFF = { said: { 'vm w1': ['off@1000', 'off@7000'] } } as const;
  const TWO_LEVELS = { plan: { isolation: [], levels: [['vm w1'], ['pdu w1']] } };
  const SAME_LEVELS = { config: { plans: { w1: TWO_LEVELS.plan } } };
  rows('failed', SENT, [
    ['removes the taint first', { ...TWICE_OFF, memory: RENEWED }, '> failed [untell]'],
    ['also if it was taken over', { ...TWICE_OFF, fencing: { isTakenOver: true } }, '> failed [untell]'],
    ['goes on when its devices say off twice', { ...untold, ...TWICE_OFF }, '> proving why=null'],
    ['asks them until then', { ...untold, said: { 'vm w1': ['off@7000'] } }, '? vm w1/6000'],
    [
      'however long that takes, and without another off, also by the next level',
      {
        ...untold,
        atMs: 9_000_000,
        record: TWO_LEVELS,
        said: { 'vm w1': [], 'pdu w1': ['on@8999000'] },
        ...SAME_LEVELS,
      },
      '? vm w1/6000',
    ],
    [
      'not by answers that come too late',
      { ...untold, ...slow([1_000, 30_000]), atMs: 47_000, said: { 'vm w1': ['off@30000'] } },
      '? vm w1/6000',
    ],
    [
      'leaves a machine alone that somebody has switched on',
      { ...untold, said: { 'vm w1': ['on@7000'] } },
      '> on-sent why=switched-on onSent=vm w1 onAttempt=1 [on vm w1]',
    ],
    [
      'or ends, if it sent nothing',
      { ...untold, said: { 'vm w1': ['on@7000'] }, record: { offSent: [] } },
      '> aborted why=not-off-any-more isAlive=false',
    ],
    [
      'or shows life',
      { ...untold, lease: { ...LEASE, renewed: 'r2' } },
      '> on-sent why=life isAlive=true onSent=vm w1 onAttempt=1 [on vm w1]',
    ],
    [
      'ends when its devices are configured otherwise',
      { ...untold, said: {}, config: { outdated: ['uid-w1'] } },
      '> on-sent why=devices-changed onSent=vm w1 onAttempt=1 [on vm w1]',
    ],
  ]);
  rows('proving', SENT, [
    [
      'waits on if its proof does not come after all',
      { atMs: 100_000, said: {} },
      '> failed why=proof-lost !not-proven silent',
    ],
  ]);
});

describe('a device that falls silent while its machine is tainted', () => {
  const MINUTE = 60_000;
  const world = aWorld(five()).run(5 * MINUTE);
  const w1 = world.machine('w1');
  const isTainted = (): boolean => w1.taints.some(({ key }) => key.endsWith('/out-of-service'));
  w1.isHeard = false;
  w1.pods = [aPodOn({ finalizers: ['it-stays'] })];
  while (!isTainted()) world.run(500);
  w1.lies = { 'vm w1': 'mute' };

  it('has the taint removed, because nobody knows whether the machine is off', () => {
    world.run(65_000);
    expect(isTainted()).toBe(false);
    expect(world.phaseOf('w1')).toBe('failed');
  });
  it('has it written again, by a proof of its own, when it says off again; and no second off', () => {
    world.run(30 * MINUTE);
    w1.lies = {};
    w1.pods = [aPodOn()];
    world.run(20 * MINUTE);
    expect(world.kinds().filter((kind) => !kind.startsWith('hold'))).toEqual([
      'fence w1',
      'advance w1 decided > off-sent [off]',
      'advance w1 off-sent > proving',
      'advance w1 proving > proving',
      'advance w1 proving > proven [tell]',
      'advance w1 proven > tainted',
      'advance w1 tainted > failed [untell]',
      'advance w1 failed > proving',
      'advance w1 proving > proven [tell]',
      'advance w1 proven > tainted',
      'advance w1 tainted > untainting [untell]',
      'recover w1 untainting > on-sent [on]',
      'advance w1 on-sent > booting',
      'close w1 booting > closed [clear]',
    ]);
    expect(w1).toMatchObject({ offs: 1, taints: [] });
  });
});

describe('a guard that did not lead for a while, and leads again while a machine is tainted', () => {
  const MINUTE = 60_000;
  const world = aWorld(five()).run(5 * MINUTE);
  const w1 = world.machine('w1');
  const isTainted = (): boolean => w1.taints.some(({ key }) => key.endsWith('/out-of-service'));
  w1.isHeard = false;
  w1.pods = [aPodOn({ finalizers: ['it-stays'] })];
  while (!isTainted()) world.run(500);
  world.run(20_000);
  const leadAgain = (): void => {
    world.isLeader = false;
    world.run(90_000);
    world.isLeader = true;
    world.epoch += 1;
  };

  it('keeps the taint while its device says off', () => {
    leadAgain();
    world.run(2 * MINUTE);
    expect(world.phaseOf('w1')).toBe('tainted');
    expect(world.kinds()).not.toContain('advance w1 tainted > failed [untell]');
  });
  it('removes it if the device is silent, and asks for as long as at any time before', () => {
    w1.lies = { 'vm w1': 'mute' };
    leadAgain();
    world.run(54_000);
    expect(isTainted()).toBe(true);
    world.run(2_000);
    expect(isTainted()).toBe(false);
  });
});

describe('a guard that is elected every 45 s while a machine is tainted whose device is silent', () => {
  const world = aWorld(five()).run(300_000);
  const w1 = world.machine('w1');
  const isTainted = (): boolean => w1.taints.some(({ key }) => key.endsWith('/out-of-service'));
  w1.isHeard = false;
  w1.pods = [aPodOn({ finalizers: ['it-stays'] })];
  while (!isTainted()) world.run(500);
  world.run(20_000);
  w1.lies = { 'vm w1': 'mute' };

  it('does not ask anew for as long each time', () => {
    world.run(45_000);
    world.isLeader = false;
    world.run(1_000);
    world.isLeader = true;
    world.epoch += 1;
    expect(isTainted()).toBe(true);
    world.run(15_000);
    expect(isTainted()).toBe(false);
  });
});
