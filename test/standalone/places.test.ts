import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { unknown } from '../../src/core/reading.ts';
import { createClock, sleep } from '../../src/host/clock.ts';
import type { Systemd } from '../../src/host/systemd/systemd.ts';
import { unitPath } from '../../src/host/systemd/unit-name.ts';
import type { BoundPod, Clock } from '../../src/ports.ts';
import { openStandalone, type Standalone } from '../../src/standalone/open.ts';
import { createPlaceMemory, type PlaceMemory } from '../../src/standalone/pods/pod-place.ts';
import { mounts, needsCgroups } from '../act/a-cgroup.ts';
import { type FakeSystemd, type FakeUnit, openFakeSystemd } from '../host/fake-systemd.ts';
import { type Answer, orDbusDaemon, until } from '../host/private-bus.ts';
import { byHand, heardParts, hurried, placedIn } from './needs.ts';

const clock = createClock();
const why = orDbusDaemon(needsCgroups);
let count = 0;

describe.skipIf(why !== '')(`the cgroup of a pod ${why}`, () => {
  let directory: string;
  /** A slice of this test's own: systemd puts units below it by their names. */
  let slice: string;
  let heard: ReturnType<typeof heardParts>;
  let fake: FakeSystemd;
  let opened: Standalone[];
  let made: string[];
  let answer: (member: string, path: string) => Answer | null;
  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'nodewarden-places-'));
    mkdirSync(join(directory, 'pods.d'));
    count += 1;
    slice = `nwtest${process.pid}x${count}.slice`;
    heard = heardParts();
    [opened, made] = [[], []];
    answer = () => null;
    fake = await openFakeSystemd((member, _, __, path) => answer(member, path));
  });
  afterEach(async () => {
    for (const standalone of opened) await standalone.close();
    await fake.remove();
    for (const path of made.reverse()) rmSync(path, { recursive: true, force: true });
    rmSync(directory, { recursive: true });
  });
  const at = (path: string): string => `${mounts?.memory}${path}`;
  /** A cgroup with all above it; gives how it is removed. */
  const make = (path: string): (() => void) => {
    const parts = path.split('/').slice(1);
    for (const [i] of parts.entries()) {
      const part = at(`/${parts.slice(0, i + 1).join('/')}`);
      try {
        mkdirSync(part);
        made.push(part);
      } catch {
        // It is there.
      }
    }
    return () => rmdirSync(at(path));
  };
  const bind = (name: string, annotation = `systemd-unit: ${name}.service`): void =>
    writeFileSync(
      join(directory, 'pods.d', `${name}.yaml`),
      `apiVersion: v1\nkind: Pod\nmetadata:\n  name: ${name}\n  annotations:\n    nodewarden.dev/${annotation}\nspec: { containers: [{ name: a }] }\n`,
    );
  const unit = (name: string, more: Partial<FakeUnit> = {}): void => {
    const off = { activeState: 'inactive', invocation: 1, controlGroup: '', loadState: 'loaded', slice };
    fake.units.set(name, { ...off, ...more });
  };
  /** A bound unit that runs. `remove`: its cgroup. */
  const runWeb = (): { readonly path: string; readonly remove: () => void } => {
    const path = `/${slice}/web.service`;
    const remove = make(path);
    unit('web.service', { activeState: 'active', controlGroup: path });
    bind('web');
    return { path, remove };
  };
  type More = {
    readonly wake?: () => void;
    readonly clock?: Clock;
    readonly cgroupRoot?: string;
    readonly places?: PlaceMemory;
    readonly systemd?: Systemd;
  };
  const open = async (more: More = {}): Promise<Standalone> => {
    if (mounts === null) throw new Error('no cgroups');
    const { systemd } = fake;
    const standalone = openStandalone({ ...heard, ...placedIn(directory), clock, mounts, systemd, ...more });
    opened.push(standalone);
    await standalone.pods.opened?.();
    return standalone;
  };
  const podOf = (standalone: Standalone, name: string): BoundPod => {
    const pods = standalone.pods.pods();
    const found = pods.known ? pods.value.find(({ declared }) => declared.name === name) : undefined;
    if (found === undefined) throw new Error(`no pod ${name}`);
    return found;
  };
  const isThere = (standalone: Standalone, name: string): boolean => podOf(standalone, name).cgroup.known;
  const unsettled = (standalone: Standalone) => standalone.pods.unsettled?.('memory.available') ?? null;

  it('is known as soon as it appears, is removed, or is replaced', async () => {
    const path = `/${slice}/job`;
    make(`/${slice}`);
    bind('job', `cgroup: ${path}`);
    const standalone = await open();
    expect(isThere(standalone, 'job')).toBe(false);
    const remove = make(path);
    expect(isThere(standalone, 'job')).toBe(true);
    const before = podOf(standalone, 'job').cgroup;
    remove();
    expect(isThere(standalone, 'job')).toBe(false);
    make(path);
    expect(isThere(standalone, 'job')).toBe(true);
    expect(podOf(standalone, 'job').cgroup).not.toEqual(before);
  });

  it.skipIf(mounts?.layout !== 'hybrid')(
    'is said to be unmeasured, which is a finding, while processes run in one of its path that only systemd has [needs cgroup v1 with systemd’s own tree]',
    async () => {
      const path = `/${slice}/job`;
      const unified = `${mounts?.unified}/${slice}`;
      made.push(unified, `${unified}/job`);
      mkdirSync(`${unified}/job`, { recursive: true });
      bind('job', `cgroup: ${path}`);
      const standalone = await open();
      await until(() => standalone.isSettled());
      expect(podOf(standalone, 'job').cgroup).toMatchObject({ why: 'absent' });
      const process = spawn('sleep', ['1000'], { stdio: 'ignore' });
      try {
        writeFileSync(`${unified}/job/cgroup.procs`, String(process.pid));
        await until(() => heard.present.has('binding/default/job'));
        expect(heard.present.get('binding/default/job')).toContain(
          'processes run in it, but the memory controller has no cgroup',
        );
        expect(podOf(standalone, 'job').cgroup).toMatchObject({ why: 'unreadable' });
      } finally {
        process.kill('SIGKILL');
      }
      await until(() => !heard.present.has('binding/default/job'));
    },
  );

  it('is not guessed for a unit that is masked: systemd does not say any more in which slice it was', async () => {
    make(`/${slice}`);
    unit('job.service');
    bind('job');
    const standalone = await open({ cgroupRoot: `/${slice}` });
    await until(() => standalone.isSettled());
    expect([...heard.present.keys()]).toEqual([]);
    unit('job.service', { loadState: 'masked', slice: '' });
    fake.begin('job.service');
    await until(() => heard.present.has('binding/default/job'));
    expect(heard.present.get('binding/default/job')).toMatch(/cannot be resolved: job\.service: its unit is masked$/);
  });

  it('is known for a unit that is only starting, without a query', async () => {
    unit('job.service');
    bind('job');
    const standalone = await open();
    await until(() => standalone.isSettled() && unsettled(standalone) === null);
    fake.daemon.pause();
    expect(isThere(standalone, 'job')).toBe(false);
    make(`/${slice}/job.service`);
    expect(isThere(standalone, 'job')).toBe(true);
  });

  it('is known for a transient unit as soon as systemd starts it', async () => {
    bind('job');
    const standalone = await open();
    await until(() => heard.present.get('binding/default/job')?.includes('knows no such unit') === true);
    unit('job.service', { activeState: 'activating' });
    make(`/${slice}/job.service`);
    await until(() => {
      // The rule for the signal may not be in force yet.
      fake.begin('job.service');
      return isThere(standalone, 'job');
    });
    await until(() => !heard.present.has('binding/default/job'));
  });

  it('is asked for seldom if systemd knows no such unit: it tells of a start, and thousands of such manifests cost a core', async () => {
    const timed = byHand(clock);
    const path = unitPath('job.service');
    let asked = 0;
    answer = (member, of) => {
      if (member === 'GetAll' && of === path) asked += 1;
      return null;
    };
    const complaint = (): string | undefined => heard.present.get('binding/default/job');
    const atLine = async (line: number): Promise<void> =>
      until(() => {
        timed.pass(1_000);
        return complaint()?.includes(`job.yaml:${line}:`) === true && complaint()?.includes('no such unit') === true;
      });
    bind('job');
    const standalone = await open({ clock: timed.clock });
    await atLine(6);
    await until(() => standalone.isSettled());
    // A manifest that is edited is no reason either, and what is said of it names its new line.
    const file = join(directory, 'pods.d', 'job.yaml');
    writeFileSync(file, `# A comment.\n${readFileSync(file, 'utf8')}`);
    await atLine(7);
    const before = asked;
    for (let second = 0; second < 40; second += 1) {
      timed.pass(1_000);
      // Answered after everything that was asked before.
      await fake.systemd.unit('other.service');
    }
    expect(asked - before).toBeLessThan(2);
    await until(() => {
      timed.pass(10_000);
      return asked - before > 2;
    });
  });

  it('is not forgotten if systemd is slow, and a new run in it is still noticed', async () => {
    const { path, remove } = runWeb();
    const fast = hurried(clock, 10);
    const standalone = await open({ clock: fast });
    await until(() => isThere(standalone, 'web'));
    const before = podOf(standalone, 'web').cgroup;
    // The time-outs of the bus are its own: an answer that it gives up takes nothing away.
    let asked = 0;
    answer = (member) => {
      asked += 1;
      return member === 'LoadUnit' || member.startsWith('Get')
        ? { error: 'org.freedesktop.DBus.Error.LimitsExceeded' }
        : null;
    };
    remove();
    make(path);
    expect(podOf(standalone, 'web').cgroup).toMatchObject({ known: true });
    expect(podOf(standalone, 'web').cgroup).not.toEqual(before);
    await until(() => asked > 3);
    await sleep(clock, 50);
    expect(isThere(standalone, 'web')).toBe(true);
    expect([...heard.present.keys()]).toEqual([]);
  });

  it('keeps all pods from being chosen until systemd has reported it, for at most 2 s', async () => {
    answer = (member) => (member.startsWith('Get') ? 'silence' : null);
    bind('web');
    const standalone = await open();
    expect(unsettled(standalone)).toMatchObject({ known: false, detail: expect.stringContaining('default/web') });
    expect(standalone.isSettled()).toBe(false);
    await until(() => standalone.pods.unsettled?.('all') === null);
    const shutdownMs = clock.monoMs();
    await until(() => unsettled(standalone) === null);
    expect(clock.monoMs()).toBeGreaterThan(shutdownMs);
    expect(standalone.isSettled()).toBe(true);
  });

  it('is settled at once if cgroups show it, and known to rebuilt parts', async () => {
    runWeb();
    const places = createPlaceMemory();
    const first = await open({ places });
    await until(() => isThere(first, 'web'));
    await first.close();
    answer = (member) => (member.startsWith('Get') ? 'silence' : null);
    const second = await open({ places });
    expect([isThere(second, 'web'), second.isSettled()]).toEqual([true, true]);
    // Only what would stop along with it.
    expect(unsettled(second)?.where).toBe('units');
    await second.close();
    const third = await open();
    expect(unsettled(third)?.where).toBe('bindings');
  });

  it('is enough once systemd has said what stops along with it, or has not within a second, which is a finding until it does', async () => {
    runWeb();
    const places = createPlaceMemory();
    const first = await open({ places });
    await until(() => isThere(first, 'web') && unsettled(first) === null);
    expect([...heard.present.keys()]).toEqual([]);
    await first.close();
    let isSilent = true;
    const ties: Systemd['ties'] = async (name) =>
      isSilent ? unknown('timed-out', name, 'no answer') : fake.systemd.ties(name);
    let woken = 0;
    const second = await open({ places, systemd: { ...fake.systemd, ties }, wake: () => (woken += 1) });
    expect(unsettled(second)).toMatchObject({ known: false, detail: expect.stringContaining('stop along') });
    // Nor is one chosen for a local storage limit, for which no signal asks.
    expect(second.pods.unsettled?.(null)?.where).toBe('units');
    // A shutdown does not wait for it.
    expect(second.pods.unsettled?.('all')).toBeNull();
    const before = woken;
    await until(() => unsettled(second) === null);
    expect(woken).toBeGreaterThan(before);
    expect([...heard.present.keys()]).toEqual(['ties-unknown']);
    isSilent = false;
    fake.begin('web.service');
    await until(() => heard.present.size === 0);
    // A reload of the unit files may have changed it.
    fake.reload(true);
    await until(() => heard.present.has('ties-unknown'));
    fake.reload(false);
    await until(() => heard.present.size === 0);
  });

  it('is watched for while a victim is needed, and reported', async () => {
    make(`/${slice}`);
    bind('job', `cgroup: /${slice}/job`);
    let woken = 0;
    // What is done every second or two does not happen here.
    const restless: Clock = { ...clock, after: (ms, run) => (ms < 1_000 ? clock.after(ms, run) : () => undefined) };
    const standalone = await open({ clock: restless, wake: () => (woken += 1) });
    await sleep(clock, 50);
    woken = 0;
    make(`/${slice}/job`);
    unsettled(standalone);
    await until(() => woken > 4);
  });

  it('is queried for all at once: one without an answer delays no other', async () => {
    const names = Array.from({ length: 40 }, (_, i) => `u${i}`);
    for (const name of names) {
      make(`/${slice}/${name}.service`);
      unit(`${name}.service`, { activeState: 'active', controlGroup: `/${slice}/${name}.service` });
      bind(name);
    }
    const silent = new Set(['u0.service', 'u7.service', 'u20.service']);
    const systemd: Systemd = {
      ...fake.systemd,
      unit: (name) => (silent.has(name) ? new Promise(() => undefined) : fake.systemd.unit(name)),
    };
    const standalone = await open({ systemd });
    const others = names.filter((name) => !silent.has(`${name}.service`));
    await until(() => others.every((name) => isThere(standalone, name)));
  });

  it('is that of the unit itself if the manifest names an alias, and the unit is stopped', async () => {
    const path = `/${slice}/real.service`;
    make(path);
    unit('nick.service', { activeState: 'active', controlGroup: path, id: 'real.service' });
    bind('web', 'systemd-unit: nick.service');
    const standalone = await open();
    await until(() => isThere(standalone, 'web'));
    expect(standalone.unitOf(podOf(standalone, 'web').declared.uid)).toBe('real.service');
    // Its jobs have its own name.
    answer = () => null;
    unit('nick.service', { activeState: 'active', controlGroup: `/${slice}/moved.service`, id: 'real.service' });
    make(`/${slice}/moved.service`);
    await until(() => {
      fake.begin('real.service');
      const { cgroup } = podOf(standalone, 'web');
      return cgroup.known && cgroup.value.path.endsWith('moved.service');
    });
  });

  it('is also awaited if the node is bounded, and the likely path of a unit is outside it', async () => {
    answer = (member) => (member.startsWith('Get') ? 'silence' : null);
    bind('web');
    const standalone = await open({ cgroupRoot: `/${slice}` });
    await sleep(clock, 50);
    expect(unsettled(standalone)).not.toBeNull();
    expect([...heard.present.keys()]).toEqual([]);
  });

  it('must be below the guarded node', async () => {
    const path = `/${slice}/web.service`;
    make(path);
    make(`/${slice}/in/inner.service`);
    unit('web.service', { activeState: 'active', controlGroup: path });
    unit('inner.service', { activeState: 'active', controlGroup: `/${slice}/in/inner.service` });
    bind('web');
    bind('inner');
    const standalone = await open({ cgroupRoot: `/${slice}/in` });
    await until(() => isThere(standalone, 'inner'));
    await until(() => heard.present.has('binding/default/web'));
    expect(isThere(standalone, 'web')).toBe(false);
    expect(heard.present.get('binding/default/web')).toContain(`is not below /${slice}/in`);
  });
});
