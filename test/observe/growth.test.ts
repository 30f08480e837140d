import { mkdirSync, rmdirSync, rmSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { attribute, sayCulprit } from '../../src/core/eviction/attribution.ts';
import { known, unknown } from '../../src/core/reading.ts';
import { createProcfs } from '../../src/host/procfs.ts';
import { createGrowth, type Growth } from '../../src/observe/growth.ts';
import { createNodeMemory, type NodeMemory } from '../../src/observe/memory.ts';
import type { BoundPod } from '../../src/ports.ts';
import { aBoundPod } from './a-bound-pod.ts';
import { MIB, noCgroups, openTestNode, realMounts, type TestNode } from './a-node.ts';

const needs = noCgroups === null ? 'root, cgroups' : noCgroups;
const procfs = createProcfs();
const opened: NodeMemory[] = [];
afterEach(() => {
  stepMs = 0;
  for (const memory of opened.splice(0)) memory.close();
});

/** How long a reading takes for who measures it. */
let stepMs = 0;
let clockMs = 0;
const clock = {
  monoMs: () => {
    clockMs += stepMs;
    return clockMs;
  },
};

function open(
  cgroupRoot: string,
  pods: () => readonly BoundPod[],
  memoryAvailable: Counted = 'workingSet',
  podsCgroup?: string,
): Growth {
  const common = { mounts: realMounts(), procfs, memoryAvailable };
  const memory = createNodeMemory({ ...common, cgroupRoot });
  opened.push(memory);
  const found = podsCgroup === undefined ? undefined : () => known(podsCgroup);
  return createGrowth({ ...common, clock, nodePath: memory.nodePath, pods: () => known(pods()), podsCgroup: found });
}
type Counted = 'workingSet' | 'reclaimable';

describe.skipIf(noCgroups !== null)(`what took the memory of a bounded node [${needs}]`, () => {
  let node: TestNode;
  let nowMs = 0;
  beforeEach(async () => {
    node = await openTestNode(512 * MIB, 100);
  });
  afterEach(async () => {
    await node.remove();
  });

  /** `asBefore`: read once, as the first look does. */
  function follow(pods: () => readonly BoundPod[], memoryAvailable?: Counted): Growth {
    const growth = open(node.path, pods, memoryAvailable);
    growth.follow(nowMs);
    return growth;
  }
  function saidBy(growth: Growth): string {
    nowMs += 5_000;
    return sayCulprit(attribute(growth.read(nowMs, known([]))));
  }

  it.each(['workingSet', 'reclaimable'] as const)(
    'is a cgroup that is not a pod, if that grew [%s]',
    async (counted) => {
      const web = node.addPod('web');
      const backup = node.addPod('backup');
      const growth = follow(() => [aBoundPod({ name: 'web', cgroup: known(web.ref()) })], counted);
      await web.start(16 * MIB);
      await backup.start(96 * MIB);
      expect(saidBy(growth)).toMatch(/^most of the growth of the last 5s was not in pods: backup took (9[5-9]|10\d)/);
    },
  );

  it('is nothing outside pods if a pod grew, directly below the node or in a slice beside services', async () => {
    const web = node.addPod('web');
    node.addPod('system.slice');
    const database = node.addPod('system.slice/database.service');
    node.addPod('system.slice/cron.service');
    const pods = [web, database].map((pod, i) => aBoundPod({ name: `pod-${i}`, cgroup: known(pod.ref()) }));
    const growth = follow(() => pods);
    await web.start(48 * MIB);
    expect(saidBy(growth)).toBe('');
    await database.start(64 * MIB);
    expect(saidBy(growth)).toBe('');
  });

  it.each([
    ['kubepods', 'kubepods/burstable', 'kubepods/burstable/pod1'],
    ['kubepods.slice', 'kubepods.slice/kubepods-pod1.slice', 'kubepods.slice/kubepods-pod1.slice/x.scope'],
    ['kubelet.slice', 'kubelet.slice/kubelet-kubepods.slice', 'kubelet.slice/kubelet-kubepods.slice/pod1'],
  ])('is nothing outside pods if it is in a pod of the kubelet, below %s', async (...paths) => {
    const pods = paths.map((path) => node.addPod(path));
    const bound = pods.slice(-1).map((pod) => aBoundPod({ name: 'web', cgroup: known(pod.ref()) }));
    const growth = follow(() => bound);
    await pods.at(-1)?.start(48 * MIB);
    expect(saidBy(growth)).toBe('');
    await node.addPod('backup').start(96 * MIB);
    expect(saidBy(growth)).toContain('not in pods: backup took ');
  });

  it('is nothing outside pods if it is an undeclared pod, below the cgroup of all pods', async () => {
    const [slice, kubepods] = ['kubelet.slice', 'kubelet.slice/kubelet-kubepods.slice'].map((path) =>
      node.addPod(path),
    );
    const web = node.addPod('kubelet.slice/kubelet-kubepods.slice/pod1');
    const growth = open(node.path, () => [], 'workingSet', kubepods?.ref().path);
    growth.follow(nowMs);
    await web.start(48 * MIB);
    expect(saidBy(growth)).toBe('');
    await slice?.start(96 * MIB);
    expect(saidBy(growth)).toContain('not in pods: kubelet.slice took ');
  });

  it('is the service within its slice, even a new one, and not the pod beside it', async () => {
    node.addPod('system.slice');
    const database = node.addPod('system.slice/database.service');
    const growth = follow(() => [aBoundPod({ name: 'database', cgroup: known(database.ref()) })]);
    await database.start(24 * MIB);
    await node.addPod('system.slice/backup.service').start(80 * MIB);
    expect(saidBy(growth)).toContain('not in pods: system.slice/backup.service took ');
  });

  it('is the slice if none of its services has half of the growth', async () => {
    node.addPod('user.slice');
    const growth = follow(() => []);
    for (const name of ['a', 'b', 'c']) await node.addPod(`user.slice/${name}`).start(24 * MIB);
    expect(saidBy(growth)).toContain('not in pods: user.slice took ');
  });

  it('is never a pod of the last minute that continues without its manifest', async () => {
    node.addPod('system.slice');
    const database = node.addPod('system.slice/database.service');
    const cron = node.addPod('system.slice/cron.service');
    await database.start(64 * MIB);
    let pods: readonly BoundPod[] = [aBoundPod({ name: 'database', cgroup: known(database.ref()) })];
    const growth = follow(() => pods);
    pods = [];
    await cron.start(24 * MIB);
    expect(saidBy(growth)).toMatch(/not in pods: system.slice\/cron.service took 2\d(?:\.\d)? MiB \(of [23]\d/);
  });

  it('counts a pod whose cgroup was recreated as one that freed memory', async () => {
    const web = node.addPod('web');
    const child = await web.start(64 * MIB);
    const growth = follow(() => [aBoundPod({ name: 'web', cgroup: known(web.ref()) })]);
    await new Promise((resolve) => child.once('exit', resolve).kill('SIGKILL'));
    rmdirSync(web.directory);
    mkdirSync(web.directory);
    await web.start(16 * MIB);
    nowMs += 5_000;
    const read = growth.read(nowMs, known([]));
    if (!read.known) throw new Error(read.detail);
    expect(Math.round(read.value.podsBytes / (16 * MIB))).toBe(-3);
    expect(read.value.outsideBytes).toBeLessThan(MIB);
  });

  it.each(['workingSet', 'reclaimable'] as const)(
    'is nothing outside pods if a pod grew again after it was evicted, or another one in its place [%s]',
    async (counted) => {
      node.addPod('system.slice');
      const [web, database] = ['web', 'database'].map((name) => node.addPod(`system.slice/${name}.service`));
      if (web === undefined || database === undefined) throw new Error('no pods');
      const child = await web.start(96 * MIB);
      const growth = follow(
        () => [web, database].map((pod, i) => aBoundPod({ name: `pod-${i}`, cgroup: known(pod.ref()) })),
        counted,
      );
      await new Promise((resolve) => child.once('exit', resolve).kill('SIGKILL'));
      rmdirSync(web.directory);
      mkdirSync(web.directory);
      const again = await web.start(96 * MIB);
      await node.addPod('backup').start(8 * MIB);
      expect(saidBy(growth)).toBe('');
      await new Promise((resolve) => again.once('exit', resolve).kill('SIGKILL'));
      await database.start(96 * MIB);
      expect(saidBy(growth)).toBe('');
    },
  );

  it('is never what ended pods have left behind in the node', async () => {
    const [web, backup] = [node.addPod('web'), node.addPod('backup')];
    const left = `/dev/shm/nodewarden-test-${process.pid}`;
    try {
      web.run(`head -c ${32 * MIB} /dev/zero > ${left}`);
      const bound = aBoundPod({ name: 'web', cgroup: known(web.ref()) });
      const growth = follow(() => [bound]);
      rmdirSync(web.directory);
      await backup.start(16 * MIB);
      expect(saidBy(growth)).toContain('not in pods: backup took ');
    } finally {
      rmSync(left, { force: true });
    }
  });

  it('is reported since the oldest reading of the last minute', async () => {
    const backup = node.addPod('backup');
    const growth = follow(() => []);
    await backup.start(64 * MIB);
    for (let i = 0; i < 4; i++) {
      nowMs += 20_000;
      growth.follow(nowMs);
    }
    // By now all readings of the last minute hold it.
    expect(saidBy(growth)).toBe('');
  });

  it('is unknown without an earlier reading, and if the node is gone', () => {
    const none = open(node.path, () => []);
    expect(none.read(0, known([]))).toMatchObject({ known: false, why: 'absent', where: 'growth' });
    const gone = open(`${node.path}/gone`, () => []);
    gone.follow(0);
    expect(gone.read(1_000, known([]))).toMatchObject({ known: false, why: 'absent' });
  });

  it('is given up after 10 ms with many pods, because a kill waits for it', () => {
    node.addPod('system.slice');
    const services = Array.from({ length: 25 }, (_, i) => node.addPod(`system.slice/s${i}.service`));
    const pods = services.map((service, i) => aBoundPod({ name: `s${i}`, cgroup: known(service.ref()) }));
    let bound = pods;
    const growth = follow(() => bound);
    stepMs = 11;
    nowMs += 5_000;
    expect(growth.read(nowMs, known([]))).toMatchObject({ known: false, why: 'timed-out' });
    // A few are read on the slowest machine.
    bound = pods.slice(0, 24);
    const few = follow(() => bound);
    nowMs += 5_000;
    expect(few.read(nowMs, known([]))).toMatchObject({ known: true });
  });

  it('is not compared with readings from before the pods were found', async () => {
    node.addPod('system.slice');
    const database = node.addPod('system.slice/database.service');
    await database.start(48 * MIB);
    let cgroup: BoundPod['cgroup'] = unknown('not-asked', 'systemd', 'the unit was not looked up yet');
    const growth = follow(() => [aBoundPod({ name: 'database', cgroup })]);
    cgroup = known(database.ref());
    expect(growth.read(nowMs, known([]))).toMatchObject({ known: false, why: 'absent', where: 'growth' });
    growth.follow(nowMs);
    expect(saidBy(growth)).toBe('');
    expect(growth.read(nowMs, known([]))).toMatchObject({ known: true });
  });

  it('has a name short enough for one line', async () => {
    const long = 'x'.repeat(250);
    const backup = node.addPod(long);
    const growth = follow(() => []);
    await backup.start(48 * MIB);
    expect(saidBy(growth)).toContain(`not in pods: ${'x'.repeat(160)}… took `);
  });
});

describe.skipIf(noCgroups !== null)(`what took the memory of the machine [${needs}]`, () => {
  it('is read completely: pods, cgroups, the kernel and the processes of the root', () => {
    for (const memoryAvailable of ['workingSet', 'reclaimable'] as const) {
      const growth = open('/', () => [], memoryAvailable);
      growth.follow(0);
      expect(growth.read(1_000, known([]))).toMatchObject({ known: true, value: { overMs: 1_000, podsBytes: 0 } });
    }
  });
});
