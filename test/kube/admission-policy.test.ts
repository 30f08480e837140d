import { describe, expect, it } from 'vitest';
import { type Asked, aPolicy } from './a-policy.ts';
import { anApi, BOOT, type Json, NODE, NODE_PATH, NODE_UID, POD_PATH, VICTIM, writesTo } from './an-api.ts';

const refusals = aPolicy('admission-policy.yaml', `nodewarden:node:${NODE}`);
const of = (change: Json, base: Json): Json => ({ ...structuredClone(base), ...change });

const aPod = (more: Json = {}): Json => ({
  metadata: { name: 'web-0', namespace: 'shop', uid: VICTIM.uid },
  spec: { nodeName: NODE },
  status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
  ...more,
});
const aNode = (more: Json = {}): Json => ({
  metadata: { name: NODE, uid: NODE_UID, labels: { zone: 'a' }, annotations: { other: 'x' } },
  spec: { podCIDR: '10.0.0.0/24', taints: [{ key: 'other', effect: 'NoExecute' }] },
  status: { capacity: { cpu: '2' }, nodeInfo: { bootID: BOOT }, conditions: [{ type: 'Ready', status: 'True' }] },
  ...more,
});

describe('what the agent sends', () => {
  it('is all allowed', async () => {
    const api = anApi();
    const writes = writesTo(api);
    const node = (): Json => structuredClone(api.node) as unknown as Json;
    const steps: readonly [string, () => Promise<{ readonly kind: string }>][] = [
      ['nodes', () => writes.cordon({ bootId: BOOT, shutdownId: 's-1' })],
      [
        'nodes',
        () => writes.changeTaints({ put: [{ key: 'nodewarden.dev/disk-pressure', effect: 'NoSchedule' }], remove: [] }),
      ],
      ['nodes', () => writes.uncordon([{ bootId: BOOT, shutdownId: 's-1' }])],
      [
        'nodes/status',
        () =>
          writes.setNodeConditions([
            {
              type: 'NodewardenLastBoot',
              status: 'True',
              reason: 'Graceful',
              message: '',
              heartbeatWallMs: 0,
              transitionWallMs: 0,
            },
          ]),
      ],
      ['nodes/status', () => writes.removeNodeConditions(['NodewardenLastBoot'])],
    ];
    for (const [resource, step] of steps) {
      const oldObject = node();
      expect((await step()).kind).toBe('done');
      expect(refusals({ operation: 'UPDATE', resource, oldObject, object: node() })).toEqual([]);
    }
    await writes.deletePod(VICTIM, 1);
    await writes.evictPod(VICTIM, 30);
    const event = { name: 'web-0.nodewarden-evicted-1', about: { kind: 'Node' as const }, reason: 'Evicted' as const };
    const told = { type: 'Warning' as const, message: '', annotations: {}, firstWallMs: 0, lastWallMs: 0, count: 1 };
    await writes.createEvent({ ...event, ...told });
    const sentTo = (method: string, part: string) =>
      api.sent().find((sent) => sent.method === method && sent.path.includes(part))?.body;
    const options = sentTo('DELETE', POD_PATH);
    expect(refusals({ operation: 'DELETE', resource: 'pods', oldObject: aPod(), options })).toEqual([]);
    const object = sentTo('POST', '/eviction');
    expect(refusals({ operation: 'CREATE', resource: 'pods/eviction', object })).toEqual([]);
    expect(refusals({ operation: 'CREATE', resource: 'events', object: sentTo('POST', '/events') })).toEqual([]);
    expect(sentTo('PATCH', NODE_PATH)).toBeDefined();
  });
  it.each(['True', 'False'])('marks a victim or takes that back, and changes nothing else in its status: %s', (is) => {
    const disruption = { type: 'DisruptionTarget', status: is, reason: 'EvictionByNodewarden' };
    const conditions = [{ type: 'Ready', status: 'True' }, disruption];
    const object = aPod({ status: { phase: 'Running', conditions } });
    expect(refusals({ operation: 'UPDATE', resource: 'pods/status', oldObject: aPod(), object })).toEqual([]);
  });
});

describe('the policy applies to', () => {
  const asked = { operation: 'DELETE', resource: 'pods', oldObject: aPod() } as const;
  it('agents alone', () => {
    expect(refusals({ ...asked, username: 'system:node:node-1' })).toBeNull();
  });
  it('the node of the certificate, or of a token that is bound to one', () => {
    const options = { gracePeriodSeconds: 1, preconditions: { uid: VICTIM.uid } };
    expect(refusals({ ...asked, options })).toEqual([]);
    expect(refusals({ ...asked, options, username: 'nodewarden:node:node-2' })).toHaveLength(1);
    const extra = { 'authentication.kubernetes.io/node-name': ['node-2'] };
    expect(refusals({ ...asked, options, extra })).toHaveLength(1);
    expect(refusals({ ...asked, options, username: 'nodewarden:node:' })).toContain(
      'the caller is not named after a node',
    );
  });
});

describe('what a compromised agent must not do', () => {
  const options = { gracePeriodSeconds: 1, preconditions: { uid: VICTIM.uid } };
  const deleted = (more: Partial<Asked>): Asked => ({
    operation: 'DELETE',
    resource: 'pods',
    oldObject: aPod(),
    options,
    ...more,
  });
  const node = (object: Json): Asked => ({ operation: 'UPDATE', resource: 'nodes', oldObject: aNode(), object });
  const spec = (change: Json): Asked => node(aNode({ spec: of(change, aNode()['spec'] as Json) }));
  const metadata = (change: Json): Asked => node(aNode({ metadata: of(change, aNode()['metadata'] as Json) }));
  const status = (change: Json): Asked => ({
    ...node(aNode({ status: of(change, aNode()['status'] as Json) })),
    resource: 'nodes/status',
  });
  const podStatus = (change: Json, oldPod = aPod()): Asked => ({
    operation: 'UPDATE',
    resource: 'pods/status',
    oldObject: oldPod,
    object: of({ status: of(change, aPod()['status'] as Json) }, oldPod),
  });
  const mirror = { name: 'm', uid: VICTIM.uid, annotations: { 'kubernetes.io/config.mirror': 'x' } };
  const foreign = { key: 'other', effect: 'NoExecute' };
  const own = (effect: string) => ({ key: 'nodewarden.dev/shutdown', effect });
  const event = (more: Json) => ({
    reportingComponent: 'nodewarden.dev/agent',
    involvedObject: { kind: 'Node', name: NODE },
    ...more,
  });

  it.each<[string, Asked]>([
    ['delete a pod of another node', deleted({ oldObject: aPod({ spec: { nodeName: 'node-2' } }) })],
    ['delete a pod of no node', deleted({ oldObject: aPod({ spec: {} }) })],
    ['delete a mirror pod', deleted({ oldObject: aPod({ metadata: mirror }) })],
    ['delete with a grace of 0', deleted({ options: of({ gracePeriodSeconds: 0 }, options) })],
    ['delete with the grace of the pod', deleted({ options: { preconditions: options.preconditions } })],
    ['delete without a uid', deleted({ options: { gracePeriodSeconds: 1 } })],
    ['delete with another uid', deleted({ options: of({ preconditions: { uid: 'other' } }, options) })],
    [
      'evict with a grace of 0',
      {
        operation: 'CREATE',
        resource: 'pods/eviction',
        object: { deleteOptions: of({ gracePeriodSeconds: 0 }, options) },
      },
    ],
    [
      'evict without a uid',
      { operation: 'CREATE', resource: 'pods/eviction', object: { deleteOptions: { gracePeriodSeconds: 1 } } },
    ],
    ['create a pod', { operation: 'CREATE', resource: 'pods', object: aPod() }],
    ['change a pod', { operation: 'UPDATE', resource: 'pods', oldObject: aPod(), object: aPod() }],
    ['delete a node', { operation: 'DELETE', resource: 'nodes', oldObject: aNode() }],
    ['delete an event', { operation: 'DELETE', resource: 'events', oldObject: {} }],
    ['say that a pod has failed', podStatus({ phase: 'Failed' })],
    ['say that a pod is not ready', podStatus({ conditions: [{ type: 'Ready', status: 'False' }] })],
    ['drop a condition of a pod', podStatus({ conditions: [] })],
    [
      'mark a pod in the name of the kubelet',
      podStatus({
        conditions: [
          { type: 'Ready', status: 'True' },
          { type: 'DisruptionTarget', status: 'True', reason: 'TerminationByKubelet' },
        ],
      }),
    ],
    ['mark a pod of another node', podStatus({}, aPod({ spec: { nodeName: 'node-2' } }))],
    [
      'change another node',
      {
        operation: 'UPDATE',
        resource: 'nodes',
        oldObject: aNode({ metadata: { name: 'node-2' } }),
        object: aNode({ metadata: { name: 'node-2' } }),
      },
    ],
    ['label the node', metadata({ labels: { zone: 'b' } })],
    ['annotate the node', metadata({ annotations: { other: 'y' } })],
    ['drop an annotation of others', metadata({ annotations: {} })],
    ['add a finalizer', metadata({ finalizers: ['x'] })],
    ['cordon without its mark', spec({ unschedulable: true })],
    ['drop a taint of others', spec({ taints: [] })],
    [
      'add a taint of others',
      spec({ taints: [foreign, { key: 'node.kubernetes.io/out-of-service', effect: 'NoExecute' }] }),
    ],
    ['change the effect of a taint of others', spec({ taints: [{ key: 'other', effect: 'NoSchedule' }] })],
    ['end what runs with its own taint', spec({ taints: [foreign, own('NoExecute')] })],
    ['move the node to another network', spec({ podCIDR: '10.0.1.0/24' })],
    ['say that the node is ready', status({ conditions: [{ type: 'Ready', status: 'Unknown' }] })],
    ['say that the node is larger', status({ capacity: { cpu: '64' } })],
    ['say that the node is another machine', status({ nodeInfo: { bootID: 'x' } })],
    [
      'send an event as somebody else',
      { operation: 'CREATE', resource: 'events', object: event({ reportingComponent: 'kubelet' }) },
    ],
    [
      'send an event about another node',
      { operation: 'CREATE', resource: 'events', object: event({ involvedObject: { kind: 'Node', name: 'node-2' } }) },
    ],
    [
      'change an event of another component',
      { operation: 'UPDATE', resource: 'events', oldObject: { reportingComponent: 'kubelet' }, object: event({}) },
    ],
  ])('%s', (_what, asked) => {
    expect(refusals(asked)?.length).toBeGreaterThan(0);
    // By what it is for, and not because the expression cannot be evaluated.
    expect(refusals(asked)?.join()).not.toContain('Error');
  });
});
