import { describe, expect, it } from 'vitest';
import { actionWithin } from '../../src/core/pod/grace.ts';
import type { BoundPod } from '../../src/ports.ts';
import type { FakeUnit } from '../host/fake-systemd.ts';
import { hasDbusDaemon, until } from '../host/private-bus.ts';
import { addUnit, bound, changeUnit, clock, fake, of, tie, ties } from './a-tied-pods.ts';

const HARD = 1;
const actionOf = (name: string, pods: readonly BoundPod[], graceSeconds = HARD): string | undefined =>
  actionWithin(of(name, pods)?.endsMachine, graceSeconds) ?? undefined;
/** By the names of the pods, once systemd has said it of the first one. */
async function actionsOf(pods: readonly BoundPod[], graceSeconds = HARD): Promise<object> {
  await until(() => pods.slice(0, 1).every(({ declared: { name } }) => of(name, pods)?.endsMachine !== undefined));
  return Object.fromEntries(pods.map(({ declared: { name } }) => [name, actionOf(name, pods, graceSeconds)] as const));
}

describe.skipIf(!hasDbusDaemon)('pods whose stop may take the machine down [needs dbus-daemon]', () => {
  it('are not to be evicted if the end of a unit that stops with them, and runs, makes systemd reboot the machine', async () => {
    const acts = (name: string, actions: NonNullable<FakeUnit['actions']>): void => changeUnit(name, { actions });
    addUnit('own');
    acts('own', { FailureAction: 'reboot-force' });
    addUnit('base', { RequiredBy: ['between.service', 'idle.service'] });
    addUnit('between', { RequiredBy: ['helper.service'] });
    addUnit('helper');
    acts('helper', { SuccessAction: 'poweroff' });
    addUnit('idle', {}, 'inactive');
    acts('idle', { FailureAction: 'reboot' });
    addUnit('harmless', { RequiredBy: ['idle.service'] });
    acts('harmless', { FailureAction: 'none', SuccessAction: '' });
    const pods = ['own', 'base', 'harmless'].map((name) => bound(name, 0));
    await until(() => of('own', pods)?.endsMachine !== undefined);
    expect(actionOf('own', pods)).toBe('FailureAction=reboot-force of own.service');
    expect(actionOf('base', pods)).toBe('SuccessAction=poweroff of helper.service');
    expect(of('harmless', pods)).toEqual(pods[2]?.declared);
    acts('own', {});
    await fake.systemd.start('own.service');
    await until(() => of('own', pods)?.endsMachine === undefined);
  });

  it('are not to be evicted if systemd, at the end of a unit that stops with them, starts one that takes the machine down', async () => {
    const starts = (
      name: string,
      relations: FakeUnit['relations'],
      actions: NonNullable<FakeUnit['actions']> = {},
    ): void => {
      addUnit(name, relations);
      changeUnit(name, { actions });
    };
    starts('fails', { OnFailure: ['mail@fails.service', 'reboot.target'] });
    starts('ends', { OnSuccess: ['systemd-poweroff.service'] });
    starts('alone', { OnFailure: ['safe.target'] }, { OnFailureJobMode: 'isolate' });
    starts('base', { RequiredBy: ['helper.service'] });
    starts('helper', { OnFailure: ['emergency.target'] });
    starts('mails', { OnFailure: ['mail@reboot.service', 'my-reboot.service'] }, { OnFailureJobMode: 'replace' });
    starts('none', { OnFailure: [] }, { OnFailureJobMode: 'isolate' });
    const pods = ['fails', 'ends', 'alone', 'base', 'mails', 'none'].map((name) => bound(name, 0));
    expect(await actionsOf(pods)).toEqual({
      fails: 'OnFailure=reboot.target of fails.service',
      ends: 'OnSuccess=systemd-poweroff.service of ends.service',
      alone: 'OnFailureJobMode=isolate of alone.service',
      base: 'OnFailure=emergency.target of helper.service',
    });
  });

  it('are not to be evicted if what systemd starts at the end of a unit that stops with them has such an action itself', async () => {
    const handler = (
      name: string,
      actions: NonNullable<FakeUnit['actions']>,
      relations: FakeUnit['relations'] = {},
      state = 'inactive',
    ): void => {
      addUnit(name, relations, state);
      changeUnit(name, { actions });
    };
    addUnit('reboots', { OnFailure: ['handler.service'] });
    handler('handler', { SuccessAction: 'reboot' });
    addUnit('isolates', { OnSuccess: ['isolate.service'] });
    handler('isolate', { OnSuccessJobMode: 'isolate' }, { OnSuccess: ['basic.target'] });
    addUnit('base', { RequiredBy: ['helper.service'] });
    addUnit('helper', { OnFailure: ['first.service'] });
    handler('first', {}, { Wants: ['second.service'] });
    handler('second', { JobTimeoutAction: 'poweroff' });
    changeUnit('second', { timeouts: { JobTimeoutUSec: 600_000_000n } });
    addUnit('mails', { OnFailure: ['mail.service'] });
    handler('mail', { SuccessAction: 'none' });
    // It runs already: it is not started, nor does it end.
    addUnit('watched', { OnFailure: ['watch.service'] });
    handler('watch', { FailureAction: 'reboot' }, {}, 'active');
    const pods = ['reboots', 'isolates', 'base', 'mails', 'watched'].map((name) => bound(name, 0));
    expect(await actionsOf(pods)).toEqual({
      reboots: 'SuccessAction=reboot of handler.service',
      isolates: 'OnSuccessJobMode=isolate of isolate.service',
      base: 'JobTimeoutAction=poweroff of second.service',
    });
  });

  it('are not to be evicted if their stop may take as long as a job of their unit may before systemd reboots the machine', async () => {
    const timesOut = (name: string, timeouts: NonNullable<FakeUnit['timeouts']>, action = 'reboot-force'): void => {
      addUnit(name);
      changeUnit(name, { actions: { JobTimeoutAction: action }, timeouts });
    };
    timesOut('soon', { JobTimeoutUSec: 40_000_000n });
    timesOut('runs', { JobTimeoutUSec: 600_000_000n, JobRunningTimeoutUSec: 10_000_000n });
    timesOut('late', { JobTimeoutUSec: 41_000_000n });
    timesOut('never', {});
    timesOut('fails', { JobTimeoutUSec: 10_000_000n }, 'none');
    timesOut('helper', { JobTimeoutUSec: 600_000_000n });
    addUnit('base', { RequiredBy: ['helper.service'] });
    // One command after the SIGKILL, with 90 s; then 90 s more until its SIGTERM, and 90 s until its SIGKILL.
    timesOut('tidies', { JobTimeoutUSec: 281_000_000n });
    timesOut('tidies-late', { JobTimeoutUSec: 282_000_000n });
    for (const name of ['tidies', 'tidies-late']) changeUnit(name, { hasPostCommand: true });
    const names = ['soon', 'runs', 'late', 'never', 'fails', 'base', 'tidies', 'tidies-late'];
    const pods = names.map((name) => bound(name, 0));
    const anyStop = {
      runs: 'JobTimeoutAction=reboot-force of runs.service',
      // The stop of another unit is not over when the pod's grace period is.
      base: 'JobTimeoutAction=reboot-force of helper.service',
      tidies: 'JobTimeoutAction=reboot-force of tidies.service',
    };
    expect(await actionsOf(pods)).toEqual(anyStop);
    expect(await actionsOf(pods, 30)).toEqual({
      ...anyStop,
      soon: 'JobTimeoutAction=reboot-force of soon.service',
      'tidies-late': 'JobTimeoutAction=reboot-force of tidies-late.service',
    });
  });

  it('that are slices are not to be evicted if the end of a service in them does that', async () => {
    ties.close();
    tie({ clock, systemd: fake.systemd, unitOf: (uid) => `${uid}.slice`, wake: () => undefined });
    addUnit('inner');
    addUnit('apps', { SliceOf: ['inner.service'], RequiredBy: ['inner.service'] });
    changeUnit('inner', { actions: { FailureAction: 'exit' } });
    const slice = fake.units.get('apps.service');
    if (slice !== undefined) fake.units.set('apps.slice', slice);
    const pods = [bound('apps', 0)];
    await until(() => of('apps', pods)?.endsMachine !== undefined);
    expect(actionOf('apps', pods)).toBe('FailureAction=exit of inner.service');
  });
});
