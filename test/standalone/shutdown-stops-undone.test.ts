import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { sleep } from '../../src/host/clock.ts';
import { releaseHeld } from '../../src/standalone/restart/release-held.ts';
import { saveStops, stopsPath } from '../../src/standalone/stop/stops-file.ts';
import { type FakeUnit, OWN_UNIT } from '../host/fake-systemd.ts';
import { until } from '../host/private-bus.ts';
import {
  addPod,
  bootId,
  clock,
  directory,
  does,
  fake,
  heard,
  needs,
  noted,
  open,
  openParts,
  podOf,
  remembered,
  reopen,
  standalone,
  stop,
} from './a-shutdown.ts';

/** Its shutdown is cancelled as soon as it was asked to stop. */
async function cancelledStop(more: Parameters<typeof stop>[1] = {}) {
  standalone.setShuttingDown(true);
  const ended = stop('web', more);
  await until(() => remembered()[0]?.stage === 'told');
  standalone.setShuttingDown(false);
  return { ended, undone: standalone.undoStops() };
}

describe.skipIf(needs !== '')(`what a shutdown stopped, after a cancel or in the next run ${needs}`, () => {
  it('is restarted after a cancel once its stop has ended, and what cannot be is named', async () => {
    const cgroup = await addPod('web', 'unit');
    await addPod('batch', 'cgroup');
    await open('web', 'batch');
    standalone.setShuttingDown(true);
    const stopping = Promise.all([stop('web'), stop('batch')]);
    await until(() => fake.asked().length === 1);
    standalone.setShuttingDown(false);
    expect(standalone.hasStops()).toBe(true);
    // systemd says inactive after 20 ms, but what ignored it lives until its grace is over.
    const aliveAtStart: number[] = [];
    does.react = (member) => {
      if (member === 'StartUnit') aliveAtStart.push(cgroup.pids().length);
      return null;
    };
    const undone = await standalone.undoStops();
    await stopping;
    expect(undone.started).toEqual(['web.service']);
    expect(aliveAtStart).toEqual([0]);
    expect(undone.notUndone).toEqual([expect.stringMatching(/^default\/batch: .*only what started them/)]);
    expect(standalone.hasStops()).toBe(false);
    expect(fake.asked()).toEqual(['StopUnit web.service', 'StartUnit web.service']);
    expect(await standalone.undoStops()).toEqual({ started: [], notUndone: [] });
  });

  it('also restarts what systemd stopped along with it', async () => {
    await addPod('web', 'unit', "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done");
    const web = fake.units.get('web.service');
    if (web !== undefined) web.relations = { RequiredBy: ['helper.service'] };
    const helper = { activeState: 'active', invocation: 4, controlGroup: '/helper', loadState: 'loaded' };
    fake.units.set('helper.service', helper);
    await open('web');
    await until(() => podOf('web')?.declared.takesAlong !== undefined);
    standalone.setShuttingDown(true);
    does.react = (member, first) => {
      if (member === 'StopUnit' && first === 'web.service') helper.activeState = 'inactive';
      return null;
    };
    await stop('web', { graceMs: 100 });
    standalone.setShuttingDown(false);
    expect((await standalone.undoStops()).started.toSorted()).toEqual(['helper.service', 'web.service']);
  });

  it.each([
    ['is stopping', 'deactivating', false],
    ['waits for another one to stop', 'active', 'stop'],
  ] as const)(
    'restarts what %s along with a pod that was spared as soon as it has stopped',
    async (_, state, hasJob) => {
      await addPod('web', 'unit');
      const web = fake.units.get('web.service');
      if (web !== undefined) web.relations = { RequiredBy: ['helper.service'] };
      const helper: FakeUnit = { activeState: 'active', invocation: 4, controlGroup: '/helper', loadState: 'loaded' };
      fake.units.set('helper.service', helper);
      await open('web');
      await until(() => podOf('web')?.declared.takesAlong !== undefined);
      standalone.setShuttingDown(true);
      let looks = Number.NEGATIVE_INFINITY;
      const atStart: string[] = [];
      does.react = (member, first, _body, path) => {
        if (member === 'StartUnit') atStart.push(helper.activeState);
        // The pod's own stop waits for that of the other one.
        if (member === 'StopUnit' && first === 'web.service') {
          Object.assign(helper, { activeState: state, hasJob });
          return { signature: 'o', body: ['/org/freedesktop/systemd1/job/99'] };
        }
        if (member === 'GetAll' && path?.endsWith('/helper_2eservice')) looks += 1;
        if (looks >= 3) Object.assign(helper, { activeState: 'inactive', hasJob: false });
        return null;
      };
      const { ended, undone } = await cancelledStop({ graceMs: 600_000 });
      looks = 0;
      expect(await ended).toMatchObject({ kind: 'dropped', because: 'cancelled' });
      expect(await undone).toEqual({ started: ['helper.service'], notUndone: [] });
      expect(atStart).toEqual(['inactive']);
    },
  );

  it('also restarts the agent itself, which is still stopping then', async () => {
    await addPod('web', 'unit', "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done");
    const web = fake.units.get('web.service');
    if (web !== undefined) web.relations = { RequiredBy: [OWN_UNIT] };
    const own = { activeState: 'active', invocation: 4, controlGroup: '/own', loadState: 'loaded' };
    fake.units.set(OWN_UNIT, own);
    await open('web');
    await until(() => podOf('web')?.declared.takesAlong !== undefined);
    standalone.setShuttingDown(true);
    does.react = (member, first) => {
      if (member === 'StopUnit' && first === 'web.service') own.activeState = 'deactivating';
      return null;
    };
    await stop('web', { graceMs: 100 });
    standalone.setShuttingDown(false);
    expect((await standalone.undoStops()).started.toSorted()).toEqual([OWN_UNIT, 'web.service']);
  });

  it('stays down if the machine goes down after all, and is restarted after the cancel of that', async () => {
    await addPod('web', 'unit');
    await open('web');
    standalone.setShuttingDown(true);
    await stop('web');
    standalone.setShuttingDown(false);
    const first = standalone.undoStops();
    standalone.setShuttingDown(true);
    expect(await first).toEqual({ started: [], notUndone: [] });
    expect(fake.asked()).toEqual(['StopUnit web.service']);
    expect(await standalone.undoStops()).toEqual({ started: ['web.service'], notUndone: [] });
  });

  it.each(['cgroup', 'unit'] as const)(
    'keeps the time of a cancel until the next shutdown stops it, too: %s',
    async (by) => {
      const cgroup = await addPod('web', by);
      await open('web');
      const first = await cancelledStop();
      await sleep(clock, 400);
      standalone.setShuttingDown(true);
      await sleep(clock, 200);
      expect(cgroup.pids()).not.toEqual([]);
      const beganMs = clock.monoMs();
      const second = stop('web', { decision: 'again', graceMs: 400 });
      expect(await Promise.all([first.ended, second])).toMatchObject([
        { of: 'stop-web', kind: 'ended', via: 'sigkill' },
        { of: 'again', kind: 'ended', via: 'sigkill' },
      ]);
      expect(clock.monoMs() - beganMs).toBeGreaterThanOrEqual(395);
      expect((await standalone.undoStops()).started).toEqual(by === 'unit' ? ['web.service'] : []);
    },
  );

  it.each(['cgroup', 'unit'] as const)(
    'has only the time of the next shutdown once that stops it, too, though the first one gave more: %s',
    async (by) => {
      await addPod('web', by);
      await open('web');
      const first = await cancelledStop({ graceMs: 300_000 });
      standalone.setShuttingDown(true);
      const second = stop('web', { decision: 'again', graceMs: 400 });
      expect(await Promise.all([first.ended, second])).toMatchObject([
        { kind: 'ended' },
        { of: 'again', kind: 'ended' },
      ]);
    },
  );

  it('is stopped where it is bound now by the next shutdown, although it still stops where it was', async () => {
    const old = await addPod('web', 'cgroup');
    await open('web');
    const first = await cancelledStop({ graceMs: 10_000 });
    const now = await addPod('web', 'cgroup');
    await until(() => {
      const cgroup = podOf('web')?.cgroup;
      return cgroup?.known === true && cgroup.value.path === now.path;
    });
    standalone.setShuttingDown(true);
    expect(await stop('web', { decision: 'again' })).toMatchObject({ of: 'again', kind: 'ended' });
    expect(now.pids()).toEqual([]);
    expect(old.pids()).not.toEqual([]);
    for (const pid of old.pids()) process.kill(pid, 'SIGKILL');
    await first.ended;
  });

  it('ends for the next shutdown, too, only once systemd has said anew what its unit does: it may run again', async () => {
    const cgroup = await addPod('web', 'unit');
    await open('web');
    const first = await cancelledStop({ graceMs: 60_000 });
    standalone.setShuttingDown(true);
    const second = stop('web', { decision: 'again', graceMs: 60_000 });
    does.react = (member) => (/^Get/.test(member) ? 'silence' : null);
    for (const pid of cgroup.pids()) process.kill(pid, 'SIGKILL');
    const isFirst = await Promise.race([first.ended.then(() => true), second.then(() => false)]);
    expect(isFirst).toBe(true);
    await second;
  });

  it('is restarted once it has ended after two cancelled shutdowns of which the second gave it more time', async () => {
    const cgroup = await addPod('web', 'unit');
    const file = join(directory, 'pods.d', 'web.yaml');
    const text = readFileSync(file, 'utf8');
    writeFileSync(file, text.replace('spec: {', 'spec: { terminationGracePeriodSeconds: 1,'));
    await open('web');
    const aliveAtStart: number[] = [];
    does.react = (member) => {
      if (member === 'StartUnit') aliveAtStart.push(cgroup.pids().length);
      return null;
    };
    const first = await cancelledStop();
    await sleep(clock, 400);
    standalone.setShuttingDown(true);
    const second = stop('web', { decision: 'again', graceMs: 13_000 });
    standalone.setShuttingDown(false);
    expect(await standalone.undoStops()).toEqual({ started: ['web.service'], notUndone: [] });
    expect(aliveAtStart).toEqual([0]);
    await Promise.all([first.ended, second]);
  });

  it('keeps that time also if the next shutdown begins within the grace period of the cancelled one', async () => {
    const cgroup = await addPod('web', 'cgroup');
    await open('web');
    standalone.setShuttingDown(true);
    const first = stop('web', { graceMs: 1_000 });
    await sleep(clock, 100);
    standalone.setShuttingDown(false);
    await sleep(clock, 100);
    standalone.setShuttingDown(true);
    await sleep(clock, 1_200);
    expect(cgroup.pids()).not.toEqual([]);
    const second = stop('web', { decision: 'again', graceMs: 100 });
    expect(await Promise.all([first, second])).toMatchObject([{ via: 'sigkill' }, { via: 'sigkill' }]);
  });

  it('is forgotten when the next shutdown begins and it was not undone: the machine has been down in between', async () => {
    await addPod('web', 'unit');
    await open('web');
    standalone.setShuttingDown(true);
    await stop('web');
    standalone.setShuttingDown(false);
    standalone.setShuttingDown(true);
    expect(standalone.hasStops()).toBe(false);
  });

  it('is still known to a run that was started during the shutdown', async () => {
    await addPod('web', 'unit');
    await open('web');
    await reopen([noted('web', 'ended')], 'web');
    standalone.setShuttingDown(true);
    expect(standalone.hasStops()).toBe(true);
  });

  it('is named by release-held, which starts none of it: the machine may be going down', async () => {
    await addPod('web', 'unit');
    await open('web');
    saveStops(directory, bootId, [noted('web', 'ended')]);
    const { left, ...rest } = await releaseHeld({ clock, systemd: fake.systemd, runtimeDirectory: directory, bootId });
    expect(rest).toEqual({ started: [], problems: [] });
    expect(left).toEqual([expect.stringMatching(/systemctl start nodewarden.*web\.service/)]);
    expect(fake.asked()).toEqual([]);
  });

  it('of another boot is ignored, and an invalid file is kept aside', async () => {
    await addPod('web', 'unit');
    await open('web');
    saveStops(directory, 'another-boot', [noted('web', 'ended')]);
    expect(remembered()).toEqual([]);
    await standalone.close();
    writeFileSync(stopsPath(directory), '{"schema":1,"bootId":7}');
    await open('web');
    expect(heard.present.get('shutdown-stops-corrupt')).toMatch(/kept as .*a cancelled shutdown stopped stay down/);
    expect(standalone.hasStops()).toBe(false);
  });

  it('is nothing in a dry run', async () => {
    await addPod('web', 'unit');
    await open('web');
    await reopen([noted('web', 'ended')], 'web');
    await standalone.close();
    await openParts(true);
    await sleep(clock, 50);
    expect(standalone.hasStops()).toBe(false);
    expect(await standalone.undoStops()).toEqual({ started: [], notUndone: [] });
    expect(fake.asked()).toEqual([]);
  });
});
