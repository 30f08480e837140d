import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { until } from '../../src/demo/cast.ts';
import { needsCgroups } from '../act/a-cgroup.ts';
import { cgroup, clock, directory, heard, open, write } from './a-standalone.ts';

const SHM = '/dev/shm';
const needsShm = needsCgroups || (existsSync(SHM) ? '' : `[needs ${SHM}]`);
const MIB = 2 ** 20;

describe.skipIf(needsShm !== '')(`memory that a pod left behind ${needsShm}`, () => {
  it('is a finding that names its cgroup, how much it holds and what to do, until it is free or the pod runs', async () => {
    const directory = mkdtempSync(join(SHM, 'nodewarden-test-'));
    const file = join(directory, 'file');
    const told = (): string | undefined => heard.present.get('left-memory/default/one');
    try {
      const filler = await cgroup(0).run(`head -c ${32 * MIB} /dev/zero > ${file}; echo up; sleep 1000`);
      write('one', `cgroup: ${cgroup(0).path}`);
      open();
      expect(told()).toBeUndefined();
      for (const pid of cgroup(0).pids()) process.kill(pid, 'SIGKILL');
      await until(clock, () => filler.ended() !== null, 10_000);
      await expect.poll(told, { timeout: 10_000 }).toContain(`${cgroup(0).path} still holds 32 MiB`);
      expect(told()).toContain('delete the files');
      const next = await cgroup(0).run('echo up; sleep 1000');
      await expect.poll(told, { timeout: 10_000 }).toBeUndefined();
      for (const pid of cgroup(0).pids()) process.kill(pid, 'SIGKILL');
      await until(clock, () => next.ended() !== null, 10_000);
      await expect.poll(told, { timeout: 10_000 }).toContain('still holds');
      rmSync(file);
      await expect.poll(told, { timeout: 10_000 }).toBeUndefined();
    } finally {
      rmSync(directory, { recursive: true });
    }
  });

  it('is a finding, too, if a process that was moved out of the pod has it, until that ends', async () => {
    const hold = `exec perl -e '$| = 1; my $held = "x" x (${32 * MIB}); print "up\\n"; sleep 1000'`;
    const moved = await cgroup(0).run(hold);
    const [pid = 0] = cgroup(0).pids();
    write('one', `cgroup: ${cgroup(0).path}`);
    open();
    for (const root of cgroup(1).roots) writeFileSync(`${root}/cgroup.procs`, String(pid));
    const told = (): string | undefined => heard.present.get('left-memory/default/one');
    await expect
      .poll(told, { timeout: 10_000 })
      .toMatch(/still holds [\d.]+ MiB that processes hold which left it; .*end the/);
    process.kill(pid, 'SIGKILL');
    await until(clock, () => moved.ended() !== null, 10_000);
    await expect.poll(told, { timeout: 10_000 }).toBeUndefined();
  });
});

describe.skipIf(needsCgroups !== '')(`many unreaped dead processes of a running pod ${needsCgroups}`, () => {
  const run = () => cgroup(0).run(`exec perl -e 'for (1 .. 80) { fork or exit } $| = 1; print "up\\n"; sleep 1000'`);
  const told = (): string | undefined => heard.present.get('unreaped/default/one');

  it('are a finding until it has ended', async () => {
    const parent = await run();
    write('one', `cgroup: ${cgroup(0).path}`);
    open();
    await expect.poll(told, { timeout: 10_000 }).toContain('80 dead processes of default/one hold');
    for (const pid of cgroup(0).pids()) process.kill(pid, 'SIGKILL');
    await until(clock, () => parent.ended() !== null, 10_000);
    await expect.poll(told, { timeout: 10_000 }).toBeUndefined();
  });

  it('are none any more once its manifest is removed', async () => {
    await run();
    write('one', `cgroup: ${cgroup(0).path}`);
    open();
    await expect.poll(told, { timeout: 10_000 }).toContain('80 dead processes');
    rmSync(join(directory, 'pods.d', 'one.yaml'));
    await expect.poll(told, { timeout: 10_000 }).toBeUndefined();
  });
});
