import { describe, expect, it } from 'vitest';
import { factsOf, isOfOthers, type NodeFacts } from '../../../src/core/guard/node-facts.ts';
import type { ConditionView, NodeObject } from '../../../src/core/guard/observation.ts';
import { aCondition, aNodeObject } from './a-node.ts';

const OUT = 'node.kubernetes.io/out-of-service';
const taint = (key: string, value = '') => ({ key, value, effect: 'NoExecute' });
const ready = (rest: Partial<ConditionView>) => ({
  conditions: [aCondition({ type: 'Other', status: 'x', heartbeat: 'x' }), aCondition(rest)],
});
const PLAIN: NodeFacts = {
  isControlPlane: false,
  isReady: true,
  readyToken: 'h1',
  ownToken: '',
  announced: null,
  skipMs: null,
  isExcluded: false,
  isCountedApart: false,
  owner: null,
  leaving: null,
  outOfServiceBy: null,
  fencedBy: null,
  foreignOutOfService: null,
};

describe('a Node', () => {
  it.each<[string, Partial<NodeObject>, Partial<NodeFacts>]>([
    ['without anything', {}, {}],
    ['of the control plane', { labels: { 'node-role.kubernetes.io/control-plane': '' } }, { isControlPlane: true }],
    [
      'of the control plane, in older words',
      { labels: { 'node-role.kubernetes.io/master': '' } },
      { isControlPlane: true },
    ],
    ['of a worker', { labels: { 'node-role.kubernetes.io/worker': '' } }, {}],
    ['that is not Ready', ready({ status: 'False' }), { isReady: false }],
    [
      'of which the controller speaks',
      ready({ status: 'Unknown', reason: 'NodeStatusUnknown' }),
      { isReady: false, readyToken: null },
    ],
    ['that says nothing', { conditions: [] }, { isReady: false, readyToken: null }],
    ['without Ready', { conditions: [aCondition({ type: 'Other' })] }, { isReady: false, readyToken: null }],
    [
      'with conditions of the node agent',
      {
        conditions: [
          aCondition(),
          ...['NodewardenShutdownArmed', 'NodewardenFenced', 'NodewardenPIDPressure'].map((type, i) =>
            aCondition({ type, heartbeat: `${i}` }),
          ),
        ],
      },
      { ownToken: 'NodewardenShutdownArmed=0 NodewardenPIDPressure=2' },
    ],

    [
      'whose agent shuts it down',
      { conditions: [aCondition(), aCondition({ type: 'NodewardenShutdownArmed', reason: 'ShuttingDown' })] },
      { announced: 'agent', ownToken: 'NodewardenShutdownArmed=h1' },
    ],
    [
      'of which something else shuts down',
      { conditions: [aCondition(), aCondition({ type: 'Other', reason: 'ShuttingDown' })] },
      {},
    ],
    [
      'whose agent is armed',
      { conditions: [aCondition(), aCondition({ type: 'NodewardenShutdownArmed', reason: 'Armed' })] },
      { ownToken: 'NodewardenShutdownArmed=h1' },
    ],
    [
      'whose kubelet shuts it down',
      ready({ status: 'False', message: 'node is shutting down' }),
      { isReady: false, announced: 'kubelet' },
    ],
    ['whose kubelet did so before', ready({ message: 'node is shutting down' }), {}],
    ['that is down for another reason', ready({ status: 'False', message: 'no network' }), { isReady: false }],
    [
      'of which another condition says so',
      { conditions: [aCondition(), aCondition({ type: 'Other', status: 'False', message: 'node is shutting down' })] },
      {},
    ],
    ['that kured restarts', { annotations: { 'weave.works/kured-reboot-in-progress': '' } }, { announced: 'kured' }],

    [
      'that wants to be left alone',
      { annotations: { 'nodewarden.dev/guard': 'skip' } },
      { skipMs: Number.POSITIVE_INFINITY },
    ],
    ['for a time', { annotations: { 'nodewarden.dev/guard': 'skip for=2h' } }, { skipMs: 7_200_000 }],
    [
      'for a time that cannot be read',
      { annotations: { 'nodewarden.dev/guard': 'skip for=ever' } },
      { skipMs: Number.POSITIVE_INFINITY },
    ],
    [
      'in words that cannot be read',
      { annotations: { 'nodewarden.dev/guard': 'skip for=2h please' } },
      { skipMs: Number.POSITIVE_INFINITY },
    ],
    [
      'in words before it that cannot be read',
      { annotations: { 'nodewarden.dev/guard': 'do skip for=2h' } },
      { skipMs: Number.POSITIVE_INFINITY },
    ],
    [
      'that is excluded',
      { labels: { 'remediation.medik8s.io/exclude-from-remediation': 'true' } },
      { isExcluded: true },
    ],
    ['that is not', { labels: { 'remediation.medik8s.io/exclude-from-remediation': 'false' } }, {}],
    ['that is counted apart', { labels: { 'node.kubernetes.io/exclude-disruption': '' } }, { isCountedApart: true }],

    ['of a Machine', { annotations: { 'cluster.x-k8s.io/machine': 'm' } }, { owner: 'cluster.x-k8s.io/machine' }],
    ['of medik8s', { taints: [taint('a'), taint('medik8s.io/remediation')] }, { owner: 'medik8s.io/remediation' }],
    ['of a part of medik8s', { taints: [taint('remediation.medik8s.io/x')] }, { owner: 'remediation.medik8s.io/x' }],
    ['of nobody with a like name', { taints: [taint('notmedik8s.io/x'), taint('a/medik8s.io/x')] }, {}],
    [
      'of somebody who took it out of service',
      { taints: [taint(OUT, 'nodeshutdown')] },
      { owner: OUT, foreignOutOfService: 'nodeshutdown' },
    ],
    ['that is being deleted', { isDeleting: true }, { leaving: 'deletionTimestamp' }],
    [
      'that the autoscaler takes away',
      { taints: [taint('x'), taint('ToBeDeletedByClusterAutoscaler')] },
      { leaving: 'ToBeDeletedByClusterAutoscaler' },
    ],
    [
      'that carries our marks',
      { taints: [taint('x', 'nodewarden.z'), taint(OUT, 'nodewarden.w1-7'), taint('nodewarden.dev/fenced', 'w1-7')] },
      { outOfServiceBy: 'w1-7', fencedBy: 'w1-7' },
    ],
  ])('%s', (_, object, facts) => {
    expect(factsOf(aNodeObject(object))).toEqual({ ...PLAIN, ...facts });
  });
});

it.each<readonly [boolean, string, string]>([
  [true, OUT, 'nodeshutdown'],
  [false, OUT, 'nodewarden.w1-1'],
  [true, 'medik8s.io/remediation', ''],
  [true, 'remediation.medik8s.io/any', ''],
  [true, 'ToBeDeletedByClusterAutoscaler', ''],
  [false, 'node.kubernetes.io/unreachable', ''],
])('that a taint is of others who fence or remove nodes is %s: %s %s', (expected, key, value) => {
  expect(isOfOthers(taint(key, value))).toBe(expected);
});
