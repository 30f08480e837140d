import { spawn } from 'node:child_process';
import { describe, expect, it, onTestFinished } from 'vitest';
import { known, unknown } from '../../src/core/reading.ts';
import { cgroupPathOf } from '../../src/host/cgroup/cgroup-members.ts';
import { directoryOf } from '../../src/host/cgroup/cgroup-walk.ts';
import { liveNow } from '../../src/kube/stop/ladder.ts';
import { aProcess, enter, machine } from '../host/test-cgroup.ts';
import {
  APP,
  aWeb,
  declare,
  limitOf,
  mounts,
  node,
  OTHER,
  open,
  podOf,
  podsOf,
  SANDBOX,
  tellRuntime,
  WEB,
} from './a-kubelet-node.ts';
import { anId, aUid } from './a-kubelet-tree.ts';
import { anApiPod, aSandbox } from './an-api-pod.ts';

const STATIC = '3'.repeat(32);
const notListed = unknown('absent', 'pods', 'the API server has not answered yet');

describe.skipIf(machine === null)('the pods of a node with a kubelet, as candidates [needs root and cgroups]', () => {
  it('are candidates before they are declared if the runtime says that the API created them, and are looked up', async () => {
    node.tree.addPod('BestEffort', WEB, APP);
    const source = open();
    expect(await limitOf(source)).toBe('unnamed');
    expect(node.lookedUp).toEqual([]);
    tellRuntime({ sandboxes: [aSandbox({ id: SANDBOX, podUid: WEB, name: 'web', source: 'api' })] });
    expect((await podOf(source))?.declared).toMatchObject({
      limitedBy: null,
      unsaid: { why: 'undeclared', priority: true, requests: false },
      requests: { memoryBytes: 0 },
    });
    expect(node.lookedUp).toContain('web');
    expect(liveNow({ source }, WEB)?.object).toEqual({
      object: { namespace: 'default', name: 'web', uid: WEB },
      isMirror: false,
      isUnplaced: true,
    });
    node.tree.addPod('Burstable', OTHER, anId('c'));
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
    expect(liveNow({ source }, WEB)).toMatchObject({ pod: null, object: null, declared: { limitedBy: null } });
    expect(node.lookedUp).toEqual([]);
  });

  it('are not deleted either if only the answer about the pod says that it belongs to another node', async () => {
    node.tree.addPod('Burstable', WEB, anId('a'));
    tellRuntime({ sandboxes: [aSandbox({ id: SANDBOX, podUid: WEB, name: 'web', source: 'api' })] });
    const source = open({ isElsewhere: (uid) => uid === WEB });
    expect(await limitOf(source)).toBeNull();
    expect(liveNow({ source }, WEB)).toMatchObject({ pod: null, object: null, isElsewhere: true });
    expect(node.lookedUp).toEqual([]);
  });

  it('are never chosen if static, mirrored, critical or without a container', async () => {
    aWeb({ priority: 2_000_000_000 });
    node.tree.addPod('Burstable', OTHER, SANDBOX);
    declare(anApiPod({ name: 'crashing', uid: OTHER }));
    node.tree.addPod('BestEffort', STATIC, anId('b'));
    declare(anApiPod({ name: 'etcd', uid: STATIC, api: { isMirror: true } }));
    node.tree.addPod('BestEffort', aUid('4'), anId('c'));
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
    const pod = `${mounts.memory}${node.tree.kubepods}/burstable/pod${WEB}`;
    aWeb();
    tellRuntime({ sandboxes: [aSandbox({ id: SANDBOX, podUid: WEB, name: 'web', source: 'api' })] });
    const source = open();
    const pause = spawn('/bin/sleep', ['1000']);
    onTestFinished(() => void pause.kill('SIGKILL'));
    enter(`${pod}/${SANDBOX}`, pause.pid ?? 0);
    expect(await limitOf(source)).toBe('not-stoppable');
    node.guarded = [WEB];
    expect(await limitOf(source)).toBe('not-stoppable');
    node.guarded = [];
    node.listed.clear();
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
    node.isKubeletEvicting = true;
    expect(await limitOf(source)).toBe('kubelet-evicting');
    node.guarded = [WEB];
    expect(await limitOf(source)).toBe('restart-guard');
    node.guarded = [];
    node.time.ahead(9_000);
    expect(await limitOf(source)).toBe('kubelet-evicting');
    node.time.ahead(1_000);
    expect(await limitOf(source)).toBeNull();
    node.isKubeletEvicting = false;
    expect(await limitOf(source)).toBeNull();
    node.isKubeletEvicting = true;
    expect(await limitOf(source)).toBe('kubelet-evicting');
  });

  it('are not chosen before the first list, for at most 2 s, or 500 ms for a shutdown', async () => {
    node.tree.addPod('Burstable', WEB, APP);
    node.api = notListed;
    const source = open();
    const unsettled = (forWhat: 'memory.available' | 'all') => source.unsettled?.(forWhat) ?? null;
    expect(unsettled('memory.available')).toMatchObject({ known: false, detail: notListed.detail });
    expect(source.isSettled()).toBe(false);
    node.time.ahead(600);
    expect(unsettled('all')).toBeNull();
    expect(unsettled('memory.available')).not.toBeNull();
    node.time.ahead(1_500);
    expect(unsettled('memory.available')).toBeNull();
    expect(await limitOf(source)).toBe('unnamed');
    node.api = known(node.listed);
    await podsOf(source);
    expect(source.isSettled()).toBe(true);
  });

  it('never include the one that the agent itself runs in as a candidate', async () => {
    aWeb();
    tellRuntime();
    const path = node.tree.containerIn(`${node.tree.kubepods}/burstable/pod${WEB}`, APP);
    const before = cgroupPathOf(mounts, process.pid);
    if (!before.known) throw new Error(before.detail);
    enter(mounts.memory + path, process.pid);
    try {
      expect(await limitOf(open())).toBe('not-stoppable');
    } finally {
      enter(directoryOf(mounts, before.value), process.pid);
    }
  });
});
