import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { EvictResource } from '../../src/core/pod/evict-for.ts';
import { known, unknown } from '../../src/core/reading.ts';
import { createClock, sleep } from '../../src/host/clock.ts';
import type { UnitTies } from '../../src/host/unit-facts.ts';
import type { BoundPod } from '../../src/ports.ts';
import { createTies, type Ties } from '../../src/standalone/ties.ts';
import { aPod } from '../a.ts';
import { type FakeSystemd, openFakeSystemd } from '../host/fake-systemd.ts';
import { hasDbusDaemon, until } from '../host/private-bus.ts';

const clock = createClock();

describe.skipIf(!hasDbusDaemon)('pods whose units depend on each other [needs dbus-daemon]', () => {
  let fake: FakeSystemd;
  let ties: Ties;
  beforeEach(async () => {
    fake = await openFakeSystemd();
    ties = createTies({
      clock,
      systemd: fake.systemd,
      unitOf: (uid) => (uid === 'bare' ? null : `${uid}.service`),
      wake: () => undefined,
    });
  });
  afterEach(async () => {
    ties.close();
    await fake.remove();
  });
  const addUnit = (
    name: string,
    relations: UnitTies['relations'] = {},
    activeState = 'active',
    stopsUnneeded = false,
  ): void => {
    fake.units.set(`${name}.service`, {
      activeState,
      stopsUnneeded,
      invocation: 1,
      controlGroup: `/${name}`,
      loadState: 'loaded',
      relations,
    });
  };
  const bound = (name: string, priority: number, isRunning = true, isProtected = false): BoundPod => {
    const { usage: _, ...declared } = aPod({ name, uid: name, priority, isProtected });
    const cgroup = isRunning ? known({ path: `/${name}`, inode: 7 }) : unknown('absent', name, 'it is not running');
    return { declared, cgroup, containers: [], disk: async () => unknown('not-asked', '', '') };
  };
  const of = (name: string, pods: readonly BoundPod[]) =>
    ties.tied(pods).find(({ declared }) => declared.uid === name)?.declared;

  it('are between two runs only if systemd says that it is about to start them, and their binding is not refused', async () => {
    const state = (name: string, activeState: string, subState: string): void => {
      addUnit(name, {}, activeState);
      Object.assign(fake.units.get(`${name}.service`) ?? {}, { subState });
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
    expect(of('db', stopped)).toMatchObject({ takesAlong: ['helper.service'] });
    expect(of('db', stopped)?.inherited).toBeUndefined();
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
    ties = createTies({ clock, systemd: fake.systemd, unitOf, wake: () => undefined });
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
    ties = createTies({ clock, systemd: { ...fake.systemd, ties: slow }, unitOf, wake: () => undefined });
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

  it('are recognised when a unit starts after many others that concern no pod', async () => {
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
    ties = createTies({ clock: noLongTimer, systemd: fake.systemd, unitOf, wake: () => undefined });
    let ends = 0;
    fake.systemd.whenJobEnds(() => {
      ends += 1;
    });
    addUnit('db', { RequiredBy: ['front.service'] });
    addUnit('front');
    const pods = [bound('db', 0)];
    await until(() => of('db', pods)?.takesAlong !== undefined);
    const others = Array.from({ length: 25 }, (_, i) => `other${i}`);
    for (const name of others) {
      addUnit(name);
      fake.byOthers('start', `${name}.service`);
    }
    await until(() => ends === others.length);
    addUnit('late', { Requires: ['db.service'] });
    addUnit('db', { RequiredBy: ['front.service', 'late.service'] });
    fake.byOthers('start', 'late.service');
    await until(() => ends === others.length + 1 && later.length > 0);
    for (const run of later) run();
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
    let reload = (): void => undefined;
    const whenReloaded = (run: () => void) => {
      reload = run;
      return () => undefined;
    };
    const unitOf = (uid: string): string => `${uid}.service`;
    ties = createTies({ clock, systemd: { ...fake.systemd, ties: silent, whenReloaded }, unitOf, wake });
    addUnit('db', { RequiredBy: ['front.service'] });
    addUnit('front');
    const pods = [bound('db', 0), bound('front', 2_000)];
    await until(() => of('db', pods)?.inherited !== undefined);
    isSilent = true;
    const before = woken;
    reload();
    await until(() => refused > 0 && woken > before);
    expect(of('db', pods)?.inherited).toEqual({ priority: 2_000, from: 'default/front' });
  });
});
