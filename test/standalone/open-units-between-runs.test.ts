import { existsSync, mkdirSync, readFileSync, rmdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createHasten } from '../../src/act/hasten.ts';
import { heldPath } from '../../src/standalone/restart/held-file.ts';
import { mounts, needsCgroups } from '../act/a-cgroup.ts';
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
  standalone,
  stop,
  useSystemd,
  write,
} from './a-standalone.ts';

const needs = orDbusDaemon(needsCgroups);

describe.skipIf(needs !== '')(`standalone pods whose units systemd is about to start again ${needs}`, () => {
  /** Where systemd records which units run, any agent of this machine looks: no other test may mean the same one. */
  const UNIT = `nodewarden-test-again-${process.pid}.service`;
  const RUNS = '/run/systemd/units';
  const SLICE = `nodewardentestagain${process.pid}.slice`;
  const slices = [mounts?.memory, mounts?.pids].map((root) => `${root}/${SLICE}`);
  const removeSlices = (): void => {
    for (const slice of slices) for (const of of [join(slice, UNIT), slice]) rmdirSync(of);
  };
  let isSilent: boolean;
  let isRefused: boolean;
  let whenLooked: () => void;
  const openAgain = async (whenAsked = (): void => undefined): Promise<FakeSystemd> => {
    isSilent = false;
    isRefused = false;
    whenLooked = () => undefined;
    const made = await openFakeSystemd((member) => {
      if (member === 'StopUnit') whenAsked();
      else whenLooked();
      if (isRefused && member === 'StopUnit') return { error: 'org.freedesktop.systemd1.OnlyByDependency' };
      return isSilent ? 'silence' : null;
    });
    useSystemd(made);
    const again = { activeState: 'activating', subState: 'auto-restart', controlGroup: '', slice: SLICE };
    made.units.set(UNIT, { ...again, invocation: 1, loadState: 'loaded' });
    write('web', `systemd-unit: ${UNIT}`);
    await open();
    await until(() => podOf('web').isBetweenRuns === true);
    return made;
  };

  it('are kept down by their eviction', async () => {
    const { asked } = await openAgain();
    expect(await stop('web')).toMatchObject({ kind: 'ended', via: 'stop-unit', detail: /about to start it again/ });
    expect(asked()).toEqual([`StopUnit ${UNIT}`]);
    expect(readFileSync(heldPath(directory), 'utf8')).toContain(UNIT);
  });

  it('are kept down by the eviction of a run that ended before it had asked for that', async () => {
    const { asked } = await openAgain();
    expect(await stop('web', { resumedFromMs: clock.monoMs() })).toMatchObject({ kind: 'ended', via: 'stop-unit' });
    expect(asked()).toEqual([`StopUnit ${UNIT}`]);
  });

  it('are not said to have been stopped by a run that ended before it had asked for that, if they have started', async () => {
    const { asked } = await openAgain();
    // The kernel counts starts in hundredths of a second.
    const chosen = order('web', { resumedFromMs: clock.monoMs() - 20 });
    const next = await cgroup(1).run('echo up; exec sleep 1000');
    for (const slice of slices) {
      mkdirSync(join(slice, UNIT), { recursive: true });
      writeFileSync(join(slice, UNIT, 'cgroup.procs'), String(next.pid));
    }
    onTestFinished(async () => {
      process.kill(next.pid, 'SIGKILL');
      await until(() => !next.isAlive());
      removeSlices();
    });
    const end = await standalone.killer.stop(chosen, createHasten(clock));
    expect(end).toMatchObject({ kind: 'dropped', because: 'started-anew' });
    expect([asked(), next.isAlive()]).toEqual([[], true]);
  });

  it('are not stopped if they have ended for good meanwhile', async () => {
    const { asked, units } = await openAgain();
    const unit = units.get(UNIT);
    if (unit !== undefined) Object.assign(unit, { activeState: 'failed', subState: 'failed' });
    expect(await stop('web')).toMatchObject({ kind: 'dropped', because: 'gone' });
    expect(asked()).toEqual([]);
  });

  it('may be chosen in their next run if they start and end while they are stopped', async () => {
    const { asked } = await openAgain(() => {
      for (const slice of slices) mkdirSync(join(slice, UNIT), { recursive: true });
    });
    onTestFinished(removeSlices);
    expect(await stop('web')).toMatchObject({ kind: 'ended', via: 'stop-unit' });
    expect(asked()).toEqual([`StopUnit ${UNIT}`]);
    expect(podOf('web').declared.isTerminating).toBe(false);
  });

  it('are not said to have ended if they start and end before they are asked', async () => {
    const { asked } = await openAgain();
    whenLooked = () => {
      for (const slice of slices) mkdirSync(join(slice, UNIT), { recursive: true });
    };
    onTestFinished(removeSlices);
    expect(await stop('web')).toMatchObject({ kind: 'dropped', because: 'gone' });
    expect([asked(), existsSync(heldPath(directory))]).toEqual([[], false]);
  });

  it.each([
    [
      'held, and not known to be stopped',
      'does not answer',
      true,
      { kind: 'unknown', detail: expect.stringContaining('not answered') },
    ],
    ['not held, and not said to be stopped', 'refuses', false, { kind: 'dropped', because: 'gone' }],
  ])(
    'are %s if they start and end while systemd %s',
    async (_, __, isUnheard, outcome) => {
      await openAgain(() => {
        isSilent = isUnheard;
        isRefused = !isUnheard;
        for (const slice of slices) mkdirSync(join(slice, UNIT), { recursive: true });
      });
      onTestFinished(removeSlices);
      const end = await stop('web');
      expect(end).toMatchObject(outcome);
      expect(readFileSync(heldPath(directory), 'utf8').includes(UNIT)).toBe(isUnheard);
    },
    60_000,
  );

  it.each([
    ['end for good a moment later', 1_500, { kind: 'dropped', because: 'gone' }],
    ['wait on', null, { kind: 'unknown', detail: expect.stringContaining('has refused to stop it') }],
  ])(
    'are not held if systemd refuses to stop them, and they %s',
    async (_, endMs, outcome) => {
      const { units } = await openAgain();
      isRefused = true;
      const end = (): unknown => Object.assign(units.get(UNIT) ?? {}, { activeState: 'failed', subState: 'failed' });
      if (endMs !== null) clock.after(endMs, end);
      expect(await stop('web')).toMatchObject(outcome);
      expect(readFileSync(heldPath(directory), 'utf8')).not.toContain(UNIT);
    },
    60_000,
  );

  it('are neither stopped, held nor chosen again while systemd does not say what they do', async () => {
    const made = await openAgain();
    isSilent = true;
    expect(await stop('web')).toMatchObject({ kind: 'dropped', because: 'unresolved' });
    expect([made.asked(), existsSync(heldPath(directory)), podOf('web').isBetweenRuns]).toEqual([[], false, undefined]);
  });

  it('are stopped like any other if they start meanwhile', async () => {
    const next = await cgroup(1).run(IGNORES);
    mkdirSync(RUNS, { recursive: true });
    const run = `${RUNS}/invocation:${UNIT}`;
    onTestFinished(() => rmSync(run, { force: true }));
    symlinkSync('1'.repeat(32), run);
    const { asked } = await openAgain(() => {
      rmSync(run);
      symlinkSync('2'.repeat(32), run);
      for (const slice of slices) {
        mkdirSync(join(slice, UNIT), { recursive: true });
        writeFileSync(join(slice, UNIT, 'cgroup.procs'), String(next.pid));
      }
    });
    onTestFinished(removeSlices);
    expect(await stop('web')).toMatchObject({ kind: 'ended', via: expect.stringMatching(/kill/) });
    await until(() => !next.isAlive());
    expect(asked()[0]).toBe(`StopUnit ${UNIT}`);
    rmSync(run);
    // One eviction: its back-off is the first one.
    expect(readFileSync(heldPath(directory), 'utf8')).toContain('"level":0');
    expect(podOf('web').declared.isTerminating).toBe(false);
  });
});
