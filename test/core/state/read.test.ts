import { describe, expect, it } from 'vitest';
import { decide } from '../../../src/core/decide.ts';
import { SHORTAGES } from '../../../src/core/eviction/shortage.ts';
import type { MetThreshold } from '../../../src/core/eviction/threshold.ts';
import type { Victim } from '../../../src/core/pod/pod.ts';
import { known } from '../../../src/core/reading.ts';
import { SIGNALS } from '../../../src/core/signal.ts';
import { readState } from '../../../src/core/state/read.ts';
import {
  type Eviction,
  initialState,
  type ShutdownStop,
  type State,
  type Stopping,
} from '../../../src/core/state/state.ts';
import { quantityOfBytes } from '../../../src/core/units/quantity.ts';
import { aConfig, anObservation, aPod, aThreshold, MI } from '../../a.ts';

/** As a file holds it, in the middle of an eviction. */
function saved() {
  const pods = { pods: known([aPod({ name: 'web', workingSetBytes: 50 * MI })]) };
  const low = { 'memory.available': { available: 10 * MI, capacity: 1000 * MI } };
  const { state } = decide(
    initialState('boot'),
    anObservation(1_000, low, pods),
    aConfig([aThreshold('memory.available', 100 * MI)]),
  );
  return JSON.parse(JSON.stringify(state));
}

describe('a saved state', () => {
  it('is read back as it was written', () => {
    expect(saved().act.evictions).toHaveLength(1);
    expect(readState(saved())).toEqual(saved());
    const fresh = initialState('boot');
    expect([fresh.act, fresh.dryDropped, fresh.escaped]).toEqual([{ kind: 'idle' }, [], []]);
    expect(readState(JSON.parse(JSON.stringify(fresh)))).toEqual(fresh);
  });

  // Each of these would throw at the first look after the restart, and at every one after that.
  it.each<[string, (state: ReturnType<typeof saved>) => void]>([
    ['a signal that does not exist', (state) => (state.act.evictions[0].cause.threshold.signal = 'memory')],
    ['a threshold that does not exist', (state) => (state.act.evictions[0].cause.threshold.id = 'memory/evictionHard')],
    ['an amount that is not a number', (state) => (state.act.evictions[0].cause.threshold.target.nanos = '1e9')],
    ['a timer of no threshold', (state) => (state.firstMetMs['x/evictionHard'] = 1)],
    ['a condition that does not exist', (state) => (state.conditionLastMetMs.CPUPressure = 1)],
    ['a sample of no signal', (state) => (state.lastSample.memory = { available: 1, capacity: 1, sampledAtMs: 1 })],
    ['a QoS class that does not exist', (state) => (state.act.evictions[0].victim.qos = 'Best')],
    ['a limit that does not exist', (state) => (state.act.evictions[0].cause = { kind: 'over-limit', limit: 'disk' })],
  ])('is not trusted with %s', (_, damage) => {
    const state = saved();
    damage(state);
    expect(readState(state)).toBeNull();
  });
});

/** All that a state can hold, with a shutdown in the middle of it. A new field does not compile without a value here. */
function fullState(shutdown: State['shutdown']): Required<State> {
  const limit = quantityOfBytes(100 * MI, 'binary');
  const threshold: Required<MetThreshold> = {
    id: 'memory.available/evictionHard',
    signal: 'memory.available',
    isHard: true,
    limit: { ...limit, text: '100Mi' },
    target: { ...limit, nanos: '-5' },
    available: 50,
    windowMs: 10_000,
    sinceMs: 1,
  };
  const victim: Required<Victim> = {
    uid: 'u',
    namespace: 'n',
    name: 'web',
    qos: 'Burstable',
    priority: 0,
    boundTo: 'web.service',
    cgroupInode: 17,
    cgroupPath: '/system.slice/web.service',
    isBetweenRuns: true,
    unsaid: { why: 'undeclared', priority: true, requests: false },
  };
  const times = { decidedMs: 1, signalledMs: 2, killedMs: 3, deadMs: 4, graceEndsMs: 5, deadlineMs: 6, settledMs: 7 };
  const atChoice = { signal: 'memory.available', available: 1, held: 2 } as const;
  const eviction: Omit<Required<Eviction>, 'alsoFor'> = {
    decision: 'a-1',
    victim,
    atChoice,
    ...times,
    cause: { kind: 'threshold', threshold },
  };
  const overLimit: Required<Eviction> = {
    ...eviction,
    cause: { kind: 'over-limit', limit: 'emptydirfs' },
    alsoFor: [{ ...threshold, id: 'memory.available/evictionSoft' }],
  };
  const stop: Required<ShutdownStop> = {
    ...{
      decision: 'a-4',
      decidedMs: 1,
      uid: 'u',
      graceEndsMs: 2,
      waitEndsMs: 3,
      tier: 'stop',
      graceSeconds: 4,
      endsMs: 5,
    },
    chain: { after: ['v'], beforeSeconds: 1, restSeconds: 2 },
  };
  return {
    schema: 1,
    bootId: 'boot',
    nextDecision: 7,
    measured: '{"cgroupRoot":"/"}',
    firstMetMs: { 'nodefs.available/evictionSoft': 1 },
    metValues: { 'nodefs.available/evictionSoft': '100n' },
    unmetSinceMs: { 'containerfs.available/evictionHard/twin': 1 },
    lastLookMs: 5,
    unresolved: ['pid.available/evictionHard'],
    conditionLastMetMs: { PIDPressure: 1 },
    lastSample: { 'memory.available': { available: 1, capacity: 2, sampledAtMs: 3, isUntimed: true } },
    failedLooks: { 'nodefs.inodesFree': { count: 1, sinceMs: 2 } },
    spent: [{ atMs: 1, cpuMs: 2 }],
    dryDropped: ['imagefs.available/evictionSoft/twin'],
    dryOverLimit: ['uid'],
    limitSpared: [{ uid: 'uid', pod: 'a/b', spares: 'c/d' }],
    act: { kind: 'evicting', evictions: [eviction, overLimit] },
    reclaims: [{ decision: 'a-2', threshold, deadlineMs: 9 }],
    proofs: {
      nodefs: {
        ...{ decision: 'a-3', atMs: 1, available: { 'nodefs.available': 1 }, releasedBytes: 2 },
        risen: { atMs: 2, available: { 'nodefs.available': 3 } },
      },
    },
    vainReclaims: { nodefs: { untilMs: 1, pauseMs: 2 } },
    heldBackMs: { memory: 1, pids: 2 },
    trail: { 'memory.available': [{ atMs: 1, available: 2 }] },
    escaped: [{ decision: 'a-4', cgroup: { path: '/a', inode: 1 }, isUnreaped: true }],
    ownerKills: [{ ownerKey: 'o', atMs: 1 }],
    stops: [stop],
    shutdown,
  };
}
const stopping: { readonly kind: 'stopping' } & Required<Stopping> = {
  ...{
    kind: 'stopping',
    startedMs: 1,
    phases: [{ fromPriority: 0, periodSeconds: 20 }],
    delayMaxMs: 3,
    tier: 'logind',
  },
  ...{
    mustEndMs: 4,
    again: { u: 1 },
    assigned: { u: 2 },
    hearUntilMs: 8,
    cancelledMs: 5,
    phase: 1,
    phaseStartedMs: 6,
    phaseEndsMs: 7,
  },
  ...{ pending: ['u'], group: ['u'], wait: { kind: 'volumes', sinceMs: 1, lookMs: 2 } },
  ...{ confirm: { ms: 1, latestMs: 2 }, byKubelet: 'holds' },
};
const shutdowns: readonly State['shutdown'][] = [
  stopping,
  { ...stopping, tier: 'stop', wait: { kind: 'stops' } },
  { ...stopping, wait: { kind: 'next' } },
  { ...stopping, wait: { kind: 'announce', decision: 'boot-1', untilMs: 1 } },
  { ...stopping, wait: { kind: 'confirm', sinceMs: 1 }, byKubelet: 'released' },
  { kind: 'unarmed', why: 'not started' },
  { kind: 'armed', delayMaxMs: 1 },
  { kind: 'released', atMs: 1 },
];

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
/** Each value in it, with its path, and how to put another one in its place (undefined: none). */
function* places(json: Json, path = ''): Generator<{ path: string; value: Json; put: (other: unknown) => void }> {
  if (json === null || typeof json !== 'object') return;
  const holder = json as { [name: string]: Json };
  for (const [name, value] of Object.entries(holder)) {
    const put = (other: unknown): void => {
      if (other === undefined) delete holder[name];
      else holder[name] = other as Json;
    };
    yield { path: `${path} ${name}`, value, put };
    yield* places(value, `${path} ${name}`);
  }
}

describe('a saved state with every field', () => {
  const asJson = (state: State): Json => JSON.parse(JSON.stringify(state));

  it.each(shutdowns.map((shutdown) => [shutdown]))('is read back with the shutdown %o', (shutdown) => {
    expect(readState(asJson(fullState(shutdown)))).toEqual(fullState(shutdown));
  });

  it('is not trusted if any of its values has another type', () => {
    for (const shutdown of shutdowns) {
      const json = asJson(fullState(shutdown));
      for (const { path, value, put } of places(json)) {
        const others = typeof value === 'number' ? ['1', Number.NaN] : typeof value === 'boolean' ? [1] : [{}, 7];
        for (const other of others) {
          const isKind = typeof other === 'object' && typeof value === 'object' && !Array.isArray(value);
          if (isKind) continue;
          put(other);
          expect(readState(json), `${path}: ${other}`).toBeNull();
        }
        put(value);
      }
      expect(readState(json)).not.toBeNull();
    }
  });

  it('may lack what has not happened and what older versions did not keep, but no other field', () => {
    const json = asJson(fullState(stopping));
    const lacked = new Set<string>();
    for (const { path, value, put } of places(json)) {
      put(undefined);
      if (readState(json) !== null) lacked.add(path.split(' ').at(-1) ?? '');
      put(value);
    }
    const entries: ReadonlySet<string> = new Set(SHORTAGES);
    expect([...lacked].filter((name) => /^[a-z]\w+$/.test(name) && !entries.has(name)).toSorted()).toEqual([
      'alsoFor',
      'assigned',
      'atChoice',
      'boundTo',
      'byKubelet',
      'cgroupInode',
      'cgroupPath',
      'chain',
      'confirm',
      'deadMs',
      'endsMs',
      'escaped',
      'graceSeconds',
      'hearUntilMs',
      'heldBackMs',
      'isBetweenRuns',
      'isUnreaped',
      'isUntimed',
      'killedMs',
      'limitSpared',
      'measured',
      'metValues',
      'proofs',
      'reclaims',
      'releasedBytes',
      'risen',
      'signalledMs',
      'tier',
      'trail',
      'unsaid',
      'vainReclaims',
      'windowMs',
    ]);
  });

  it('had none if its version kept no reclaims, proofs, trail, escaped processes, or values that were met', () => {
    const { reclaims: _, proofs: __, trail: ___, heldBackMs: ____, escaped: _____, ...rest } = fullState(stopping);
    const { metValues: ______, ...old } = rest;
    const kept = { metValues: {}, reclaims: [], proofs: {}, trail: {}, escaped: [] };
    expect(readState(JSON.parse(JSON.stringify(old)))).toEqual({ ...old, ...kept });
  });

  it('is read if its version also named the processes that had left a cgroup', () => {
    const processes = [{ pid: 2, startTicks: 3 }];
    const { escaped, ...rest } = fullState(stopping);
    const old = { ...rest, escaped: escaped.map((one) => ({ ...one, processes })) };
    expect(readState(JSON.parse(JSON.stringify(old)))?.escaped).toMatchObject(escaped);
  });

  it.each([
    ['a text of 4,096 characters', (state: State) => ({ ...state, bootId: 'x'.repeat(4_096) }), true],
    ['a longer one', (state: State) => ({ ...state, bootId: 'x'.repeat(4_097) }), false],
    ['a list of 10,000', (state: State) => ({ ...state, dryOverLimit: Array(10_000).fill('uid') }), true],
    ['a longer one', (state: State) => ({ ...state, dryOverLimit: Array(10_001).fill('uid') }), false],
    ['a decision number that is not an integer', (state: State) => ({ ...state, nextDecision: 1.5 }), false],
    ['another schema', (state: State) => ({ ...state, schema: 2 }), false],
  ])('with %s is read accordingly', (_, change, isRead) => {
    expect(readState(change(fullState(stopping))) !== null).toBe(isRead);
  });

  const evictionWith = (change: (eviction: ReturnType<typeof saved>['act']['evictions'][0]) => void): unknown => {
    const json = JSON.parse(JSON.stringify(fullState(stopping)));
    change(json.act.evictions[0]);
    return json;
  };

  it.each([
    ...['Guaranteed', 'Burstable', 'BestEffort'].map((qos) => evictionWith(({ victim }) => (victim.qos = qos))),
    ...['undeclared', 'unreadable'].map((why) => evictionWith(({ victim }) => (victim.unsaid.why = why))),
    ...['binary', 'decimal', 'exponent'].map((format) =>
      evictionWith(({ cause }) => (cause.threshold.limit.format = format)),
    ),
    ...['emptydirfs', 'ephemeralpodfs', 'ephemeralcontainerfs'].map((limit) =>
      evictionWith((eviction) => (eviction.cause = { kind: 'over-limit', limit })),
    ),
    ...SIGNALS.flatMap((signal) => [`${signal}/evictionHard`, `${signal}/evictionSoft/twin`]).map((id) =>
      evictionWith(({ cause }) => (cause.threshold.id = id)),
    ),
  ])('is read back with each of the other possible values, case %#', (json) => {
    expect(readState(json)).toEqual(json);
  });

  it('is read back for a pod that is bound to nothing, and with idle times', () => {
    const unbound = evictionWith(({ victim }) => delete victim.boundTo);
    const idle = { ...fullState(stopping), act: { kind: 'idle' } };
    for (const json of [unbound, idle]) expect(readState(json)).toEqual(json);
  });

  it.each([
    ['0', true],
    ['9'.repeat(60), true],
    [`-${'9'.repeat(60)}`, true],
    ['9'.repeat(61), false],
    ['', false],
    ['-', false],
    ['x1', false],
    ['1x', false],
    ['1.5', false],
  ])('takes an amount of "%s" nanos: %s', (nanos, isRead) => {
    const json = evictionWith(({ cause }) => (cause.threshold.target.nanos = nanos));
    expect(readState(json) !== null).toBe(isRead);
  });
});
