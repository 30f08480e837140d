import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { known } from '../../src/core/reading.ts';
import { sleep } from '../../src/host/clock.ts';
import { createDiskWalker } from '../../src/host/disk/disk-walk.ts';
import { createPodDisk } from '../../src/observe/pod-disk.ts';
import type { BoundPod } from '../../src/ports.ts';
import { clock } from '../../test/lab/scene.ts';
import { aBoundPod, someFindings } from '../../test/observe/a-bound-pod.ts';
import { realMounts } from '../../test/observe/a-node.ts';
import { quantile } from '../result.ts';

export type DiskRow = {
  readonly pods: number;
  readonly files: number;
  readonly fileSystem: 'tmpfs';
  /** From the first walk of a round to its last. */
  readonly roundSeconds: number;
  /** Of the child, for a round. */
  readonly cpuSecondsOfChild: number;
  readonly cpuSecondsOfAgent: number;
  /** The oldest figure of any pod, over all the time after the first round. */
  readonly oldestSeconds: number;
  /** How late a timer of 2 ms came, in this process, while walks were under way. */
  readonly gapMedianMs: number;
  readonly gapP99Ms: number;
  readonly gapMostMs: number;
  /** The same with nothing to do. */
  readonly idleGapP99Ms: number;
  readonly idleGapMostMs: number;
};

const FILES_IN_DIRECTORY = 1_000;
const IDLE_MS = 5_000;
const TICK_MS = 2;
// Empty files in directories of a thousand, in as many pods.
const MAKE = `my ($root, $pods, $files) = @ARGV;
  for my $i (0 .. $files - 1) {
    my $pod = "$root/pod-" . ($i % $pods);
    my $at = "$pod/" . int($i / $pods / ${FILES_IN_DIRECTORY});
    mkdir $pod; mkdir $at unless $made{$at}++;
    open(my $file, ">", "$at/file-$i") or die "$at: $!";
  }`;

export async function measureWalks(pods: number, files: number, rounds: number): Promise<DiskRow> {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'nodewarden-bench-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=4g,nr_inodes=${2 * files},mode=0755`, 'nodewarden-bench', root]);
  try {
    execFileSync('/usr/bin/perl', ['-e', MAKE, root, String(pods), String(files)]);
    return await follow(root, pods, files, rounds);
  } finally {
    execFileSync('umount', ['--lazy', root]);
    fs.rmdirSync(root);
  }
}

async function follow(root: string, pods: number, files: number, rounds: number): Promise<DiskRow> {
  const walker = createDiskWalker(clock);
  const began: number[] = [];
  const ended: number[] = [];
  const bound = Array.from({ length: pods }, (_, i): BoundPod => {
    const disk: BoundPod['disk'] = async () => {
      if (i === 0) began.push(clock.monoMs());
      const walked = await walker.walk([path.join(root, `pod-${i}`)]);
      if (i === pods - 1) ended.push(clock.monoMs());
      if (!walked.known) return walked;
      if (!walked.value.isComplete) throw new Error('a walk was cut short');
      const { bytes, inodes } = walked.value;
      const none = { logsBytes: 0, rootfsBytes: 0, logsInodes: 0, rootfsInodes: 0 };
      return known({ pod: { ...none, volumesBytes: bytes, volumesInodes: inodes }, containers: [], volumes: [] });
    };
    return aBoundPod({ name: `pod-${i}`, disk });
  });
  const idle = await gaps(() => false, clock.monoMs() + IDLE_MS);
  const podDisk = createPodDisk({
    ...{ clock, mounts: realMounts(), findings: someFindings(), wake: () => undefined },
    pods: () => known(bound),
  });
  podDisk.follow({ afterMs: 10_000, pods: null, isDiskNear: true });
  let oldestMs = 0;
  const cpuBefore = process.cpuUsage();
  const see = (): boolean => {
    if (ended.length === 0) return false;
    const at = clock.monoMs();
    for (const { declared } of bound) {
      const latest = podDisk.latest(declared.uid);
      oldestMs = Math.max(oldestMs, at - (latest.known ? (latest.value.pod.sampledAtMs ?? 0) : 0));
    }
    return ended.length >= rounds;
  };
  const childBefore = childCpuSeconds();
  const busy = await gaps(see, Number.POSITIVE_INFINITY, () => began.length > ended.length);
  const cpu = process.cpuUsage(cpuBefore);
  podDisk.close();
  // The CPU of a child is known when it has ended.
  while (hasChildren()) await sleep(clock, 100);
  const roundsMs = ended.map((at, i) => at - (began[i] ?? Number.NaN));
  return {
    pods,
    files,
    fileSystem: 'tmpfs',
    roundSeconds: quantile(roundsMs, 0.5) / 1_000,
    cpuSecondsOfChild: (childCpuSeconds() - childBefore) / rounds,
    cpuSecondsOfAgent: (cpu.user + cpu.system) / 1e6 / rounds,
    oldestSeconds: oldestMs / 1_000,
    gapMedianMs: quantile(busy, 0.5),
    gapP99Ms: quantile(busy, 0.99),
    gapMostMs: Math.max(...busy),
    idleGapP99Ms: quantile(idle, 0.99),
    idleGapMostMs: Math.max(...idle),
  };
}

/** How late each timer is, until `isOver`; only while `counts`. */
async function gaps(isOver: () => boolean, endsMs: number, counts: () => boolean = () => true): Promise<number[]> {
  const late: number[] = [];
  let seenMs = clock.monoMs();
  for (;;) {
    const beganMs = clock.monoMs();
    await sleep(clock, TICK_MS);
    const now = clock.monoMs();
    if (counts()) late.push(now - beganMs - TICK_MS);
    if (now > endsMs) return late;
    // Now and then: it costs more than a tick.
    if (now - seenMs < 1_000) continue;
    seenMs = now;
    if (isOver()) return late;
  }
}

/** Of children that have ended and were waited for: cutime and cstime. */
function childCpuSeconds(): number {
  const text = fs.readFileSync('/proc/self/stat', 'latin1');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[13]) + Number(fields[14])) / 100;
}

const hasChildren = (): boolean =>
  fs
    .readFileSync(`/proc/self/task/${process.pid}/children`, 'latin1')
    .trim()
    .split(' ')
    .some((pid) => pid !== '' && fs.readFileSync(`/proc/${pid}/comm`, 'latin1').startsWith('nodewarden-disk'));
