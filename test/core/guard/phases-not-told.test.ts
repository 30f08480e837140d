import { describe, expect, it } from 'vitest';
import { aMachine } from './a-machine.ts';
import { aCondition } from './a-node.ts';
import { type Given, SINCE, turnRows } from './a-turn.ts';
import { aWorld } from './a-world.ts';

const MINUTE = 60_000;
const SENT = { offSent: ['vm w1'], proof: { by: 'devices', level: 0 } } as const;

describe('a fencing that is proven, and whose patch the API refuses', () => {
  const rows = turnRows();
  /** Refused the last time so long after it was proven. Its device has said off twice since, just now. */
  const refused = (ms: number, atMs: number, why: 'error' | 'conflict' = 'error'): Given => ({
    atMs,
    fencing: { sinceMs: SINCE + ms, phaseSinceMs: SINCE, acted: { kind: 'failed', why, detail: 'denied' } },
    said: { 'vm w1': [`off@${atMs - 7_000}`, `off@${atMs - 1_000}`] },
  });
  const TOLD = (ms: number): string => `> proven proof={"by":"devices","level":0} [tell 7 until ${ms + 14_000}]`;
  const WAITS = '? vm w1/6000';
  const OFF = { record: { staysOff: 'loop' } } as const;
  const UNTOLD = '> untainting why=not-told [untell] !not-told';
  rows('proven', SENT, [
    ['sends it again at once', refused(0, 8_000), TOLD(8_000)],
    ['then more and more rarely', refused(20_000, 29_999), WAITS],
    ['and with the proof of then', refused(20_000, 30_000), TOLD(30_000)],
    ['each minute at last', refused(400_000, 459_999), WAITS],
    ['and not later', refused(400_000, 460_000), TOLD(460_000)],
    ['at once, if only the Node had changed', refused(400_000, 410_000, 'conflict'), TOLD(410_000)],
    ['until drainWait', refused(590_000, 599_999), WAITS],
    ['then its machine is not left off for nothing', refused(590_000, 600_000), UNTOLD],
    ['unless it stays off anyway', { ...refused(590_000, 600_000), ...OFF }, `${WAITS} !not-told (overdue)`],
    ['which goes on', { ...refused(540_000, 600_000), ...OFF }, `${TOLD(600_000)} !not-told (overdue)`],
  ]);
});

describe('a fencing that is proven, and whose Node nobody marks as not Ready', () => {
  const rows = turnRows();
  const READY = { conditions: [aCondition()] };
  const ready = (atMs: number, rest: Given = {}): Given => ({
    atMs,
    memory: { of: READY },
    node: READY,
    fencing: { sinceMs: SINCE, phaseSinceMs: SINCE },
    said: { 'vm w1': [`off@${atMs - 7_000}`, `off@${atMs - 1_000}`] },
    lookMs: atMs - 100,
    ...rest,
  });
  rows('proving', { offSent: ['vm w1'] }, [
    ['waits', ready(119_999), '? look vm w1/6000 by 600000'],
    [
      "stands in no other one's way then, and says so",
      ready(120_000),
      '? look vm w1/6000 by 600000 !still-ready (overdue)',
    ],
    [
      'also while its devices are asked anew',
      ready(200_000, { lookMs: null, record: { offHeard: ['vm w1'] } }),
      '? look vm w1/6000 !still-ready (overdue)',
    ],
    ['until drainWait', ready(599_999), '? look vm w1/6000 by 600000 !still-ready (overdue)'],
    [
      'then its machine is not left off for nothing',
      ready(600_000),
      '> untainting proof={"by":"devices","level":0} why=not-told [untell] !not-told',
    ],
    [
      'unless it stays off anyway',
      ready(600_000, { record: { staysOff: 'loop' } }),
      '? look vm w1/6000 !still-ready (overdue)',
    ],
    [
      'and not one whose Node is marked',
      ready(200_000, { memory: {}, node: {} }),
      '> proven proof={"by":"devices","level":0} [tell 7 until 214000]',
    ],
  ]);
});

type World = ReturnType<typeof aWorld>;
const cluster = (size: number): World =>
  aWorld(Array.from({ length: size }, (_, i) => aMachine(`w${i + 1}`))).run(5 * MINUTE);
const THREE = ['w1', 'w2', 'w3'];

/** One after the other. */
function silences(world: World): void {
  for (const name of THREE) {
    world.machine(name).isHeard = false;
    world.run(5 * MINUTE);
  }
}

/** Each was powered on again, and Kubernetes was told of none. */
function expectUntold(world: World, detail: string): void {
  for (const name of THREE) {
    expect(world.machine(name)).toMatchObject({ isOn: true, offs: 1, taints: [] });
    expect(world.phaseOf(name)).toBe('closed');
  }
  const told = world.reasons.flatMap(({ reason }) => (reason.code === 'not-told' ? [reason.detail] : []));
  expect(told).toEqual(THREE.map(() => detail));
}

const phasesOf = ({ told }: World): readonly string[] =>
  told.flatMap(({ decision }) => ('record' in decision ? [decision.record.phase] : []));

describe('an API that refuses the taint', () => {
  const refusing = (): World => Object.assign(cluster(12), { refuses: ['tell'] });

  it('leaves no machine off, and holds up no other one for good', () => {
    const world = refusing();
    silences(world);
    world.run(30 * MINUTE);
    expectUntold(world, 'denied by a webhook');
  });

  it('is asked again more and more rarely, and the fencing goes on once it takes it', () => {
    const world = refusing();
    world.machine('w1').isHeard = false;
    while (world.phaseOf('w1') !== 'proven') world.run(500);
    const before = world.told.length;
    world.run(8 * MINUTE);
    expect(world.told.length - before).toBeLessThan(25);
    world.refuses = [];
    world.run(2 * MINUTE);
    expect(phasesOf(world)).toContain('tainted');
  });
});

describe('Kubernetes without a node controller', () => {
  const unmarked = (size: number): World => Object.assign(cluster(size), { hasControllers: false });

  it('leaves no machine off, and holds up no other one', () => {
    const world = unmarked(12);
    silences(world);
    // Two are in flight at most, and these are no more after two minutes.
    expect(world.machine('w3').offs).toBe(1);
    world.run(30 * MINUTE);
    expectUntold(world, 'its Node is still Ready');
    const warned = world.reasons.filter(({ reason }) => reason.code === 'still-ready');
    expect(warned).toHaveLength(3);
  });

  it('goes on once there is one', () => {
    const world = unmarked(5);
    world.machine('w1').isHeard = false;
    while (world.phaseOf('w1') !== 'proving') world.run(500);
    world.run(8 * MINUTE);
    expect(world.phaseOf('w1')).toBe('proving');
    world.hasControllers = true;
    world.run(MINUTE);
    expect(phasesOf(world)).toContain('tainted');
  });
});
