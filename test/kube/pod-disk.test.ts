import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { DiskWalk } from '../../src/core/pod/disk-walk.ts';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import { createClock } from '../../src/host/clock.ts';
import { createDiskWalker, type DiskWalker } from '../../src/host/disk/disk-walk.ts';
import type { LivePod } from '../../src/kube/pods/live-pods.ts';
import { createKubePodDisk, type Layers } from '../../src/kube/pods/pod-disk.ts';
import { aUid } from './a-kubelet-tree.ts';
import { anApiPod } from './an-api-pod.ts';

const UID = aUid('1');
const isRoot = process.getuid?.() === 0;
const KIB = 1024;
const idOf = (i: number): string => String(i).padStart(64, '0');
const noAnswer = unknown('timed-out', 'ListContainerStats', 'no answer');

describe('the disk of a pod of the kubelet', () => {
  let root: string;
  let walker: DiskWalker;
  let logs: string;
  let volumes: string;
  let layers: Reading<Layers>;
  /** What a small directory takes of this file system by itself. */
  let directory: number;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'nodewarden-kubelet-'));
    walker = createDiskWalker(createClock());
    logs = join(root, 'logs', `default_web_${UID}`);
    volumes = join(root, 'kubelet/pods', UID, 'volumes');
    layers = known(new Map(Array.from({ length: 50 }, (_, i) => [idOf(i), { bytes: 0, inodes: 0 }])));
    write(join(root, 'small/file'), 4);
    directory = statSync(join(root, 'small')).blocks * 512;
  });
  afterEach(() => {
    walker.close();
    rmSync(root, { recursive: true, force: true });
  });
  const write = (path: string, kib: number): void => {
    mkdirSync(join(path, '..'), { recursive: true });
    writeFileSync(path, Buffer.alloc(kib * KIB, 1));
  };
  const aLivePod = (
    more: Parameters<typeof anApiPod>[0] = {},
    names: readonly (string | null)[] = ['app'],
  ): LivePod => {
    const pod = anApiPod({ name: 'web', uid: UID, ...more });
    const nowhere = { path: '/', inode: 1 };
    return {
      pod,
      object: pod,
      declared: pod.declared,
      cgroup: known(nowhere),
      containers: names.map((name, i) => ({ id: idOf(i), name, cgroup: nowhere })),
      sandboxes: [],
      frees: true,
    };
  };
  const measure = async (pod = aLivePod(), soFar: (least: DiskWalk) => void = () => undefined): Promise<DiskWalk> => {
    const disk = createKubePodDisk({
      walker,
      kubeletRoot: join(root, 'kubelet'),
      podLogsDir: join(root, 'logs'),
      layers: async () => layers,
    });
    const walk = await disk(pod, soFar);
    if (!walk.known) throw new Error(`${walk.where}: ${walk.detail}`);
    return walk.value;
  };
  const emptyDirs = (...names: readonly string[]) => ({ volumes: names.map((name) => ({ name, sizeLimit: null })) });

  it('is its logs, its emptyDirs and other volumes that count, and the layers of its containers', async () => {
    write(join(logs, 'app/0.log'), 100);
    write(join(logs, 'app/0.log.20260101'), 28);
    write(join(logs, 'debugger/0.log'), 16);
    write(join(volumes, 'kubernetes.io~empty-dir/cache/a/b'), 64);
    write(join(volumes, 'kubernetes.io~configmap/settings/..data/key'), 32);
    write(join(volumes, 'kubernetes.io~secret/token/key'), 500);
    write(join(volumes, 'kubernetes.io~projected/api/ca.crt'), 500);
    write(join(volumes, 'kubernetes.io~csi/data/mount/file'), 500);
    layers = known(
      new Map([
        [idOf(0), { bytes: 7 * KIB, inodes: 3 }],
        [idOf(1), { bytes: 500, inodes: 500 }],
      ]),
    );
    const { pod, containers, volumes: measured } = await measure(aLivePod(emptyDirs('cache')));
    expect(pod).toEqual({
      // Both directories of containers with their files.
      logsBytes: 144 * KIB + 2 * directory,
      logsInodes: 5,
      // cache, a, b, and settings, ..data, key.
      volumesBytes: 96 * KIB + 4 * directory,
      volumesInodes: 6,
      rootfsBytes: 7 * KIB,
      rootfsInodes: 3,
    });
    expect(containers).toEqual([{ name: 'app', logsBytes: known(128 * KIB + directory), rootfsBytes: known(7 * KIB) }]);
    expect(measured).toEqual([{ name: 'cache', usedBytes: known(64 * KIB + 2 * directory) }]);
  });

  it('is nothing if nothing was written, and needs no directory', async () => {
    const { pod, volumes: measured } = await measure(aLivePod(emptyDirs('cache')));
    expect(pod).toMatchObject({ logsBytes: 0, logsInodes: 0, volumesBytes: 0, volumesInodes: 0, rootfsBytes: 0 });
    expect(pod.isAtLeast).toBeUndefined();
    expect(measured[0]?.usedBytes.known).toBe(false);
  });

  it.skipIf(!isRoot)('does not include an emptyDir in memory, whose own size is still known [needs root]', async () => {
    const tmpfs = join(volumes, 'kubernetes.io~empty-dir/shm');
    mkdirSync(tmpfs, { recursive: true });
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'nodewarden-test', tmpfs]);
    try {
      write(join(tmpfs, 'big'), 512);
      write(join(volumes, 'kubernetes.io~empty-dir/cache/a'), 64);
      const { pod, volumes: measured } = await measure(aLivePod(emptyDirs('shm', 'cache')));
      expect(pod).toMatchObject({ volumesBytes: 64 * KIB + directory, volumesInodes: 2 });
      expect(measured[0]).toEqual({ name: 'shm', usedBytes: known(512 * KIB) });
      // Also of a pod whose volumes nobody has named.
      expect((await measure()).pod).toMatchObject({ volumesBytes: 64 * KIB + directory, volumesInodes: 2 });
    } finally {
      execFileSync('umount', ['-l', tmpfs]);
    }
  });

  it('is a lower bound while the runtime does not report the layers, or one of them', async () => {
    write(join(logs, 'app/0.log'), 8);
    layers = noAnswer;
    const least = await measure();
    expect(least.pod).toMatchObject({ isAtLeast: true, logsBytes: 8 * KIB + directory, rootfsBytes: 0 });
    expect(least.containers[0]?.rootfsBytes).toEqual(noAnswer);
    layers = known(new Map([[idOf(0), { bytes: KIB, inodes: 1 }]]));
    const { pod } = await measure(aLivePod({}, ['app', 'side']));
    expect(pod).toMatchObject({ isAtLeast: true, rootfsBytes: KIB });
  });

  it('counts a link that a tenant created there, never its target', async () => {
    mkdirSync(join(volumes, 'kubernetes.io~empty-dir/cache'), { recursive: true });
    symlinkSync('/usr', join(volumes, 'kubernetes.io~empty-dir/cache/usr'));
    const { pod } = await measure(aLivePod(emptyDirs('cache')));
    expect(pod).toMatchObject({ volumesBytes: directory, volumesInodes: 2 });
  });

  it('is measured nowhere else if names would lead there', async () => {
    write(join(root, 'logs/secret'), 64);
    write(join(root, 'kubelet/pods/secret'), 64);
    const odd = aLivePod({ namespace: '..', name: '../logs', ...emptyDirs('../../..', 'x/y', '') }, ['../../..', '']);
    const { pod, containers } = await measure(odd);
    expect(pod).toMatchObject({ logsBytes: 0, volumesBytes: 0, isAtLeast: true });
    expect(containers.map(({ logsBytes }) => logsBytes.known)).toEqual([false, false]);
    await expect(measure(aLivePod({ uid: '../../x' }))).rejects.toThrow('its uid names no directory');
  });

  it('includes all containers and volumes, even more than a walk takes', async () => {
    const names = Array.from({ length: 40 }, (_, i) => `n${i}`);
    for (const name of names) {
      write(join(logs, name, '0.log'), 4);
      write(join(volumes, 'kubernetes.io~empty-dir', name, 'a'), 4);
    }
    const { pod } = await measure(aLivePod(emptyDirs(...names), names));
    expect(pod).toMatchObject({
      logsInodes: 80,
      volumesInodes: 80,
      logsBytes: 40 * 8 * KIB,
      volumesBytes: 40 * 8 * KIB,
    });
    expect(pod.isAtLeast).toBeUndefined();
  });
});
