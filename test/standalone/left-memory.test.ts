import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { until } from '../../src/demo/cast.ts';
import { needsCgroups } from '../act/a-cgroup.ts';
import { cgroup, clock, heard, open, write } from './a-standalone.ts';

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
});
