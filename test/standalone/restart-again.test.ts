import { describe, expect, it } from 'vitest';
import type { Systemd } from '../../src/host/systemd/systemd.ts';
import { hasDbusDaemon, until } from '../host/private-bus.ts';
import { evict, fake, heard, held, manifest, open, restart, UNIT } from './a-restart.ts';

describe.skipIf(!hasDbusDaemon)('a unit that is evicted again while it is started again [needs dbus-daemon]', () => {
  const reopen = async (more: Partial<Systemd>): Promise<void> => {
    await restart.close();
    open({ systemd: { ...fake.systemd, ...more } });
  };
  const isDown = (): boolean => fake.units.get(UNIT)?.activeState === 'inactive';
  const isUp = (): boolean => fake.units.get(UNIT)?.activeState === 'active';
  const starts = (): number => fake.asked().filter((call) => call === `StartUnit ${UNIT}`).length;
  /** What is asked is done at once, and answered when `answer` is called. */
  function answeredLater() {
    let answer = (): void => undefined;
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    return { answer, of: async <T>(asked: Promise<T>): Promise<T> => answered.then(() => asked) };
  }
  const looks = async (count: number): Promise<void> => {
    const before = asked;
    await until(() => asked >= before + count);
  };
  let asked = 0;
  const unit = (name: string) => {
    asked += 1;
    return fake.systemd.unit(name);
  };

  it('is held down, and comes back afterwards', async () => {
    const late = answeredLater();
    await reopen({ unit, start: (name) => late.of(fake.systemd.start(name)) });
    await evict();
    await until(() => starts() === 1 && isUp());
    restart.setCondition('MemoryPressure', true);
    await evict(manifest('', '{}'));
    await until(isDown);
    late.answer();
    await looks(3);
    expect(held()).toMatchObject([{ unit: UNIT, conditions: ['MemoryPressure'], level: 1 }]);
    expect(heard.lines).toEqual(['restarted: web.service was restarted']);
    restart.setCondition('MemoryPressure', false);
    await until(() => starts() === 2 && isUp());
  });

  it('is not said to be restarted twice if it was not asked to stop after all', async () => {
    const late = answeredLater();
    await reopen({ start: (name) => late.of(fake.systemd.start(name)) });
    await evict();
    await until(() => starts() === 1 && isUp());
    const release = restart.hold(manifest(), UNIT, 'between-runs');
    late.answer();
    await until(() => heard.notes.length > 0);
    release();
    expect(held()).toEqual([]);
    expect(heard.notes).toMatchObject([{ kind: 'restarted', unit: UNIT }]);
  });

  it('is not started if the node comes under pressure while systemd says what the start would stop', async () => {
    const late = answeredLater();
    let isAsked = false;
    const ties: Systemd['ties'] = (name) => {
      isAsked ||= name === 'rival.service';
      return late.of(fake.systemd.ties(name));
    };
    await reopen({ unit, ties });
    const before = fake.units.get(UNIT);
    fake.units.set('rival.service', { activeState: 'inactive', invocation: 5, controlGroup: '', loadState: 'loaded' });
    if (before !== undefined) fake.units.set(UNIT, { ...before, relations: { Conflicts: ['rival.service'] } });
    await evict(manifest('', '{}'));
    await until(() => isAsked);
    restart.setCondition('MemoryPressure', true);
    late.answer();
    await looks(3);
    expect(starts()).toBe(0);
    restart.setCondition('MemoryPressure', false);
    await until(isUp);
  });

  it('keeps what the later eviction says of it, if it was just to be stopped again', async () => {
    const late = answeredLater();
    let isLate = false;
    await reopen({ unit, stop: (name) => (isLate ? late.of(fake.systemd.stop(name)) : fake.systemd.stop(name)) });
    restart.setCondition('MemoryPressure', true);
    const bestEffort = manifest('', '{}');
    await evict(bestEffort);
    await until(isDown);
    await looks(3);
    isLate = true;
    fake.byOthers('start', UNIT);
    await until(() => fake.asked().filter((call) => call === `StopUnit ${UNIT}`).length === 2);
    restart.setCondition('DiskPressure', true);
    restart.hold(bestEffort, UNIT, null);
    late.answer();
    await until(isDown);
    await looks(3);
    expect(held()).toMatchObject([{ unit: UNIT, conditions: ['MemoryPressure', 'DiskPressure'] }]);
    restart.setCondition('MemoryPressure', false);
    restart.setCondition('DiskPressure', false);
    await until(isUp);
  });
});
