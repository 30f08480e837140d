import { describe, expect, it } from 'vitest';
import { discoverEviction } from '../../src/kube/api/eviction.ts';
import {
  anApi,
  BOOT,
  EARLIER_BOOT,
  type Json,
  NODE_PATH,
  NODE_UID,
  notFound,
  overHttp,
  POD_PATH,
  status,
  VICTIM,
  writesTo,
} from './an-api.ts';
import { createVirtualClock } from './virtual-clock.ts';

const SHUTDOWN = { bootId: BOOT, shutdownId: 'shutdown-1' };
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;
const foreign = { key: 'node.kubernetes.io/unreachable', effect: 'NoExecute', timeAdded: '2026-01-01T00:00:00Z' };
const pressure = { key: 'nodewarden.dev/memory-pressure', effect: 'NoSchedule' } as const;
const shutdown = { key: 'nodewarden.dev/shutdown', effect: 'NoSchedule' };

describe('over a real socket', () => {
  it('the node is checked, the pod is marked and deleted, in the order of the calls', async () => {
    const api = anApi();
    const http = await overHttp(api);
    try {
      const writes = writesTo(http);
      expect(await writes.verify()).toMatchObject({ kind: 'node', uid: NODE_UID });
      expect(await writes.markDisruption(VICTIM, 'EvictionByNodewarden', 'memory')).toEqual({ kind: 'done' });
      expect(await writes.deletePod(VICTIM, 1, 5_000)).toEqual({ kind: 'accepted' });
      expect(api.asked.map(({ method, path, contentType }) => [method, path, contentType])).toEqual([
        ['GET', NODE_PATH, null],
        ['PATCH', `${POD_PATH}/status`, 'application/strategic-merge-patch+json'],
        ['DELETE', POD_PATH, 'application/json'],
      ]);
      expect(api.asked[2]?.body).toMatchObject({ gracePeriodSeconds: 1, preconditions: { uid: VICTIM.uid } });
    } finally {
      http.close();
    }
  });
  it('no answer within the deadline is unheard, and not an error', async () => {
    const http = await overHttp(anApi((method) => (method === 'DELETE' ? 'silence' : undefined)));
    try {
      expect(await writesTo(http).deletePod(VICTIM, 1, 50)).toMatchObject({ kind: 'unheard', isTimeout: true });
    } finally {
      http.close();
    }
  });
});

describe('evictPod', () => {
  const evict = (reply: ReturnType<typeof status> | 'silence', pod?: Json | 'gone' | 'silence') => {
    const api = anApi((method, path) => {
      if (path.endsWith('/eviction')) return reply;
      if (method !== 'GET' || path !== POD_PATH || pod === undefined) return undefined;
      return pod === 'silence' ? pod : pod === 'gone' ? notFound('pods', VICTIM.name) : { status: 200, body: pod };
    });
    return writesTo(api).evictPod(VICTIM, 30);
  };
  const budget = (message: string) => ({ causes: [{ reason: 'DisruptionBudget', message }] });

  it('uses the version that the server accepts, with uid and grace period', async () => {
    const api = anApi();
    expect(await writesTo(api, { evictionVersion: 'policy/v1beta1' }).evictPod(VICTIM, 30)).toEqual({
      kind: 'accepted',
    });
    expect(api.sent()).toHaveLength(1);
    expect(api.sent()[0]?.body).toEqual({
      apiVersion: 'policy/v1beta1',
      kind: 'Eviction',
      metadata: { namespace: 'shop', name: 'web-0' },
      deleteOptions: { gracePeriodSeconds: 30, preconditions: { uid: VICTIM.uid } },
    });
  });
  it('asks for the version if it is not known, and is not sent without it', async () => {
    const evictions = { name: 'pods/eviction', group: 'policy', version: 'v1' };
    const evictOn = (said: ReturnType<Parameters<typeof anApi>[0] & object>) => {
      const api = anApi((_, path) => (path === '/api/v1' ? said : undefined));
      return { api, said: writesTo(api, { evictionVersion: null }).evictPod(VICTIM, 30) };
    };
    const taken = evictOn({ status: 200, body: { resources: [evictions] } });
    expect(await taken.said).toEqual({ kind: 'accepted' });
    expect(taken.api.sent()[0]?.body).toMatchObject({ apiVersion: 'policy/v1' });
    for (const silent of ['silence', status(403, 'Forbidden', 'no')] as const) {
      const { api, said } = evictOn(silent);
      // The server is there, and may say it yet.
      expect(await said).toMatchObject({ kind: 'overload' });
      expect(api.sent()).toEqual([]);
    }
    const lost = { ...anApi(), get: async () => ({ kind: 'none', isTimeout: false, detail: 'reset' }) as const };
    expect(await writesTo(lost, { evictionVersion: null }).evictPod(VICTIM, 30)).toMatchObject({ kind: 'unheard' });
  });
  it('retries a budget that refuses without a time after 5 s, not sooner', async () => {
    const said = 'The disruption budget web needs 2 healthy pods and has 2 currently';
    expect(await evict(status(429, 'TooManyRequests', 'Cannot evict pod', budget(said)))).toEqual({
      kind: 'refused-by-budget',
      retryAfterMs: 5_000,
      text: said,
      isMistake: false,
    });
    const later = { ...budget(said), retryAfterSeconds: 10 };
    expect(await evict(status(429, 'TooManyRequests', 'x', later))).toMatchObject({ retryAfterMs: 10_000 });
  });
  it('does not confuse a busy server with a budget', async () => {
    expect(await evict({ ...status(429, 'TooManyRequests', 'slow down'), retryAfterMs: 1_000 })).toEqual({
      kind: 'overload',
      retryAfterMs: 1_000,
      text: 'slow down',
    });
    expect(await evict(status(503, 'ServiceUnavailable', 'no'))).toMatchObject({ kind: 'overload' });
  });
  it('treats two budgets for one pod as a mistake that does not resolve itself', async () => {
    const text = 'This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.';
    expect(await evict(status(500, '', text))).toMatchObject({ kind: 'refused-by-budget', isMistake: true, text });
  });
  it('treats a 403 of the budget as a refusal, but not one about our rights', async () => {
    const named = { kind: 'poddisruptionbudget', group: 'policy', name: 'web' };
    expect(await evict(status(403, 'Forbidden', 'allowance is negative', named))).toMatchObject({
      kind: 'refused-by-budget',
    });
    const text = 'pods "web-0" is forbidden: User "x" cannot create resource "pods/eviction"';
    expect(await evict(status(403, 'Forbidden', text, { kind: 'pods', name: 'web-0' }))).toEqual({
      kind: 'forbidden',
      right: 'create pods/eviction',
      text,
    });
  });
  it('distinguishes gone, replaced, and a server without evictions', async () => {
    expect(await evict(notFound('pods', 'web-0'))).toEqual({ kind: 'gone' });
    const text = 'Precondition failed: UID in precondition: a, UID in object meta: b';
    expect(await evict(status(409, 'Conflict', text))).toEqual({ kind: 'replaced' });
    expect(await evict(status(404, 'NotFound', 'the server could not find the requested resource'))).toMatchObject({
      kind: 'rejected',
      status: 404,
    });
  });
  it.each([
    [
      'it was accepted: the pod is being deleted',
      { metadata: { uid: VICTIM.uid, deletionTimestamp: 'x' } },
      { kind: 'accepted' },
    ],
    ['not known: the pod is not being deleted', { metadata: { uid: VICTIM.uid } }, { kind: 'unheard' }],
    ['another pod has the name', { metadata: { uid: 'other', deletionTimestamp: 'x' } }, { kind: 'replaced' }],
    ['the pod is gone', 'gone' as const, { kind: 'gone' }],
    ['not known: no answer to that either', 'silence' as const, { kind: 'unheard' }],
  ])('looks the pod up if there was no answer: %s', async (_, pod, read) => {
    expect(await evict('silence', pod)).toMatchObject(read);
    expect(await evict(status(504, 'Timeout', 'request did not complete'), pod)).toMatchObject(read);
  });
  it('finds its version in /api/v1', async () => {
    const said = (resources: unknown) =>
      anApi((_, path) => (path === '/api/v1' ? { status: 200, body: { resources } } : undefined)).get;
    const eviction = { name: 'pods/eviction', group: 'policy', kind: 'Eviction' };
    const v1beta1 = [{ name: 'pods' }, { ...eviction, version: 'v1beta1' }];
    expect(await discoverEviction(said(v1beta1), 1)).toEqual({ known: true, value: 'policy/v1beta1' });
    expect(await discoverEviction(said([{ ...eviction, version: 'v1' }]), 1)).toMatchObject({ value: 'policy/v1' });
    expect(await discoverEviction(said([{ ...eviction, version: 'v7' }]), 1)).toMatchObject({ why: 'malformed' });
    expect(await discoverEviction(said([]), 1)).toMatchObject({ why: 'absent' });
    expect(await discoverEviction(anApi(() => 'silence').get, 1)).toMatchObject({ why: 'timed-out' });
  });
});

describe('deletePod and markDisruption', () => {
  it.each<[string, unknown]>([
    ['nothing', null],
    ['another pod', { kind: 'Pod', metadata: { name: VICTIM.name, uid: 'another' } }],
    ['a Status of a failure', { kind: 'Status', status: 'Failure' }],
  ])('do not take a success with %s for an accepted deletion', async (_, body) => {
    const api = anApi((method, path) =>
      method === 'DELETE' || path.endsWith('/eviction') ? { status: 200, body: body as Json } : undefined,
    );
    expect(await writesTo(api).deletePod(VICTIM, 1)).toMatchObject({ kind: 'unheard' });
    expect(await writesTo(api).evictPod(VICTIM, 30)).toMatchObject({ kind: 'unheard' });
  });
  it('do not delete another pod of that name', async () => {
    const api = anApi();
    const other = { ...VICTIM, uid: 'cccccccc-0000-4000-8000-00000000000c' };
    expect(await writesTo(api).deletePod(other, 1)).toEqual({ kind: 'replaced' });
    expect(api.pods.get(POD_PATH)?.metadata).not.toHaveProperty('deletionTimestamp');
    api.pods.clear();
    expect(await writesTo(api).deletePod(VICTIM, 1)).toEqual({ kind: 'gone' });
  });
  it('change only one condition of the pod', async () => {
    const api = anApi();
    await writesTo(api).markDisruption(VICTIM, 'TerminationByNodewarden', 'the node goes down');
    expect(api.sent()[0]?.body).toEqual({
      metadata: { uid: VICTIM.uid },
      status: {
        conditions: [
          {
            type: 'DisruptionTarget',
            status: 'True',
            reason: 'TerminationByNodewarden',
            message: 'the node goes down',
            lastTransitionTime: expect.stringMatching(TIME),
          },
        ],
      },
    });
  });
  it('do not mark a pod whose uid is another one', async () => {
    const immutable = status(422, 'Invalid', 'Pod "web-0" is invalid: metadata.uid: Invalid value: field is immutable');
    const writes = writesTo(anApi((_, path) => (path.endsWith('/status') ? immutable : undefined)));
    expect(await writes.markDisruption(VICTIM, 'EvictionByNodewarden', 'x')).toEqual({ kind: 'replaced' });
  });
});

describe('conditions', () => {
  it('are added beside those of others, and removed without a trace', async () => {
    const api = anApi();
    const writes = writesTo(api);
    const entry = {
      type: 'NodewardenMemoryPressure',
      status: 'True',
      reason: 'Pressure',
      message: 'm',
      heartbeatWallMs: 1_000,
      transitionWallMs: 0,
    } as const;
    expect(await writes.setNodeConditions([entry])).toEqual({ kind: 'done' });
    expect(api.node.status.conditions).toEqual([
      { type: 'Ready', status: 'True' },
      {
        type: 'NodewardenMemoryPressure',
        status: 'True',
        reason: 'Pressure',
        message: 'm',
        lastHeartbeatTime: '1970-01-01T00:00:01Z',
        lastTransitionTime: '1970-01-01T00:00:00Z',
      },
    ]);
    expect(await writes.removeNodeConditions(['NodewardenMemoryPressure'])).toEqual({ kind: 'done' });
    expect(api.node.status.conditions).toEqual([{ type: 'Ready', status: 'True' }]);
  });
  it('of a recreated node are set once it has shown our boot id', async () => {
    const api = anApi();
    const writes = writesTo(api);
    await writes.verify();
    api.node.metadata.uid = 'dddddddd-0000-4000-8000-00000000000d';
    expect(await writes.removeNodeConditions(['NodewardenLastBoot'])).toMatchObject({ kind: 'overload' });
    expect(await writes.removeNodeConditions(['NodewardenLastBoot'])).toEqual({ kind: 'done' });
  });
  it('of a node that was last seen more than a minute ago are set once it has shown our boot id again', async () => {
    const api = anApi();
    const at = createVirtualClock();
    const writes = writesTo(api, { at });
    await writes.verify();
    api.node.status.nodeInfo.bootID = EARLIER_BOOT;
    await at.advance(59_000);
    expect(await writes.removeNodeConditions(['NodewardenLastBoot'])).toEqual({ kind: 'done' });
    await at.advance(1_000);
    const sent = api.sent().length;
    expect(await writes.removeNodeConditions(['NodewardenLastBoot'])).toMatchObject({ kind: 'not-our-node' });
    expect(await writes.deletePod(VICTIM, 1)).toMatchObject({ kind: 'not-our-node' });
    expect(api.sent()).toHaveLength(sent);
  });
});

describe('taints', () => {
  it('of others stay unchanged, in their place', async () => {
    const api = anApi();
    api.node.spec.taints = [foreign, { key: 'nodewarden.dev/fenced', value: 'x', effect: 'NoSchedule' }];
    const writes = writesTo(api);
    const before = structuredClone(api.node.spec.taints);
    expect(await writes.changeTaints({ put: [pressure], remove: [] })).toEqual({ kind: 'done' });
    expect(api.node.spec.taints).toEqual([...before, pressure]);
    expect(await writes.changeTaints({ put: [pressure], remove: [] })).toEqual({ kind: 'unchanged' });
    expect(await writes.changeTaints({ put: [], remove: [pressure.key] })).toEqual({ kind: 'done' });
    expect(api.node.spec.taints).toEqual(before);
    expect(api.sent()).toHaveLength(2);
  });
  it('that somebody else writes meanwhile are not lost', async () => {
    let races = 0;
    const api = anApi((method, path) => {
      if (method !== 'PATCH' || path !== NODE_PATH || races >= 2) return undefined;
      races++;
      api.node.spec.taints = [...(api.node.spec.taints ?? []), { ...foreign, value: String(races) }];
      api.touch();
      return undefined;
    });
    expect(await writesTo(api).changeTaints({ put: [pressure], remove: [] })).toEqual({ kind: 'done' });
    expect(api.node.spec.taints).toEqual([{ ...foreign, value: '1' }, { ...foreign, value: '2' }, pressure]);
  });
  it('are given up after five conflicts', async () => {
    const api = anApi((method) => (method === 'PATCH' ? status(409, 'Conflict', 'modified') : undefined));
    expect(await writesTo(api).changeTaints({ put: [pressure], remove: [] })).toMatchObject({ kind: 'overload' });
    expect(api.sent()).toHaveLength(5);
  });
});

describe('cordon', () => {
  it('is set with its taint in one patch, and removed with it', async () => {
    const api = anApi();
    const writes = writesTo(api);
    expect(await writes.cordon(SHUTDOWN)).toEqual({ kind: 'done', cordon: 'ours' });
    expect(api.sent()).toHaveLength(1);
    expect(api.node.spec).toEqual({ unschedulable: true, taints: [shutdown] });
    expect(api.node.metadata.annotations).toEqual({ 'nodewarden.dev/cordoned-by': `${BOOT}/shutdown-1` });
    expect(await writes.cordon(SHUTDOWN)).toEqual({ kind: 'done', cordon: 'ours' });
    expect(await writes.uncordon([SHUTDOWN])).toEqual({ kind: 'done', uncordoned: true });
    expect(api.node.spec).toEqual({ taints: [] });
    expect(api.node.metadata.annotations).toEqual({});
    expect(api.sent()).toHaveLength(2);
  });
  it('of somebody else is left: only the taint changes', async () => {
    const api = anApi();
    api.node.spec.unschedulable = true;
    const writes = writesTo(api);
    expect(await writes.cordon(SHUTDOWN)).toEqual({ kind: 'done', cordon: 'others' });
    expect(api.node.metadata.annotations).toEqual({});
    expect(await writes.uncordon([SHUTDOWN])).toEqual({ kind: 'done', uncordoned: false });
    expect(api.node.spec).toEqual({ unschedulable: true, taints: [] });
  });
  it('is left to the autoscaler that removes the node', async () => {
    const api = anApi();
    api.node.spec.taints = [{ key: 'ToBeDeletedByClusterAutoscaler', effect: 'NoSchedule' }];
    expect(await writesTo(api).cordon(SHUTDOWN)).toEqual({ kind: 'done', cordon: 'autoscaler' });
    expect(api.node.spec.unschedulable).toBeUndefined();
    api.node.spec.unschedulable = true;
    api.node.metadata.annotations = { 'nodewarden.dev/cordoned-by': `${BOOT}/shutdown-1` };
    expect(await writesTo(api).uncordon([SHUTDOWN])).toEqual({ kind: 'autoscaler' });
    api.node.spec.taints.push(shutdown);
    expect(await writesTo(api).uncordon([SHUTDOWN])).toEqual({ kind: 'autoscaler' });
    expect(api.node.spec.taints).toHaveLength(1);
    expect(api.node.spec.unschedulable).toBe(true);
  });
  it('left by an earlier shutdown of ours passes on to the next, and is not lifted during it', async () => {
    const api = anApi();
    api.node.spec.unschedulable = true;
    api.node.metadata.annotations = { 'nodewarden.dev/cordoned-by': `${EARLIER_BOOT}/shutdown-9` };
    expect(await writesTo(api).cordon(SHUTDOWN)).toEqual({ kind: 'done', cordon: 'ours' });
    expect(await writesTo(api).uncordon([])).toEqual({ kind: 'nothing-of-ours' });
    expect(api.node.spec.unschedulable).toBe(true);
    expect(await writesTo(api).uncordon([SHUTDOWN])).toEqual({ kind: 'done', uncordoned: true });
  });
  it('of a person does not pass on to a shutdown, whatever annotation an earlier one left', async () => {
    const api = anApi();
    api.node.spec.unschedulable = true;
    api.node.metadata.annotations = { 'nodewarden.dev/cordoned-by': `${EARLIER_BOOT}/shutdown-9` };
    api.node.metadata.managedFields = [{ manager: 'kubectl', fieldsV1: { 'f:spec': { 'f:unschedulable': {} } } }];
    expect(await writesTo(api).cordon(SHUTDOWN)).toEqual({ kind: 'done', cordon: 'others' });
    expect(await writesTo(api).uncordon([SHUTDOWN])).toEqual({ kind: 'done', uncordoned: false });
    expect(api.node.spec).toEqual({ unschedulable: true, taints: [] });
  });
  it('of an earlier boot of ours is lifted, but not one of this boot that was not cancelled', async () => {
    const api = anApi();
    const bear = (mark: string): void => {
      api.node.spec = { unschedulable: true };
      api.node.metadata.annotations = { 'nodewarden.dev/cordoned-by': mark };
    };
    bear(`${EARLIER_BOOT}/shutdown-9`);
    expect(await writesTo(api).uncordon([])).toEqual({ kind: 'done', uncordoned: true });
    expect(api.node.spec.unschedulable).toBeUndefined();
    bear(`${BOOT}/shutdown-2`);
    api.node.spec.taints = [shutdown];
    expect(await writesTo(api).uncordon([])).toEqual({ kind: 'nothing-of-ours' });
    expect(await writesTo(api).uncordon([SHUTDOWN])).toEqual({ kind: 'nothing-of-ours' });
    expect(api.node.spec).toEqual({ unschedulable: true, taints: [shutdown] });
  });
});

describe('events', () => {
  const event = {
    name: 'nodewarden-evicted-1',
    about: { kind: 'Pod', namespace: VICTIM.namespace, name: VICTIM.name, uid: VICTIM.uid },
    reason: 'Evicted',
    type: 'Warning',
    message: 'The node was low on resource: memory. ',
    annotations: { starved_resource: 'memory' },
    firstWallMs: 0,
    lastWallMs: 0,
    count: 1,
  } as const;

  it('sent twice are one, with the time of the first', async () => {
    const api = anApi();
    const writes = writesTo(api);
    expect(await writes.createEvent(event)).toEqual({ kind: 'done' });
    expect(await writes.createEvent({ ...event, firstWallMs: 5_000 })).toEqual({ kind: 'done' });
    expect([...api.events.values()]).toMatchObject([
      {
        metadata: { namespace: 'shop', annotations: { starved_resource: 'memory' } },
        involvedObject: { kind: 'Pod', name: 'web-0', uid: VICTIM.uid },
        reportingComponent: 'nodewarden.dev/agent',
        firstTimestamp: '1970-01-01T00:00:00Z',
      },
    ]);
    expect(await writes.createEvent({ ...event, count: 7, lastWallMs: 60_000 })).toEqual({ kind: 'done' });
    expect([...api.events.values()]).toMatchObject([{ count: 7, lastTimestamp: '1970-01-01T00:01:00Z' }]);
  });
  it("of the node are in the same namespace as the kubelet's", async () => {
    const api = anApi();
    await writesTo(api).createEvent({ ...event, about: { kind: 'Node' }, reason: 'EvictionThresholdMet' });
    expect(api.sent()[0]).toMatchObject({
      path: '/api/v1/namespaces/default/events',
      body: { involvedObject: { kind: 'Node', name: 'node-1', uid: 'node-1' } },
    });
  });
  it('of a namespace that is being deleted are rejected, which is not a missing right', async () => {
    const causes = [{ reason: 'NamespaceTerminating', message: 'namespace shop is being terminated' }];
    const said = status(403, 'Forbidden', 'unable to create new content', { causes });
    const writes = writesTo(anApi((method) => (method === 'POST' ? said : undefined)));
    expect(await writes.createEvent(event)).toMatchObject({ kind: 'rejected', status: 403 });
  });
});
