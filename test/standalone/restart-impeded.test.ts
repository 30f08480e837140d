import { describe, expect, it } from 'vitest';
import { sleep } from '../../src/host/clock.ts';
import { releaseHeld } from '../../src/standalone/restart/release-held.ts';
import { hasDbusDaemon, until } from '../host/private-bus.ts';
import {
  areDown,
  bootId,
  clock,
  directory,
  evict,
  evictUnderPressure,
  fake,
  heard,
  held,
  hold,
  open,
  restart,
  UNIT,
} from './a-restart.ts';
import { hurried } from './needs.ts';

describe.skipIf(!hasDbusDaemon)(
  'a unit that an eviction stopped, and cannot be started now [needs dbus-daemon]',
  () => {
    const RIVAL = 'rival.service';
    const START = `StartUnit ${UNIT}`;
    const unit = (more: object): void => void Object.assign(fake.units.get(UNIT) ?? {}, more);
    const rival = (more: object): void => void Object.assign(fake.units.get(RIVAL) ?? {}, more);
    const finding = (): string | undefined => heard.present.get(`restart/${UNIT}`);
    const isSaid = (why: string) => until(() => finding()?.includes(why) === true);
    const release = () => releaseHeld({ clock, systemd: fake.systemd, runtimeDirectory: directory, bootId });

    const evictBeside = async (state: object): Promise<void> => {
      await evictUnderPressure();
      fake.units.set(RIVAL, { activeState: 'active', invocation: 5, controlGroup: '/r', loadState: 'loaded' });
      unit({ relations: { Conflicts: [RIVAL] } });
      rival(state);
      restart.setCondition('MemoryPressure', false);
    };

    it('is not started while somebody restarts its rival: that restart would be cancelled, and both would run until then', async () => {
      await evictBeside({ activeState: 'deactivating', hasJob: 'restart' });
      await isSaid('rival.service is about to start, and systemd would cancel that to start this unit; retrying');
      rival({ activeState: 'inactive' });
      await sleep(clock, 500);
      rival({ activeState: 'active', hasJob: false });
      await isSaid('rival.service runs, and systemd would stop it to start this unit');
      expect(fake.asked()).toEqual([`StopUnit ${UNIT}`]);
    });

    it('is started once its rival has stopped, and not beside it', async () => {
      await evictBeside({ activeState: 'deactivating', hasJob: true });
      await isSaid('rival.service is still stopping, and the two must not run together; retrying');
      expect(fake.asked()).toEqual([`StopUnit ${UNIT}`]);
      rival({ activeState: 'inactive', hasJob: false });
      await until(() => fake.asked().includes(START));
      await until(() => heard.present.size === 0);
    });

    it.each([
      ['a rival that is about to start', { activeState: 'inactive', hasJob: 'start' }, 'left'],
      ['a rival that is still stopping', { activeState: 'deactivating' }, 'problems'],
    ] as const)('is not started by an uninstall beside %s', async (_, state, where) => {
      await evictBeside(state);
      await restart.close();
      const released = await release();
      expect(released.started).toEqual([]);
      expect(released[where]).toHaveLength(1);
      expect(released[where][0]).toContain(RIVAL);
      // What an uninstall could not restore, the next one tries again.
      expect(held().length).toBe(where === 'problems' ? 1 : 0);
    });

    it.each([
      ['waits for what it needs', 'Requires'],
      ['does not wait for what it merely wants', 'Wants'],
    ])('%s while another condition still holds that down', async (_, list) => {
      const other = { activeState: 'inactive', invocation: 5, controlGroup: '/r', loadState: 'loaded' };
      unit({ relations: { [list]: ['middle.service'] } });
      fake.units.set('middle.service', { ...other, relations: { [list]: ['db.service'] } });
      fake.units.set('db.service', { ...other, activeState: 'active' });
      restart.setCondition('PIDPressure', true);
      await evict();
      restart.setCondition('MemoryPressure', true);
      await hold('db.service');
      await fake.systemd.stop('db.service');
      await areDown(2);
      restart.setCondition('PIDPressure', false);
      if (list === 'Wants') return until(() => fake.asked().includes(START));
      await isSaid('it needs db.service, which an eviction still holds down; retrying');
      expect(fake.asked()).not.toContain(START);
      restart.setCondition('MemoryPressure', false);
      await until(() => fake.asked().includes(START));
      await until(() => heard.present.size === 0 && held().length === 0);
    });

    it.each([
      ['masked', 'it is masked'],
      ['bad-setting', 'its unit file has a bad setting'],
      ['error', 'systemd cannot load its unit file'],
      ['not-found', 'systemd knows no such unit'],
    ])('stays held with a finding while it is %s, and is started once it is loaded again', async (loadState, why) => {
      await restart.close();
      // It may be away for 10 minutes: half a minute here.
      open({ clock: hurried(clock, 20) });
      await evictUnderPressure();
      unit({ loadState });
      restart.setCondition('MemoryPressure', false);
      await isSaid(`web.service could not be restarted: ${why}; retrying`);
      expect(fake.asked()).toEqual([`StopUnit ${UNIT}`]);
      unit({ loadState: 'loaded' });
      await until(() => fake.asked().includes(START));
      await until(() => heard.present.size === 0);
    });

    it('is let go if its file stays away: only who made a transient unit can start it', async () => {
      await evictUnderPressure();
      unit({ loadState: 'not-found' });
      restart.setCondition('MemoryPressure', false);
      await isSaid('systemd knows no such unit');
      await until(() => held().length === 0);
      expect(heard.lines).toEqual([
        'restarted: web.service is no longer held: systemd has known no such unit for 10 minutes',
      ]);
      expect([...heard.present]).toEqual([]);
      expect(fake.asked()).toEqual([`StopUnit ${UNIT}`]);
    });

    it('is not stopped again if its file was away and somebody has made it anew', async () => {
      await evictUnderPressure();
      const before = fake.units.get(UNIT);
      let looks = 0;
      await restart.close();
      open({
        systemd: {
          ...fake.systemd,
          unit: async (name) => {
            const facts = await fake.systemd.unit(name);
            looks += 1;
            return facts;
          },
        },
      });
      unit({ loadState: 'not-found' });
      const seen = looks;
      await until(() => looks >= seen + 2);
      if (before !== undefined)
        fake.units.set(UNIT, { ...before, loadState: 'loaded', activeState: 'active', invocation: 9 });
      await until(() => held().length === 0);
      expect(fake.units.get(UNIT)?.activeState).toBe('active');
      expect(fake.asked()).toEqual([`StopUnit ${UNIT}`]);
      expect(heard.lines).toEqual(['restarted: web.service is no longer held: something else started it']);
    });

    it.each([
      ['masked', 'it is masked'],
      ['a rival', 'rival.service runs, and systemd would stop it to start this unit'],
    ])('is let go, without a finding, once its manifest is gone: %s', async (what, why) => {
      let isDeclared = true;
      await restart.close();
      open({ mayBeDeclared: (pod) => pod === 'default/web' && isDeclared });
      if (what === 'masked') {
        await evictUnderPressure();
        unit({ loadState: 'masked' });
        restart.setCondition('MemoryPressure', false);
      } else await evictBeside({});
      await isSaid(why);
      expect(held()).toHaveLength(1);
      isDeclared = false;
      await until(() => held().length === 0);
      expect(heard.lines).toEqual([`restarted: web.service is no longer held: ${why}, and its manifest is gone`]);
      expect([...heard.present]).toEqual([]);
      expect(fake.asked()).toEqual([`StopUnit ${UNIT}`]);
    });

    it('stays held although its manifest is gone while its file is broken: nobody has decided that', async () => {
      await restart.close();
      open({ mayBeDeclared: () => false });
      await evictUnderPressure();
      unit({ loadState: 'bad-setting' });
      restart.setCondition('MemoryPressure', false);
      await isSaid('its unit file has a bad setting');
      unit({ loadState: 'loaded' });
      await until(() => fake.asked().includes(START));
    });

    it.each([
      ['masked', 'it is masked'],
      ['not-found', 'systemd knows no such unit'],
    ])('is let go by an uninstall, which says so, while it is %s', async (loadState, why) => {
      await evictUnderPressure();
      await restart.close();
      unit({ loadState });
      expect(await release()).toEqual({ started: [], left: [`web.service is not started: ${why}`], problems: [] });
      expect(held()).toEqual([]);
    });

    it('is still to be started by the next uninstall if its file is broken', async () => {
      await evictUnderPressure();
      await restart.close();
      unit({ loadState: 'bad-setting' });
      expect(await release()).toEqual({
        started: [],
        left: [],
        problems: ['web.service could not be started: its unit file has a bad setting'],
      });
      unit({ loadState: 'loaded' });
      expect(await release()).toMatchObject({ started: [UNIT], problems: [] });
    });
  },
);
