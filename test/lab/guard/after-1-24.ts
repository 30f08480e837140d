// What Kubernetes 1.20 lacks of what came with the out-of-service taint in 1.24, emulated by the rules of the later pod garbage
// collector (pkg/controller/podgc, gcTerminating, and its quarantine of 20 s): a pod that is terminating on a node that is
// not Ready and has the taint is deleted without waiting for its kubelet.
import { ask, type KubeObject } from '../kube/api.ts';
import { clock } from '../scene.ts';
import { isReady, OUT_OF_SERVICE } from './fleet.ts';

const GC_MS = 20_000;

/** The nodes as they are known at that moment. */
export function podGc(nodes: () => readonly KubeObject[]): { readonly close: () => void } {
  let isOver = false;
  let cancel = (): void => undefined;
  const collect = async (): Promise<void> => {
    const out = new Set(
      nodes()
        .filter((node) => !isReady(node) && hasTaint(node))
        .map(({ metadata }) => metadata.name),
    );
    if (out.size === 0) return;
    const { items } = await ask('/api/v1/pods');
    for (const { metadata, spec } of items as readonly KubeObject[]) {
      if (metadata.deletionTimestamp === undefined || !out.has(spec.nodeName)) continue;
      const body = { gracePeriodSeconds: 0, preconditions: { uid: metadata.uid } };
      await ask(`/api/v1/namespaces/${metadata.namespace}/pods/${metadata.name}`, { method: 'DELETE', body });
    }
  };
  const plan = (): void => {
    cancel = clock.after(GC_MS, () => {
      // A node that is gone, or an API server that a scene has stopped.
      void Promise.resolve()
        .then(collect)
        .catch(() => undefined)
        .then(() => (isOver ? undefined : plan()));
    });
  };
  plan();
  return {
    close: () => {
      isOver = true;
      cancel();
    },
  };
}

/** By the key alone, as Kubernetes does. */
const hasTaint = (node: KubeObject): boolean =>
  (node['spec'].taints ?? []).some(({ key }: { readonly key: string }) => key === OUT_OF_SERVICE);
