import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { known } from '../../src/core/reading.ts';
import { createClock, readBootId, sleep, within } from '../../src/host/clock.ts';

describe('createClock', () => {
  const clock = createClock();

  it('counts from boot, not from the start of the process', () => {
    const uptimeMs = (): number => Number.parseFloat(readFileSync('/proc/uptime', 'latin1')) * 1_000;
    const before = uptimeMs();
    const ms = clock.monoMs();
    // /proc/uptime counts hundredths.
    expect(ms).toBeGreaterThanOrEqual(before);
    expect(ms).toBeLessThanOrEqual(uptimeMs() + 10);
  });

  it('runs a timer of 0 before any other, and never a cancelled one', async () => {
    const ran: string[] = [];
    clock.after(1, () => ran.push('timer'));
    clock.after(0, () => ran.push('at once'));
    clock.after(0, () => ran.push('cancelled'))();
    clock.after(1, () => ran.push('cancelled timer'))();
    await sleep(clock, 20);
    expect(ran).toEqual(['at once', 'timer']);
  });

  it('a wait of more than 24 days does not end at once', async () => {
    let hasRun = false;
    const cancel = clock.after(2 ** 31, () => {
      hasRun = true;
    });
    await sleep(clock, 20);
    cancel();
    expect(hasRun).toBe(false);
  });

  it('sleeps at least as long as requested, within the granularity of timers', async () => {
    const startMs = clock.monoMs();
    await sleep(clock, 30);
    expect(clock.monoMs() - startMs).toBeGreaterThan(28);
  });
});

describe('within', () => {
  const clock = createClock();
  const never = new Promise<string>(() => undefined);

  it('returns what came in time, what failed in time, and else the late result', async () => {
    expect(await within(clock, 1_000, Promise.resolve('answer'), () => 'late')).toBe('answer');
    await expect(within(clock, 1_000, Promise.reject(new Error('failed')), () => 'late')).rejects.toThrow('failed');
    expect(await within(clock, 5, never, () => 'late')).toBe('late');
  });

  it('does not treat an answer as late that arrived while this process was halted', async () => {
    const child = spawn('echo', ['answer'], { stdio: ['ignore', 'pipe', 'inherit'] });
    const answer = new Promise<string>((resolve) => child.stdout.once('data', (data) => resolve(String(data))));
    const raced = within(clock, 20, answer, () => 'late');
    clock.after(1, () => void spawnSync('sleep', ['0.5']));
    expect(await raced).toBe('answer\n');
  });
});

const ASLEEP = ['--time', '--boottime', '5000'];
const hasTimeNamespace = spawnSync('unshare', [...ASLEEP, 'true']).status === 0;

it.skipIf(!hasTimeNamespace)('counts sleep, like the start time of a process [needs root and time namespaces]', () => {
  const program = `
      import { createClock } from './src/host/clock.ts';
      import { MS_PER_TICK, startTicks } from './src/host/process/workload.ts';
      const clock = createClock();
      console.log(JSON.stringify([clock.monoMs() - process.hrtime()[0] * 1_000, clock.monoMs() - startTicks(process.pid) * MS_PER_TICK]));`;
  const node = [process.execPath, '--import', 'tsx', '--input-type=module', '--eval', program];
  const [asleepMs, ageMs] = JSON.parse(execFileSync('unshare', [...ASLEEP, ...node], { encoding: 'utf8' }));
  expect(asleepMs).toBeGreaterThan(4_000_000);
  expect(ageMs).toBeGreaterThan(0);
  expect(ageMs).toBeLessThan(60_000);
});

it("the boot id is the kernel's", () => {
  expect(readBootId()).toEqual(known(readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()));
});
