import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createClock } from '../../src/host/clock.ts';
import { openFileSystem } from '../../src/host/disk/statfs.ts';
import { mountHungFileSystem, noHungMount } from './hung-mount.ts';

const isRoot = process.getuid?.() === 0;
const clock = createClock();
let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'nodewarden-statfs-'));
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

describe('a file system', () => {
  it('is what an ordinary user may still write, its inodes and its device', async () => {
    const counts = statfsSync(directory);
    const reading = await openFileSystem(directory, clock).sample();
    expect(reading).toMatchObject({
      known: true,
      value: {
        bytesCapacity: counts.blocks * counts.bsize,
        inodes: counts.files,
        device: statSync(directory).dev,
      },
    });
    if (!reading.known) return;
    expect(reading.value.sampledAtMs).toBeLessThanOrEqual(clock.monoMs());
  });

  it('is unknown with the reason for a path that does not exist', async () => {
    const path = join(directory, 'missing');
    expect(await openFileSystem(path, clock).sample()).toMatchObject({
      known: false,
      why: 'absent',
      where: `statfs ${path}`,
    });
  });

  it('shares one call between simultaneous requests', async () => {
    const fileSystem = openFileSystem(directory, clock);
    const first = fileSystem.sample();
    expect(fileSystem.sample()).toBe(first);
    await first;
    expect(fileSystem.sample()).not.toBe(first);
  });

  it.skipIf(!isRoot)('sees a tmpfs fill up, in bytes and in inodes [needs root]', async () => {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m,nr_inodes=100', 'nodewarden-test', directory]);
    try {
      const fileSystem = openFileSystem(directory, clock);
      const before = await fileSystem.sample();
      expect(before).toMatchObject({
        known: true,
        value: { bytesAvailable: 1_048_576, bytesCapacity: 1_048_576, inodes: 100, inodesFree: 99 },
      });
      writeFileSync(join(directory, 'file'), Buffer.alloc(300 * 1_024));
      expect(await fileSystem.sample()).toMatchObject({
        known: true,
        value: { bytesAvailable: 724 * 1_024, bytesCapacity: 1_048_576, inodes: 100, inodesFree: 98 },
      });
    } finally {
      execFileSync('umount', [directory]);
    }
  });

  it.skipIf(!isRoot)('has 0 of 0 inodes if the file system does not count them [needs root]', async () => {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m,nr_inodes=0', 'nodewarden-test', directory]);
    try {
      const reading = await openFileSystem(directory, clock).sample();
      expect(reading).toMatchObject({ known: true, value: { inodes: 0, inodesFree: 0 } });
    } finally {
      execFileSync('umount', [directory]);
    }
  });

  it.skipIf(noHungMount !== null)(
    `times out after 2 s if its mount hangs, is not queried again, and recovers [${noHungMount ?? 'root, /dev/fuse'}]`,
    async () => {
      const mount = await mountHungFileSystem(directory);
      const fileSystem = openFileSystem(directory, clock);
      let released = false;
      try {
        const startMs = clock.monoMs();
        expect(await fileSystem.sample()).toMatchObject({ known: false, why: 'timed-out' });
        expect(clock.monoMs() - startMs).toBeGreaterThan(1_900);
        const againMs = clock.monoMs();
        // Each further call would hold one more of four threads: a hundred of them would never come back.
        for (let i = 0; i < 100; i++) expect(await fileSystem.sample()).toMatchObject({ why: 'timed-out' });
        expect(clock.monoMs() - againMs).toBeLessThan(20_000);
        expect(await openFileSystem(tmpdir(), clock).sample()).toMatchObject({ known: true });
        await mount.release();
        released = true;
        let reading = await fileSystem.sample();
        while (!reading.known) {
          await new Promise((resolve) => setTimeout(resolve, 10));
          reading = await fileSystem.sample();
        }
        expect(reading.value.device).toBe(statSync(directory).dev);
      } finally {
        if (!released) await mount.release();
      }
    },
  );
});
