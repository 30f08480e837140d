import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, rmdirSync } from 'node:fs';
import { describe, expect, it, onTestFinished } from 'vitest';
import { cgroupPathOf } from '../../src/host/cgroup/cgroup-members.ts';
import type { CgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { refOf } from '../../src/host/cgroup/cgroupfs.ts';
import { signalInCgroup } from '../../src/host/process/signal-process.ts';
import { isKernelThread } from '../../src/host/procfs.ts';
import type { CgroupRef } from '../../src/ports.ts';
import { aCgroup, aProcess, enter, machine, until } from './test-cgroup.ts';

function refTo(mounts: CgroupMounts, path: string): CgroupRef {
  const ref = refOf(mounts, path);
  if (!ref.known) throw new Error(ref.detail);
  return ref.value;
}

describe.skipIf(machine === null)('signalInCgroup [needs root and a writable memory hierarchy]', () => {
  const mounts = machine ?? { layout: 'v1', version: 1, unified: null, memory: '', pids: null, systemd: null };

  it('signals a process in the cgroup, and one below it', async () => {
    const path = aCgroup(mounts.memory);
    mkdirSync(`${mounts.memory}${path}/below`);
    const ref = refTo(mounts, path);
    const inside = await aProcess('', mounts.memory + path);
    const below = await aProcess('', `${mounts.memory}${path}/below`);
    expect(signalInCgroup(mounts, ref, inside.pid, 'SIGTERM')).toBe('sent');
    expect(signalInCgroup(mounts, ref, below.pid, 'SIGKILL')).toBe('sent');
    await until(() => inside.ended() !== null && below.ended() !== null);
    expect([inside.ended(), below.ended()]).toMatchObject([{ signal: 'SIGTERM' }, { signal: 'SIGKILL' }]);
  });

  it('refuses a process outside, even in a cgroup with a similar name, and one that left', async () => {
    const path = aCgroup(mounts.memory);
    const ref = refTo(mounts, path);
    mkdirSync(`${mounts.memory}${path}x`);
    const outside = await aProcess('');
    const alike = await aProcess('', `${mounts.memory}${path}x`);
    const left = await aProcess('', mounts.memory + path);
    enter(`${mounts.memory}${path}x`, left.pid);
    for (const { pid } of [outside, alike, left]) expect(signalInCgroup(mounts, ref, pid, 'SIGKILL')).toBe('not-ours');
    for (const process of [outside, alike, left]) expect(process.isAlive()).toBe(true);
    for (const { kill } of [alike, left]) kill('SIGKILL');
    await until(() => alike.ended() !== null && left.ended() !== null);
    await until(() => removed(`${mounts.memory}${path}x`));
  });

  it('treats one that is ending as gone, because the kernel no longer shows its cgroup', async () => {
    const path = aCgroup(mounts.memory);
    const ref = refTo(mounts, path);
    // Dead, and not reaped before its parent ends.
    const unreaped = `if (!fork) { open F, '>', $ARGV[0]; print F 0; close F; exit } else { $| = 1; print wait_pid(), "\n"; sleep 1000 }
      sub wait_pid { for (;;) { for (glob '/proc/[0-9]*') { if (open S, '<', "$_/stat") { my $s = <S>; return $1 if $s =~ /^(\\d+) .*\\) Z $$ / } } } }`;
    const parent = spawn('perl', ['-e', unreaped, `${mounts.memory}${path}/cgroup.procs`], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    onTestFinished(() => void parent.kill('SIGKILL'));
    const [said] = await once(parent.stdout, 'data');
    expect(signalInCgroup(mounts, ref, Number(said), 'SIGKILL')).toBe('gone');
  });

  it('refuses if another cgroup has the path now', async () => {
    const path = aCgroup(mounts.memory);
    const old = refTo(mounts, path);
    rmdirSync(mounts.memory + path);
    mkdirSync(mounts.memory + path);
    const { pid, isAlive } = await aProcess('', mounts.memory + path);
    expect(signalInCgroup(mounts, old, pid, 'SIGKILL')).toBe('not-ours');
    expect(isAlive()).toBe(true);
  });

  it('never signals pid 1, itself, groups, kernel threads, or any process for the root', async () => {
    const root = refTo(mounts, '/');
    const { pid } = await aProcess('', mounts.memory);
    for (const id of [-1, 0, 1, 1.5, Number.NaN, -pid, pid, process.pid]) {
      expect(signalInCgroup(mounts, root, id, 'SIGKILL')).toBe('not-ours');
    }
    const kernel = readdirSync('/proc')
      .map(Number)
      .find((id) => id > 1 && isTrue(isKernelThread(id)));
    if (kernel !== undefined) expect(signalInCgroup(mounts, root, kernel, 'SIGKILL')).toBe('not-ours');
  });

  it('never signals itself, whatever its cgroup', () => {
    const path = aCgroup(mounts.memory);
    const home = cgroupPathOf(mounts, process.pid);
    enter(mounts.memory + path, process.pid);
    try {
      expect(signalInCgroup(mounts, refTo(mounts, path), process.pid, 'SIGKILL')).toBe('not-ours');
    } finally {
      // Cleaning up kills whoever is in the cgroup.
      enter(mounts.memory + (home.known ? home.value : ''), process.pid);
    }
  });

  it('reports that a process is gone', async () => {
    const path = aCgroup(mounts.memory);
    const child = await aProcess('', mounts.memory + path);
    child.kill('SIGKILL');
    await until(() => child.ended() !== null);
    expect(signalInCgroup(mounts, refTo(mounts, path), child.pid, 'SIGKILL')).toBe('gone');
  });
});

const isTrue = (reading: ReturnType<typeof isKernelThread>): boolean => reading.known && reading.value;

function removed(directory: string): boolean {
  try {
    rmdirSync(directory);
    return true;
  } catch {
    return false; // Busy for some milliseconds.
  }
}
