import { describe, expect, it } from 'vitest';
import type { NodeObject } from '../../../src/core/guard/observation.ts';
import type { FencingRecord } from '../../../src/core/guard/record.ts';
import { initialGuardState } from '../../../src/core/guard/state.ts';
import { aCondition } from './a-node.ts';
import { dryAt, type Given, LEADS, SINCE, sayTurn } from './a-turn.ts';

const SHUTTING_DOWN = aCondition({ type: 'NodewardenShutdownArmed', reason: 'ShuttingDown' });
const UNKNOWN = aCondition({ status: 'Unknown', reason: 'NodeStatusUnknown' });
const KUBELET_SAYS = aCondition({ status: 'False', reason: 'KubeletNotReady', message: 'node is shutting down' });
const taint = (key: string, value = '') => ({ taints: [{ key, value, effect: 'NoExecute' }] });

/** What a Node shows that holds a fencing back, and what it is called. */
const MARKS: readonly (readonly [why: string, node: Partial<NodeObject>])[] = [
  ['agent', { conditions: [UNKNOWN, { ...SHUTTING_DOWN, heartbeat: '' }] }],
  ['kubelet', { conditions: [KUBELET_SAYS] }],
  ['kured', { annotations: { 'weave.works/kured-reboot-in-progress': '' } }],
  ['cordon', { isUnschedulable: true }],
  ['skip', { annotations: { 'nodewarden.dev/guard': 'skip' } }],
  ['excluded', { labels: { 'remediation.medik8s.io/exclude-from-remediation': 'true' } }],
  ['leaving', taint('ToBeDeletedByClusterAutoscaler')],
  ['leaving', { isDeleting: true }],
  ['other-owner', taint('medik8s.io/remediation')],
  ['other-owner', taint('node.kubernetes.io/out-of-service', 'nodeshutdown')],
  ['other-owner', { annotations: { 'cluster.x-k8s.io/machine': 'm1' } }],
];

const TWO_LEVELS = { isolation: [], levels: [['bmc w1'], ['pdu w1']] };
type Next = Given & { readonly record: Partial<FencingRecord> };
const FIRST: Next = { record: {} };
const SECOND: Next = {
  record: { phase: 'proving', attempt: 1, offSent: ['vm w1'] },
  said: { 'vm w1': ['on@7000'] },
};
const LEVEL: Next = {
  record: { phase: 'proving', attempt: 2, offSent: ['bmc w1'], plan: TWO_LEVELS },
  said: { 'bmc w1': ['on@7000'], 'pdu w1': ['on@7000'] },
};
const FABRIC: Next = {
  record: { phase: 'isolating', offSent: ['f'], plan: { isolation: ['f'], levels: [['vm w1']] } },
};
const SENDS: readonly (readonly [what: string, given: Next, ends: string])[] = [
  ['the first off', FIRST, 'aborted'],
  ['the second attempt', SECOND, 'failed'],
  ['the second level', LEVEL, 'failed'],
  ['the off after the fabric was cut', FABRIC, 'failed'],
];

describe('an off after the first one', () => {
  const AWAITED = /^\? .* stuck witness$/;
  const FURTHER = SENDS.slice(1);

  it.each(FURTHER.slice(0, 2))('is not sent while the kubelet answers: %s', (_, given) => {
    expect(sayTurn({ ...given, witness: 'answers' })).toMatch(/^> failed why=kubelet-answers/);
  });

  it.each([10_000, -1, null])('is sent all the same if that is to be ignored, asked at %j', (witnessMs) => {
    const config = { kubeletAnswers: 'ignore' } as const;
    expect(sayTurn({ ...SECOND, witness: 'answers', witnessMs, config })).toContain('[off ');
  });

  it.each<readonly [string, Given]>([
    [
      'the guard settles',
      { state: { self: { ...initialGuardState(0, 0).self, settlesMs: Number.MAX_SAFE_INTEGER, adoptedMs: 0 } } },
    ],
    ['it is not long dead any more', { memory: { overdueMs: null } }],
    ['nothing is left to free', { pods: [] }],
    ['there were too many in an hour', { state: { dryFenced: new Map([['uid-w9', dryAt(SINCE)]]) } }],
  ])('is sent although %s', (_, so) => {
    expect(sayTurn({ ...SECOND, ...so })).toContain('[off ');
  });

  it.each(FURTHER)('waits until the kubelet was asked since the off before it: %s', (_, given) => {
    expect(sayTurn({ ...given, witnessMs: -1 })).toMatch(AWAITED);
    expect(sayTurn({ ...given, witnessMs: null })).toMatch(AWAITED);
  });

  it('does not believe silence for more than 15 s', () => {
    const later: Given = { ...SECOND, atMs: 30_000, said: { 'vm w1': ['on@29000'] } };
    expect(sayTurn({ ...later, witnessMs: 14_999 })).toMatch(AWAITED);
    expect(sayTurn({ ...later, witnessMs: 15_000 })).toContain('[off ');
  });

  it('gives a machine that answers its storage back', () => {
    expect(sayTurn({ ...FABRIC, witness: 'answers' })).toBe(
      '> on-sent why=kubelet-answers onSent=f onAttempt=1 [on f]',
    );
  });

  it('waits until it is known whether an earlier leader was told to pause', () => {
    expect(sayTurn({ ...SECOND, own: { leadership: { ...LEADS, sinceMs: 1 } } })).toMatch(AWAITED);
  });
});

describe.each(SENDS)('%s', (_, given, ends) => {
  it('is sent when the look shows nothing new', () => {
    expect(sayTurn(given)).toContain('[off ');
  });

  it.each(MARKS)('is not sent when the look shows what the watch did not bring: %s, %j', (why, node) => {
    expect(sayTurn({ ...given, node })).toContain(`> ${ends} why=${why} isAlive=false`);
  });

  it('waits while a person has paused the guard, and is sent when that is over', () => {
    const paused = { by: 'ana', because: 'hands in the machine', wallMs: 0 };
    expect(sayTurn({ ...given, state: { paused } })).toMatch(/^\? .* stuck witness$/);
  });

  it('is not sent to a machine that may be booting, unless a person ordered it', () => {
    const device = { returnedMs: SINCE + 9_000 };
    // It needs its storage.
    const stopped = given === FABRIC ? 'on-sent' : ends;
    expect(sayTurn({ ...given, device })).toContain(`> ${stopped} why=may-be-booting`);
    const order = { verb: 'fence', by: 'ana', because: 'it hangs in its boot' } as const;
    expect(sayTurn({ ...given, device, record: { ...given.record, order } })).toContain('[off ');
  });

  it('is not sent when the look shows a heartbeat that the watch did not bring', () => {
    const conditions = [aCondition({ status: 'False', heartbeat: 'h2' })];
    expect(sayTurn({ ...given, node: { conditions } })).toContain(`> ${ends} why=not-silent-enough isAlive=false`);
  });
});
