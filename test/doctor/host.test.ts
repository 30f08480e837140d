import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readBootId } from '../../src/host/clock.ts';
import { mounts, needsCgroups } from '../act/a-cgroup.ts';
import { type FakeSystemd, openFakeSystemd } from '../host/fake-systemd.ts';
import { mountHungFileSystem, noHungMount } from '../host/hung-mount.ts';
import { hasDbusDaemon } from '../host/private-bus.ts';
import { aDoctor, codesOf, saidOf } from './a-doctor.ts';

const isRoot = process.getuid?.() === 0;
const boot = readBootId();

describe('nodewarden doctor about the rest of the host', () => {
  const doctor = aDoctor();
  const { configure, report, path } = doctor;
  let child: ChildProcess | null = null;
  beforeEach(() => configure());
  afterEach(() => {
    child?.kill('SIGKILL');
    child = null;
  });

  it.skipIf(!isRoot)('reports another out-of-memory daemon that is running [needs root]', async () => {
    copyFileSync('/bin/sleep', path('nohang'));
    child = spawn(path('nohang'), ['600']);
    const texts = saidOf(await report(), 'other-oom-daemon').map(({ text }) => text);
    expect(texts).toContainEqual(expect.stringContaining(`nohang runs here too (process ${child.pid})`));
  });

  it('does not take a process for such a daemon because of its name alone', async () => {
    copyFileSync('/bin/sleep', path('oomd'));
    // Another user has to reach it.
    chmodSync(path('.'), 0o755);
    child = spawn(path('oomd'), ['600'], isRoot ? { uid: 65_534 } : {});
    expect(child.pid).toBeDefined();
    const texts = saidOf(await report(), 'other-oom-daemon').map(({ text }) => text);
    expect(texts.filter((text) => text.includes(`process ${child?.pid}`))).toEqual([]);
  });

  it('lists the units that an eviction holds down, of this boot only', async () => {
    mkdirSync(path('run'), { mode: 0o750 });
    const unit = { unit: 'web.service', pod: 'default/web', qos: 'BestEffort', tolerations: [], conditions: [] };
    const rest = { isStaticCritical: false, after: 'restart', invocationId: '', level: 0, dueMs: null };
    const held = { schema: 1, conditions: [], units: [{ ...unit, ...rest }], restarted: [] };
    const write = (bootId: string) =>
      writeFileSync(path('run/held.json'), JSON.stringify({ ...held, bootId }), { mode: 0o640 });
    write(boot.known ? boot.value : '');
    expect(saidOf(await report(), 'unit-held-down')).toMatchObject([
      { mend: `nodewarden release-held --config ${path('config.yaml')}` },
    ]);
    write('00000000-0000-4000-8000-000000000000');
    expect(saidOf(await report(), 'unit-held-down')).toEqual([]);
  });

  it.skipIf(noHungMount !== null)('reports a disk that hangs, and still ends [needs root and /dev/fuse]', async () => {
    mkdirSync(path('hung'));
    const mount = await mountHungFileSystem(path('hung'));
    try {
      configure(`nodefs: { path: ${path('hung')} }`);
      const said = await report();
      expect(saidOf(said, 'unfreeable-files')).toMatchObject([
        { kind: 'unknown', text: expect.stringContaining('the mount may hang') },
      ]);
    } finally {
      await mount.release();
    }
  });
});

describe.skipIf(!hasDbusDaemon)('nodewarden doctor and systemd [needs dbus-daemon]', () => {
  const doctor = aDoctor();
  const { configure, manifest, report } = doctor;

  let fake: FakeSystemd;
  beforeEach(async () => {
    configure();
    fake = await openFakeSystemd();
    process.env['DBUS_SYSTEM_BUS_ADDRESS'] = fake.daemon.address;
  });
  afterEach(async () => {
    delete process.env['DBUS_SYSTEM_BUS_ADDRESS'];
    await fake.remove();
  });
  const bind = (name: string, priority: number): void =>
    manifest(
      name,
      { 'systemd-unit': `${name}.service` },
      `  priority: ${priority}\n  terminationGracePeriodSeconds: 60\n`,
    );
  const unit = (name: string, more: object = {}): void => {
    const off = {
      activeState: 'active',
      invocation: 1,
      controlGroup: `/system.slice/${name}.service`,
      loadState: 'loaded',
    };
    fake.units.set(`${name}.service`, { ...off, ...more });
  };

  it('reports a pod whose end makes systemd reboot the machine, and does not count it among those to evict', async () => {
    configure('evictionHard: { memory.available: 1Mi }', 'shutdownGracePeriod: 70s');
    bind('web', 0);
    unit('web', { actions: { FailureAction: 'reboot' } });
    const said = await report();
    expect(saidOf(said, 'machine-action')).toMatchObject([
      {
        text: 'default/web is never evicted, and not stopped in a phase of a shutdown: its end may trigger FailureAction=reboot of web.service, and everything else would go down with it',
        mend: 'systemctl show -p FailureAction,SuccessAction,JobTimeoutAction,JobTimeoutUSec,JobRunningTimeoutUSec,OnFailure,OnFailureJobMode,OnSuccess,OnSuccessJobMode web.service',
      },
    ]);
    expect(saidOf(said, 'nothing-to-evict')[0]?.text).toContain('would risk a reset of the machine');
    const timeouts = { JobTimeoutUSec: 30_000_000n };
    unit('web', { actions: { JobTimeoutAction: 'reboot' }, timeouts });
    const sometimes = await report();
    expect(saidOf(sometimes, 'machine-action')[0]?.text).toBe(
      'default/web is evicted only with a short grace period, as under a hard threshold, and not stopped in a phase of a shutdown: a stop that takes 30s triggers JobTimeoutAction=reboot of web.service, and everything else would go down with it',
    );
    expect(codesOf(sometimes, 'warning')).not.toContain('nothing-to-evict');
    const isRare = { actions: { JobTimeoutAction: 'reboot' }, timeouts: { JobTimeoutUSec: 90_000_000n } };
    unit('web', isRare);
    expect(saidOf(await report(), 'machine-action')).toEqual([]);
    bind('later', 0);
    unit('later');
    unit('web', { ...isRare, relations: { Before: ['later.service'] } });
    expect(saidOf(await report(), 'machine-action').map(({ text }) => text)).toEqual([
      'default/web is not stopped in a phase of a shutdown: its stop may have to wait for others there, and a stop that takes 1m30s triggers JobTimeoutAction=reboot of web.service, and everything else would go down with it',
    ]);
    unit('web', { relations: { OnFailure: ['handler.service'] } });
    unit('handler', { activeState: 'inactive', actions: { SuccessAction: 'reboot' } });
    const [handler] = saidOf(await report(), 'machine-action');
    expect(handler?.text).toContain('never evicted');
    expect(handler?.text).toContain('may trigger SuccessAction=reboot of handler.service');
    expect(handler?.mend).toMatch(/ handler\.service$/);
    unit('web');
    expect(codesOf(await report(), 'warning')).not.toContain('machine-action');
  });

  it('reports a unit that systemd kills before its phase is over, and the setting to change', async () => {
    configure('shutdownGracePeriod: 30s', 'shutdownGracePeriodCriticalPods: 10s');
    bind('web', 0);
    unit('web', { stopUs: 5_000_000n });
    const [finding] = saidOf(await report(), 'stop-timeout-short');
    expect(finding?.text).toContain('systemd kills web.service (default/web) 5s after it is asked to stop');
    expect(finding?.mend).toContain('TimeoutStopSec=20');
  });

  it.skipIf(needsCgroups !== '')(
    `reports a pod with the priority of a unit that stops with it ${needsCgroups}`,
    async () => {
      bind('db', 0);
      bind('web', 1_000);
      const slice = `/nwtest-doctor${process.pid}.slice`;
      const made = ['', '/db.service', '/web.service'].map((at) => `${mounts?.memory}${slice}${at}`);
      for (const directory of made) mkdirSync(directory);
      unit('db', { controlGroup: `${slice}/db.service`, relations: { RequiredBy: ['web.service'] } });
      unit('web', { controlGroup: `${slice}/web.service`, relations: { Requires: ['db.service'] } });
      const said = await report().finally(() => {
        for (const directory of made.toReversed()) rmdirSync(directory);
      });
      expect(saidOf(said, 'priority-inherited').map(({ text }) => text)).toEqual([
        'default/db declares priority 0, but ranks with 1000, that of default/web, because stopping its unit may stop that one too',
      ]);
    },
  );

  it('says about units only what systemd has said: if the bus hangs, it is unknown', async () => {
    bind('db', 0);
    unit('db');
    fake.daemon.pause();
    const said = await report();
    expect(codesOf(said, 'unknown')).toEqual(
      expect.arrayContaining(['agent-not-enabled', 'binding-unresolved', 'priority-inherited']),
    );
    expect(said.fine.map(({ code }) => code)).not.toContain('priority-inherited');
  });
});
