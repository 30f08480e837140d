import { writeFileSync } from 'node:fs';
import { describe, expect, it, onTestFinished } from 'vitest';
import { watchWakeups } from '../../src/host/wake.ts';
import { aCgroup, aProcess, machine, until } from './test-cgroup.ts';
import { aTree } from './tree.ts';

describe('watchWakeups', () => {
  it('wakes when one of the files changes, and a missing file harms nobody', async () => {
    const root = aTree({ a: '', b: '' });
    let count = 0;
    const close = watchWakeups([`${root}/none`, `${root}/a`, `${root}/b`], () => count++);
    onTestFinished(close);
    writeFileSync(`${root}/b`, 'x');
    await until(() => count > 0);
  });

  it('is silent once closed', async () => {
    const root = aTree({ a: '' });
    let closed = 0;
    let open = 0;
    const close = watchWakeups([`${root}/a`], () => closed++);
    onTestFinished(watchWakeups([`${root}/a`], () => open++));
    close();
    writeFileSync(`${root}/a`, 'x');
    await until(() => open > 0);
    expect(closed).toBe(0);
  });

  const unified = machine?.unified ?? null;
  it.skipIf(unified === null)('wakes when a cgroup becomes empty [needs root and a cgroup2 mount]', async () => {
    const path = aCgroup(unified ?? '');
    const child = await aProcess('', `${unified}${path}`);
    let count = 0;
    onTestFinished(watchWakeups([`${unified}${path}/cgroup.events`], () => count++));
    expect(count).toBe(0);
    child.kill('SIGKILL');
    await until(() => count > 0);
  });
});
