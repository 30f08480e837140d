import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { known } from '../../src/core/reading.ts';
import { openMemory } from '../../src/host/cgroup/cgroup-memory.ts';
import { type CgroupMounts, findCgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { oomKillsOf } from '../../src/host/cgroup/cgroup-oom.ts';
import { anonBytes, isPopulated, openPids, processesOf, refOf } from '../../src/host/cgroup/cgroupfs.ts';
import { createProcfs } from '../../src/host/procfs.ts';

const FIXTURES = join(import.meta.dirname, '../fixtures');
const POD = '/kubepods/burstable/pod1c2b6a5e-7a53-4e0a-9d0c-6f6d1f0e8f11';
const names = readdirSync(FIXTURES, { withFileTypes: true }).flatMap((entry) =>
  entry.isDirectory() ? [entry.name] : [],
);

/** The obvious way to read a number, beside the fast one. */
const numberIn = (path: string): number => Number(readFileSync(path, 'latin1').trim());
function fieldIn(path: string, name: string): number {
  const line = readFileSync(path, 'latin1')
    .split('\n')
    .find((text) => text.split(/[ :]/)[0] === name);
  return Number(line?.split(/ +/)[1]);
}
/** Line by line; of each zone no more than it has. */
function reservedPagesIn(path: string, watermark: 'low' | 'min'): number {
  const zone = { kept: 0, managed: 0 };
  let pages = 0;
  for (const line of readFileSync(path, 'latin1').split('\n')) {
    const [name, ...rest] = line.trim().split(/[ :(),]+/);
    if (name === watermark) zone.kept = Number(rest[0]);
    if (name === 'managed') zone.managed = Number(rest[0]);
    if (name === 'protection') pages += Math.min(zone.managed, zone.kept + Math.max(...rest.map(Number)));
  }
  return pages;
}

it('there are trees of version 1, version 2, a hybrid and one without pressure files', () => {
  const layouts = names.map((name) => name.split('-')[1]);
  expect([...new Set(layouts)].sort()).toEqual(['hybrid', 'v1', 'v2']);
  expect(names.filter((name) => name.endsWith('no-psi'))).toHaveLength(1);
});

describe.each(names)('%s', (name) => {
  const root = join(FIXTURES, name);
  const found = findCgroupMounts(root);
  if (!found.known) throw new Error(`${found.where}: ${found.detail}`);
  const mounts: CgroupMounts = found.value;
  const isV2 = mounts.version === 2;
  const cgroups = ['/', '/system.slice', '/system.slice/systemd-journald.service', '/kubepods', POD].filter((path) =>
    existsSync(join(mounts.memory, path, 'memory.stat')),
  );

  it('has the layout in its name, and mounts inside the tree', () => {
    expect(mounts.layout).toBe(name.split('-')[1]);
    for (const mount of [mounts.memory, mounts.pids]) expect(mount?.startsWith(`${root}/sys/fs/cgroup`)).toBe(true);
    expect(cgroups).toContain(POD);
  });

  it.each(cgroups)('memory of %s', (path) => {
    const directory = join(mounts.memory, path);
    const stat = join(directory, 'memory.stat');
    const isRootOfV2 = isV2 && path === '/';
    const usageBytes = isRootOfV2
      ? fieldIn(stat, 'anon') + fieldIn(stat, 'file')
      : numberIn(join(directory, isV2 ? 'memory.current' : 'memory.usage_in_bytes'));
    const inactiveFileBytes = fieldIn(stat, isV2 ? 'inactive_file' : 'total_inactive_file');
    const workingSetBytes = Math.max(0, usageBytes - inactiveFileBytes);
    const memory = openMemory(mounts, path);
    expect(memory.read()).toEqual(known({ usageBytes, workingSetBytes, inactiveFileBytes }));
    expect(memory.limit()).toEqual(known(path === POD ? 128 * 2 ** 20 : null));
    const parts = memory.stat();
    expect(parts).toMatchObject({ value: { anonBytes: known(fieldIn(stat, isV2 ? 'anon' : 'total_rss')) } });
    for (const part of Object.values(parts.known ? parts.value : {})) {
      if (part !== null) expect(part).toMatchObject({ known: true });
    }
    memory.close();
  });

  it('the pod has one process with more than 16 MiB of its own, its threads, and no OOM kill', async () => {
    const ref = refOf(mounts, POD);
    if (!ref.known) throw new Error(ref.detail);
    const facts = readFileSync(join(root, 'FACTS.md'), 'utf8');
    const pid = Number(/\(pid (\d+)\)/.exec(facts)?.[1]);
    expect(processesOf(mounts, ref.value)).toEqual(known([pid]));
    expect(isPopulated(mounts, ref.value)).toEqual(known(true));
    expect(await oomKillsOf(mounts, ref.value)).toEqual(known(0));
    const anon = anonBytes(mounts, ref.value);
    expect(anon.known && anon.value).toBeGreaterThan(16 * 2 ** 20);
    const pids = openPids(mounts, POD);
    const threads = pids.current();
    expect(threads.known && threads.value).toBeGreaterThan(1);
    expect(pids.max()).toEqual(known(null));
  });

  it('the machine', () => {
    const procfs = createProcfs(root);
    const proc = (path: string): string => join(root, 'proc', path);
    expect(procfs.memTotalBytes()).toEqual(known(fieldIn(proc('meminfo'), 'MemTotal') * 1024));
    const meminfo = procfs.meminfo();
    for (const field of Object.values(meminfo.known ? meminfo.value : { none: meminfo })) {
      expect(field).toMatchObject({ known: true });
    }
    const [, threads] = /\/(\d+) /.exec(readFileSync(proc('loadavg'), 'latin1')) ?? [];
    expect(procfs.tasks()).toEqual(known(Number(threads)));
    const limits = ['pid_max', 'threads-max'].map((file) => numberIn(proc(`sys/kernel/${file}`)));
    expect(procfs.pidLimit()).toEqual(known(Math.min(...limits)));
    expect(procfs.oomKills()).toEqual(known(fieldIn(proc('vmstat'), 'oom_kill')));
    for (const watermark of ['low', 'min'] as const) {
      const bytes = reservedPagesIn(proc('zoneinfo'), watermark) * 4096;
      expect(procfs.kernelsOwn()).toMatchObject({ value: { reserveBytes: { [watermark]: bytes } } });
    }
    expect(procfs.onlineCpus()).toEqual(known(2));
    for (const resource of ['memory', 'io', 'cpu'] as const) {
      const has = existsSync(proc(`pressure/${resource}`));
      expect(procfs.psi(resource)).toMatchObject(has ? { known: true } : { known: false, why: 'absent' });
      expect(has).toBe(!name.endsWith('no-psi'));
    }
    procfs.close();
  });
});
