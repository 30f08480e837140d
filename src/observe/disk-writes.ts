import type { PodUid } from '../core/pod/pod.ts';
import { known, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { diskOf, writtenByDevice } from '../host/cgroup/io-stat.ts';
import type { BoundPod, Clock } from '../ports.ts';

/** Which pods write to a disk, while anybody reads this. */
type DiskWrites = {
  readonly follow: (isWanted: boolean) => void;
  /** Bytes written to the disk of that file system in about the last 10 s. */
  readonly written: (uid: PodUid, device: number) => Reading<number>;
  readonly close: () => void;
};

const SAMPLE_MS = 1_000;
const WINDOW_MS = 10_000;

type Sample = { readonly atMs: MonoMs; readonly inode: number; readonly written: ReadonlyMap<string, number> };

/** D14: the kernel's counters, sampled beside the loop: 10 µs per pod. */
export function createDiskWrites(needs: {
  readonly clock: Clock;
  readonly mounts: CgroupMounts;
  readonly pods: () => Reading<readonly BoundPod[]>;
}): DiskWrites {
  const { clock, mounts, pods } = needs;
  const samples = new Map<PodUid, readonly Sample[]>();
  let cancelTimer: (() => void) | null = null;

  const sample = (): void => {
    cancelTimer = clock.after(SAMPLE_MS, sample);
    const bound = pods();
    if (!bound.known) return;
    const before = new Map(samples);
    samples.clear();
    const atMs = clock.monoMs();
    for (const { declared, cgroup } of bound.value) {
      const written = cgroup.known ? writtenByDevice(mounts, cgroup.value) : cgroup;
      if (!cgroup.known || !written.known) continue;
      const { inode } = cgroup.value;
      const kept = (before.get(declared.uid) ?? []).filter(
        (old) => old.inode === inode && atMs - old.atMs <= WINDOW_MS + SAMPLE_MS,
      );
      samples.set(declared.uid, [...kept, { atMs, inode, written: written.value }]);
    }
  };
  const stop = (): void => {
    cancelTimer?.();
    cancelTimer = null;
    samples.clear();
  };

  return {
    follow: (isWanted) => {
      if (!isWanted || mounts.version === 1) stop();
      else if (cancelTimer === null) sample();
    },
    written: (uid, device) => {
      const disk = diskOf(device);
      if (!disk.known) return disk;
      if (mounts.version === 1) return unknown('not-applicable', 'io.stat', 'cgroup v1 does not attribute writes');
      const kept = samples.get(uid) ?? [];
      const [first, last] = [kept[0], kept.at(-1)];
      if (first === undefined || last === undefined || first === last) {
        return unknown('not-asked', `io.stat of ${uid}`, 'it has been read only once so far');
      }
      const of = ({ written }: Sample): number => written.get(disk.value) ?? 0;
      return known(Math.max(0, of(last) - of(first)));
    },
    close: stop,
  };
}
