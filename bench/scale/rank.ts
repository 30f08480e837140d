import { execFileSync } from 'node:child_process';
import { rank } from '../../src/core/eviction/rank.ts';
import { known } from '../../src/core/reading.ts';
import { createClock } from '../../src/host/clock.ts';
import { aPod } from '../../test/a.ts';
import { quantile } from '../result.ts';

export type RankRow = {
  readonly pods: number;
  /** Of a process that has ranked nothing yet. */
  readonly firstMs: number;
  readonly medianMs: number;
  readonly p99Ms: number;
  /** Mean over the process, the collector's threads included. */
  readonly cpuMs: number;
};

const clock = createClock();
const ROUNDS = 100;
const MIB = 2 ** 20;

/** Few priorities and many equals, as on a node: ties are the dear part. */
function somePods(count: number) {
  return Array.from({ length: count }, (_, i) =>
    aPod({
      name: `pod-${(i * 7_919) % count}`,
      priority: (i % 5) * 1_000,
      requests: { memoryBytes: (i % 3) * 64 * MIB, ephemeralStorageBytes: 0 },
      usage: { workingSetBytes: known(((i * 2_654_435) % 97) * MIB) },
      startedAtWallMs: i % 50,
    }),
  );
}

/** In a process of its own. */
export function rankingOfNewProcess(count: number): RankRow {
  const script = `import(process.argv[1]).then((rank) => console.log(JSON.stringify(rank.measureRanking(${count}))))`;
  const args = ['--import', 'tsx', '--eval', script, import.meta.filename];
  return JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8', cwd: import.meta.dirname }));
}

/** Ranks for memory.available, which reads nothing. */
export function measureRanking(count: number): RankRow {
  const pods = somePods(count);
  const once = (): number => {
    const beganMs = clock.monoMs();
    const ranked = rank('memory.available', pods, 'nodefs-only');
    if (ranked.length !== count) throw new Error('pods were lost');
    return clock.monoMs() - beganMs;
  };
  const firstMs = once();
  const cpuBefore = process.cpuUsage();
  const all = Array.from({ length: ROUNDS }, once);
  const { user, system } = process.cpuUsage(cpuBefore);
  const cpuMs = (user + system) / 1_000 / ROUNDS;
  return { pods: count, firstMs, medianMs: quantile(all, 0.5), p99Ms: quantile(all, 0.99), cpuMs };
}
