import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { readHeld } from '../../src/standalone/restart/held-file.ts';
import { until } from '../host/private-bus.ts';
import { addPod, directory, does, fake, heard, needs, open, podOf, standalone, stop } from './a-shutdown.ts';

const ENDS = "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done";

describe.skipIf(needs !== '')(`what systemd is about to start again and would stop along with a pod ${needs}`, () => {
  /** It has ended, and its Restart= has not brought it back yet. systemd gives that up when it stops `before`. */
  const crashed = (unit: string, before: string): void => {
    const again = { activeState: 'activating', subState: 'auto-restart', controlGroup: '' };
    fake.units.set(unit, { ...again, invocation: 7, loadState: 'loaded' });
    const react = does.react;
    does.react = (member, first, body) => {
      if (member === 'StopUnit' && first === before)
        Object.assign(fake.units.get(unit) ?? {}, { activeState: 'inactive', subState: 'dead' });
      return react(member, first, body);
    };
  };
  const declare = (name: string, unit: string, more = ''): void =>
    writeFileSync(
      join(directory, 'pods.d', `${name}.yaml`),
      `apiVersion: v1\nkind: Pod\nmetadata:\n  name: ${name}\n  annotations:\n    nodewarden.dev/systemd-unit: ${unit}\n${more}spec: { containers: [{ name: a }] }\n`,
    );
  const heldUnits = () =>
    readHeld(JSON.parse(readFileSync(join(directory, 'held.json'), 'utf8')))?.units.map(({ unit, pod }) => [unit, pod]);
  /** `web`, which runs; `front`, a pod, and `helper` need it, and do not. */
  const openWeb = async (more = ''): Promise<void> => {
    await addPod('web', 'unit', ENDS);
    const along = ['front.service', 'helper.service'];
    Object.assign(fake.units.get('web.service') ?? {}, { relations: { RequiredBy: along } });
    for (const unit of along) crashed(unit, 'web.service');
    declare('front', 'front.service', more);
    await open('web');
    await until(() => podOf('web')?.declared.takesAlong?.length === 2);
  };
  /** `shop`, whose only unit is about to be started again; `asks`, outside of it, needs it and runs. */
  const openSlice = async (): Promise<void> => {
    const cgroup = await addPod('shop', 'unit', ENDS);
    const runs = { activeState: 'active', invocation: 1, loadState: 'loaded' };
    const within = ['till.service', 'ready.service', 'quiet.service', 'shop-in.slice'];
    const relations = { SliceOf: within, RequiredBy: [...within, 'asks.service'] };
    fake.units.set('shop-in.slice', { ...runs, controlGroup: `${cgroup.path}/shop-in.slice` });
    // It has done its work, and has no process.
    fake.units.set('ready.service', { ...runs, subState: 'exited', controlGroup: '' });
    fake.units.set('quiet.service', { ...runs, activeState: 'inactive', subState: 'dead', controlGroup: '' });
    fake.units.set('shop.slice', { ...runs, controlGroup: cgroup.path, relations });
    fake.units.set('asks.service', { ...runs, controlGroup: '/asks' });
    crashed('till.service', 'shop.slice');
    declare('shop', 'shop.slice');
    await open('shop');
    await until(() => podOf('shop')?.declared.takesAlong?.join() === 'asks.service');
  };

  it('is named, and spares the pod if it must not go', async () => {
    await openWeb('    nodewarden.dev/evict-for: none\n');
    expect(podOf('front')?.cgroup.known).toBe(false);
    expect(podOf('web')?.declared).toMatchObject({ evictFor: [], takesAlong: ['default/front', 'helper.service'] });
  });

  it('is held by its eviction', async () => {
    await openWeb();
    standalone.marks.setCondition('MemoryPressure', true, '');
    expect(await stop('web', { why: 'eviction', decision: 'd1' })).toMatchObject({ kind: 'ended' });
    expect(heldUnits()).toEqual([
      ['web.service', 'default/web'],
      ['helper.service', 'default/web'],
      ['front.service', 'default/front'],
    ]);
  });

  it('is started again if the shutdown that stopped the pod is cancelled', async () => {
    await openWeb();
    standalone.setShuttingDown(true);
    await stop('web', { graceMs: 100 });
    standalone.setShuttingDown(false);
    const { started } = await standalone.undoStops();
    expect(started.toSorted()).toEqual(['front.service', 'helper.service', 'web.service']);
  });

  it('is held by the eviction of a pod whose restart by an operator has stopped both, and whose stop cancels that', async () => {
    await openWeb();
    // Two that the restart has stopped already: a job is to start the one again, and not the other.
    const down = { activeState: 'inactive', subState: 'dead' };
    Object.assign(fake.units.get('front.service') ?? {}, { ...down, hasJob: 'start' });
    Object.assign(fake.units.get('helper.service') ?? {}, { ...down, hasJob: true });
    Object.assign(fake.units.get('web.service') ?? {}, { activeState: 'deactivating', hasJob: 'restart' });
    for (const unit of ['web.service', 'front.service', 'helper.service']) fake.begin(unit);
    await until(() => podOf('web')?.declared.takesAlong?.join() === 'default/front');
    standalone.marks.setCondition('MemoryPressure', true, '');
    expect(await stop('web', { why: 'eviction', decision: 'd1' })).toMatchObject({ kind: 'ended' });
    expect(heldUnits()).toEqual([
      ['web.service', 'default/web'],
      ['front.service', 'default/front'],
    ]);
  });

  it('is held if the pod is its slice, as is what is active in that without a process', async () => {
    await openSlice();
    expect(await stop('shop', { why: 'eviction', decision: 'd1' })).toMatchObject({ kind: 'ended' });
    expect(heldUnits()).toEqual([
      ['till.service', 'default/shop'],
      ['ready.service', 'default/shop'],
    ]);
    expect(heard.lines).toEqual([]);
  });

  it('is started again if the shutdown that stopped its slice is cancelled', async () => {
    await openSlice();
    standalone.setShuttingDown(true);
    await stop('shop', { graceMs: 100 });
    standalone.setShuttingDown(false);
    expect((await standalone.undoStops()).started).toContain('till.service');
  });
});

describe.skipIf(needs !== '')(`a timer that systemd stops along with the pod that it starts ${needs}`, () => {
  const TIMER = 'batch.timer';
  beforeEach(async () => {
    await addPod('batch', 'unit', ENDS);
    Object.assign(fake.units.get('batch.service') ?? {}, { relations: { RequiredBy: [TIMER] } });
    const relations = { Requires: ['batch.service'], Triggers: ['batch.service'] };
    fake.units.set(TIMER, { activeState: 'active', invocation: 3, controlGroup: '', loadState: 'loaded', relations });
    does.react = (member, first) => {
      if (member === 'StopUnit' && first === 'batch.service') fake.byOthers('stop', TIMER);
      return null;
    };
    await open('batch');
    await until(() => podOf('batch')?.declared.takesAlong?.join() === TIMER);
  });

  it('is held by its eviction', async () => {
    standalone.marks.setCondition('MemoryPressure', true, '');
    expect(await stop('batch', { why: 'eviction', decision: 'd1' })).toMatchObject({ kind: 'ended' });
    const held = readHeld(JSON.parse(readFileSync(join(directory, 'held.json'), 'utf8')));
    expect(held?.units.map(({ unit }) => unit)).toEqual(['batch.service', TIMER]);
  });

  it('is started again if the shutdown that stopped the pod is cancelled', async () => {
    standalone.setShuttingDown(true);
    await stop('batch', { graceMs: 100 });
    standalone.setShuttingDown(false);
    const { started, notUndone } = await standalone.undoStops();
    expect([started.toSorted(), notUndone]).toEqual([['batch.service', TIMER], []]);
  });
});
