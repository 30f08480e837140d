import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Act, GuardDecision, GuardVerdict, StatusAsk } from '../../src/core/guard/decision.ts';
import type { GuardOutcome } from '../../src/core/guard/observation.ts';
import type { FencingRecord } from '../../src/core/guard/record.ts';
import { initialGuardState } from '../../src/core/guard/state.ts';
import { known } from '../../src/core/reading.ts';
import { createEffects, type EffectNeeds, type EffectTold } from '../../src/guard/effects.ts';
import { recordData } from '../../src/guard/records.ts';
import type { UnstoredRecord } from '../../src/guard/unstored.ts';
import { aGuardConfig } from '../core/guard/a-guard-config.ts';
import { until } from '../host/test-cgroup.ts';
import { hurried } from '../standalone/needs.ts';
import { aGuardApi, aRecord, clock, type GuardApi, ID, MAPS, W1, withAuthority } from './a-guard-api.ts';
import { aBench, type Bench } from './an-agent.ts';

withAuthority();
let api: GuardApi;
let bench: Bench;
let untilMs: number | null;
beforeEach(async () => {
  api = await aGuardApi();
  bench = aBench({ fence_a: 'echo "$action" >> "$(value plug)-did"; [ "$action" != status ] || echo ON' });
  untilMs = Number.POSITIVE_INFINITY;
});
afterEach(() => api.close());

const method = (key: string) => bench.method('fence_a', { key, parameters: { plug: key } });
const methods = () => ({ listed: { w1: { 1: method('1'), 2: method('2') } }, byDefault: {}, kept: {} });
const told: EffectTold[] = [];

function someEffects(rest: Partial<EffectNeeds> = {}, dryRun = false) {
  told.length = 0;
  let news = 0;
  const effects = createEffects({
    ...{ clock, api: api.connection, agents: bench.agents, node: () => 'g1', authorityUntilMs: () => untilMs },
    config: () => ({
      core: aGuardConfig({ dryRun }),
      methods: methods(),
      kubernetes: { kubeconfig: 'in-cluster', namespace: 'nodewarden-guard', outOfService: 'detect' },
      history: { days: 30, entries: 200 },
    }),
    news: () => {
      news += 1;
    },
    whyNotNow: () => null,
    maps: { wrote: () => undefined, overtaken: () => undefined },
    leftOut: () => undefined,
    unkept: () => undefined,
    unstored: () => undefined,
    tell: (one) => void told.push(one),
    ...rest,
  });
  return {
    effects,
    /** The one outcome of a decision. */
    outcomeOf: async (...decisions: readonly GuardDecision[]): Promise<GuardOutcome | undefined> => {
      const before = news;
      effects.carryOut(verdict(decisions), SEEN);
      await until(() => news > before);
      const outcomes = effects.outcomes();
      expect(outcomes).toHaveLength(1);
      expect(effects.outcomes()).toEqual([]);
      return outcomes[0];
    },
  };
}
const SEEN = {
  self: {
    ...{ writer: 'g1-a', node: 'g1', lastWriteMs: null, uptimeMs: 0 },
    leadership: { isLeader: true, epoch: 1, sinceMs: 0, authorityUntilMs: 9 },
  },
  records: known([]),
  ...{ atMs: 0, wallMs: 0 },
} as const;
const verdict = (decisions: readonly GuardDecision[], status: readonly StatusAsk[] = []): GuardVerdict => ({
  state: initialGuardState(0, 0),
  decisions,
  reasons: [],
  next: { afterMs: 1, witness: [], pods: [], attachments: false, members: [], looks: [], status },
});
const OFF: Act = { kind: 'off', methods: ['1', '2'] };
const advance = (replaces: string | null, act: Act | null, record: Partial<FencingRecord> = {}): GuardDecision => ({
  ...{ id: '7', atMs: 0, kind: 'advance', node: W1, from: 'decided', fencing: ID, replaces, act },
  record: aRecord(record),
});
const stored = () => JSON.parse(String(api.objects.get(`${MAPS}/fencing-${ID}`)?.data?.['record'] ?? 'null'));
const did = (plug: string): string =>
  existsSync(join(bench.directory, `${plug}-did`)) ? bench.read(`${plug}-did`) : '';
/** As the last look stored it. */
const decided = (): string => api.putMap(`fencing-${ID}`, recordData(aRecord({ phase: 'decided', revision: 1 })));

describe('a decision', () => {
  it('is stored before its command begins, and has one outcome when that is over', async () => {
    const version = decided();
    let atStore = '?';
    api.before(({ method }) => {
      if (method === 'PUT') atStore = did('1') + did('2');
    });
    const outcome = await someEffects().outcomeOf(advance(version, OFF));
    expect(outcome).toMatchObject({ of: '7', fencing: ID, store: { kind: 'stored' }, act: { kind: 'ran' } });
    expect(outcome?.act?.kind === 'ran' && outcome.act.runs.map(({ method, isOk }) => [method, isOk])).toEqual([
      ['1', true],
      ['2', true],
    ]);
    expect(atStore).toBe('');
    expect([did('1'), did('2')]).toEqual(['off\n', 'off\n']);
    expect(stored()).toEqual(aRecord());
    expect(outcome?.store).toEqual({
      kind: 'stored',
      version: api.objects.get(`${MAPS}/fencing-${ID}`)?.metadata['resourceVersion'],
    });
  });

  it('is created if there is none, and not if somebody else was first', async () => {
    const { outcomeOf } = someEffects();
    expect(await outcomeOf(advance(null, null))).toMatchObject({ store: { kind: 'stored' }, act: null });
    expect(await outcomeOf(advance(null, OFF))).toMatchObject({ store: { kind: 'conflict' }, act: null });
    expect(did('1')).toBe('');
  });

  const meanwhiles: readonly (readonly [string, () => void, string])[] = [
    ['written by another guard meanwhile', () => void decided(), 'conflict'],
    ['deleted by hand meanwhile', () => void api.objects.clear(), 'conflict'],
    ['refused by the server', () => void api.stub.fault(/fencing/, { kind: 'status', status: 403 }), 'failed'],
    ['given up by the server', () => void api.stub.fault(/fencing/, { kind: 'status', status: 504 }), 'failed'],
    ['answered with no JSON', () => void api.stub.fault(/fencing/, { kind: 'garbage' }), 'failed'],
    ['answered, and half of the answer comes', () => void api.stub.fault(/fencing/, { kind: 'cut-body' }), 'failed'],
  ];
  it.each(meanwhiles)('has no act if its record is %s', async (_, meanwhile, kind) => {
    const version = decided();
    meanwhile();
    const outcome = await someEffects().outcomeOf(advance(version, OFF));
    expect(outcome).toMatchObject({ of: '7', fencing: ID, store: { kind }, act: null });
    expect(did('1') + did('2')).toBe('');
  });

  it('that cannot be stored twice in a row is shown until it is, and told once', async () => {
    const version = decided();
    let shown: readonly UnstoredRecord[] = [];
    const { outcomeOf } = someEffects({ unstored: (records) => (shown = records) });
    api.stub.fault(/fencing/, { kind: 'status', status: 403, body: { kind: 'Status', message: 'exceeded quota' } }, 2);
    await outcomeOf(advance(version, OFF));
    expect(shown).toEqual([]);
    await outcomeOf(advance(version, OFF));
    expect(shown).toMatchObject([{ id: ID, node: 'w1', why: expect.stringContaining('exceeded quota') }]);
    expect(told).toMatchObject([{ what: 'not-stored', node: 'w1' }]);
    expect(await outcomeOf(advance(version, null))).toMatchObject({ store: { kind: 'stored' } });
    expect(shown).toEqual([]);
  });

  it('has no act if the answer to its store is lost, though it was stored', async () => {
    const version = decided();
    api.lose(/fencing/);
    const outcome = await someEffects().outcomeOf(advance(version, OFF));
    expect(stored()).toEqual(aRecord());
    expect(outcome?.store?.kind).not.toBe('stored');
    expect(outcome?.act).toBeNull();
    expect(did('1') + did('2')).toBe('');
  });

  it('has no act if the API server hangs; it is known after the deadline', async () => {
    await api.close();
    const hasty = hurried(clock, 20);
    api = await aGuardApi(hasty);
    const version = decided();
    api.stub.fault(/fencing/, { kind: 'hang' });
    const outcome = await someEffects({ clock: hasty }).outcomeOf(advance(version, OFF));
    expect(outcome).toMatchObject({ store: { kind: 'failed' }, act: null });
    expect(told).toMatchObject([{ what: 'not-stored', node: 'w1', detail: 'no answer within 5000 ms' }]);
    expect(did('1')).toBe('');
  });

  it('whose authority ends between store and act begins nothing', async () => {
    const version = decided();
    api.before(({ method }) => {
      if (method === 'PUT') untilMs = clock.monoMs() + 2_900;
    });
    const outcome = await someEffects().outcomeOf(advance(version, OFF));
    expect(outcome).toMatchObject({ store: { kind: 'stored' }, act: { kind: 'not-begun' } });
    expect(did('1')).toBe('');
  });

  it.each([
    ['on', { kind: 'on', steps: [['1'], ['2']] }],
    ['off', OFF],
  ] as const)('whose authority ends right before its commands begins no %s', async (_, act): Promise<void> => {
    const version = decided();
    let asked = 0;
    const authorityUntilMs = (): number | null => {
      asked += 1;
      // Before the store, after it, and then right before each command.
      return asked <= 2 ? Number.POSITIVE_INFINITY : null;
    };
    const outcome: GuardOutcome | undefined = await someEffects({ authorityUntilMs }).outcomeOf(advance(version, act));
    expect(outcome?.act?.kind).toBe('not-begun');
    expect(did('1') + did('2')).toBe('');
  });

  it.each([
    ['does not lead', null],
    ['has less than 3 s of authority', 2_900],
  ])('of a guard that %s changes nothing', async (_, leftMs) => {
    const version = decided();
    untilMs = leftMs === null ? null : clock.monoMs() + leftMs;
    const outcome = await someEffects().outcomeOf(advance(version, OFF));
    expect(outcome).toMatchObject({ store: { kind: 'failed' }, act: null });
    expect(api.writes()).toEqual([]);
    expect(did('1')).toBe('');
  });

  it('about the own node never cuts its power (G9)', async () => {
    const version = decided();
    const outcome = await someEffects({ node: () => 'w1' }).outcomeOf(advance(version, OFF));
    expect(outcome?.act).toEqual({ kind: 'ran', runs: [] });
    expect(did('1') + did('2')).toBe('');
  });

  it("switches no other node's devices, whatever the record names", async () => {
    const version = decided();
    const node = { ...W1, name: 'w2' };
    const outcome = await someEffects().outcomeOf({ ...advance(version, OFF), node } as GuardDecision);
    expect(outcome?.act).toMatchObject({
      kind: 'ran',
      runs: [
        { isOk: false, detail: 'the configuration has no such method for this node' },
        { isOk: false, detail: 'the configuration has no such method for this node' },
      ],
    });
    expect(did('1') + did('2')).toBe('');
  });

  it('that is a bug is told, and answered like any other', async () => {
    const outcome = await someEffects().outcomeOf({
      ...advance(null, null),
      fencing: '../../secrets/x',
    } as GuardDecision);
    expect(outcome).toMatchObject({ of: '7', store: { kind: 'failed' }, act: null });
    expect(told).toMatchObject([{ what: 'bug', node: 'w1' }]);
    expect(api.writes()).toEqual([]);
  });
});

describe('an order', () => {
  const fence = { ...advance(null, OFF, { phase: 'decided' }), id: '8' };
  const answer: GuardDecision = {
    ...{ id: '9', atMs: 0, kind: 'answer', order: 'a', carries: '8', keeps: false },
    answer: { isAccepted: true, fencing: ID },
  };
  const ends = async (): Promise<readonly (readonly unknown[])[]> => {
    const { effects } = someEffects();
    effects.carryOut(verdict([fence, answer]), SEEN);
    const outcomes: GuardOutcome[] = [];
    await until(() => outcomes.push(...effects.outcomes()) >= 0 && outcomes.length === 2);
    return outcomes.map(({ of, store }) => [of, store?.kind]);
  };
  it('is carried out once its answer is stored, and not before', async () => {
    api.putMap('guard-orders', { 'order-a': '{}' });
    expect(await ends()).toEqual([
      ['9', 'stored'],
      ['8', 'stored'],
    ]);
    expect(api.writes().map(({ path }) => path.split('/').at(-1))).toEqual(['guard-orders', 'configmaps']);
    expect(did('1')).toBe('off\n');
  });
  it('that was taken back is not carried out', async () => {
    api.putMap('guard-orders', {});
    expect(await ends()).toEqual([
      ['9', 'conflict'],
      ['8', 'failed'],
    ]);
    expect(api.writes()).toEqual([]);
    expect(did('1')).toBe('');
    expect(told).toMatchObject([{ what: 'not-stored', node: 'w1' }]);
  });
});

describe('a dry run', () => {
  it('asks devices for their status, and neither writes nor sends a command', async () => {
    const version = decided();
    const { effects } = someEffects({}, true);
    const decisions: GuardDecision[] = [
      advance(version, OFF),
      { ...advance(null, null), kind: 'fence', id: '8', isDry: true } as unknown as GuardDecision,
      { id: '9', atMs: 0, kind: 'unmark', node: W1, value: `nodewarden.${ID}`, act: { kind: 'clear' } },
      {
        id: '10',
        atMs: 0,
        kind: 'answer',
        order: 'a',
        answer: { isAccepted: true, fencing: null },
        carries: null,
        keeps: false,
      },
      { id: '11', atMs: 0, kind: 'hold', node: W1, gates: [] },
    ];
    api.putMap('guard-orders', { 'order-a': '{}' });
    effects.carryOut(verdict(decisions, [{ node: W1, method: '1', for: 'patrol' }]), SEEN);
    await until(() => did('1') !== '');
    const outcomes: GuardOutcome[] = [];
    await until(() => outcomes.push(...effects.outcomes()) >= 3);
    expect(outcomes.map(({ of, store, act }) => [of, store?.kind ?? act?.kind]).sort()).toEqual([
      ['10', 'failed'],
      ['7', 'failed'],
      ['9', 'not-begun'],
    ]);
    expect(did('1')).toBe('status\n');
    expect(api.writes()).toEqual([]);
  });
});
