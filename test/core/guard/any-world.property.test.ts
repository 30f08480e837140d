import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Act, GuardDecision } from '../../../src/core/guard/decision.ts';
import { aGuardConfig } from './a-guard-config.ts';
import { aMachine, aPodOn } from './a-machine.ts';
import { aWorld } from './a-world.ts';
import { sayDecision } from './say-decision.ts';

type World = ReturnType<typeof aWorld>;
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const NAMES = ['w1', 'w2', 'w3', 'w4', 'w5', 'w6'];
/** Somebody else's taint, which no run may touch. */
const FOREIGN = { key: 'example.com/mine', value: 'x', effect: 'NoSchedule' };

type Event = { readonly afterMs: number; readonly what: string; readonly name: string };
const HAPPENINGS: { readonly [what: string]: (world: World, name: string) => void } = {
  dies: (world, name) => Object.assign(world.machine(name), { isOn: false }),
  freezes: (world, name) => Object.assign(world.machine(name), { isHeard: false }),
  thaws: (world, name) => Object.assign(world.machine(name), { isHeard: true }),
  'switched on': (world, name) => {
    const machine = world.machine(name);
    if (!machine.isOn) Object.assign(machine, { isOn: true, boots: machine.boots + 1, onMs: world.nowMs() });
  },
  'kubelet stops': (world, name) => Object.assign(world.machine(name), { isHeard: false, witness: 'refused' }),
  'device mute': (world, name) => Object.assign(world.machine(name).lies, { [`vm ${name}`]: 'mute' }),
  'device back': (world, name) => Object.assign(world.machine(name), { lies: {} }),
  'device broken': (world, name) => world.machine(name).broken.add(`vm ${name}`),
  'device mended': (world, name) => world.machine(name).broken.clear(),
  finalizer: (world, name) => Object.assign(world.machine(name), { pods: [aPodOn({ finalizers: ['f'] })] }),
  restart: (world) => world.restart(),
  'api down': (world) => Object.assign(world, { isApiUp: false }),
  'api up': (world) => Object.assign(world, { isApiUp: true }),
  'not leader': (world) => Object.assign(world, { isLeader: false }),
  leader: (world) => Object.assign(world, { isLeader: true }),
  'clock set': (world) => Object.assign(world, { skewMs: world.skewMs + 30_000 }),
  conflicts: (world) => Object.assign(world, { conflicts: !world.conflicts }),
  announces: (world, name) => Object.assign(world.machine(name), { announces: true }),
  deleted: (world, name) => Object.assign(world.machine(name), { isDeleted: true }),
};
const event: fc.Arbitrary<Event> = fc.record({
  afterMs: fc.integer({ min: 0, max: 240 }).map((s) => s * SECOND),
  what: fc.constantFrom(...Object.keys(HAPPENINGS)),
  name: fc.constantFrom('w1', 'w1', 'w1', 'w2', 'w3'),
});
const events = fc.array(event, { minLength: 1, maxLength: 12 });

/** Every decision that stores, with what the world was like then. */
type Seen = { readonly decision: GuardDecision; readonly isLeader: boolean };

function play(list: readonly Event[], check: (world: World) => void): World {
  const machines = NAMES.map((name) => aMachine(name, { taints: [FOREIGN] }));
  const world = aWorld(machines, aGuardConfig({ settleMs: 60_000 })).run(3 * MINUTE);
  const runFor = (ms: number): void => {
    for (let ranMs = 0; ranMs < ms; ranMs += 2 * SECOND) check(world.run(2 * SECOND));
  };
  for (const { afterMs, what, name } of list) {
    runFor(afterMs);
    HAPPENINGS[what]?.(world, name);
  }
  runFor(20 * MINUTE);
  return world;
}

const isOutOfService = ({ key }: { readonly key: string }): boolean => key === 'node.kubernetes.io/out-of-service';
/** guard.md 9.2: power is asked every 10 s, and the answer and the patch take a moment. */
const WATCH_MS = 14 * SECOND;
const RUNS = { numRuns: Number(process.env['RUNS'] ?? 30), seed: Number(process.env['SEED'] ?? 20_261_126) };

describe('whatever happens', () => {
  it('G1, G2: no out-of-service taint stands on a machine that runs', () => {
    fc.assert(
      fc.property(events, (list) => {
        play(list, (world) => {
          for (const name of NAMES) {
            const { isOn, onMs, taints } = world.machine(name);
            if (isOn && world.isApiUp && world.isLeader && world.nowMs() - onMs > WATCH_MS)
              expect(taints.filter(isOutOfService)).toEqual([]);
          }
        });
      }),
      RUNS,
    );
  });

  it('G3, G4: a fencing sends off and on alone, has one effect, and no off after an on', () => {
    fc.assert(
      fc.property(events, (list) => {
        const world = play(list, () => {});
        const switched = new Set<string>();
        for (const { decision } of world.told) {
          if (!('fencing' in decision) || decision.act === null) continue;
          const { act, fencing, record } = decision;
          expect(['off', 'on', 'tell', 'untell', 'clear']).toContain(act.kind);
          if (act.kind === 'on') switched.add(fencing);
          if (act.kind === 'off') {
            expect(switched.has(fencing)).toBe(false);
            expect(record.offSent).toEqual(expect.arrayContaining([...act.methods]));
          }
        }
        for (const name of NAMES) {
          const fencings = [...world.records.values()].filter(({ record }) => record.node.name === name);
          expect(world.machine(name).offs).toBeLessThanOrEqual(fencings.length);
        }
      }),
      RUNS,
    );
  });

  it('G8: nothing is decided without authority, and nothing for a fencing whose act is under way', () => {
    fc.assert(
      fc.property(events, (list) => {
        const seen: Seen[] = [];
        let told = 0;
        let isLeader = true;
        play(list, (world) => {
          for (const { decision } of world.told.slice(told))
            seen.push({ decision, isLeader: isLeader || world.isLeader });
          told = world.told.length;
          isLeader = world.isLeader;
        });
        for (const { decision, isLeader: may } of seen) {
          if (decision.kind !== 'hold') expect(may, sayDecision(decision)).toBe(true);
        }
      }),
      RUNS,
    );
  });

  it('G10: nothing is deleted: every act switches power or writes a mark of its own', () => {
    const ACTS: { readonly [K in Act['kind']]: 'power' | 'mark' } = {
      off: 'power',
      on: 'power',
      tell: 'mark',
      untell: 'mark',
      clear: 'mark',
    };
    fc.assert(
      fc.property(events, (list) => {
        const acts = play(list, () => {}).told.flatMap(({ decision }) =>
          'act' in decision && decision.act !== null ? [decision.act.kind] : [],
        );
        for (const kind of acts) expect(Object.keys(ACTS)).toContain(kind);
      }),
      RUNS,
    );
  });

  it('G11: what carries no mark of ours stays, and no mark of ours outlives its fencing', () => {
    fc.assert(
      fc.property(events, (list) => {
        const world = play([...list, { afterMs: 0, what: 'api up', name: 'w1' }], () => {});
        Object.assign(world, { isLeader: true, conflicts: false });
        world.run(20 * MINUTE);
        const open = new Set(
          [...world.records.values()].flatMap(({ record }) => (record.phase === 'closed' ? [] : [record.id])),
        );
        for (const name of NAMES) {
          const { taints, isDeleted } = world.machine(name);
          if (isDeleted) continue;
          expect(taints[0]).toEqual(FOREIGN);
          for (const { value } of taints.slice(1)) expect(open.has(value.replace('nodewarden.', ''))).toBe(true);
        }
      }),
      RUNS,
    );
  });
});
