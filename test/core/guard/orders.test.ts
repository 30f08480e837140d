import { describe, expect, it } from 'vitest';
import { stepAnswering } from '../../../src/core/guard/accepted-orders.ts';
import type { Order } from '../../../src/core/guard/observation.ts';
import { pruneOrders, stepOrders } from '../../../src/core/guard/orders.ts';
import type { FencingRecord } from '../../../src/core/guard/record.ts';
import { deviceKey, type GuardState, type Hold } from '../../../src/core/guard/state.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import { aPodOn } from './a-machine.ts';
import { aCondition, aMemory } from './a-node.ts';
import { aDevice, aFencing, aLook, aRecord, type Given, LEASE, NODE, SINCE, WALL } from './a-turn.ts';

type Said<O> = O extends Order ? Omit<O, 'id' | 'to' | 'by' | 'because'> : never;
type Case = Given & {
  /** The node's fencing. */
  readonly open?: Partial<FencingRecord> & { readonly isPending?: true; readonly isOverdue?: true };
  readonly by?: string;
  readonly to?: string;
  /** How long ago the order was first seen; absent: now. */
  readonly seenAgoMs?: number;
};
const AT = SINCE + 10_000;
const HOUR = 3_600_000;
const on = { name: 'w1', uid: 'uid-w1' };
const FENCE = { verb: 'fence', node: on } as const;
const REHEARSE = { verb: 'rehearse', node: on } as const;
const CONFIRM = { verb: 'confirm-off', node: on, checked: 'w1', isDeviceWrong: false } as const;
const FOREIGN = { key: 'node.kubernetes.io/out-of-service', value: 'nodeshutdown', effect: 'NoExecute' };
const POWER_ON = { verb: 'power-on', node: on } as const;

function ordered(said: Said<Order>, { open, by = 'ana', to = 'me', seenAgoMs, ...given }: Case = {}) {
  const order = { id: 'o1', to, by, because: 'a test', ...said } as Order;
  const { isPending, isOverdue = false, ...rest } = open ?? {};
  const record = aRecord(rest);
  const pending = isPending ? { pending: { decision: '1', atMs: SINCE, becomes: record } } : {};
  const fencings: GuardState['fencings'] =
    open === undefined ? new Map() : new Map([[record.id, aFencing(record, { ...pending, isOverdue })]]);
  const orders: GuardState['orders'] =
    seenAgoMs === undefined ? new Map() : new Map([['o1', { seenMs: AT - seenAgoMs, isAnswered: false }]]);
  const look = aLook({
    ...given,
    state: { fencings, orders, ...given.state },
    seen: { orders: [order], ...given.seen },
  });
  return stepOrders({ state: look.state, decisions: [], reasons: [] }, look);
}

/** `accepted w1-1`, `refused by gate: why`, or `awaited`. */
function answerTo(said: Said<Order>, rest: Case = {}): string {
  const { progress, awaited } = ordered(said, rest);
  const answers = progress.decisions.flatMap((decision) => (decision.kind === 'answer' ? [decision.answer] : []));
  expect(answers.length).toBeLessThanOrEqual(1);
  const [answer] = answers;
  const kept = progress.state.orders.get('o1');
  const seenMs = AT - (rest.seenAgoMs ?? 0);
  if (answer === undefined) {
    expect([...awaited]).toEqual([NODE.uid]);
    expect(kept).toEqual({ seenMs, isAnswered: false });
    return 'awaited';
  }
  expect(awaited.size).toBe(0);
  expect(kept).toEqual({ seenMs, isAnswered: true });
  if (answer.isAccepted) return `accepted ${answer.fencing}`;
  return `refused${answer.gate === null ? '' : ` by ${answer.gate}`}: ${answer.why}`;
}
const first = (said: Said<Order>, rest: Case = {}) => ordered(said, rest).progress.decisions[0];
function begun(said: Said<Order>, rest: Case = {}) {
  const decision = first(said, rest);
  if (decision?.kind !== 'fence') throw new Error('no fencing began');
  return decision;
}
function rows(said: Said<Order>, base: Case, cases: readonly [string, Case, string][]) {
  it.each(cases)('%s', (_, rest, expected) => {
    expect(answerTo(said, { ...base, ...rest })).toBe(expected);
  });
}

describe('an order', () => {
  rows({ verb: 'pause' }, {}, [
    ['is accepted', {}, 'accepted null'],
    ['written for another leader is stale', { to: 'other' }, 'refused: stale'],
    ['of nobody is refused', { by: ' ' }, 'refused: no-by'],
  ]);
  it('that this version does not know is refused', () => {
    expect(answerTo({ verb: 'unknown', said: 'reboot' })).toBe('refused: unknown-verb');
  });
  it.each<Said<Order>>([
    { verb: 'pause' },
    { verb: 'resume' },
    { verb: 'release', scope: { kind: 'cluster' }, forMs: 1 },
  ])('to $verb waits until it is known what earlier leaders kept', (said) => {
    const self = { ...aLook().state.self, adoptedMs: null };
    const { progress } = ordered(said, { state: { self } });
    expect([progress.decisions, progress.state.paused, progress.state.releases]).toEqual([[], null, []]);
  });
  it('is refused in a dry run', () => {
    const { progress } = ordered({ verb: 'pause' }, { config: { dryRun: true } });
    expect(progress.decisions).toMatchObject([{ answer: { isAccepted: false, why: 'dry-run' } }]);
    expect(progress.state.paused).toBeNull();
  });
  it('names the decision by which it is carried out', () => {
    const { decisions } = ordered(FENCE).progress;
    expect(decisions).toMatchObject([{ kind: 'fence' }, { kind: 'answer', carries: decisions[0]?.id }]);
    expect(first({ verb: 'pause' })).toMatchObject({ kind: 'answer', carries: null });
  });
  it('names its own one, also after an order before it at the same look', () => {
    const to = { to: 'me', by: 'ana', because: 'a test' };
    const look = aLook({
      seen: { orders: [{ id: 'o1', ...to, verb: 'pause' }, { id: 'o2', ...to, ...POWER_ON } as Order] },
    });
    const open = aFencing(aRecord({ phase: 'left-off', offSent: ['vm w1'] }));
    const state = { ...look.state, fencings: new Map([[open.record.id, open]]) };
    const { decisions } = stepOrders({ state, decisions: [], reasons: [] }, { ...look, state }).progress;
    expect(decisions.map(({ kind }) => kind)).toEqual(['answer', 'recover', 'answer']);
    expect(decisions[2]).toMatchObject({ order: 'o2', carries: decisions[1]?.id });
  });
  it('waits for the leader of the newest record', () => {
    const newer = { id: 'w9-1', version: '1', record: aRecord({ id: 'w9-1', epoch: 4 }) };
    const { progress } = ordered(POWER_ON, { seen: { records: known([newer]) } });
    expect([progress.decisions, progress.state.orders.size]).toEqual([[], 0]);
  });
  it('waits for a leader with authority', () => {
    const { progress, awaited } = ordered({ verb: 'pause' }, { own: { leadership: { isLeader: false } } });
    expect([progress.decisions, progress.state.orders.size, awaited.size]).toEqual([[], 0, 0]);
  });
  it('is answered once', () => {
    const orders = new Map([['o1', { seenMs: 5, isAnswered: true }]]);
    const { progress } = ordered({ verb: 'pause' }, { state: { orders } });
    expect([progress.decisions, progress.state.paused]).toEqual([[], null]);
  });
  it('is forgotten when it is gone from where it was written', () => {
    const entry = { seenMs: 5, isAnswered: true };
    const two: GuardState['orders'] = new Map([
      ['o1', entry],
      ['o2', entry],
    ]);
    const o1 = { id: 'o1' } as Order;
    const seen = (orders: GuardState['orders']) => ({ orders, carried: new Map() });
    expect([...pruneOrders(seen(two), [o1]).keys()]).toEqual(['o1']);
    expect(pruneOrders(seen(two), [o1, { id: 'o2' } as Order])).toBe(two);
    const none: GuardState['orders'] = new Map();
    expect(pruneOrders(seen(none), [o1])).toBe(none);
  });
  it('waits for another answer of a device that was slow, and is refused if none was in time', () => {
    const recent = [{ says: 'on', begunMs: AT - 60_000, endedMs: AT - 44_000 }] as const;
    const slow = { said: { 'vm w1': ['on@-50000'] }, device: { recent } } as const;
    expect(answerTo(FENCE, { ...slow, seenAgoMs: 19_999 })).toBe('awaited');
    expect(answerTo(FENCE, { ...slow, seenAgoMs: 20_000 })).toBe('refused by device: too-slow');
    const idle = { memory: { isSuspect: false, of: { isUnschedulable: true, conditions: [aCondition()] } }, pods: [] };
    expect(answerTo(REHEARSE, { ...slow, ...idle })).toBe('awaited');
    expect(answerTo(REHEARSE, { ...slow, ...idle, seenAgoMs: 20_000 })).toBe('refused by device: too-slow');
  });
  it('is awaited for 25 s, however long what it needs is not known', () => {
    const unknownYet = { said: {} };
    expect(answerTo(FENCE, { ...unknownYet, seenAgoMs: 24_999 })).toBe('awaited');
    expect(answerTo(FENCE, { ...unknownYet, seenAgoMs: 25_000 })).toBe('refused: not-known-in-time');
  });
});

describe('pause, resume and release', () => {
  const afterAnswer = (said: Said<Order>, rest: Case): GuardState => {
    const { state, decisions } = ordered(said, rest).progress;
    const store = { kind: 'stored', version: '2' } as const;
    return stepAnswering(state, [{ of: decisions[0]?.id ?? '', fencing: null, atMs: AT, store, act: null }], AT);
  };
  const paused = { by: 'bob', because: 'maintenance', wallMs: 7 };
  it('pause and resume', () => {
    const { progress } = ordered({ verb: 'pause' });
    expect(progress.state.paused).toEqual({ by: 'ana', because: 'a test', wallMs: WALL + AT });
    expect(afterAnswer({ verb: 'resume' }, { state: { paused } }).paused).toBeNull();
  });
  const scope = { kind: 'node', name: 'w1' } as const;
  it.each([
    [0, 'refused: more-than-2h'],
    [-1, 'refused: more-than-2h'],
    [Number.NaN, 'refused: more-than-2h'],
    [1, 'accepted null'],
    [2 * HOUR, 'accepted null'],
    [2 * HOUR + 1, 'refused: more-than-2h'],
  ])('release for %i ms: %s', (forMs, expected) => {
    const others = [aMemory({ of: { name: 'w2' } })];
    expect(answerTo({ verb: 'release', scope, forMs }, { others })).toBe(expected);
  });
  rows({ verb: 'release', scope: { kind: 'domain', label: 'zone', value: 'a' }, forMs: 1 }, {}, [
    ['of a failure domain', { memory: { of: { labels: { zone: 'a' } } } }, 'accepted null'],
    ['of one without a node', {}, 'refused by scope: no-such-domain'],
    [
      'by a label that divides no domains',
      { memory: { of: { labels: { zone: 'a' } } }, config: { domainLabels: ['rack'] } },
      'refused by scope: no-such-domain',
    ],
  ]);
  rows({ verb: 'release', scope: { kind: 'domain', label: 'rack', value: '' }, forMs: 1 }, {}, [
    ['of the nodes without a label that divides no domains', {}, 'refused by scope: no-such-domain'],
    ['of those that are all in one', { config: { domainLabels: ['rack'] } }, 'accepted null'],
  ]);
  it('release of a node that does not exist is refused', () => {
    expect(answerTo({ verb: 'release', scope: { kind: 'node', name: 'w11' }, forMs: 1 })).toBe(
      'refused by scope: no-such-node',
    );
  });
  it('release ends by itself, and the ended ones are forgotten', () => {
    const other = (untilMs: number) => ({ scope: { kind: 'cluster' } as const, untilMs, by: 'bob' });
    const releases = [other(AT), other(AT + 1)];
    const state = afterAnswer({ verb: 'release', scope, forMs: 60_000 }, { state: { releases } });
    expect(state.releases).toEqual([other(AT + 1), { scope, untilMs: AT + 60_000, by: 'ana' }]);
  });
});

describe('fence', () => {
  const storm: Hold = { kind: 'all', scope: { kind: 'cluster', group: 'workers' }, sinceMs: 0, endedMs: null };
  rows(FENCE, {}, [
    ['a dead node', {}, 'accepted w1-1'],
    ['a node that is not dead', { memory: { overdueMs: null } }, 'accepted w1-1'],
    ['a node without a lease', { memory: { lease: null } }, 'refused by dead: no-lease'],
    ['in a storm', { state: { holds: [storm] } }, 'accepted w1-1'],
    ['a node with nothing to free', { pods: [] }, 'accepted w1-1'],
    ['a node that is gone', { memory: null }, 'refused by scope: no-such-node'],
    ['another node of its name', { memory: { of: { name: 'w9', uid: 'uid-w1' } } }, 'refused by scope: no-such-node'],
    ['in dry run', { config: { dryRun: true } }, 'refused: dry-run'],
    ['while paused', { state: { paused: { by: 'bob', because: '', wallMs: 0 } } }, 'refused by self: paused'],
    ['a node whose kubelet answers', { witness: 'answers' }, 'refused by witness: kubelet-answers'],
    ['a node that shuts down', { memory: { announced: 'agent' } }, 'refused by planned: agent'],
    ['a node whose device was not asked', { said: {} }, 'awaited'],
    ['a node whose kubelet was not tried', { seen: { asked: new Map() } }, 'awaited'],
    [
      'a node whose device is contradicted',
      { device: { contradicted: { why: 'life-after-proof', wallMs: 0 } } },
      'refused by device: contradicted',
    ],
    ['a node in a fencing', { open: { phase: 'tainted' } }, 'refused: already-open'],
    ['a node whose fencing was decided, and goes on', { open: { phase: 'decided' } }, 'refused: already-open'],
    ['a node whose fencing was decided, and waits', { open: { phase: 'decided', isOverdue: true } }, 'accepted w1-1'],
    ['a node whose rehearsal failed', { open: { phase: 'failed', purpose: 'rehearse' } }, 'refused: already-open'],
    ['a node whose fencing was switched on', { open: { phase: 'stuck', onSent: ['vm w1'] } }, 'refused: already-open'],
    ['a node whose fencing is being stored', { open: { phase: 'failed', isPending: true } }, 'awaited'],
    ['a node whose fencing failed', { open: { phase: 'failed' } }, 'accepted w1-1'],
    ['a node whose fencing is stuck', { open: { phase: 'stuck' } }, 'accepted w1-1'],
    [
      'a node while another one is in a fencing',
      { open: { phase: 'decided', id: 'w9-1', node: { ...NODE, uid: 'uid-w9' } } },
      'accepted w1-1',
    ],
    ['a node whose fencing is over', { open: { phase: 'closed' } }, 'accepted w1-2'],
  ]);
  const order = { verb: 'fence', by: 'ana', because: 'a test' };
  it('begins a fencing in the name of the person', () => {
    expect(first(FENCE)).toMatchObject({
      kind: 'fence',
      fencing: 'w1-1',
      record: { order, purpose: 'fence', phase: 'decided' },
    });
    const { gates, frees } = begun(FENCE);
    expect([gates.length, frees?.pods.length]).toEqual([9, 1]);
  });
  it('begins one that failed again, from its start', () => {
    const open = { phase: 'stuck', retries: 3, attempt: 2, why: 'not-proven' } as const;
    const anew = { phase: 'decided', order, retries: 0, attempt: 0, why: null };
    expect(first(FENCE, { open })).toMatchObject({ kind: 'advance', from: 'stuck', record: anew, act: null });
  });
  it('of one in flight does not stand in its own way', () => {
    const rate = { minIntervalMs: 0, maxPerHour: 6, maxInFlight: 1 };
    const failed = { phase: 'failed' } as const;
    expect(answerTo(FENCE, { open: failed, config: { rate } })).toBe('accepted w1-1');
  });
});

describe('rehearse', () => {
  const READY = { conditions: [aCondition()] };
  const idle = { isSuspect: false, overdueMs: null, onsetMs: null, signMs: SINCE };
  const memory = { ...idle, of: { ...READY, isUnschedulable: true } };
  const daemon = aPodOn({ ownerKind: 'DaemonSet' });
  const attachment = { name: 'va', node: 'w1', driver: 'csi', volume: 'pv' };
  const drained = { memory, pods: [daemon] };
  rows(REHEARSE, drained, [
    ['a living node that is cordoned and drained', {}, 'accepted w1-1'],
    ['whatever its devices did', { device: { contradicted: { why: 'life-after-proof', wallMs: 0 } } }, 'accepted w1-1'],
    ['a suspect', { memory: { ...memory, isSuspect: true } }, 'refused: not-ready'],
    ['a node without a lease', { memory: { ...memory, lease: null } }, 'refused by dead: no-lease'],
    ['a node that is not Ready', { memory: { ...memory, of: { isUnschedulable: true } } }, 'refused: not-ready'],
    ['a node that is not cordoned', { memory: { ...idle, of: READY } }, 'refused: not-cordoned'],
    ['a node with another pod', { pods: [daemon, aPodOn()] }, 'refused: not-drained'],
    [
      'a node with a pod that tolerates every taint',
      { pods: [aPodOn({ ownerKind: 'ReplicaSet', hasAttachedVolume: false, toleratesTaint: true })] },
      'refused: not-drained',
    ],
    ['a node with a pod that has ended', { pods: [aPodOn({ isFinished: true })] }, 'accepted w1-1'],
    [
      'a node with a pod that is going',
      { pods: [aPodOn({ isFinished: true, isTerminating: true })] },
      'refused: not-drained',
    ],
    [
      'a node with pods of its own manifests',
      { pods: [aPodOn({ ownerKind: 'Node', toleratesTaint: true })] },
      'accepted w1-1',
    ],
    ['a node with a volume', { attachments: [attachment] }, 'refused: not-drained'],
    ['a node whose pods were not read', { pods: null }, 'awaited'],
    ['a node whose device was not asked', { said: {} }, 'awaited'],
    ['a node in a fencing', { open: { phase: 'booting' } }, 'refused: already-open'],
    ['while paused', { state: { paused: { by: 'bob', because: '', wallMs: 0 } } }, 'refused by self: paused'],
    [
      'a node that was switched off before',
      { config: { nodes: [{ key: 'x', operator: 'Exists', values: [] }] } },
      'refused by scope: outside-nodes',
    ],
  ]);
  it('cuts by the level of which a method was rehearsed longest ago', () => {
    const plan = { isolation: [], levels: [['a', 'b'], ['c']] };
    const devices = (
      [
        ['a', 5],
        ['b', null],
        ['c', 3],
      ] as const
    ).map(([method, rehearsedWallMs]) => aDevice(method, ['on@9000'], { rehearsedWallMs }));
    const state = { devices: new Map(devices.map((one) => [deviceKey(one.node, one.method), one])) };
    expect(begun(REHEARSE, { ...drained, config: { defaultPlan: plan }, state }).record.level).toBe(0);
  });
  it('says what stands on the node, and at which gates', () => {
    const decision = begun(REHEARSE, drained);
    expect(decision).toMatchObject({
      kind: 'fence',
      record: { purpose: 'rehearse', order: { verb: 'rehearse', by: 'ana' } },
    });
    expect([decision.gates.length, decision.frees?.pods.length]).toEqual([9, 1]);
  });
});

describe('confirm-off', () => {
  const OFF = { said: { 'vm w1': ['off@10000'] } } as const;
  const ON = { said: { 'vm w1': ['on@10000'] } } as const;
  const TWO = { config: { defaultPlan: { isolation: [], levels: [['a'], ['b']] } } };
  const UNREADABLE = known([{ id: 'w1-1', version: '1', record: null, problem: 'not JSON', nodeKey: 'w1' }]);
  const never = unknown('not-asked', '', '');
  const triedAt = (asOfMs: number) => ({
    asked: new Map([
      [NODE.uid, { witness: known({ value: 'answers' as const, asOfMs }), pods: never, look: never, members: never }],
    ]),
  });
  rows(CONFIRM, OFF, [
    ['a suspect', {}, 'accepted w1-1'],
    ['a living node', { memory: { isSuspect: false } }, 'refused by dead: alive'],
    ['a node without a lease', { memory: { isSuspect: false, lease: null } }, 'refused by dead: no-lease'],
    ['while paused', { state: { paused: { by: 'bob', because: '', wallMs: 0 } } }, 'refused by self: paused'],
    ['a node whose kubelet answers', { witness: 'answers' }, 'refused by witness: kubelet-answers'],
    ['unless that says nothing', { witness: 'answers', config: { kubeletAnswers: 'ignore' } }, 'accepted w1-1'],
    ['a node whose kubelet was not tried', { seen: { asked: new Map() } }, 'awaited'],
    ['a node of which other things were asked', { witnessMs: null }, 'awaited'],
    ['a node whose kubelet refuses', { witness: 'refused' }, 'accepted w1-1'],
    ['a node whose kubelet was tried before the order', { seen: triedAt(AT - 1) }, 'awaited'],
    ['one that was not tried in time', { seen: triedAt(AT - 20_001), seenAgoMs: 20_000 }, 'accepted w1-1'],
    ['the own node', { own: { node: 'w1' } }, 'refused by scope: own-node'],
    ['a node with an unreadable record', { seen: { records: UNREADABLE } }, 'refused by scope: unreadable-record'],
    [
      'the node of another owner',
      { memory: { of: { annotations: { 'cluster.x-k8s.io/machine': 'm' } } } },
      'accepted w1-1',
    ],
    ['against a device that says on', ON, 'refused by device: device-says-on'],
    [
      'against one of two',
      { ...TWO, said: { a: ['off@10000'], b: ['on@10000'] } },
      'refused by device: device-says-on',
    ],
    ['not for an on from before the order', { said: { 'vm w1': ['on@9999'] } }, 'awaited'],
    ['with a device that was not asked', { said: {} }, 'awaited'],
    ['with one of two that was not', { ...TWO, said: { a: ['off@10000'] } }, 'awaited'],
    ['with one that stays silent, for 20 s', { said: {}, seenAgoMs: 19_999 }, 'awaited'],
    ['and no longer', { said: {}, seenAgoMs: 20_000 }, 'accepted w1-1'],
    ['without a method', { config: { defaultPlan: null }, said: {} }, 'accepted w1-1'],
    ['in a fencing that asks for its proof', { open: { phase: 'proving' } }, 'accepted w1-1'],
    ['in one that waits for its gates', { open: { phase: 'decided' } }, 'accepted w1-1'],
    ['in one that failed', { open: { phase: 'failed' } }, 'accepted w1-1'],
    ['in one that is stuck', { open: { phase: 'stuck' } }, 'accepted w1-1'],
    ['in one that is not back', { open: { phase: 'not-back' } }, 'accepted w1-1'],
    ['in one that goes on', { open: { phase: 'off-sent' } }, 'refused: already-open'],
    ['in a rehearsal', { open: { phase: 'failed', purpose: 'rehearse' } }, 'refused: already-open'],
    ['in one that is being stored', { open: { phase: 'proving', isPending: true } }, 'awaited'],
  ]);
  it('names the node twice', () => {
    expect(answerTo({ ...CONFIRM, checked: 'w2' }, OFF)).toBe('refused: not-checked');
  });
  it('overrules a device, and says so', () => {
    const overruled = { ...CONFIRM, isDeviceWrong: true };
    expect(answerTo(overruled, ON)).toBe('accepted w1-1');
    const proof = { by: 'person', name: 'ana' };
    const order = { verb: 'confirm-off', by: 'ana', because: 'a test' };
    expect(first(overruled, ON)).toMatchObject({
      kind: 'fence',
      record: { phase: 'proving', proof, order, why: 'device-is-wrong' },
    });
    const plain = begun(CONFIRM, OFF);
    expect(plain).toMatchObject({ record: { phase: 'proving', proof, why: null } });
    expect([plain.gates.length, plain.frees?.pods.length]).toEqual([9, 1]);
    const open = { phase: 'failed', why: 'not-proven' } as const;
    expect(first(CONFIRM, { ...OFF, open })).toMatchObject({
      kind: 'confirm',
      from: 'failed',
      record: { phase: 'proving', proof, order, why: null },
      act: null,
    });
    const lived = { memory: { of: { bootId: 'boot-2' }, lease: { ...LEASE, renewed: 'r9' } } };
    expect(first(CONFIRM, { ...OFF, ...lived, open: { phase: 'not-back', isAlive: true } })).toMatchObject({
      record: { phase: 'proving', proof, isAlive: false, node: { bootId: 'boot-2' }, renewed: 'r9' },
    });
  });
});

describe('power-on', () => {
  const DEVICES = { by: 'devices', level: 0 } as const;
  const SENT = { offSent: ['vm w1'], onSent: ['vm w1'], staysOff: 'person' } as const;
  rows(POWER_ON, {}, [
    ['a node without a fencing', {}, 'refused: no-fencing'],
    ['what was left off', { open: { ...SENT, phase: 'left-off' } }, 'accepted w1-1'],
    ['what is not back', { open: { ...SENT, phase: 'not-back' } }, 'accepted w1-1'],
    ['what is stuck', { open: { ...SENT, phase: 'stuck' } }, 'accepted w1-1'],
    ['what failed after its off', { open: { phase: 'failed', offSent: ['vm w1'] } }, 'accepted w1-1'],
    ['what failed and lost its proof', { open: { phase: 'failed', proof: DEVICES } }, 'accepted w1-1'],
    ['what failed before any off', { open: { phase: 'failed' } }, 'refused: wrong-phase'],
    ['what is tainted', { open: { ...SENT, phase: 'tainted' } }, 'accepted w1-1'],
    ['what loses its taint', { open: { ...SENT, phase: 'untainting' } }, 'awaited'],
    ['what is being stored', { open: { ...SENT, phase: 'left-off', isPending: true } }, 'awaited'],
    [
      'what has no method',
      { open: { phase: 'left-off', plan: { isolation: [], levels: [] } } },
      'refused by device: no-method',
    ],
    ['what is about to be proven', { open: { ...SENT, phase: 'proving' } }, 'refused: wrong-phase'],
    [
      'what somebody else has set out of service',
      { open: { ...SENT, phase: 'left-off' }, memory: { of: { taints: [FOREIGN] } } },
      'refused by scope: other-owner',
    ],
  ]);
  const change = { why: 'power-on', staysOff: null };
  it('switches on, but never under the taint', () => {
    const at = (phase: FencingRecord['phase']) => first(POWER_ON, { open: { ...SENT, phase } });
    expect(at('left-off')).toMatchObject({
      kind: 'recover',
      record: { ...change, phase: 'on-sent' },
      act: { kind: 'on', steps: [['vm w1']] },
    });
    expect(at('failed')).toMatchObject({ kind: 'recover', record: { ...change, phase: 'on-sent' } });
    const lost = first(POWER_ON, { open: { phase: 'failed', offSent: ['vm w1'], proof: DEVICES } });
    for (const one of [at('tainted'), lost]) {
      expect(one).toMatchObject({
        kind: 'advance',
        record: { ...change, phase: 'untainting' },
        act: { kind: 'untell' },
      });
    }
  });
});

it('what an order frees is awaited, and it is not refused for what cannot be read', () => {
  const never = unknown('not-asked', '', '');
  const asked = new Map([
    [NODE.uid, { witness: known({ value: 'silent' as const, asOfMs: AT }), pods: never, look: never, members: never }],
  ]);
  for (const order of [FENCE, CONFIRM]) {
    const given = { seen: { asked }, lease: LEASE, said: { 'vm w1': ['off@10000'] } } as const;
    expect(answerTo(order, given)).toBe('awaited');
    expect(answerTo(order, { ...given, seenAgoMs: 20_000 })).toBe('accepted w1-1');
    expect(begun(order, { ...given, seenAgoMs: 20_000 })).toMatchObject({ frees: null, record: { freed: null } });
  }
});
