import { mkdirSync, rmdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { known } from '../../src/core/reading.ts';
import { openMemory } from '../../src/host/cgroup/cgroup-memory.ts';
import type { CgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { openPids } from '../../src/host/cgroup/cgroupfs.ts';
import { aCgroup, aProcess, limitMemory, machine, until } from './test-cgroup.ts';
import { aDamagedTree, aTree, DAMAGE } from './tree.ts';

const v1 = (root: string): CgroupMounts => ({
  layout: 'v1',
  version: 1,
  unified: null,
  memory: root,
  pids: root,
  systemd: null,
});
const v2 = (root: string): CgroupMounts => ({ ...v1(root), layout: 'v2', version: 2, unified: root });

const V1_FILES = {
  'memory.usage_in_bytes': '1000\n',
  'memory.limit_in_bytes': '9223372036854771712\n',
  'memory.kmem.usage_in_bytes': '50\n',
  'memory.stat': 'inactive_file 1\ntotal_rss 10\ntotal_inactive_file 300\ntotal_active_file 7\n',
};
const V2_FILES = {
  'a/memory.current': '1000\n',
  'a/memory.max': 'max\n',
  'a/memory.stat': 'anon 10\nfile 20\nkernel 5\nslab_reclaimable 3\ninactive_file 300\nactive_file 7\n',
};

describe('working set (kubelet-eviction.md 1.1.1)', () => {
  it('on version 1 is the usage minus total_inactive_file', () => {
    const memory = openMemory(v1(aTree(V1_FILES)), '/');
    expect(memory.read()).toEqual(known({ usageBytes: 1000, workingSetBytes: 700, inactiveFileBytes: 300 }));
  });

  it('on version 2 is memory.current minus inactive_file', () => {
    const memory = openMemory(v2(aTree(V2_FILES)), '/a');
    expect(memory.read()).toEqual(known({ usageBytes: 1000, workingSetBytes: 700, inactiveFileBytes: 300 }));
  });

  it('is 0 if more is inactive than used', () => {
    const memory = openMemory(v1(aTree({ ...V1_FILES, 'memory.usage_in_bytes': '299\n' })), '/');
    expect(memory.read()).toMatchObject({ value: { usageBytes: 299, workingSetBytes: 0 } });
  });

  it('is the usage if memory.stat has no such line', () => {
    const memory = openMemory(v1(aTree({ ...V1_FILES, 'memory.stat': 'inactive_file 1\ntotal_rss 10\n' })), '/');
    expect(memory.read()).toMatchObject({ value: { workingSetBytes: 1000, inactiveFileBytes: 0 } });
  });

  it('of the root of version 2 is anon + file minus inactive_file of the same text', () => {
    const root = aTree({ 'memory.stat': 'anon 3000\nfile 2000\ninactive_file 1500\n' });
    const memory = openMemory(v2(root), '/');
    expect(memory.read()).toEqual(known({ usageBytes: 5000, workingSetBytes: 3500, inactiveFileBytes: 1500 }));
    expect(memory.limit()).toEqual(known(null));
  });

  it('is not guessed if memory.current is missing below the root of version 2', () => {
    const memory = openMemory(v2(aTree({ 'a/memory.stat': V2_FILES['a/memory.stat'] })), '/a');
    expect(memory.read()).toMatchObject({ known: false, why: 'absent' });
    expect(memory.limit()).toMatchObject({ known: false, why: 'absent' });
  });
});

describe('damaged files', () => {
  it.each(DAMAGE)('usage: $name is $why', ({ text, why }) => {
    const root = aDamagedTree(V1_FILES, 'memory.usage_in_bytes', text);
    expect(openMemory(v1(root), '/').read()).toMatchObject({ known: false, why });
  });

  it.each(DAMAGE)('limit: $name is $why', ({ text, why }) => {
    const root = aDamagedTree(V2_FILES, 'a/memory.max', text);
    expect(openMemory(v2(root), '/a').limit()).toMatchObject({ known: false, why });
  });

  it.each([
    { name: 'empty', text: '', why: 'malformed' },
    { name: 'cut in the middle of a number', text: 'total_rss 10\ntotal_inactive_file 3', why: 'malformed' },
    { name: 'cut before the line', text: 'total_rss 10\ntotal_ina', why: 'malformed' },
    { name: 'text for a number', text: 'total_inactive_file none\n', why: 'malformed' },
    { name: 'no number', text: 'total_inactive_file \n', why: 'malformed' },
    { name: 'a unit', text: 'total_inactive_file 3 kB\n', why: 'malformed' },
    { name: 'a negative number', text: 'total_inactive_file -3\n', why: 'malformed' },
    { name: 'a directory', text: null, why: 'unreadable' },
    { name: 'missing', text: undefined, why: 'absent' },
  ])('memory.stat: $name is $why', ({ text, why }) => {
    const root = aDamagedTree(V1_FILES, 'memory.stat', text);
    expect(openMemory(v1(root), '/').read()).toMatchObject({ known: false, why });
  });

  it('an endless memory.stat is not read to its end', () => {
    const root = aTree({ ...V1_FILES, 'memory.stat': 'x 1\n'.repeat(100_000) });
    const detail = 'longer than 65536 bytes';
    expect(openMemory(v1(root), '/').read()).toMatchObject({ known: false, why: 'malformed', detail });
  });

  it('lines that a newer kernel adds are ignored, wherever they are', () => {
    const text = `total_inactive_file_new 9\nxtotal_inactive_file 8\n${'new 1\n'.repeat(2000)}total_inactive_file 300\nlast 2\n`;
    expect(openMemory(v1(aTree({ ...V1_FILES, 'memory.stat': text })), '/').read()).toMatchObject({
      value: { workingSetBytes: 700 },
    });
  });
});

describe('numbers', () => {
  it.each([
    ['9007199254740991\n', Number.MAX_SAFE_INTEGER],
    ['9007199254740993\n', Number.MAX_SAFE_INTEGER],
    ['18446744073709551615\n', Number.MAX_SAFE_INTEGER],
    ['0\n', 0],
  ])('a usage of %j saturates at 2^53 - 1', (text, usageBytes) => {
    const memory = openMemory(v1(aTree({ ...V1_FILES, 'memory.usage_in_bytes': text })), '/');
    expect(memory.read()).toMatchObject({ value: { usageBytes } });
  });

  it.each([
    ['max\n', null],
    ['9223372036854771712\n', null],
    ['18446744073709551615\n', null],
    ['4611686018427387904\n', Number.MAX_SAFE_INTEGER],
    ['4611686018427388928\n', null],
    ['104857600\n', 104857600],
    ['0\n', 0],
  ])('a limit of %j is %j', (text, limit) => {
    expect(openMemory(v2(aTree({ ...V2_FILES, 'a/memory.max': text })), '/a').limit()).toEqual(known(limit));
  });

  it.each(['max', 'maximum\n', 'max\n\n', ' max\n'])('a limit of %j is malformed', (text) => {
    expect(openMemory(v2(aTree({ ...V2_FILES, 'a/memory.max': text })), '/a').limit()).toMatchObject({
      why: 'malformed',
    });
  });
});

describe('the parts of memory (product.md section 8)', () => {
  it('version 1 has kernel memory in a file of its own and does not report how much of it is reclaimable', () => {
    const stat = openMemory(v1(aTree(V1_FILES)), '/').stat();
    expect(stat).toMatchObject({
      value: {
        anonBytes: known(10),
        kernelBytes: known(50),
        slabReclaimableBytes: null,
        inactiveFileBytes: known(300),
        activeFileBytes: known(7),
        shmemBytes: { known: false, why: 'absent', detail: 'no line total_shmem' },
      },
    });
  });

  it('version 2 has it in memory.stat; before 5.18, it is the sum of its parts', () => {
    const memory = openMemory(v2(aTree(V2_FILES)), '/a');
    expect(memory.stat()).toMatchObject({ value: { kernelBytes: known(5), slabReclaimableBytes: known(3) } });
    const old = 'anon 10\nfile 20\nkernel_stack 1\npercpu 2\nslab 4\nslab_reclaimable 3\n';
    expect(openMemory(v2(aTree({ ...V2_FILES, 'a/memory.stat': old })), '/a').stat()).toMatchObject({
      value: { kernelBytes: known(7) },
    });
  });
});

describe('pids', () => {
  it('are threads, with a limit or none', () => {
    const pids = openPids(v2(aTree({ 'a/pids.current': '12\n', 'a/pids.max': 'max\n' })), '/a');
    expect([pids.current(), pids.max()]).toEqual([known(12), known(null)]);
  });

  it('a host without the controller says that the signal does not apply', () => {
    const pids = openPids({ ...v1('/none'), pids: null }, '/a');
    expect([pids.current(), pids.max()]).toMatchObject([{ why: 'not-applicable' }, { why: 'not-applicable' }]);
  });
});

describe.skipIf(machine === null)('real cgroups [needs root and a writable memory hierarchy]', () => {
  const mounts = machine ?? v1('/none');
  const directory = (path: string): string => mounts.memory + path;

  it('usage and working set of a process, its parts, and the limit', async () => {
    const path = aCgroup(mounts.memory);
    const memory = openMemory(mounts, path);
    expect(memory.limit()).toEqual(known(null));
    limitMemory(mounts, path, 256 * 2 ** 20);
    expect(memory.limit()).toEqual(known(256 * 2 ** 20));
    await aProcess('globalThis.kept = Buffer.alloc(64 * 2 ** 20, 1)', directory(path));
    const use = memory.read();
    if (!use.known) throw new Error(use.detail);
    expect(use.value.usageBytes).toBeGreaterThan(64 * 2 ** 20);
    expect(use.value.usageBytes).toBeLessThanOrEqual(256 * 2 ** 20);
    expect(use.value.workingSetBytes).toBe(use.value.usageBytes - use.value.inactiveFileBytes);
    const stat = memory.stat();
    if (!stat.known) throw new Error(stat.detail);
    for (const part of Object.values(stat.value)) if (part !== null) expect(part).toMatchObject({ known: true });
    memory.close();
  });

  it('a kept reader of a removed cgroup reports absent, and reads the next one under its path', async () => {
    const path = aCgroup(mounts.memory);
    const memory = openMemory(mounts, path);
    expect(memory.read()).toMatchObject({ known: true });
    rmdirSync(directory(path));
    expect(memory.read()).toMatchObject({ known: false, why: 'absent' });
    expect(memory.limit()).toMatchObject({ known: false, why: 'absent' });
    mkdirSync(directory(path));
    expect(memory.read()).toMatchObject({ known: true });
    rmdirSync(directory(path));
    mkdirSync(directory(path));
    expect(memory.read()).toMatchObject({ known: true });
  });

  it.skipIf(machine?.pids === null)('the threads of a process [needs the pids controller]', async () => {
    const hierarchy = mounts.pids ?? '/none';
    const path = aCgroup(hierarchy);
    const pids = openPids(mounts, path);
    expect([pids.current(), pids.max()]).toEqual([known(0), known(null)]);
    const child = await aProcess('', hierarchy + path);
    const running = pids.current();
    // Node has several threads in one process.
    expect(running.known && running.value).toBeGreaterThan(1);
    child.kill('SIGKILL');
    await until(() => child.ended() !== null);
    expect(pids.current()).toEqual(known(0));
  });
});
