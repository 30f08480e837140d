import { rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createHasten } from '../../src/act/hasten.ts';
import type { Outcome } from '../../src/core/outcome.ts';
import { unknown } from '../../src/core/reading.ts';
import { sleep } from '../../src/host/clock.ts';
import type { Systemd } from '../../src/host/systemd/systemd.ts';
import type { StopOrder } from '../../src/ports.ts';
import { needsCgroups } from '../act/a-cgroup.ts';
import { type FakeSystemd, openFakeSystemd } from '../host/fake-systemd.ts';
import { orDbusDaemon, until } from '../host/private-bus.ts';
import {
  cgroup,
  clock,
  directory,
  IGNORES,
  open,
  order,
  podOf,
  pods,
  runs,
  standalone,
  useSystemd,
  write,
} from './a-standalone.ts';

const needs = orDbusDaemon(needsCgroups);

const carryOut = (given: StopOrder): Promise<Outcome> => standalone.killer.stop(given, createHasten(clock));
const manifest = (name: string): string => join(directory, 'pods.d', `${name}.yaml`);
/** Decided by an earlier run of the agent. */
const decided = (name: string, more: Partial<StopOrder> = {}): StopOrder =>
  order(name, { resumedFromMs: clock.monoMs() + 20, ...more });
/** And signalled by it, in its grace period. */
const signalled = (name: string, more: Partial<StopOrder> = {}): StopOrder =>
  decided(name, { sentBefore: 'sigterm', ...more });
/** The agent restarts; meanwhile, `edit`. */
async function restart(edit: () => void, more: Parameters<typeof open>[0] = {}): Promise<void> {
  await standalone.close();
  edit();
  await open(more);
}
async function twoUnits(): Promise<FakeSystemd> {
  const made = await openFakeSystemd(() => null);
  useSystemd(made);
  for (const [i, unit] of ['a.service', 'b.service'].entries()) {
    const controlGroup = cgroup(i).path;
    made.units.set(unit, { activeState: 'active', invocation: 1, controlGroup, loadState: 'loaded' });
  }
  write('web', 'systemd-unit: a.service');
  await open();
  await until(() => runs('web'));
  return made;
}
/** Its bus is not connected before `up`. */
function notYetUp(systemd: Systemd): { readonly systemd: Systemd; readonly up: () => void } {
  let isUp = false;
  const waiting: (() => void)[] = [];
  const unit: Systemd['unit'] = async (name) =>
    isUp ? systemd.unit(name) : unknown('absent', 'the system bus', 'not connected');
  const whenUp: Systemd['whenUp'] = (run) => {
    waiting.push(run);
    return () => undefined;
  };
  const up = (): void => {
    isUp = true;
    for (const run of waiting) run();
  };
  return { systemd: { ...systemd, unit, whenUp, isUp: () => isUp }, up };
}
const isIn = (i: number): boolean => {
  const { cgroup: at } = podOf('web');
  return at.known && at.value.inode === cgroup(i).ref.inode;
};

describe.skipIf(needs !== '')(`a victim whose binding changed since the choice ${needs}`, () => {
  it('is not stopped if its manifest names another unit, nor is that unit', async () => {
    const made = await twoUnits();
    const running = [await cgroup(0).run(IGNORES), await cgroup(1).run(IGNORES)];
    const chosen = order('web', { first: 'sigkill', graceMs: 0 });
    write('web', 'systemd-unit: b.service');
    await until(() => isIn(1));
    expect(await carryOut(chosen)).toMatchObject({ kind: 'dropped', because: 'rebound' });
    await sleep(clock, 100);
    expect(made.asked()).toEqual([]);
    expect(running.map((one) => one.isAlive())).toEqual([true, true]);
  });

  it('is not said to have ended if its manifest is gone', async () => {
    const running = await cgroup(0).run(IGNORES);
    write('web', `cgroup: ${cgroup(0).path}`);
    await open();
    const chosen = order('web', { first: 'sigkill' });
    rmSync(manifest('web'));
    await until(() => pods().length === 0);
    expect(await carryOut(chosen)).toMatchObject({ kind: 'dropped', because: 'rebound' });
    expect(running.isAlive()).toBe(true);
  });

  it('is not stopped if its unit now runs in another cgroup, nor is what runs there', async () => {
    const made = await twoUnits();
    const running = [await cgroup(0).run(IGNORES), await cgroup(1).run(IGNORES)];
    const chosen = order('web', { first: 'sigkill', graceMs: 0 });
    made.units.set('a.service', {
      ...{ activeState: 'active', invocation: 2, loadState: 'loaded' },
      controlGroup: cgroup(1).path,
    });
    await restart(() => undefined);
    await until(() => isIn(1));
    expect(await carryOut(chosen)).toMatchObject({ kind: 'dropped', because: 'moved' });
    await sleep(clock, 100);
    expect(made.asked()).toEqual([]);
    expect(running.map((one) => one.isAlive())).toEqual([true, true]);
  });

  it('is not stopped or said to have ended if cgroupRoot changed before it was signalled', async () => {
    const running = await cgroup(0).child('web');
    write('web', 'cgroup: /web');
    await open({ cgroupRoot: cgroup(0).path });
    const chosen = decided('web');
    await restart(() => undefined, { cgroupRoot: cgroup(1).path });
    expect(await carryOut(chosen)).toMatchObject({ kind: 'dropped', because: 'moved' });
    expect(running.isAlive()).toBe(true);
  });
});

describe.skipIf(needs !== '')(`a victim that was not signalled before the agent restarted ${needs}`, () => {
  it('is not said to have survived if nobody says where it runs', async () => {
    const made = await twoUnits();
    const running = await cgroup(0).run(IGNORES);
    const chosen = decided('web');
    await restart(() => undefined, { systemd: notYetUp(made.systemd).systemd });
    expect(await carryOut(chosen)).toMatchObject({ kind: 'dropped', because: 'unresolved' });
    expect(running.isAlive()).toBe(true);
  });
});

describe.skipIf(needs !== '')(`a victim that was signalled before the agent restarted ${needs}`, () => {
  it('is stopped where it was measured if cgroupRoot changed', async () => {
    const running = await cgroup(0).child('web');
    const other = await cgroup(1).child('web');
    write('web', 'cgroup: /web');
    await open({ cgroupRoot: cgroup(0).path });
    const chosen = signalled('web');
    await restart(() => undefined, { cgroupRoot: cgroup(1).path });
    expect(await carryOut(chosen)).toMatchObject({ kind: 'ended', releasedBytes: { known: true } });
    await until(() => !running.isAlive());
    expect(other.isAlive()).toBe(true);
  });

  it('is stopped through systemd if its manifest is gone, also before the bus is connected', async () => {
    const made = await twoUnits();
    const running = await cgroup(0).run(IGNORES);
    const chosen = signalled('web');
    const late = notYetUp(made.systemd);
    await restart(() => rmSync(manifest('web')), { systemd: late.systemd });
    clock.after(50, late.up);
    expect(await carryOut(chosen)).toMatchObject({ kind: 'ended', releasedBytes: { known: true } });
    expect(made.asked()).toEqual(['StopUnit a.service']);
    await until(() => !running.isAlive());
  });

  it('is not waited for if its grace period is over, however long systemd does not answer', async () => {
    const made = await twoUnits();
    const running = await cgroup(0).run(IGNORES);
    const chosen = signalled('web', { first: 'sigkill', graceMs: 0 });
    await restart(() => undefined, { systemd: notYetUp(made.systemd).systemd });
    const beganMs = clock.monoMs();
    expect(await carryOut(chosen)).toMatchObject({ kind: 'ended', releasedBytes: { known: true } });
    expect(clock.monoMs() - beganMs).toBeLessThan(3_000);
    await until(() => !running.isAlive());
  });

  it('is stopped by signals if its unit runs elsewhere by now', async () => {
    const made = await twoUnits();
    const running = [await cgroup(0).run(IGNORES), await cgroup(1).run(IGNORES)];
    const chosen = signalled('web');
    await restart(() => write('web', 'systemd-unit: b.service'));
    made.units.set('a.service', {
      ...{ activeState: 'active', invocation: 2, loadState: 'loaded' },
      controlGroup: cgroup(1).path,
    });
    expect(await carryOut(chosen)).toMatchObject({ kind: 'ended' });
    expect(made.asked()).toEqual([]);
    await until(() => running[0]?.isAlive() === false);
    expect(running[1]?.isAlive()).toBe(true);
    expect(podOf('web').declared.isTerminating).toBe(false);
  });

  it('is stopped if it is a container whose manifest is gone', async () => {
    const running = await cgroup(0).run(IGNORES);
    write('web', `cgroup: ${cgroup(0).path}`);
    await open();
    const { victim } = order('web');
    const chosen = signalled('web', { victim: { ...victim, boundTo: 'podman web' } });
    await restart(() => rmSync(manifest('web')));
    expect(await carryOut(chosen)).toMatchObject({ kind: 'ended', releasedBytes: { known: true } });
    await until(() => !running.isAlive());
  });

  it('is not said to have ended if it is not known where it ran', async () => {
    await cgroup(0).run(IGNORES);
    write('web', `cgroup: ${cgroup(0).path}`);
    await open();
    const { cgroupPath: _, ...victim } = order('web').victim;
    const chosen = signalled('web', { victim });
    await restart(() => rmSync(manifest('web')));
    expect(await carryOut(chosen)).toMatchObject({ kind: 'survived', detail: expect.stringContaining('not known') });
  });

  it('is said to have ended if its cgroup is gone, also if the earlier run saved no cgroup', async () => {
    const running = await cgroup(0).child('web');
    write('web', `cgroup: ${cgroup(0).path}/web`);
    await open();
    const { cgroupPath: _, cgroupInode: __, ...victim } = order('web').victim;
    const chosen = signalled('web', { victim });
    await standalone.close();
    process.kill(running.pid, 'SIGKILL');
    await until(() => !running.isAlive());
    for (const root of cgroup(0).roots) rmdirSync(join(root, 'web'));
    await open();
    expect(await carryOut(chosen)).toMatchObject({ kind: 'ended', via: 'sigterm' });
  });
});
