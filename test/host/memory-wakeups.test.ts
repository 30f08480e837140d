import { appendFileSync } from 'node:fs';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createClock, sleep } from '../../src/host/clock.ts';
import { watchWakeups } from '../../src/host/memory/memory-wakeups.ts';
import { aCgroup, aProcess, machine, until } from './test-cgroup.ts';
import { aTree } from './tree.ts';

const clock = createClock();

describe('watchWakeups', () => {
  it('wakes when the file changes, once a second and not at every change', async () => {
    const root = aTree({ a: '' });
    let count = 0;
    onTestFinished(watchWakeups(`${root}/a`, clock, () => count++));
    const startedMs = clock.monoMs();
    for (let i = 0; i < 50; i++) {
      appendFileSync(`${root}/a`, 'x');
      await sleep(clock, 5);
    }
    expect(count).toBeGreaterThan(0);
    expect(count).toBeLessThanOrEqual(1 + (clock.monoMs() - startedMs) / 1_000);
    const before = count;
    const changing = setInterval(() => appendFileSync(`${root}/a`, 'x'), 20);
    onTestFinished(() => clearInterval(changing));
    await until(() => count > before);
  });

  it('does no harm if the file is missing, and is silent once closed', async () => {
    const root = aTree({ a: '' });
    watchWakeups(`${root}/none`, clock, () => undefined)();
    let closed = 0;
    let open = 0;
    const close = watchWakeups(`${root}/a`, clock, () => closed++);
    onTestFinished(watchWakeups(`${root}/a`, clock, () => open++));
    close();
    appendFileSync(`${root}/a`, 'x');
    await until(() => open > 0);
    expect(closed).toBe(0);
  });

  const unified = machine?.unified ?? null;
  it.skipIf(unified === null)('wakes when a cgroup becomes empty [needs root and a cgroup2 mount]', async () => {
    const path = aCgroup(unified ?? '');
    const child = await aProcess('', `${unified}${path}`);
    let count = 0;
    onTestFinished(watchWakeups(`${unified}${path}/cgroup.events`, clock, () => count++));
    expect(count).toBe(0);
    child.kill('SIGKILL');
    await until(() => count > 0);
  });
});
