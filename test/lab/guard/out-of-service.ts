// What older Kubernetes lacks of what came with the out-of-service taint in 1.24 and is on from 1.26, emulated by its rules:
// - the pod garbage collector (pkg/controller/podgc, gcTerminating, and its quarantine of 20 s): a pod that is terminating on a
//   node that is not Ready and has the taint is deleted without waiting for its kubelet;
// - the attach/detach controller (pkg/controller/volume/attachdetach/reconciler, hasOutOfServiceTaint): it does not wait for
//   the unmount of a volume on such a node. Here, nothing is mounted on it any more.
import { ask, type KubeObject, MERGE, saysReady } from '../kube/api.ts';
import { minorVersion } from '../kube/cluster.ts';
import { clock } from '../scene.ts';
import { OUT_OF_SERVICE } from './fleet.ts';

const GC_MS = 20_000;
const DETACH_MS = 1_000;

export const isEmulated = (): boolean => minorVersion() < 26;
/** The setting of the guard. */
export const outOfService = (): 'assume' | 'detect' => (isEmulated() ? 'assume' : 'detect');

/** The nodes as they are known at that moment. */
export function emulate(nodes: () => readonly KubeObject[]): { readonly close: () => void } {
  const out = (): readonly KubeObject[] => nodes().filter(hasTaint);
  const collect = async (): Promise<void> => {
    const names = new Set(out().flatMap((node) => (saysReady(node) ? [] : [node.metadata.name])));
    if (names.size === 0) return;
    const { items } = await ask('/api/v1/pods');
    for (const { metadata, spec } of items as readonly KubeObject[]) {
      if (metadata.deletionTimestamp === undefined || !names.has(spec.nodeName)) continue;
      const body = { gracePeriodSeconds: 0, preconditions: { uid: metadata.uid } };
      await ask(`/api/v1/namespaces/${metadata.namespace}/pods/${metadata.name}`, { method: 'DELETE', body });
    }
  };
  const unmount = async (): Promise<void> => {
    for (const { metadata, status } of out()) {
      if ((status.volumesInUse ?? []).length === 0) continue;
      const body = { status: { volumesInUse: [] } };
      await ask(`/api/v1/nodes/${metadata.name}/status`, { method: 'PATCH', type: MERGE, body });
    }
  };
  const ends = [every(GC_MS, collect), every(DETACH_MS, unmount)];
  return { close: () => ends.forEach((end) => void end()) };
}

function every(ms: number, act: () => Promise<void>): () => void {
  let isOver = false;
  let cancel = (): void => undefined;
  const plan = (): void => {
    cancel = clock.after(ms, () => {
      // A node that is gone, or an API server that a scene has stopped.
      void Promise.resolve()
        .then(act)
        .catch(() => undefined)
        .then(() => (isOver ? undefined : plan()));
    });
  };
  plan();
  return () => {
    isOver = true;
    cancel();
  };
}

/** By the key alone, as Kubernetes does. */
const hasTaint = (node: KubeObject): boolean =>
  (node['spec'].taints ?? []).some(({ key }: { readonly key: string }) => key === OUT_OF_SERVICE);
