import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { overLimits } from '../../src/core/eviction/over-limit.ts';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import { quantityOfBytes } from '../../src/core/units/quantity.ts';
import type { CgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { refOf } from '../../src/host/cgroup/cgroupfs.ts';
import { createPodDisk, type PodDisk } from '../../src/observe/pod-disk.ts';
import { createPodReader } from '../../src/observe/usage.ts';
import type { BoundPod, CgroupRef } from '../../src/ports.ts';
import { createVirtualClock } from '../virtual-node.ts';
import { aBoundPod, aDiskWalk, someFindings } from './a-bound-pod.ts';

let opened: PodDisk | null = null;
/** A tree of plain files, laid out as version 1. */
let mounts: CgroupMounts;
beforeEach(() => {
  const memory = mkdtempSync(join(tmpdir(), 'nodewarden-pod-disk-'));
  mounts = { layout: 'v1', version: 1, unified: null, memory, pids: null, systemd: null };
});
afterEach(() => {
  opened?.close();
  rmSync(mounts.memory, { recursive: true, force: true });
});

/** A cgroup with a process in it, or with none. */
function cgroup(path: string, isPopulated = true): Reading<CgroupRef> {
  const directory = join(mounts.memory, path);
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'cgroup.procs'), isPopulated ? '4242\n' : '');
  writeFileSync(join(directory, 'memory.usage_in_bytes'), '1000\n');
  writeFileSync(join(directory, 'memory.stat'), 'total_inactive_file 0\n');
  return refOf(mounts, path);
}
const limit = { ephemeralStorageLimit: quantityOfBytes(1_000, 'decimal') };

/** The walks of these pods in virtual time; `pass` lets so much of it go by. */
function virtually(pods: readonly BoundPod[]) {
  const virtual = createVirtualClock(0);
  const walks = createPodDisk({
    clock: virtual,
    mounts,
    findings: someFindings(),
    pods: () => known(pods),
    wake: () => undefined,
  });
  opened = walks;
  const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  const pass = (ms: number) => virtual.run(virtual.monoMs() + ms, settled, new AbortController().signal);
  return { clock: virtual, walks, pass };
}

describe('how often directories are walked', () => {
  /** `endedMs`: when each walk of the pod `limited` ended, of which each takes `walkMs`. */
  function limited(walkMs: number, pods: BoundPod[] = []) {
    const { clock, walks, pass } = virtually(pods);
    const endedMs: number[] = [];
    const disk: BoundPod['disk'] = async () => {
      await new Promise<void>((resolve) => void clock.after(walkMs, resolve));
      endedMs.push(clock.monoMs());
      return known(aDiskWalk(1));
    };
    pods.push(aBoundPod({ name: 'limited', ...limit, disk }));
    const gapsMs = (): readonly number[] => endedMs.slice(1).map((ms, i) => ms - (endedMs[i] ?? 0));
    return { clock, walks, endedMs, gapsMs, pass };
  }

  it.each([50, 3_000, 15_000, 30_000, 45_000])(
    'for limits alone: figures from walks of %s ms are at most a minute old, with no more children than needed',
    async (walkMs) => {
      const { gapsMs, pass } = limited(walkMs);
      await pass(1_200_000);
      expect(Math.max(...gapsMs())).toBeLessThanOrEqual(60_000);
      expect(Math.min(...gapsMs())).toBeGreaterThanOrEqual(45_000);
    },
  );

  it('for limits alone: a new pod does not stay unknown for that long', async () => {
    const pods: BoundPod[] = [];
    const { walks, pass } = limited(50, pods);
    await pass(15_000);
    pods.push(aBoundPod({ name: 'new', ...limit }));
    await pass(10_100);
    expect(walks.latest('uid-new')).toMatchObject({ known: true });
  });

  it('for limits alone: a stopped or restarted pod is not judged by what it held before', async () => {
    let count = 0;
    const disk: BoundPod['disk'] = async () => known(aDiskWalk(++count));
    const web = aBoundPod({ name: 'web', ...limit, disk });
    const pods = [{ ...web, cgroup: cgroup('/web') }];
    const { pass } = limited(50, pods);
    await pass(15_000);
    pods[0] = { ...web, cgroup: cgroup('/web-2') };
    await pass(10_100);
    expect(count).toBe(2);
    await pass(10_100);
    expect(count).toBe(2);
  });

  it('for limits alone: a failed walk is retried at the next check, without walking other pods', async () => {
    const failures = new Set([1, 3]);
    let tries = 0;
    const disk: BoundPod['disk'] = async () =>
      failures.has(++tries) ? unknown('unreadable', 'disk walk', 'its child was killed') : known(aDiskWalk(tries));
    const { walks, endedMs, pass } = limited(50, [aBoundPod({ name: 'unlucky', ...limit, disk })]);
    await pass(15_000);
    expect(walks.latest('uid-unlucky')).toMatchObject({ known: false, why: 'unreadable' });
    await pass(10_000);
    expect(walks.latest('uid-unlucky')).toMatchObject(known(aDiskWalk(2)));
    expect(endedMs).toHaveLength(1);
    // The second round, of which that figure may be a minute old.
    await pass(50_000);
    expect(walks.latest('uid-unlucky')).toMatchObject(known(aDiskWalk(4)));
    expect(endedMs).toHaveLength(2);
  });

  it('while walks fail, earlier figures count for a minute, then only what a walk found before it failed', async () => {
    const [whole, part] = [aDiskWalk(7), aDiskWalk(3)];
    let find = (_: (least: typeof part) => void): Reading<typeof whole> => known(whole);
    const broken = unknown('unreadable', 'disk walk', 'the child that walks directories ended with SIGKILL');
    const disk: BoundPod['disk'] = async (soFar) => find(soFar);
    const { walks, pass } = virtually([aBoundPod({ name: 'web', disk })]);
    walks.follow({ afterMs: 0, pods: 'nodefs.available' });
    await pass(100);
    find = () => broken;
    await pass(59_000);
    expect(walks.latest('uid-web')).toMatchObject(known(whole));
    await pass(2_000);
    expect(walks.latest('uid-web')).toEqual(broken);
    find = (soFar) => {
      soFar({ ...part, pod: { ...part.pod, isAtLeast: true } });
      return broken;
    };
    await pass(11_000);
    expect(walks.latest('uid-web')).toMatchObject(known({ pod: { volumesBytes: 3, isAtLeast: true } }));
    find = () => known(whole);
    await pass(11_000);
    expect(walks.latest('uid-web')).toMatchObject(known(whole));
  });

  it('while the first round of a pressure takes long, figures from before it count until they are a minute old', async () => {
    let isSlow = false;
    const slow: BoundPod['disk'] = () => (isSlow ? new Promise(() => undefined) : Promise.resolve(known(aDiskWalk(1))));
    const { walks, pass } = virtually([aBoundPod({ name: 'slow', disk: slow }), aBoundPod({ name: 'web' })]);
    const press = (is: boolean) => walks.follow({ afterMs: 0, pods: is ? 'nodefs.available' : null });
    press(true);
    await pass(100);
    press(false);
    isSlow = true;
    await pass(30_000);
    press(true);
    await pass(15_000);
    expect(walks.notReady('nodefs.available')).toBeNull();
    expect(walks.latest('uid-web')).toMatchObject({ known: true });
    await pass(20_000);
    expect(walks.latest('uid-web')).toMatchObject({ known: false, why: 'stale' });
  });

  it('for limits alone: a walk that always fails after a long time is retried only in a round', async () => {
    const triedMs: number[] = [];
    const pods: BoundPod[] = [];
    const { clock, pass } = limited(50, pods);
    const disk: BoundPod['disk'] = async () => {
      triedMs.push(clock.monoMs());
      await new Promise<void>((resolve) => void clock.after(3_000, resolve));
      return unknown('unreadable', '/srv/web', 'Input/output error');
    };
    pods.unshift(aBoundPod({ name: 'broken', ...limit, disk }));
    await pass(600_000);
    expect(triedMs.length).toBeGreaterThanOrEqual(10);
    expect(triedMs.length).toBeLessThanOrEqual(13);
  });

  it.each([
    ['near', { afterMs: 10_000, pods: null, isDiskNear: true }],
    ['met', { afterMs: 10_000, pods: 'nodefs.available' }],
  ] as const)('every 10 s while a disk threshold is %s, even if it was not before', async (_, want) => {
    const { walks, endedMs, pass } = limited(50);
    await pass(15_000);
    expect(endedMs).toHaveLength(1);
    walks.follow(want);
    await pass(40_000);
    expect(endedMs.length).toBeGreaterThanOrEqual(4);
  });

  it('at most a twentieth of the time while it is near, unless figures would get older than a minute', async () => {
    const near = { afterMs: 10_000, pods: null, isDiskNear: true } as const;
    const short = limited(1_500);
    short.walks.follow(near);
    await short.pass(600_000);
    expect(Math.min(...short.gapsMs())).toBeGreaterThanOrEqual(20 * 1_500);
    opened?.close();
    const long = limited(20_000);
    long.walks.follow(near);
    await long.pass(600_000);
    expect(Math.max(...long.gapsMs())).toBeLessThanOrEqual(60_000);
  });
});

describe('figures from an earlier life of a pod', () => {
  /** The pod `web` may hold 1,000 bytes and holds `heldBytes`. `over`: whom a look would evict over a limit. */
  async function aWeb(isRunning: boolean) {
    const held = { bytes: 5_000 };
    const disk: BoundPod['disk'] = async () => known(aDiskWalk(held.bytes));
    const bound = aBoundPod({ name: 'web', ...limit, disk, cgroup: cgroup('/web', isRunning) });
    const pods = [bound];
    const { clock, walks, pass } = virtually(pods);
    const look = () => {
      const reader = createPodReader({ clock, mounts, findings: someFindings(), disk: walks.latest });
      const views = reader.read(pods, 'nodefs.available');
      reader.close();
      return views;
    };
    const over = (): string[] => overLimits(look(), 'nodefs-only').map(({ pod }) => pod.name);
    await pass(10_100);
    return { held, bound, pods, pass, look, over };
  }

  it.each([
    ['another cgroup', (): Partial<BoundPod> => ({ cgroup: cgroup('/web-2') })],
    ['the same cgroup after a stop of ours', (): Partial<BoundPod> => ({ stops: 1 })],
  ])('evict no pod over a limit that runs in %s before a walk of its own', async (_, again) => {
    const { held, bound, pods, pass, look, over } = await aWeb(true);
    expect(over()).toEqual(['web']);
    held.bytes = 10;
    pods[0] = { ...bound, ...again() };
    expect(over()).toEqual([]);
    expect(look()[0]?.usage.ephemeralStorageBytes).toMatchObject({ known: false, why: 'stale' });
    await pass(10_100);
    expect(look()[0]?.usage.ephemeralStorageBytes).toEqual(known(10));
    held.bytes = 6_000;
    await pass(60_000);
    expect(over()).toEqual(['web']);
  });

  it('include those of a walk while it was down, because it may clean up at its start', async () => {
    const { pass, over } = await aWeb(false);
    expect(over()).toEqual([]);
    cgroup('/web', true);
    expect(over()).toEqual([]);
    await pass(10_100);
    expect(over()).toEqual(['web']);
  });

  it('still rank it if the disk itself is short', async () => {
    const { bound, pods, look } = await aWeb(true);
    pods[0] = { ...bound, stops: 1 };
    expect(look()[0]?.usage.disk).toMatchObject(known(aDiskWalk(5_000).pod));
  });
});
