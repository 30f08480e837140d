import { describe, expect, it } from 'vitest';
import type { Order } from '../../../src/core/guard/observation.ts';
import { five, type Machine } from './a-machine.ts';
import { elected, type Given, LEASE, RENEWED, SINCE, sayTurn, turnRows } from './a-turn.ts';
import { aWorld } from './a-world.ts';

const MINUTE = 60_000;
const PERSON = { by: 'person', name: 'ana' } as const;
const CONFIRMED = { order: { verb: 'confirm-off', by: 'ana', because: '' }, proof: PERSON } as const;
const TAKEN = { fencing: { isTakenOver: true } };
const PROVEN = '> proven proof={"by":"person","name":"ana"} [tell 7 until';

/** `vm w1` was asked once by this process, so long after the phase began. */
const asked = (said: 'on' | 'unknown', ms: number): Given => ({ said: { 'vm w1': [`${said}@${ms}`] } });

describe('the word of a person', () => {
  turnRows()('proving', { ...CONFIRMED, offSent: ['vm w1'], attempt: 1 }, [
    ['counts at once', asked('unknown', -1_000), `${PROVEN} 25000]`],
    ['goes when a device refutes it', asked('on', 1_000), '> failed why=device-says-on isAlive=false proof=null'],
    ['also one that was slow to answer', asked('on', -500), '> failed why=device-says-on isAlive=false proof=null'],
    ['not by what it said before', asked('on', -501), `${PROVEN} 25000]`],
    [
      'and what its devices had proven before stays: no other off follows (G4)',
      { ...asked('on', 1_000), record: { steps: [{ phase: 'proven', wallMs: 0 }] } },
      '> failed why=device-says-on isAlive=false proof={"by":"devices","level":0}',
    ],
    ['or a sign of life', { memory: RENEWED }, '> failed why=life isAlive=true proof=null'],
    ['or a look', { lease: { ...LEASE, renewed: 'r2' } }, '> failed why=life isAlive=true proof=null'],
    [
      'is compared with its devices while it waits for the cluster',
      { ...asked('unknown', -1_000), lookMs: -6_000 },
      '? look vm w1/6000',
    ],
    [
      'taken over waits until they were asked once more',
      { ...TAKEN, ...asked('unknown', -1) },
      '? vm w1/6000 by 60000',
    ],
    [
      'and goes when one says on',
      { ...TAKEN, ...asked('on', 1) },
      '> failed why=device-says-on isAlive=false proof=null',
    ],
    ['and counts when they are silent', { ...TAKEN, ...asked('unknown', 0) }, `${PROVEN} 25000]`],
    ['or have not answered by then', { ...TAKEN, said: {}, atMs: 60_000 }, `${PROVEN} 75000]`],
    [
      'and does not wait for a device that it overrules',
      { ...TAKEN, said: {}, record: { why: 'device-is-wrong' } },
      `${PROVEN} 25000]`,
    ],
    [
      'and waits for them since it was elected, however long it has known the record',
      { ...TAKEN, ...elected(200_000), said: {}, atMs: 201_000 },
      '? vm w1/6000 by 260000',
    ],
    [
      'also if it was that leader itself',
      { ...elected(200_000), ...asked('unknown', 100_000), atMs: 201_000 },
      '? vm w1/6000 by 260000',
    ],
    ['and counts then', { ...elected(200_000), ...asked('unknown', 200_000), atMs: 201_000 }, `${PROVEN} 216000]`],
    [
      'goes when a device refuted it while it was stored',
      { ...asked('on', -1_500), fencing: { decidedMs: SINCE - 1_000 } },
      '> failed why=device-says-on isAlive=false proof=null',
    ],
  ]);
  const again = { acted: { kind: 'failed', why: 'conflict', detail: '' } } as const;
  turnRows()('proven', CONFIRMED, [
    ['is told once more', { ...asked('unknown', 1_000), fencing: again }, `${PROVEN} 25000]`],
    ['not if a device says on by now', { ...asked('on', 1_000), fencing: again }, '> untainting isAlive=true [untell]'],
    [
      'nor if it said so before the taint could be sent',
      { ...asked('on', -1_500), fencing: { acted: { kind: 'not-begun', detail: '' }, decidedMs: SINCE - 1_000 } },
      '> untainting isAlive=true [untell]',
    ],
    [
      'nor does the taint stand until the next watch if it said so while that was sent',
      { ...asked('on', 1_000), fencing: { acted: { kind: 'patched' } } },
      '> untainting isAlive=true [untell] !life-after-proof',
    ],
    ['taken over waits for its devices', { ...TAKEN, ...asked('unknown', -1) }, '? vm w1/6000 by 60000'],
    ['and is not told if one says on', { ...TAKEN, ...asked('on', 1) }, '> untainting isAlive=true [untell]'],
  ]);
  it('is no proof of an off that follows', () => {
    expect(sayTurn({ record: CONFIRMED })).toBe('> off-sent level=0 attempt=1 proof=null offSent=vm w1 [off vm w1]');
  });
});

/** Ready stays as it is while kube-controller-manager is away. */
function withoutController(machine: Machine): { isBack: boolean } {
  const controller = { isBack: false };
  let { ready } = machine;
  const get = (): Machine['ready'] => (controller.isBack ? ready : 'True');
  Object.defineProperty(machine, 'ready', { get, set: (now: Machine['ready']) => (ready = now) });
  return controller;
}

function runUntil(world: ReturnType<typeof aWorld>, phase: string): void {
  for (let ticks = 0; world.phaseOf('w1') !== phase; ticks += 1) {
    if (ticks > 2_000) throw new Error(`${world.phaseOf('w1')}, and not ${phase}`);
    world.run(500);
  }
}

it('G1: a device that says on after a confirm-off was accepted: no later off is proven by that word', () => {
  const world = aWorld(five()).run(5 * MINUTE);
  const w1 = world.machine('w1');
  const controller = withoutController(w1);
  w1.broken.add('vm w1');
  w1.isHeard = false;
  runUntil(world, 'failed');
  w1.lies = { 'vm w1': 'mute' };
  const node = { name: 'w1', uid: w1.uid };
  const order = { verb: 'confirm-off', node, checked: 'w1', isDeviceWrong: false, by: 'ana', because: '' } as const;
  world.orders = [{ ...order, id: 'o1', to: world.writer() } satisfies Order];
  runUntil(world, 'proving');
  w1.lies = {};
  runUntil(world, 'failed');
  controller.isBack = true;
  world.orders = [];
  for (let ticks = 0; ticks < 600; ticks += 1) {
    world.run(500);
    // After the next off, which has no effect either, it falls silent.
    if (world.phaseOf('w1') === 'off-sent') w1.lies = { 'vm w1': 'mute' };
    expect(w1.taints, `at ${world.nowMs() - SINCE}`).toEqual([]);
  }
  expect(w1).toMatchObject({ isOn: true, offs: 0 });
});
