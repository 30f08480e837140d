import { execFileSync } from 'node:child_process';
import { chmodSync, lstatSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { known, unknown } from '../../src/core/reading.ts';
import { createClock } from '../../src/host/clock.ts';
import { createDiskWalker } from '../../src/host/disk/disk-walk.ts';
import { isThreadFree } from '../../src/host/own/thread-pool.ts';
import { createDiskFacts } from '../../src/observe/disk-facts.ts';
import { podDisk } from '../../src/standalone/pods/pod-disk.ts';
import { createScratchPlaces, withSafeScratch } from '../../src/standalone/pods/scratch-places.ts';
import { createSeenDirectories } from '../../src/standalone/pods/seen-directories.ts';
import { mountHungFileSystem, noHungMount } from '../host/hung-mount.ts';
import { aBoundPod } from '../observe/a-bound-pod.ts';
import { podOf } from './a-manifest.ts';
import { heardParts } from './needs.ts';

describe('the scratch directories of a manifest', () => {
  it.each([
    ['/srv', '/srv may hold more'],
    ['/var/lib', '/var/lib may hold more'],
    ['/home/web', '/home/web may hold more'],
    ['/usr/local/web/tmp', '/usr belongs to the system'],
    ['/etc/web', '/etc belongs to the system'],
    ['srv/web', 'must be absolute'],
    ['/srv/web/../../etc', 'must not contain ..'],
    ['//', 'the whole file system'],
  ])("are refused if they may contain more than this pod's data: %s", (path, expected) => {
    expect(() => podOf('web', [`scratch: ${path}`])).toThrow(expected);
  });

  it('are refused if they would empty what `disk` names, but not the other way round', () => {
    expect(() => podOf('web', ['disk: /srv/web/data', 'scratch: /srv/web'])).toThrow('would empty /srv/web/data');
    const pod = podOf('web', ['disk: /srv/web', 'scratch: "/srv/web/tmp/, /var/cache/./web"']);
    expect(pod).toMatchObject({ disk: ['/srv/web'], scratch: ['/srv/web/tmp', '/var/cache/web'] });
  });

  it('are left out, with a finding, if a directory of another pod or nodewarden overlaps', () => {
    const web = podOf('web', ['scratch: "/srv/shared/tmp,/srv/web/tmp,/var/lib/nodewarden"']);
    const { pods, refused } = withSafeScratch([web, podOf('db', ['disk: /srv/shared'])], ['/var/lib/nodewarden']);
    expect(pods[0]?.scratch).toEqual(['/srv/web/tmp']);
    expect(refused.map(({ text }) => text)).toEqual([
      expect.stringContaining('/srv/shared/tmp is never emptied: it overlaps with /srv/shared of default/db'),
      expect.stringContaining('/var/lib/nodewarden of nodewarden itself'),
    ]);
  });
});

describe('scratch directories that would not be emptied', () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'nodewarden-scratch-'));
    mkdirSync(join(root, 'real/tmp'), { recursive: true });
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  it('are reported with file and line when the manifest is read, until they can be emptied', async () => {
    const { findings, present } = heardParts();
    const tell = createScratchPlaces(findings, createSeenDirectories());
    const told = (): readonly string[] => [...present.values()];
    symlinkSync(join(root, 'real'), join(root, 'link'));
    writeFileSync(join(root, 'real/file'), '');
    const paths = ['real/tmp', 'link/tmp', 'real/file', 'gone'].map((name) => join(root, name));
    const pod = podOf('web', [`scratch: "${paths.join(',')}"`]);
    tell([pod]);
    await expect.poll(told).toHaveLength(1);
    expect(told()[0]).toMatch(/^web\.yaml:\d+/);
    expect(told()[0]).toContain(`${root}/link/tmp would not be emptied: ${root}/link is a symbolic link`);
    expect(told()[0]).toContain(`${root}/real/file would not be emptied: it is no directory`);
    expect(told()[0]).not.toContain('gone');
    rmSync(join(root, 'link'));
    rmSync(join(root, 'real/file'));
    tell([pod]);
    await expect.poll(told).toEqual([]);
  });

  it('are those in a directory in which others could put another one in their place', async () => {
    const { findings, present } = heardParts();
    chmodSync(join(root, 'real'), 0o777);
    createScratchPlaces(findings, createSeenDirectories())([podOf('web', [`scratch: "${root}/real/tmp"`])]);
    await expect
      .poll(() => [...present.values()])
      .toEqual([
        expect.stringContaining(
          `${root}/real/tmp would not be emptied: ${root}/real can be written by its group or by others and has no sticky bit`,
        ),
      ]);
  });

  it.skipIf(process.getuid?.() !== 0)('are those with a mount at or below them [needs root]', async () => {
    const { findings, present } = heardParts();
    execFileSync('mount', ['-t', 'tmpfs', 'nodewarden-test', join(root, 'real/tmp')]);
    try {
      const places = `scratch: "${join(root, 'real')}"`;
      createScratchPlaces(
        findings,
        createSeenDirectories(),
      )([podOf('web', [places]), podOf('db', [`scratch: "${join(root, 'real/tmp')}"`])]);
      await expect.poll(() => present.size).toBe(2);
      expect([...present.values()]).toEqual([
        expect.stringContaining(`a file system is mounted at ${root}/real/tmp`),
        expect.stringContaining('a file system is mounted at it'),
      ]);
    } finally {
      execFileSync('umount', [join(root, 'real/tmp')]);
    }
  });
});

describe("what a pod's end would free", () => {
  it('is nothing in a scratch directory that would not be emptied as it is then', async () => {
    const root = mkdtempSync(join(tmpdir(), 'nodewarden-scratch-'));
    const walker = createDiskWalker(createClock());
    const tmp = join(root, 'above/tmp');
    mkdirSync(tmp, { recursive: true });
    writeFileSync(join(tmp, 'file'), Buffer.alloc(1_000_000, 1));
    const cgroup = unknown('absent', 'web', 'it is not running');
    const pod = { ...aBoundPod({ name: 'web' }), scratch: [tmp] };
    const { disk } = podDisk({ walker, mounts: {} as never, manifest: podOf('web', [`scratch: "${tmp}"`]), cgroup });
    const freed = async (): Promise<number | string> => {
      const walk = await disk(() => undefined);
      if (!walk.known) return walk.detail;
      const latest = known({ ...walk.value, stops: 0 });
      const written = unknown('not-asked', 'writes', 'none are counted');
      const of = {
        pod,
        device: lstatSync(tmp).dev,
        latest,
        life: 'life',
        written,
        nowMs: 0,
        round: 1,
        isTooOld: () => false,
      };
      const { bytes } = createDiskFacts().on(of).relief.scratch;
      return bytes.known ? bytes.value : bytes.detail;
    };
    try {
      expect(await freed()).toBeGreaterThan(999_999);
      chmodSync(join(root, 'above'), 0o777);
      expect(await freed()).toBe(0);
      chmodSync(join(root, 'above'), 0o755);
      expect(await freed()).toBeGreaterThan(999_999);
    } finally {
      walker.close();
      rmSync(root, { recursive: true, force: true });
    }
  });
});

const needs = noHungMount === null ? '' : ` [${noHungMount}]`;
it.skipIf(noHungMount !== null)(
  `is measured again and again on a file system that hangs without holding up all others${needs}`,
  async () => {
    const root = mkdtempSync(join(tmpdir(), 'nodewarden-scratch-'));
    const clock = createClock();
    const walker = createDiskWalker(clock, { silentMs: 100 });
    const { release } = await mountHungFileSystem(root);
    const manifest = podOf('web', [`scratch: "${join(root, 'tmp')}"`]);
    const { disk } = podDisk({
      walker,
      mounts: {} as never,
      manifest,
      cgroup: unknown('absent', 'web', 'not running'),
    });
    // The pool of libuv has four threads, or so many.
    const threads = Number(process.env['UV_THREADPOOL_SIZE'] ?? 4);
    try {
      for (let rounds = 0; rounds < threads; rounds++) expect((await disk(() => undefined)).known).toBe(false);
      expect(await isThreadFree(clock)).toBe(true);
    } finally {
      walker.close();
      await release();
      rmSync(root, { recursive: true, force: true });
    }
  },
);

describe('which directory a pod has', () => {
  it('is noted when its manifest is read and when it is measured, and kept when it is gone', async () => {
    const root = mkdtempSync(join(tmpdir(), 'nodewarden-scratch-'));
    const walker = createDiskWalker(createClock());
    const seen = createSeenDirectories();
    const [tmp, data] = [join(root, 'tmp'), join(root, 'data')];
    const manifest = podOf('web', [`scratch: "${tmp}"`, `disk: "${data}"`]);
    const inodes = (): readonly unknown[] => [tmp, data].map((path) => seen.at(path)?.inode);
    try {
      for (const path of [tmp, data]) mkdirSync(path);
      const first = [tmp, data].map((path) => lstatSync(path).ino);
      await createScratchPlaces(heardParts().findings, seen)([], [manifest]);
      expect(inodes()).toEqual(first);
      renameSync(tmp, join(root, 'away'));
      renameSync(data, tmp);
      const cgroup = unknown('absent', 'web', 'it is not running');
      await podDisk({ walker, mounts: {} as never, manifest, cgroup, seen }).disk(() => undefined);
      expect(inodes()).toEqual([first[1], first[1]]);
      seen.keepOnly([data]);
      expect(inodes()).toEqual([undefined, first[1]]);
    } finally {
      walker.close();
      rmSync(root, { recursive: true, force: true });
    }
  });
});
