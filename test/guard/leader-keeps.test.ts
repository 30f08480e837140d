import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { GuardDecision, GuardVerdict } from '../../src/core/guard/decision.ts';
import type { GuardObservation, GuardOutcome } from '../../src/core/guard/observation.ts';
import type { FencingRecord, StoredRecord } from '../../src/core/guard/record.ts';
import { deviceKey, type GuardState, initialGuardState } from '../../src/core/guard/state.ts';
import { known } from '../../src/core/reading.ts';
import { createEffects, type EffectTold } from '../../src/guard/effects.ts';
import { recordData } from '../../src/guard/records.ts';
import { aGuardConfig } from '../core/guard/a-guard-config.ts';
import { until } from '../host/test-cgroup.ts';
import { hurried } from '../standalone/needs.ts';
import { aGuardApi, aRecord, clock, type GuardApi, ID, MAPS, W1, withAuthority } from './a-guard-api.ts';
import { aBench } from './an-agent.ts';

withAuthority();
const hasty = hurried(clock, 10);
let api: GuardApi;
let told: EffectTold[];
let isLeading: boolean;
beforeEach(async () => {
  api = await aGuardApi(hasty);
  told = [];
  unkept = [];
  isLeading = true;
});
afterEach(() => api.close());

const PAUSED = { by: 'ann', because: 'a new switch', wallMs: 1 };
const ELECTED_MS = 100;
const stateOf = (rest: Partial<GuardState> = {}, adoptedMs: number | null = ELECTED_MS): GuardState => {
  const initial = initialGuardState(0, 0);
  return { ...initial, self: { ...initial.self, adoptedMs }, ...rest };
};
const verdict = (state: GuardState, decisions: readonly GuardDecision[] = []): GuardVerdict => ({
  ...{ state, decisions, reasons: [] },
  next: { afterMs: 1, witness: [], pods: [], attachments: false, members: [], looks: [], status: [] },
});
const seen = (records: readonly StoredRecord[] = [], sinceMs = ELECTED_MS, wallMs = 0) =>
  ({
    self: {
      ...{ writer: 'g1-a', node: null, lastWriteMs: null, uptimeMs: 0 },
      leadership: { isLeader: true, epoch: 1, sinceMs, authorityUntilMs: Number.POSITIVE_INFINITY },
    },
    ...{ records: known(records), atMs: sinceMs, wallMs },
  }) satisfies Pick<GuardObservation, 'self' | 'records' | 'atMs' | 'wallMs'>;
const leftOut: number[] = [];
let unkept: [name: string, why: string | null][];

function someEffects(dryRun = false) {
  return createEffects({
    ...{ clock: hasty, api: api.connection, agents: aBench({}).agents, node: () => null, news: () => undefined },
    authorityUntilMs: () => (isLeading ? Number.POSITIVE_INFINITY : null),
    config: () => ({
      core: aGuardConfig({ dryRun }),
      methods: { listed: {}, byDefault: {}, kept: {} },
      kubernetes: { kubeconfig: 'in-cluster', namespace: 'nodewarden-guard', outOfService: 'detect' },
      history: { days: 30, entries: 3 },
    }),
    whyNotNow: () => null,
    maps: { wrote: () => undefined, overtaken: () => undefined },
    leftOut: (count) => void leftOut.push(count),
    unstored: () => undefined,
    unkept: (...one) => void unkept.push(one),
    tell: (one) => void told.push(one),
  });
}
const dataOf = (name: string) => api.objects.get(`${MAPS}/${name}`)?.data;
const pausedIn = (): unknown => JSON.parse(String(dataOf('guard-state')?.['state'] ?? 'null'))?.paused ?? null;
const DEVICE = {
  ...{ node: W1.uid, method: 'vm w1', says: 'on', begunMs: 1, wallMs: 2, recent: [], hasSaidOn: true },
  ...{ contradicted: null, rehearsedWallMs: null },
} as const;
const OBJECT = {
  ...{
    ...W1,
    key: 'k',
    isDeleting: false,
    isUnschedulable: false,
    labels: {},
    annotations: {},
    taints: [],
    conditions: [],
  },
};
const withDevice = (): Partial<GuardState> =>
  ({
    devices: new Map([[deviceKey(W1.uid, 'vm w1'), DEVICE]]),
    nodes: new Map([[W1.uid, { object: OBJECT }]]),
  }) as unknown as Partial<GuardState>;

describe('a leader', () => {
  it('keeps pauses, holds and the words of devices', async () => {
    const { carryOut } = someEffects();
    carryOut(verdict(stateOf({ paused: PAUSED, ...withDevice() })), seen());
    await until(() => pausedIn() !== null && dataOf('guard-devices') !== undefined);
    expect(pausedIn()).toEqual(PAUSED);
    expect(JSON.parse(String(dataOf('guard-devices')?.['devices']))).toEqual({
      [W1.uid]: { 'vm w1': { wallMs: 2 } },
    });
    expect(dataOf('guard-orders')).toEqual({});
    expect([told, leftOut]).toEqual([[], [0]]);
  });

  it('keeps nothing before it has adopted what its predecessors kept', async () => {
    const before = api.writes().length;
    const { carryOut } = someEffects();
    carryOut(verdict(stateOf({ paused: PAUSED }, null)), seen());
    carryOut(verdict(stateOf({ paused: PAUSED }, ELECTED_MS)), seen([], ELECTED_MS + 1));
    isLeading = false;
    carryOut(verdict(stateOf({ paused: PAUSED })), seen());
    await api.connection.get('/version', 5_000);
    expect(api.writes()).toHaveLength(before);
  });

  it('writes what has not changed only once', async () => {
    const { carryOut } = someEffects();
    const look = (): void => carryOut(verdict(stateOf({ paused: PAUSED })), seen());
    look();
    await until(() => pausedIn() !== null);
    const before = api.writes().length;
    for (let i = 0; i < 20; i++) {
      look();
      await api.connection.get('/version', 5_000);
    }
    expect(api.writes().filter(({ path }) => path.includes('guard-state'))).toHaveLength(0);
    expect(api.writes().length - before).toBeLessThanOrEqual(1);
  });

  it('says what it cannot store, and when it is stored', async () => {
    api.stub.fault(/guard-state/, { kind: 'status', status: 403 }, 2);
    const { carryOut } = someEffects();
    const look = (): void => carryOut(verdict(stateOf({ paused: PAUSED })), seen());
    await until(() => {
      look();
      return pausedIn() !== null;
    });
    const ofState = () => unkept.filter(([name]) => name === 'guard-state').map(([, why]) => why !== null);
    await until(() => ofState().length > 1);
    expect(ofState().slice(0, 2)).toEqual([true, false]);
    expect(told).toHaveLength(2);
  });

  it('says nothing of it any more when another one leads', () => {
    const { self, ...rest } = seen();
    someEffects().carryOut(verdict(stateOf()), { ...rest, self: { ...self, leadership: { isLeader: false } } });
    expect(unkept).toEqual([
      ['guard-state', null],
      ['guard-devices', null],
    ]);
  });

  it('does not write over what another process has written since', async () => {
    const { carryOut } = someEffects();
    carryOut(verdict(stateOf({ paused: PAUSED })), seen());
    await until(() => pausedIn() !== null);
    api.putMap('guard-state', { state: '{"paused": null, "holds": []}' });
    const look = (): void => carryOut(verdict(stateOf({ paused: { ...PAUSED, by: 'bob' } })), seen());
    await until(() => {
      look();
      return told.length > 0;
    });
    expect(told).toMatchObject([{ what: 'not-kept', detail: expect.stringContaining('guard-state: conflict') }]);
    expect(pausedIn()).toBeNull();
    // It still leads, so it reads it and writes again.
    await until(() => {
      look();
      return JSON.stringify(pausedIn()).includes('bob');
    });
  });
});

describe('an order', () => {
  const answer = (keeps = false): GuardDecision => ({
    ...{ id: '3', atMs: 0, kind: 'answer', order: 'a', carries: null, keeps },
    answer: { isAccepted: true, fencing: null },
  });

  it('is answered where it was given, though others write there at the same time', async () => {
    const applied = { annotations: { 'kubectl.kubernetes.io/last-applied-configuration': '{}' }, labels: { app: 'x' } };
    api.putMap('guard-orders', { 'order-a': '{}', 'order-b': '{}' }, applied);
    let others = 0;
    api.before(({ method, path }) => {
      if (method === 'PUT' && path.includes('guard-orders') && ++others <= 3) {
        api.putMap('guard-orders', { ...dataOf('guard-orders'), [`order-x${others}`]: '{}' }, applied);
      }
    });
    const effects = someEffects();
    effects.carryOut(verdict(stateOf(), [answer()]), seen());
    await until(() => effects.outcomes().some(({ of, store }) => of === '3' && store?.kind === 'stored'));
    const data = dataOf('guard-orders') ?? {};
    expect(Object.keys(data).sort()).toEqual(['answer-a', 'order-a', 'order-b', 'order-x1', 'order-x2', 'order-x3']);
    expect(api.objects.get(`${MAPS}/guard-orders`)?.metadata).toMatchObject(applied);
    expect(JSON.parse(String(data['answer-a']))).toMatchObject({ answer: { isAccepted: true, fencing: null } });
  });

  it('is answered only when the pause that it asked for is stored', async () => {
    api.putMap('guard-orders', { 'order-a': '{}' });
    let pausedAtAnswer: unknown = 'not answered';
    api.before(({ method, path }) => {
      if (method === 'PUT' && path.includes('guard-orders')) pausedAtAnswer = pausedIn();
    });
    const effects = someEffects();
    effects.carryOut(verdict(stateOf({ paused: PAUSED }), [answer(true)]), seen());
    await until(() => effects.outcomes().length > 0);
    expect(pausedAtAnswer).toEqual(PAUSED);
  });

  it.each([
    ['could not be written at first', () => api.stub.fault(/guard-state/, { kind: 'status', status: 500 }), 1],
    ['is just being written as it was before', () => undefined, 0],
  ])('to pause is answered only when it is stored, also if that %s', async (_, meanwhile, failures) => {
    api.putMap('guard-orders', { 'order-a': '{}' });
    api.putMap('guard-state', { state: '{}' });
    let pausedAtAnswer: unknown = 'not answered';
    api.before(({ method, path }) => {
      if (method === 'PUT' && path.includes('guard-orders')) pausedAtAnswer = pausedIn();
    });
    meanwhile();
    const effects = someEffects();
    effects.carryOut(verdict(stateOf()), seen());
    if (failures > 0) await until(() => told.length === failures);
    effects.carryOut(verdict(stateOf({ paused: PAUSED }), [answer(true)]), seen());
    await until(() => effects.outcomes().some(({ store }) => store?.kind === 'stored'));
    expect(pausedAtAnswer).toEqual(PAUSED);
  });

  it('to pause that cannot be stored is refused', async () => {
    api.putMap('guard-orders', { 'order-a': '{}' });
    api.stub.fault(/guard-state/, { kind: 'status', status: 403 }, 100);
    const effects = someEffects();
    effects.carryOut(verdict(stateOf({ paused: PAUSED }), [answer(true)]), seen());
    const outcomes: GuardOutcome[] = [];
    await until(() => outcomes.push(...effects.outcomes()) > 0);
    expect(outcomes).toMatchObject([{ of: '3', store: { kind: 'conflict' } }]);
    expect(JSON.parse(String(dataOf('guard-orders')?.['answer-a']))).toMatchObject({
      answer: { isAccepted: false, why: 'not-stored' },
    });
  });

  it.each([
    ['was taken back', { 'order-b': '{}' }],
    ['has gone with all others', null],
  ])('that %s is answered nowhere', async (_, data) => {
    if (data !== null) api.putMap('guard-orders', data);
    const effects = someEffects();
    // Not a leader that has adopted: so that nobody makes the ConfigMap anew.
    effects.carryOut(verdict(stateOf({}, null), [answer()]), seen());
    const outcomes: GuardOutcome[] = [];
    await until(() => outcomes.push(...effects.outcomes()) > 0);
    expect(outcomes).toMatchObject([{ of: '3', fencing: null, store: { kind: 'conflict' }, act: null }]);
    expect(api.writes()).toEqual([]);
  });

  it('is answered when the API server is back', async () => {
    api.putMap('guard-orders', { 'order-a': '{}' });
    api.stub.fault(/guard-orders/, { kind: 'status', status: 500 }, 5);
    const effects = someEffects();
    effects.carryOut(verdict(stateOf({}, null), [answer()]), seen());
    await until(() => effects.outcomes().some(({ store }) => store?.kind === 'stored'));
    expect(dataOf('guard-orders')).toHaveProperty('answer-a');
  });
});

describe('the history', () => {
  const DAY_MS = 86_400_000;
  const NOW_MS = 1_764_000_000_000 + 100 * DAY_MS;
  const closed = (count: number, ageDays: number, rest: Partial<FencingRecord> = {}): StoredRecord => {
    const id = ID.replace('-1', `-${count}`);
    const steps = [{ phase: 'closed', wallMs: NOW_MS - ageDays * DAY_MS } as const];
    const record = aRecord({ id, phase: 'closed', steps, ...rest });
    return { id, version: api.putMap(`fencing-${id}`, recordData(record)), record };
  };
  const kept = (): readonly string[] =>
    [...api.objects.keys()].flatMap((path) => /fencing-[0-9a-f]+-(\d+)$/.exec(path)?.[1] ?? []).sort();
  const pruned = async (
    records: readonly StoredRecord[],
    expected: readonly string[],
    dryRun = false,
  ): Promise<void> => {
    someEffects(dryRun).carryOut(verdict(stateOf()), seen(records, ELECTED_MS, NOW_MS));
    if (kept().length > expected.length) await until(() => kept().length <= expected.length);
    await api.connection.get('/version', 5_000);
    expect(kept()).toEqual(expected);
  };

  it('loses closed records that are too old or too many, the newest stay', async () => {
    await pruned([closed(1, 2), closed(2, 3), closed(3, 4), closed(4, 5), closed(5, 31)], ['1', '2', '3']);
  });

  it('keeps those of the last day, in which the limits per day are counted, and those of the future', async () => {
    await pruned(
      [closed(1, 0.5), closed(2, 0.6), closed(3, 0.7), closed(4, 0.8), closed(5, -300)],
      ['1', '2', '3', '4', '5'],
    );
  });

  it('keeps what is open, cannot be read, or was changed meanwhile', async () => {
    const open = closed(1, 40, { phase: 'not-back' });
    const id = ID.replace('-1', '-2');
    const unreadable: StoredRecord = { id, version: '1', record: null, problem: 'x', nodeKey: null };
    api.putMap(`fencing-${unreadable.id}`, {});
    const changed = { ...closed(3, 40), version: '1' };
    await pruned([open, unreadable, changed, closed(4, 40)], ['1', '2', '3']);
  });

  it('loses nothing in dry run', async () => {
    const old = [closed(1, 40)];
    await pruned(old, ['1'], true);
    expect(api.writes()).toEqual([]);
  });
});
