import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { basisOf } from '../../src/core/pod/basis.ts';
import { known } from '../../src/core/reading.ts';
import { liveNow } from '../../src/kube/stop/ladder.ts';
import { aConfig } from '../a.ts';
import { aProcess, clock, machine, until } from '../host/test-cgroup.ts';
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
  textOf,
  WEB,
} from './a-kubelet-node.ts';
import { anId } from './a-kubelet-tree.ts';
import { anApiPod } from './an-api-pod.ts';

describe.skipIf(machine === null)('the pods of a node with a kubelet [needs root and cgroups]', () => {
  it('are bound to their own cgroups and to those of their containers, without the sandbox', async () => {
    aWeb({ priority: 7 });
    tellRuntime();
    const source = open();
    const web = await podOf(source);
    expect(web).toMatchObject({
      declared: { name: 'web', priority: 7, limitedBy: null, isTerminating: false },
      cgroup: { known: true, value: { path: `${node.tree.kubepods}/burstable/pod${WEB}` } },
      containers: [{ name: 'app', cgroup: { known: true } }],
      stops: 0,
    });
    expect(web).not.toHaveProperty('directories');
    expect(liveNow({ source }, WEB)).toMatchObject({ containers: [{ id: APP, name: 'app' }], sandboxes: [{}] });
    expect(source.kubepods()).toEqual(known(node.tree.kubepods));
  });

  it('are up to date: one that has just started is there before it is declared, and is not chosen', async () => {
    const source = open();
    expect(await podsOf(source)).toEqual([]);
    node.tree.addPod('Guaranteed', WEB, APP);
    expect(await podOf(source)).toMatchObject({
      declared: { name: WEB, namespace: '?', qos: 'Guaranteed', limitedBy: 'unnamed' },
      cgroup: { known: true },
    });
    expect(node.asked).toBe(1);
    tellRuntime();
    expect((await podOf(source))?.declared).toMatchObject({ name: 'web', namespace: 'default' });
    await node.time.pass(2_000);
    await node.time.pass(10_000);
    expect(textOf('kube-pods-undeclared')).toContain('default/web');
    declare(anApiPod({ name: 'web', uid: WEB, qos: 'Guaranteed', api: { containers: [{ name: 'app', id: APP }] } }));
    expect(await limitOf(source)).toBeNull();
    await node.time.pass(2_000);
    expect(node.findings.all()).toEqual([]);
  });

  it('are at the path of their QoS class if an old cgroup is left elsewhere, else wherever they are', async () => {
    const [burstable, bestEffort] = [node.tree.addPod('Burstable', WEB), node.tree.addPod('BestEffort', WEB)];
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
    node.tree.remove(`${node.tree.kubepods}/burstable/pod${WEB}/${APP}`);
    node.tree.make(`${node.tree.kubepods}/burstable/pod${WEB}/${anId('b')}`);
    expect(liveNow({ source }, WEB)?.containers).toMatchObject([{ id: anId('b'), name: null }]);
    expect(source.find(OTHER)).toEqual(known(null));
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
    node.listed.clear();
    expect((await podOf(source))?.declared).toMatchObject({ name: 'web', isTerminating: true });
    for (const id of [APP, SANDBOX]) node.tree.remove(`${node.tree.kubepods}/burstable/pod${WEB}/${id}`);
    node.tree.remove(`${node.tree.kubepods}/burstable/pod${WEB}`);
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
    await aProcess('', `${mounts.memory}${node.tree.kubepods}/burstable/pod${WEB}/${APP}`);
    expect(await seen()).toEqual([true, true, 20]);
    aWeb({ isTerminating: true, api: inSeconds(1e9) });
    expect(await seen()).toEqual([true, true, 30]);
    aWeb({ isTerminating: true, api: inSeconds(-9) });
    expect(await seen()).toEqual([true, true, 1]);
    node.listed.clear();
    expect(await seen()).toEqual([true, true, 1]);
    source.stopBegan(WEB);
    expect(await seen()).toEqual([true, undefined, 1]);
  });

  it('are declared as before while the rest of that grace period passes', async () => {
    let aheadMs = 0;
    const source = open({ clock: { ...node.time.clock, wallMs: () => clock.wallMs() + aheadMs } });
    aWeb({ isTerminating: true, api: { deletionWallMs: clock.wallMs() + 20_000 } });
    await aProcess('', `${mounts.memory}${node.tree.kubepods}/burstable/pod${WEB}/${APP}`);
    const seen = async () => {
      await podsOf(source);
      const rest = (await podOf(source))?.declared.terminationGraceSeconds;
      return { rest, basis: basisOf(aConfig([]), source.pods(), WEB) };
    };
    const chosen = await seen();
    aheadMs = 15_000;
    const later = await seen();
    expect(later.rest).toBeLessThan(chosen.rest ?? 0);
    expect(later.basis).toBe(chosen.basis);
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
    const path = `${node.tree.kubepods}/burstable/pod${WEB}`;
    for (const id of [APP, SANDBOX]) node.tree.remove(`${path}/${id}`);
    node.tree.remove(path);
    node.tree.addPod('Burstable', WEB, APP, SANDBOX);
    await podsOf(source);
    expect(await seen()).toEqual([false, 2]);
  });

  it('cause a look when one comes or goes, and only then', async () => {
    open();
    const before = node.wakes;
    await node.time.pass(2_000);
    expect(node.wakes).toBe(before);
    aWeb();
    await node.time.pass(2_000);
    expect(node.wakes).toBe(before + 1);
    await node.time.pass(2_000);
    expect(node.wakes).toBe(before + 1);
  });

  it('are running if they have a process', async () => {
    aWeb();
    const source = open();
    expect(source.running()).toEqual([]);
    const path = node.tree.containerIn(`${node.tree.kubepods}/burstable/pod${WEB}`, APP);
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
      const before = node.asked;
      for (let second = 0; second < seconds; second++) {
        node.time.ahead(1_000);
        await podsOf(source);
      }
      return node.asked - before;
    };
    expect(await askedIn(8)).toBeGreaterThanOrEqual(2);
    await askedIn(120);
    expect(await askedIn(120)).toBeLessThanOrEqual(3);
    node.tree.addPod('BestEffort', OTHER, anId('b'));
    declare(anApiPod({ name: 'other', uid: OTHER, qos: 'BestEffort' }));
    expect(await askedIn(2)).toBeGreaterThanOrEqual(1);
  });
});
