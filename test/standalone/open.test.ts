import { chmodSync, existsSync, mkdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createHasten } from '../../src/act/hasten.ts';
import { sleep } from '../../src/host/clock.ts';
import { ENVIRONMENT } from '../../src/host/exec.ts';
import { mounts, needsCgroups, unreapedIn } from '../act/a-cgroup.ts';
import { until } from '../host/private-bus.ts';
import {
  cgroup,
  clock,
  directory,
  heard,
  IGNORES,
  open,
  order,
  podOf,
  pods,
  standalone,
  stop,
  write,
} from './a-standalone.ts';
import { hurried } from './needs.ts';

describe.skipIf(needsCgroups !== '')(`standalone pods ${needsCgroups}`, () => {
  it('are known at once if they are cgroups, with the age of their oldest process', async () => {
    await cgroup(0).run(IGNORES);
    write('one', `cgroup: ${cgroup(0).path}`);
    await open();
    expect(podOf('one').cgroup).toEqual({ known: true, value: cgroup(0).ref });
    expect(Math.abs((podOf('one').declared.startedAtWallMs ?? 0) - clock.wallMs())).toBeLessThan(60_000);
  });

  it('that start later are found on request, and otherwise the sooner the next look is due', async () => {
    const path = join(cgroup(0).path, 'later');
    const made = join(mounts?.memory ?? '', path);
    write('one', `cgroup: ${path}`);
    let wokenMs: number | null = null;
    const fast = hurried(clock, 20);
    await open({
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
    const data = join(directory, 'data');
    mkdirSync(data);
    writeFileSync(join(data, 'file'), 'x');
    write('one', `cgroup: ${cgroup(0).path}`, `    nodewarden.dev/disk: ${data}\n`);
    await open();
    const stopping = stop('one');
    expect(podOf('one').declared.isTerminating).toBe(true);
    expect(podOf('one').stops).toBe(0);
    expect(await stopping).toMatchObject({ of: 'd1', kind: 'ended', releasedBytes: { known: true } });
    expect(podOf('one').declared.isTerminating).toBe(false);
    // Whoever starts it again in this cgroup is told apart by it.
    expect(podOf('one').stops).toBe(1);
    const walked = await podOf('one').disk(() => undefined);
    // What it had written is not growth of its next life.
    expect(walked.known && walked.value.directories).toMatchObject([{ inodes: 2, freshInodes: 0 }]);
    expect(await stop('one')).toMatchObject({ kind: 'dropped', because: 'gone' });
  });

  it('that leave dead processes, which their parent has not reaped, say so', async () => {
    await unreapedIn(cgroup(0).roots, '15');
    write('one', `cgroup: ${cgroup(0).path}`);
    await open();
    expect(await stop('one')).toMatchObject({ kind: 'ended', unreaped: { path: cgroup(0).path } });
  });

  it('that started after a decision are not its victims when it is resumed', async () => {
    const decidedMs = clock.monoMs() - 5_000;
    await cgroup(0).run(IGNORES);
    write('one', `cgroup: ${cgroup(0).path}`);
    await open();
    const dropped = { kind: 'dropped', because: 'started-anew' };
    expect(await stop('one', { resumedFromMs: decidedMs })).toMatchObject(dropped);
    // Who was told by an earlier run, and is gone, did not go by itself.
    const told = { resumedFromMs: decidedMs, sentBefore: 'sigkill' } as const;
    const end = { kind: 'ended', via: 'sigkill', releasedBytes: { known: false, why: 'not-asked' } };
    expect(await stop('one', told)).toMatchObject(end);
    expect(cgroup(0).pids()).not.toEqual([]);
    expect(await stop('one', { resumedFromMs: clock.monoMs() + 1_000 })).toMatchObject({ kind: 'ended' });
  });

  it.each([
    ['its grace period was over', { first: 'sigkill' as const }],
    ['its grace period ends now', { graceMs: 100 }],
  ])('are not killed if %s when they are resumed, and they need not end any more', async (_, how) => {
    const stays = await cgroup(0).run(IGNORES);
    write('one', `cgroup: ${cgroup(0).path}`);
    await open();
    const resumed = { ...how, resumedFromMs: clock.monoMs(), sentBefore: 'sigterm' } as const;
    const spared = { kind: 'dropped', because: 'not-killed' };
    expect(await stop('one', { ...resumed, isOver: async () => true })).toMatchObject(spared);
    expect([stays.isAlive(), pods()[0]?.declared.isTerminating]).toEqual([true, false]);
    expect(await stop('one', { ...resumed, isOver: async () => false })).toMatchObject({ kind: 'ended' });
    await until(() => !stays.isAlive());
  });

  it('are killed within the phase of a shutdown that comes meanwhile, though they need not end any more', async () => {
    const stays = await cgroup(0).run(IGNORES);
    write('one', `cgroup: ${cgroup(0).path}`);
    await open();
    const hasten = createHasten(clock);
    const resumed = { resumedFromMs: clock.monoMs(), sentBefore: 'sigterm', graceMs: 60_000 } as const;
    const ended = standalone.killer.stop(order('one', { ...resumed, isOver: async () => true }), hasten);
    hasten.cut({ first: 'sigterm', graceMs: 200 });
    expect(await ended).toMatchObject({ kind: 'ended' });
    await until(() => !stays.isAlive());
  });

  it('are not stopped if their manifest named something else at the decision', async () => {
    await cgroup(0).run(IGNORES);
    write('one', `cgroup: ${cgroup(0).path}`);
    await open();
    const { victim } = order('one');
    expect(victim.boundTo).toBe(`cgroup ${cgroup(0).path}`);
    const before = { ...victim, boundTo: 'cgroup /before', cgroupPath: '/before', cgroupInode: 1 };
    const resumed = { resumedFromMs: clock.monoMs() + 1_000, victim: before };
    expect(await stop('one', resumed)).toMatchObject({ kind: 'dropped', because: 'rebound' });
    const ended = { kind: 'ended', via: 'sigterm' };
    expect(await stop('one', { ...resumed, sentBefore: 'sigterm' })).toMatchObject(ended);
    expect(cgroup(0).pids()).not.toEqual([]);
  });

  it('are stopped where they were bound if their manifest was removed or edited after they had been signalled', async () => {
    for (const edited of ['', 'cgroup: /elsewhere']) {
      await cgroup(0).run(IGNORES);
      write('one', `cgroup: ${cgroup(0).path}`);
      await open();
      const resumed = order('one', { resumedFromMs: clock.monoMs(), sentBefore: 'sigterm' });
      if (edited === '') rmSync(join(directory, 'pods.d', 'one.yaml'));
      else write('one', edited);
      await until(() => pods()[0]?.declared.boundTo === (edited === '' ? undefined : `cgroup ${edited.slice(8)}`));
      const end = await standalone.killer.stop(resumed, createHasten(clock));
      expect(end).toMatchObject({ kind: 'ended', via: expect.stringMatching(/kill/), releasedBytes: { known: true } });
      expect(cgroup(0).pids()).toEqual([]);
      await standalone.close();
    }
  });

  it('keep the last good version of a manifest that becomes invalid, and others are not affected', async () => {
    write('one', `cgroup: ${cgroup(0).path}`);
    await open();
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
    await open();
    expect(pods()).toHaveLength(1);
    for (const bad of ['', '# soon\n---\n', '{']) {
      writeFileSync(join(directory, 'pods.d', 'one.yaml'), bad);
      await until(() => heard.findings.all().some(({ id }) => id === 'manifest/one.yaml'));
      await standalone.close();
      await open();
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
    await open();
    expect(pods()).toEqual([]);
  });

  it('are refused if the name of their manifest is unreadable, and the name is shown escaped', async () => {
    write('one\ntwo', `cgroup: ${cgroup(0).path}`);
    await open();
    expect(pods()).toEqual([]);
    expect(heard.present.get('manifest/one\\u000atwo.yaml')).toMatch(
      /pods\.d\/one\\u000atwo\.yaml: the name .* rename it/,
    );
  });

  it('are refused if others may write their manifest', async () => {
    write('one', `cgroup: ${cgroup(0).path}`);
    chmodSync(join(directory, 'pods.d', 'one.yaml'), 0o666);
    await open();
    expect(pods()).toEqual([]);
    expect(heard.present.get('manifest/one.yaml')).toContain('can be written by its group or by others');
  });

  it('are refused if their cgroups are equal or nested, except for the first', async () => {
    mkdirSync(`${mounts?.memory}${cgroup(0).path}/inner`);
    write('one', `cgroup: ${cgroup(0).path}`);
    write('two', `cgroup: ${cgroup(0).path}/inner`);
    write('zero', `cgroup: ${cgroup(0).path}`);
    await open();
    expect(pods().map(({ cgroup: { known } }) => known)).toEqual([true, false, false]);
    expect(heard.present.get('binding/default/two')).toMatch(/two\.yaml:6:28: .*is bound at .*one\.yaml:6:28/);
  });

  it.each([
    ['a higher priority', '', 'priority: 1000', 'priority: 100'],
    ['a critical class', '', 'priorityClassName: system-node-critical', 'priority: 1000'],
    ['fewer resources to be evicted for', 'evict-for: memory', 'priority: 100', 'priority: 1000'],
    ['protection', 'protect: "true"', 'priority: 100', 'priority: 1000'],
  ])('of one cgroup are in force by the manifest with %s, whatever its file is called', async (_, own, more, less) => {
    const manifest = (name: string, annotation: string, spec: string): void =>
      writeFileSync(
        join(directory, 'pods.d', `${name}.yaml`),
        `apiVersion: v1\nkind: Pod\nmetadata: { name: ${name}, annotations: { nodewarden.dev/cgroup: ${cgroup(0).path}${annotation} } }\nspec: { ${spec}, containers: [{ name: a }] }\n`,
      );
    const inForce = () => pods().flatMap(({ cgroup: { known }, declared }) => (known ? [declared.name] : []));
    const annotation = own === '' ? '' : `, nodewarden.dev/${own}`;
    manifest('b', annotation, more);
    manifest('c', '', less);
    await open();
    expect(inForce()).toEqual(['b']);
    expect(heard.present.get('binding/default/c')).toMatch(
      /b\.yaml:\d+:\d+: of the two manifests, this one is ignored/,
    );
    // Also one that appears later, whose file comes first.
    manifest('a', '', less);
    await until(() => pods().length === 3);
    expect(inForce()).toEqual(['b']);
    rmSync(join(directory, 'pods.d', 'b.yaml'));
    manifest('d', annotation, more);
    await until(() => pods().some(({ declared }) => declared.name === 'd'));
    await until(() => inForce().join() === 'd');
  });

  it('never contain this program', async () => {
    const own = `${mounts?.memory}${cgroup(0).path}/cgroup.procs`;
    try {
      writeFileSync(own, String(process.pid));
      write('one', `cgroup: ${cgroup(0).path}`);
      await open();
      expect(podOf('one').cgroup).toMatchObject({ known: false });
      expect(heard.present.get('binding/default/one')).toContain('contains nodewarden itself');
    } finally {
      writeFileSync(`${mounts?.memory}/cgroup.procs`, String(process.pid));
    }
  });

  it('count the directories that they name as their volumes', async () => {
    writeFileSync(join(directory, 'big'), 'x'.repeat(100_000));
    write('one', `cgroup: ${cgroup(0).path}`, `    nodewarden.dev/disk: ${directory}\n`);
    await open();
    const walk = await podOf('one').disk(() => undefined);
    expect(walk).toMatchObject({ known: true, value: { volumes: [], containers: [{ name: 'a' }] } });
    if (walk.known) expect(walk.value.pod.volumesBytes).toBeGreaterThanOrEqual(100_000);
  });

  it('of podman are a finding without podman, or if it knows none of that name', async () => {
    const isInstalled = ENVIRONMENT.PATH.split(':').some((at) => existsSync(join(at, 'podman')));
    write('one', 'podman: web');
    await open();
    await until(() => heard.present.has('binding/default/one'));
    const text = isInstalled ? 'podman knows no container and no pod of this name' : 'podman is not installed here';
    expect(heard.present.get('binding/default/one')).toContain(text);
  });
});
