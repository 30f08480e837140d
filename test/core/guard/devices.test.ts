import { describe, expect, it } from 'vitest';
import {
  adoptDevices,
  contradict,
  dueStatus,
  freshSince,
  keptDevices,
  lackOfLevel,
  lackOfPlan,
  levelOffAlready,
  offTwice,
  rehearsed,
  returnedMs,
  stepDevices,
} from '../../../src/core/guard/devices.ts';
import type { DeviceAnswer } from '../../../src/core/guard/observation.ts';
import { stepPatrol } from '../../../src/core/guard/patrol.ts';
import type { KeptDevice } from '../../../src/core/guard/record.ts';
import { deviceKey, type GuardState, type NodeMemory } from '../../../src/core/guard/state.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import { aGuardConfig } from './a-guard-config.ts';
import { five } from './a-machine.ts';
import { aMemory, aView, byUid } from './a-node.ts';
import { aFencing, aRecord } from './a-turn.ts';
import { aWorld } from './a-world.ts';

type Devices = GuardState['devices'];
const UID = 'uid-w1';
const METHOD = 'vm w1';
const says = (
  word: DeviceAnswer['says'],
  begunMs: number,
  endedMs = begunMs + 1_000,
  method = METHOD,
): DeviceAnswer => ({
  node: UID,
  method,
  says: word,
  begunMs,
  endedMs,
  detail: '',
});
/** What is known after these answers, heard one by one. */
function heard(answers: readonly DeviceAnswer[], memory: NodeMemory = aMemory(), from: Devices = new Map()) {
  return answers.reduce<ReturnType<typeof stepDevices>>(
    ({ devices, reasons }, answer) => {
      const step = stepDevices(devices, [answer], byUid([memory]), 7);
      return { devices: step.devices, reasons: [...reasons, ...step.reasons] };
    },
    { devices: from, reasons: [] },
  );
}
/** Of a node that has lived all along. */
const at = (ms: number) => freshSince({ livesMs: null }, ms);
const only = (devices: Devices) => devices.get(deviceKey(UID, METHOD));
const wordOf = (...answers: readonly DeviceAnswer[]) => heard(answers).devices;

describe('a device', () => {
  it('that said on once has said on; silence takes nothing back', () => {
    const devices = wordOf(says('on', 0), says('unknown', 10_000));
    expect(only(devices)).toMatchObject({ says: 'unknown', hasSaidOn: true, begunMs: 10_000, wallMs: 7 });
    expect(only(devices)?.recent).toEqual([{ says: 'on', begunMs: 0, endedMs: 1_000 }]);
    expect(only(wordOf(says('off', 0)))).toMatchObject({ says: 'off', hasSaidOn: false });
  });
  it('keeps its last eight words', () => {
    const devices = wordOf(...Array.from({ length: 10 }, (_, i) => says('on', i * 1_000)));
    expect(only(devices)?.recent.map(({ begunMs }) => begunMs)).toEqual([2, 3, 4, 5, 6, 7, 8, 9].map((i) => i * 1_000));
  });
  it('is the same map without answers', () => {
    const devices: Devices = new Map();
    expect(stepDevices(devices, [], new Map(), 0).devices).toBe(devices);
  });
});

describe('a device that says on again', () => {
  /** Silent since 10,000. */
  const silent = aMemory({ signMs: 10_000, isSuspect: true });
  const since = (answers: readonly DeviceAnswer[], memory = silent, from: Devices = new Map()) =>
    returnedMs(memory, [METHOD], heard(answers, memory, from).devices);
  const [off, gone, on] = [says('off', 20_000), says('unknown', 20_000), says('on', 50_000)];
  it.each<[string, readonly DeviceAnswer[], number | null]>([
    ['after off', [off, on], 50_000],
    ['after nothing', [gone, on], 50_000],
    ['for some time', [gone, on, says('on', 60_000)], 50_000],
    ['and then nothing', [off, on, says('unknown', 60_000)], 50_000],
    ['but not off once more', [off, on, says('off', 60_000)], null],
    ['but not one that always did', [says('on', 0), says('on', 20_000), on], null],
    [
      'nor one that was silent for a moment, and had said so since its node fell silent',
      [says('on', 15_000), gone, on],
      null,
    ],
    ['nor one that was off before that', [says('off', 9_000), on], null],
    ['nor silent before that', [says('unknown', 9_000), on], null],
  ])('%s', (_, answers, returned) => {
    expect(since(answers)).toBe(returned);
  });
  it('and then is silent for a moment is no reason to wait anew, also if nobody saw its node alive', () => {
    const neverSeen = aMemory({ signMs: null, sinceMs: 10_000, isSuspect: true });
    expect(since([gone, on, says('unknown', 60_000), says('on', 70_000)], neverSeen)).toBe(50_000);
  });
  it('is that of a machine that may be booting, until that lives', () => {
    const { devices } = heard([off, on], silent);
    expect(returnedMs(aMemory({ signMs: 50_001 }), [METHOD], devices)).toBeNull();
    // An outage of the API server, after which every age begins anew.
    expect(returnedMs(aMemory({ signMs: null, sinceMs: 90_000 }), [METHOD], devices)).toBe(50_000);
  });
  it.each<[string, Partial<KeptDevice>, number | null]>([
    ['on', { says: 'on' }, null],
    ['off', { says: 'off' }, 50_000],
    ['nothing', { says: 'unknown' }, 50_000],
    ['on again', { says: 'on', hasReturned: true }, 50_000],
  ])('also after an election, if an earlier leader heard %s', (_, kept, returned) => {
    const device = { node: UID, method: METHOD, wallMs: 5, hasSaidOn: true, hasReturned: false, ...kept };
    const told = { says: 'on', contradicted: null, rehearsedWallMs: null, ...device } as const;
    expect(since([on], silent, adoptDevices(new Map(), [told], 40_000))).toBe(returned);
    expect(since([on], aMemory({ signMs: 45_000 }), adoptDevices(new Map(), [told], 40_000))).toBeNull();
  });
  it('is kept for the next leader as one that returned', () => {
    const { devices } = heard([off, on], silent);
    const kept = (memory: NodeMemory) =>
      keptDevices({ devices, nodes: byUid([memory]), fencings: new Map() }, aGuardConfig())[0]?.hasReturned;
    expect([kept(silent), kept(aMemory({ signMs: 50_001 }))]).toEqual([true, false]);
  });
});

describe('a contradiction', () => {
  const alive = (signMs: number | null, isSuspect = false) => aMemory({ signMs, isSuspect });
  it.each<[string, NodeMemory, readonly DeviceAnswer[], boolean]>([
    ['off twice, and a renewal in between', alive(20_000), [says('off', 0), says('off', 30_000)], true],
    ['as late as it may be', alive(60_000), [says('off', 0), says('off', 121_000)], true],
    ['too late', alive(60_000), [says('off', 0), says('off', 121_001)], false],
    ['a renewal that may have been before', alive(16_000), [says('off', 0), says('off', 30_000)], false],
    ['a renewal just after that', alive(16_001), [says('off', 0), says('off', 30_000)], true],
    ['a renewal when the second was begun', alive(30_000), [says('off', 0), says('off', 30_000)], true],
    ['a renewal after the second was begun', alive(30_001), [says('off', 0), says('off', 30_000)], false],
    ['off once', alive(20_000), [says('off', 0)], false],
    ['on, then off', alive(20_000), [says('on', 0), says('off', 30_000)], false],
    ['off, then on', alive(20_000), [says('off', 0), says('on', 30_000)], false],
    ['a node never seen alive', alive(null), [says('off', 0), says('off', 30_000)], false],
    ['a suspect', alive(20_000, true), [says('off', 0), says('off', 30_000)], false],
  ])('%s', (_, memory, answers, isFalse) => {
    const { devices, reasons } = heard(answers, memory);
    const contradicted = { why: 'off-while-alive', wallMs: 7 };
    expect(only(devices)?.contradicted).toEqual(isFalse ? contradicted : null);
    expect(reasons).toEqual(
      isFalse
        ? [
            {
              code: 'device-contradicted',
              node: { name: 'w1', uid: UID, bootId: 'boot-1' },
              method: METHOD,
              by: contradicted,
            },
          ]
        : [],
    );
  });
  it('is told once, and stays', () => {
    const answers = [says('off', 0), says('off', 30_000), says('off', 60_000), says('on', 90_000)];
    const { devices, reasons } = heard(answers, alive(20_000));
    expect(reasons).toHaveLength(1);
    expect(only(devices)?.contradicted).not.toBeNull();
  });
  it('is taken back by a rehearsal alone', () => {
    const devices = contradict(wordOf(says('on', 0)), UID, [METHOD, 'other'], { why: 'life-after-proof', wallMs: 1 });
    expect(devices.size).toBe(1);
    expect(lackOfLevel(UID, [METHOD], devices, at(1_000), 'fence')).toBe('contradicted');
    const after = rehearsed(devices, UID, [METHOD, 'other'], 9);
    expect(only(after)).toMatchObject({ contradicted: null, rehearsedWallMs: 9 });
    expect(lackOfLevel(UID, [METHOD], after, at(1_000), 'fence')).toBeNull();
  });
});

describe('a level', () => {
  it.each<[string, Devices, Parameters<typeof lackOfLevel>[4], string | null]>([
    ['that answers', wordOf(says('on', 0)), 'fence', null],
    ['never asked', new Map(), 'fence', 'not-asked'],
    ['that says nothing', wordOf(says('on', 0), says('unknown', 5_000)), 'fence', 'silent'],
    ['that said nothing long ago', wordOf(says('unknown', -60_000)), 'fence', 'silent'],
    ['that answered too long ago', wordOf(says('on', -1)), 'fence', 'not-asked'],
    ['that answers as late as a proof allows', wordOf(says('on', 0, 14_000)), 'fence', null],
    ['that answers too late for a proof', wordOf(says('on', 0, 14_001)), 'fence', 'too-slow'],
    ['and did so long ago', wordOf(says('on', -60_000, -40_000)), 'fence', 'too-slow'],
    ['also for a rehearsal', wordOf(says('on', 0, 14_001)), 'rehearse', 'too-slow'],
    ['that was slow and is not', wordOf(says('on', 0, 20_000), says('on', 21_000)), 'fence', null],
    ['that was slow, and then says nothing', wordOf(says('on', 0, 20_000), says('unknown', 21_000)), 'fence', 'silent'],
    ['that has never said on', wordOf(says('off', 0)), 'fence', 'never-on'],
    ['not rehearsed', wordOf(says('on', 0)), 'fence-if-rehearsed', 'not-rehearsed'],
    ['rehearsed', rehearsed(wordOf(says('on', 0)), UID, [METHOD], 5), 'fence-if-rehearsed', null],
    [
      'contradicted, to be rehearsed',
      contradict(wordOf(says('on', 0)), UID, [METHOD], { why: 'life-after-proof', wallMs: 1 }),
      'rehearse',
      null,
    ],
  ])('%s', (_, devices, use, lack) => {
    expect(lackOfLevel(UID, [METHOD], devices, at(30_000), use)).toBe(lack);
  });
  it('needs all of its methods', () => {
    const devices = heard([says('on', 0), says('off', 0, 1_000, 'b')]).devices;
    expect(lackOfLevel(UID, [METHOD, 'b'], devices, at(1_000), 'fence')).toBe('never-on');
    expect(lackOfLevel(UID, [METHOD, 'c'], devices, at(1_000), 'fence')).toBe('not-asked');
  });
  it('that answers too late is not off already', () => {
    const plan = { isolation: [], levels: [[METHOD]] };
    const devices = wordOf(says('on', -60_000), says('off', 0, 1_000), says('off', 7_000, 21_001));
    expect(levelOffAlready(UID, plan, devices, at(22_000), 'fence')).toBeNull();
  });
  it('of several tells why none can be used: first what a person has to mend, then what was not asked', () => {
    const devices = heard([says('unknown', 0), says('on', 0, 20_000, 'b')]).devices;
    const lack = (...levels: readonly (readonly string[])[]) => lackOfPlan(UID, levels, devices, at(20_000), 'fence');
    expect(lack([METHOD], ['c'], ['b'])).toBe('too-slow');
    expect(lack([METHOD], ['c'])).toBe('not-asked');
    expect(lack([METHOD])).toBe('silent');
    expect(lack([METHOD], [])).toBeNull();
  });
  it('is not used when one of its methods is contradicted, or not rehearsed', () => {
    const both = heard([says('on', 0), says('on', 0, 1_000, 'b')]).devices;
    const lack = (devices: Devices, use: Parameters<typeof lackOfLevel>[4]) =>
      lackOfLevel(UID, [METHOD, 'b'], devices, at(1_000), use);
    const by = { why: 'life-after-proof', wallMs: 0 } as const;
    expect(lack(contradict(both, UID, ['b'], by), 'fence')).toBe('contradicted');
    expect(lack(rehearsed(both, UID, ['b'], 5), 'fence-if-rehearsed')).toBe('not-rehearsed');
    expect(lack(rehearsed(both, UID, [METHOD, 'b'], 5), 'fence-if-rehearsed')).toBeNull();
  });
});

describe('off twice', () => {
  it.each<[string, readonly DeviceAnswer[], { begunMs: number; endedMs: number } | null]>([
    ['5 s apart', [says('off', 0), says('off', 6_000)], { begunMs: 6_000, endedMs: 7_000 }],
    ['less than 5 s apart', [says('off', 0), says('off', 5_999)], null],
    ['once', [says('off', 0)], null],
    ['with an on in between', [says('off', 0), says('on', 3_000), says('off', 6_000)], null],
    ['and silence since', [says('off', 0), says('off', 6_000), says('unknown', 9_000)], null],
    ['but one before', [says('off', -1), says('off', 6_000)], null],
    [
      'by three answers, of which two are far enough apart',
      [says('off', 0), says('off', 3_000), says('off', 6_000)],
      { begunMs: 6_000, endedMs: 7_000 },
    ],
  ])('%s', (_, answers, rounds) => {
    expect(offTwice(UID, [METHOD], wordOf(...answers), 0)).toEqual(rounds);
  });
  it('by every method: the second round began with the first of them and ended with the last', () => {
    const devices = wordOf(
      says('off', 0),
      says('off', 0, 500, 'b'),
      says('off', 6_000),
      says('off', 8_000, 9_500, 'b'),
    );
    expect(offTwice(UID, [METHOD, 'b'], devices, 0)).toEqual({ begunMs: 6_000, endedMs: 9_500 });
    expect(offTwice(UID, [METHOD, 'c'], devices, 0)).toBeNull();
  });
  it('no method proves nothing', () => {
    expect(offTwice(UID, [], new Map(), 0)).toBeNull();
  });
  it('makes a level off already, if it is believed', () => {
    const plan = { isolation: [], levels: [['x'], [METHOD]] };
    const off = [says('off', 1_000), says('off', 8_000)];
    expect(levelOffAlready(UID, plan, wordOf(says('on', -60_000), ...off), at(10_000), 'fence')).toBe(1);
    expect(levelOffAlready(UID, plan, wordOf(...off), at(10_000), 'fence')).toBeNull();
    expect(levelOffAlready(UID, plan, wordOf(says('on', -60_000), ...off), at(31_001), 'fence')).toBeNull();
  });
  it('makes none off already by what was said before its node came to', () => {
    const plan = { isolation: [], levels: [[METHOD]] };
    const devices = wordOf(says('on', -60_000), says('off', 1_000), says('off', 8_000));
    const already = (livesMs: number) => levelOffAlready(UID, plan, devices, freshSince({ livesMs }, 10_000), 'fence');
    expect([1_000, 1_001, 8_001].map(already)).toEqual([0, null, null]);
    expect(lackOfLevel(UID, [METHOD], devices, freshSince({ livesMs: 8_001 }, 10_000), 'fence')).toBe('not-asked');
  });
  it('makes a level off already unless another device says on', () => {
    const plan = { isolation: [], levels: [['x'], [METHOD]] };
    const off = [says('on', -60_000), says('off', 1_000), says('off', 8_000)];
    const level = (...other: readonly DeviceAnswer[]) =>
      levelOffAlready(UID, plan, wordOf(...off, ...other), at(31_000), 'fence');
    expect(level(says('on', 1_000, 500, 'x'))).toBeNull();
    expect(level(says('on', 999, 500, 'x'))).toBe(1);
    expect(level(says('unknown', 1_000, 500, 'x'))).toBe(1);
  });
});

describe('what outlives a leader', () => {
  const kept: KeptDevice = {
    node: UID,
    method: METHOD,
    says: 'off',
    wallMs: 5,
    hasSaidOn: true,
    hasReturned: false,
    contradicted: { why: 'life-after-proof', wallMs: 4 },
    rehearsedWallMs: 3,
  };
  it('is adopted where nothing is known, and where it speaks for or against a device', () => {
    const { hasReturned: _, ...said } = kept;
    const unheard = { begunMs: null, silentSinceMs: null, recent: [], awayMs: 9, returnedMs: null, offMs: null };
    expect(only(adoptDevices(new Map(), [kept], 9))).toEqual({ ...said, ...unheard });
    expect(only(adoptDevices(wordOf(says('off', 0)), [kept], 9))).toMatchObject({
      wallMs: 7,
      begunMs: 0,
      hasSaidOn: true,
      contradicted: kept.contradicted,
      rehearsedWallMs: 3,
    });
    const own = wordOf(says('on', 0));
    const nothing = { ...kept, hasSaidOn: false, contradicted: null, rehearsedWallMs: null };
    expect(only(adoptDevices(own, [{ ...nothing, says: 'on' }], 9))).toEqual(only(own));
    expect(only(adoptDevices(own, [nothing], 9))).toEqual({ ...only(own), awayMs: 9 });
  });
  it('is of nodes that exist and methods that are configured', () => {
    const devices = adoptDevices(new Map(), [kept, { ...kept, method: 'old' }, { ...kept, node: 'gone' }], 9);
    const nodes = byUid([aMemory()]);
    expect(keptDevices({ devices, nodes, fencings: new Map() }, aGuardConfig())).toEqual([kept]);
  });
  it('also of those that an open fencing began with', () => {
    const devices = adoptDevices(new Map(), [kept, { ...kept, method: 'old' }], 9);
    const record = aRecord({ plan: { isolation: [], levels: [['old']] } });
    const fencings = new Map([[record.id, aFencing(record)]]);
    expect(keptDevices({ devices, nodes: byUid([]), fencings }, aGuardConfig())).toEqual([{ ...kept, method: 'old' }]);
  });
  it('is forgotten when it leaves the cluster or the configuration', () => {
    const config = { ...aGuardConfig() };
    const world = aWorld(five(), config).run(5 * 60_000);
    world.machine('w2').isDeleted = true;
    Object.assign(config, { plans: { w1: { isolation: [], levels: [['bmc w1']] } } });
    const asked = [
      ...world
        .run(3 * 60_000)
        .state()
        .devices.values(),
    ].map(({ method }) => method);
    expect(asked.toSorted()).toEqual(['bmc w1', 'vm w3', 'vm w4', 'vm w5']);
  });
  it('does not answer for now', () => {
    expect(
      lackOfLevel(UID, [METHOD], adoptDevices(new Map(), [{ ...kept, contradicted: null }], 9), at(0), 'fence'),
    ).toBe('not-asked');
  });
});

it('a status is due when none was begun within the time', () => {
  const node = { name: 'w1', uid: UID, bootId: 'b' };
  const due = (atMs: number) =>
    dueStatus(node, [METHOD, 'b'], wordOf(says('on', 0)), atMs, 'dead').map(({ method }) => method);
  expect(due(9_999)).toEqual(['b']);
  expect(due(10_000)).toEqual([METHOD, 'b']);
});

describe('the patrol', () => {
  const config = aGuardConfig({ patrol: { everyMs: 60_000, maxPerMinute: 12 } });
  const views = ['w1', 'w2', 'w3'].map((name) => aView({ name }));
  const memories = ['w1', 'w2', 'w3'].map((name) => aMemory({ of: { name } }));
  const state = (rest: Partial<Parameters<typeof stepPatrol>[0]> = {}) => ({
    patrol: { askedMs: null, at: 0 },
    nodes: byUid(memories),
    devices: new Map(),
    ...rest,
  });
  const at = (atMs: number, value = views) => ({ atMs, nodes: known({ value, asOfMs: atMs }) });
  const asked = (step: ReturnType<typeof stepPatrol>) => step.asks.map(({ method }) => method);
  it('asks one method at a time, each in turn, no more often than it may', () => {
    const first = stepPatrol(state(), at(0), config);
    expect(first).toEqual({
      patrol: { askedMs: 0, at: 0 },
      asks: [{ node: { name: 'w1', uid: UID, bootId: 'boot-1' }, method: METHOD, for: 'patrol' }],
    });
    expect(asked(stepPatrol(state({ patrol: first.patrol }), at(4_999), config))).toEqual([]);
    const devices = wordOf(says('on', 0));
    const second = stepPatrol(state({ patrol: first.patrol, devices }), at(5_000), config);
    expect(asked(second)).toEqual(['vm w2']);
    expect(second.patrol).toEqual({ askedMs: 5_000, at: 1 });
    expect(asked(stepPatrol(state({ patrol: { askedMs: null, at: 2 }, devices }), at(60_000), config))).toEqual([
      'vm w3',
    ]);
  });
  it('asks each again when it is due', () => {
    const devices = wordOf(says('on', 0));
    const one = { nodes: byUid(memories.slice(0, 1)), devices };
    expect(asked(stepPatrol(state(one), at(59_999, views.slice(0, 1)), config))).toEqual([]);
    expect(asked(stepPatrol(state(one), at(60_000, views.slice(0, 1)), config))).toEqual([METHOD]);
  });
  it('asks first those that said off of a living node, between 25 and 120 s later', () => {
    const devices = wordOf(says('off', 0));
    const from = { patrol: { askedMs: null, at: 1 }, devices };
    expect(asked(stepPatrol(state(from), at(24_999), config))).toEqual(['vm w2']);
    expect(stepPatrol(state(from), at(25_000), config)).toMatchObject({
      patrol: { askedMs: 25_000, at: 1 },
      asks: [{ method: METHOD }],
    });
    expect(asked(stepPatrol(state(from), at(120_000), config))).toEqual([METHOD]);
    expect(asked(stepPatrol(state(from), at(120_001), config))).toEqual(['vm w2']);
    const contradicted = contradict(devices, UID, [METHOD], { why: 'life-after-proof', wallMs: 0 });
    expect(asked(stepPatrol(state({ ...from, devices: contradicted }), at(30_000), config))).toEqual(['vm w2']);
    const suspect = byUid([aMemory({ isSuspect: true }), ...memories.slice(1)]);
    expect(asked(stepPatrol(state({ ...from, nodes: suspect }), at(30_000), config))).toEqual(['vm w2']);
    expect(asked(stepPatrol(state({ ...from, devices: wordOf(says('on', 0)) }), at(30_000), config))).toEqual([
      'vm w2',
    ]);
  });
  it('leaves suspects and nodes without a method alone, and looks on from there', () => {
    const suspects = byUid(memories.map((memory) => ({ ...memory, isSuspect: true })));
    expect(stepPatrol(state({ nodes: suspects }), at(0), config)).toEqual({
      patrol: { askedMs: null, at: 0 },
      asks: [],
    });
    expect(asked(stepPatrol(state(), at(0), { ...config, defaultPlan: null }))).toEqual([]);
  });
  it('is off when it is configured so, and without nodes', () => {
    expect(asked(stepPatrol(state(), at(0), { ...config, patrol: null }))).toEqual([]);
    expect(asked(stepPatrol(state(), at(0, []), config))).toEqual([]);
    expect(asked(stepPatrol(state(), { atMs: 0, nodes: unknown('timed-out', '', '') }, config))).toEqual([]);
  });
});
