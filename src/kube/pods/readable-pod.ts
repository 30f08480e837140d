import type { Unsaid } from '../../core/pod/pod.ts';
import { known, type Reading } from '../../core/reading.ts';
import { isObject, isText, type Json, partOf } from '../../core/shape.ts';
import { type ApiPod, apiPodOf } from '../api/api-pod.ts';

export type Readable = {
  readonly pod: Reading<ApiPod>;
  /** What could not be read although the rest could; null: nothing. */
  readonly problem: string | null;
};
type Part = Omit<Unsaid, 'why'>;

/** In the order of attempts: those that leave out less come first. */
const PARTS: readonly Part[] = [
  { priority: true, requests: false },
  { priority: false, requests: true },
  { priority: true, requests: true },
];

/**
 * A pod with every part that can be read: one malformed field makes no pod immune (beside-a-kubelet.md C9). Unreadable
 * parts are unknown, not defaulted. `nodeName`: B16.
 */
export function readableOf(value: unknown, protectNamespaces: ReadonlySet<string>, nodeName: string): Readable {
  const whole = apiPodOf(value, protectNamespaces);
  if (whole.known || !isObject(value)) return { pod: placed(whole, value, nodeName), problem: null };
  const problem = `${whole.where}: ${whole.detail}`;
  const tries = [...PARTS.map((part) => ({ part, value: without(value, part) })), { part: ALL, value: bare(value) }];
  for (const { part, value: less } of tries) {
    const pod = apiPodOf(less, protectNamespaces);
    if (!pod.known) continue;
    const declared = { ...pod.value.declared, unsaid: { why: 'unreadable', ...part } } as const;
    return { pod: placed(known({ ...pod.value, declared }), value, nodeName), problem };
  }
  return { pod: whole, problem: null };
}
const ALL: Part = { priority: true, requests: true };

function placed(pod: Reading<ApiPod>, value: unknown, nodeName: string): Reading<ApiPod> {
  const on = partOf(value, 'spec')['nodeName'];
  if (!pod.known || !isText(on) || on === '' || on === nodeName) return pod;
  return known({ ...pod.value, isElsewhere: true });
}

function without(value: Json, { priority, requests }: Part): Json {
  const spec = { ...partOf(value, 'spec'), ...(priority ? { priority: null } : {}) };
  if (!requests) return { ...value, spec };
  const status = partOf(value, 'status');
  return {
    ...value,
    spec: {
      ...spec,
      ...fields(spec, ['containers', 'initContainers'], ({ name, restartPolicy, restartPolicyRules }) => ({
        ...{ name, restartPolicy, restartPolicyRules },
      })),
      ...fields(spec, ['volumes'], ({ emptyDir, ...volume }) => (emptyDir ? { ...volume, emptyDir: {} } : volume)),
      resources: null,
      overhead: null,
    },
    status: {
      ...status,
      ...fields(status, STATUSES, ({ name, containerID }) => ({ name, containerID })),
    },
  };
}
const STATUSES = ['containerStatuses', 'initContainerStatuses', 'ephemeralContainerStatuses'];

/** Identity, owner, and running containers. */
function bare(value: Json): Json {
  const { name, namespace, uid, resourceVersion, deletionTimestamp, annotations, ownerReferences } = partOf(
    value,
    'metadata',
  );
  const { nodeName, restartPolicy } = partOf(value, 'spec');
  const { phase, qosClass } = partOf(value, 'status');
  const isDeleted = isText(deletionTimestamp) && Number.isFinite(Date.parse(deletionTimestamp));
  return {
    metadata: {
      ...{ name, namespace, uid, resourceVersion },
      deletionTimestamp: isDeleted ? deletionTimestamp : null,
      annotations: isObject(annotations) && Object.values(annotations).every(isText) ? annotations : null,
      ownerReferences: Array.isArray(ownerReferences) ? ownerReferences.filter(isObject) : null,
    },
    spec: {
      nodeName: isText(nodeName) ? nodeName : null,
      restartPolicy: isText(restartPolicy) ? restartPolicy : null,
      containers: [{ name: 'unreadable' }],
    },
    status: { phase: isText(phase) ? phase : null, qosClass: isText(qosClass) ? qosClass : null },
  };
}

/** Changes the objects in each list with one of these names; anything else stays as it is. */
function fields(of: Json, names: readonly string[], change: (entry: Json) => Json): Json {
  return Object.fromEntries(
    names.map((name) => {
      const list = of[name];
      return [name, Array.isArray(list) ? list.map((entry) => (isObject(entry) ? change(entry) : entry)) : list];
    }),
  );
}
