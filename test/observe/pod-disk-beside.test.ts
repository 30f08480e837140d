import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { decide } from '../../src/core/decide.ts';
import { known, type Reading } from '../../src/core/reading.ts';
import { initialState, type State } from '../../src/core/state/state.ts';
import type { NextLook } from '../../src/core/verdict.ts';
import type { CgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { refOf } from '../../src/host/cgroup/cgroupfs.ts';
import { createPodDisk } from '../../src/observe/pod-disk.ts';
import type { BoundPod } from '../../src/ports.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI, NOT_ASKED } from '../a.ts';
import { createVirtualClock } from '../virtual-node.ts';
import { aBoundPod, aDiskWalk, someFindings } from './a-bound-pod.ts';

const HERE = 41;

let mounts: CgroupMounts;
beforeEach(() => {
  const memory = mkdtempSync(join(tmpdir(), 'nodewarden-pod-disk-'));
  mounts = { layout: 'v1', version: 1, unified: null, memory, pids: null, systemd: null };
});
afterEach(() => rmSync(mounts.memory, { recursive: true, force: true }));

type Case = {
  /** Of which nobody may be evicted; null: none is short. */
  readonly beside: 'memory.available' | 'pid.available' | null;
  readonly walkMs: number;
  readonly nodefs: { readonly available: number; readonly minReclaimBytes: number };
};

/** When the pod that fills the disk is evicted for it, in ms; null: not within half a minute. */
async function evictedAtMs({ beside, walkMs, nodefs }: Case): Promise<number | null> {
  const clock = createVirtualClock(0);
  const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  const pass = (ms: number) => clock.run(clock.monoMs() + ms, settled, new AbortController().signal);
  mkdirSync(join(mounts.memory, 'hog'), { recursive: true });
  writeFileSync(join(mounts.memory, 'hog', 'cgroup.procs'), '4242\n');
  const disk: BoundPod['disk'] = async () => {
    await new Promise<void>((resolve) => void clock.after(walkMs, resolve));
    const has = { bytes: GI + clock.monoMs() * 1_000, inodes: 5, freshBytes: GI, freshInodes: 1 };
    const none = { ownBytes: 0, linkedBytes: 0, linkedInodes: 0 };
    return known({
      ...aDiskWalk(has.bytes),
      directories: [{ path: '/hog', device: HERE, inode: 3, ...has, ...none }],
    });
  };
  const hog = { ...aBoundPod({ name: 'hog', cgroup: refOf(mounts, '/hog'), disk }), directories: ['/hog'] };
  const findings = someFindings();
  const walks = createPodDisk({ clock, mounts, findings, pods: () => known([hog]), wake: () => undefined });
  const podsFor = (want: NextLook['pods']) => {
    const notReady = want === null ? NOT_ASKED : walks.notReady(want);
    if (notReady !== null) return notReady;
    const { usage, relief } = walks.on(hog, HERE);
    const processes: Reading<number> = want === 'pid.available' ? known(1) : NOT_ASKED;
    const pod = aPod({ name: 'hog', usage: { disk: usage, processes }, diskRelief: known(relief) });
    return known([{ ...pod, evictFor: ['disk'] as const }]);
  };
  const { available, minReclaimBytes } = nodefs;
  const thresholds = [
    aThreshold('nodefs.available', 100 * MI, { minReclaimBytes }),
    ...(beside === null ? [] : [aThreshold(beside, 1_000)]),
  ];
  let state: State = { ...initialState('boot'), unresolved: ['nodefs.available/evictionHard'] };
  let next: NextLook = { afterMs: 0, pods: null };
  try {
    while (clock.monoMs() < 30_000) {
      walks.follow(next);
      const atMs = clock.monoMs();
      const sampledAtMs = Math.floor(atMs / 1_000) * 1_000;
      const signals = {
        'nodefs.available': known({ available, capacity: 10 * GI, sampledAtMs }),
        ...(beside === null ? {} : { [beside]: { available: 500, capacity: 10 * GI } }),
      };
      const observation = anObservation(atMs, signals, { pods: podsFor(next.pods), podsFor: next.pods });
      const verdict = decide(state, observation, aConfig(thresholds, { isLive: true }));
      if (verdict.decisions.some(({ kind }) => kind === 'evict')) return atMs;
      ({ state, next } = verdict);
      await pass(Math.max(1, next.afterMs));
    }
    return null;
  } finally {
    walks.close();
  }
}

const short = { available: 50 * MI, minReclaimBytes: 0 };
/** By what it still has to get back; it is far from its threshold otherwise. */
const held = { available: 5 * GI, minReclaimBytes: 6 * GI };

describe('a disk that is short', () => {
  it.each([
    [20, short],
    [3_000, short],
    [3_000, held],
  ])('does not wait for the end of a shortage of another resource: walks of %i ms', async (walkMs, nodefs) => {
    for (const beside of [null, 'memory.available', 'pid.available'] as const) {
      const atMs = await evictedAtMs({ beside, walkMs, nodefs });
      expect(atMs).toBeGreaterThanOrEqual(walkMs);
      expect(atMs).toBeLessThan(walkMs + 500);
    }
  });
});
