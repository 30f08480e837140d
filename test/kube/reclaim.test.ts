import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { known, unknown } from '../../src/core/reading.ts';
import { ContainerState } from '../../src/kube/cri/cri_pb.ts';
import { openRuntimeReclaim, type SeenImages } from '../../src/kube/cri/reclaim.ts';
import type { Clock, Finding } from '../../src/ports.ts';
import { aClock } from './a-clock.ts';
import { aNode, imageId, type ModelContainer, type ModelImage, uid } from './a-node.ts';

const EXITED = ContainerState.CONTAINER_EXITED;

/** Its clock stands still unless it is moved; timers do not run. */
function openOn(
  model: ReturnType<typeof aNode>,
  rest: {
    minImageAgeMs?: number;
    isGone?: (uid: string) => boolean;
    isProven?: () => boolean;
    clock?: Clock;
    seen?: SeenImages;
  } = {},
) {
  let nowMs = 1_000_000;
  const still: Clock = { monoMs: () => nowMs, wallMs: () => nowMs, after: () => () => undefined };
  const { clock = still } = rest;
  const raised = new Map<string, Finding>();
  const said: string[] = [];
  const { reclaim } = openRuntimeReclaim({
    seen: rest.seen ?? { sightings: new Map() },
    clock,
    log: { debug: () => {}, info: (_, msg) => void said.push(msg), warn: () => {}, error: () => {} },
    findings: {
      raise: (finding) => void raised.set(finding.id, finding),
      clear: (id) => void raised.delete(id),
      all: () => [...raised.values()],
    },
    runtime: {
      connect: async () => known(model.client),
      connectProven: async () =>
        (rest.isProven?.() ?? true) ? known(model.client) : unknown('absent', 'CRI', 'not proven'),
    },
    minImageAgeMs: () => rest.minImageAgeMs ?? 0,
    isGone: rest.isGone ?? (() => false),
  });
  return {
    reclaim,
    said,
    findings: () => [...raised.values()].map(({ text }) => text),
    pass: (ms: number) => (nowMs += ms),
  };
}
/** What the sandboxes are made of, and one running container of image 1. */
const base = (): { images: ModelImage[]; containers: ModelContainer[] } => ({
  images: [{ n: 0 }, { n: 1 }],
  containers: [{ n: 101, image: imageId(1), podUid: uid(1) }],
});

describe('a reclaim of images', () => {
  it('keeps an image that a container starts to use meanwhile', async () => {
    const model = aNode({ ...base(), images: [{ n: 0 }, { n: 1 }, { n: 2 }, { n: 3 }] });
    model.onCall((call) => {
      if (call === 'RemoveImage 2') model.node.containers.push({ n: 102, image: imageId(3), podUid: uid(2) });
      return undefined;
    });
    const { reclaim } = openOn(model);
    expect(await reclaim(['images'])).toEqual({ containers: 0, images: 1, problem: null });
    expect(model.did).toEqual(['image 2']);
  });

  it('keeps an image that is pulled under another name, or pinned, meanwhile', async () => {
    const model = aNode({ ...base(), images: [{ n: 0 }, { n: 1 }, { n: 2 }, { n: 3 }, { n: 4 }] });
    model.onCall((call) => {
      if (call !== 'RemoveImage 2') return undefined;
      for (const image of model.node.images) {
        if (image.n === 3) image.tags = ['reg/app:3', 'reg/new:1'];
        if (image.n === 4) image.isPinned = true;
      }
      return undefined;
    });
    const { reclaim } = openOn(model);
    expect(await reclaim(['images'])).toMatchObject({ images: 1 });
    expect(model.did).toEqual(['image 2']);
  });

  it('keeps an image that is mounted as a volume, and one that a container refers to by a short name', async () => {
    const model = aNode({
      images: [{ n: 0 }, { n: 1 }, { n: 2, tags: ['docker.io/library/busybox:latest', 'busybox'] }, { n: 3 }],
      containers: [
        { n: 101, image: imageId(3), podUid: uid(1), volumes: ['reg/app:1'] },
        { n: 102, image: 'busybox', podUid: uid(2), state: EXITED },
      ],
    });
    model.node.images[2] = { n: 2, tags: ['docker.io/library/busybox:latest'] };
    model.onCall((call) =>
      call === 'ImageStatus busybox' ? unknown('timed-out', 'CRI ImageStatus', 'slow') : undefined,
    );
    const { reclaim } = openOn(model);
    expect(await reclaim(['images'])).toEqual({ containers: 0, images: 0, problem: 'slow' });
    // The runtime says what the name means: it may be any image, and this one is used then.
    const resolved = aNode({ ...model.node, containers: [...model.node.containers] });
    resolved.node.images = [{ n: 0 }, { n: 1 }, { n: 2, tags: ['busybox'] }, { n: 3 }, { n: 4 }];
    expect(await openOn(resolved).reclaim(['images'])).toEqual({ containers: 0, images: 1, problem: null });
    expect(resolved.did).toEqual(['image 4']);
  });

  it.each(['ListImages', 'ListContainers', 'ContainerStatus 101', 'Status', 'ListPodSandbox', 'ImageStatus pause'])(
    'removes nothing while %s fails, and says so',
    async (failing) => {
      const model = aNode({ ...base(), images: [{ n: 0 }, { n: 1 }, { n: 2 }] });
      model.onCall((call) => (call === failing ? unknown('timed-out', 'CRI', 'no answer') : undefined));
      const { reclaim, findings } = openOn(model);
      expect(await reclaim(['images'])).toEqual({ containers: 0, images: 0, problem: 'no answer' });
      expect(model.did).toEqual([]);
      expect(findings()).toEqual(['not all dead containers and unused images could be removed: no answer']);
      model.onCall(() => undefined);
      expect(await reclaim(['images'])).toMatchObject({ images: 1, problem: null });
      expect(findings()).toEqual([]);
    },
  );

  it('ends with a finding once a removal hangs, instead of waiting for the next one to hang as well', async () => {
    const model = aNode({ ...base(), images: [{ n: 0 }, { n: 1 }, { n: 2 }, { n: 3 }] });
    const asked: string[] = [];
    model.onCall((call) => {
      if (!call.startsWith('RemoveImage')) return undefined;
      asked.push(call);
      return unknown('timed-out', 'CRI RemoveImage', 'no answer within 30 s');
    });
    const { reclaim, findings } = openOn(model);
    expect(await reclaim(['images'])).toEqual({ containers: 0, images: 0, problem: 'no answer within 30 s' });
    expect(asked).toHaveLength(1);
    expect(findings()).toEqual(['not all dead containers and unused images could be removed: no answer within 30 s']);
  });

  it('removes nothing while the sandbox image is unknown, whatever else is pinned', async () => {
    const model = aNode({ ...base(), images: [{ n: 0 }, { n: 1 }, { n: 2 }], sandboxImage: null });
    const { reclaim, findings } = openOn(model);
    expect(await reclaim(['images'])).toMatchObject({
      images: 0,
      problem: expect.stringContaining('which image the sandboxes use'),
    });
    expect(findings()).toHaveLength(1);
    model.node.images = [{ n: 0 }, { n: 1 }, { n: 2 }, { n: 3, isPinned: true }];
    expect(await reclaim(['images'])).toMatchObject({ images: 0 });
    model.node.sandboxImage = 'elsewhere/pause:9';
    expect(await reclaim(['images'])).toMatchObject({ images: 0 });
    model.node.sandboxImage = 'pause';
    expect(await reclaim(['images'])).toMatchObject({ images: 1, problem: null });
    expect(model.did).toEqual(['image 2']);
  });

  it('removes no image that was first seen less than imageMinimumGCAge ago, and says how many', async () => {
    const model = aNode({ ...base(), images: [{ n: 0 }, { n: 1 }, { n: 2 }] });
    const { reclaim, said, pass } = openOn(model, { minImageAgeMs: 120_000 });
    expect(await reclaim(['images'])).toEqual({ containers: 0, images: 0, problem: null });
    expect(said).toEqual(['1 unused image stays: known for less than 2m0s (imageMinimumGCAge)']);
    model.node.images.push({ n: 3 });
    pass(60_000);
    await reclaim(['images']);
    pass(60_000);
    expect(await reclaim(['images'])).toMatchObject({ images: 1 });
    expect(model.did).toEqual(['image 2']);
  });

  it('remembers after a reload of the configuration what it has seen before', async () => {
    const model = aNode({ ...base(), images: [{ n: 0 }, { n: 1 }, { n: 2 }] });
    const seen: SeenImages = { sightings: new Map() };
    await openOn(model, { minImageAgeMs: 120_000, seen }).reclaim(['images']);
    const again = openOn(model, { minImageAgeMs: 120_000, seen });
    again.pass(120_000);
    expect(await again.reclaim(['images'])).toMatchObject({ images: 1 });
  });

  it('waits after the start until the runtime is proven to be this one, and then removes what it has seen meanwhile', async () => {
    const model = aNode({ ...base(), images: [{ n: 0 }, { n: 1 }, { n: 2 }] });
    const clock = aClock();
    let isProven = false;
    const { reclaim } = openOn(model, { clock, isProven: () => isProven, minImageAgeMs: 1_000 });
    await clock.advance(500);
    const removed = reclaim(['images']);
    await clock.advance(1_500);
    expect(model.did).toEqual([]);
    isProven = true;
    await clock.advance(200);
    expect(await removed).toEqual({ containers: 0, images: 1, problem: null });
  });

  it('waits for that proof for at most 5 s from the start', async () => {
    const model = aNode({ ...base(), images: [{ n: 0 }, { n: 1 }, { n: 2 }] });
    const clock = aClock();
    const { reclaim } = openOn(model, { clock, isProven: () => false });
    const removed = reclaim(['images']);
    await clock.advance(5_200);
    expect(await removed).toEqual({ containers: 0, images: 0, problem: 'not proven' });
    const again = reclaim(['images']);
    await clock.advance(0);
    expect(await again).toMatchObject({ problem: 'not proven' });
  });

  it("counts the age of images from the runtime's first answer, however late that is after the start", async () => {
    const model = aNode({ ...base(), images: [{ n: 0 }, { n: 1 }, { n: 2 }] });
    const clock = aClock();
    let isUp = false;
    model.onCall(() => (isUp ? undefined : unknown('unreadable', 'CRI', 'nobody listens')));
    const { reclaim } = openOn(model, { clock, minImageAgeMs: 10_000 });
    await clock.advance(5_000);
    isUp = true;
    await clock.advance(13_000);
    const removed = reclaim(['images']);
    await clock.advance(0);
    expect(await removed).toMatchObject({ images: 1 });
  });

  it('continues after a failure, and stops when its time is over', async () => {
    const images = [0, 1, 2, 3, 4, 5].map((n) => ({ n }));
    const model = aNode({ ...base(), images });
    const { reclaim, pass } = openOn(model);
    model.onCall((call) => {
      if (call === 'RemoveImage 2') return unknown('unreadable', 'CRI RemoveImage', 'no such layer');
      if (call === 'RemoveImage 4') pass(60_000);
      return undefined;
    });
    expect(await reclaim(['images'])).toEqual({ containers: 0, images: 2, problem: 'no such layer' });
    expect(model.did).toEqual(['image 3', 'image 4']);
  });
});

describe('a reclaim of containers', () => {
  const dead = (n: number, createdAt: number, podUid = uid(1)): ModelContainer => ({
    n,
    image: imageId(1),
    podUid,
    createdAt,
    state: EXITED,
  });

  it('removes one only if its status says that it has exited', async () => {
    const model = aNode({ ...base(), containers: [dead(101, 1), dead(102, 2), dead(103, 3)] });
    model.onCall((call) => {
      // After the list that said "exited".
      for (const container of model.node.containers) {
        if (call === 'ListPodSandbox' && container.n === 102) container.state = ContainerState.CONTAINER_UNKNOWN;
      }
      return undefined;
    });
    expect(await openOn(model).reclaim(['containers'])).toEqual({ containers: 1, images: 0, problem: null });
    expect(model.did).toEqual(['container 101']);
  });

  it('treats a pod with a ready sandbox as alive, whoever says that it is gone', async () => {
    const model = aNode({ ...base(), containers: [dead(101, 1), dead(102, 2, uid(2))], readyPods: [uid(1)] });
    await openOn(model, { isGone: () => true }).reclaim(['containers']);
    expect(model.did).toEqual(['container 102']);
  });

  it('precedes that of images, which dead containers hold', async () => {
    const model = aNode({
      images: [{ n: 0 }, { n: 1 }, { n: 2 }],
      containers: [
        { n: 101, image: imageId(1), podUid: uid(1) },
        { ...dead(102, 1, uid(2)), image: imageId(2) },
      ],
    });
    const { reclaim } = openOn(model, { isGone: (of) => of === uid(2) });
    expect(await reclaim(['containers', 'images'])).toEqual({ containers: 1, images: 1, problem: null });
    expect(model.did).toEqual(['container 102', 'image 2']);
  });
});

describe('whatever happens meanwhile', () => {
  const moment = fc.record({
    at: fc.integer({ min: 0, max: 60 }),
    what: fc.constantFrom('start', 'start-volume', 'die', 'pull', 'fail'),
    n: fc.integer({ min: 1, max: 6 }),
  });

  it('no image is removed that a container used when containers were last listed, and no running container', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(moment, { maxLength: 12 }), fc.subarray([2, 3, 4, 5, 6]), async (moments, unused) => {
        const used = [2, 3, 4, 5, 6].filter((n) => !unused.includes(n));
        const model = aNode({
          images: [0, 1, 2, 3, 4, 5, 6].map((n) => ({ n })),
          containers: [1, ...used].map((n) => ({ n: 100 + n, image: imageId(n), podUid: uid(n % 3), createdAt: n })),
        });
        let calls = 0;
        let started = 0;
        let lastUsed = new Set<string>();
        const wrong: string[] = [];
        model.onCall((call) => {
          for (const { what, n } of moments.filter(({ at }) => at === calls)) {
            if (what === 'fail') {
              calls++;
              return unknown('unreadable', 'CRI', 'cut');
            }
            if (what === 'die') for (const of of model.node.containers) if (of.n % 6 === n % 6) of.state = EXITED;
            if (what === 'pull' && !model.node.images.some((image) => image.n === n)) model.node.images.push({ n });
            if (what === 'start') {
              model.node.containers.push({
                n: 1_000 + started++,
                image: imageId(n),
                podUid: uid(n % 3),
                createdAt: 99,
              });
            }
            if (what === 'start-volume') {
              const container = { image: imageId(1), podUid: uid(n % 3), volumes: [imageId(n)], createdAt: 99 };
              model.node.containers.push({ n: 2_000 + started++, ...container });
            }
          }
          calls++;
          if (call === 'ListContainers') {
            lastUsed = new Set(model.node.containers.flatMap(({ image, volumes = [] }) => [image, ...volumes]));
          }
          const [verb, target] = call.split(' ');
          const n = Number(target);
          if (verb === 'RemoveImage' && (lastUsed.has(imageId(n)) || n === 0)) wrong.push(call);
          const container = model.node.containers.find((of) => of.n === n);
          if (verb === 'RemoveContainer' && container?.state !== EXITED) wrong.push(call);
          return undefined;
        });
        await openOn(model, { isGone: (of) => of === uid(2) }).reclaim(['containers', 'images']);
        expect(wrong).toEqual([]);
      }),
    );
  });
});
