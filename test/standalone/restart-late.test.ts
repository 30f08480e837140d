import { describe, expect, it } from 'vitest';
import { type Reading, unknown } from '../../src/core/reading.ts';
import { sleep } from '../../src/host/clock.ts';
import type { Systemd } from '../../src/host/systemd/systemd.ts';
import { hasDbusDaemon, until } from '../host/private-bus.ts';
import { clock, evict, fake, heard, held, hold, open, restart, UNIT } from './a-restart.ts';

const LATE = unknown('timed-out', 'org.freedesktop.systemd1.Manager', 'no answer within 5000 ms');

describe.skipIf(!hasDbusDaemon)('a unit that an eviction stopped, if systemd is late [needs dbus-daemon]', () => {
  const reopen = async (more: Partial<Systemd>): Promise<void> => {
    await restart.close();
    open({ systemd: { ...fake.systemd, ...more } });
  };
  /** What is asked is done, but `says` is the answer. */
  const then = async (asked: Promise<Reading<true>>, says: () => Reading<true> | null): Promise<Reading<true>> => {
    const answer = await asked;
    return says() ?? answer;
  };
  const isDown = (): boolean => fake.units.get(UNIT)?.activeState === 'inactive';
  const isUp = (): boolean => fake.units.get(UNIT)?.activeState === 'active';
  const stops = (): number => fake.asked().filter((call) => call === `StopUnit ${UNIT}`).length;
  /** It is held while the condition lasts. */
  const evictUnderPressure = async (): Promise<void> => {
    restart.setCondition('MemoryPressure', true);
    await evict();
    await until(isDown);
    await sleep(clock, 100);
  };
  /** As Restart= does after a SIGKILL. */
  const startAnew = (): void => {
    const unit = fake.units.get(UNIT);
    if (unit !== undefined) unit.invocation += 1;
  };

  it('is a finding if it runs again and cannot be asked to stop, until it can or need not', async () => {
    let isRefused = true;
    const refused = unknown('unreadable', 'StopUnit', 'unit web.service may be requested by dependency only');
    await reopen({ stop: async (name) => (isRefused ? refused : fake.systemd.stop(name)) });
    restart.setCondition('MemoryPressure', true);
    await hold();
    startAnew();
    const id = `kept-starting/${UNIT}`;
    await until(() => heard.present.has(id));
    expect(heard.present.get(id)).toBe(
      'web.service (default/web) was evicted and runs again, but systemd could not be asked to stop it (unit web.service may be requested by dependency only); retrying',
    );
    isRefused = false;
    await until(() => !heard.present.has(id));
    await until(isDown);
    isRefused = true;
    await sleep(clock, 100);
    fake.byOthers('start', UNIT);
    await until(() => heard.present.has(id));
    restart.setCondition('MemoryPressure', false);
    await until(() => !heard.present.has(id));
  });

  it('comes back if Restart= answered the SIGKILL before the stop arrived', async () => {
    restart.setCondition('MemoryPressure', true);
    await hold();
    startAnew();
    await fake.systemd.stop(UNIT);
    await until(isDown);
    await sleep(clock, 200);
    restart.setCondition('MemoryPressure', false);
    await until(isUp);
    expect(heard.lines).toEqual(['restarted: web.service was restarted']);
  });

  it('comes back also if nothing forbids that run, while its stop is on its way', async () => {
    await hold();
    startAnew();
    await sleep(clock, 50);
    await fake.systemd.stop(UNIT);
    await until(isDown);
    await until(isUp);
    expect(heard.lines).toEqual(['restarted: web.service was restarted']);
  });

  it('is released if it runs after its stop was over', async () => {
    await evict();
    await until(isDown);
    fake.byOthers('start', UNIT);
    await until(() => held().length === 0);
    expect(heard.lines).toEqual(['restarted: web.service is no longer held: something else started it']);
  });

  it('is released if somebody started and stopped it between two looks at it', async () => {
    let isBusy = false;
    await reopen({ unit: (name) => (isBusy ? Promise.resolve(LATE) : fake.systemd.unit(name)) });
    restart.setCondition('MemoryPressure', true);
    await evict();
    isBusy = true;
    await until(isDown);
    fake.byOthers('start', UNIT);
    await until(isUp);
    fake.byOthers('stop', UNIT);
    await until(isDown);
    await sleep(clock, 50);
    isBusy = false;
    await until(() => held().length === 0);
    expect(fake.asked()).not.toContain(`StartUnit ${UNIT}`);
  });

  it('comes back after it was stopped again, also if the answer to that was late', async () => {
    let late: typeof LATE | null = null;
    await reopen({ stop: (name) => then(fake.systemd.stop(name), () => late) });
    await evictUnderPressure();
    late = LATE;
    fake.byOthers('start', UNIT);
    await until(() => stops() >= 2);
    late = null;
    await until(isDown);
    await sleep(clock, 200);
    restart.setCondition('MemoryPressure', false);
    await until(isUp);
  });

  it('is stopped again three times within ten minutes and no more, also if no answer comes in time', async () => {
    let late: typeof LATE | null = null;
    await reopen({ stop: (name) => then(fake.systemd.stop(name), () => late) });
    await evictUnderPressure();
    late = LATE;
    for (let times = 1; times <= 3; times++) {
      fake.byOthers('start', UNIT);
      await until(() => stops() > times && isDown());
      await sleep(clock, 100);
    }
    fake.byOthers('start', UNIT);
    await until(() => heard.present.has(`kept-starting/${UNIT}`) || stops() > 4);
    expect(stops()).toBe(4);
    expect(heard.lines).toEqual([
      'restarted: web.service is no longer held: it was stopped again 3 times within 10 minutes',
    ]);
  });

  it('counts each run once, however often it has to be asked to stop', async () => {
    let isLost = false;
    await reopen({ stop: (name) => (isLost ? Promise.resolve(LATE) : fake.systemd.stop(name)) });
    await evictUnderPressure();
    isLost = true;
    fake.byOthers('start', UNIT);
    await until(isUp);
    await sleep(clock, 300);
    isLost = false;
    await until(isDown);
    expect(held()).toMatchObject([{ unit: UNIT }]);
    expect(heard.findings.all()).toEqual([]);
  });

  it('comes back after it was stopped again by an agent that ended before the answer', async () => {
    let isEnding = false;
    await reopen({
      stop: (name) => (isEnding ? new Promise(() => void fake.systemd.stop(name)) : fake.systemd.stop(name)),
    });
    await evictUnderPressure();
    isEnding = true;
    fake.byOthers('start', UNIT);
    await until(() => stops() >= 2);
    await restart.close();
    await until(isDown);
    open({ conditions: ['MemoryPressure'] });
    await sleep(clock, 200);
    restart.setCondition('MemoryPressure', false);
    await until(isUp);
  });

  it('stays down if a person stopped it while systemd did not answer', async () => {
    let isBusy = false;
    let asked = 0;
    const answer = (name: string) => {
      asked += 1;
      return isBusy ? Promise.resolve(LATE) : fake.systemd.unit(name);
    };
    await reopen({ unit: answer });
    await evictUnderPressure();
    isBusy = true;
    fake.byOthers('stop', UNIT);
    const before = asked;
    await until(() => asked > before + 10);
    isBusy = false;
    await until(() => held().length === 0);
    restart.setCondition('MemoryPressure', false);
    await sleep(clock, 300);
    expect(fake.asked()).not.toContain(`StartUnit ${UNIT}`);
  });

  it('counts as restarted, and no longer as failed to restart, once it runs after a late answer', async () => {
    await reopen({ start: (name) => then(fake.systemd.start(name), () => LATE) });
    await evict();
    await until(() => held().length === 0);
    expect(heard.findings.all()).toEqual([]);
    expect(heard.lines).toEqual(['restarted: web.service was restarted']);
    expect(heard.notes).toMatchObject([{ kind: 'restarted', unit: UNIT }]);
  });

  it('is not failed to restart any more once it is released', async () => {
    const refused = unknown('unreadable', 'StartUnit', 'org.freedesktop.systemd1.UnitMasked');
    await reopen({ start: () => Promise.resolve(refused) });
    await evict();
    await until(() => heard.present.has(`restart/${UNIT}`));
    fake.byOthers('start', UNIT);
    await until(() => held().length === 0);
    expect(heard.findings.all()).toEqual([]);
    expect(heard.lines).toEqual(['restarted: web.service is no longer held: something else started it']);
  });

  it('is left running only as long as a condition holds', async () => {
    const before = fake.units.get(UNIT);
    fake.units.set('top.service', { activeState: 'active', invocation: 3, controlGroup: '/z', loadState: 'loaded' });
    restart.setCondition('MemoryPressure', true);
    await evict();
    await until(isDown);
    await sleep(clock, 50);
    if (before !== undefined) fake.units.set(UNIT, { ...before, relations: { RequiredBy: ['top.service'] } });
    fake.byOthers('start', UNIT);
    await until(() => heard.present.has(`kept-starting/${UNIT}`));
    restart.setCondition('MemoryPressure', false);
    expect(heard.findings.all()).toEqual([]);
  });
});
