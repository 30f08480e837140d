import { describe, expect, it } from 'vitest';
import type { NodeObject } from '../../../src/core/guard/observation.ts';
import type { FencingRecord } from '../../../src/core/guard/record.ts';
import { aCondition } from './a-node.ts';
import { type Given, sayTurn } from './a-turn.ts';

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

describe.each(SENDS)('%s', (_, given, ends) => {
  it('is sent when the look shows nothing new', () => {
    expect(sayTurn(given)).toContain('[off ');
  });

  it.each(MARKS)('is not sent when the look shows what the watch did not bring: %s, %j', (why, node) => {
    expect(sayTurn({ ...given, node })).toContain(`> ${ends} why=${why} isAlive=false`);
  });

  it('is not sent when the look shows a heartbeat that the watch did not bring', () => {
    const conditions = [aCondition({ status: 'False', heartbeat: 'h2' })];
    expect(sayTurn({ ...given, node: { conditions } })).toContain(`> ${ends} why=not-silent-enough isAlive=false`);
  });
});
