import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { known } from '../../src/core/reading.ts';
import { sleep } from '../../src/host/clock.ts';
import { loadHeld, saveHeld } from '../../src/standalone/restart/held-file.ts';
import { releaseHeld } from '../../src/standalone/restart/release-held.ts';
import { hasDbusDaemon, until } from '../host/private-bus.ts';
import {
  bootId,
  clock,
  directory,
  evict,
  fake,
  fast,
  heard,
  held,
  hold,
  manifest,
  open,
  restart,
  UNIT,
} from './a-restart.ts';
import { hurried } from './needs.ts';

describe.skipIf(!hasDbusDaemon)('a unit that an eviction stopped [needs dbus-daemon]', () => {
  it('stays down while the condition lasts, and is restarted after it, with the back-off', async () => {
    restart.setCondition('MemoryPressure', true);
    await evict();
    await sleep(clock, 400);
    expect(fake.asked()).toEqual([`StopUnit ${UNIT}`]);
    const clearedMs = fast.monoMs();
    restart.setCondition('MemoryPressure', false);
    await until(() => heard.notes.length > 0);
    expect(fast.monoMs() - clearedMs).toBeGreaterThanOrEqual(10_000);
    expect(fake.asked()).toEqual([`StopUnit ${UNIT}`, `StartUnit ${UNIT}`]);
    expect(heard.notes).toMatchObject([{ kind: 'restarted', pod: 'default/web', unit: UNIT }]);
    expect(heard.lines).toEqual(['restarted: web.service was restarted']);
    expect(held()).toEqual([]);
  });

  it('waits twice as long after each eviction that follows soon', async () => {
    const waits: number[] = [];
    for (let round = 1; round <= 3; round++) {
      await until(() => fake.units.get(UNIT)?.activeState === 'active');
      await evict();
      const startMs = fast.monoMs();
      await until(() => heard.notes.length === round);
      waits.push(fast.monoMs() - startMs);
    }
    expect(waits[0]).toBeGreaterThanOrEqual(10_000);
    expect(waits[1]).toBeGreaterThanOrEqual(20_000);
    expect(waits[2]).toBeGreaterThanOrEqual(40_000);
  });

  it('is not admitted under another condition that forbids it', async () => {
    restart.setCondition('MemoryPressure', true);
    await evict();
    restart.setCondition('DiskPressure', true);
    restart.setCondition('MemoryPressure', false);
    await sleep(clock, 400);
    expect(fake.asked()).not.toContain(`StartUnit ${UNIT}`);
    restart.setCondition('DiskPressure', false);
    await until(() => heard.notes.length > 0);
  });

  it('is restarted by another agent after this one was killed', async () => {
    restart.setCondition('MemoryPressure', true);
    await evict();
    await restart.close();
    expect(held()).toMatchObject([{ unit: UNIT, pod: 'default/web', conditions: ['MemoryPressure'] }]);
    open();
    await sleep(clock, 300);
    expect(fake.asked()).not.toContain(`StartUnit ${UNIT}`);
    restart.setCondition('MemoryPressure', false);
    await until(() => heard.notes.length > 0);
  });

  it('stays down under another agent while the condition lasts, which that one has adopted', async () => {
    restart.setCondition('MemoryPressure', true);
    await evict();
    await restart.close();
    // An hour of it is 0.7 s.
    open({ clock: hurried(clock, 5_000), conditions: ['MemoryPressure'] });
    await sleep(clock, 700);
    expect(fake.asked()).not.toContain(`StartUnit ${UNIT}`);
    restart.setCondition('MemoryPressure', false);
    await until(() => heard.notes.length > 0);
  });

  it('does not count as stopped by somebody else when the stop of a killed agent ends under the next one', async () => {
    restart.setCondition('MemoryPressure', true);
    await hold();
    await restart.close();
    open();
    await sleep(clock, 100);
    fake.byOthers('stop', UNIT);
    await sleep(clock, 200);
    expect(held()).toMatchObject([{ unit: UNIT }]);
    restart.setCondition('MemoryPressure', false);
    await until(() => heard.notes.length > 0);
  });

  it('is written down once there is room for it, and a finding says so only as long as there is none', async () => {
    rmSync(directory, { recursive: true });
    restart.setCondition('MemoryPressure', true);
    await evict();
    expect(heard.present.has('held-not-saved')).toBe(true);
    await sleep(clock, 200);
    mkdirSync(directory);
    await until(() => !heard.present.has('held-not-saved'));
    expect(held()).toMatchObject([{ unit: UNIT }]);
  });

  it('is left alone if it was not running, or was being stopped, at its eviction', async () => {
    fake.units.set(UNIT, { activeState: 'deactivating', invocation: 1, controlGroup: '/x', loadState: 'loaded' });
    await evict();
    expect(held()).toEqual([]);
  });

  it.each([
    ['nobody has said yet which run that is', null],
    ['systemd has said it of the run before', 'stale'],
  ])('is restarted if %s', async (_, said) => {
    await restart.close();
    open(said === null ? {} : { currentRun: () => known('02') });
    restart.setCondition('MemoryPressure', true);
    const facts = await fake.systemd.unit(UNIT);
    // It was started again, by Restart= for example, a moment before it is evicted.
    fake.units.set(UNIT, { activeState: 'active', invocation: 2, controlGroup: '/x', loadState: 'loaded' });
    restart.hold(manifest(), UNIT, said === null || !facts.known ? null : facts.value);
    await fake.systemd.stop(UNIT);
    await sleep(clock, 200);
    expect(held()).toMatchObject([{ unit: UNIT, invocationId: '02' }]);
    restart.setCondition('MemoryPressure', false);
    await until(() => heard.notes.length > 0);
    expect(fake.asked()).toEqual([`StopUnit ${UNIT}`, `StartUnit ${UNIT}`]);
  });

  it('stays stopped if its annotation says so', async () => {
    await evict(manifest('    nodewarden.dev/after-eviction: stay\n'));
    await until(() => held().length === 0);
    expect(fake.asked()).not.toContain(`StartUnit ${UNIT}`);
  });

  it('is released if somebody stopped it, or started and stopped it, meanwhile', async () => {
    restart.setCondition('MemoryPressure', true);
    await evict();
    await sleep(clock, 100);
    fake.byOthers('stop', UNIT);
    await until(() => held().length === 0);
    restart.setCondition('MemoryPressure', false);
    await sleep(clock, 300);
    expect(fake.asked()).not.toContain(`StartUnit ${UNIT}`);
    expect(heard.lines).toEqual([
      'restarted: web.service is no longer held: something else has started or stopped it since',
    ]);
  });

  it('is stopped again three times if something starts it; then it is a finding', async () => {
    restart.setCondition('MemoryPressure', true);
    await evict();
    for (let time = 1; time <= 3; time++) {
      await until(() => fake.units.get(UNIT)?.activeState === 'inactive');
      fake.byOthers('start', UNIT);
      await until(() => heard.notes.length === time);
    }
    expect(heard.notes.map(({ kind }) => kind)).toEqual(['stopped-again', 'stopped-again', 'stopped-again']);
    await until(() => fake.units.get(UNIT)?.activeState === 'inactive');
    fake.byOthers('start', UNIT);
    await until(() => heard.present.has(`kept-starting/${UNIT}`));
    await sleep(clock, 100);
    expect(held()).toEqual([]);
    expect(fake.units.get(UNIT)?.activeState).toBe('active');
    expect(fake.asked().filter((call) => call.startsWith('Stop'))).toHaveLength(4);
  });

  it('is stopped again three times in ten minutes, however often it was evicted in that time', async () => {
    for (let round = 1; round <= 2; round++) {
      restart.setCondition('MemoryPressure', true);
      await until(() => fake.units.get(UNIT)?.activeState === 'active');
      await evict();
      for (let time = 1; time <= 3 && !heard.present.has(`kept-starting/${UNIT}`); time++) {
        await until(() => fake.units.get(UNIT)?.activeState === 'inactive');
        const before = heard.notes.length;
        fake.byOthers('start', UNIT);
        await until(() => heard.notes.length > before || heard.present.has(`kept-starting/${UNIT}`));
      }
      if (round === 1) {
        await until(() => fake.units.get(UNIT)?.activeState === 'inactive');
        restart.setCondition('MemoryPressure', false);
        await until(() => held().length === 0);
      }
    }
    expect(heard.notes.filter(({ kind }) => kind === 'stopped-again')).toHaveLength(3);
    expect(heard.present.has(`kept-starting/${UNIT}`)).toBe(true);
  });

  it('is neither stopped nor started again once a dry run is switched on', async () => {
    await restart.close();
    let isDry = false;
    open({ isDryNow: () => isDry });
    restart.setCondition('MemoryPressure', true);
    await evict();
    await until(() => fake.units.get(UNIT)?.activeState === 'inactive');
    isDry = true;
    fake.byOthers('start', UNIT);
    await sleep(clock, 200);
    expect(fake.units.get(UNIT)?.activeState).toBe('active');
    fake.byOthers('stop', UNIT);
    restart.setCondition('MemoryPressure', false);
    await sleep(clock, 200);
    expect(fake.asked()).toEqual([`StopUnit ${UNIT}`]);
  });

  it('stays down while the machine goes down, is not stopped again meanwhile, and is restarted after a cancel', async () => {
    restart.setCondition('MemoryPressure', true);
    await evict();
    await until(() => fake.units.get(UNIT)?.activeState === 'inactive');
    restart.setPaused(true);
    expect([restart.isHeld(UNIT), restart.isHeld('db.service')]).toEqual([true, false]);
    fake.units.set(UNIT, { activeState: 'active', invocation: 2, controlGroup: '/x', loadState: 'loaded' });
    await sleep(clock, 200);
    fake.units.set(UNIT, { activeState: 'inactive', invocation: 1, controlGroup: '/x', loadState: 'loaded' });
    restart.setCondition('MemoryPressure', false);
    await sleep(clock, 300);
    expect(fake.asked()).toEqual([`StopUnit ${UNIT}`]);
    restart.setPaused(false);
    await until(() => heard.notes.length > 0);
    expect(fake.asked()).toEqual([`StopUnit ${UNIT}`, `StartUnit ${UNIT}`]);
  });

  /** `start` goes on only once `answer` was called. */
  const startedLate = async () => {
    let answer: () => void = () => undefined;
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    let asked = 0;
    // The end waits a second for the answer, which on a busy machine takes more than a hundredth of one.
    let waits = fast;
    const start = async (name: string) => {
      asked += 1;
      await answered;
      return fake.systemd.start(name);
    };
    await restart.close();
    open({
      clock: { ...fast, after: (ms, run) => waits.after(ms, run) },
      systemd: { ...fake.systemd, start },
    });
    const close = (): Promise<void> => {
      waits = clock;
      return restart.close();
    };
    return { asked: () => asked, answer, close };
  };

  it('is known to the next configuration as started if its start was in progress at a reload', async () => {
    const late = await startedLate();
    await evict();
    await until(() => late.asked() > 0);
    const closed = late.close();
    late.answer();
    await closed;
    expect(held()).toEqual([]);
    open();
    await sleep(clock, 200);
    expect(fake.asked()).toEqual([`StopUnit ${UNIT}`, `StartUnit ${UNIT}`]);
    expect(heard.lines).toEqual(['restarted: web.service was restarted']);
  });

  it('stays held if another unit is started too late after a reload', async () => {
    const late = await startedLate();
    await evict();
    await until(() => late.asked() > 0);
    // Without an answer it ends all the same.
    await restart.close();
    open();
    fake.units.set('db.service', { activeState: 'active', invocation: 1, controlGroup: '/y', loadState: 'loaded' });
    const facts = await fake.systemd.unit('db.service');
    restart.setCondition('MemoryPressure', true);
    restart.hold(manifest(), 'db.service', facts.known ? facts.value : null);
    late.answer();
    await until(() => fake.units.get(UNIT)?.activeState === 'active');
    await sleep(clock, 50);
    expect(held().map(({ unit }) => unit)).toContain('db.service');
  });

  it('is started by an uninstall whatever the conditions are', async () => {
    restart.setCondition('MemoryPressure', true);
    await evict();
    await restart.close();
    const needs = { clock, systemd: fake.systemd, runtimeDirectory: directory, bootId };
    expect(await releaseHeld(needs)).toEqual({ started: [UNIT], left: [], problems: [] });
    expect(await releaseHeld(needs)).toEqual({ started: [], left: [], problems: [] });
    await until(() => fake.units.get(UNIT)?.activeState === 'active');
  });

  it.each([
    ['another run', 7, null, [], ['web.service is not started: something else has started and stopped it since']],
    [
      'a run that the agent asked for',
      7,
      'start' as const,
      [],
      ['web.service is not started: it was started again already, and has ended since'],
    ],
    ['the same run', 1, null, [UNIT], []],
    ['the same run, for which its start is still missing', 1, 'start' as const, [UNIT], []],
  ])('is released on uninstall only if no other run ended last: %s', async (_, invocation, asked, started, left) => {
    await evict();
    await until(() => held()[0]?.asked === null);
    await restart.close();
    const { held: saved } = loadHeld(directory, bootId, clock);
    saveHeld(directory, { ...saved, units: saved.units.map((unit) => ({ ...unit, asked })) });
    fake.units.set(UNIT, { activeState: 'inactive', invocation, controlGroup: '/x', loadState: 'loaded' });
    const needs = { clock, systemd: fake.systemd, runtimeDirectory: directory, bootId };
    expect(await releaseHeld(needs)).toEqual({ started, left, problems: [] });
  });

  it('waits for the conditions of both evictions, with the next back-off, if it was started between them', async () => {
    restart.setCondition('DiskPressure', true);
    await evict();
    await until(() => held()[0]?.asked === null);
    // Before the agent has noticed its start.
    fake.units.set(UNIT, { activeState: 'active', invocation: 2, controlGroup: '/x', loadState: 'loaded' });
    restart.setCondition('DiskPressure', false);
    restart.setCondition('MemoryPressure', true);
    await evict();
    expect(held()).toMatchObject([{ conditions: ['DiskPressure', 'MemoryPressure'], level: 1, dueMs: null }]);
    await sleep(clock, 1_500);
    expect(fake.asked()).toEqual([`StopUnit ${UNIT}`, `StopUnit ${UNIT}`]);
  });

  it('is forgotten after a boot, and an invalid file is kept aside', async () => {
    await evict();
    await restart.close();
    expect(loadHeld(directory, 'another-boot', clock).held.units).toEqual([]);
    for (const text of [
      '{',
      '{"schema":1}',
      readFileSync(join(directory, 'held.json'), 'utf8').replace('"web.service"', '7'),
    ]) {
      writeFileSync(join(directory, 'held.json'), text);
      heard.present.clear();
      open();
      await restart.close();
      expect(heard.present.get('held-corrupt')).toContain('kept as');
    }
    expect(readdirSync(directory).filter((name) => name.includes('.corrupt-'))).not.toEqual([]);
  });
});
