import type { Reading } from '../../core/reading.ts';
import type { CgroupRef } from '../../ports.ts';
import type { ApiPod } from '../api/api-pod.ts';
import type { RuntimeContainer, RuntimeFacts, RuntimeSandbox } from '../cri/runtime.ts';
import type { ContainerCgroup } from './pod-cgroups.ts';

/** `name` null: unknown. */
type FoundContainer = { readonly id: string; readonly name: string | null; readonly cgroup: CgroupRef };
export type FoundContainers = {
  /** All that are not known to be sandboxes: an unnamed one counts as a container. */
  readonly containers: readonly FoundContainer[];
  readonly sandboxes: readonly CgroupRef[];
};
export type RuntimeIndex = {
  readonly containers: ReadonlyMap<string, RuntimeContainer>;
  readonly sandboxes: ReadonlyMap<string, RuntimeSandbox>;
  /** The newest facts about a pod: from a sandbox that is ready, if there is one. */
  readonly podOf: ReadonlyMap<string, RuntimeSandbox>;
  /** When it was listed. */
  readonly atMs: number;
};

const NOTHING: RuntimeIndex = {
  containers: new Map(),
  sandboxes: new Map(),
  podOf: new Map(),
  atMs: Number.NEGATIVE_INFINITY,
};

/** What the runtime listed, by id; rebuilt only for another list. */
export function createRuntimeIndex(facts: () => Reading<RuntimeFacts>): () => RuntimeIndex {
  let of: RuntimeFacts | null = null;
  let index = NOTHING;
  return () => {
    const now = facts();
    if (!now.known || now.value === of) return index;
    of = now.value;
    const { containers, sandboxes, atMs } = now.value;
    index = {
      atMs,
      containers: new Map(containers.map((container) => [container.id, container])),
      sandboxes: new Map(sandboxes.map((sandbox) => [sandbox.id, sandbox])),
      podOf: new Map(
        sandboxes.toSorted((a, b) => Number(a.isReady) - Number(b.isReady)).map((sandbox) => [sandbox.podUid, sandbox]),
      ),
    };
    return index;
  };
}

/** Assigns a pod's cgroups to its containers, from the API and the runtime (beside-a-kubelet.md B5). */
export function nameContainers(
  cgroups: readonly ContainerCgroup[],
  pod: Pick<ApiPod, 'containers'> | null,
  { containers: listed, sandboxes: listedSandboxes }: RuntimeIndex,
): FoundContainers {
  const containers: FoundContainer[] = [];
  const sandboxes: CgroupRef[] = [];
  for (const { id, cgroup } of cgroups) {
    const name = pod?.containers.find((container) => container.id === id)?.name ?? listed.get(id)?.name ?? null;
    if (name === null && listedSandboxes.has(id)) sandboxes.push(cgroup);
    else containers.push({ id, name, cgroup });
  }
  return { containers, sandboxes };
}

const SHORT_ID = 12;
/** As the runtime's own tools show a container without a name. */
export const shortId = (id: string): string => id.slice(0, SHORT_ID);
