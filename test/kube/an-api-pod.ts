import type { ApiPod } from '../../src/kube/api/api-pod.ts';
import type { RuntimeContainer, RuntimeSandbox } from '../../src/kube/cri/runtime.ts';
import { aPod } from '../a.ts';

type Overrides = Parameters<typeof aPod>[0] & { readonly api?: Partial<ApiPod> };

/** A running pod of the API's; `containers` of it by `api`. */
export function anApiPod({ api, ...overrides }: Overrides): ApiPod {
  const { usage: _, ...declared } = aPod(overrides);
  const { namespace, name, uid } = declared;
  return {
    declared,
    object: { namespace, name, uid },
    resourceVersion: '1',
    phase: 'Running',
    isEvictedByKubelet: false,
    isMirror: false,
    restartPolicy: 'Always',
    owner: null,
    deletionWallMs: null,
    containers: [],
    ...api,
  };
}

export const aContainer = (of: Pick<RuntimeContainer, 'id' | 'name' | 'podUid'>): RuntimeContainer => ({
  sandboxId: '',
  state: 'running',
  createdAtWallMs: 0,
  image: { ref: '', id: '' },
  ...of,
});

export const aSandbox = (of: Pick<RuntimeSandbox, 'id' | 'podUid'> & Partial<RuntimeSandbox>): RuntimeSandbox => ({
  namespace: 'default',
  name: 'pod',
  isReady: true,
  source: null,
  ...of,
});
