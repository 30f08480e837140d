import { describe, expect, it, onTestFinished } from 'vitest';
import { known, unknown } from '../../src/core/reading.ts';
import type { ApiPod } from '../../src/kube/api-pod.ts';
import { createKubeSource } from '../../src/kube/source.ts';
import { clock, machine } from '../host/test-cgroup.ts';
import { someFindings } from '../observe/a-bound-pod.ts';
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
    const away = unknown('absent', 'CRI', 'the runtime has not answered yet');
    let declared = new Map<string, ApiPod>();
    let aheadMs = 0;
    let due: (() => void) | null = null;
    const source = createKubeSource({
      clock: {
        monoMs: () => clock.monoMs() + aheadMs,
        wallMs: clock.wallMs,
        after: (_, run) => {
          due = run;
          return () => {
            due = null;
          };
        },
      },
      ...{ mounts, findings: someFindings(), cgroupRoot: tree.cgroupRoot, configuredDriver: null },
      apiPods: () => known(declared),
      runtime: { facts: () => away, cgroupDriver: () => away, refresh: async () => away },
      ...{ ownLimitOf: () => null, isKubeletEvicting: () => false, isDrained: () => true },
      ...{ disk: async () => away, lookUp: () => undefined, wake: () => undefined },
    });
    onTestFinished(() => source.close());
    source.follow(10_000);
    const pass = async (): Promise<void> => {
      aheadMs += 10_000;
      due?.();
      await Promise.resolve();
    };
    const lately = () => {
      const pods = source.podsLately?.();
      return pods?.known ? pods.value : [];
    };
    const declare = (...pods: readonly ApiPod[]): void => {
      declared = new Map(pods.map((one) => [one.declared.uid, one]));
    };
    return { source, tree, pod, pass, lately, declare };
  };

  it('have a new pod after 10 s', async () => {
    const { tree, pass, lately } = openFar();
    await pass();
    tree.addPod('BestEffort', OTHER, NEW);
    expect(lately().map(({ declared }) => declared.uid)).toEqual([WEB]);
    await pass();
    expect(lately().map(({ declared }) => declared.uid)).toEqual([WEB, OTHER]);
  });

  it('have a container that took the place of another one after a minute', async () => {
    const { tree, pod, pass, lately } = openFar();
    await pass();
    tree.remove(tree.containerIn(pod, APP));
    tree.make(tree.containerIn(pod, NEW));
    for (let i = 0; i < 6; i++) await pass();
    expect(lately().flatMap(({ containers }) => containers.map(({ cgroup }) => cgroup))).toMatchObject([
      { known: true, value: { path: tree.containerIn(pod, NEW) } },
    ]);
  });

  it('have what the API says of a pod after 10 s, and are without it 10 s after both forgot it', async () => {
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
