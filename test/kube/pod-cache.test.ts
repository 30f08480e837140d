import { describe, expect, it } from 'vitest';
import { createPodCache, readPod } from '../../src/kube/pods/pod-cache.ts';
import { aV1Pod, NODE } from './pod-store.ts';

const A = '00000000-0000-4000-8000-00000000000a';
const B = '00000000-0000-4000-8000-00000000000b';
const read = (object: unknown) => readPod(object, new Set(), 'node-1');
const pod = (name: string, uid: string, rest: Omit<Parameters<typeof aV1Pod>[0], 'name' | 'uid'> = {}) =>
  read(aV1Pod({ name, uid, ...rest }));

describe('the kept pods', () => {
  it('are distinguished by uid: another uid is another pod, and the late end of the old one does not end the new one', () => {
    const cache = createPodCache();
    cache.put(pod('db-0', A));
    cache.put(pod('db-0', B));
    expect([...cache.pods().keys()]).toEqual([B]);
    cache.remove({ uid: A });
    expect([...cache.pods().keys()]).toEqual([B]);
    cache.remove({ uid: B });
    cache.put(pod('db-0', A));
    expect([...cache.pods().keys()]).toEqual([A]);
  });

  it('are not hidden by a mirror pod that claims their uid, nor an old mirror by a new one', () => {
    const mirrorOf = (name: string, uid: string, hash: string, creationTimestamp: string) =>
      pod(name, uid, {
        metadata: {
          creationTimestamp,
          annotations: { 'kubernetes.io/config.mirror': hash, 'kubernetes.io/config.hash': hash },
          ownerReferences: [{ kind: 'Node', name: NODE, uid: 'n' }],
        },
      });
    const C = '00000000-0000-4000-8000-00000000000c';
    const D = '00000000-0000-4000-8000-00000000000d';
    for (const isFirst of [true, false]) {
      const cache = createPodCache();
      const all = [
        pod('victim', A, { metadata: { creationTimestamp: '2026-02-01T00:00:00Z' } }),
        mirrorOf('forged', B, A, '2026-01-01T00:00:00Z'),
        mirrorOf('etcd', C, 'e'.repeat(32), '2026-01-01T00:00:00Z'),
        mirrorOf('etcd-forged', D, 'e'.repeat(32), '2026-01-02T00:00:00Z'),
      ];
      for (const each of isFirst ? all : all.reverse()) cache.put(each);
      expect([cache.pods().get(A)?.object.name, cache.pods().get('e'.repeat(32))?.object.name]).toEqual([
        'victim',
        'etcd',
      ]);
    }
  });

  it('that ran stay until the object is gone, even if the kubelet that evicted one no longer names its containers', () => {
    const cache = createPodCache();
    const evicted = { status: { phase: 'Failed', reason: 'Evicted', containerStatuses: null } };
    cache.put(pod('ran', A));
    for (const name of ['ran', 'ran', 'rejected']) cache.put(pod(name, name === 'ran' ? A : B, evicted));
    expect([...cache.pods().values()]).toMatchObject([
      { object: { name: 'ran' }, isEvictedByKubelet: true, containers: [{ name: 'main' }] },
    ]);
    cache.replace([]);
    expect(cache.pods().size).toBe(0);
  });

  it('that become unreadable stay until the object is gone', () => {
    const cache = createPodCache();
    cache.put(pod('a', A));
    const strange = read({ metadata: { name: 'a', namespace: 'default', uid: A }, spec: null });
    cache.put(strange);
    expect(cache.unreadable()).toMatchObject([{ pod: 'default/a', isKept: true }]);
    cache.replace([strange]);
    expect(cache.pods().size).toBe(1);
    cache.replace([pod('b', B)]);
    expect([[...cache.pods().keys()], cache.unreadable()]).toEqual([[B], []]);
  });
});
