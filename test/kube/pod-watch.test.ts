import { describe, expect, it } from 'vitest';
import type { ApiPod } from '../../src/kube/api-pod.ts';
import { aUid } from './a-kubelet-tree.ts';
import { answer, aWatch, MINUTE, seen, stored } from './a-watch.ts';
import { directConnection } from './direct-connection.ts';
import { aV1Pod, createPodStore, type Json, NODE } from './pod-store.ts';

describe('the pods of the node', () => {
  it('are listed once, and then followed', async () => {
    const { clock, store, start, changes } = aWatch();
    store.put(aV1Pod({ name: 'a' }));
    store.put(aV1Pod({ name: 'elsewhere', spec: { nodeName: 'node-2' } }));
    const watch = start();
    expect(watch.pods().known).toBe(false);
    await clock.advance(100);
    expect(seen(watch)).toEqual(stored(store.of(NODE)));
    const before = changes();
    store.put(aV1Pod({ name: 'b' }));
    store.put(aV1Pod({ name: 'c' }));
    store.remove('default/a');
    await clock.advance(100);
    expect(seen(watch)).toEqual(stored(store.of(NODE)));
    expect(seen(watch)).toHaveLength(2);
    expect(changes() - before).toBe(1);
    expect(store.counts()).toMatchObject({ lists: 1, watches: 1 });
    expect(watch.isCurrent()).toBe(true);
    expect(watch.atMs()).toBe(clock.monoMs());
  });

  it('come page by page', async () => {
    const { clock, store, start, become } = aWatch();
    for (let i = 0; i < 1_200; i++) store.put(aV1Pod({ name: `pod-${i}` }));
    const watch = start();
    await clock.advance(100);
    // After an outage the list is not of what the server has at hand.
    become('away');
    await clock.advance(MINUTE);
    store.remove('default/pod-7');
    become('up');
    await clock.advance(10_000);
    expect(seen(watch)).toHaveLength(1_199);
    expect(watch.lists()).toBe(2);
  });

  it('leave the loop its turns while a long list of them is read', async () => {
    const { clock, store, start } = aWatch();
    for (let i = 0; i < 1_000; i++) store.put(aV1Pod({ name: `pod-${i}` }));
    let turns = 0;
    const watch = start();
    const turn = (): void => {
      turns += 1;
      if (!watch.pods().known) clock.after(0, turn);
    };
    clock.after(1, turn);
    await clock.advance(100);
    expect(watch.pods().known).toBe(true);
    expect(turns).toBeGreaterThan(30);
  });

  it('are others under the same name with another uid', async () => {
    const { clock, store, start } = aWatch();
    store.put(aV1Pod({ name: 'db-0', uid: '00000000-0000-4000-8000-00000000000a' }));
    const watch = start();
    await clock.advance(100);
    store.remove('default/db-0');
    store.put(aV1Pod({ name: 'db-0', uid: '00000000-0000-4000-8000-00000000000b' }));
    await clock.advance(100);
    const pods = watch.pods();
    expect(pods.known && [...pods.value.keys()]).toEqual(['00000000-0000-4000-8000-00000000000b']);
  });

  it('go on where a connection was cut, without a list, and stay meanwhile', async () => {
    const { clock, store, start, cut } = aWatch();
    store.put(aV1Pod({ name: 'a' }));
    const watch = start();
    await clock.advance(MINUTE);
    cut();
    store.put(aV1Pod({ name: 'b' }));
    expect(watch.isCurrent()).toBe(false);
    expect(seen(watch)).toHaveLength(1);
    await clock.advance(1_000);
    expect(seen(watch)).toEqual(stored(store.of(NODE)));
    expect(watch.lists()).toBe(1);
  });

  it('go on from a bookmark where nothing else came', async () => {
    const { clock, store, start, cut } = aWatch();
    const watch = start();
    await clock.advance(100);
    store.put(aV1Pod({ name: 'elsewhere', spec: { nodeName: 'node-2' } }));
    store.bookmark();
    store.forget();
    cut();
    await clock.advance(1_000);
    expect(store.counts()).toMatchObject({ lists: 1, watches: 2 });
    expect(watch.isCurrent()).toBe(true);
  });

  it.each(['by its status', 'by an event'])(
    'are listed anew, and compared, once the server says %s that it is too late',
    async (how) => {
      const { clock, store, start, cut } = aWatch();
      store.put(aV1Pod({ name: 'a' }));
      store.put(aV1Pod({ name: 'b' }));
      const watch = start();
      await clock.advance(100);
      if (how === 'by its status') {
        cut();
        store.remove('default/a');
        store.put(aV1Pod({ name: 'c' }));
        store.forget();
      } else {
        store.say({ type: 'ERROR', object: { kind: 'Status', code: 410, message: 'too old' } });
        store.remove('default/a');
      }
      await clock.advance(3_000);
      expect(seen(watch)).toEqual(stored(store.of(NODE)));
      expect(watch.lists()).toBe(2);
    },
  );

  it.each([
    ['an error', { type: 'ERROR', object: { code: 500, message: 'etcd' } }],
    ['no event', { hello: 1 }],
    ['an event without a version', { type: 'ADDED', object: { metadata: { name: 'x' } } }],
    ['the end of a pod without a uid', { type: 'DELETED', object: { metadata: { name: 'a', resourceVersion: '9' } } }],
  ])('are watched again three times, then listed, where the stream says %s', async (_, event) => {
    const { clock, store, start } = aWatch();
    store.put(aV1Pod({ name: 'a' }));
    const watch = start();
    await clock.advance(100);
    for (let i = 0; i < 3; i++) {
      store.say(event as Json);
      await clock.advance(10_000);
      expect(store.counts()).toMatchObject({ lists: 1, open: 1 });
    }
    store.say(event as Json);
    await clock.advance(10_000);
    expect(watch.lists()).toBe(2);
    expect(seen(watch)).toEqual(stored(store.of(NODE)));
  });

  it('are watched on where what is strange is rare', async () => {
    const { clock, store, start } = aWatch();
    const watch = start();
    await clock.advance(100);
    for (let i = 0; i < 12; i++) {
      store.say({ nothing: true });
      await clock.advance(20_000);
      store.put(aV1Pod({ name: 'a' }));
      await clock.advance(100);
    }
    expect(watch.lists()).toBe(1);
  });

  it('are followed again within half a second, and listed within two, after a minute of health', async () => {
    const { clock, store, start, cut, open } = aWatch();
    const watch = start();
    for (let i = 0; i < 9; i++) {
      store.say({ type: 'ERROR', object: { code: 410 } });
      await clock.advance(50_000);
      cut();
      await clock.advance(5_000);
    }
    await clock.advance(3 * MINUTE);
    cut();
    await clock.advance(500);
    expect([open(), watch.isCurrent()]).toEqual([1, true]);
    await clock.advance(2 * MINUTE);
    const before = watch.lists();
    store.say({ type: 'ERROR', object: { code: 410 } });
    await clock.advance(2_000);
    expect(watch.lists() - before).toBe(1);
  });

  it('are watched once, however an outage and a late list meet', async () => {
    const { clock, store, start, become, open, delay } = aWatch({ chance: () => 0 });
    delay(8_000);
    store.put(aV1Pod({ name: 'a' }));
    const watch = start();
    await clock.advance(2_000);
    become('away');
    await clock.advance(1_000);
    become('up');
    await clock.advance(60_000);
    expect([open(), watch.isCurrent(), watch.lists()]).toEqual([1, true, 1]);
  });

  it('are not disturbed by what is not known', async () => {
    const { clock, store, start } = aWatch();
    const watch = start();
    await clock.advance(100);
    store.say({ type: 'TELEPORTED', object: {} });
    store.put({ ...aV1Pod({ name: 'a' }), future: { deep: [1] } });
    await clock.advance(100);
    expect(seen(watch)).toHaveLength(1);
    expect(store.counts().watches).toBe(1);
  });

  it('that cannot be read stay as they were, or out, with one finding', async () => {
    const { clock, store, start, present } = aWatch();
    const a = aV1Pod({ name: 'a' });
    store.put(a);
    const watch = start();
    await clock.advance(100);
    const before = seen(watch);
    store.say({
      type: 'MODIFIED',
      object: { ...a, spec: 7, metadata: { ...(a['metadata'] as Json), resourceVersion: '102' } },
    });
    store.say({ type: 'ADDED', object: { metadata: { name: 'b\n<3>', uid: '../..', resourceVersion: '102' } } });
    await clock.advance(100);
    expect(seen(watch)).toEqual(before);
    expect(present.get('api-pods-unreadable')).toMatch(
      /^2 pods cannot be read: .*default\/a .*last good.*the pod is unknown/,
    );
    expect(present.get('api-pods-unreadable')).not.toContain('\n');
    store.put(a);
    await clock.advance(100);
    expect(present.get('api-pods-unreadable')).toMatch(/^1 pod cannot/);
  });

  it('of which one field cannot be read are known without it, which is one finding', async () => {
    const { clock, store, start, present } = aWatch();
    store.put(aV1Pod({ name: 'a', spec: { priority: 1e30 } }));
    const watch = start();
    await clock.advance(100);
    expect(seen(watch)).toHaveLength(1);
    expect(present.get('api-pods-unreadable')).toMatch(/^1 pod cannot be read: default\/a \(.*priority.*unknown/);
  });

  it('that were asked for by name are known as if they had been watched, if it is the same pod on this node', async () => {
    const { clock, start } = aWatch();
    const watch = start();
    await clock.advance(100);
    const pod = aV1Pod({ name: 'late', metadata: { resourceVersion: '7' } });
    const { uid } = pod['metadata'] as { readonly uid: string };
    watch.learn(pod, aUid('9'));
    watch.learn({ ...pod, spec: { ...(pod['spec'] as Json), nodeName: 'other' } }, uid);
    watch.learn('nothing', uid);
    expect(seen(watch)).toEqual([]);
    watch.learn(pod, uid);
    expect(seen(watch)).toEqual([`late ${uid} 7`]);
  });

  it('that were rejected are not kept, however many there are', async () => {
    const { clock, store, start, present } = aWatch();
    for (let i = 0; i < 200; i++) {
      store.put(aV1Pod({ name: `rejected-${i}`, status: { phase: 'Failed', containerStatuses: null } }));
    }
    store.put(aV1Pod({ name: 'a' }));
    store.put(aV1Pod({ name: 'over', status: { phase: 'Succeeded' } }));
    const watch = start();
    await clock.advance(100);
    expect(seen(watch).map((text) => text.split(' ')[0])).toEqual(['a', 'over']);
    expect(present.size).toBe(0);
  });

  it('are at most ten thousand, and more are said', async () => {
    const { clock, store, start, present } = aWatch();
    for (let i = 0; i < 10_003; i++) store.put(aV1Pod({ name: `pod-${i}` }));
    const watch = start();
    await clock.advance(100);
    expect(seen(watch)).toHaveLength(10_000);
    expect(present.get('api-too-many-pods')).toMatch(/3 pods left out/);
    store.remove('default/pod-10002');
    await clock.advance(100);
    expect(present.get('api-too-many-pods')).toMatch(/2 pods left out/);
  });

  it.each([401, 403, 404, 429, 500, 503])(
    'are asked for again, ever more seldom, where the server answers %i',
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

  it('are asked for when the server said, not before', async () => {
    const { clock, start, refuse } = aWatch();
    refuse(() => answer(429, null, 120_000));
    const watch = start();
    await clock.advance(119_000);
    expect(watch.lists()).toBe(1);
    await clock.advance(2_000);
    expect(watch.lists()).toBe(2);
  });

  it.each([
    ['no list', { kind: 'Status' }],
    ['no version', { kind: 'PodList', metadata: {}, items: [] }],
    ['no items', { kind: 'PodList', metadata: { resourceVersion: '1' }, items: 'none' }],
  ])('are not taken for gone where the answer is %s', async (_, body) => {
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

  it('of a server whose versions have gone back are listed anew', async () => {
    const { clock, store, start } = aWatch();
    store.put(aV1Pod({ name: 'a' }));
    const watch = start();
    await clock.advance(100);
    store.say({ type: 'BOOKMARK', object: { metadata: { resourceVersion: '99' } } });
    await clock.advance(3_000);
    expect([watch.lists(), seen(watch)]).toEqual([2, stored(store.of(NODE))]);
  });

  it('are as old as the last word where the server went away, and no older than the end of a connection', async () => {
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

  it('do not steer the agent by annotations, which is said', async () => {
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

  it('of an earlier run stand in where there is no answer, until there is one', async () => {
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
