import { describe, expect, it } from 'vitest';
import type { GuardConfig } from '../../../src/core/guard/config.ts';
import { atGate, firstShut, gatesOf, lookOf } from '../../../src/core/guard/gates.ts';
import type { GuardObservation, Witness } from '../../../src/core/guard/observation.ts';
import type { FencingRecord, StoredRecord } from '../../../src/core/guard/record.ts';
import {
  type DeviceMemory,
  deviceKey,
  type Fencing,
  type GuardState,
  initialGuardState,
} from '../../../src/core/guard/state.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import { aGuardConfig } from './a-guard-config.ts';
import { aPodOn } from './a-machine.ts';
import { aMemory, byUid } from './a-node.ts';

const AT_MS = 1_000_000;
const WALL_MS = 1_700_000_000_000;
const DEAD = { isSuspect: true, signMs: AT_MS - 200_000, onsetMs: AT_MS - 200_000, overdueMs: AT_MS - 60_000 };

function aDevice(rest: Partial<DeviceMemory> = {}): DeviceMemory {
  return {
    node: 'uid-w1',
    method: 'vm w1',
    says: 'on',
    begunMs: AT_MS - 1_000,
    wallMs: 0,
    silentSinceMs: null,
    awayMs: null,
    returnedMs: null,
    recent: [],
    offMs: null,
    hasSaidOn: true,
    contradicted: null,
    rehearsedWallMs: null,
    ...rest,
  };
}
const leader = (leftMs = 9_000, epoch = 3) =>
  ({ isLeader: true, epoch, sinceMs: 0, authorityUntilMs: AT_MS + leftMs }) as const;
const aRecord = (rest: Partial<FencingRecord>): StoredRecord => {
  const node = { name: 'w9', uid: 'uid-w9', bootId: 'b' };
  const record = { id: 'w9-1', node, phase: 'closed', purpose: 'fence', epoch: 1, offSent: ['x'], steps: [], ...rest };
  return { id: record.id, version: '1', record: record as unknown as FencingRecord };
};

const anUnreadable = (id: string, nodeKey: string | null): StoredRecord => ({
  ...{ id, version: '1', record: null, nodeKey },
  problem: nodeKey === null ? 'no name of it' : 'no JSON',
});

type Given = {
  readonly memory?: Parameters<typeof aMemory>[0];
  readonly others?: readonly Parameters<typeof aMemory>[0][];
  readonly state?: Partial<GuardState>;
  readonly self?: Partial<GuardState['self']>;
  readonly own?: Partial<GuardObservation['self']>;
  readonly seen?: Partial<GuardObservation>;
  readonly witness?: Witness;
  readonly readMs?: number;
  readonly config?: Partial<GuardConfig>;
  readonly ageMs?: number | null;
  readonly device?: Partial<DeviceMemory> | null;
  readonly fencing?: string;
};

/** A dead node at open gates, but for what is given. */
function at(given: Given = {}) {
  const memory = aMemory({ ...DEAD, ...given.memory });
  const initial = initialGuardState(0, 0);
  const device = given.device === null ? [] : [aDevice(given.device)];
  const state: GuardState = {
    ...initial,
    self: { ...initial.self, readMs: AT_MS, anySignMs: AT_MS, settlesMs: 0, ...given.self },
    nodes: byUid([memory, ...(given.others ?? []).map((other) => aMemory(other))]),
    devices: new Map(device.map((one) => [deviceKey(one.node, one.method), one])),
    ...given.state,
  };
  const read = { asOfMs: given.readMs ?? AT_MS };
  const observation: GuardObservation = {
    atMs: AT_MS,
    wallMs: WALL_MS,
    self: { writer: 'me', node: 'w7', leadership: leader(), lastWriteMs: AT_MS, uptimeMs: AT_MS, ...given.own },
    nodes: known({ value: [], asOfMs: AT_MS }),
    records: known([]),
    kept: known({ devices: [], state: { paused: null, holds: [], past: [] } }),
    asked: new Map([
      [
        'uid-w1',
        {
          witness: known({ value: given.witness ?? 'silent', ...read }),
          pods: known({ value: [aPodOn()], ...read }),
          look: unknown('not-asked', '', ''),
          members: unknown('not-asked', '', ''),
        },
      ],
    ]),
    attachments: known({ value: new Map(), ...read }),
    answers: [],
    outcomes: [],
    orders: [],
    ...given.seen,
  };
  const look = lookOf(state, observation, aGuardConfig(given.config));
  return atGate(look, memory, given.ageMs === undefined ? 200_000 : given.ageMs, given.fencing ?? null);
}
/** `storm burst lasts / null > null`: gate, code, value, limit, and in how many ms it opens. */
function shut(given: Given): string {
  const row = firstShut(at(given));
  if (row === null) return 'open';
  const opens = row.opensMs === null ? '' : ` in ${row.opensMs - AT_MS}`;
  return `${row.gate} ${row.because} ${row.value}/${row.limit}${opens}`;
}

describe('a gate', () => {
  it('is open for a dead node that nothing speaks for, and every gate has a row', () => {
    expect(shut({})).toBe('open');
    const rows = gatesOf(at());
    expect(rows.map(({ gate }) => gate)).toEqual([
      'self',
      'scope',
      'planned',
      'dead',
      'witness',
      'worth',
      'device',
      'storm',
      'rate',
    ]);
    expect(rows.every(({ isOpen, because, opensMs }) => isOpen && because === 'open' && opensMs === null)).toBe(true);
  });

  const cp = { labels: { 'node-role.kubernetes.io/control-plane': '' } };
  const hold = { kind: 'burst', scope: { kind: 'nodes', nodes: ['uid-w1'] }, sinceMs: 0, endedMs: null } as const;
  const cut = (agoMs: number, id = 'w9-1') => aRecord({ id, steps: [{ phase: 'off-sent', wallMs: WALL_MS - agoMs }] });
  const inFlight = (id: string, phase = 'tainted', isOverdue = false) =>
    [id, { record: { id, phase, node: { uid: id }, steps: [] }, isOverdue }] as unknown as readonly [string, Fencing];
  const flying = (...ids: readonly string[]) => ({ fencings: new Map(ids.map((id) => inFlight(id))) });
  const masters = (...ready: readonly boolean[]) =>
    ready.map((isAlive, i) => ({ of: { name: `c${i}`, ...cp }, onsetMs: isAlive ? null : 5 }));
  const allowed = { controlPlane: 'oneAtATime' } as const;

  it.each<[string, Given]>([
    ['self not-leader null/null', { own: { leadership: { isLeader: false } } }],
    ['self authority 2999/3000', { own: { leadership: leader(2_999) } }],
    ['open', { own: { leadership: leader(3_000) } }],
    ['self records-unknown timed-out/null', { seen: { records: unknown('timed-out', '', '') } }],
    ['self records-unknown notes: no name of it/null', { seen: { records: known([anUnreadable('notes', null)]) } }],
    ['self higher-epoch 4/3', { seen: { records: known([aRecord({ epoch: 4 })]) } }],
    ['open', { seen: { records: known([aRecord({ epoch: 3 })]) } }],
    ['self kept-unknown absent/null', { seen: { kept: unknown('absent', '', '') } }],
    ['self settling election/1 in 1', { self: { settlesMs: AT_MS + 1, settlesFor: 'election' } }],
    ['open', { self: { settlesMs: AT_MS } }],
    ['self paused ana/null', { state: { paused: { by: 'ana', because: '', wallMs: 0 } } }],
    ['self api-reads null/15000', { self: { readMs: null } }],
    ['self api-reads 15001/15000', { self: { readMs: AT_MS - 15_001 } }],
    ['open', { self: { readMs: AT_MS - 15_000 } }],
    ['self api-writes null/10000', { own: { lastWriteMs: null } }],
    ['self api-writes 10001/10000', { own: { lastWriteMs: AT_MS - 10_001 } }],
    ['open', { own: { lastWriteMs: AT_MS - 10_000 } }],
    ['self no-sign-from-anybody null/20000', { self: { anySignMs: null } }],
    ['self no-sign-from-anybody 20001/20000', { self: { anySignMs: AT_MS - 20_001 } }],
    ['open', { self: { anySignMs: AT_MS - 20_000 } }],

    ['scope own-node w1/null', { own: { node: 'w1' } }],
    ['scope node-deleted null/null', { state: { nodes: new Map() } }],
    ['scope leaving deletionTimestamp/null', { memory: { of: { isDeleting: true } } }],
    [
      'scope excluded null/null',
      { memory: { of: { labels: { 'remediation.medik8s.io/exclude-from-remediation': 'true' } } } },
    ],
    ['scope skip null/null', { memory: { of: { annotations: { 'nodewarden.dev/guard': 'skip' } }, skippedMs: 0 } }],
    [
      'scope skip null/null in 1000',
      { memory: { of: { annotations: { 'nodewarden.dev/guard': 'skip for=1h' } }, skippedMs: AT_MS - 3_599_000 } },
    ],
    [
      'open',
      { memory: { of: { annotations: { 'nodewarden.dev/guard': 'skip for=1h' } }, skippedMs: AT_MS - 3_600_000 } },
    ],
    ['scope control-plane never/null', { memory: { of: cp } }],
    ['scope outside-nodes null/null', { config: { nodes: [{ key: 'pool', operator: 'Exists', values: [] }] } }],
    [
      'scope other-owner cluster.x-k8s.io/machine/null',
      { memory: { of: { annotations: { 'cluster.x-k8s.io/machine': 'm' } } } },
    ],
    [
      'open',
      { memory: { of: { annotations: { 'cluster.x-k8s.io/machine': 'm' } } }, config: { otherOwner: 'ignore' } },
    ],

    ['scope unreadable-record w1-3: no JSON/null', { seen: { records: known([anUnreadable('w1-3', 'w1')]) } }],
    ['open', { seen: { records: known([anUnreadable('w10-3', 'w10')]) } }],

    ['planned agent 200000/900000 in 700000', { memory: { announced: 'agent' } }],
    ['planned agent 899999/900000 in 1', { memory: { announced: 'agent' }, ageMs: 899_999 }],
    ['open', { memory: { announced: 'agent' }, ageMs: 900_000 }],
    ['planned cordon 200000/900000 in 700000', { memory: { cordonedMs: AT_MS } }],
    ['planned cordon 200000/900000 in 1', { memory: { cordonedMs: AT_MS - 1_799_999 } }],
    ['open', { memory: { cordonedMs: AT_MS - 1_800_000 } }],

    ['dead not-silent-enough 60000/120000 in 65000', { memory: { overdueMs: null }, ageMs: 60_000 }],
    ['dead seen-once 121000/120000 in 4000', { memory: { overdueMs: AT_MS - 1_000 }, ageMs: 121_000 }],
    [
      'dead not-silent-enough 150000/245000 in 100000',
      { memory: { overdueMs: null, lease: { renewed: 'r', durationMs: 180_000 } }, ageMs: 150_000 },
    ],
    ['dead no-age null/120000', { memory: { overdueMs: null }, ageMs: null }],
    ['dead no-lease null/120000', { memory: { overdueMs: null, lease: null }, ageMs: null }],

    ['witness kubelet-answers answers/null', { witness: 'answers' }],
    ['open', { witness: 'answers', config: { kubeletAnswers: 'ignore' } }],
    // A device of it said on again, and it has not lived since.
    ['dead may-be-booting 5000/600000 in 595000', { device: { returnedMs: AT_MS - 5_000 } }],
    ['dead may-be-booting 150000/600000 in 450000', { device: { returnedMs: AT_MS - 150_000, says: 'unknown' } }],
    [
      'device contradicted 0/1',
      { device: { returnedMs: AT_MS - 600_000, contradicted: { why: 'off-while-alive', wallMs: 0 } } },
    ],
    ['open', { device: { returnedMs: AT_MS - 600_000 }, memory: { signMs: null } }],
    ['open', { device: { returnedMs: AT_MS - 5_000, says: 'off' } }],
    ['open', { device: { returnedMs: AT_MS - 200_000 } }],
    ['open', { witness: 'refused' }],
    // A kubelet that answered a moment ago lived then.
    ['witness kubelet-answered 119999/120000 in 1', { memory: { answeredMs: AT_MS - 119_999 } }],
    ['witness kubelet-answered 5000/120000 in 115000', { witness: 'refused', memory: { answeredMs: AT_MS - 5_000 } }],
    ['open', { memory: { answeredMs: AT_MS - 120_000 } }],
    ['open', { memory: { answeredMs: AT_MS - 5_000 }, config: { kubeletAnswers: 'ignore' } }],
    // Before its election it asked nobody; whoever began a fencing had.
    ['witness kubelet-unheard 1000/120000 in 119000', { self: { electedMs: AT_MS - 1_000 } }],
    ['open', { self: { electedMs: AT_MS - 120_000 } }],
    ['open', { self: { electedMs: AT_MS - 1_000 }, fencing: 'w1-1' }],
    ['witness witness-unknown stale/null', { readMs: AT_MS - 30_001 }],
    // It was asked before its node came to.
    ['witness witness-unknown stale/null', { memory: { livesMs: AT_MS - 999 }, readMs: AT_MS - 1_000 }],
    ['open', { memory: { livesMs: AT_MS - 1_000 }, readMs: AT_MS - 1_000 }],
    ['worth stuck-unknown stale/null', { readMs: AT_MS - 30_001, config: { kubeletAnswers: 'ignore' } }],
    ['open', { readMs: AT_MS - 30_000 }],
    ['witness witness-unknown not-asked/null', { seen: { asked: new Map() } }],
    ['open', { seen: { attachments: unknown('not-asked', '', '') }, config: { fenceWhen: 'always' } }],

    ['device no-method null/null', { config: { defaultPlan: null } }],
    ['device not-asked 0/1', { device: null }],
    ['device silent 0/1', { device: { says: 'unknown' } }],
    [
      'device too-slow 14001/14000',
      { device: { recent: [{ says: 'on', begunMs: AT_MS - 1_000, endedMs: AT_MS + 13_001 }] } },
    ],
    ['device never-on 0/1', { device: { hasSaidOn: false } }],
    [
      'device never-on 0/2',
      { device: { hasSaidOn: false }, config: { defaultPlan: { isolation: [], levels: [['x'], ['vm {node}']] } } },
    ],
    ['device contradicted 0/1', { device: { contradicted: { why: 'life-after-proof', wallMs: 0 } } }],
    ['open', { config: { defaultPlan: { isolation: [], levels: [['x'], ['vm {node}']] } } }],
    ['device not-rehearsed 0/1', { config: { requireRehearsal: true } }],
    ['open', { config: { requireRehearsal: true }, device: { rehearsedWallMs: 1 } }],

    ['storm burst lasts/null', { state: { holds: [hold] } }],
    ['storm cool-down 400000/600000 in 200000', { state: { holds: [{ ...hold, endedMs: AT_MS - 400_000 }] } }],

    ['rate max-in-flight 2/2', { state: flying('a', 'b') }],
    ['open', { state: flying('a') }],
    ['open', { state: flying('a', 'b'), fencing: 'a' }],
    ['open', { state: { fencings: new Map([inFlight('a'), inFlight('b', 'tainted', true)]) } }],
    ['open', { state: { fencings: new Map([inFlight('a'), inFlight('b', 'booting')]) } }],
    ['rate min-interval 29999/30000 in 1', { seen: { records: known([cut(29_999)]) } }],
    ['open', { seen: { records: known([cut(30_000)]) } }],
    ['rate min-interval 0/30000 in 30000', { seen: { records: known([cut(-5_000_000)]) } }],
    [
      'rate max-per-hour 6/6 in 1000',
      {
        seen: {
          records: known([30, 31, 32, 33, 34, 3_599].map((ago, i) => cut(ago * 1_000, `w9-${i}`))),
        },
      },
    ],
    ['open', { seen: { records: known([60, 61, 62, 63, 64, 3_600].map((s, i) => cut(s * 1_000, `w9-${i}`))) } }],

    ['rate another-control-plane 1/2', { memory: { of: cp }, others: masters(true, false), config: allowed }],
    ['open', { memory: { of: cp }, others: masters(true, true), config: allowed }],
    ['rate control-plane-majority 1/2', { memory: { of: cp }, others: masters(true), config: allowed }],
    ['rate control-plane-majority 0/1', { memory: { of: cp }, config: allowed }],
  ])('%s: %#', (expected, given) => {
    expect(shut(given)).toBe(expected);
  });

  it('of the storm and of the rate is lifted by a release, but not how many are in flight', () => {
    const release = [{ scope: { kind: 'cluster' }, untilMs: AT_MS + 1, by: 'ana' }] as const;
    const records = known([cut(1)]);
    expect(shut({ state: { holds: [hold], releases: release }, seen: { records } })).toBe('open');
    expect(shut({ state: { ...flying('a', 'b'), releases: release } })).toBe('rate max-in-flight 2/2');
  });
  it('of the storm and of the rate does not hold a machine that is off already', () => {
    const recent = [10_000, 3_000].map(
      (agoMs) => ({ says: 'off', begunMs: AT_MS - agoMs, endedMs: AT_MS - agoMs }) as const,
    );
    const off = { says: 'off', recent } as const;
    const records = known([cut(1)]);
    expect(shut({ state: { holds: [hold] }, device: off, seen: { records } })).toBe('open');
    expect(shut({ state: { holds: [hold] }, device: { says: 'off', recent: recent.slice(1) } })).toBe(
      'storm burst lasts/null',
    );
  });
  it('of the storm holds one whose device is contradicted, or that has none', () => {
    const recent = [10_000, 3_000].map(
      (agoMs) => ({ says: 'off', begunMs: AT_MS - agoMs, endedMs: AT_MS - agoMs }) as const,
    );
    const contradicted = { why: 'life-after-proof', wallMs: 0 } as const;
    const storm = (given: Given) =>
      gatesOf(at({ ...given, state: { holds: [hold] } })).find(({ gate }) => gate === 'storm')?.because;
    expect(storm({ device: { says: 'off', recent, contradicted } })).toBe('burst');
    expect(storm({ config: { defaultPlan: null } })).toBe('burst');
  });
  it('of the rate is closed while records cannot be read', () => {
    const records = unknown('stale', 'configmaps', '');
    const rate = gatesOf(at({ seen: { records } })).find(({ gate }) => gate === 'rate');
    expect(rate).toMatchObject({ isOpen: false, because: 'records-unknown', value: 'stale' });
  });
  it('can be passed over by name', () => {
    expect(firstShut(at({ own: { node: 'w1' }, witness: 'answers' }), ['scope', 'witness'])).toBeNull();
    expect(firstShut(at({ own: { node: 'w1' }, witness: 'answers' }), ['scope'])?.gate).toBe('witness');
  });
});
