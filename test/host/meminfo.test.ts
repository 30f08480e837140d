import { describe, expect, it } from 'vitest';
import { createProcfs } from '../../src/host/procfs.ts';
import { aTree } from './tree.ts';

/** In MiB, each page in one of them. */
const NOTHING = {
  anon: 0,
  lockedAnon: 0,
  shared: 0,
  lockedShared: 0,
  lockedFile: 0,
  /** In the swap cache and mapped again; or not mapped: swapped out soon, or read ahead. */
  mappedSwap: 0,
  unmappedSwap: 0,
  /** Parts of huge pages that their processes gave back. */
  parts: 0,
  /** No longer mapped, but a pipe refers to it. */
  spliced: 0,
  pipes: 0,
};
type Held = Partial<typeof NOTHING>;
const SIZE = 2 ** 20;
const TOTAL = 10_000;
const ZONE =
  'Node 0, zone Normal\n        min      1\n        low      2\n        managed  9\n        protection: (0)\n';
const HUGE = 'sys/kernel/mm/transparent_hugepage';

/** As the kernel counts it: locked memory is on none of the lists, and what is not mapped not in AnonPages. */
function meminfoOf(held: Held): string {
  const mib = { ...NOTHING, ...held };
  const used = Object.values(mib).reduce((sum, size) => sum + size, 0);
  const shared = mib.shared + mib.lockedShared;
  const fields = {
    MemTotal: TOTAL,
    MemFree: TOTAL - used,
    SwapCached: mib.mappedSwap + mib.unmappedSwap,
    AnonPages: mib.anon + mib.lockedAnon + mib.mappedSwap,
    'Active(anon)': mib.anon + mib.shared,
    'Inactive(anon)': mib.mappedSwap + mib.unmappedSwap + mib.parts + mib.spliced,
    Unevictable: mib.lockedAnon + mib.lockedShared + mib.lockedFile,
    Cached: shared + mib.lockedFile,
    Shmem: shared,
  };
  const none = ['Buffers', 'Slab', 'SReclaimable', 'KernelStack', 'PageTables', 'Percpu', 'Hugetlb'];
  const lines = [...Object.entries(fields), ...none.map((name): [string, number] => [name, 0])];
  return lines.map(([name, size]) => `${name}: ${size * 1024} kB\n`).join('');
}

/** How many MiB count as used by what has no name. */
function unnamedMib(held: Held, huge: Readonly<Record<string, string>> = { [`${HUGE}/enabled`]: 'always\n' }): unknown {
  const own = createProcfs(aTree({ 'proc/meminfo': meminfoOf(held), 'proc/zoneinfo': ZONE, ...huge })).kernelsOwn();
  return own.known ? own.value.unnamedBytes / SIZE : own;
}

/** From Linux 6.12 on. */
const partlyMapped = (pagesOf2MiB: number) => ({
  [`${HUGE}/hugepages-2048kB/stats/nr_anon_partially_mapped`]: `${pagesOf2MiB}\n`,
  [`${HUGE}/hugepages-64kB/stats/nr_anon_partially_mapped`]: '0\n',
});

describe('what meminfo names nowhere', () => {
  it.each<[Held, number]>([
    [{ pipes: 500 }, 500],
    [{ pipes: 500, anon: 1_000, shared: 300, lockedFile: 50 }, 500],
    [{ parts: 1_000 }, 0],
    [{ parts: 1_000, pipes: 500, anon: 2_000, shared: 300 }, 500],
    [{ unmappedSwap: 400, pipes: 500 }, 500],
    [{ mappedSwap: 400, pipes: 500 }, 500],
    [{ mappedSwap: 400, unmappedSwap: 300, pipes: 500, anon: 100 }, 500],
    [{ unmappedSwap: 400, lockedAnon: 1_000, pipes: 500 }, 500],
    [{ unmappedSwap: 400, lockedShared: 1_000, pipes: 500 }, 500],
  ])('%j: %d MiB', (held, expected) => {
    expect(unnamedMib(held)).toBe(expected);
  });

  it('may be less by as much swap cache as there are locked files', () => {
    expect(unnamedMib({ mappedSwap: 400, lockedFile: 100, pipes: 500 })).toBe(400);
  });

  it('includes parts of huge pages that locked memory hides', () => {
    expect(unnamedMib({ parts: 1_000, lockedAnon: 300 })).toBe(300);
  });

  it('includes what is mapped nowhere, but that the kernel would not free by splitting huge pages', () => {
    expect(unnamedMib({ spliced: 500 }, partlyMapped(0))).toBe(500);
    expect(unnamedMib({ spliced: 500, parts: 198 }, partlyMapped(100))).toBe(498);
    expect(unnamedMib({ parts: 1_000 }, partlyMapped(600))).toBe(0);
    expect(unnamedMib({ spliced: 500 }, {})).toBe(500);
    // An older kernel does not tell the two apart.
    expect(unnamedMib({ spliced: 500 })).toBe(0);
  });

  it('is unknown if the count of such huge pages is no number', () => {
    const damaged = { [`${HUGE}/hugepages-2048kB/stats/nr_anon_partially_mapped`]: 'many\n' };
    expect(unnamedMib({}, damaged)).toMatchObject({ known: false, why: 'malformed' });
  });
});
