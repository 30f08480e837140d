import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { known, valueOrNull } from '../../src/core/reading.ts';
import { anonBytes } from '../../src/host/cgroup/cgroupfs.ts';
import { leftIn } from '../../src/host/cgroup/left-memory.ts';
import { sleep } from '../../src/host/clock.ts';
import { startWorkload, type Workload } from '../../src/host/process/workload.ts';
import { liveNow } from '../../src/kube/stop/ladder.ts';
import { clock, machine, removeCgroup, until } from '../host/test-cgroup.ts';
import {
  APP,
  aWeb,
  away,
  declare,
  mounts,
  node,
  open,
  podOf,
  SANDBOX,
  tellRuntime,
  textOf,
  WEB,
} from './a-kubelet-node.ts';
import { anApiPod } from './an-api-pod.ts';

describe.skipIf(machine === null)('the pods of a node with a kubelet, as findings [needs root and cgroups]', () => {
  it('count a cgroup that nobody can name as a container, which is a finding if it lasts', async () => {
    aWeb();
    const source = open();
    expect((await podOf(source))?.containers.map(({ name }) => name).sort()).toEqual(['app', 'f'.repeat(12)]);
    expect(liveNow({ source }, WEB)?.sandboxes).toEqual([]);
    expect(node.asked).toBe(1);
    expect(textOf('kube-containers-unnamed')).toBeUndefined();
    await node.time.pass(10_000);
    expect(textOf('kube-containers-unnamed')).toContain('default/web');
    tellRuntime();
    await node.time.pass(2_000);
    expect(textOf('kube-containers-unnamed')).toBeUndefined();
    expect((await podOf(source))?.containers).toHaveLength(1);
  });

  it('are missing from the API for as long as that lasts, although the runtime names them meanwhile', async () => {
    node.tree.addPod('Burstable', WEB, APP, SANDBOX);
    open();
    await node.time.pass(10_000);
    expect(textOf('kube-pods-undeclared')).toContain(`?/${WEB}`);
    tellRuntime();
    await node.time.pass(2_000);
    expect(textOf('kube-pods-undeclared')).toContain('default/web');
    declare(anApiPod({ name: 'web', uid: WEB }));
    await node.time.pass(2_000);
    expect(textOf('kube-pods-undeclared')).toBeUndefined();
  });

  describe('that have left 32 MiB in a memory volume', () => {
    /** By a process in a container of web that goes on as such a command. */
    const writes = async (container: string, goesOn = 'echo up; exec sleep 1000') => {
      const file = join('/dev/shm', `nodewarden-findings-${process.pid}`);
      onTestFinished(() => rmSync(file, { force: true }));
      const path = `${node.tree.kubepods}/burstable/pod${WEB}`;
      const pod = { path, inode: statSync(mounts.memory + path).ino };
      const script = `echo $$ > "$0/cgroup.procs"; head -c 33554432 /dev/zero > "$1"; ${goesOn}`;
      const child = spawn('/bin/sh', ['-c', script, `${mounts.memory}${path}/${container}`, file], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      onTestFinished(() => void child.kill('SIGKILL'));
      await once(child.stdout, 'data');
      // The kernel's statistics may be late.
      await until(() => (valueOrNull(leftIn(mounts, pod))?.sharedBytes ?? 0) > 0);
      const end = async () => {
        child.kill('SIGKILL');
        await once(child, 'exit');
      };
      return { file, end, ownBytes: () => valueOrNull(anonBytes(mounts, pod)) ?? 0 };
    };
    const toldAfter = async (ms: number) => {
      await node.time.pass(ms);
      return textOf('kube-memory-volumes');
    };

    it('are a finding if they have ended and the kubelet leaves it for 30 s', async () => {
      aWeb({ api: { restartPolicy: 'Never' } });
      tellRuntime();
      const { file, end } = await writes(APP);
      open();
      expect([await toldAfter(2_000), await toldAfter(60_000)]).toEqual([undefined, undefined]);
      await end();
      expect([await toldAfter(2_000), await toldAfter(29_000)]).toEqual([undefined, undefined]);
      expect(await toldAfter(1_000)).toMatch(/1 pod .*default\/web \(32(\.\d+)? MiB\)/);
      rmSync(file);
      await expect.poll(() => toldAfter(2_000), { timeout: 10_000 }).toBeUndefined();
    });

    it('are none while it is not known whether a container is started again', async () => {
      aWeb({ api: { restartPolicy: 'OnFailure' } });
      tellRuntime();
      const { end } = await writes(APP);
      open();
      await end();
      expect([await toldAfter(2_000), await toldAfter(60_000)]).toEqual([undefined, undefined]);
      aWeb({ api: { restartPolicy: 'OnFailure', containers: [{ name: 'app', id: APP, ended: 'succeeded' }] } });
      expect([await toldAfter(2_000), await toldAfter(30_000)]).toEqual([
        undefined,
        expect.stringContaining('default/web'),
      ]);
    });

    it('are none while a sandbox runs the containers inside itself, however little memory it has of its own', async () => {
      aWeb({ api: { restartPolicy: 'Never' } });
      tellRuntime();
      const run = "import time; held = b'x' * (4 << 20); print('up', flush=True); time.sleep(1000)";
      const { ownBytes } = await writes(SANDBOX, `exec python3 -c "${run}"`);
      await until(() => ownBytes() >= 4 << 20);
      open();
      expect([await toldAfter(2_000), await toldAfter(60_000)]).toEqual([undefined, undefined]);
    });
  });

  it('may have annotations that bind to something else: these have no effect, and are a finding', async () => {
    aWeb({ api: { bindings: ['nodewarden.dev/cgroup'] } });
    const source = open();
    expect((await podOf(source))?.cgroup).toMatchObject({
      value: { path: `${node.tree.kubepods}/burstable/pod${WEB}` },
    });
    expect(textOf('kube-bindings-ignored')).toContain('default/web');
  });

  it('are a finding if the runtime says that they run but their containers are in no cgroup, and that lasts', async () => {
    declare(anApiPod({ name: 'web', uid: WEB }));
    const listNow = (): void => tellRuntime({ atMs: node.time.clock.monoMs() });
    listNow();
    open();
    listNow();
    await node.time.pass(10_000);
    expect(textOf('kube-containers-missing')).toContain('default/web');
    node.tree.addPod('Burstable', WEB, APP);
    await node.time.pass(2_000);
    expect(textOf('kube-containers-missing')).toBeUndefined();
  });

  it('do not lack a container while they wait for a restart, although the runtime had listed it as running', async () => {
    aWeb();
    tellRuntime({ atMs: node.time.clock.monoMs() });
    open();
    node.tree.remove(node.tree.containerIn(node.tree.addPod('Burstable', WEB), APP));
    for (let times = 0; times < 4; times++) await node.time.pass(10_000);
    expect(textOf('kube-containers-missing')).toBeUndefined();
    expect(node.asked).toBeGreaterThan(0);
  });

  it("are found by the driver on disk if another is stated, and the runtime's statement outranks the configuration", async () => {
    aWeb();
    node.saidDriver = known('systemd');
    open({ configuredDriver: 'cgroupfs' });
    expect(textOf('kube-cgroup-driver')).toContain(`be systemd, but the pods are in ${node.tree.kubepods}`);
    node.saidDriver = away;
    await node.time.pass(2_000);
    expect(textOf('kube-cgroup-driver')).toBeUndefined();
  });

  it('are nowhere without a kubelet, which is a finding if it lasts, until the kubelet comes', async () => {
    open();
    await node.time.pass(10_000);
    expect(textOf('kube-no-pods-cgroup')).toContain(`${node.tree.cgroupRoot}/kubepods`);
    node.tree.make(node.tree.kubepods);
    await node.time.pass(2_000);
    expect(textOf('kube-no-pods-cgroup')).toBeUndefined();
  });

  it('are a finding if they hold many process IDs by dead processes that nobody reaps, until they end or are gone', async () => {
    aWeb();
    const path = node.tree.containerIn(`${node.tree.kubepods}/burstable/pod${WEB}`, APP);
    // It says so once all of them are dead, as /proc shows.
    const script =
      'my @dead = map { fork || exit } 1 .. 80;' +
      'for (@dead) { while (1) { open my $stat, "<", "/proc/$_/stat"; last if <$stat> =~ /\\) Z/ } }' +
      '$| = 1; print "up\\n"; sleep 1000';
    const run = async () => {
      let said = '';
      const workload = startWorkload({
        argv: ['/usr/bin/perl', '-e', script],
        join: countedAt(path),
        monoMs: clock.monoMs,
        line: (line) => {
          said += line;
        },
      });
      if (typeof workload === 'string') throw new Error(workload);
      onTestFinished(() => workload.kill('SIGKILL'));
      await until(() => said !== '');
      return workload;
    };
    /** Its dead are reaped by another process once it has ended. */
    const goesAfter = async (parent: Workload) => {
      parent.kill('SIGKILL');
      for (let tries = 0; told() !== undefined && tries < 1_000; tries++) {
        await sleep(clock, 10);
        await node.time.pass(10_000);
      }
      expect(told()).toBeUndefined();
    };
    const first = await run();
    open();
    const told = () => textOf('unreaped/default/web');
    expect(told()).toContain('80 dead processes of default/web hold');
    first.kill('SIGKILL');
    await goesAfter(first);
    const second = await run();
    await node.time.pass(10_000);
    expect(told()).toContain('80 dead processes');
    node.listed.clear();
    await removeCgroup(`${mounts.memory}${node.tree.kubepods}/burstable/pod${WEB}`);
    await goesAfter(second);
  });
});

/** The directories of a cgroup, with the counter of process IDs in it and above. */
function countedAt(path: string): readonly string[] {
  const top = `/${path.split('/')[1]}`;
  if (mounts.pids !== null && mounts.pids !== mounts.memory) {
    mkdirSync(mounts.pids + path, { recursive: true });
    onTestFinished(() => removeCgroup(mounts.pids + top));
    return [mounts.memory + path, mounts.pids + path];
  }
  const parts = path.split('/').slice(0, -1);
  for (const [i] of parts.entries())
    writeFileSync(`${mounts.memory}${parts.slice(0, i + 1).join('/')}/cgroup.subtree_control`, '+pids');
  return [mounts.memory + path];
}
