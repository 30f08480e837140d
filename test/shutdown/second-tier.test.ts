import { Variant } from 'dbus-next';
import { afterEach, describe, expect, it } from 'vitest';
import { createClock } from '../../src/host/clock.ts';
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
  tier = createSecondTier({ systemd: fake.systemd, clock });
  await until(() => tier.stopTimeoutMs() !== null);
  return tier;
}
afterEach(async () => {
  tier.close();
  await fake.remove();
});

describe('the agent told to stop', () => {
  it('has the time-out of its own unit, less what its own end takes, when the machine goes down', async () => {
    const { leftMs } = await told({ state: 'stopping', stopUs: 70_000_000n });
    const left = await leftMs(false);
    expect(left).toBeLessThanOrEqual(65_000);
    expect(left).toBeGreaterThan(60_000);
  });

  it('goes by the time-out as it is now, and by the word of logind where systemd has not begun', async () => {
    const { leftMs, stopTimeoutMs } = await told({ state: 'running', stopUs: 70_000_000n });
    fake.units.set(OWN_UNIT, { ...unit, stopUs: 20_000_000n });
    const left = await leftMs(true);
    expect(left).toBeLessThanOrEqual(15_000);
    expect(left).toBeGreaterThan(10_000);
    expect(stopTimeoutMs()).toBe(20_000);
  });

  it('is started again when the stop was taken back', async () => {
    const { comeBack } = await told({ state: 'running' });
    await comeBack();
    expect(fake.asked()).toEqual([`StartUnit ${OWN_UNIT}`]);
  });

  it('has no limit where its unit has none', async () => {
    const { leftMs } = await told({ state: 'stopping', stopUs: 2n ** 64n - 1n });
    expect(await leftMs(false)).toBe(Number.POSITIVE_INFINITY);
  });

  it('has nothing left, and not less, where the time-out is shorter than its own end', async () => {
    const { leftMs } = await told({ state: 'stopping', stopUs: 2_000_000n });
    expect(await leftMs(false)).toBe(0);
  });

  it.each(['running', 'degraded', 'starting', 'maintenance'])('stops no pod while the machine is %s', async (state) => {
    const { leftMs } = await told({ state });
    expect(await leftMs(false)).toBeNull();
  });

  it('stops no pod when nobody says that the machine goes down', async () => {
    const { leftMs } = await told({ state: 'stopping' });
    await fake.daemon.kill();
    await until(() => fake.bus.state() !== 'up');
    expect(await leftMs(false)).toBeNull();
  });
});
