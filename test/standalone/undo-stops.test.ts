import { rmSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { known } from '../../src/core/reading.ts';
import type { Systemd } from '../../src/host/systemd/systemd.ts';
import type { UndoneStops } from '../../src/mode.ts';
import { stopsPath } from '../../src/standalone/stop/stops-file.ts';
import { hasDbusDaemon, until } from '../host/private-bus.ts';
import {
  addUnit,
  alive,
  byOthers,
  directory,
  fake,
  heeded,
  held,
  isSeen,
  live,
  liveUnit,
  type Others,
  open,
  order,
  request,
  stateOf,
  stop,
  toldStates,
} from './an-undo.ts';

const RUNNING = ['active', 'activating', 'reloading'];

/** How a unit was, whether the shutdown stopped it, and what became of it before the cancel. */
type Case = {
  readonly state: string;
  readonly isStopped: boolean;
  readonly others: Others;
  readonly isHeld: boolean;
  readonly loadState: string;
};
const aCase: fc.Arbitrary<Case> = fc.record({
  state: fc.constantFrom('active', 'active', 'active', 'activating', 'reloading', 'deactivating', 'inactive', 'failed'),
  isStopped: fc.boolean(),
  others: fc.constantFrom('nothing', 'nothing', 'nothing', 'stop', 'start', 'start and stop'),
  isHeld: fc.constantFrom(false, false, false, true),
  loadState: fc.constantFrom('loaded', 'loaded', 'loaded', 'masked'),
});

describe.skipIf(!hasDbusDaemon)('undoing what a shutdown stopped [needs dbus-daemon]', () => {
  it('takes back a stop that waits for others to stop first', async () => {
    const takenBack: string[] = [];
    const cancelStop: Systemd['cancelStop'] = async (name) => {
      takenBack.push(name);
      return known(true);
    };
    const stops = open({ systemd: { ...heeded(), stop: async () => known(true), cancelStop } });
    stops.setShuttingDown(true);
    addUnit('db');
    const pod = await liveUnit('db');
    const asked = request(stops, pod)?.();
    await until(() => isSeen('db', 'active'));
    const undone = stops.undo();
    expect(await asked).toBe('spared');
    stops.ended(order(pod), 'spared');
    expect(await undone).toEqual({ started: [], notUndone: [] });
    expect(takenBack).toEqual(['db.service']);
    expect(stateOf('db')).toBe('active');
  });

  it('lets a signalled pod finish, although its unit is still active after a restart of the agent', async () => {
    const state = { systemState: async () => known('stopping') };
    addUnit('db');
    const pod = await liveUnit('db');
    const before = open({ systemd: { ...heeded(), ...state, signalStop: async () => known(true) } });
    before.setShuttingDown(true);
    expect(await request(before, pod)?.()).toBe('told');
    before.close();
    const after = open();
    after.setShuttingDown(false);
    expect(await request(after, pod)?.()).toBe('told');
    expect(stateOf('db')).toBe('active');
  });

  it('starts exactly what ran, was stopped by it, and was not touched since', { timeout: 120_000 }, async () => {
    let run = 0;
    const check = async (cases: readonly Case[]): Promise<void> => {
      run += 1;
      // Of a run that failed, when the next one is to show less of it.
      rmSync(stopsPath(directory), { force: true });
      const stops = open();
      const named = cases.map((one, i) => ({ ...one, name: `u${run}-${i}` }));
      for (const { name, state } of named) addUnit(name, state);
      await Promise.all(named.filter(({ isStopped }) => isStopped).map(({ name }) => stop(stops, name)));
      for (const { name, others, isHeld, loadState } of named) {
        await byOthers(name, others);
        if (isHeld) held.add(`${name}.service`);
        const unit = fake.units.get(`${name}.service`);
        if (unit !== undefined) unit.loadState = loadState;
      }
      const asked = fake.asked().length;
      const { started, notUndone } = await stops.undo();
      const isOurs = ({ state, isStopped, others, isHeld }: Case): boolean =>
        isStopped && RUNNING.includes(state) && others === 'nothing' && !isHeld;
      const ours = named.filter(isOurs);
      const expected = ours.filter(({ loadState }) => loadState === 'loaded').map(({ name }) => `${name}.service`);
      expect([...started].sort()).toEqual([...expected].sort());
      expect([...fake.asked().slice(asked)].sort()).toEqual(expected.map((unit) => `StartUnit ${unit}`).sort());
      expect(notUndone).toHaveLength(ours.length - expected.length);
      expect(stops.isEmpty()).toBe(true);
      stops.close();
    };
    await fc.assert(fc.asyncProperty(fc.array(aCase, { minLength: 1, maxLength: 6 }), check), { numRuns: 25 });
  });

  it('leaves alone what a person stopped once it was down, although systemd has not reported that yet', async () => {
    addUnit('web');
    const state = (): string => (stateOf('web') === 'active' ? 'active' : 'deactivating');
    const late: Systemd = { ...fake.systemd, activeState: async () => known(state()) };
    const stops = open({ systemd: late });
    const pod = await liveUnit('web');
    await request(stops, pod)?.();
    await until(() => stateOf('web') === 'inactive');
    stops.ended(order(pod), 'ended');
    await byOthers('web', 'stop');
    expect(await stops.undo()).toEqual({ started: [], notUndone: [] });
  });

  it('stops no unit that was started since and cannot run beside one of the pods, or beside what that needs', async () => {
    const stops = open();
    for (const name of ['web', 'db', 'mail', 'free']) addUnit(name);
    addUnit('needed', 'inactive');
    const relate = (name: string, relations: { readonly [list: string]: readonly string[] }): void => {
      const unit = fake.units.get(`${name}.service`);
      if (unit !== undefined) unit.relations = relations;
    };
    for (const name of ['web', 'db', 'mail', 'free']) await stop(stops, name);
    addUnit('innocent');
    relate('web', { Conflicts: ['innocent.service'] });
    relate('db', { ConflictedBy: ['innocent.service'] });
    relate('mail', { Requires: ['needed.service'] });
    relate('needed', { Conflicts: ['innocent.service'] });
    // As of every unit. A target has no cgroup that could be asked for.
    relate('free', { Requires: ['sysinit.target'], Conflicts: ['shutdown.target'] });
    for (const [name, activeState] of [['sysinit', 'active'] as const, ['shutdown', 'inactive'] as const])
      fake.units.set(`${name}.target`, { activeState, invocation: 1, controlGroup: '', loadState: 'loaded' });
    const { started, notUndone } = await stops.undo();
    expect(started).toEqual(['free.service']);
    expect(notUndone.toSorted()).toEqual(
      ['db', 'mail', 'web'].map(
        (name) => `default/${name}: innocent.service runs, and systemd would stop it to start this unit`,
      ),
    );
    expect(stateOf('innocent')).toBe('active');
  });

  it('names a pod as restarted that systemd starts for another one', async () => {
    addUnit('db');
    addUnit('web');
    const pulling: Systemd = {
      ...heeded(),
      start: async (name) => {
        if (name === 'web.service') addUnit('db', 'active');
        const db = fake.units.get('db.service');
        if (db !== undefined) Object.assign(db, { invocation: 7, relations: { RequiredBy: ['web.service'] } });
        return fake.systemd.start(name);
      },
    };
    const stops = open({ systemd: pulling });
    for (const name of ['web', 'db']) await stop(stops, name);
    expect((await stops.undo()).started.toSorted()).toEqual(['db.service', 'web.service']);
    expect(fake.asked().filter((asked) => asked.startsWith('StartUnit'))).toEqual(['StartUnit web.service']);
  });

  it('starts after a restart of the agent what the earlier run stopped', async () => {
    const before = open();
    for (const name of ['web', 'db', 'mail']) {
      addUnit(name);
      await stop(before, name);
    }
    before.close();
    // Started and stopped again while nobody looked.
    fake.units.set('mail.service', { activeState: 'failed', invocation: 2, controlGroup: '', loadState: 'loaded' });
    toldStates.clear();
    const after = open();
    await until(() => isSeen('web', 'inactive') && isSeen('db', 'inactive'));
    await byOthers('db', 'stop');
    expect(await after.undo()).toEqual({ started: ['web.service'], notUndone: [] });
  });

  it('restarts what ran in a slice, and names what nobody can start', async () => {
    const stops = open();
    for (const unit of ['shop.slice', 'till.service', 'guest.scope']) {
      fake.units.set(unit, { activeState: 'active', invocation: 1, controlGroup: '/x', loadState: 'loaded' });
    }
    const pod = await live('shop', 'systemd-unit: shop.slice', 'shop.slice');
    await request(stops, pod)?.();
    for (const unit of ['till.service', 'guest.scope']) fake.byOthers('stop', unit);
    await until(() => fake.units.get('shop.slice')?.activeState === 'inactive');
    stops.ended(order(pod), 'ended');
    const { started, notUndone } = await stops.undo();
    expect(started).toContain('till.service');
    expect(notUndone).toEqual([expect.stringMatching(/^guest\.scope: .*only what created it can/)]);
  });

  it('leaves what still runs, and names what only its creator can start if that does not run', async () => {
    const stops = open();
    const kinds: readonly (readonly [string, string, string | null])[] = [
      ['job', 'cgroup: a/b', null],
      ['lives', 'cgroup: a/c', null],
      ['box', 'podman: box', `libpod-${'0'.repeat(64)}.scope`],
      ['pod', 'podman: pod', 'machine-libpod_pod_x.slice'],
      ['scope', 'systemd-unit: run-1.scope', 'run-1.scope'],
      ['again', 'systemd-unit: again.slice', 'again.slice'],
    ];
    for (const [name, annotation, unit] of kinds) {
      if (unit !== null) {
        fake.units.set(unit, { activeState: 'active', invocation: 1, controlGroup: '/x', loadState: 'loaded' });
      }
      const pod = await live(name, annotation, unit);
      await request(stops, pod)?.();
      if (unit !== null) await until(() => fake.units.get(unit)?.activeState === 'inactive');
      stops.ended(order(pod), 'ended');
    }
    alive.add('lives');
    await byOthers('again', 'nothing');
    fake.units.set('again.slice', { activeState: 'active', invocation: 2, controlGroup: '/x', loadState: 'loaded' });
    const undone: UndoneStops = await stops.undo();
    expect(undone.started).toEqual([]);
    expect(undone.notUndone.toSorted()).toEqual([
      expect.stringMatching(/^default\/box: .*podman start box$/),
      expect.stringMatching(/^default\/job: .*by signals/),
      expect.stringMatching(/^default\/pod: .*podman pod start pod$/),
      expect.stringMatching(/^default\/scope: .*only what created it can/),
    ]);
  });

  it('does not count a pod that was gone, or whose signalled processes survived', async () => {
    const stops = open();
    for (const how of ['gone', 'survived'] as const) {
      const pod = await live(how, 'cgroup: a/b', null);
      expect(request(stops, pod)).toBeNull();
      stops.ended(order(pod), how);
    }
    expect(stops.isEmpty()).toBe(true);
  });
});
