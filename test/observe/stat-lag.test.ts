import { describe, expect, it } from 'vitest';
import { createProcfs } from '../../src/host/procfs.ts';
import { createNodeMemory, createStatLag, type StatLag } from '../../src/observe/memory.ts';
import { MI } from '../a.ts';
import { whenOpened } from '../host/a-pipe.ts';
import { aTree } from '../host/tree.ts';

/** `sums`: how often everything below was to be summed; each time there are so many `cgroups`. */
function follow(cgroups = 1): {
  readonly at: StatLag;
  readonly sums: () => number;
  readonly settled: () => Promise<void>;
} {
  let sums = 0;
  const at = createStatLag(async () => {
    sums += 1;
    return cgroups;
  });
  return { at, sums: () => sums, settled: async () => await new Promise((resolve) => setImmediate(resolve)) };
}

describe('figures of memory.stat that lag behind the usage', () => {
  it.each([100 * MI, -100 * MI])('are summed when %d bytes of the usage are missing in them', (missing) => {
    const { at, sums } = follow();
    at(0, 2 * MI);
    expect(sums()).toBe(0);
    at(20, missing);
    expect(sums()).toBe(1);
  });

  it('are summed again soon while they lag, and less often the more cgroups there are', async () => {
    const { at, sums, settled } = follow(500);
    at(0, 20 * MI);
    at(600, 30 * MI);
    expect(sums()).toBe(1);
    await settled();
    at(500, 40 * MI);
    expect(sums()).toBe(1);
    at(600, 50 * MI);
    expect(sums()).toBe(2);
  });

  it('do not lag if that memory is in none of them: after 3 s only what changes counts', async () => {
    const { at, sums, settled } = follow();
    for (let ms = 0; ms <= 3_100; ms += 100) {
      at(ms, 64 * MI);
      await settled();
    }
    const before = sums();
    at(3_200, 65 * MI);
    expect(sums()).toBe(before);
    at(3_300, 90 * MI);
    expect(sums()).toBe(before + 1);
  });

  it('a lag at two rare looks is not one that lasts', async () => {
    const { at, sums, settled } = follow();
    at(0, 64 * MI);
    await settled();
    at(10_000, 64 * MI);
    await settled();
    at(10_100, 64 * MI);
    expect(sums()).toBe(3);
  });
});

const FIELDS = 'rss shmem unevictable dirty writeback cache active_file inactive_file workingset_refault_file';

it('a bounded node whose own figures lag reads those of the cgroups below', async () => {
  const memoryRoot = aTree({
    'node/memory.limit_in_bytes': `${512 * MI}\n`,
    'node/memory.usage_in_bytes': `${300 * MI}\n`,
    'node/memory.kmem.usage_in_bytes': '0\n',
    'node/memory.stat': FIELDS.split(' ')
      .map((field) => `total_${field} 0\n`)
      .join(''),
    'node/web': null,
  });
  const procfs = createProcfs();
  const mounts = { layout: 'v1', version: 1, unified: null, memory: memoryRoot, pids: null, systemd: null } as const;
  const memory = createNodeMemory({ mounts, procfs, cgroupRoot: '/node', memoryAvailable: 'reclaimable' });
  try {
    const opened = whenOpened(Buffer.from(`${memoryRoot}/node/web/memory.stat`));
    expect(memory.available(0)).toMatchObject({ known: true });
    await opened;
  } finally {
    memory.close();
    procfs.close();
  }
});
