import { describe, expect, it } from 'vitest';
import { decideGuard } from '../../../src/core/guard/decide.ts';
import type { GuardObservation } from '../../../src/core/guard/observation.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import { sayGuardDecision } from '../../../src/words/guard-decision.ts';
import { aGuardConfig } from './a-guard-config.ts';
import { aMachine, type Machine } from './a-machine.ts';
import { aLook, aRecord, type Given } from './a-turn.ts';
import { aWorld } from './a-world.ts';
import { sayDecision } from './say-decision.ts';

const SECOND = 1_000;
const MINUTE = 60_000;
const three = () => ['w1', 'w2', 'w3'].map((name) => aMachine(name));
const aQuietWorld = (machines = three()) => aWorld(machines, aGuardConfig({ patrol: null }));
const decided = (given: Given) => {
  const { state, observation, config } = aLook({ memory: null, ...given });
  return decideGuard(state, observation, config);
};
const leads = (sinceMs: number, atMs = sinceMs) =>
  ({ isLeader: true, epoch: 3, sinceMs, authorityUntilMs: atMs + 9_000 }) as const;

describe('a node that was silent all along', () => {
  it('has no age until the guard has settled', () => {
    const world = aQuietWorld();
    world.machine('w1').isHeard = false;
    world.run(119 * SECOND);
    const { settlesMs } = world.state().self;
    const seen = world.observe();
    const isSuspectAt = (atMs: number) => {
      const laterMs = atMs - seen.atMs;
      const later: GuardObservation = {
        ...{ ...seen, atMs, wallMs: seen.wallMs + laterMs },
        self: { ...seen.self, uptimeMs: seen.self.uptimeMs + laterMs },
      };
      return decideGuard(world.state(), later, world.config).state.nodes.get('uid-w1')?.isSuspect;
    };
    expect([isSuspectAt(settlesMs - 1), isSuspectAt(settlesMs)]).toEqual([false, true]);
  });
});

describe('the first sign after a time without any', () => {
  it('begins every age anew: what was read meanwhile may have been stale', () => {
    const world = aQuietWorld().run(3 * MINUTE);
    for (const { name } of three()) world.machine(name).isHeard = false;
    world.run(MINUTE);
    expect(world.state().nodes.get('uid-w1')?.isSuspect).toBe(true);
    for (const name of ['w2', 'w3']) world.machine(name).isHeard = true;
    world.run(20 * SECOND);
    expect(world.state().nodes.get('uid-w1')).toMatchObject({ isSuspect: false, signMs: null, onsetMs: null });
    expect(world.reasons.map(({ reason }) => reason)).toContainEqual(
      expect.objectContaining({ code: 'settling', for: 'api-return' }),
    );
  });
});

describe('every age begins anew', () => {
  const isSuspectAfter = (happens: (world: ReturnType<typeof aQuietWorld>) => void) => {
    const world = aQuietWorld().run(3 * MINUTE);
    world.machine('w1').isHeard = false;
    const isSuspect = () => world.state().nodes.get('uid-w1')?.isSuspect;
    world.run(MINUTE);
    const before = isSuspect();
    happens(world);
    return [before, isSuspect()];
  };
  it('when the API is back', () => {
    const apiAway = (awayMs: number) => (world: ReturnType<typeof aQuietWorld>) => {
      world.isApiUp = false;
      world.run(awayMs);
      world.isApiUp = true;
      world.run(6 * SECOND);
    };
    expect(isSuspectAfter(apiAway(8 * SECOND))).toEqual([true, true]);
    expect(isSuspectAfter(apiAway(30 * SECOND))).toEqual([true, false]);
  });
  it('when a clock was set, or the process slept', () => {
    const setBy = (ms: number) => (world: ReturnType<typeof aQuietWorld>) => {
      world.skewMs = ms;
      world.run(6 * SECOND);
    };
    expect(isSuspectAfter(setBy(1_500))).toEqual([true, true]);
    expect(isSuspectAfter(setBy(MINUTE))).toEqual([true, false]);
  });
});

describe('what earlier leaders kept', () => {
  const PAUSED = { by: 'ana', because: 'works', wallMs: 1 };
  const kept = known({ devices: [], state: { paused: PAUSED, holds: [], past: [] } });
  const release = { scope: { kind: 'cluster' }, untilMs: Number.MAX_SAFE_INTEGER, by: 'bo' } as const;
  const elected = (given: Given) => decided({ own: { leadership: leads(5_000) }, ...given }).state;

  it('is adopted once it is read after an election, and orders of before end', () => {
    expect(elected({ seen: { kept }, state: { releases: [release] } })).toMatchObject({ paused: PAUSED, releases: [] });
    const unread = unknown('not-asked', 'configmaps', '');
    expect(elected({ seen: { kept: unread }, state: { releases: [release] } })).toMatchObject({
      paused: null,
      releases: [release],
    });
  });
  it('ends by now if it held a node back that nothing holds any more', () => {
    const hold = (what: string, untilWallMs: number | null) =>
      ({ what, scope: { kind: 'nodes', nodes: ['w1'] }, fromWallMs: 0, untilWallMs }) as const;
    const past = [hold('kubelet-answers', null), hold('silent', 7)];
    const read = known({ devices: [], state: { paused: null, holds: [], past } });
    const [first, second] = elected({ seen: { kept: read } }).pastHolds;
    expect([first?.what, second?.untilWallMs]).toEqual(['kubelet-answers', 7]);
    expect(first?.untilWallMs).toBeGreaterThan(7);
  });
  it('is not adopted on standby', () => {
    expect(decided({ own: { leadership: { isLeader: false } }, seen: { kept } }).state.paused).toBeNull();
  });
  it('is not adopted again by the same leader, who may have changed it', () => {
    expect(decided({ seen: { kept }, own: { leadership: leads(0) } }).state.paused).toBeNull();
  });
});

describe('that it settles', () => {
  it('is told when it begins, and not again', () => {
    const atMs = 500_000;
    const own = { leadership: leads(atMs + 1_000_000) };
    const first = decided({ atMs, own, config: { settleMs: MINUTE } });
    expect(first.reasons).toEqual([{ code: 'settling', for: 'election', untilMs: own.leadership.sinceMs + MINUTE }]);
    expect(decided({ atMs, own, state: first.state, config: { settleMs: MINUTE } }).reasons).toEqual([]);
  });
});

describe('a leader on a node of the cluster', () => {
  const running = (rest: { readonly isLeader?: boolean; readonly self?: string | null; readonly silent?: string }) => {
    const world = aQuietWorld().run(3 * MINUTE);
    Object.assign(world, { isLeader: true, self: 'w1', ...rest });
    if (rest.silent !== undefined) world.machine(rest.silent).isHeard = false;
    world.run(50 * SECOND);
    return world.told.flatMap(({ decision }) => (decision.kind === 'resign' ? [decision.forMs] : []));
  };
  it('resigns when its own node is silent', () => {
    expect(new Set(running({ silent: 'w1' }))).toEqual(new Set([5 * MINUTE]));
    expect(running({ self: 'w2', silent: 'w2' })).not.toEqual([]);
    expect(running({})).toEqual([]);
    expect(running({ silent: 'w2' })).toEqual([]);
    expect(running({ silent: 'w1', isLeader: false })).toEqual([]);
    expect(running({ silent: 'w1', self: null })).toEqual([]);
  });
});

describe('a dry run', () => {
  it('tells once that it would fence, and again after the node has lived', () => {
    const world = aWorld(three(), aGuardConfig({ dryRun: true })).run(5 * MINUTE);
    const fenced = () => world.kinds().filter((kind) => kind.startsWith('fence'));
    world.machine('w1').isHeard = false;
    expect(world.run(8 * MINUTE).commands).toEqual([]);
    expect(fenced()).toHaveLength(1);
    expect([...world.state().dryFenced.keys()]).toEqual(['uid-w1']);
    world.machine('w1').isHeard = true;
    expect([...world.run(MINUTE).state().dryFenced.keys()]).toEqual([]);
    world.machine('w1').isHeard = false;
    world.run(8 * MINUTE);
    expect(fenced()).toHaveLength(2);
  });
});

describe('a node that dies while the API server is away', () => {
  it('is silent for at least the time since', () => {
    const world = aWorld(three(), aGuardConfig({ dryRun: true })).run(5 * MINUTE);
    world.isApiUp = false;
    world.run(MINUTE);
    world.machine('w1').isHeard = false;
    world.run(60 * MINUTE);
    world.isApiUp = true;
    world.run(10 * MINUTE);
    expect(world.told.flatMap(({ decision }) => sayGuardDecision(decision) ?? [])).toContainEqual(
      expect.stringMatching(/^w1: would be fenced \(dry run\): silent for at least 2m/),
    );
  });
});

describe('a dry run with a dead node', () => {
  it.each<[string, (world: ReturnType<typeof aWorld>) => void]>([
    [
      'the API server is away for a while',
      (world) => {
        world.isApiUp = false;
        world.run(MINUTE);
        world.isApiUp = true;
      },
    ],
    [
      'the clock jumps',
      (world) => {
        world.skewMs = 7_200_000;
      },
    ],
  ])('neither forgets it nor fences it once more when %s', (_, happens) => {
    const world = aWorld(three(), aGuardConfig({ dryRun: true })).run(5 * MINUTE);
    world.machine('w1').isHeard = false;
    world.run(8 * MINUTE);
    happens(world);
    for (let seconds = 0; seconds < 600; seconds += 10) {
      expect([...world.run(10_000).state().dryFenced.keys()]).toEqual(['uid-w1']);
    }
    expect(world.kinds().filter((kind) => kind.startsWith('fence'))).toHaveLength(1);
    world.machine('w1').isHeard = true;
    expect([...world.run(MINUTE).state().dryFenced.keys()]).toEqual([]);
  });
});

describe('a dry run whose silent node is deleted', () => {
  it('does not say of it any more that it would be fenced', () => {
    const world = aWorld(three(), aGuardConfig({ dryRun: true })).run(5 * MINUTE);
    world.machine('w1').isHeard = false;
    expect([
      ...world
        .run(8 * MINUTE)
        .state()
        .dryFenced.keys(),
    ]).toEqual(['uid-w1']);
    world.machine('w1').isDeleted = true;
    expect([...world.run(MINUTE).state().dryFenced.keys()]).toEqual([]);
  });
});

describe('a record that cannot be read', () => {
  it('is told once, also if it could be read before, and no other one is', () => {
    const other = { id: 'w2-1', version: '1', record: aRecord({ id: 'w2-1', phase: 'closed' }) };
    const before = { id: 'w1-1', version: '1', record: aRecord({ phase: 'closed' }) };
    const broken = { id: 'w1-1', version: '2', record: null, problem: 'not JSON', nodeKey: 'w1' };
    let state = decided({ seen: { records: known([before, other]) } }).state;
    const told = () => {
      const verdict = decided({ state, seen: { records: known([broken, other]) } });
      state = verdict.state;
      return verdict.reasons;
    };
    expect(told()).toEqual([{ code: 'unreadable-record', fencing: 'w1-1', problem: 'not JSON' }]);
    expect(told()).toEqual([]);
  });
});

describe('what is told', () => {
  const codesOf = ({ reasons }: ReturnType<typeof aWorld>) => new Set(reasons.map(({ reason }) => reason.code));
  it('is that a storm began', () => {
    const world = aQuietWorld().run(5 * MINUTE);
    for (const { name } of three().slice(1)) world.machine(name).isHeard = false;
    expect(codesOf(world.run(MINUTE))).toContain('storm-began');
  });
  it('is that a device said what cannot be true', () => {
    const world = aWorld(three(), aGuardConfig()).run(5 * MINUTE);
    world.machine('w1').lies['vm w1'] = 'off';
    expect(codesOf(world.run(5 * MINUTE))).toContain('device-contradicted');
  });
  it('is that a fencing was taken over', () => {
    const world = aWorld(three(), aGuardConfig()).run(5 * MINUTE);
    world.machine('w1').isHeard = false;
    while (world.phaseOf('w1') === null) world.run(SECOND);
    world.restart();
    expect(codesOf(world.run(MINUTE))).toContain('taken-over');
  });
});

describe('its decisions', () => {
  it('have ids that follow each other', () => {
    const world = aWorld(three(), aGuardConfig()).run(5 * MINUTE);
    world.machine('w1').isHeard = false;
    const ids = world.run(10 * MINUTE).told.map(({ decision }) => Number(decision.id));
    expect(ids.length).toBeGreaterThan(5);
    expect(ids).toEqual(ids.map((_, i) => (ids[0] ?? 0) + i));
    expect(world.told.map(({ decision }) => sayDecision(decision).split(' ')[0])).toContain('fence');
  });
});

describe('what held a node back', () => {
  it('is remembered from when to when by its leader, and by nobody on standby', () => {
    const past = (isLeader: boolean) => {
      const world = aWorld(three(), aGuardConfig()).run(5 * MINUTE);
      world.isLeader = isLeader;
      world.machine('w1').witness = 'answers';
      world.machine('w1').isHeard = false;
      world.run(5 * MINUTE);
      const lasting = world.state().pastHolds.map(({ untilWallMs }) => untilWallMs);
      world.machine('w1').isHeard = true;
      return { lasting, after: world.run(MINUTE).state().pastHolds };
    };
    const { lasting, after } = past(true);
    expect(lasting).toEqual([null]);
    expect(after).toMatchObject([{ what: 'kubelet-answers', scope: { kind: 'nodes', nodes: ['w1'] } }]);
    expect((after[0]?.untilWallMs ?? 0) - (after[0]?.fromWallMs ?? 0)).toBeGreaterThan(2 * MINUTE);
    expect(past(false)).toEqual({ lasting: [], after: [] });
  });
  /** Held from 2 minutes after it fell silent. */
  const held = () => {
    const world = aWorld(three(), aGuardConfig()).run(5 * MINUTE);
    Object.assign(world.machine('w1'), { witness: 'answers', isHeard: false });
    return world.run(10 * MINUTE);
  };
  const again = (world: ReturnType<typeof held>, happens: 'election' | 'pause' | 'outage') => {
    if (happens === 'election') world.restart();
    if (happens === 'outage') {
      world.isApiUp = false;
      world.run(3 * MINUTE).isApiUp = true;
    }
    if (happens !== 'pause') return;
    const order = { to: world.writer(), by: 'ana', because: '' };
    world.orders = [{ ...order, id: 'p', verb: 'pause' }];
    world.run(MINUTE).orders = [{ ...order, id: 'r', verb: 'resume' }];
  };
  it.each(['election', 'pause', 'outage'] as const)('is still, from when it began, also after this: %s', (happens) => {
    const world = held();
    const before = world.state().pastHolds;
    again(world, happens);
    for (let i = 0; i < 20; i++) expect(world.run(30_000).state().pastHolds).toEqual(before);
    const nowMs = world.observe().wallMs;
    world.machine('w1').isHeard = true;
    const [hold] = world.run(MINUTE).state().pastHolds;
    expect(hold?.untilWallMs).toBeGreaterThan(nowMs);
    expect(hold?.isAtMost).toBeUndefined();
  });
  it.each<[string, (machine: Machine) => unknown]>([
    ['lives', (machine) => Object.assign(machine, { isHeard: true })],
    ['is gone', (machine) => Object.assign(machine, { isDeleted: true })],
    ['would be fenced', (machine) => Object.assign(machine, { witness: 'silent' })],
  ])('was over by then, if a new leader finds that it %s', (_, happens) => {
    const world = held();
    world.restart();
    happens(world.machine('w1'));
    const [hold, ...more] = world.run(5 * MINUTE).state().pastHolds;
    expect([hold?.what, hold?.isAtMost, ...more]).toEqual(['kubelet-answers', true]);
  });
  it('is remembered of a storm too', () => {
    const stormy = (isLeader: boolean) => {
      const world = aWorld(
        Array.from({ length: 9 }, (_, i) => aMachine(`w${i + 1}`)),
        aGuardConfig(),
      ).run(5 * MINUTE);
      world.isLeader = isLeader;
      for (const name of ['w1', 'w2', 'w3']) world.machine(name).isHeard = false;
      return world.run(MINUTE);
    };
    const standby = stormy(false).state();
    expect([standby.holds.length > 0, standby.pastHolds]).toEqual([true, []]);
    const world = stormy(true);
    expect(world.state().pastHolds.map(({ what }) => what)).toContain('burst');
    expect(world.state().pastHolds.map(({ untilWallMs }) => untilWallMs)).toContain(null);
    for (const name of ['w1', 'w2', 'w3']) world.machine(name).isHeard = true;
    world.run(15 * MINUTE);
    expect(world.state().pastHolds.filter(({ untilWallMs }) => untilWallMs === null)).toEqual([]);
  });
});

describe('a guard that is armed while it runs', () => {
  it('fences what died in dry run: that was no power-off', () => {
    const config = {
      ...aGuardConfig({ dryRun: true, rate: { minIntervalMs: 30_000, maxPerHour: 1, maxInFlight: 2 } }),
    };
    const world = aWorld(three(), config).run(5 * MINUTE);
    world.machine('w1').isHeard = false;
    world.run(8 * MINUTE);
    expect([...world.state().dryFenced.keys()]).toEqual(['uid-w1']);
    Object.assign(config, { dryRun: false });
    world.run(MINUTE);
    expect(world.commands.filter(({ act }) => act === 'off').map(({ method }) => method)).toEqual(['vm w1']);
    expect([...world.state().dryFenced.keys()]).toEqual([]);
  });
});
