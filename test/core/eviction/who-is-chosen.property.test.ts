import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decide } from '../../../src/core/decide.ts';
import { attribute, growthBetween } from '../../../src/core/eviction/attribution.ts';
import { rank } from '../../../src/core/eviction/rank.ts';
import type { DiskRelief, PodView, Relief } from '../../../src/core/pod/pod.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import { initialState } from '../../../src/core/state/state.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../../a.ts';

const RUNS = { numRuns: 2_000 };
const LACKING = 10;
const none: Relief = { bytes: known(0), inodes: known(0) };

/** What a pod in truth has on the disk and would free there, and how much of both a walk has seen. */
type World = { readonly truth: PodView; readonly seen: PodView; readonly frees: number };
const few = fc.integer({ min: 0, max: 20 });
const podAt = (i: number): fc.Arbitrary<World> =>
  fc
    .record({
      priority: fc.integer({ min: 0, max: 1 }),
      request: few,
      used: few,
      unseen: few,
      frees: few,
      isCut: fc.boolean(),
    })
    .map(({ priority, request, used, unseen, frees, isCut }) => {
      const pod = (usedMi: number, freesMi: number, more: Partial<DiskRelief> = {}): PodView => {
        const relief: DiskRelief = {
          scratch: none,
          deletedOpen: none,
          grownLastMinute: { bytes: known(freesMi * MI), inodes: known(0) },
          writtenBytes: known(0),
          ...more,
        };
        const requests = { memoryBytes: 0, ephemeralStorageBytes: request * MI };
        const view = aPod({ name: `p${i}`, uid: `u${i}`, priority, requests, diskBytes: usedMi * MI });
        return { ...view, diskRelief: known(relief) };
      };
      const part = pod(Math.max(0, used - unseen), Math.max(0, frees - unseen), { isAtLeast: true });
      const disk = part.usage.disk;
      const seen =
        isCut && disk.known
          ? { ...part, usage: { ...part.usage, disk: known({ ...disk.value, isAtLeast: true as const }) } }
          : pod(used, frees);
      return { truth: pod(used, frees), seen, frees };
    });
const worlds = fc
  .integer({ min: 1, max: 5 })
  .chain((count) => fc.tuple(...Array.from({ length: count }, (_, i) => podAt(i))));

function chosen(pods: readonly PodView[]): string | null {
  const short = { 'nodefs.available': { available: (100 - LACKING) * MI, capacity: 10 * GI } };
  const config = aConfig([aThreshold('nodefs.available', 100 * MI)], { isLive: true });
  const observation = anObservation(0, short, { pods: known(pods), podsFor: 'nodefs.available' });
  const { decisions } = decide(initialState('boot'), observation, config);
  return decisions.flatMap((decision) => (decision.kind === 'evict' ? [decision.victim.uid] : []))[0] ?? null;
}

describe('in any world, for a disk', () => {
  it('no pod is stopped whose end frees nothing (D14)', () => {
    fc.assert(
      fc.property(worlds, (world) => {
        const uid = chosen(world.map(({ seen }) => seen));
        if (uid !== null) expect(world.find(({ truth }) => truth.uid === uid)?.frees).toBeGreaterThan(0);
      }),
      RUNS,
    );
  });

  it('a lower bound never ranks a pod below another: the one chosen before a larger one has the better evidence against it (D13)', () => {
    fc.assert(
      fc.property(worlds, (world) => {
        const victim = world.find(({ seen }) => seen.uid === chosen(world.map((pod) => pod.seen)));
        if (victim === undefined) return;
        const order = rank(
          'nodefs.available',
          world.map(({ truth }) => truth),
          'nodefs-only',
        ).map(({ pod }) => pod.uid);
        for (const other of order.slice(0, order.indexOf(victim.truth.uid))) {
          const frees = world.find(({ truth }) => truth.uid === other)?.frees ?? 0;
          if (world.some(({ seen }) => seen.uid === other && isCut(seen)))
            expect(victim.frees).toBeGreaterThanOrEqual(LACKING);
          else expect(frees).toBe(0);
        }
      }),
      RUNS,
    );
  });

  it('if all is measured, the first pod whose end helps is stopped', () => {
    fc.assert(
      fc.property(worlds, (world) => {
        const truth = world.map((pod) => pod.truth);
        const helps = world.filter(({ frees }) => frees > 0).map((pod) => pod.truth.uid);
        const order = rank('nodefs.available', truth, 'nodefs-only').map(({ pod }) => pod.uid);
        expect(chosen(truth)).toBe(order.find((uid) => helps.includes(uid)) ?? null);
      }),
      RUNS,
    );
  });
});

const isCut = ({ usage: { disk } }: PodView): boolean => disk.known && disk.value.isAtLeast === true;

describe('in any world, for memory', () => {
  const hidden = unknown('unreadable', 'memory.current', 'for this test');
  const podWith = (i: number) =>
    fc
      .record({
        ...{ priority: fc.integer({ min: 0, max: 1 }), request: few, used: few, isUnread: fc.boolean() },
        ...{ isProtected: fc.boolean(), isDaemonSet: fc.boolean() },
      })
      .map(({ request, used, isUnread, ...declared }) => {
        const requests = { memoryBytes: request * MI, ephemeralStorageBytes: 0 };
        const truth = aPod({ name: `p${i}`, uid: `u${i}`, requests, workingSetBytes: used * MI, ...declared });
        const seen = isUnread ? { ...truth, usage: { ...truth.usage, workingSetBytes: hidden } } : truth;
        return { truth, seen, isOver: !isUnread && used > request };
      });
  const five = fc
    .integer({ min: 1, max: 5 })
    .chain((count) => fc.tuple(...Array.from({ length: count }, (_, i) => podWith(i))));
  const short = { 'memory.available': { available: (100 - LACKING) * MI, capacity: 10 * GI } };
  const config = aConfig([aThreshold('memory.available', 100 * MI)], { isLive: true });
  const victimOf = (pods: readonly PodView[]): string | null => {
    const observation = anObservation(0, short, { pods: known(pods), podsFor: 'memory.available' });
    const { decisions } = decide(initialState('boot'), observation, config);
    return decisions.flatMap((decision) => (decision.kind === 'evict' ? [decision.victim.uid] : []))[0] ?? null;
  };

  it('who is chosen beside pods that could not be measured is known to exceed its request, or would be chosen if they were (D13)', () => {
    fc.assert(
      fc.property(five, (world) => {
        const uid = victimOf(world.map(({ seen }) => seen));
        if (uid === null || world.some(({ truth, isOver }) => truth.uid === uid && isOver)) return;
        expect(uid).toBe(victimOf(world.map(({ truth }) => truth)));
      }),
      RUNS,
    );
  });

  it('who is chosen while a manifest is not read exceeds its request, is not protected, and would be chosen if it were (D7, D13)', () => {
    fc.assert(
      fc.property(five, (world) => {
        const pods = world.map(({ truth }) => truth);
        const uid = victimOf(pods.map((pod) => ({ ...pod, limitedBy: 'manifest-unread' })));
        if (uid === null) return;
        const victim = pods.find((pod) => pod.uid === uid);
        expect(victim?.isProtected).toBe(false);
        expect(uid).toBe(victimOf(pods));
      }),
      RUNS,
    );
  });

  it('who is chosen while undeclared pods that exceed their requests hold what is lacking exceeds its own (C9)', () => {
    const unsaid = { why: 'undeclared', priority: true, requests: true } as const;
    const hidden = { unsaid, isProtected: false, isDaemonSet: false };
    fc.assert(
      fc.property(five, fc.array(fc.boolean(), { minLength: 5, maxLength: 5 }), (world, isDeclared) => {
        const pods = world.map(({ truth }, i) => (isDeclared[i] ? truth : { ...truth, ...hidden }));
        const isOver = ({ usage, requests }: PodView): boolean =>
          usage.workingSetBytes.known && usage.workingSetBytes.value > requests.memoryBytes;
        const culprits = pods.filter((pod, i) => isDeclared[i] !== true && isOver(pod));
        const held = culprits.reduce(
          (sum, { usage: { workingSetBytes: set } }) => sum + (set.known ? set.value : 0),
          0,
        );
        const victim = pods.find(({ uid }) => uid === victimOf(pods));
        if (victim !== undefined && held >= LACKING * MI) expect(isOver(victim)).toBe(true);
      }),
      RUNS,
    );
  });

  it('nobody outside pods is named if the pods grew as much or more (D13)', () => {
    const amounts = fc.array(fc.integer({ min: 0, max: 64 }), { maxLength: 6 });
    fc.assert(
      fc.property(amounts, few, (grown, more) => {
        const others = (at: number) => grown.map((mi, i) => ({ where: `s${i}`, bytes: GI + at * mi * MI }));
        const outside = grown.reduce((sum, mi) => sum + mi, 0);
        const growth = growthBetween(
          { atMs: 0, podsBytes: GI, others: others(0) },
          { atMs: 100, podsBytes: GI + (outside + more) * MI, others: others(1) },
        );
        expect(attribute(known(growth))).toMatchObject({ value: { culprit: null } });
      }),
      RUNS,
    );
  });
});
