import { describe, expect, it } from 'vitest';
import { partOf } from '../../src/core/shape.ts';
import type { ApiPod } from '../../src/kube/api/api-pod.ts';
import { answer, aWatch, MINUTE, seen, stored } from './a-watch.ts';
import { directConnection } from './direct-connection.ts';
import { aUid, aV1Pod, createPodStore, type Json, NODE } from './pod-store.ts';

const HASH = 'f'.repeat(32);
const MIRROR = {
  annotations: { 'kubernetes.io/config.mirror': HASH, 'kubernetes.io/config.hash': HASH },
  ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: NODE, uid: 'n', controller: true }],
};

describe('the pods of a node whose server refuses, has gone back or is away', () => {
  it.each([401, 403, 404, 429, 500, 503])(
    'are requested again, less and less often, if the server answers %i',
    async (status) => {
      const { clock, store, start, present, refuse } = aWatch();
      store.put(aV1Pod({ name: 'a' }));
      refuse(() => answer(status, { message: 'no\n' }));
      const watch = start();
      await clock.advance(10 * MINUTE);
      expect(watch.lists()).toBeGreaterThan(5);
      expect(watch.lists()).toBeLessThan(40);
      expect(watch.pods()).toMatchObject({ known: false, why: 'not-asked', detail: 'no\n' });
      expect(present.get('api-pods')).toMatch(
        status === 403 ? /right to list and watch pods/ : new RegExp(String(status)),
      );
      refuse(() => null);
      await clock.advance(MINUTE);
      expect(seen(watch)).toHaveLength(1);
      expect(present.size).toBe(0);
    },
  );

  it('are requested when the server said, not before', async () => {
    const { clock, start, refuse } = aWatch();
    refuse(() => answer(429, null, 120_000));
    const watch = start();
    await clock.advance(119_000);
    expect(watch.lists()).toBe(1);
    await clock.advance(2_000);
    expect(watch.lists()).toBe(2);
  });

  it('are known one by one as far as the server answers for them by their names, until it lists them', async () => {
    const { clock, store, start, refuse } = aWatch();
    const [pod, mirror] = [aV1Pod({ name: 'a' }), aV1Pod({ name: 'm', metadata: MIRROR })];
    const uidOf = (object: Json): string => partOf(object, 'metadata')['uid'] as string;
    refuse(() => answer(503));
    const watch = start();
    await clock.advance(100);
    for (const one of [pod, mirror]) watch.asking(uidOf(one))(one);
    expect(watch.learnt(uidOf(pod))?.object).toMatchObject({ name: 'a' });
    expect([watch.learnt(uidOf(mirror)), watch.learnt(aUid())]).toEqual([null, null]);
    // It is not known that there are no others.
    expect(watch.pods().known).toBe(false);
    store.put(aV1Pod({ name: 'b' }));
    refuse(() => null);
    await clock.advance(MINUTE);
    expect(watch.learnt(uidOf(pod))).toBeNull();
    expect(seen(watch)).toEqual(stored(store.of(NODE)));
  });

  it.each([
    ['is larger than what is read', { ...answer(200), problem: 'larger than 64 MiB', isTooMuch: true }],
    ['is still arriving at the deadline', { kind: 'none', detail: 'late', isTimeout: true, isTooMuch: true }],
  ] as const)('arrive in smaller pages if a page of them %s', async (_, tooMuch) => {
    const { clock, store, start, become, refuse, present } = aWatch();
    for (let i = 0; i < 1_200; i++) store.put(aV1Pod({ name: `pod-${i}` }));
    let isTooLarge = (query: URLSearchParams): boolean => query.get('resourceVersion') === '0';
    refuse((path) => {
      const query = new URL(path, 'https://stub').searchParams;
      const isList = query.get('watch') !== 'true';
      return isList && isTooLarge(query) ? tooMuch : null;
    });
    const watch = start();
    await clock.advance(100);
    expect(seen(watch)).toEqual(stored(store.of(NODE)));
    isTooLarge = (query) => query.get('limit') === '500' && query.has('continue');
    become('away');
    await clock.advance(MINUTE);
    store.remove('default/pod-7');
    become('up');
    await clock.advance(10_000);
    expect(seen(watch)).toEqual(stored(store.of(NODE)));
    expect(watch.lists()).toBe(2);
    expect(present.size).toBe(0);
  });

  it.each([
    ['no list', { kind: 'Status' }],
    ['no version', { kind: 'PodList', metadata: {}, items: [] }],
    ['no items', { kind: 'PodList', metadata: { resourceVersion: '1' }, items: 'none' }],
  ])('do not count as gone if the answer is %s', async (_, body) => {
    const { clock, store, start, refuse, become } = aWatch();
    store.put(aV1Pod({ name: 'a' }));
    const watch = start();
    await clock.advance(100);
    become('away');
    refuse((path) => (path.includes('watch=true') ? answer(500) : answer(200, body)));
    become('up');
    await clock.advance(MINUTE);
    expect(watch.lists()).toBeGreaterThan(1);
    expect(seen(watch)).toHaveLength(1);
  });

  it('of a server that was restored from a backup are those of the backup', async () => {
    const { clock, store, start, become, refuse } = aWatch();
    for (let i = 0; i < 20; i++) store.put(aV1Pod({ name: `pod-${i}` }));
    const watch = start();
    await clock.advance(100);
    become('away');
    await clock.advance(1_000);
    const older = createPodStore();
    older.put(aV1Pod({ name: 'restored' }));
    const restored = directConnection(older, clock);
    // The same connection, to another store.
    refuse((path) => {
      const { status, body } = older.list(new URL(path, 'https://stub').searchParams);
      return path.includes('watch=true') ? answer(500) : answer(status, body);
    });
    become('up');
    await clock.advance(MINUTE);
    expect(seen(watch)).toEqual(stored(older.of(NODE)));
    expect(restored.open()).toBe(0);
  });

  it('of a server whose versions have gone back are listed again', async () => {
    const { clock, store, start } = aWatch();
    store.put(aV1Pod({ name: 'a' }));
    const watch = start();
    await clock.advance(100);
    store.say({ type: 'BOOKMARK', object: { metadata: { resourceVersion: '99' } } });
    await clock.advance(3_000);
    expect([watch.lists(), seen(watch)]).toEqual([2, stored(store.of(NODE))]);
  });

  it('are as old as the last message if the server went away, and no older than the end of a connection', async () => {
    const { clock, start, become, cut } = aWatch();
    const watch = start();
    await clock.advance(MINUTE);
    cut();
    expect(clock.monoMs() - (watch.atMs() ?? 0)).toBe(0);
    await clock.advance(MINUTE);
    const before = clock.monoMs();
    await clock.advance(MINUTE);
    expect(watch.isCurrent()).toBe(true);
    become('away');
    await clock.advance(MINUTE);
    expect(watch.isCurrent()).toBe(false);
    expect(watch.atMs()).toBeLessThan(before);
  });

  it('do not control the agent by annotations, which is reported', async () => {
    const { clock, store, start, present } = aWatch();
    const annotated = (name: string, namespace: string, annotation: string, value = 'true') =>
      store.put(aV1Pod({ name, namespace, metadata: { annotations: { [`nodewarden.dev/${annotation}`]: value } } }));
    annotated('dns', 'kube-system', 'protect');
    annotated('a', 'default', 'protect');
    annotated('b', 'kube-system', 'systemd-unit');
    annotated('c', 'kube-system', 'evict-for', 'disk');
    annotated('d', 'kube-system', 'evict-for', 'dsik');
    annotated('e', 'default', 'evict-for', 'disk');
    start();
    await clock.advance(100);
    expect(present.get('api-pods-annotated')).toBe(
      'annotations of nodewarden.dev/ have no effect in mode kubelet, but protect and evict-for in kube-system: default/a, kube-system/b, kube-system/d (nodewarden.dev/evict-for must be none, or some of memory, disk, pids, separated by commas, not "dsik"), default/e',
    );
    for (const name of ['default/a', 'kube-system/b', 'kube-system/d', 'default/e']) store.remove(name);
    await clock.advance(100);
    expect(present.size).toBe(0);
  });

  it('of an earlier run are used if there is no answer, until there is one', async () => {
    const kept = {
      pods: new Map([['u', { declared: { uid: 'u' }, object: { name: 'kept' } } as unknown as ApiPod]]),
      atMs: 5,
    };
    const { clock, store, start, become, refuse, delay } = aWatch({ kept });
    refuse((path) => (path.includes('/pods') ? answer(500) : null));
    const early = start();
    await clock.advance(100);
    expect(early.pods()).toEqual({ known: true, value: kept.pods });
    early.close();
    delay(8_000);
    const hung = start();
    await clock.advance(100);
    expect(hung.pods().known).toBe(false);
    become('away');
    await clock.advance(100);
    expect(hung.pods().known).toBe(true);
    hung.close();
    become('up');
    delay(1);
    become('away');
    refuse(() => null);
    store.put(aV1Pod({ name: 'a' }));
    const watch = start();
    await clock.advance(100);
    expect(watch.pods()).toEqual({ known: true, value: kept.pods });
    expect([watch.isCurrent(), watch.atMs()]).toEqual([false, 5]);
    become('up');
    await clock.advance(10_000);
    expect(seen(watch)).toEqual(stored(store.of(NODE)));
  });

  it.each([
    ['before the list', null, () => undefined],
    ['during it', 0, () => undefined],
    ['in the watch', 5_000, () => undefined],
    ['before a cut one is opened again', 5_000, ({ cut }: ReturnType<typeof aWatch>) => cut()],
    ['before a change is told', 5_000, ({ store }: ReturnType<typeof aWatch>) => store.put(aV1Pod({ name: 'b' }))],
  ])('leave nothing behind when they end %s', async (_, ms, happen) => {
    const parts = aWatch();
    const { clock, start, open, changes, store } = parts;
    store.put(aV1Pod({ name: 'a' }));
    const watch = start();
    if (ms !== null) await clock.advance(ms);
    happen(parts);
    watch.close();
    // The list that is under way ends by its own deadline.
    expect(clock.timers()).toBe(ms === 0 ? 1 : 0);
    const before = changes();
    await clock.advance(10 * MINUTE);
    expect([clock.timers(), open(), changes() - before]).toEqual([0, 0, 0]);
  });
});
