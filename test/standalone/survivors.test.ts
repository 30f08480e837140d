import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createHasten } from '../../src/act/hasten.ts';
import { createSurvivorMemory, type SurvivorMemory } from '../../src/act/survivors.ts';
import type { Outcome } from '../../src/core/outcome.ts';
import { sleep } from '../../src/host/clock.ts';
import type { Finding } from '../../src/ports.ts';
import { needsCgroups, unreapedIn } from '../act/a-cgroup.ts';
import { asChild } from '../host/an-emptying.ts';
import { until } from '../host/private-bus.ts';
import { cgroup, clock, directory, HOLDS, heard, open, order, podOf, standalone, stop, write } from './a-standalone.ts';

/** More than the time from one look at it to the next. */
const LOOKED_MS = 1_000;

/** A survivor that was moved out of its cgroup, and what is told of it later. */
async function survive(became: (outcome: Outcome) => void) {
  const { pid, isAlive } = await cgroup(0).run(HOLDS);
  const moveTo = (i: number): void => {
    for (const root of cgroup(i).roots) writeFileSync(join(root, 'cgroup.procs'), String(pid));
  };
  return { pid, isAlive, moveTo, stop };
  async function stop(): Promise<void> {
    const stopping = standalone.killer.stop(order('one', { graceMs: 300 }), createHasten(clock), undefined, became);
    moveTo(1);
    expect(await stopping).toMatchObject({ kind: 'survived' });
  }
}

describe.skipIf(needsCgroups !== '')(`a pod that survived its eviction ${needsCgroups}`, () => {
  it('is not heard of once the parts are closed: what was its scratch may be data of another pod by then', async () => {
    const root = mkdtempSync('/var/lib/nodewarden-test-');
    onTestFinished(() => rmSync(root, { recursive: true }));
    const data = join(root, 'x');
    mkdirSync(data);
    write('one', `cgroup: ${cgroup(0).path}`, `    nodewarden.dev/scratch: ${data}\n`);
    write('two', `cgroup: ${cgroup(1).path}`);
    await open({ run: asChild });
    const { scratch, close } = standalone;
    const { victim } = order('one');
    const emptying: Promise<unknown>[] = [];
    const survivor = await survive(() =>
      emptying.push(scratch.empty(victim, { of: 'a-1', signal: 'nodefs.available' })),
    );
    await survivor.stop();
    await close();
    rmSync(join(directory, 'pods.d', 'one.yaml'));
    write('two', `cgroup: ${cgroup(1).path}`, `    nodewarden.dev/disk: ${data}\n`);
    writeFileSync(join(data, 'precious'), 'x');
    await open({ run: asChild });
    await podOf('two').disk(() => undefined);
    process.kill(survivor.pid, 'SIGKILL');
    await until(() => !survivor.isAlive());
    await sleep(clock, LOOKED_MS);
    await Promise.all(emptying);
    expect(readdirSync(data)).toEqual(['precious']);
  });

  it('is not said to have been killed if it ends elsewhere, where the agent signals nobody', async () => {
    for (const [i, name] of ['one', 'two'].entries()) write(name, `cgroup: ${cgroup(i).path}`);
    await open();
    const became: Outcome[] = [];
    const survivor = await survive((outcome) => became.push(outcome));
    await survivor.stop();
    process.kill(survivor.pid, 'SIGKILL');
    await until(() => became.length > 0);
    expect(became).toMatchObject([{ of: 'd1', kind: 'unknown', detail: expect.stringContaining('SIGKILL') }]);
  });

  it('is not said to have ended if what had left it comes back', async () => {
    for (const [i, name] of ['one', 'two'].entries()) write(name, `cgroup: ${cgroup(i).path}`);
    await open();
    const became: Outcome[] = [];
    const survivor = await survive((outcome) => became.push(outcome));
    await survivor.stop();
    survivor.moveTo(0);
    await sleep(clock, LOOKED_MS);
    expect([survivor.isAlive(), became]).toEqual([true, []]);
    process.kill(survivor.pid, 'SIGKILL');
    await until(() => became.length > 0);
    expect(became).toMatchObject([{ kind: 'unknown' }]);
  });
});

describe.skipIf(needsCgroups !== '')(`what was found of a pod, once the parts are rebuilt ${needsCgroups}`, () => {
  const rebuilt = async (memory: SurvivorMemory): Promise<void> => {
    await standalone.close();
    heard.present.clear();
    await open({ memory });
  };

  it('is still a finding if it survived, until it ends', async () => {
    for (const [i, name] of ['one', 'two'].entries()) write(name, `cgroup: ${cgroup(i).path}`);
    const memory = createSurvivorMemory();
    await open({ memory });
    const became: Outcome[] = [];
    const survivor = await survive((outcome) => became.push(outcome));
    await survivor.stop();
    const survived = { id: `survived/${order('one').victim.uid}`, text: 'default/one survived its eviction' };
    heard.findings.raise(survived);
    await rebuilt(memory);
    expect(heard.findings.all()).toEqual([survived]);
    await rebuilt(memory);
    expect(heard.findings.all()).toEqual([survived]);
    process.kill(survivor.pid, 'SIGKILL');
    await until(() => heard.present.size === 0);
    await rebuilt(memory);
    expect([heard.findings.all(), became]).toEqual([[], []]);
  });

  it('is still a finding if dead processes hold process IDs, until they do not', async () => {
    const parent = await unreapedIn(cgroup(0).roots, '60');
    write('one', `cgroup: ${cgroup(0).path}`);
    const memory = createSurvivorMemory();
    await open({ memory });
    await stop('one');
    const id = 'unreaped/default/one';
    await until(() => heard.present.has(id));
    await rebuilt(memory);
    expect(heard.present.has(id)).toBe(true);
    parent.kill('SIGKILL');
    await until(() => !heard.present.has(id));
  });
});

describe.skipIf(needsCgroups !== '')(`dead processes that hold process IDs ${needsCgroups}`, () => {
  it('are told of until the parts are closed, and no longer', async () => {
    const parent = await unreapedIn(cgroup(0).roots, '60');
    write('one', `cgroup: ${cgroup(0).path}`);
    await open();
    expect(await stop('one')).toMatchObject({ kind: 'ended', unreaped: { path: cgroup(0).path } });
    const id = 'unreaped/default/one';
    await until(() => heard.present.has(id));
    await standalone.close();
    const changes: string[] = [];
    const told = (what: string | Finding) => void changes.push(JSON.stringify(what));
    Object.assign(heard.findings, { raise: told, clear: told });
    parent.kill('SIGKILL');
    await sleep(clock, 2_000);
    expect(changes).toEqual([]);
  });

  it.each([
    ['its manifest is removed', () => rmSync(join(directory, 'pods.d', 'one.yaml'))],
    ['its manifest names another cgroup', () => write('one', `cgroup: ${cgroup(1).path}`)],
  ])(
    'are not told of any more once %s',
    async (_, change) => {
      await unreapedIn(cgroup(0).roots, '60');
      await cgroup(1).run('echo up; sleep 1000');
      write('one', `cgroup: ${cgroup(0).path}`);
      await open();
      expect(await stop('one')).toMatchObject({ kind: 'ended' });
      const id = 'unreaped/default/one';
      await until(() => heard.present.has(id));
      change();
      await until(() => !heard.present.has(id));
      const raised: string[] = [];
      Object.assign(heard.findings, { raise: ({ id }: Finding) => void raised.push(id) });
      await sleep(clock, 2_500);
      expect(raised).not.toContain(id);
    },
    60_000,
  );
});
