import { describe, expect, it } from 'vitest';
import { known } from '../../src/core/reading.ts';
import type { ApiPod } from '../../src/kube/api/api-pod.ts';
import { machine } from '../host/test-cgroup.ts';
import { aKubeSource, aTurnedClock } from './a-kube-source.ts';
import { aKubeletTree, anId, aUid } from './a-kubelet-tree.ts';
import { anApiPod } from './an-api-pod.ts';

const [WEB, OTHER] = [aUid('1'), aUid('2')];
const [APP, NEW] = [anId('a'), anId('b')];

describe.skipIf(machine === null)('the pods as of the last refresh [needs root and cgroups]', () => {
  const mounts = machine as NonNullable<typeof machine>;
  /** Far from every threshold; its one timer runs by `pass`. */
  const openFar = () => {
    const tree = aKubeletTree(mounts, 'cgroupfs');
    const pod = tree.addPod('Burstable', WEB, APP);
    let declared = new Map<string, ApiPod>();
    const time = aTurnedClock();
    const { cgroupRoot } = tree;
    const source = aKubeSource({ clock: time.clock, mounts, cgroupRoot, apiPods: () => known(declared) });
    source.follow(10_000);
    const pass = (): Promise<void> => time.pass(10_000);
    const lately = () => {
      const pods = source.podsLately?.();
      return pods?.known ? pods.value : [];
    };
    const declare = (...pods: readonly ApiPod[]): void => {
      declared = new Map(pods.map((one) => [one.declared.uid, one]));
    };
    return { source, tree, pod, pass, lately, declare };
  };

  it('include a new pod after 10 s', async () => {
    const { tree, pass, lately } = openFar();
    await pass();
    tree.addPod('BestEffort', OTHER, NEW);
    expect(lately().map(({ declared }) => declared.uid)).toEqual([WEB]);
    await pass();
    expect(lately().map(({ declared }) => declared.uid)).toEqual([WEB, OTHER]);
  });

  it('include a container that replaced another one after a minute', async () => {
    const { tree, pod, pass, lately } = openFar();
    await pass();
    tree.remove(tree.containerIn(pod, APP));
    tree.make(tree.containerIn(pod, NEW));
    for (let i = 0; i < 6; i++) await pass();
    expect(lately().flatMap(({ containers }) => containers.map(({ cgroup }) => cgroup))).toMatchObject([
      { known: true, value: { path: tree.containerIn(pod, NEW) } },
    ]);
  });

  it('include what the API says about a pod after 10 s, and omit it 10 s after both forgot it', async () => {
    const { tree, pod, pass, lately, declare } = openFar();
    declare(anApiPod({ uid: WEB, name: 'web', api: { containers: [{ name: 'app', id: APP }] } }));
    for (let i = 0; i < 2; i++) await pass();
    expect(lately().map(({ declared }) => declared.name)).toEqual(['web']);
    declare(anApiPod({ uid: WEB, name: 'web', priority: 7, api: { containers: [{ name: 'app', id: APP }] } }));
    await pass();
    expect(lately().map(({ declared }) => declared.priority)).toEqual([7]);
    declare();
    tree.remove(tree.containerIn(pod, APP));
    tree.remove(pod);
    await pass();
    expect(lately()).toEqual([]);
  });

  it('show that a pod is being stopped', async () => {
    const { source, pass, lately, declare } = openFar();
    declare(anApiPod({ uid: WEB, name: 'web', api: { containers: [{ name: 'app', id: APP }] } }));
    for (let i = 0; i < 2; i++) await pass();
    source.stopBegan(WEB);
    await pass();
    expect(lately().map(({ declared }) => declared.isTerminating)).toEqual([true]);
  });
});
