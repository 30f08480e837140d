import { Variant } from 'dbus-next';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { createClock } from '../../src/host/clock.ts';
import { openSystemBus } from '../../src/host/systemd/bus.ts';
import { createSystemd, type Systemd } from '../../src/host/systemd/systemd.ts';
import type { Clock } from '../../src/ports.ts';
import { createSecondTier, type SecondTier } from '../../src/shutdown/second-tier.ts';
import { type FakeSystemd, OWN_UNIT, openFakeSystemd } from '../host/fake-systemd.ts';
import { until } from '../host/private-bus.ts';

const clock = createClock();
const unit = { activeState: 'active', invocation: 1, controlGroup: '/', loadState: 'loaded' };
let fake: FakeSystemd;
let tier: SecondTier;

/** `state`: what systemd says of itself. */
async function told({
  state,
  stopUs = 90_000_000n,
}: {
  readonly state: string;
  readonly stopUs?: bigint;
}): Promise<SecondTier> {
  fake = await openFakeSystemd((member, _, body) =>
    member === 'Get' && body[1] === 'SystemState' ? { signature: 'v', body: [new Variant('s', state)] } : null,
  );
  fake.units.set(OWN_UNIT, { ...unit, stopUs });
  tier = createSecondTier({ systemd: fake.systemd, clock, isService: true });
  await until(() => tier.stopTimeoutMs() !== null);
  return tier;
}
function systemdAt(address: string): Systemd {
  const bus = openSystemBus(clock, { DBUS_SYSTEM_BUS_ADDRESS: address });
  onTestFinished(() => bus.close());
  return createSystemd(bus);
}
afterEach(async () => {
  tier.close();
  await fake.remove();
});

describe('the agent that is asked to stop', () => {
  it("has its own unit's timeout, minus the time of its own end, if the machine goes down", async () => {
    const { leftMs } = await told({ state: 'stopping', stopUs: 70_000_000n });
    const left = await leftMs(false);
    expect(left).toBeLessThanOrEqual(65_000);
    expect(left).toBeGreaterThan(60_000);
  });

  it("uses the current timeout, and logind's word if systemd has not begun", async () => {
    const { leftMs, stopTimeoutMs } = await told({ state: 'running', stopUs: 70_000_000n });
    fake.units.set(OWN_UNIT, { ...unit, stopUs: 20_000_000n });
    const left = await leftMs(true);
    expect(left).toBeLessThanOrEqual(15_000);
    expect(left).toBeGreaterThan(10_000);
    expect(stopTimeoutMs()).toBe(20_000);
  });

  it('is started again if the stop was cancelled', async () => {
    const { comeBack } = await told({ state: 'running' });
    await comeBack();
    expect(fake.asked()).toEqual([`StartUnit ${OWN_UNIT}`]);
  });

  it.each([
    ['is cancelled too', false, true],
    ['is still queued', 'start', true],
    ['gives way to a stop that somebody orders', true, false],
  ] as const)('is started later by a unit of its own if that start %s: %s', async (_, hasJob, isStarted) => {
    const { comeBackLater } = await told({ state: 'running' });
    fake.units.set(OWN_UNIT, { ...unit, activeState: 'deactivating', hasJob });
    await comeBackLater();
    const asked = isStarted ? [`StartTransientUnit nodewarden-come-back-${process.pid}.service`] : [];
    expect(fake.asked()).toEqual(asked);
  });

  it.each([
    ['is restarted', 'restart', true],
    ['is started while it stops', 'start', true],
    ['is stopped', 'stop', false],
    ['has no job', false, false],
  ] as const)('knows whether another run follows if it %s', async (_, hasJob, isStarted) => {
    const { isToStart } = await told({ state: 'running' });
    fake.units.set(OWN_UNIT, { ...unit, activeState: 'deactivating', hasJob });
    expect(await isToStart()).toBe(isStarted);
  });

  it('has no limit if its unit has none', async () => {
    const { leftMs } = await told({ state: 'stopping', stopUs: 2n ** 64n - 1n });
    expect(await leftMs(false)).toBe(Number.POSITIVE_INFINITY);
  });

  it('waits right after its start for the bus to answer', async () => {
    await told({ state: 'stopping' });
    tier.close();
    const systemd = systemdAt(fake.daemon.address);
    expect((await systemd.systemState()).known).toBe(false);
    tier = createSecondTier({ systemd, clock, isService: true });
    expect(await tier.leftMs(false)).toBeGreaterThan(60_000);
  });

  it('ends at once without a bus if systemd did not start it', async () => {
    await told({ state: 'stopping' });
    tier.close();
    const systemd = systemdAt('unix:path=/nowhere');
    let pauses = 0;
    const counting: Clock = {
      ...clock,
      after: (ms, run) => {
        pauses += 1;
        return clock.after(ms, run);
      },
    };
    tier = createSecondTier({ systemd, clock: counting, isService: false });
    expect(await tier.leftMs(false)).toBeNull();
    expect(pauses).toBe(0);
  });

  it('has nothing left, not a negative time, if the timeout is shorter than its own end', async () => {
    const { leftMs } = await told({ state: 'stopping', stopUs: 2_000_000n });
    expect(await leftMs(false)).toBe(0);
  });

  it.each(['running', 'degraded', 'starting', 'maintenance'])('stops no pod while the machine is %s', async (state) => {
    const { leftMs } = await told({ state });
    expect(await leftMs(false)).toBeNull();
  });

  it('stops no pod if nothing says that the machine goes down', async () => {
    const { leftMs } = await told({ state: 'stopping' });
    await fake.daemon.kill();
    await until(() => fake.bus.state() !== 'up');
    expect(await leftMs(false)).toBeNull();
  });
});
