import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { firstCandidate } from '../../src/core/eviction/candidate.ts';
import { rank } from '../../src/core/eviction/rank.ts';
import { known } from '../../src/core/reading.ts';
import type { CgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { refOf } from '../../src/host/cgroup/cgroupfs.ts';
import { createPodDisk } from '../../src/observe/pod-disk.ts';
import type { BoundPod } from '../../src/ports.ts';
import { aPod, GI, MI } from '../a.ts';
import { createVirtualClock } from '../virtual-node.ts';
import { aBoundPod, aDiskWalk, someFindings } from './a-bound-pod.ts';

const HERE = 41;
const MINUTE_MS = 60_000;
const NEAR_FOR_MS = 400_000;
/** A round of all pods takes 137 s. */
const STEP_MS = 23_000;
const PHASES = [0, 1, 2, 3, 4, 5];

let mounts: CgroupMounts;
beforeEach(() => {
  const memory = mkdtempSync(join(tmpdir(), 'nodewarden-pod-disk-'));
  mounts = { layout: 'v1', version: 1, unified: null, memory, pids: null, systemd: null };
});
afterEach(() => rmSync(mounts.memory, { recursive: true, force: true }));

type Hog = 'holds deleted files' | 'makes files' | 'appends to a file' | 'appends to a file and restarts every second';
/** `fresh`, `grows`: bytes a minute. */
type Kind = {
  readonly name: string;
  readonly walkMs: number;
  readonly open?: number;
  readonly fresh?: number;
  readonly grows?: number;
  /** By itself, in a new cgroup. */
  readonly isRestarting?: true;
};
const HOGS: { readonly [hog in Hog]: Partial<Kind> } = {
  'holds deleted files': { open: 40 * GI },
  'makes files': { fresh: GI, grows: GI },
  'appends to a file': { grows: GI },
  'appends to a file and restarts every second': { grows: GI, isRestarting: true },
};
/** The innocent one makes a file of 2 MiB now and then. */
function kindsWith(hog: Hog, isLast: boolean): readonly Kind[] {
  const it = { name: 'hog', walkMs: 1_000, ...HOGS[hog] };
  const slow = (name: string) => ({ name, walkMs: 45_000 });
  const others = [
    slow('slow-1'),
    slow('slow-2'),
    { name: 'innocent', walkMs: 1_000, fresh: 2 * MI, grows: 2 * MI },
    slow('slow-3'),
  ];
  return isLast ? [...others, it] : [it, ...others];
}

/** Whom the disk costs its life if it becomes short that long after it was near. */
async function chosen(kinds: readonly Kind[], afterMs: number): Promise<string> {
  const clock = createVirtualClock(0);
  const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  const pass = (ms: number) => clock.run(clock.monoMs() + ms, settled, new AbortController().signal);
  const cgroupOf = (name: string): BoundPod['cgroup'] => {
    const directory = join(mounts.memory, name);
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, 'cgroup.procs'), '4242\n');
    return refOf(mounts, `/${name}`);
  };
  const kept = kinds.map(({ name, walkMs, open = 0, fresh = 0, grows = 0 }, inode): BoundPod => {
    const disk: BoundPod['disk'] = async () => {
      await new Promise<void>((resolve) => void clock.after(walkMs, resolve));
      const has = {
        bytes: GI + Math.round((grows * clock.monoMs()) / MINUTE_MS),
        inodes: 5,
        freshBytes: fresh,
        freshInodes: 1,
      };
      const none = { ownBytes: 0, linkedBytes: 0, linkedInodes: 0 };
      return known({
        ...aDiskWalk(has.bytes),
        directories: [{ path: `/${name}`, device: HERE, inode, ...has, ...none }],
      });
    };
    const devices = open > 0 ? [{ device: HERE, bytes: open, inodes: 1 }] : [];
    return {
      ...aBoundPod({ name, cgroup: cgroupOf(name), disk }),
      directories: [`/${name}`],
      openFiles: () => Promise.resolve(known({ devices, isComplete: true })),
    };
  });
  const pods = (): readonly BoundPod[] =>
    kept.map((pod, of) => {
      const life = Math.floor(clock.monoMs() / 1_000);
      return kinds[of]?.isRestarting === true ? { ...pod, cgroup: cgroupOf(`${pod.declared.name}-${life}`) } : pod;
    });
  const findings = someFindings();
  const walks = createPodDisk({ clock, mounts, findings, pods: () => known(pods()), wake: () => undefined });
  const follow = (isShort: boolean) =>
    walks.follow({ afterMs: 1_000, pods: isShort ? 'nodefs.available' : null, isDiskNear: true });
  try {
    follow(false);
    await pass(NEAR_FOR_MS + afterMs);
    for (let second = 0; second < 300; second++) {
      follow(true);
      if (walks.notReady('nodefs.available') === null) {
        const views = pods().map((pod) => {
          const { usage, relief } = walks.on(pod, HERE);
          return aPod({ name: pod.declared.name, usage: { disk: usage }, diskRelief: known(relief) });
        });
        const ranking = rank('nodefs.available', views, 'nodefs-only');
        const { victim } = firstCandidate('nodefs.available', ranking, [], () => false, 10 * GI);
        if (victim !== null) return victim.name;
      }
      await pass(1_000);
    }
    return 'nobody';
  } finally {
    walks.close();
  }
}

describe('a disk that becomes short while a round of all pods takes minutes', () => {
  it.each([
    ['holds deleted files', false],
    ['holds deleted files', true],
    ['makes files', false],
    ['makes files', true],
    ['appends to a file', false],
    ['appends to a file', true],
    ['appends to a file and restarts every second', false],
    ['appends to a file and restarts every second', true],
  ] as const)('costs the pod its life that %s, and no other, whenever that is', async (hog, isLast) => {
    for (const phase of PHASES) expect(await chosen(kindsWith(hog, isLast), phase * STEP_MS)).toBe('hog');
  });
});
