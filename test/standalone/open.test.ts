import { chmodSync, mkdirSync, mkdtempSync, rmdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { openSystemBus, type SystemBus } from '../../src/host/bus.ts';
import { createClock, sleep } from '../../src/host/clock.ts';
import { createSystemd, type Systemd } from '../../src/host/systemd.ts';
import type { BoundPod, Clock, StopOrder } from '../../src/ports.ts';
import { openStandalone, type Standalone } from '../../src/standalone/open.ts';
import { makeCgroup, mounts, needsCgroups, type TestCgroup } from '../act/a-cgroup.ts';
import { type FakeSystemd, openFakeSystemd } from '../host/fake-systemd.ts';
import { hasDbusDaemon, until } from '../host/private-bus.ts';
import { heardParts, hurried } from './needs.ts';

const clock = createClock();
const IGNORES = "trap '' TERM; echo up; while :; do sleep 1000; done";

describe.skipIf(needsCgroups !== '')(`standalone pods ${needsCgroups}`, () => {
  let directory: string;
  let heard: ReturnType<typeof heardParts>;
  let cgroups: TestCgroup[];
  let standalone: Standalone;
  let bus: SystemBus;
  let fake: FakeSystemd | null;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'nodewarden-pods-'));
    mkdirSync(join(directory, 'pods.d'));
    heard = heardParts();
    cgroups = [makeCgroup(), makeCgroup()];
    fake = null;
    bus = openSystemBus(clock, { DBUS_SYSTEM_BUS_ADDRESS: `unix:path=${directory}/no-bus` });
  });
  afterEach(async () => {
    await standalone.close();
    bus.close();
    await fake?.remove();
    for (const cgroup of cgroups) await cgroup.remove();
    rmSync(directory, { recursive: true });
  });
  const cgroup = (i: number): TestCgroup => {
    const found = cgroups[i];
    if (found === undefined) throw new Error('no such cgroup');
    return found;
  };
  const write = (name: string, annotation: string, more = ''): void =>
    writeFileSync(
      join(directory, 'pods.d', `${name}.yaml`),
      `apiVersion: v1\nkind: Pod\nmetadata:\n  name: ${name}\n  annotations:\n    nodewarden.dev/${annotation}\n${more}spec: { containers: [{ name: a }] }\n`,
    );
  const open = (
    more: { readonly clock?: Clock; readonly wake?: () => void; readonly systemd?: Systemd } = {},
  ): void => {
    if (mounts === null) return;
    const at = { cgroupRoot: '/', podManifests: join(directory, 'pods.d'), runtimeDirectory: directory };
    const systemd = createSystemd(bus);
    const needs = { ...heard, ...at, clock, mounts, systemd, wake: () => undefined, dry: false };
    standalone = openStandalone({ ...needs, ...more });
  };
  const pods = (): readonly BoundPod[] => {
    const reading = standalone.pods.pods();
    return reading.known ? reading.value : [];
  };
  const podOf = (name: string): BoundPod => {
    const found = pods().find(({ declared }) => declared.name === name);
    if (found === undefined) throw new Error(`no pod ${name}`);
    return found;
  };
  const order = (name: string, more: Partial<StopOrder> = {}): StopOrder => {
    const { uid, namespace, qos, priority, boundTo } = podOf(name).declared;
    const victim = { uid, namespace, name, qos, priority, ...(boundTo === undefined ? {} : { boundTo }) };
    return {
      decision: 'd1',
      victim,
      graceMs: 200,
      why: 'eviction',
      isHard: false,
      resumedFromMs: null,
      first: 'sigterm',
      givesBack: 'memory',
      ...more,
    };
  };
  const stop = (name: string, more: Partial<StopOrder> = {}) =>
    standalone.killer.stop(order(name, more), new AbortController().signal);

  it('are known at once if they are cgroups, with the age of their oldest process', async () => {
    await cgroup(0).run(IGNORES);
    write('one', `cgroup: ${cgroup(0).path}`);
    open();
    expect(podOf('one').cgroup).toEqual({ known: true, value: cgroup(0).ref });
    expect(Math.abs((podOf('one').declared.startedAtWallMs ?? 0) - clock.wallMs())).toBeLessThan(60_000);
  });

  it('that start later are found on request, and otherwise the sooner the next look is due', async () => {
    const path = join(cgroup(0).path, 'later');
    const made = join(mounts?.memory ?? '', path);
    write('one', `cgroup: ${path}`);
    let wokenMs: number | null = null;
    const fast = hurried(clock, 20);
    open({
      clock: fast,
      wake: () => {
        wokenMs ??= fast.monoMs();
      },
    });
    const isThere = (): boolean => podOf('one').cgroup.known;
    standalone.pods.follow(10_000);
    // The first pace was that of a node that may be near a threshold.
    await sleep(fast, 2_500);
    mkdirSync(made);
    await sleep(fast, 2_100);
    expect(isThere()).toBe(true);
    rmdirSync(made);
    await sleep(fast, 2_100);
    expect(isThere()).toBe(false);

    wokenMs = null;
    await sleep(fast, 1_000);
    mkdirSync(made);
    standalone.pods.follow(2);
    const nearMs = fast.monoMs();
    await until(() => wokenMs !== null);
    expect((wokenMs ?? 0) - nearMs).toBeLessThan(8_000);
    rmdirSync(made);
  });

  it('are stopped, and are terminating meanwhile', async () => {
    await cgroup(0).run(IGNORES);
    write('one', `cgroup: ${cgroup(0).path}`);
    open();
    const stopping = stop('one');
    expect(podOf('one').declared.isTerminating).toBe(true);
    expect(podOf('one').stops).toBe(0);
    expect(await stopping).toMatchObject({ of: 'd1', kind: 'ended', releasedBytes: { known: true } });
    expect(podOf('one').declared.isTerminating).toBe(false);
    // Whoever starts it again in this cgroup is told apart by it.
    expect(podOf('one').stops).toBe(1);
    expect(await stop('one')).toMatchObject({ kind: 'dropped', because: 'gone' });
  });

  it('that started after a decision are not its victims when it is resumed', async () => {
    const decidedMs = clock.monoMs() - 5_000;
    await cgroup(0).run(IGNORES);
    write('one', `cgroup: ${cgroup(0).path}`);
    open();
    expect(await stop('one', { resumedFromMs: decidedMs })).toMatchObject({ kind: 'dropped', because: 'gone' });
    // Who was told by an earlier run, and is gone, did not go by itself.
    const told = { resumedFromMs: decidedMs, sentBefore: 'sigkill' } as const;
    const end = { kind: 'ended', via: 'sigkill', releasedBytes: { known: false, why: 'not-asked' } };
    expect(await stop('one', told)).toMatchObject(end);
    expect(cgroup(0).pids()).not.toEqual([]);
    expect(await stop('one', { resumedFromMs: clock.monoMs() + 1_000 })).toMatchObject({ kind: 'ended' });
  });

  it('are not stopped if their manifest named something else at the decision', async () => {
    await cgroup(0).run(IGNORES);
    write('one', `cgroup: ${cgroup(0).path}`);
    open();
    const { victim } = order('one');
    expect(victim.boundTo).toBe(`cgroup ${cgroup(0).path}`);
    const resumed = { resumedFromMs: clock.monoMs() + 1_000, victim: { ...victim, boundTo: 'cgroup /before' } };
    const dropped = { kind: 'dropped', because: 'rebound' };
    expect(await stop('one', resumed)).toMatchObject(dropped);
    expect(await stop('one', { ...resumed, sentBefore: 'sigterm' })).toMatchObject(dropped);
    expect(cgroup(0).pids()).not.toEqual([]);
  });

  it('are stopped where they were bound if their manifest was removed or edited after they had been signalled', async () => {
    for (const edited of ['', 'cgroup: /elsewhere']) {
      await cgroup(0).run(IGNORES);
      write('one', `cgroup: ${cgroup(0).path}`);
      open();
      const resumed = order('one', { resumedFromMs: clock.monoMs(), sentBefore: 'sigterm' });
      if (edited === '') rmSync(join(directory, 'pods.d', 'one.yaml'));
      else write('one', edited);
      await until(() => pods()[0]?.declared.boundTo === (edited === '' ? undefined : `cgroup ${edited.slice(8)}`));
      const end = await standalone.killer.stop(resumed, new AbortController().signal);
      expect(end).toMatchObject({ kind: 'ended', via: expect.stringMatching(/kill/), releasedBytes: { known: true } });
      expect(cgroup(0).pids()).toEqual([]);
      await standalone.close();
    }
  });

  it('keep the last good version of a manifest that becomes invalid, and others are not affected', async () => {
    write('one', `cgroup: ${cgroup(0).path}`);
    open();
    write('one', 'cgroup: ../x');
    write('two', `cgroup: ${cgroup(1).path}`);
    await until(() => pods().length === 2);
    await until(() => heard.present.has('manifest/one.yaml'));
    expect(podOf('one').cgroup).toMatchObject({ known: true });
    expect(heard.present.get('manifest/one.yaml')).toContain('one.yaml:6:28');
    expect(heard.present.get('manifest/one.yaml')).toContain('last good version stays in force');
    write('one', `cgroup: ${cgroup(0).path}`);
    await until(() => !heard.present.has('manifest/one.yaml'));
    rmSync(join(directory, 'pods.d', 'two.yaml'));
    await until(() => pods().length === 1);
  });

  it('keep the last good version across a restart of the agent, and if the file is emptied', async () => {
    write('one', `cgroup: ${cgroup(0).path}`);
    open();
    expect(pods()).toHaveLength(1);
    for (const bad of ['', '# soon\n---\n', '{']) {
      writeFileSync(join(directory, 'pods.d', 'one.yaml'), bad);
      await until(() => heard.findings.all().some(({ id }) => id === 'manifest/one.yaml'));
      await standalone.close();
      open();
      expect(pods().map(({ declared }) => declared.boundTo)).toEqual([`cgroup ${cgroup(0).path}`]);
      expect(heard.findings.all()).toMatchObject([
        { text: expect.stringContaining('its last good version stays in force') },
      ]);
    }
    write('one', `cgroup: ${cgroup(1).path}`);
    await until(() => pods()[0]?.declared.boundTo === `cgroup ${cgroup(1).path}`);
    rmSync(join(directory, 'pods.d', 'one.yaml'));
    await until(() => pods().length === 0);
    await standalone.close();
    writeFileSync(join(directory, 'pods.d', 'one.yaml'), '{');
    open();
    expect(pods()).toEqual([]);
  });

  it('are refused if the name of their manifest is unreadable, and the name is shown escaped', () => {
    write('one\ntwo', `cgroup: ${cgroup(0).path}`);
    open();
    expect(pods()).toEqual([]);
    expect(heard.present.get('manifest/one\\u000atwo.yaml')).toMatch(
      /pods\.d\/one\\u000atwo\.yaml: the name .* rename it/,
    );
  });

  it('are refused if others may write their manifest', () => {
    write('one', `cgroup: ${cgroup(0).path}`);
    chmodSync(join(directory, 'pods.d', 'one.yaml'), 0o666);
    open();
    expect(pods()).toEqual([]);
    expect(heard.present.get('manifest/one.yaml')).toContain('can be written by its group or by others');
  });

  it('are refused if their cgroups are equal or nested, except for the first', () => {
    mkdirSync(`${mounts?.memory}${cgroup(0).path}/inner`);
    write('one', `cgroup: ${cgroup(0).path}`);
    write('two', `cgroup: ${cgroup(0).path}/inner`);
    write('zero', `cgroup: ${cgroup(0).path}`);
    open();
    expect(pods().map(({ cgroup: { known } }) => known)).toEqual([true, false, false]);
    expect(heard.present.get('binding/default/two')).toMatch(/two\.yaml:6:28: .*is bound at .*one\.yaml:6:28/);
  });

  it('never contain this program', () => {
    const own = `${mounts?.memory}${cgroup(0).path}/cgroup.procs`;
    try {
      writeFileSync(own, String(process.pid));
      write('one', `cgroup: ${cgroup(0).path}`);
      open();
      expect(podOf('one').cgroup).toMatchObject({ known: false });
      expect(heard.present.get('binding/default/one')).toContain('contains nodewarden itself');
    } finally {
      writeFileSync(`${mounts?.memory}/cgroup.procs`, String(process.pid));
    }
  });

  it('count the directories that they name as their volumes', async () => {
    writeFileSync(join(directory, 'big'), 'x'.repeat(100_000));
    write('one', `cgroup: ${cgroup(0).path}`, `    nodewarden.dev/disk: ${directory}\n`);
    open();
    const walk = await podOf('one').disk(() => undefined);
    expect(walk).toMatchObject({ known: true, value: { volumes: [], containers: [{ name: 'a' }] } });
    if (walk.known) expect(walk.value.pod.volumesBytes).toBeGreaterThanOrEqual(100_000);
  });

  it('of podman are a finding without podman', async () => {
    write('one', 'podman: web');
    open();
    await until(() => heard.present.has('binding/default/one'));
    expect(heard.present.get('binding/default/one')).toContain('podman is not installed here');
  });

  describe.skipIf(!hasDbusDaemon)('that are units [needs dbus-daemon]', () => {
    const UNIT = 'web.service';
    /** `isStuck`: its stop begins and does not end. */
    const openUnit = async (isStuck = false): Promise<FakeSystemd> => {
      bus.close();
      const made = await openFakeSystemd((member, unit) => {
        const state = made.units.get(unit);
        if (!isStuck || member !== 'StopUnit' || state === undefined) return null;
        state.activeState = 'deactivating';
        return { signature: 'o', body: ['/org/freedesktop/systemd1/job/4711'] };
      });
      fake = made;
      bus = made.bus;
      const since = Math.floor((clock.wallMs() - 60_000) * 1_000);
      made.units.set(UNIT, {
        activeState: 'active',
        invocation: 1,
        controlGroup: cgroup(0).path,
        loadState: 'loaded',
        since,
      });
      write('web', `systemd-unit: ${UNIT}`);
      open();
      return made;
    };

    it('are found by systemd, stopped through it, and held down', async () => {
      await cgroup(0).run(IGNORES);
      const { asked } = await openUnit();
      await until(() => podOf('web').cgroup.known);
      expect(clock.wallMs() - (podOf('web').declared.startedAtWallMs ?? 0)).toBeGreaterThan(59_000);
      standalone.marks.setCondition('MemoryPressure', true, '');
      const { first, ...rest } = { first: 'sigkill' as const, graceMs: 60_000 };
      expect(await stop('web', { first, ...rest })).toMatchObject({ kind: 'ended' });
      await sleep(clock, 50);
      expect(asked()).toEqual([`StopUnit ${UNIT}`]);
    });

    it('get StopUnit instead of SIGTERM, and SIGKILL after the grace period', async () => {
      await cgroup(0).run("trap 'echo term > /dev/null; exit 0' TERM; echo up; while :; do sleep 0.01; done");
      const { asked } = await openUnit(true);
      await until(() => podOf('web').cgroup.known);
      const startMs = clock.monoMs();
      // The trap shows that nobody sent SIGTERM.
      expect(await stop('web', { graceMs: 400 })).toMatchObject({ kind: 'ended', via: expect.stringMatching(/kill/) });
      expect(clock.monoMs() - startMs).toBeGreaterThanOrEqual(399);
      expect(asked()).toEqual([`StopUnit ${UNIT}`]);
    });

    it('are stopped by signals if the bus is gone, with a finding', async () => {
      await cgroup(0).run(IGNORES);
      const { daemon } = await openUnit();
      await until(() => podOf('web').cgroup.known);
      await daemon.kill();
      expect(await stop('web')).toMatchObject({ kind: 'ended' });
      expect(heard.present.get(`stop-unit/${UNIT}`)).toContain('Restart= may bring it back');
    });

    describe('whose eviction is resumed by a run that is still connecting', () => {
      /** It knows the unit, and reaches systemd over another connection, which is made only now. */
      const openAnew = async () => {
        await cgroup(0).run(IGNORES);
        const made = await openUnit(true);
        await until(() => podOf('web').cgroup.known);
        await standalone.close();
        const before = createSystemd(made.bus);
        let now = before;
        const stopUnit: Systemd['stop'] = (name, deadlineMs) => now.stop(name, deadlineMs);
        const whenUp: Systemd['whenUp'] = (run) => now.whenUp(run);
        open({ systemd: { ...before, stop: stopUnit, isUp: () => now.isUp(), whenUp } });
        await until(() => podOf('web').cgroup.known);
        const connect = (address: string): void => {
          const late = openSystemBus(clock, { DBUS_SYSTEM_BUS_ADDRESS: address });
          onTestFinished(late.close);
          now = createSystemd(late);
          expect(now.isUp()).toBe(false);
        };
        return { ...made, connect };
      };

      it.each(['sigterm', 'sigkill'] as const)('are still stopped through systemd: %s', async (first) => {
        const { connect, daemon, asked } = await openAnew();
        connect(daemon.address);
        const resumed = { first, resumedFromMs: clock.monoMs(), sentBefore: first };
        expect(await stop('web', resumed)).toMatchObject({ kind: 'ended' });
        await until(() => asked().length > 0);
        expect(heard.present.get(`stop-unit/${UNIT}`)).toBeUndefined();
      });

      it('are no longer a finding once systemd reports that it had been asked', async () => {
        const { connect, daemon, units } = await openAnew();
        connect(`unix:path=${directory}/later`);
        const unit = units.get(UNIT);
        if (unit !== undefined) unit.activeState = 'deactivating';
        const resumed = { resumedFromMs: clock.monoMs(), sentBefore: 'sigterm' } as const;
        expect(await stop('web', resumed)).toMatchObject({ kind: 'ended' });
        expect(heard.present.get(`stop-unit/${UNIT}`)).toContain('could not be asked to stop');
        symlinkSync(daemon.address.slice('unix:path='.length), `${directory}/later`);
        await until(() => !heard.present.has(`stop-unit/${UNIT}`));
      });
    });

    it('are refused if they contain what must not be stopped, wherever that was moved', async () => {
      fake = await openFakeSystemd();
      const guarded = {
        activeState: 'active',
        invocation: 1,
        loadState: 'loaded',
        controlGroup: `${cgroup(0).path}/moved`,
      };
      fake.units.set('dbus.service', guarded);
      bus.close();
      bus = fake.bus;
      write('web', `cgroup: ${cgroup(0).path}`);
      open();
      await until(() => heard.present.get('binding/default/web')?.includes('contains dbus.service') === true);
    });

    it.each(['loaded', 'masked', 'not-found'])(
      'that run without a cgroup are a finding if they are %s, and stopped only by a shutdown',
      async (loadState) => {
        const made = await openUnit();
        made.units.set(UNIT, { activeState: 'active', invocation: 2, controlGroup: '/nodewarden-none', loadState });
        made.begin(UNIT);
        await until(() => heard.present.has('binding/default/web'));
        expect(heard.present.get('binding/default/web')).toContain('runs, but systemd gives it no cgroup');
        expect(podOf('web')).toMatchObject({ cgroup: { known: false }, isIdle: true, isUnseen: true });
        expect(standalone.running().map(({ name }) => name)).toEqual(['web']);
        expect(await stop('web')).toMatchObject({ kind: 'dropped' });
        expect(made.asked()).toEqual([]);
        expect(await stop('web', { why: 'shutdown' })).toMatchObject({ kind: 'ended', via: 'stop-unit' });
        expect(made.asked()).toEqual([`StopUnit ${UNIT}`]);
        await until(() => podOf('web').isIdle === undefined && standalone.running().length === 0);
      },
    );

    it('are unknown without a finding while they do not run, and known when they start', async () => {
      const made = await openUnit();
      made.byOthers('stop', UNIT);
      await until(() => !podOf('web').cgroup.known);
      expect([...heard.present.keys()]).toEqual([]);
      made.byOthers('start', UNIT);
      await until(() => podOf('web').cgroup.known);
    });
  });
});
