import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { answer, aWatch, MINUTE, seen, stored } from './a-watch.ts';
import { aV1Pod, type Json, NODE } from './pod-store.ts';

describe('a thousand disconnects', () => {
  it.each([
    ['each at once', 0],
    ['each after ten seconds', 10_000],
    ['each after two minutes', 2 * MINUTE],
  ])('%s cost no list and no pod', async (_, everyMs) => {
    const { clock, store, start, cut, open } = aWatch();
    const watch = start();
    await clock.advance(100);
    for (let i = 0; i < 1_000; i++) {
      if (i % 2 === 0) store.put(aV1Pod({ name: `pod-${i % 20}` }));
      else store.remove(`default/pod-${(i + 7) % 20}`);
      await clock.advance(everyMs);
      cut();
      while (open() === 0) await clock.advance(250);
    }
    await clock.advance(20_000);
    expect(seen(watch)).toEqual(stored(store.of(NODE)));
    expect(watch.lists()).toBe(1);
  });

  it('by outages of a second cost fewer than ten lists a minute', async () => {
    const { clock, store, start, become } = aWatch();
    const watch = start();
    await clock.advance(100);
    let most = 0;
    for (let minute = 0; minute < 30; minute++) {
      const before = watch.lists();
      for (let i = 0; i < 20; i++) {
        become('away');
        store.put(aV1Pod({ name: `pod-${i % 7}` }));
        await clock.advance(1_000);
        become('up');
        await clock.advance(2_000);
      }
      most = Math.max(most, watch.lists() - before);
    }
    expect(most).toBeLessThan(10);
    await clock.advance(2 * MINUTE);
    expect(seen(watch)).toEqual(stored(store.of(NODE)));
  });

  it('with a server that remembers nothing cost fewer than ten lists a minute', async () => {
    const { clock, store, start, cut } = aWatch();
    const watch = start();
    await clock.advance(100);
    let most = 0;
    for (let minute = 0; minute < 50; minute++) {
      const before = watch.lists();
      for (let i = 0; i < 20; i++) {
        store.put(aV1Pod({ name: `pod-${i % 7}` }));
        cut();
        store.put(aV1Pod({ name: `pod-${(i + 3) % 7}` }));
        store.forget();
        await clock.advance(3_000);
      }
      most = Math.max(most, watch.lists() - before);
    }
    expect(most).toBeLessThan(10);
    await clock.advance(2 * MINUTE);
    expect(seen(watch)).toEqual(stored(store.of(NODE)));
  });
});

type Happening =
  | { readonly kind: 'put' | 'remove' | 'replace'; readonly pod: number }
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'refuse'; readonly status: number | null }
  | { readonly kind: 'cut' | 'forget' | 'gone' | 'garbage' | 'bookmark' | 'away' | 'up' | 'welcome' };
const happening: fc.Arbitrary<Happening> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constantFrom('put', 'remove', 'replace'), pod: fc.nat(7) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.nat(40_000) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('refuse' as const), status: fc.constantFrom(null, 410, 429, 500, 504) }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constantFrom('cut', 'forget', 'gone', 'garbage', 'bookmark', 'away', 'up', 'welcome'),
    }),
  },
);

describe('whatever happens in between', () => {
  it("the pods finally match the server's", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(happening, { maxLength: 60 }), fc.integer(), async (happenings, seed) => {
        let chances = seed;
        const chance = (): number => {
          chances = (Math.imul(chances, 1_103_515_245) + 12_345) >>> 0;
          return chances / 2 ** 32;
        };
        const { clock, store, start, cut, become, refuse } = aWatch({ chance });
        const watch = start();
        for (const it of happenings) {
          switch (it.kind) {
            case 'put':
            case 'replace': {
              const name = `pod-${it.pod}`;
              const old = store.of(NODE).find((pod) => (pod['metadata'] as Json)['name'] === name);
              if (it.kind === 'replace') store.remove(`default/${name}`);
              const uid = it.kind === 'put' && old !== undefined ? String((old['metadata'] as Json)['uid']) : undefined;
              store.put(aV1Pod({ name, ...(uid === undefined ? {} : { uid }) }));
              break;
            }
            case 'remove':
              store.remove(`default/pod-${it.pod}`);
              break;
            case 'wait':
              await clock.advance(it.ms);
              break;
            case 'refuse':
              refuse(() => (it.status === null ? { kind: 'none', detail: 'no', isTimeout: true } : answer(it.status)));
              break;
            case 'welcome':
              refuse(() => null);
              break;
            case 'cut':
              cut();
              break;
            case 'forget':
              store.forget();
              break;
            case 'gone':
              store.say({ type: 'ERROR', object: { code: 410 } });
              break;
            case 'garbage':
              store.say({ nothing: true });
              break;
            case 'bookmark':
              store.bookmark();
              break;
            default:
              become(it.kind);
          }
        }
        refuse(() => null);
        become('up');
        await clock.advance(3 * MINUTE);
        expect(seen(watch)).toEqual(stored(store.of(NODE)));
        expect(watch.isCurrent()).toBe(true);
        watch.close();
        expect(clock.timers()).toBe(0);
      }),
      { numRuns: 300 },
    );
  });
});
