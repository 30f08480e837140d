import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { CgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { createProcfs } from '../../src/host/procfs.ts';
import { createNodeMemory } from '../../src/observe/memory.ts';

const MIB = 2 ** 20;
const CAPTURED = new URL('../fixtures/6.18.44-hybrid-plain', import.meta.url).pathname;

/** The captured machine, with its figures as they are changed. */
function aMachine() {
  const root = mkdtempSync(join(tmpdir(), 'nodewarden-memory-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
  cpSync(CAPTURED, root, { recursive: true });
  const memory = join(root, 'sys/fs/cgroup/memory');
  const mounts: CgroupMounts = { layout: 'hybrid', version: 1, unified: null, memory, pids: null, systemd: null };
  const node = createNodeMemory({
    mounts,
    procfs: createProcfs(root),
    cgroupRoot: '/',
    memoryAvailable: 'reclaimable',
  });
  onTestFinished(node.close);
  /** The number is the last group. */
  const grow = (file: string, field: RegExp, by: number): void => {
    const path = join(root, 'proc', file);
    const grown = readFileSync(path, 'latin1').replace(field, (found, _, number) =>
      found.replace(/\d+$/, String(Number(number) + by)),
    );
    writeFileSync(path, grown);
  };
  return {
    availableMiB: (atMs: number): number => {
      const sample = node.available(atMs);
      if (!sample.known) throw new Error(`${sample.where}: ${sample.detail}`);
      return Math.round(sample.value.available / MIB);
    },
    /** Takes so much of what is free, and gives it to nobody that meminfo names. */
    lose: (mib: number) => grow('meminfo', /^(MemFree: +)(\d+)/m, -mib * 1024),
    /** Anonymous memory takes what had no name. */
    give: (mib: number) => grow('meminfo', /^(AnonPages: +)(\d+)/m, mib * 1024),
    /** Anonymous memory is unmapped, but not free yet. */
    unmap: (mib: number) => grow('meminfo', /^(AnonPages: +)(\d+)/m, -mib * 1024),
    /** The kernel could free these huge pages of 2 MiB by splitting them. */
    split: (count: number) => {
      const path = join(root, 'sys/kernel/mm/transparent_hugepage/hugepages-2048kB/stats');
      mkdirSync(path, { recursive: true });
      writeFileSync(join(path, 'nr_anon_partially_mapped'), `${count}\n`);
    },
    /** A CPU keeps so many more of the free pages for itself. */
    keep: (mib: number) => grow('zoneinfo', /zone +Normal[\s\S]*?( +count: +)(\d+)/, mib * 256),
  };
}

describe('what could be freed of the machine', () => {
  it('leaves out what drivers, pipes and sockets hold, all but 128 MiB of it at once', () => {
    const machine = aMachine();
    const before = machine.availableMiB(0);
    machine.lose(1_000);
    expect(machine.availableMiB(20)).toBe(before - 872);
    expect(machine.availableMiB(40)).toBe(before - 872);
    expect(machine.availableMiB(50)).toBe(before - 1_000);
    machine.lose(-1_000);
    expect(machine.availableMiB(70)).toBe(before);
  });

  it('includes free pages that the kernel hands to the host for a moment, again and again', () => {
    const machine = aMachine();
    const before = machine.availableMiB(0);
    for (let atMs = 20; atMs <= 2_000; atMs += 40) {
      machine.lose(128);
      expect(machine.availableMiB(atMs)).toBe(before);
      expect(machine.availableMiB(atMs + 14)).toBe(before);
      machine.lose(-128);
      expect(machine.availableMiB(atMs + 16)).toBe(before);
    }
  });

  it('follows a pod that fills pipes at 1 GiB/s within 50 ms', () => {
    const machine = aMachine();
    const before = machine.availableMiB(0);
    for (let atMs = 20; atMs <= 2_000; atMs += 20) {
      machine.lose(20);
      expect(machine.availableMiB(atMs)).toBeLessThanOrEqual(before - (atMs - 50));
    }
  });

  it('includes the free pages that CPUs keep for themselves', () => {
    const machine = aMachine();
    const before = machine.availableMiB(0);
    machine.lose(1_000);
    machine.keep(1_000);
    expect(machine.availableMiB(20)).toBe(before);
    expect(machine.availableMiB(60)).toBe(before);
  });

  it('includes parts of huge pages that a process gave back, but not what only a pipe still refers to', () => {
    const machine = aMachine();
    machine.split(100);
    const before = machine.availableMiB(0);
    machine.unmap(200);
    // Some memory of this machine is locked.
    expect(machine.availableMiB(20)).toBeGreaterThanOrEqual(before + 200 - 22);
    machine.unmap(200);
    machine.availableMiB(40);
    expect(machine.availableMiB(80)).toBeLessThanOrEqual(before + 200);
  });

  it('does not count twice what was just read into memory', () => {
    const machine = aMachine();
    const before = machine.availableMiB(0);
    machine.lose(1_000);
    machine.availableMiB(20);
    expect(machine.availableMiB(60)).toBe(before - 1_000);
    machine.give(1_000);
    expect(machine.availableMiB(62)).toBe(before - 1_000);
    expect(machine.availableMiB(80)).toBe(before - 1_000);
  });

  it('follows what leaks slowly within 10 s', () => {
    const machine = aMachine();
    const before = machine.availableMiB(0);
    machine.lose(5);
    machine.availableMiB(10_000);
    expect(machine.availableMiB(10_030)).toBe(before - 5);
  });
});
