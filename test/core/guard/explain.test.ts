import { describe, expect, it } from 'vitest';
import { explainNode } from '../../../src/core/guard/explain.ts';
import type { Hold } from '../../../src/core/guard/state.ts';
import { unknown } from '../../../src/core/reading.ts';
import { aMemory } from './a-node.ts';
import { aFencing, aLook, aRecord, dryAt, type Given, SINCE } from './a-turn.ts';

const AT = SINCE + 10_000;
function explained(given: Given = {}, name = 'w1') {
  const { state, observation, config } = aLook(given);
  return explainNode(state, observation, config, name);
}
/** `gate because: order`, and in how many ms it opens. */
const why = (given: Given): string => {
  const told = explained(given);
  if (told?.deciding == null) return `open ${told?.overruledBy}`;
  const opens = told.opensMs === null ? '' : ` in ${told.opensMs - AT}`;
  return `${told.deciding.gate} ${told.deciding.because}: ${told.overruledBy}${opens}`;
};
const cluster = (endedMs: number | null): Hold => ({
  kind: 'all',
  scope: { kind: 'cluster', group: 'workers' },
  sinceMs: 0,
  endedMs,
});
const ofWorkers = (endedMs: number): Hold => ({ ...cluster(endedMs), kind: 'cluster' });
const { self } = aLook().state;
const SETTLING = { ...self, settlesMs: AT + 60_000, settlesFor: 'start' } as const;
const SKIPPED = { skippedMs: AT, of: { annotations: { 'nodewarden.dev/guard': 'skip for=1h' } } };
const flying = { w9: aFencing(aRecord({ id: 'w9-1', node: { name: 'w9', uid: 'uid-w9', bootId: 'b' } })) };
const CP = { labels: { 'node-role.kubernetes.io/control-plane': '' } };

describe('why a node is not fenced, and which order passes over that', () => {
  it.each<[string, Given]>([
    ['open null', {}],
    ['self paused: resume', { state: { paused: { by: 'ana', because: '', wallMs: 0 } } }],
    ['self not-leader: null', { own: { leadership: { isLeader: false } } }],
    [
      'self nobody-leads: null in 180000',
      { own: { leadership: { isLeader: false, runs: { why: 'resigned', fromMs: AT + 60_000 } } } },
    ],
    ['scope own-node: null', { own: { node: 'w1' } }],
    [
      'scope unreadable-record: null',
      {
        seen: {
          records: {
            known: true,
            value: [{ id: 'w1-1', version: '2', record: null, problem: 'no JSON', nodeKey: 'w1' }],
          },
        },
      },
    ],
    ['planned agent: null in 710000', { memory: { announced: 'agent' } }],
    ['dead not-silent-enough: fence in 5000', { memory: { overdueMs: null } }],
    ['dead no-lease: null', { memory: { overdueMs: null, isSuspect: false, lease: null } }],
    ['witness kubelet-answers: null', { witness: 'answers' }],
    ['worth nothing-to-free: fence', { pods: [] }],
    ['device silent: confirm-off', { said: { 'vm w1': ['unknown@9000'] } }],
    ['device not-asked: null', { said: {} }],
    ['storm all: release', { state: { holds: [cluster(null)] } }],
    [
      'storm cool-down: release in 590000',
      { state: { holds: [cluster(0)] }, config: { storm: { ...aLook().config.storm, coolDownMs: AT + 590_000 } } },
    ],
    [
      'rate max-in-flight: null',
      {
        state: { fencings: new Map([['w9-1', flying.w9]]) },
        config: { rate: { minIntervalMs: 0, maxPerHour: 9, maxInFlight: 1 } },
      },
    ],
    ['rate min-interval: release in 1000', { state: { dryFenced: new Map([['x', dryAt(AT - 29_000)]]) } }],
    ['rate control-plane-majority: null', { memory: { of: CP }, config: { controlPlane: 'oneAtATime' } }],
    [
      'rate another-control-plane: null',
      {
        memory: { of: CP },
        config: { controlPlane: 'oneAtATime' },
        others: [aMemory({ isSuspect: true, of: { ...CP, name: 'c2' } })],
      },
    ],
  ])('%s', (expected, given) => {
    expect(why(given)).toBe(expected);
  });
  it.each<[string, Given]>([
    ['storm all: release', { state: { holds: [ofWorkers(0), cluster(null)] } }],
    ['storm cool-down: release in 540000', { state: { holds: [ofWorkers(AT - 540_000), cluster(AT - 60_000)] } }],
    [
      'rate min-interval: release in 3540000',
      {
        state: {
          dryFenced: new Map([10, 20, 30, 40, 50, 60].map((s) => [`x${s}`, dryAt(AT - s * 1_000)])),
        },
      },
    ],
    ['planned cordon: null in 60000', { memory: { cordonedMs: AT - 29 * 60_000 } }],
    ['self settling: null', { state: { self: SETTLING, paused: { by: 'ana', because: '', wallMs: 0 } } }],
    ['scope skip: null', { memory: { ...SKIPPED, of: { ...SKIPPED.of, ...CP } } }],
  ])('%s: it opens when the last of its reasons is over', (expected, given) => {
    expect(why(given)).toBe(expected);
  });
  it('opens when the last of its gates does, if all do by time alone', () => {
    const late = { memory: { overdueMs: null, announced: 'agent' } } as const;
    expect(why(late)).toBe('planned agent: null in 710000');
    expect(why({ ...late, said: {} })).toBe('planned agent: null');
  });
});

describe('what is told of a node', () => {
  it('its class, age, gates, what it frees, and its devices', () => {
    expect(explained()).toMatchObject({
      node: { name: 'w1', uid: 'uid-w1' },
      class: 'dead',
      ageMs: 190_000,
      fencing: null,
    });
    const told = explained();
    expect([
      told?.gates.length,
      told?.frees?.pods.length,
      told?.plan?.levels,
      told?.devices.map(({ method }) => method),
    ]).toEqual([9, 1, [['vm w1']], ['vm w1']]);
    expect(explained({ pods: null })).toMatchObject({ frees: null, freesUnknown: { why: 'not-asked' } });
    const refused = unknown('unreadable', 'volumeattachments', 'it is forbidden');
    expect(explained({ seen: { attachments: refused } })).toMatchObject({
      ...{ frees: null, freesUnknown: { why: 'unreadable', detail: 'it is forbidden' } },
    });
    expect(explained({ attachments: [], seen: { attachments: unknown('not-asked', '', '') } })?.frees).toBeNull();
    expect(explained({ said: {} })?.devices).toEqual([]);
    expect(explained({ config: { defaultPlan: null } })).toMatchObject({ plan: null, devices: [] });
    expect(explained({ others: [aMemory({ of: { name: 'w2' } })] }, 'w2')).toMatchObject({
      node: { name: 'w2' },
      class: 'healthy',
    });
    expect(explained({}, 'w9')).toBeNull();
  });
  it('its own fencing, which does not stand in its way, and when it goes on', () => {
    const own = (rest: Parameters<typeof aFencing>[1] = {}) =>
      new Map([
        ['w9-1', flying.w9],
        ['w1-1', aFencing(aRecord({ phase: 'failed' }), rest)],
      ]);
    const rate = { minIntervalMs: 0, maxPerHour: 9, maxInFlight: 2 };
    const failed = explained({ state: { fencings: own() }, config: { rate } });
    expect(failed).toMatchObject({
      deciding: null,
      fencing: { fencing: { record: { id: 'w1-1' } }, dueMs: SINCE + 60_000 },
    });
    const pending = { decision: '1', atMs: 0, becomes: aRecord() };
    expect(explained({ state: { fencings: own({ pending }) }, config: { rate } })?.fencing?.dueMs).toBeNull();
    expect(explained({ state: { fencings: new Map([['w9-1', flying.w9]]) } })?.fencing).toBeNull();
  });
});
