import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createGuardWrites } from '../../src/guard/api-writes.ts';
import { type Asked, aPolicy } from '../kube/a-policy.ts';
import type { Json } from '../kube/pod-store.ts';
import { aGuardApi, type GuardApi, ID, NAMESPACE, W1, withAuthority } from './a-guard-api.ts';

const refusals = aPolicy('guard/admission-policy.yaml', `system:serviceaccount:${NAMESPACE}:nodewarden-guard`);
const OUT = 'node.kubernetes.io/out-of-service';
const FOREIGN = { key: OUT, value: 'nodeshutdown', effect: 'NoExecute' };
const OTHER = { key: 'other', effect: 'NoExecute' };
const READY = { type: 'Ready', status: 'Unknown' };
const MARKS = [
  { key: OUT, value: `nodewarden.${ID}`, effect: 'NoExecute' },
  { key: 'nodewarden.dev/fenced', value: ID, effect: 'NoSchedule' },
];

withAuthority();
let api: GuardApi;
beforeAll(async () => {
  api = await aGuardApi();
});
afterAll(() => api.close());

describe('what the guard sends', () => {
  it.each([
    ['a node without taints', []],
    ['a node with taints of others', [OTHER, { key: 'third', value: 'x', effect: 'NoSchedule' }]],
    ['a node that somebody else set out of service', [FOREIGN, OTHER]],
  ])('is allowed on %s: to tell, to say so in the status, and to take both back', async (_, taints) => {
    api.putNode(W1, { taints, conditions: [READY] });
    const writes = createGuardWrites({ send: api.connection.send, namespace: NAMESPACE });
    const node = (): Json => structuredClone(api.node('w1')) as unknown as Json;
    const seen = () => {
      const { metadata, spec } = api.node('w1') as unknown as { metadata: Json; spec: { taints: Json[] } };
      return { name: 'w1', uid: W1.uid, version: String(metadata['resourceVersion']), taints: spec.taints };
    };
    const steps: readonly [string, () => Promise<{ readonly kind: string }>][] = [
      ['nodes', () => writes.changeMarks(seen(), 'tell', ID)],
      ['nodes/status', () => writes.setFenced(W1, { message: 'off', wallMs: 0 })],
      ['nodes', () => writes.changeMarks(seen(), 'untell', ID)],
      ['nodes', () => writes.changeMarks(seen(), 'unfence', ID)],
      ['nodes/status', () => writes.setFenced(W1, null)],
    ];
    for (const [resource, step] of steps) {
      const oldObject = node();
      expect(['done', 'unchanged']).toContain((await step()).kind);
      expect(refusals({ operation: 'UPDATE', resource, oldObject, object: node() })).toEqual([]);
    }
    expect(seen().taints).toEqual(taints);
  });
});

const aNode = (more: Json = {}): Json => ({
  metadata: { name: 'w1', uid: W1.uid, labels: { zone: 'a' }, annotations: { other: 'x' } },
  spec: { podCIDR: '10.0.0.0/24', taints: [OTHER, FOREIGN] },
  status: { capacity: { cpu: '2' }, nodeInfo: { bootID: 'boot-1' }, conditions: [READY] },
  ...more,
});
const node = (object: Json): Asked => ({ operation: 'UPDATE', resource: 'nodes', oldObject: aNode(), object });
const part = (name: 'metadata' | 'spec' | 'status', change: Json): Asked =>
  node(aNode({ [name]: { ...(aNode()[name] as Json), ...change } }));
const status = (change: Json): Asked => ({ ...part('status', change), resource: 'nodes/status' });

describe('the policy applies to', () => {
  it('guards alone: the service account, and the group of a certificate', () => {
    const cordon = part('spec', { unschedulable: true });
    expect(refusals(cordon)).toHaveLength(1);
    expect(refusals({ ...cordon, username: 'ann' })).toBeNull();
    expect(refusals({ ...cordon, username: 'nodewarden:guard', groups: ['nodewarden:guards'] })).toHaveLength(1);
    expect(refusals({ ...cordon, username: 'system:serviceaccount:other:nodewarden-guard' })).toBeNull();
  });
});

describe('what a compromised guard must not do', () => {
  it.each<[string, Asked]>([
    ['create a node', { operation: 'CREATE', resource: 'nodes', object: aNode() }],
    ['delete a node', { operation: 'DELETE', resource: 'nodes', oldObject: aNode() }],
    ['label a node', part('metadata', { labels: { zone: 'b' } })],
    ['annotate a node', part('metadata', { annotations: {} })],
    ['add a finalizer', part('metadata', { finalizers: ['x'] })],
    ['cordon a node', part('spec', { unschedulable: true })],
    ['move a node to another network', part('spec', { podCIDR: '10.0.1.0/24' })],
    ['drop a taint of others', part('spec', { taints: [FOREIGN] })],
    ['drop the out-of-service taint of somebody else', part('spec', { taints: [OTHER] })],
    ['claim that taint', part('spec', { taints: [OTHER, { ...FOREIGN, value: `nodewarden.${ID}` }] })],
    [
      'set out of service in the name of others',
      part('spec', { taints: [OTHER, FOREIGN, { key: OUT, effect: 'NoExecute' }] }),
    ],
    ['add a taint of others', part('spec', { taints: [OTHER, FOREIGN, ...MARKS, { key: 'x', effect: 'NoExecute' }] })],
    [
      'end what runs by its own mark',
      part('spec', { taints: [OTHER, FOREIGN, { key: 'nodewarden.dev/fenced', value: ID, effect: 'NoExecute' }] }),
    ],
    ['say that a node is ready', status({ conditions: [{ type: 'Ready', status: 'True' }] })],
    ['drop a condition', status({ conditions: [] })],
    [
      'set a condition of the node agent',
      status({ conditions: [READY, { type: 'NodewardenLastBoot', status: 'True' }] }),
    ],
    ['say that a node is another machine', status({ nodeInfo: { bootID: 'x' } })],
    ['say that a volume is free', status({ volumesAttached: [{ name: 'v' }] })],
  ])('%s', (_what, asked) => {
    expect(refusals(asked)?.length).toBeGreaterThan(0);
    // By what it is for, and not because the expression cannot be evaluated.
    expect(refusals(asked)?.join()).not.toContain('Error');
  });
});
