import { mkdirSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { readBootId } from '../../src/host/clock.ts';
import { type Authority, createAuthority, writeKubeconfig } from '../kube/certificates.ts';
import { type Heard, type StubApi, startStubApi } from '../kube/stub-api.ts';
import { aDoctor, saidOf } from './a-doctor.ts';

const REVIEWS = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';
const BUDGETS = '/apis/policy/v1/poddisruptionbudgets';
const boot = readBootId();

type Attributes = { readonly verb: string; readonly resource: string; readonly subresource?: string };
const attributesIn = (review: Heard['body']): Attributes =>
  (review as unknown as { spec: { resourceAttributes: Attributes } }).spec.resourceAttributes;

describe('nodewarden doctor in mode kubelet', () => {
  const doctor = aDoctor();
  const { report, path } = doctor;
  let authority: Authority;
  let stub: StubApi;
  /** Rights as `verb resource/subresource` that the server denies. */
  let denied: readonly string[];
  /** Rights about which it gives no answer. */
  let unsaid: readonly string[];
  let budgets: readonly object[] | null;

  const answer = ({ path: asked, body }: Heard) => {
    if (asked === REVIEWS) {
      const { verb, resource, subresource } = attributesIn(body);
      const right = `${verb} ${resource}${subresource === undefined ? '' : `/${subresource}`}`;
      if (unsaid.includes(right)) return { status: 500, body: { kind: 'Status', message: 'etcd is away' } };
      return { status: 201, body: { status: { allowed: !denied.includes(right) } } };
    }
    if (!asked.startsWith(BUDGETS)) return null;
    return budgets === null
      ? { status: 403, body: { kind: 'Status', reason: 'Forbidden', message: 'poddisruptionbudgets is forbidden' } }
      : { status: 200, body: { items: budgets } };
  };
  const budget = (name: string, desiredHealthy: number) => ({
    metadata: { namespace: 'shop', name },
    status: { desiredHealthy, expectedPods: 3 },
  });

  beforeAll(() => {
    authority = createAuthority();
  });
  afterAll(() => authority.remove());
  beforeEach(async () => {
    denied = [];
    unsaid = [];
    budgets = [];
    stub = await startStubApi(authority, answer);
    Object.assign(stub.node, { status: { nodeInfo: { bootID: boot.known ? boot.value : '' } }, spec: {} });
    mkdirSync(path('nodefs'));
    const kubeconfig = writeKubeconfig(authority, stub.url);
    doctor.configure(
      'mode: kubelet',
      `nodefs: { path: ${path('nodefs')} }`,
      `kubernetes: { kubeconfig: ${kubeconfig}, nodeName: node-1 }`,
    );
  });
  afterEach(() => stub.stop());

  it('checks its rights, and says what does not work without the missing ones', async () => {
    denied = ['delete pods', 'patch nodes/status'];
    const said = await report();
    expect(saidOf(said, 'rbac-missing').map(({ text }) => text)).toEqual([
      expect.stringContaining('does not allow this agent to patch nodes/status'),
      expect.stringContaining('does not allow this agent to delete pods'),
    ]);
    expect(said.fine.map(({ code }) => code)).toContain('api-unreachable');
    // Nothing but questions.
    expect(new Set(stub.heard.filter(({ method }) => method !== 'GET').map((one) => one.path))).toEqual(
      new Set([REVIEWS]),
    );
  });

  it('says which rights it lacks, and of which it is not known, if not all reviews are answered', async () => {
    denied = ['delete pods'];
    unsaid = ['patch nodes', 'create events'];
    expect(saidOf(await report(), 'rbac-missing')).toMatchObject([
      { kind: 'warning', text: expect.stringContaining('does not allow this agent to delete pods') },
      { kind: 'unknown', text: expect.stringMatching(/: may patch nodes, create events: .*etcd is away/) },
    ]);
  });

  it('reports a budget that allows no eviction even while all its pods are healthy', async () => {
    budgets = [budget('strict', 3), budget('fine', 2)];
    expect(saidOf(await report(), 'budget-refuses').map(({ text }) => text)).toEqual([
      expect.stringContaining('the disruption budget shop/strict allows no eviction'),
    ]);
  });

  it('says why budgets are unknown if it may not list them', async () => {
    budgets = null;
    expect(saidOf(await report(), 'budget-refuses')).toMatchObject([
      { kind: 'unknown', text: expect.stringContaining('poddisruptionbudgets') },
    ]);
  });

  it('reports an out-of-service taint, and a taint and a cordon that the agent has left', async () => {
    const taints = [
      { key: 'node.kubernetes.io/out-of-service', value: 'nodeshutdown', effect: 'NoExecute' },
      { key: 'nodewarden.dev/memory-pressure', effect: 'NoSchedule' },
    ];
    Object.assign(stub.node, { spec: { unschedulable: true, taints } });
    Object.assign(stub.node['metadata'] as object, { annotations: { 'nodewarden.dev/cordoned-by': 'x/1' } });
    const said = await report();
    expect(saidOf(said, 'out-of-service-taint')).toMatchObject([
      { mend: 'kubectl taint node node-1 node.kubernetes.io/out-of-service-' },
    ]);
    expect(saidOf(said, 'taints-left')).toMatchObject([
      { mend: 'kubectl taint node node-1 nodewarden.dev/memory-pressure-' },
      { text: expect.stringContaining('kubectl uncordon node-1') },
    ]);
  });

  it('reports that the node of this name is another machine, as a blocking finding', async () => {
    Object.assign(stub.node, { status: { nodeInfo: { bootID: '11111111-2222-4333-8444-555555555555' } } });
    expect(saidOf(await report(), 'not-our-node')).toMatchObject([{ kind: 'blocking' }]);
  });

  it('reports that the API server does not answer, and no finding that depends on it', async () => {
    await stub.stop();
    const said = await report();
    expect(saidOf(said, 'api-unreachable')).toMatchObject([{ kind: 'warning' }]);
    const codes = said.findings.map(({ code }) => code);
    expect(codes.filter((code) => ['rbac-missing', 'budget-refuses', 'not-our-node'].includes(code))).toEqual([]);
    await stub.listen();
  });

  it('reports thresholds that the kubelet reaches first', async () => {
    // One that asks for nothing gets the defaults of the kubelet: the same as ours, without a margin.
    expect(saidOf(await report(), 'kubelet-first').length).toBeGreaterThan(0);
  });
});
