import { describe, expect, it, onTestFinished } from 'vitest';
import type { EvictResource } from '../../src/core/pod/evict-for.ts';
import { known, unknown } from '../../src/core/reading.ts';
import { sleep } from '../../src/host/clock.ts';
import type { UnitState, UnitTies } from '../../src/host/systemd/unit-facts.ts';
import type { BoundPod } from '../../src/ports.ts';
import { createTies } from '../../src/standalone/ties/ties.ts';
import { hasDbusDaemon, until } from '../host/private-bus.ts';
import { addUnit, bound, changeUnit, clock, fake, of, tie, ties } from './a-tied-pods.ts';

describe.skipIf(!hasDbusDaemon)('pods whose units depend on each other [needs dbus-daemon]', () => {
  it('are between two runs only if systemd says that it is about to start them, and their binding is not refused', async () => {
    const state = (name: string, activeState: string, subState: string): void => {
      addUnit(name, {}, activeState);
      changeUnit(name, { subState });
    };
    state('again', 'activating', 'auto-restart');
    state('refused', 'activating', 'auto-restart');
    state('starts', 'activating', 'start');
    state('runs', 'active', 'running');
    const refused = {
      ...bound('refused', 0, false),
      cgroup: unknown('unreadable', 'refused', 'it is not below the node'),
    };
    const all = [...['again', 'starts', 'runs'].map((name) => bound(name, 0, false)), refused];
    const between = () => ties.tied(all).filter(({ isBetweenRuns }) => isBetweenRuns);
    await until(() => between().length > 0);
    expect(between().map(({ declared }) => declared.name)).toEqual(['again']);
    ties.doubtRestart('again');
    expect(between()).toEqual([]);
    await until(() => between().length > 0);
  });

  it('have at least the priority of those that stop with them, while these run, and name them', async () => {
    addUnit('db', {
      RequiredBy: ['front.service', 'helper.service'],
      Before: ['front.service', 'helper.service', 'else.service'],
    });
    addUnit('front');
    addUnit('helper');
    addUnit('else');
    const pods = [bound('db', 0), bound('front', 2_000), bound('bare', 5)];
    await until(() => of('db', pods)?.inherited !== undefined);
    expect(of('db', pods)).toMatchObject({
      priority: 0,
      inherited: { priority: 2_000, from: 'default/front' },
      takesAlong: ['default/front', 'helper.service'],
      stopsAfter: ['front'],
      stopsAfterUnits: ['helper.service'],
    });
    expect(of('front', pods)).toEqual(pods[1]?.declared);
    const stopped = [bound('db', 0), bound('front', 2_000, false), bound('bare', 5)];
    // Its cgroup is gone, and Restart= may bring it back: systemd has not said yet.
    expect(of('db', stopped)).toMatchObject({ inherited: { priority: 2_000 } });
    fake.endsByItself('front.service');
    await until(() => of('db', stopped)?.inherited === undefined);
    expect(of('db', stopped)).toMatchObject({ takesAlong: ['helper.service'] });
  });

  it('have the priority and protection of one that systemd is about to start again, also while it may have given up', async () => {
    addUnit('db', { RequiredBy: ['front.service'] });
    addUnit('front', {}, 'activating');
    changeUnit('front', { subState: 'auto-restart' });
    const pods = [bound('db', 0), bound('front', 2_000, false, true)];
    const isCounted = (): boolean => of('db', pods)?.isProtected === true;
    await until(isCounted);
    expect(of('db', pods)).toMatchObject({ inherited: { priority: 2_000 }, takesAlong: ['default/front'] });
    ties.doubtRestart('front');
    expect(isCounted()).toBe(true);
    fake.endsByItself('front.service');
    await until(() => !isCounted());
  });

  it('have at least the priority of a pod with StopWhenUnneeded= that only they need, while nothing else needs it', async () => {
    addUnit('front', { Wants: ['aid.service'] });
    addUnit('aid', { WantedBy: ['front.service', 'helper.service'] }, 'active', true);
    addUnit('helper', { Wants: ['aid.service'] }, 'inactive');
    const pods = [bound('front', 0), bound('aid', 2_000)];
    await until(() => of('front', pods)?.inherited !== undefined);
    expect(of('front', pods)).toMatchObject({
      inherited: { priority: 2_000, from: 'default/aid' },
      takesAlong: ['default/aid'],
    });
    addUnit('helper', { Wants: ['aid.service'] });
    await fake.systemd.start('helper.service');
    await until(() => of('front', pods)?.inherited === undefined);
    expect(of('front', pods)).toEqual(pods[0]?.declared);
  });

  it('take up what a unit leaves to them that ends by itself, and no longer name it', async () => {
    addUnit('front', { Wants: ['aid.service'], RequiredBy: ['helper.service'] });
    addUnit('helper');
    addUnit('job');
    addUnit('aid', { WantedBy: ['front.service', 'job.service'] }, 'active', true);
    const pods = [bound('front', 0), bound('aid', 2_000)];
    await until(() => of('front', pods)?.takesAlong !== undefined);
    expect(of('front', pods)?.takesAlong).toEqual(['helper.service']);
    fake.endsByItself('job.service');
    fake.endsByItself('helper.service');
    await until(() => of('front', pods)?.inherited !== undefined);
    expect(of('front', pods)?.takesAlong).toEqual(['default/aid']);
  });

  it('have the priority of a pod that is in conflict with what systemd starts at their end, as it says itself', async () => {
    addUnit('low', { OnSuccess: ['clean.service'] });
    addUnit('clean', {}, 'inactive');
    addUnit('db', { Conflicts: ['clean.service'] });
    const pods = [bound('low', 0), bound('db', 2_000, true, true)];
    await until(() => of('low', pods)?.inherited !== undefined);
    expect(of('low', pods)).toMatchObject({ inherited: { priority: 2_000, from: 'default/db' }, isProtected: true });
    expect(of('low', pods)?.takesAlong).toBeUndefined();
    fake.endsByItself('db.service');
    await until(() => of('low', [bound('low', 0), bound('db', 2_000, false)])?.inherited === undefined);
  });

  it('one of several that need a pod with StopWhenUnneeded= has its priority, as do those it stops with', async () => {
    addUnit('base', { RequiredBy: ['late.service'] });
    addUnit('early', { Wants: ['aid.service'] });
    addUnit('late', { Requires: ['base.service'], Wants: ['aid.service'] });
    addUnit('aid', { WantedBy: ['early.service', 'late.service'] }, 'active', true);
    const pods = [bound('base', 0), bound('early', 10), bound('late', 20), bound('aid', 2_000)];
    await until(() => of('late', pods)?.inherited !== undefined);
    const inherited = { priority: 2_000, from: 'default/aid' };
    expect(of('late', pods)).toMatchObject({ inherited });
    // While the other one runs, nothing stops with it.
    expect(of('late', pods)?.takesAlong).toBeUndefined();
    expect(of('base', pods)).toMatchObject({ inherited, takesAlong: ['default/late'] });
    expect(of('early', pods)).toEqual(pods[1]?.declared);
  });

  it('keep their priority if a second manifest claims the same unit and is refused', async () => {
    ties.close();
    const unitOf = (uid: string): string => (uid === 'copy' ? 'db.service' : `${uid}.service`);
    tie({ clock, systemd: fake.systemd, unitOf, wake: () => undefined });
    addUnit('db', { RequiredBy: ['front.service'] });
    addUnit('front');
    const pods = [bound('db', 0), bound('front', 2_000)];
    await until(() => of('db', pods)?.inherited !== undefined);
    const refused = bound('copy', 0, false);
    for (const all of [
      [...pods, refused],
      [refused, ...pods],
    ]) {
      await until(() => of('db', all)?.inherited !== undefined);
      ties.tied(all);
      await sleep(clock, 300);
      expect(of('db', all)).toMatchObject({ inherited: { priority: 2_000 }, takesAlong: ['default/front'] });
    }
  });

  it('are as protected as those that stop with them', async () => {
    addUnit('db', { RequiredBy: ['front.service'] });
    addUnit('front');
    const pods = [bound('db', 0), bound('front', 0, true, true)];
    await until(() => of('db', pods)?.isProtected === true);
  });

  it('are evicted only for resources for which those that stop with them may be evicted', async () => {
    addUnit('db', { RequiredBy: ['front.service'] });
    addUnit('front');
    const [db, front] = [bound('db', 0), bound('front', 0)];
    const may = (pod: BoundPod, evictFor: readonly EvictResource[]): BoundPod => ({
      ...pod,
      declared: { ...pod.declared, evictFor },
    });
    await until(() => of('db', [db, may(front, ['disk'])])?.evictFor?.join() === 'disk');
    expect(of('db', [may(db, ['memory', 'pids']), may(front, ['disk', 'pids'])])?.evictFor).toEqual(['pids']);
    expect(of('front', [may(db, ['memory']), front])?.evictFor).toBeUndefined();
  });

  it('name one that stops with them and must not go because they are over a storage limit, even if it has no process', async () => {
    addUnit('db', { RequiredBy: ['front.service'] });
    addUnit('front');
    changeUnit('front', { subState: 'exited', hasStopCommand: true });
    const idle = (rest: Partial<BoundPod['declared']>): BoundPod => {
      const front = bound('front', 0, false);
      return { ...front, declared: { ...front.declared, ...rest } };
    };
    const db = bound('db', 0);
    const spares = (rest: Partial<BoundPod['declared']>) => of('db', [db, idle(rest)])?.limitSpares;
    await until(() => of('db', [db, idle({})])?.takesAlong !== undefined);
    const spared = [{ isProtected: true }, { isStaticCritical: true }, { evictFor: ['memory'] as const }];
    expect(spared.map(spares)).toEqual(spared.map(() => 'default/front'));
    expect([{}, { evictFor: ['disk'] as const }, { isProtected: true, isTerminating: true }].map(spares)).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    const critical = { ...db, declared: { ...db.declared, isStaticCritical: true } };
    expect(of('db', [critical, idle({ isProtected: true })])?.limitSpares).toBeUndefined();
  });

  it('are recognised if a start ends before the answer about the unit has been read', async () => {
    ties.close();
    let isAnswered = false;
    let release = (): void => undefined;
    const isReleased = new Promise<void>((resolve) => {
      release = resolve;
    });
    const slow = async (name: string) => {
      const answer = await fake.systemd.ties(name);
      if (name !== 'late.service' || isAnswered) return answer;
      isAnswered = true;
      await isReleased;
      return answer;
    };
    const unitOf = (uid: string): string => `${uid}.service`;
    tie({ clock, systemd: { ...fake.systemd, ties: slow }, unitOf, wake: () => undefined });
    addUnit('late', { Requires: ['db.service'] }, 'inactive');
    addUnit('db', { RequiredBy: ['late.service'] });
    const pods = [bound('db', 0)];
    ties.tied(pods);
    await until(() => isAnswered);
    let isEnded = false;
    const end = fake.systemd.whenJobEnds(() => {
      isEnded = true;
    });
    fake.byOthers('start', 'late.service');
    await until(() => isEnded);
    end();
    release();
    await until(() => of('db', pods)?.takesAlong !== undefined, 5_000);
    expect(of('db', pods)?.takesAlong).toEqual(['late.service']);
  });

  it('are recognised when a unit starts that did not exist before', async () => {
    addUnit('db');
    const pods = [bound('db', 0)];
    ties.tied(pods);
    await until(() => fake.systemd.isUp());
    addUnit('late', { Requires: ['db.service'] }, 'inactive');
    addUnit('db', { RequiredBy: ['late.service'] });
    fake.byOthers('start', 'late.service');
    await until(() => of('db', pods)?.takesAlong !== undefined);
    expect(of('db', pods)?.takesAlong).toEqual(['late.service']);
  });

  it.each([
    ['inactive', 'dead', false],
    ['deactivating', 'stop', false],
    ['active', 'running', true],
  ])(
    'are known to run or not by what systemd says by itself, before it answers again: %s',
    async (activeState, subState, expected) => {
      let isSilent = false;
      let state = (_unit: string, _now: UnitState): void => undefined;
      const hears = () => () => undefined;
      const relations: { readonly [unit: string]: UnitTies['relations'] } = {
        'web.service': { RequiredBy: ['batch.timer'] },
        'batch.timer': { Requires: ['web.service'] },
      };
      const active = { loadState: 'loaded', activeState: 'active', subState: 'running', stopsUnneeded: false };
      const systemd: Parameters<typeof createTies>[0]['systemd'] = {
        ...fake.systemd,
        ...{ isUp: () => true, stopCommands: async () => known(0) },
        ...{ whenJobBegins: hears, whenJobEnds: hears, whenReloading: hears, whenUp: hears },
        ties: (id) =>
          isSilent
            ? new Promise(() => undefined)
            : Promise.resolve(known({ id, ...active, relations: relations[id] ?? {} })),
        whenStateChanges: (tell) => {
          state = tell;
          return () => undefined;
        },
      };
      const made = createTies({ clock, systemd, unitOf: () => 'web.service', wake: () => undefined });
      onTestFinished(made.close);
      made.tied([bound('web', 0)]);
      await until(() => made.others('web.service').includes('batch.timer'));
      expect(made.runsNow('batch.timer')).toBe(true);
      isSilent = true;
      state('batch.timer', { activeState, subState, activeUntilUs: 0 });
      expect(made.runsNow('batch.timer')).toBe(expected);
    },
  );

  it('stop with a pod that starts, and was not loaded when systemd was asked about the others, as soon as it runs', async () => {
    addUnit('lo');
    addUnit('mid', { Requires: ['lo.service'] }, 'inactive');
    addUnit('hi', { Requires: ['mid.service'], After: ['lo.service'] }, 'inactive');
    const pods = (isRunning: boolean) => [bound('lo', 0), bound('hi', 2_000, isRunning, true)];
    of('lo', pods(false));
    await until(ties.isTold);
    expect(of('lo', pods(false))?.takesAlong).toBeUndefined();
    // A start that does not end: systemd lists it from now on, and tells of nothing but the start itself.
    addUnit('lo', { RequiredBy: ['mid.service'], Before: ['hi.service'] });
    changeUnit('hi', { activeState: 'activating', subState: 'start-pre' });
    fake.begin('hi.service');
    await until(() => of('lo', pods(true))?.takesAlong !== undefined);
    expect(of('lo', pods(true))).toMatchObject({
      inherited: { priority: 2_000, from: 'default/hi' },
      isProtected: true,
      takesAlong: ['default/hi'],
      stopsAfter: ['hi'],
    });
  });

  it('have the priority of a pod with StopWhenUnneeded= that they come to need as they start, and then are the last to need', async () => {
    addUnit('old', { Wants: ['aid.service'] });
    addUnit('aid', { WantedBy: ['old.service'] }, 'active', true);
    addUnit('new', { Wants: ['aid.service'] }, 'inactive');
    const pods = [bound('new', 0), bound('aid', 2_000)];
    of('new', pods);
    await until(ties.isTold);
    expect(of('new', pods)).toEqual(pods[0]?.declared);
    changeUnit('new', { activeState: 'activating' });
    fake.begin('new.service');
    fake.endsByItself('old.service');
    await until(() => of('new', pods)?.takesAlong !== undefined);
    expect(of('new', pods)).toMatchObject({ inherited: { priority: 2_000 }, takesAlong: ['default/aid'] });
  });

  it.each([
    ['many others that concern no pod, in the end', 'other', true],
    ['many commands of the agent itself, at once', 'nodewarden-command-', false],
  ])('are recognised when a unit starts after %s', async (_, named, isLater) => {
    ties.close();
    const later: (() => void)[] = [];
    const noLongTimer: typeof clock = {
      ...clock,
      after: (ms, run) => {
        if (ms < 1_000) return clock.after(ms, run);
        later.push(run);
        return () => undefined;
      },
    };
    const unitOf = (uid: string): string => `${uid}.service`;
    tie({ clock: noLongTimer, systemd: fake.systemd, unitOf, wake: () => undefined });
    let ends = 0;
    fake.systemd.whenJobEnds(() => {
      ends += 1;
    });
    addUnit('db', { RequiredBy: ['front.service'] });
    addUnit('front');
    const pods = [bound('db', 0)];
    await until(() => of('db', pods)?.takesAlong !== undefined);
    const others = Array.from({ length: 25 }, (_, i) => `${named}${i}`);
    for (const name of others) {
      addUnit(name);
      fake.byOthers('start', `${name}.service`);
    }
    await until(() => ends === others.length);
    addUnit('late', { Requires: ['db.service'] });
    addUnit('db', { RequiredBy: ['front.service', 'late.service'] });
    fake.byOthers('start', 'late.service');
    await until(() => ends === others.length + 1 && (!isLater || later.length > 0));
    if (isLater) for (const run of later) run();
    await until(() => of('db', pods)?.takesAlong?.includes('late.service') === true);
  });

  it('keep what is known of them while systemd does not answer after a reload', async () => {
    ties.close();
    let isSilent = false;
    let refused = 0;
    const silent = async (name: string) => {
      if (!isSilent) return fake.systemd.ties(name);
      refused += 1;
      return unknown('timed-out', name, 'no answer');
    };
    let woken = 0;
    const wake = (): void => {
      woken += 1;
    };
    let reload = (_isReloading: boolean): void => undefined;
    const whenReloading = (run: typeof reload) => {
      reload = run;
      return () => undefined;
    };
    const unitOf = (uid: string): string => `${uid}.service`;
    tie({ clock, systemd: { ...fake.systemd, ties: silent, whenReloading }, unitOf, wake });
    addUnit('db', { RequiredBy: ['front.service'] });
    addUnit('front');
    const pods = [bound('db', 0), bound('front', 2_000)];
    await until(() => of('db', pods)?.inherited !== undefined);
    isSilent = true;
    const before = woken;
    reload(false);
    await until(() => refused > 0 && woken > before);
    expect(of('db', pods)?.inherited).toEqual({ priority: 2_000, from: 'default/front' });
  });
});
