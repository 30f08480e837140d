import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { findCgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { createProcfs } from '../../src/host/procfs.ts';
import { createNodeMemory } from '../../src/observe/memory.ts';

const MIB = 2 ** 20;
const CAPTURED = new URL('../fixtures/6.1.192-v2-debian12', import.meta.url).pathname;

type Use = {
  readonly minMib: number;
  readonly anonMib?: number;
  readonly cacheMib?: number;
  readonly dirtyMib?: number;
};

/** The captured machine, with 1,000 MiB of page cache. */
function aMachine({ isRecursive = true } = {}) {
  const root = mkdtempSync(join(tmpdir(), 'nodewarden-protected-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
  cpSync(CAPTURED, root, { recursive: true });
  const edit = (file: string, change: (text: string) => string): void =>
    writeFileSync(join(root, file), change(readFileSync(join(root, file), 'latin1')));
  edit('proc/meminfo', (text) => text.replace(/^(Inactive\(file\): +)\d+/m, `$1${1_000 * 1024}`));
  if (!isRecursive) edit('proc/self/mountinfo', (text) => text.replace(',memory_recursiveprot', ''));
  const mounts = findCgroupMounts(root);
  if (!mounts.known) throw new Error(mounts.detail);
  const node = createNodeMemory({
    mounts: mounts.value,
    procfs: createProcfs(root),
    cgroupRoot: '/',
    memoryAvailable: 'reclaimable',
  });
  onTestFinished(node.close);
  const at = (path: string): string => join(root, 'sys/fs/cgroup', path);
  let nowMs = 0;
  const after = (ms: number) => {
    nowMs += ms;
    return node.available(nowMs);
  };
  const available = () => after(10_000);
  const availableMiB = (): number => {
    const sample = available();
    if (!sample.known) throw new Error(`${sample.where}: ${sample.detail}`);
    return Math.round(sample.value.available / MIB);
  };
  return {
    /** A cgroup with all of its descendants' memory. */
    add: (path: string, { minMib, anonMib = 0, cacheMib = 0, dirtyMib = 0 }: Use): void => {
      mkdirSync(at(path), { recursive: true });
      const stat = { anon: anonMib, file: cacheMib, kernel: 0, shmem: 0, unevictable: 0, file_writeback: 0 };
      const cache = { file_dirty: dirtyMib, active_file: 0, inactive_file: cacheMib, slab_reclaimable: 0 };
      const lines = Object.entries({ ...stat, ...cache }).map(([name, mib]) => `${name} ${mib * MIB}\n`);
      writeFileSync(join(at(path), 'memory.stat'), lines.join(''));
      writeFileSync(join(at(path), 'memory.current'), `${(anonMib + cacheMib) * MIB}\n`);
      writeFileSync(join(at(path), 'memory.min'), `${minMib * MIB}\n`);
    },
    /** Anonymous memory of the node that was page cache before. */
    replaceCache: (mib: number) =>
      edit('proc/meminfo', (text) =>
        text.replace(/^(AnonPages: +)(\d+)/m, (_, name: string, kib: string) => `${name}${Number(kib) + mib * 1024}`),
      ),
    write: (path: string, text: string) => writeFileSync(at(path), text),
    remove: (path: string) => rmSync(at(path), { recursive: true }),
    available,
    availableMiB,
    /** Milliseconds after the last reading. */
    soonMiB: (afterMs: number): number => {
      const sample = after(afterMs);
      return sample.known ? Math.round(sample.value.available / MIB) : Number.NaN;
    },
  };
}

describe('page cache that memory.min protects', () => {
  it('does not count as what could be freed', () => {
    const machine = aMachine();
    const before = machine.availableMiB();
    machine.add('db.slice', { minMib: 500, anonMib: 310, cacheMib: 400 });
    machine.add('db.slice/db.service', { minMib: 450, anonMib: 10, cacheMib: 400 });
    machine.add('db.slice/other.service', { minMib: 0, anonMib: 300 });
    expect(before - machine.availableMiB()).toBe(400);
  });

  it('counts only as far as all above it protect it, too', () => {
    const machine = aMachine();
    const before = machine.availableMiB();
    machine.add('db.slice', { minMib: 0, cacheMib: 400 });
    machine.add('db.slice/db.service', { minMib: 400, cacheMib: 400 });
    expect(machine.availableMiB()).toBe(before);
    machine.write('db.slice/memory.min', `${100 * MIB}\n`);
    expect(before - machine.availableMiB()).toBe(100);
    machine.write('db.slice/memory.min', 'max\n');
    expect(before - machine.availableMiB()).toBe(400);
  });

  it('below a slice that alone has a minimum depends on how the cgroups are mounted', () => {
    for (const [isRecursive, expected] of [
      [true, 300],
      [false, 0],
    ] as const) {
      const machine = aMachine({ isRecursive });
      const before = machine.availableMiB();
      machine.add('db.slice', { minMib: 300, cacheMib: 400 });
      machine.add('db.slice/a.service', { minMib: 0, cacheMib: 300 });
      machine.add('db.slice/b.service', { minMib: 0, cacheMib: 100 });
      expect(before - machine.availableMiB()).toBe(expected);
    }
  });

  it('is only what other memory does not use of the minimum, and not what must be written first', () => {
    const machine = aMachine();
    const before = machine.availableMiB();
    machine.add('db.service', { minMib: 400, anonMib: 250, cacheMib: 400, dirtyMib: 30 });
    // All but 280 of the 400: the dirty pages of the machine count by themselves.
    expect(before - machine.availableMiB()).toBe(120);
  });

  it('of more services than are read one by one is at least what the slice as a whole keeps', () => {
    const machine = aMachine();
    const before = machine.availableMiB();
    machine.add('db.slice', { minMib: 300, anonMib: 100, cacheMib: 400 });
    for (let i = 0; i < 100; i++) machine.add(`db.slice/${i}.service`, { minMib: 3, anonMib: 1, cacheMib: 4 });
    expect(before - machine.availableMiB()).toBe(200);
  });

  it('counts in every cgroup below the node, however many there are, and in each of several slices', () => {
    const machine = aMachine();
    const before = machine.availableMiB();
    for (let i = 0; i < 90; i++) machine.add(`${i}.service`, { minMib: 5, cacheMib: 5 });
    for (const slice of ['a.slice', 'b.slice']) {
      machine.add(slice, { minMib: 100, anonMib: 100, cacheMib: 100 });
      machine.add(`${slice}/other.service`, { minMib: 0, anonMib: 100 });
      for (let i = 0; i < 20; i++) machine.add(`${slice}/${i}.service`, { minMib: 5, cacheMib: 5 });
    }
    expect(before - machine.availableMiB()).toBe(650);
  });

  it('counts no more within 10 s of many readings once it is protected in none of many cgroups', () => {
    const machine = aMachine();
    const before = machine.availableMiB();
    const names = Array.from({ length: 200 }, (_, i) => `${i}.service`);
    for (const name of names) machine.add(name, { minMib: 1, cacheMib: 1 });
    expect(before - machine.availableMiB()).toBe(200);
    for (const name of names) machine.write(`${name}/memory.min`, '0\n');
    for (let i = 0; i < 99; i++) machine.soonMiB(100);
    expect(machine.soonMiB(100)).toBe(before);
  });

  it('is not counted twice when memory of its own cgroup takes its place, however many cgroups there are', () => {
    const machine = aMachine();
    machine.add('db.service', { minMib: 500, cacheMib: 500 });
    for (let i = 0; i < 1_000; i++) machine.add(`s${i}.service`, { minMib: 0 });
    const before = machine.availableMiB();
    machine.add('db.service', { minMib: 500, anonMib: 500 });
    machine.replaceCache(500);
    // Not to the byte: some page cache is kept free of reclaim anyway.
    expect(Math.abs(machine.soonMiB(1_000) - before)).toBeLessThan(50);
  });

  it('can be freed again soon after its cgroup is gone', () => {
    const machine = aMachine();
    const before = machine.availableMiB();
    machine.add('db.service', { minMib: 400, cacheMib: 400 });
    expect(before - machine.availableMiB()).toBe(400);
    machine.remove('db.service');
    expect(machine.soonMiB(100)).toBe(before);
  });

  it('makes memory.available unknown if it cannot be read, with the reason', () => {
    const machine = aMachine();
    machine.add('db.slice', { minMib: 400, cacheMib: 400 });
    machine.write('db.slice/memory.min', 'none\n');
    expect(machine.available()).toMatchObject({
      why: 'malformed',
      where: expect.stringMatching(/db.slice\/memory.min$/),
    });
  });
});
