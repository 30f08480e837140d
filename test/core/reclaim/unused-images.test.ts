import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type ImageUse,
  type ListedImage,
  type Sightings,
  seeImages,
  unmatched,
  unusedImages,
} from '../../../src/core/reclaim/unused-images.ts';

const digest = (n: number): string => n.toString(16).padStart(64, '0');
/** An image as runtimes list it: the id is that of its configuration, the digest of a tag that of its manifest. */
const listed = (n: number, isPinned = false): ListedImage => ({
  id: `sha256:${digest(n)}`,
  names: [`reg.io/app:${n}`, `reg.io/app@sha256:${digest(1_000 + n)}`],
  isPinned,
});
/** How runtimes write which image a container has. */
const WAYS: readonly ((n: number) => ImageUse)[] = [
  (n) => [`sha256:${digest(n)}`],
  (n) => [digest(n)],
  (n) => ['', `reg.io/app:${n}`],
  (n) => [`reg.io/app@sha256:${digest(1_000 + n)}`],
  (n) => [`docker-pullable://reg.io/app@sha256:${digest(1_000 + n)}`, 'short'],
  (n) => [`docker://sha256:${digest(n)}`],
];
const way = fc.integer({ min: 0, max: WAYS.length - 1 });
const NODE = fc.record({
  images: fc.uniqueArray(fc.record({ n: fc.integer({ min: 0, max: 12 }), isPinned: fc.boolean() }), {
    selector: ({ n }) => n,
  }),
  uses: fc.array(fc.tuple(fc.integer({ min: 0, max: 12 }), way), { maxLength: 8 }),
  sandbox: fc.option(fc.tuple(fc.integer({ min: 0, max: 12 }), way)),
  firstMs: fc.array(fc.integer({ min: 0, max: 300_000 }), { minLength: 13, maxLength: 13 }),
});

describe('unused images', () => {
  it('never include one that is in use, pinned, for sandboxes, too young or never seen', () => {
    fc.assert(
      fc.property(NODE, ({ images, uses, sandbox, firstMs }) => {
        const atMs = 300_000;
        const minAgeMs = 120_000;
        const sightings: Sightings = new Map(
          images.filter(({ n }) => n !== 7).map(({ n }) => [listed(n).id, { firstMs: firstMs[n] ?? 0, usedMs: null }]),
        );
        const plan = unusedImages({
          images: images.map(({ n, isPinned }) => listed(n, isPinned)),
          uses: uses.map(([n, how]) => WAYS[how]?.(n) ?? []),
          sandbox: sandbox === null ? [] : (WAYS[sandbox[1]]?.(sandbox[0]) ?? []),
          sightings,
          atMs,
          minAgeMs,
        });
        const isSafe = images.some(({ n }) => n === sandbox?.[0]) && uses.length > 0;
        expect(plan.kind).toBe(isSafe ? 'remove' : 'none');
        const kept = (n: number, isPinned: boolean): boolean =>
          isPinned ||
          n === 7 ||
          n === sandbox?.[0] ||
          uses.some(([used]) => used === n) ||
          atMs - (firstMs[n] ?? 0) < minAgeMs;
        const expected = images.filter(({ n, isPinned }) => isSafe && !kept(n, isPinned)).map(({ n }) => listed(n).id);
        const removed = plan.kind === 'remove' ? plan.images.map(({ id }) => id) : [];
        expect([...removed].sort()).toEqual(expected.sort());
      }),
    );
  });

  it("are in the kubelet's order: never used, then least recently used, then first seen", () => {
    const images = [1, 2, 3, 4, 5].map((n) => listed(n));
    const sightings: Sightings = new Map([
      [listed(1).id, { firstMs: 0, usedMs: 900 }],
      [listed(2).id, { firstMs: 5, usedMs: null }],
      [listed(3).id, { firstMs: 0, usedMs: 100 }],
      [listed(4).id, { firstMs: 2, usedMs: null }],
      [listed(5).id, { firstMs: 0, usedMs: null }],
    ]);
    const uses = [[listed(5).id]];
    const facts = { images, uses, sandbox: [listed(5).id], sightings, atMs: 1_000, minAgeMs: 0 };
    const plan = unusedImages(facts);
    expect(plan.kind === 'remove' && plan.images.map(({ id }) => id)).toEqual([4, 2, 3, 1].map((n) => listed(n).id));
    const young = unusedImages({ ...facts, minAgeMs: 999 });
    expect(young.kind === 'remove' && [young.images.map(({ id }) => id), young.tooYoung]).toEqual([
      [listed(4).id, listed(3).id, listed(1).id].slice(1),
      2,
    ]);
  });

  it('of the same age are in the order of their ids, and one of exactly the minimum age is old enough', () => {
    const images = [3, 1, 9, 2].map((n) => listed(n));
    const sightings: Sightings = new Map(images.map(({ id }) => [id, { firstMs: 100, usedMs: null }]));
    const facts = { images, sightings, uses: [[listed(9).id]], sandbox: [listed(9).id], atMs: 200 };
    const plan = unusedImages({ ...facts, minAgeMs: 100 });
    expect(plan.kind === 'remove' && plan.images.map(({ id }) => id)).toEqual([1, 2, 3].map((n) => listed(n).id));
    expect(unusedImages({ ...facts, minAgeMs: 101 })).toMatchObject({ images: [], tooYoung: 3 });
  });

  it('include one without a name even if a container names none', () => {
    const nameless: ListedImage = { id: `sha256:${digest(1)}`, names: [''], isPinned: false };
    const images = [nameless, listed(9)];
    const sightings: Sightings = new Map(images.map(({ id }) => [id, { firstMs: 0, usedMs: null }]));
    const uses = [[''], [listed(9).id]];
    const plan = unusedImages({ images, uses, sandbox: [listed(9).id], sightings, atMs: 1, minAgeMs: 0 });
    expect(plan.kind === 'remove' && plan.images).toEqual([nameless]);
  });

  it('are none while the runtime lists no container, or the sandbox image is unknown', () => {
    const images = [listed(1), listed(2)];
    const facts = { images, sightings: seeImages(new Map(), images, [], 0), atMs: 9e9, minAgeMs: 1 };
    const uses = [[listed(1).id]];
    expect(unusedImages({ ...facts, uses: [], sandbox: [listed(1).id] })).toMatchObject({ because: 'no-container' });
    expect(unusedImages({ ...facts, uses, sandbox: [] })).toMatchObject({ because: 'sandbox-unknown' });
    expect(unusedImages({ ...facts, uses, sandbox: ['pause:3'] })).toMatchObject({ because: 'sandbox-unknown' });
    // Something else that is pinned says nothing of it.
    const pinned = { ...facts, images: [...images, listed(3, true)], uses };
    expect(unusedImages({ ...pinned, sandbox: [] })).toMatchObject({ because: 'sandbox-unknown' });
    expect(unusedImages({ ...pinned, sandbox: [listed(3).id] }).kind).toBe('remove');
  });
});

describe('what the agent remembers of images', () => {
  it('keeps the first sighting and the last use, and forgets removed images', () => {
    const one = seeImages(new Map(), [listed(1), listed(2)], [[listed(1).id]], 10);
    const two = seeImages(one, [listed(1), listed(3)], [], 20);
    expect([...two]).toEqual([
      [listed(1).id, { firstMs: 10, usedMs: 10 }],
      [listed(3).id, { firstMs: 20, usedMs: null }],
    ]);
    // It came back: another download, as young as any.
    expect(seeImages(two, [listed(2)], [], 30).get(listed(2).id)?.firstMs).toBe(30);
  });

  it('reports uses that match no image', () => {
    const unknown = ['busybox'];
    expect(unmatched([listed(1)], [[`docker://${listed(1).id}`], unknown, []])).toEqual([unknown, []]);
  });
});
