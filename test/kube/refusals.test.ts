import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ApiVictim, NodeConditionEntry, OwnTaint } from '../../src/kube/api/write-rules.ts';
import { victimOf } from '../../src/kube/api/write-rules.ts';
import { anApi, BOOT, EARLIER_BOOT, type Json, NODE_PATH, NODE_UID, VICTIM, writesTo } from './an-api.ts';

/** beside-a-kubelet.md J, as far as the API goes. A cast stands where the types would not let the mistake compile. */
const SHUTDOWN = { bootId: BOOT, shutdownId: 'shutdown-1' };
const CONDITION: NodeConditionEntry = {
  type: 'NodewardenMemoryPressure',
  status: 'True',
  reason: 'Pressure',
  message: 'm',
  heartbeatWallMs: 0,
  transitionWallMs: 0,
};

/** That it throws at once, and that nothing was even asked. */
function refuses(act: (writes: ReturnType<typeof writesTo>) => unknown): void {
  const api = anApi();
  const writes = writesTo(api);
  expect(() => act(writes)).toThrow(/^refused before it was sent: /);
  expect(api.asked).toEqual([]);
}

describe('what the agent must be unable to do', () => {
  it.each([0, -1, Number.NaN, 0.5, Number.POSITIVE_INFINITY, '1' as unknown as number])(
    'end a pod with a grace period of %s',
    (grace) => {
      refuses((writes) => writes.deletePod(VICTIM, grace));
      refuses((writes) => writes.evictPod(VICTIM, grace));
    },
  );
  it('end a mirror pod', () => {
    expect(victimOf({ object: VICTIM, isMirror: true })).toBeNull();
    const mirror = { ...VICTIM, isMirror: true } as unknown as ApiVictim;
    refuses((writes) => writes.deletePod(mirror, 1));
    refuses((writes) => writes.evictPod(mirror, 1));
    refuses((writes) => writes.markDisruption(mirror, 'EvictionByNodewarden', ''));
    refuses((writes) => writes.unmarkDisruption(mirror, 'EvictionByNodewarden', '1'));
    const unsaid = { namespace: VICTIM.namespace, name: VICTIM.name, uid: VICTIM.uid } as unknown as ApiVictim;
    refuses((writes) => writes.deletePod(unsaid, 1));
  });
  it.each([
    ['without a uid', { uid: '' }],
    ['with a uid that is a path', { uid: '../../../../nodes/node-1/aaaaaaaaaaaa' }],
    ['whose name leads to another object', { name: '../../nodes/node-1' }],
    ['whose name is two dots', { name: 'a..b' }],
    ['whose name brings a query', { name: 'web-0?gracePeriodSeconds=0' }],
    ['whose namespace leads elsewhere', { namespace: 'shop/pods/other' }],
  ])('name a pod %s', (_, wrong) => refuses((writes) => writes.deletePod({ ...VICTIM, ...wrong }, 1)));

  it.each(['Ready', 'MemoryPressure', 'DiskPressure', 'PIDPressure', 'NetworkUnavailable', 'NodewardenFenced'])(
    'write or remove the condition %s',
    (type) => {
      const entry = { ...CONDITION, type } as unknown as NodeConditionEntry;
      refuses((writes) => writes.setNodeConditions([CONDITION, entry]));
      refuses((writes) => writes.removeNodeConditions([entry.type]));
    },
  );
  it.each([
    'node.kubernetes.io/out-of-service',
    'node.kubernetes.io/memory-pressure',
    'node.cloudprovider.kubernetes.io/shutdown',
    'ToBeDeletedByClusterAutoscaler',
    'nodewarden.dev/fenced',
  ])('put or remove the taint %s', (key) => {
    const taint = { key, effect: 'NoSchedule' } as unknown as OwnTaint;
    refuses((writes) => writes.changeTaints({ put: [taint], remove: [] }));
    refuses((writes) => writes.changeTaints({ put: [], remove: [taint.key] }));
  });
  it('end running pods by a taint', () => {
    const taint = { key: 'nodewarden.dev/shutdown', effect: 'NoExecute' } as unknown as OwnTaint;
    refuses((writes) => writes.changeTaints({ put: [taint], remove: [] }));
  });
  it("mark a pod in the kubelet's name", () => {
    const kubelets = 'TerminationByKubelet' as unknown as 'TerminationByNodewarden';
    refuses((writes) => writes.markDisruption(VICTIM, kubelets, ''));
    refuses((writes) => writes.unmarkDisruption(VICTIM, kubelets, '1'));
  });
  it('act on a node whose boot is not ours: nothing is written, not even to pods', async () => {
    const api = anApi();
    api.node.status.nodeInfo.bootID = EARLIER_BOOT;
    const writes = writesTo(api);
    const event = {
      name: 'e',
      about: { kind: 'Node' },
      reason: 'Evicted',
      type: 'Warning',
      message: '',
      annotations: {},
      firstWallMs: 0,
      lastWallMs: 0,
      count: 1,
    } as const;
    for (const said of [
      writes.deletePod(VICTIM, 1),
      writes.evictPod(VICTIM, 1),
      writes.markDisruption(VICTIM, 'EvictionByNodewarden', ''),
      writes.unmarkDisruption(VICTIM, 'EvictionByNodewarden', '1'),
      writes.setNodeConditions([CONDITION]),
      writes.removeNodeConditions(['NodewardenLastBoot']),
      writes.changeTaints({ put: [{ key: 'nodewarden.dev/shutdown', effect: 'NoSchedule' }], remove: [] }),
      writes.cordon(SHUTDOWN),
      writes.uncordon([SHUTDOWN]),
      writes.createEvent(event),
    ]) {
      expect(await said).toMatchObject({ kind: 'not-our-node' });
    }
    expect(api.sent()).toEqual([]);
    // Our own boot id is unknown: then no node is ours.
    expect(await writesTo(anApi(), { bootId: '' }).deletePod(VICTIM, 1)).toMatchObject({ kind: 'not-our-node' });
    // Right after a boot: the kubelet has written meanwhile.
    api.node.status.nodeInfo.bootID = BOOT;
    expect(await writes.deletePod(VICTIM, 1)).toEqual({ kind: 'accepted' });
  });
  it.each([undefined, '', 'kured', `${BOOT}/`, 'not-a-boot/shutdown-1', ['x']])(
    'uncordon a node with the mark %j',
    async (mark) => {
      const api = anApi();
      api.node.spec.unschedulable = true;
      api.node.metadata.annotations = mark === undefined ? {} : { 'nodewarden.dev/cordoned-by': mark };
      expect(await writesTo(api).uncordon([SHUTDOWN])).toEqual({ kind: 'nothing-of-ours' });
      expect(api.sent()).toEqual([]);
    },
  );
});

/** Every request that may ever leave, whole. */
function mayBeSent(
  { method, path: at, body, contentType }: ReturnType<ReturnType<typeof anApi>['sent']>[number],
  foreign: readonly Json[],
): boolean {
  const keys = (value: unknown): string =>
    Object.keys(value as Json)
      .sort()
      .join();
  const get = (value: unknown, ...names: string[]): unknown => names.reduce((v, name) => (v as Json)?.[name], value);
  if (body === null) return false;
  const isUid = (uid: unknown): boolean => typeof uid === 'string' && /^[0-9a-f-]{32,36}$/.test(uid);
  const isGrace = (grace: unknown): boolean => Number.isInteger(grace) && Number(grace) >= 1;
  const pod = /^\/api\/v1\/namespaces\/[a-z0-9-]+\/pods\/[a-z0-9.-]+$/;
  const event = /^\/api\/v1\/namespaces\/[a-z0-9-]+\/events$/;
  const isStrategic = contentType === 'application/strategic-merge-patch+json';
  if (method === 'DELETE') {
    const isWhole = keys(body) === 'apiVersion,gracePeriodSeconds,kind,preconditions';
    return pod.test(at) && isWhole && isGrace(body['gracePeriodSeconds']) && isUid(get(body, 'preconditions', 'uid'));
  }
  if (method === 'POST' && at.endsWith('/eviction')) {
    const options = body['deleteOptions'];
    const isWhole =
      keys(body) === 'apiVersion,deleteOptions,kind,metadata' && keys(options) === 'gracePeriodSeconds,preconditions';
    const isSafe = isGrace(get(options, 'gracePeriodSeconds')) && isUid(get(options, 'preconditions', 'uid'));
    return pod.test(at.replace(/\/eviction$/, '')) && isWhole && isSafe;
  }
  if (method === 'POST')
    return event.test(at) && body['kind'] === 'Event' && get(body, 'reportingComponent') === 'nodewarden.dev/agent';
  if (method !== 'PATCH') return false;
  if (event.test(at.slice(0, at.lastIndexOf('/')))) return keys(body) === 'count,lastTimestamp,message';
  if (pod.test(at.replace(/\/status$/, ''))) {
    const conditions = get(body, 'status', 'conditions') as Json[];
    const isOne = conditions.length === 1 && conditions[0]?.['type'] === 'DisruptionTarget';
    const isWhole = keys(body) === 'metadata,status' && keys(body['status']) === 'conditions';
    return at.endsWith('/status') && isStrategic && isOne && isWhole && isUid(get(body, 'metadata', 'uid'));
  }
  if (get(body, 'metadata', 'uid') !== NODE_UID) return false;
  if (at === `${NODE_PATH}/status`) {
    const conditions = get(body, 'status', 'conditions') as Json[];
    const isOwn = conditions.every(({ type }) => String(type).startsWith('Nodewarden') && type !== 'NodewardenFenced');
    return isStrategic && keys(body) === 'metadata,status' && keys(body['status']) === 'conditions' && isOwn;
  }
  if (at !== NODE_PATH || contentType !== 'application/merge-patch+json' || keys(body) !== 'metadata,spec')
    return false;
  const { unschedulable, taints, ...more } = body['spec'] as Json;
  const metadata = body['metadata'] as Json;
  const isLocked = typeof metadata['resourceVersion'] === 'string';
  const isLean = Object.keys(more).length === 0 && /^(annotations,)?resourceVersion,uid$/.test(keys(metadata));
  const annotated = metadata['annotations'] === undefined ? '' : keys(metadata['annotations']);
  const isMarked = unschedulable === undefined || annotated === 'nodewarden.dev/cordoned-by';
  const all = (taints ?? foreign) as Json[];
  const own = all.filter(({ key }) => String(key).startsWith('nodewarden.dev/') && key !== 'nodewarden.dev/fenced');
  const others = all.filter((taint) => !own.includes(taint));
  const areSame = JSON.stringify(others) === JSON.stringify(foreign);
  const areMild = own.every(({ effect }) => effect === 'NoSchedule' || effect === 'PreferNoSchedule');
  return isLocked && isLean && isMarked && areSame && areMild;
}

describe('whatever it is asked for', () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 40 }),
    fc.constantFrom('', '..', 'a/b', 'web-0', 'shop', 'NoExecute', 'status'),
  );
  const grace = fc.oneof(fc.constantFrom(0, -1, 1, 30, Number.NaN), fc.double());
  const victim = fc.record({
    namespace: fc.oneof({ weight: 5, arbitrary: fc.constant('shop') }, text),
    name: fc.oneof({ weight: 5, arbitrary: fc.constant('web-0') }, text),
    uid: fc.oneof({ weight: 5, arbitrary: fc.constant(VICTIM.uid) }, text),
    isMirror: fc.constantFrom(false, false, true, undefined),
  }) as unknown as fc.Arbitrary<ApiVictim>;
  const taint = fc.record({
    key: fc.oneof(
      fc.constantFrom('nodewarden.dev/shutdown', 'nodewarden.dev/fenced', 'node.kubernetes.io/out-of-service'),
      text,
    ),
    effect: fc.oneof(fc.constantFrom('NoSchedule', 'PreferNoSchedule', 'NoExecute'), text),
  }) as unknown as fc.Arbitrary<OwnTaint>;
  const condition = fc.record({
    type: fc.oneof(fc.constantFrom('NodewardenDiskPressure', 'Ready', 'NodewardenFenced'), text),
    status: fc.oneof(fc.constantFrom('True', 'False'), text),
    reason: fc.oneof(fc.constant('Pressure'), text),
    message: text,
    heartbeatWallMs: fc.oneof(fc.constant(0), fc.double()),
    transitionWallMs: fc.constant(0),
  }) as unknown as fc.Arbitrary<NodeConditionEntry>;
  const mark = fc.record({
    bootId: fc.constantFrom(BOOT, EARLIER_BOOT, 'x'),
    shutdownId: fc.oneof(fc.constant('s-1'), text),
  });
  type Writes = ReturnType<typeof writesTo>;
  const act: fc.Arbitrary<(writes: Writes) => Promise<unknown>> = fc.oneof(
    fc.tuple(victim, grace).map(
      ([v, g]) =>
        (w: Writes) =>
          w.deletePod(v, g),
    ),
    fc.tuple(victim, grace).map(
      ([v, g]) =>
        (w: Writes) =>
          w.evictPod(v, g),
    ),
    fc.tuple(victim, fc.oneof(fc.constant('EvictionByNodewarden'), text), text).map(
      ([v, reason, message]) =>
        (w: Writes) =>
          w.markDisruption(v, reason as 'EvictionByNodewarden', message),
    ),
    fc.array(condition, { maxLength: 3 }).map((entries) => (w: Writes) => w.setNodeConditions(entries)),
    fc
      .array(condition, { maxLength: 3 })
      .map((entries) => (w: Writes) => w.removeNodeConditions(entries.map(({ type }) => type))),
    fc.tuple(fc.array(taint, { maxLength: 2 }), fc.array(taint, { maxLength: 2 })).map(
      ([put, remove]) =>
        (w: Writes) =>
          w.changeTaints({ put, remove: remove.map(({ key }) => key) }),
    ),
    mark.map((by) => (w: Writes) => w.cordon(by)),
    fc.array(mark, { maxLength: 2 }).map((by) => (w: Writes) => w.uncordon(by)),
    fc
      .tuple(victim, text, text, fc.boolean(), fc.integer({ min: -1, max: 3 }), fc.boolean())
      .map(([v, name, message, isNode, count, isNew]) => (w: Writes) => {
        const event = {
          name: name === 'web-0' ? name : `event-${name}`,
          about: isNode ? ({ kind: 'Node' } as const) : ({ kind: 'Pod', ...v } as const),
          reason: 'Evicted',
          type: 'Warning',
          message,
          annotations: { [name]: message },
          firstWallMs: 0,
          lastWallMs: 0,
          count,
        } as const;
        return isNew ? w.createEvent(event) : w.createEvent({ ...event, count: count + 1 });
      }),
  );
  const FOREIGN = [{ key: 'node.kubernetes.io/unreachable', effect: 'NoExecute', timeAdded: 'x' }];

  it('every request has a known shape, and names our node or a pod with its uid', async () => {
    let requests = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(act, { maxLength: 4 }), fc.boolean(), async (acts, isCordoned) => {
        const api = anApi();
        api.node.spec = { ...(isCordoned ? { unschedulable: true } : {}), taints: structuredClone(FOREIGN) };
        const writes = writesTo(api);
        for (const each of acts) {
          try {
            await each(writes);
          } catch (error) {
            expect(String(error)).toContain('refused before it was sent');
          }
        }
        for (const sent of api.sent()) expect([sent, mayBeSent(sent, FOREIGN)]).toEqual([sent, true]);
        requests += api.sent().length;
      }),
      { numRuns: 500 },
    );
    expect(requests).toBeGreaterThan(100);
  });
});

describe('the source', () => {
  const SRC = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../src');
  const code = (file: string): string =>
    fs.readFileSync(path.join(SRC, file), 'utf8').replace(/\/\*[\s\S]*?\*\/|(^|\s)\/\/.*$/gm, '');
  const files = fs.readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));

  it('has one file that writes to the API, and one that queries its rights, which stores nothing', () => {
    const senders = files.filter((file) =>
      /\bApiSend\b|\bconnection\.send\b|\bContentType\b.*merge-patch/.test(code(file)),
    );
    expect(senders.sort()).toEqual(['kube/api/access-review.ts', 'kube/api/api-writes.ts', 'kube/api/connection.ts']);
    const paths = code('kube/api/access-review.ts').match(/'\/apis?\/[^']*'|path: .*|method: .*/g);
    expect(paths).toEqual([
      "'/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'",
      "method: 'POST',",
      'path: PATH,',
    ]);
  });
  it('contains no word for what must not be sent', () => {
    for (const file of ['kube/api/api-writes.ts', 'kube/api/write-rules.ts']) {
      expect(code(file)).not.toMatch(
        /PUT|phase|NoExecute|containerStatuses|out-of-service|finalizers|deletecollection/,
      );
    }
    expect(code('kube/api/api-writes.ts')).toContain("method: 'DELETE'");
  });
});
