import { describe, expect, it } from 'vitest';
import { aUid } from './a-kubelet-tree.ts';
import { aWatch, MINUTE, seen, stored } from './a-watch.ts';
import { aV1Pod, type Json, NODE } from './pod-store.ts';

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

  it('arrive page by page', async () => {
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

  it.each([
    ['until they are listed', 1, true],
    ['for 2 s at most', 5_000, false],
  ])('are about to be listed after an outage: %s', async (_, takesMs, isListed) => {
    const { clock, store, start, become, delay } = aWatch();
    store.put(aV1Pod({ name: 'a' }));
    const watch = start();
    await clock.advance(100);
    become('away');
    await clock.advance(MINUTE);
    expect(watch.isListDue()).toBe(false);
    delay(takesMs);
    become('up');
    expect(watch.isListDue()).toBe(true);
    await clock.advance(400);
    expect([watch.isListDue(), watch.isCurrent()]).toEqual([true, false]);
    await clock.advance(1_600);
    expect([watch.isListDue(), watch.isCurrent()]).toEqual([false, isListed]);
  });

  it('let the loop run while a long list of them is read', async () => {
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

  it('are distinct under the same name with another uid', async () => {
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

  it('are listed at once for whoever waits for them to go, however long the back-off has become', async () => {
    const { clock, store, start, become } = aWatch({ chance: () => 0.9 });
    store.put(aV1Pod({ name: 'a' }));
    const watch = start();
    await clock.advance(100);
    for (let outage = 0; outage < 6; outage++) {
      become('away');
      await clock.advance(100);
      become('up');
      await clock.advance(100);
    }
    store.remove('default/a');
    await clock.advance(1_000);
    expect(seen(watch)).toHaveLength(1);
    watch.refresh();
    await clock.advance(100);
    expect(seen(watch)).toHaveLength(0);
    const { lists } = store.counts();
    watch.refresh();
    await clock.advance(100);
    expect(store.counts().lists).toBe(lists);
  });

  it('continue after a cut connection without a list, and stay meanwhile', async () => {
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

  it('continue from a bookmark if nothing else arrived', async () => {
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
    'are listed again, and compared, once the server says %s that it is too late',
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
  ])('are watched again three times, then listed, if the stream says %s', async (_, event) => {
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

  it('continue to be watched if invalid events are rare', async () => {
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

  it('are watched again within half a second, and listed within two, after a minute of health', async () => {
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

  it('are watched once, however an outage and a late list coincide', async () => {
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

  it('are not affected by unknown objects', async () => {
    const { clock, store, start } = aWatch();
    const watch = start();
    await clock.advance(100);
    store.say({ type: 'TELEPORTED', object: {} });
    store.put({ ...aV1Pod({ name: 'a' }), future: { deep: [1] } });
    await clock.advance(100);
    expect(seen(watch)).toHaveLength(1);
    expect(store.counts().watches).toBe(1);
  });

  it('that cannot be read stay as they were, or are left out, with one finding', async () => {
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

  it('with one unreadable field are known without it, with one finding', async () => {
    const { clock, store, start, present } = aWatch();
    store.put(aV1Pod({ name: 'a', spec: { priority: 1e30 } }));
    const watch = start();
    await clock.advance(100);
    expect(seen(watch)).toHaveLength(1);
    expect(present.get('api-pods-unreadable')).toMatch(/^1 pod cannot be read: default\/a \(.*priority.*unknown/);
  });

  it('that were requested by name are treated as if watched, if it is the same pod on this node', async () => {
    const { clock, start } = aWatch();
    const watch = start();
    await clock.advance(100);
    const pod = aV1Pod({ name: 'late', metadata: { resourceVersion: '7' } });
    const { uid } = pod['metadata'] as { readonly uid: string };
    watch.asking(aUid('9'))(pod);
    watch.asking(uid)({ ...pod, spec: { ...(pod['spec'] as Json), nodeName: 'other' } });
    watch.asking(uid)('nothing');
    expect(seen(watch)).toEqual([]);
    expect([uid, aUid('9')].map(watch.isElsewhere)).toEqual([true, false]);
    watch.asking(uid)(pod);
    expect(seen(watch)).toEqual([`late ${uid} 7`]);
  });

  it.each(['watch', 'list'])(
    'that were requested by name do not replace what the %s has told of them since',
    async (by) => {
      const { clock, store, start } = aWatch();
      const watch = start();
      await clock.advance(100);
      const hears = async (change: () => void): Promise<void> => {
        if (by === 'list') store.cut();
        change();
        if (by === 'list') watch.refresh();
        await clock.advance(by === 'list' ? 1_000 : 100);
      };
      const pod = aV1Pod({ name: 'late' });
      const { uid } = pod['metadata'] as { readonly uid: string };
      const early = watch.asking(uid);
      await hears(() => store.put(pod));
      const [current] = stored(store.of(NODE));
      early({ ...pod, metadata: { ...(pod['metadata'] as Json), resourceVersion: '7' } });
      expect(seen(watch)).toEqual([current]);
      const late = watch.asking(uid);
      await hears(() => store.remove('default/late'));
      late(pod);
      await clock.advance(24 * 60 * MINUTE);
      expect(seen(watch)).toEqual([]);
    },
  );

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

  it('are at most ten thousand, and further ones are reported', async () => {
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
});
