import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { DiskPaths } from '../../src/core/disk-paths.ts';
import { known, unknown } from '../../src/core/reading.ts';
import type { Signal } from '../../src/core/signal.ts';
import { createClock, sleep } from '../../src/host/clock.ts';
import { createDiskSampler, type DiskSampler, type LateDiskPaths } from '../../src/observe/disk-sampler.ts';
import { mountHungFileSystem, noHungMount } from '../host/hung-mount.ts';
import { someFindings, until } from './a-bound-pod.ts';

const isRoot = process.getuid?.() === 0;
const clock = createClock();
let root: string;
let wakes: number;
let sampler: DiskSampler | null;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nodewarden-sample-'));
  wakes = 0;
  sampler = null;
});
afterEach(() => {
  sampler?.close();
  rmSync(root, { recursive: true, force: true });
});

const noOthers = { imagefsPath: null, containerfsPath: null };
function open(paths: Partial<DiskPaths> & LateDiskPaths, look: () => void = () => undefined, on = clock): DiskSampler {
  const wake = (): void => {
    wakes += 1;
    look();
  };
  sampler = createDiskSampler({ clock: on, findings: someFindings(), wake, nodefsPath: root, ...noOthers, ...paths });
  return sampler;
}
const isKnown =
  (of: DiskSampler, signal: Signal): (() => boolean) =>
  () =>
    of.latest(signal).known;

/** Two file systems of 1 and 2 MiB beside the one of `root`. */
async function withMounts(run: (one: string, two: string) => Promise<void>): Promise<void> {
  const mounts = [join(root, 'one'), join(root, 'two')] as const;
  const mounted: string[] = [];
  try {
    for (const [i, mount] of mounts.entries()) {
      mkdirSync(mount);
      execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${i + 1}m`, 'nodewarden-test', mount]);
      mounted.push(mount);
    }
    await run(...mounts);
  } finally {
    sampler?.close();
    for (const mount of mounted) execFileSync('umount', ['-l', mount]);
  }
}
const MIB = 2 ** 20;
const sized = (capacity: number) =>
  expect.objectContaining({ known: true, value: expect.objectContaining({ capacity }) });
const notApplicable = expect.objectContaining({ known: false, why: 'not-applicable' });

describe('disk signals', () => {
  it('are unknown until the first sample, which wakes the loop', async () => {
    const disk = open({});
    expect(disk.latest('nodefs.available')).toMatchObject({ known: false, why: 'absent' });
    await until(isKnown(disk, 'nodefs.available'), 'a first sample');
    expect(wakes).toBe(1);
    const { blocks, bsize, files } = statfsSync(root);
    expect(disk.latest('nodefs.available')).toMatchObject({ value: { capacity: blocks * bsize } });
    expect(disk.latest('nodefs.inodesFree')).toMatchObject({ value: { capacity: files } });
  });

  it.skipIf(!isRoot)(
    'are unknown while the file system is not the one from the start, and say what to do [needs root]',
    async () => {
      await withMounts(async (one) => {
        const disk = open({ nodefsPath: one });
        disk.follow(50);
        await until(isKnown(disk, 'nodefs.available'), 'a first sample');
        const device = disk.device('nodefs.available');
        execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=3m', 'nodewarden-test', one]);
        try {
          // For a moment after the mount the kernel shows neither.
          const isTold = (signal: 'nodefs.available' | 'nodefs.inodesFree'): boolean => {
            const latest = disk.latest(signal);
            return !latest.known && !latest.where.startsWith('statfs');
          };
          await until(() => isTold('nodefs.available') && isTold('nodefs.inodesFree'), 'another file system is seen');
          const detail = expect.stringContaining('mount it again');
          expect(disk.latest('nodefs.inodesFree')).toMatchObject({ known: false, where: one, detail });
        } finally {
          execFileSync('umount', ['-l', one]);
        }
        await until(isKnown(disk, 'nodefs.available'), 'the one of the start');
        expect(disk.device('nodefs.available')).toEqual(device);
      });
    },
  );

  it('leave out imagefs without an imagefs path, and containerfs is nodefs', async () => {
    const disk = open({});
    expect(disk.layout()).toEqual({ known: true, value: 'nodefs-only' });
    expect(disk.latest('imagefs.available')).toEqual(notApplicable);
    await until(isKnown(disk, 'nodefs.available'), 'a first sample');
    expect(disk.latest('containerfs.available')).toEqual(disk.latest('nodefs.available'));
  });

  it('leave out imagefs if its path is on the file system of nodefs', async () => {
    const images = join(root, 'images');
    mkdirSync(images);
    const disk = open({ imagefsPath: images });
    await until(() => disk.layout().known, 'a layout');
    expect(disk.layout()).toEqual({ known: true, value: 'nodefs-only' });
    expect(disk.latest('imagefs.available')).toEqual(notApplicable);
    expect(disk.latest('containerfs.inodesFree')).toEqual(disk.latest('nodefs.inodesFree'));
  });

  it.skipIf(!isRoot)('have containerfs as imagefs if images are elsewhere [needs root]', async () => {
    await withMounts(async (one, two) => {
      const disk = open({ nodefsPath: one, imagefsPath: two });
      expect(disk.layout()).toMatchObject({ known: false });
      await until(() => disk.layout().known, 'a layout');
      expect(disk.layout()).toEqual({ known: true, value: 'imagefs-separate' });
      expect(disk.latest('nodefs.available')).toEqual(sized(MIB));
      expect(disk.latest('imagefs.available')).toEqual(sized(2 * MIB));
      expect(disk.latest('containerfs.available')).toEqual(disk.latest('imagefs.available'));
    });
  });

  it.skipIf(!isRoot)('have containerfs as nodefs if only the images are elsewhere [needs root]', async () => {
    await withMounts(async (one, two) => {
      const disk = open({ nodefsPath: one, imagefsPath: two, containerfsPath: join(one, '.') });
      await until(() => disk.layout().known, 'a layout');
      expect(disk.layout()).toEqual({ known: true, value: 'containerfs-separate' });
      expect(disk.latest('containerfs.available')).toEqual(sized(MIB));
    });
  });

  it.skipIf(!isRoot)(
    'of imagefs are unknown until the runtime has given its path, once and for all [needs root]',
    async () => {
      await withMounts(async (one, two) => {
        let late: ReturnType<NonNullable<LateDiskPaths['latePaths']>> = unknown('absent', 'CRI', 'no answer yet');
        const disk = open({ latePaths: () => late });
        await until(isKnown(disk, 'nodefs.available'), 'a first sample');
        disk.follow(50);
        for (const signal of ['imagefs.available', 'containerfs.available'] as const)
          expect(disk.latest(signal)).toMatchObject({ why: 'absent', detail: 'no answer yet' });
        expect(disk.layout()).toMatchObject({ known: false, detail: 'no answer yet' });

        late = unknown('malformed', 'CRI', 'it names no path');
        disk.follow(50);
        expect(disk.latest('imagefs.available')).toMatchObject({ detail: 'it names no path' });
        expect(disk.layout()).toMatchObject({ known: false, detail: 'it names no path' });

        late = known({ imagefsPath: one, containerfsPath: null });
        disk.follow(50);
        await until(isKnown(disk, 'imagefs.available'), 'a sample of imagefs');
        expect(disk.layout()).toEqual(known('imagefs-separate'));
        expect(disk.latest('imagefs.available')).toEqual(sized(MIB));
        expect(disk.latest('containerfs.available')).toEqual(sized(MIB));

        late = known({ imagefsPath: two, containerfsPath: null });
        disk.follow(50);
        await disk.refresh('imagefs.available');
        expect(disk.latest('imagefs.available')).toEqual(sized(MIB));
      });
    },
  );

  it.skipIf(!isRoot)('use the configured path, whatever is reported later [needs root]', async () => {
    await withMounts(async (one, two) => {
      const latePaths = () => known({ imagefsPath: two, containerfsPath: null });
      const disk = open({ imagefsPath: one, latePaths });
      disk.follow(50);
      await until(isKnown(disk, 'imagefs.available'), 'a sample of imagefs');
      expect(disk.latest('imagefs.available')).toEqual(sized(MIB));
    });
  });

  it('leave out imagefs if the runtime has none of its own', async () => {
    const disk = open({ latePaths: () => known({ imagefsPath: null, containerfsPath: null }) });
    await until(isKnown(disk, 'nodefs.available'), 'a first sample');
    expect(disk.latest('imagefs.available')).toEqual(notApplicable);
    expect(disk.layout()).toEqual(known('nodefs-only'));
  });

  it('are sampled as often as the loop looks, and request no look that is due anyway', async () => {
    const disk = open({});
    await until(isKnown(disk, 'nodefs.available'), 'a first sample');
    disk.follow(2);
    const first = disk.latest('nodefs.available');
    const isNewer = (than: typeof first): boolean => {
      const now = disk.latest('nodefs.available');
      return now.known && than.known && now.value.sampledAtMs > than.value.sampledAtMs;
    };
    // The next sample would have come after 10 s.
    const startMs = clock.monoMs();
    await until(() => isNewer(first), 'a second sample');
    const second = disk.latest('nodefs.available');
    await until(() => isNewer(second), 'a third sample');
    expect(clock.monoMs() - startMs).toBeLessThan(5_000);
    const third = disk.latest('nodefs.available');
    if (second.known && third.known) {
      expect(third.value.sampledAtMs - second.value.sampledAtMs).toBeGreaterThan(45);
    }
    expect(wakes).toBe(1);
  });

  it.skipIf(!isRoot)(
    'read again show what was written just before, which becomes the latest [needs root]',
    async () => {
      await withMounts(async (one) => {
        const disk = open({ nodefsPath: one });
        await until(isKnown(disk, 'nodefs.available'), 'a first sample');
        writeFileSync(join(one, 'file'), Buffer.alloc(MIB / 2));
        expect(disk.latest('nodefs.available')).toMatchObject({ value: { available: MIB } });
        const again = await disk.refresh('nodefs.available');
        expect(again).toMatchObject({ known: true, value: { available: MIB / 2 } });
        expect(disk.latest('nodefs.available')).toEqual(again);
        expect(await disk.refresh('imagefs.available')).toEqual(notApplicable);
      });
    },
  );

  it.skipIf(!isRoot)(
    'that fall fast request a look, because its pace was computed from more [needs root]',
    async () => {
      await withMounts(async (one) => {
        const disk = open({ nodefsPath: one });
        disk.follow(100);
        await until(isKnown(disk, 'nodefs.available'), 'a first sample');
        expect(wakes).toBe(1);
        writeFileSync(join(one, 'file'), Buffer.alloc(MIB / 2));
        await until(() => wakes > 1, 'a look');
      });
    },
  );

  it('are sampled with the looks if those are far apart, and on their own if none comes', async () => {
    let nowMs = 1_000;
    let timer = { afterMs: 0, run: (): void => undefined };
    const after = (afterMs: number, run: () => void): (() => void) => {
      timer = { afterMs, run };
      return () => undefined;
    };
    const disk = open({}, undefined, { ...clock, monoMs: () => nowMs, after });
    const sampledMs = (): number | null => {
      const sample = disk.latest('nodefs.available');
      return sample.known ? sample.value.sampledAtMs : null;
    };
    const lookAt = (ms: number): void => {
      nowMs = ms;
      disk.follow(3_000);
    };
    await until(() => sampledMs() === 1_000, 'a first sample');
    lookAt(1_500);
    lookAt(4_500);
    await until(() => sampledMs() === 4_500, 'one with the second look');
    lookAt(5_000);
    lookAt(7_500);
    await until(() => sampledMs() === 7_500 && timer.afterMs === 4_500, 'one with the fourth look');
    nowMs += timer.afterMs;
    timer.run();
    await until(() => sampledMs() === 12_000, 'one without a look');
  });

  it('read again show nothing older than the request, even if a sample is in progress', async () => {
    const disk = open({});
    const askedMs = clock.monoMs();
    const again = await disk.refresh('nodefs.available');
    expect(again.known && again.value.sampledAtMs).toBeGreaterThanOrEqual(askedMs);
  });

  it.skipIf(noHungMount !== null)(
    `of a mount that hangs time out, and those of the others stay fresh [${noHungMount ?? 'root, /dev/fuse'}]`,
    async () => {
      const images = join(root, 'images');
      mkdirSync(images);
      const mount = await mountHungFileSystem(images);
      try {
        const disk = open({ imagefsPath: images });
        disk.follow(50);
        await until(() => {
          const reading = disk.latest('imagefs.available');
          return !reading.known && reading.why === 'timed-out';
        }, 'a timed-out imagefs');
        const nodefs = disk.latest('nodefs.available');
        expect(nodefs).toMatchObject({ known: true });
        if (nodefs.known) expect(clock.monoMs() - nodefs.value.sampledAtMs).toBeLessThan(1_500);
        expect(disk.layout()).toMatchObject({ known: false, why: 'timed-out' });
      } finally {
        await mount.release();
      }
    },
  );

  it('become stale if no more samples arrive', async () => {
    const disk = open({});
    disk.follow(50);
    await until(isKnown(disk, 'nodefs.available'), 'a first sample');
    disk.close();
    // Three cadences and two seconds.
    await until(() => !disk.latest('nodefs.available').known, 'a stale sample');
    expect(disk.latest('nodefs.available')).toMatchObject({ known: false, why: 'stale' });
  });

  it('do not become stale because the look that they woke slowed the pace', async () => {
    const disk = open({}, () => disk.follow(10_000));
    disk.follow(50);
    await until(isKnown(disk, 'nodefs.available'), 'a first sample');
    await sleep(clock, 2_600);
    expect(disk.latest('nodefs.available')).toMatchObject({ known: true });
  });
});
