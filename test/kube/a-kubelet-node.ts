import { beforeEach } from 'vitest';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import type { CgroupDriver } from '../../src/host/cgroup/kubepods.ts';
import type { ApiPod } from '../../src/kube/api/api-pod.ts';
import type { RuntimeFacts } from '../../src/kube/cri/runtime.ts';
import type { KubeSource } from '../../src/kube/pods/source.ts';
import type { BoundPod } from '../../src/ports.ts';
import { machine } from '../host/test-cgroup.ts';
import { someFindings } from '../observe/a-bound-pod.ts';
import { aKubeSource, aTurnedClock } from './a-kube-source.ts';
import { aKubeletTree, anId, aUid } from './a-kubelet-tree.ts';
import { aContainer, anApiPod, aSandbox } from './an-api-pod.ts';

export const mounts = machine as NonNullable<typeof machine>;
export const WEB = aUid('1');
export const OTHER = aUid('2');
export const [APP, SANDBOX] = [anId('a'), anId('f')];
export const away = unknown('absent', 'CRI', 'the runtime has not answered yet');

function aNode() {
  const listed = new Map<string, ApiPod>();
  return {
    tree: aKubeletTree(mounts, 'cgroupfs'),
    time: aTurnedClock(),
    findings: someFindings(),
    /** The pods of the API, as long as `api` is not something else. */
    listed,
    api: known(listed) as Reading<ReadonlyMap<string, ApiPod>>,
    runtime: away as Reading<RuntimeFacts>,
    saidDriver: away as Reading<CgroupDriver>,
    isKubeletEvicting: false,
    guarded: [] as readonly string[],
    asked: 0,
    wakes: 0,
    lookedUp: [] as string[],
  };
}
/** Of the test that runs: made before it, for whoever imports this file. */
export let node: ReturnType<typeof aNode>;
beforeEach(() => {
  node = aNode();
});

export const open = (more: Partial<Parameters<typeof aKubeSource>[0]> = {}): KubeSource =>
  aKubeSource({
    ...{ clock: node.time.clock, mounts, findings: node.findings, cgroupRoot: node.tree.cgroupRoot },
    apiPods: () => node.api,
    runtime: {
      facts: () => node.runtime,
      cgroupDriver: () => node.saidDriver,
      refresh: async () => {
        node.asked += 1;
        return node.runtime;
      },
    },
    ownLimitOf: (uid) => (node.guarded.includes(uid) ? 'restart-guard' : null),
    isKubeletEvicting: () => node.isKubeletEvicting,
    lookUp: ({ name }) => {
      node.lookedUp.push(name);
      return false;
    },
    wake: () => {
      node.wakes += 1;
    },
    ...more,
  });
export const declare = (pod: ApiPod): void => void node.listed.set(pod.declared.uid, pod);
export const podsOf = async (source: KubeSource): Promise<readonly BoundPod[]> => {
  await Promise.resolve();
  const pods = source.pods();
  if (!pods.known) throw new Error(pods.detail);
  return pods.value;
};
export const podOf = async (source: KubeSource, uid = WEB) =>
  (await podsOf(source)).find(({ declared }) => declared.uid === uid);
export const limitOf = async (source: KubeSource, uid = WEB) => (await podOf(source, uid))?.declared.limitedBy;
export const textOf = (id: string): string | undefined =>
  node.findings.all().find((finding) => finding.id === id)?.text;
/** web, with one container and a sandbox. */
export const aWeb = (more: Parameters<typeof anApiPod>[0] = {}): void => {
  node.tree.addPod('Burstable', WEB, APP, SANDBOX);
  const { api: ofApi, ...declared } = more;
  const none = { memory: null, ephemeralStorage: null };
  const containers = [{ name: 'app', kind: 'app', requests: none, limits: none }] as const;
  const api = { containers: [{ name: 'app', id: APP }], ...ofApi };
  declare(anApiPod({ name: 'web', uid: WEB, containers, ...declared, api }));
};
export const tellRuntime = (more: Partial<RuntimeFacts> = {}): void => {
  node.runtime = known({
    containers: [aContainer({ id: APP, name: 'app', podUid: WEB })],
    sandboxes: [aSandbox({ id: SANDBOX, podUid: WEB, name: 'web' })],
    atMs: 0,
    ...more,
  });
};
