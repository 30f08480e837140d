import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import { cgroupPathOf } from '../../src/host/cgroup-members.ts';
import { directoryOf } from '../../src/host/cgroup-walk.ts';
import type { CgroupDriver } from '../../src/host/kubepods.ts';
import type { ApiPod } from '../../src/kube/api-pod.ts';
import type { RuntimeFacts } from '../../src/kube/runtime.ts';
import type { KubeSource } from '../../src/kube/source.ts';
import type { BoundPod } from '../../src/ports.ts';
import { aProcess, clock, enter, machine, until } from '../host/test-cgroup.ts';
import { someFindings } from '../observe/a-bound-pod.ts';
import { aKubeSource, aTurnedClock } from './a-kube-source.ts';
import { aKubeletTree, anId, aUid } from './a-kubelet-tree.ts';
import { aContainer, anApiPod, aSandbox } from './an-api-pod.ts';

const WEB = aUid('1');
const OTHER = aUid('2');
const STATIC = '3'.repeat(32);
const [APP, SANDBOX] = [anId('a'), anId('f')];
const notListed = unknown('absent', 'pods', 'the API server has not answered yet');
const away: Reading<RuntimeFacts> = unknown('absent', 'CRI', 'the runtime has not answered yet');

describe.skipIf(machine === null)('the pods of a node with a kubelet [needs root and cgroups]', () => {
  const mounts = machine as NonNullable<typeof machine>;
  let tree: ReturnType<typeof aKubeletTree>;
  let listed: Map<string, ApiPod>;
  let api: Reading<ReadonlyMap<string, ApiPod>>;
  let runtime: Reading<RuntimeFacts>;
  let saidDriver: Reading<CgroupDriver>;
  let isKubeletEvicting: boolean;
  let guarded: readonly string[];
  let asked: number;
  let wakes: number;
  let lookedUp: string[];
  let time: ReturnType<typeof aTurnedClock>;
  let findings: ReturnType<typeof someFindings>;
  beforeEach(() => {
    tree = aKubeletTree(mounts, 'cgroupfs');
    listed = new Map();
    api = known(listed);
    runtime = away;
    saidDriver = away;
    isKubeletEvicting = false;
    guarded = [];
    asked = 0;
    wakes = 0;
    lookedUp = [];
    time = aTurnedClock();
    findings = someFindings();
  });
  const open = (more: Partial<Parameters<typeof aKubeSource>[0]> = {}): KubeSource => {
    const { cgroupRoot } = tree;
    return aKubeSource({
      ...{ clock: time.clock, mounts, findings, cgroupRoot },
      apiPods: () => api,
      runtime: {
        facts: () => runtime,
        cgroupDriver: () => saidDriver,
        refresh: async () => {
          asked += 1;
          return runtime;
        },
      },
      ownLimitOf: (uid) => (guarded.includes(uid) ? 'restart-guard' : null),
      isKubeletEvicting: () => isKubeletEvicting,
      lookUp: ({ name }) => {
        lookedUp.push(name);
        return false;
      },
      wake: () => {
        wakes += 1;
      },
      ...more,
    });
  };
  const declare = (pod: ApiPod): void => void listed.set(pod.declared.uid, pod);
  const podsOf = async (source: KubeSource): Promise<readonly BoundPod[]> => {
    await Promise.resolve();
    const pods = source.pods();
    if (!pods.known) throw new Error(pods.detail);
    return pods.value;
  };
  const podOf = async (source: KubeSource, uid = WEB) =>
    (await podsOf(source)).find(({ declared }) => declared.uid === uid);
  const limitOf = async (source: KubeSource, uid = WEB) => (await podOf(source, uid))?.declared.limitedBy;
  const textOf = (id: string): string | undefined => findings.all().find((finding) => finding.id === id)?.text;
  /** web, with one container and a sandbox. */
  const aWeb = (more: Parameters<typeof anApiPod>[0] = {}): void => {
    tree.addPod('Burstable', WEB, APP, SANDBOX);
    const { api: ofApi, ...declared } = more;
    declare(
      anApiPod({ name: 'web', uid: WEB, ...declared, api: { containers: [{ name: 'app', id: APP }], ...ofApi } }),
    );
  };
  const tellRuntime = (more: Partial<RuntimeFacts> = {}): void => {
    runtime = known({
      containers: [aContainer({ id: APP, name: 'app', podUid: WEB })],
      sandboxes: [aSandbox({ id: SANDBOX, podUid: WEB, name: 'web' })],
      atMs: 0,
      ...more,
    });
  };

  it('are bound to their own cgroups and to those of their containers, without the sandbox', async () => {
    aWeb({ priority: 7 });
    tellRuntime();
    const source = open();
    const web = await podOf(source);
    expect(web).toMatchObject({
      declared: { name: 'web', priority: 7, limitedBy: null, isTerminating: false },
      cgroup: { known: true, value: { path: `${tree.kubepods}/burstable/pod${WEB}` } },
      containers: [{ name: 'app', cgroup: { known: true } }],
      stops: 0,
    });
    expect(web).not.toHaveProperty('directories');
    expect(source.find(WEB)).toMatchObject({ containers: [{ id: APP, name: 'app' }], sandboxes: [{}] });
    expect(source.kubepods()).toEqual(known(tree.kubepods));
  });

  it('count a cgroup that nobody can name as a container, which is a finding if it lasts', async () => {
    aWeb();
    const source = open();
    expect((await podOf(source))?.containers.map(({ name }) => name).sort()).toEqual(['app', 'f'.repeat(12)]);
    expect(source.find(WEB)?.sandboxes).toEqual([]);
    expect(asked).toBe(1);
    expect(textOf('kube-containers-unnamed')).toBeUndefined();
    await time.pass(10_000);
    expect(textOf('kube-containers-unnamed')).toContain('default/web');
    tellRuntime();
    await time.pass(2_000);
    expect(textOf('kube-containers-unnamed')).toBeUndefined();
    expect((await podOf(source))?.containers).toHaveLength(1);
  });

  it('are up to date: one that has just started is there before it is declared, and is not chosen', async () => {
    const source = open();
    expect(await podsOf(source)).toEqual([]);
    tree.addPod('Guaranteed', WEB, APP);
    expect(await podOf(source)).toMatchObject({
      declared: { name: WEB, namespace: '?', qos: 'Guaranteed', limitedBy: 'unnamed' },
      cgroup: { known: true },
    });
    expect(asked).toBe(1);
    tellRuntime();
    expect((await podOf(source))?.declared).toMatchObject({ name: 'web', namespace: 'default' });
    await time.pass(2_000);
    await time.pass(10_000);
    expect(textOf('kube-pods-undeclared')).toContain('default/web');
    declare(anApiPod({ name: 'web', uid: WEB, qos: 'Guaranteed', api: { containers: [{ name: 'app', id: APP }] } }));
    expect(await limitOf(source)).toBeNull();
    await time.pass(2_000);
    expect(findings.all()).toEqual([]);
  });

  it('are candidates before they are declared if the runtime says that the API created them, and are looked up', async () => {
    tree.addPod('BestEffort', WEB, APP);
    const source = open();
    expect(await limitOf(source)).toBe('unnamed');
    expect(lookedUp).toEqual([]);
    tellRuntime({ sandboxes: [aSandbox({ id: SANDBOX, podUid: WEB, name: 'web', source: 'api' })] });
    expect((await podOf(source))?.declared).toMatchObject({
      limitedBy: null,
      unsaid: { why: 'undeclared', priority: true, requests: false },
      requests: { memoryBytes: 0 },
    });
    expect(lookedUp).toContain('web');
    expect(source.find(WEB)?.object).toEqual({
      object: { namespace: 'default', name: 'web', uid: WEB },
      isMirror: false,
    });
    tree.addPod('Burstable', OTHER, anId('c'));
    tellRuntime({ sandboxes: [aSandbox({ id: SANDBOX, podUid: OTHER, source: 'api' })] });
    expect((await podOf(source, OTHER))?.declared.unsaid).toMatchObject({ requests: true });
  });

  it('are not deleted if the API has them on another node, and are candidates by what the runtime says', async () => {
    aWeb();
    tellRuntime({ sandboxes: [aSandbox({ id: SANDBOX, podUid: WEB, name: 'web', source: 'api' })] });
    const source = open();
    expect(await limitOf(source)).toBeNull();
    aWeb({ api: { isElsewhere: true } });
    await Promise.resolve();
    expect(source.find(WEB)).toMatchObject({ pod: null, object: null, declared: { limitedBy: null } });
    expect(lookedUp).toEqual([]);
  });

  it('are at the path of their QoS class if an old cgroup is left elsewhere, else wherever they are', async () => {
    const [burstable, bestEffort] = [tree.addPod('Burstable', WEB), tree.addPod('BestEffort', WEB)];
    const source = open();
    const pathOf = async () => {
      const cgroup = (await podOf(source))?.cgroup;
      return cgroup?.known ? cgroup.value.path : null;
    };
    for (const [qos, path] of [
      ['Burstable', burstable],
      ['BestEffort', bestEffort],
      ['Guaranteed', burstable],
    ] as const) {
      declare(anApiPod({ name: 'web', uid: WEB, qos }));
      expect(await pathOf()).toBe(path);
    }
  });

  it('have their current containers when they are stopped, even if one has just replaced another', async () => {
    aWeb();
    tellRuntime();
    const source = open();
    await podsOf(source);
    tree.remove(`${tree.kubepods}/burstable/pod${WEB}/${APP}`);
    tree.make(`${tree.kubepods}/burstable/pod${WEB}/${anId('b')}`);
    expect(source.find(WEB)?.containers).toMatchObject([{ id: anId('b'), name: null }]);
    expect(source.find(OTHER)).toBeNull();
  });

  it('are never chosen if static, mirrored, critical or without a container', async () => {
    aWeb({ priority: 2_000_000_000 });
    tree.addPod('Burstable', OTHER, SANDBOX);
    declare(anApiPod({ name: 'crashing', uid: OTHER }));
    tree.addPod('BestEffort', STATIC, anId('b'));
    declare(anApiPod({ name: 'etcd', uid: STATIC, api: { isMirror: true } }));
    tree.addPod('BestEffort', aUid('4'), anId('c'));
    tellRuntime({
      sandboxes: [
        aSandbox({ id: SANDBOX, podUid: OTHER }),
        aSandbox({ id: anId('e'), podUid: aUid('4'), name: 'unlisted', source: 'file' }),
      ],
    });
    const source = open();
    for (const uid of [WEB, OTHER, STATIC, aUid('4')]) expect(await limitOf(source, uid)).toBe('not-stoppable');
    expect((await podOf(source, aUid('4')))?.declared).toMatchObject({ name: 'unlisted', isStaticCritical: true });
  });

  it('are not chosen while their containers are dead, unless the live sandbox itself holds the memory', async () => {
    const pod = `${mounts.memory}${tree.kubepods}/burstable/pod${WEB}`;
    aWeb();
    tellRuntime({ sandboxes: [aSandbox({ id: SANDBOX, podUid: WEB, name: 'web', source: 'api' })] });
    const source = open();
    const pause = spawn('/bin/sleep', ['1000']);
    onTestFinished(() => void pause.kill('SIGKILL'));
    enter(`${pod}/${SANDBOX}`, pause.pid ?? 0);
    expect(await limitOf(source)).toBe('not-stoppable');
    listed.clear();
    expect(await limitOf(open())).toBe('not-stoppable');
    enter(`${pod}/${APP}`, pause.pid ?? 0);
    expect(await limitOf(source)).toBeNull();
    await aProcess('', `${pod}/${SANDBOX}`);
    enter(`${pod}/${SANDBOX}`, pause.pid ?? 0);
    expect(await limitOf(source)).toBeNull();
  });

  it('are not chosen while the restart guard holds, or for up to 10 s while the kubelet itself evicts', async () => {
    aWeb();
    tellRuntime();
    const source = open();
    isKubeletEvicting = true;
    expect(await limitOf(source)).toBe('kubelet-evicting');
    guarded = [WEB];
    expect(await limitOf(source)).toBe('restart-guard');
    guarded = [];
    time.ahead(9_000);
    expect(await limitOf(source)).toBe('kubelet-evicting');
    time.ahead(1_000);
    expect(await limitOf(source)).toBeNull();
    isKubeletEvicting = false;
    expect(await limitOf(source)).toBeNull();
    isKubeletEvicting = true;
    expect(await limitOf(source)).toBe('kubelet-evicting');
  });

  it('may have annotations that bind to something else: these have no effect, and are a finding', async () => {
    aWeb({ api: { bindings: ['nodewarden.dev/cgroup'] } });
    const source = open();
    expect((await podOf(source))?.cgroup).toMatchObject({ value: { path: `${tree.kubepods}/burstable/pod${WEB}` } });
    expect(textOf('kube-bindings-ignored')).toContain('default/web');
  });

  it('stay, as terminating, while they have a cgroup: deleted ones, finished ones, and ones gone from the API', async () => {
    aWeb({ isTerminating: true });
    const source = open();
    const isTerminating = async () => (await podOf(source))?.declared.isTerminating;
    expect(await isTerminating()).toBe(true);
    aWeb({ api: { phase: 'Failed' } });
    expect(await isTerminating()).toBe(true);
    aWeb();
    expect(await isTerminating()).toBe(false);
    listed.clear();
    expect((await podOf(source))?.declared).toMatchObject({ name: 'web', isTerminating: true });
    for (const id of [APP, SANDBOX]) tree.remove(`${tree.kubepods}/burstable/pod${WEB}/${id}`);
    tree.remove(`${tree.kubepods}/burstable/pod${WEB}`);
    expect(await podsOf(source)).toEqual([]);
  });

  it('are ranked with the rest of their grace period if others have deleted them and they still run', async () => {
    const inSeconds = (seconds: number) => ({ deletionWallMs: clock.wallMs() + seconds * 1_000 });
    aWeb({ isTerminating: true, api: inSeconds(20) });
    const source = open();
    const seen = async () => {
      const declared = (await podOf(source))?.declared;
      return [declared?.isTerminating, declared?.isDeletedByOthers, declared?.terminationGraceSeconds];
    };
    expect(await seen()).toEqual([true, undefined, 20]);
    await aProcess('', `${mounts.memory}${tree.kubepods}/burstable/pod${WEB}/${APP}`);
    expect(await seen()).toEqual([true, true, 20]);
    aWeb({ isTerminating: true, api: inSeconds(1e9) });
    expect(await seen()).toEqual([true, true, 30]);
    aWeb({ isTerminating: true, api: inSeconds(-9) });
    expect(await seen()).toEqual([true, true, 1]);
    listed.clear();
    expect(await seen()).toEqual([true, true, 1]);
    source.stopBegan(WEB);
    expect(await seen()).toEqual([true, undefined, 1]);
  });

  it('are left out if rejected or finished, and have no cgroup if not started', async () => {
    declare(anApiPod({ name: 'rejected', uid: WEB, api: { phase: 'Failed' } }));
    declare(anApiPod({ name: 'pending', uid: OTHER, api: { phase: 'Pending' } }));
    const pods = await podsOf(open());
    expect(pods.map(({ declared, cgroup }) => [declared.name, cgroup.known])).toEqual([['pending', false]]);
  });

  it('are terminating while we stop them, and one that survived until it has another cgroup', async () => {
    aWeb();
    tellRuntime();
    const source = open();
    const seen = async () => {
      const web = await podOf(source);
      return [web?.declared.isTerminating, web?.stops];
    };
    const isTerminating = (): readonly boolean[] => {
      const pods = source.pods();
      return pods.known ? pods.value.map(({ declared }) => declared.isTerminating) : [];
    };
    expect(isTerminating()).toEqual([false]);
    source.stopBegan(WEB);
    // Within the look that began it, too.
    expect(isTerminating()).toEqual([true]);
    expect(await seen()).toEqual([true, 0]);
    source.stopEnded(WEB, 'ended');
    expect(await seen()).toEqual([false, 1]);
    source.stopBegan(WEB);
    source.stopEnded(WEB, 'survived');
    expect(await seen()).toEqual([true, 2]);
    const path = `${tree.kubepods}/burstable/pod${WEB}`;
    for (const id of [APP, SANDBOX]) tree.remove(`${path}/${id}`);
    tree.remove(path);
    tree.addPod('Burstable', WEB, APP, SANDBOX);
    await podsOf(source);
    expect(await seen()).toEqual([false, 2]);
  });

  it('are not chosen before the first list, for at most 2 s, or 500 ms for a shutdown', async () => {
    tree.addPod('Burstable', WEB, APP);
    api = notListed;
    const source = open();
    const unsettled = (forWhat: 'memory.available' | 'all') => source.unsettled?.(forWhat) ?? null;
    expect(unsettled('memory.available')).toMatchObject({ known: false, detail: notListed.detail });
    expect(source.isSettled()).toBe(false);
    time.ahead(600);
    expect(unsettled('all')).toBeNull();
    expect(unsettled('memory.available')).not.toBeNull();
    time.ahead(1_500);
    expect(unsettled('memory.available')).toBeNull();
    expect(await limitOf(source)).toBe('unnamed');
    api = known(listed);
    await podsOf(source);
    expect(source.isSettled()).toBe(true);
  });

  it('cause a look when one comes or goes, and only then', async () => {
    open();
    const before = wakes;
    await time.pass(2_000);
    expect(wakes).toBe(before);
    aWeb();
    await time.pass(2_000);
    expect(wakes).toBe(before + 1);
    await time.pass(2_000);
    expect(wakes).toBe(before + 1);
  });

  it('are running if they have a process', async () => {
    aWeb();
    const source = open();
    expect(source.running()).toEqual([]);
    const path = tree.containerIn(`${tree.kubepods}/burstable/pod${WEB}`, APP);
    const running = (): readonly string[] => source.running().map(({ name }) => name);
    const first = await aProcess('', mounts.memory + path);
    expect(running()).toEqual(['web']);
    const second = await aProcess('', mounts.memory + path);
    first.kill('SIGKILL');
    await until(() => !existsSync(`/proc/${first.pid}`));
    expect(running()).toEqual(['web']);
    second.kill('SIGKILL');
    await until(() => !existsSync(`/proc/${second.pid}`));
    expect(running()).toEqual([]);
  });

  it('are queried less and less often if the runtime does not list them, and soon again when others come', async () => {
    aWeb();
    const source = open();
    const askedIn = async (seconds: number): Promise<number> => {
      const before = asked;
      for (let second = 0; second < seconds; second++) {
        time.ahead(1_000);
        await podsOf(source);
      }
      return asked - before;
    };
    expect(await askedIn(8)).toBeGreaterThanOrEqual(2);
    await askedIn(120);
    expect(await askedIn(120)).toBeLessThanOrEqual(3);
    tree.addPod('BestEffort', OTHER, anId('b'));
    declare(anApiPod({ name: 'other', uid: OTHER, qos: 'BestEffort' }));
    expect(await askedIn(2)).toBeGreaterThanOrEqual(1);
  });

  it('never include the one that the agent itself runs in as a candidate', async () => {
    aWeb();
    tellRuntime();
    const path = tree.containerIn(`${tree.kubepods}/burstable/pod${WEB}`, APP);
    const before = cgroupPathOf(mounts, process.pid);
    if (!before.known) throw new Error(before.detail);
    enter(mounts.memory + path, process.pid);
    try {
      expect(await limitOf(open())).toBe('not-stoppable');
    } finally {
      enter(directoryOf(mounts, before.value), process.pid);
    }
  });

  it('are a finding if the runtime says that they run but their containers are in no cgroup, and that lasts', async () => {
    declare(anApiPod({ name: 'web', uid: WEB }));
    const listNow = (): void => tellRuntime({ atMs: time.clock.monoMs() });
    listNow();
    open();
    listNow();
    await time.pass(10_000);
    expect(textOf('kube-containers-missing')).toContain('default/web');
    tree.addPod('Burstable', WEB, APP);
    await time.pass(2_000);
    expect(textOf('kube-containers-missing')).toBeUndefined();
  });

  it('do not lack a container while they wait for a restart, although the runtime had listed it as running', async () => {
    aWeb();
    tellRuntime({ atMs: time.clock.monoMs() });
    open();
    tree.remove(tree.containerIn(tree.addPod('Burstable', WEB), APP));
    for (let times = 0; times < 4; times++) await time.pass(10_000);
    expect(textOf('kube-containers-missing')).toBeUndefined();
    expect(asked).toBeGreaterThan(0);
  });

  it("are found by the driver on disk if another is stated, and the runtime's statement outranks the configuration", async () => {
    aWeb();
    saidDriver = known('systemd');
    open({ configuredDriver: 'cgroupfs' });
    expect(textOf('kube-cgroup-driver')).toContain(`be systemd, but the pods are in ${tree.kubepods}`);
    saidDriver = away;
    await time.pass(2_000);
    expect(textOf('kube-cgroup-driver')).toBeUndefined();
  });

  it('are nowhere without a kubelet, which is a finding if it lasts, until the kubelet comes', async () => {
    open();
    await time.pass(10_000);
    expect(textOf('kube-no-pods-cgroup')).toContain(`${tree.cgroupRoot}/kubepods`);
    tree.make(tree.kubepods);
    await time.pass(2_000);
    expect(textOf('kube-no-pods-cgroup')).toBeUndefined();
  });
});
