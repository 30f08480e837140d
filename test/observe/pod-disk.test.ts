import { afterEach, describe, expect, it } from 'vitest';
import { known, unknown } from '../../src/core/reading.ts';
import { quantityOfBytes } from '../../src/core/units/quantity.ts';
import type { CgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { createClock } from '../../src/host/clock.ts';
import { createPodDisk, type PodDisk } from '../../src/observe/pod-disk.ts';
import type { BoundPod, Clock } from '../../src/ports.ts';
import { hurried } from '../standalone/needs.ts';
import { aBoundPod, aDiskWalk, someFindings, until } from './a-bound-pod.ts';

const clock = hurried(createClock(), 100);
let opened: PodDisk | null = null;
/** Nobody here has a cgroup. */
const mounts: CgroupMounts = {
  layout: 'v1',
  version: 1,
  unified: null,
  memory: '/nonexistent',
  pids: null,
  systemd: null,
};
afterEach(() => opened?.close());

function open(pods: readonly BoundPod[], wake: () => void = () => undefined): PodDisk {
  opened = createPodDisk({ clock, mounts, findings: someFindings(), pods: () => known(pods), wake });
  return opened;
}
function counted(
  name: string,
  overrides: Partial<Parameters<typeof aBoundPod>[0]> = {},
): { pod: BoundPod; walks: () => number } {
  let walks = 0;
  const disk: BoundPod['disk'] = () => {
    walks += 1;
    return Promise.resolve(known(aDiskWalk(walks)));
  };
  return { pod: aBoundPod({ name, disk, ...overrides }), walks: () => walks };
}
const limit = { ephemeralStorageLimit: quantityOfBytes(1_000, 'decimal') };

describe("walks of the pods' directories", () => {
  it('are made only for pods with a limit', async () => {
    const limited = counted('limited', limit);
    const free = counted('free');
    const disk = open([free.pod, limited.pod]);
    disk.follow({ afterMs: 10_000, pods: null });
    await until(() => limited.walks() >= 2, 'two walks');
    expect(free.walks()).toBe(0);
    expect(disk.latest('uid-limited')).toMatchObject({ known: true });
    expect(disk.latest('uid-free')).toMatchObject({ known: false, why: 'not-asked' });
  });

  it.each(['nodefs.available', 'containerfs.inodesFree', 'all'] as const)(
    'are made at once for all pods if %s requests them',
    async (signal) => {
      const free = counted('free');
      const disk = open([free.pod]);
      disk.follow({ afterMs: 0, pods: signal });
      await until(() => disk.latest('uid-free').known, 'a walk');
      expect(free.walks()).toBe(1);
    },
  );

  it('give lower bounds while they run, and never less than before', async () => {
    const news: ((bytes: number) => void)[] = [];
    let isDone = false;
    const disk = open([
      aBoundPod({
        name: 'slow',
        disk: (soFar) => {
          news.push((bytes) => soFar(aDiskWalk(bytes)));
          return isDone ? new Promise(() => undefined) : Promise.resolve(known(aDiskWalk(500)));
        },
      }),
    ]);
    disk.follow({ afterMs: 0, pods: 'nodefs.available' });
    await until(() => disk.latest('uid-slow').known, 'a first walk');
    isDone = true;
    await until(() => news.length >= 2, 'a second walk');
    news[1]?.(200);
    expect(disk.latest('uid-slow')).toMatchObject(known(aDiskWalk(500)));
    news[1]?.(900);
    expect(disk.latest('uid-slow')).toMatchObject(known(aDiskWalk(900)));
  });

  it.each(['memory.available', 'pid.available'] as const)('are not made for %s', async (signal) => {
    const free = counted('free');
    const limited = counted('limited', limit);
    const disk = open([free.pod, limited.pod]);
    disk.follow({ afterMs: 0, pods: signal });
    await until(() => limited.walks() >= 2, 'two rounds');
    expect(free.walks()).toBe(0);
    expect(disk.notReady(signal)).toBeNull();
  });

  it('are reported once, for the look that enforces local storage limits', async () => {
    let wakes = 0;
    const disk = open([counted('limited', limit).pod], () => {
      wakes += 1;
    });
    expect(disk.takeNews()).toBe(false);
    await until(() => wakes > 0, 'a wake-up');
    expect(disk.takeNews()).toBe(true);
    expect(disk.takeNews()).toBe(false);
  });

  it('are awaited by a disk signal for 3 s, so that no pod is chosen by a guess', async () => {
    let finish: () => void = () => undefined;
    const slow = aBoundPod({
      name: 'slow',
      disk: () =>
        new Promise((resolve) => {
          finish = () => resolve(known(aDiskWalk(7)));
        }),
    });
    const disk = open([slow]);
    expect(disk.notReady('nodefs.available')).toBeNull();
    disk.follow({ afterMs: 0, pods: 'nodefs.available' });
    expect(disk.notReady('nodefs.available')).toMatchObject({ known: false, why: 'timed-out' });
    expect(disk.notReady('memory.available')).toBeNull();
    expect(disk.notReady('all')).toBeNull();
    await until(() => disk.notReady('nodefs.available') === null, 'the end of the wait');
    expect(disk.latest('uid-slow').known).toBe(false);
    finish();
    await until(() => disk.latest('uid-slow').known, 'the walk');
  });

  it('that are overdue are not requested again and again: a victim is chosen from what is known', async () => {
    const endless = aBoundPod({ name: 'endless', disk: () => new Promise(() => undefined) });
    const disk = open([endless, counted('behind').pod]);
    disk.follow({ afterMs: 0, pods: 'nodefs.available' });
    expect(disk.latest('uid-behind')).toMatchObject({ known: false, why: 'not-asked' });
    await until(() => disk.notReady('nodefs.available') === null, 'the end of the wait');
    expect(disk.latest('uid-behind')).toMatchObject({ known: false, why: 'timed-out' });
  });

  it('that fail do not discard earlier results', async () => {
    let walks = 0;
    const failing: BoundPod['disk'] = async () => {
      walks += 1;
      if (walks === 1) return known(aDiskWalk(7));
      if (walks === 2) return unknown('unreadable', 'disk walk', 'no process can be started');
      throw new Error('a defect of ours');
    };
    const disk = open([aBoundPod({ name: 'a', disk: failing, ...limit })]);
    disk.follow({ afterMs: 10_000, pods: null, isDiskNear: true });
    await until(() => walks >= 3, 'three walks');
    expect(disk.latest('uid-a')).toMatchObject({ known: true });
  });

  it('from an earlier pressure are not used in the next: the pod that fills the disk now may have been small', async () => {
    const free = counted('free');
    const disk = open([free.pod]);
    disk.follow({ afterMs: 0, pods: 'nodefs.available' });
    await until(() => disk.notReady('nodefs.available') === null, 'a round');
    disk.follow({ afterMs: 0, pods: null });
    disk.follow({ afterMs: 0, pods: 'nodefs.available' });
    expect(disk.notReady('nodefs.available')).toMatchObject({ known: false });
    await until(() => disk.notReady('nodefs.available') === null, 'another round');
    expect(disk.latest('uid-free')).toMatchObject(known(aDiskWalk(2)));
  });

  it('of all pods follow at once if a round of the limited pods was in progress', async () => {
    let finish: () => void = () => undefined;
    let isFirst = true;
    const limited = aBoundPod({
      name: 'limited',
      ...limit,
      disk: () => {
        if (!isFirst) return Promise.resolve(known(aDiskWalk(2)));
        isFirst = false;
        return new Promise((resolve) => {
          finish = () => resolve(known(aDiskWalk(1)));
        });
      },
    });
    const free = counted('free');
    let rounds = 0;
    // The period of rounds ends once: what comes after it was not waited for.
    const once: Clock = {
      ...clock,
      after: (ms, run) => (ms === 10_000 && ++rounds > 1 ? () => undefined : clock.after(ms, run)),
    };
    const disk = createPodDisk({
      clock: once,
      mounts,
      findings: someFindings(),
      pods: () => known([limited, free.pod]),
      wake: () => undefined,
    });
    opened = disk;
    await until(() => !isFirst, 'the first round');
    disk.follow({ afterMs: 0, pods: 'nodefs.available' });
    finish();
    await until(() => free.walks() > 0, 'a full round');
  });

  it('that hang affect only that pod; after two of them no more start until they return', async () => {
    const finish: (() => void)[] = [];
    const hanging = (name: string): BoundPod =>
      aBoundPod({
        name,
        disk: () =>
          new Promise((resolve) => {
            finish.push(() => resolve(known(aDiskWalk(1))));
          }),
      });
    const well = counted('well');
    const disk = open([hanging('one'), hanging('two'), hanging('three'), well.pod]);
    // As the loop does, look after look.
    const ask = (): void => disk.follow({ afterMs: 0, pods: 'nodefs.available' });
    ask();
    const hangs = (uid: string): boolean => {
      const reading = disk.latest(uid);
      return !reading.known && reading.detail.includes('hangs');
    };
    await until(() => hangs('uid-three') && hangs('uid-well'), 'everybody timed out');
    expect(finish.length).toBe(2);
    for (const end of finish) end();
    await until(() => {
      ask();
      for (const end of finish) end();
      return disk.latest('uid-well').known && finish.length > 2;
    }, 'walks again');
  });

  it('have the time of each', async () => {
    const beforeMs = clock.monoMs();
    const disk = open([counted('limited', limit).pod]);
    await until(() => disk.latest('uid-limited').known, 'a walk');
    const reading = disk.latest('uid-limited');
    const atMs = reading.known ? reading.value.pod.sampledAtMs : undefined;
    expect(atMs !== undefined && atMs > beforeMs && atMs <= clock.monoMs()).toBe(true);
  });

  it('are made for all pods while a disk threshold is near, and then stop', async () => {
    const free = counted('free');
    const disk = open([free.pod]);
    disk.follow({ afterMs: 10_000, pods: null, isDiskNear: true });
    await until(() => free.walks() >= 3, 'three walks');
    expect(disk.notReady('nodefs.available')).toBeNull();
    disk.follow({ afterMs: 10_000, pods: null });
    const walks = free.walks();
    await new Promise((resolve) => setTimeout(resolve, 250));
    expect(free.walks()).toBeLessThanOrEqual(walks + 1);
  });

  it('of pods that are gone are forgotten', async () => {
    const pods = [counted('gone', limit).pod, counted('stays', limit).pod];
    const disk = open(pods);
    await until(() => disk.latest('uid-gone').known && disk.latest('uid-stays').known, 'both walks');
    pods.shift();
    const why = (): string => {
      const reading = disk.latest('uid-gone');
      return reading.known ? 'known' : reading.why;
    };
    await until(() => why() !== 'known', 'one of them forgotten');
    expect(why()).toBe('not-asked');
    expect(disk.latest('uid-stays').known).toBe(true);
  });

  it('end when the parts are closed', async () => {
    const limited = counted('limited', limit);
    const disk = open([limited.pod]);
    await until(() => limited.walks() > 0, 'a walk');
    disk.close();
    const walks = limited.walks();
    await new Promise((resolve) => setTimeout(resolve, 250));
    expect(limited.walks()).toBeLessThanOrEqual(walks);
  });
});
