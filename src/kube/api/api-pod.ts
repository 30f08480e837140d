import { EVICT_FOR, parseEvictFor } from '../../core/pod/evict-for.ts';
import type { PodTrait, PodView } from '../../core/pod/pod.ts';
import { known, type Reading, unknown } from '../../core/reading.ts';
import { isObject, isText, type Json } from '../../core/shape.ts';
import { checkValue } from '../../document/check.ts';
import { runningPodOf } from '../../document/declared-pod.ts';
import { parseInstant } from '../../document/instant.ts';
import { apiPodSchema, isUid, type V1ApiPod, type V1Container } from '../../document/pod.ts';

/** What deleting a pod's object requires. `isUnplaced`: it is in no list of ours, so it may be bound to another node. */
export type Deletable = Pick<ApiPod, 'object' | 'isMirror'> & { readonly isUnplaced?: true };
/** A pod as an API request names it. `uid` is the object's, which for a mirror pod differs from the kubelet's. */
export type PodRef = { readonly namespace: string; readonly name: string; readonly uid: string };
/** A16: why this agent marks a pod. */
export const DISRUPTION_REASONS = ['EvictionByNodewarden', 'TerminationByNodewarden'] as const;
export type DisruptionReason = (typeof DISRUPTION_REASONS)[number];
export type RestartPolicy = 'Always' | 'OnFailure' | 'Never';
/** What is kept of a v1 Pod of this node (beside-a-kubelet.md D15): no environment, no arguments, no secrets. */
export type ApiPod = {
  /** `uid` is the kubelet's: for a static pod, that of its manifest (D5), which names cgroup, volumes and logs. */
  readonly declared: Omit<PodView, 'usage'>;
  readonly object: PodRef;
  readonly resourceVersion: string;
  readonly phase: 'Pending' | 'Running' | 'Succeeded' | 'Failed' | 'Unknown';
  /** F6 (i): it is Failed for the reason Evicted, and was not merely refused by the kubelet: it ran. */
  readonly isEvictedByKubelet: boolean;
  /** When the kubelet began to end it; absent: it does not say so, as before 1.26. */
  readonly evictedWallMs?: number;
  /** A16: this agent has marked it for a disruption, of which nobody has said since that it is over. Absent: not. */
  readonly marked?: { readonly reason: DisruptionReason; readonly sinceWallMs: number };
  /** A mirror pod: never deleted (A20). */
  readonly isMirror: boolean;
  /** Absent: not ready. 0: ready since an unknown time. */
  readonly readySinceWallMs?: number;
  readonly restartPolicy: RestartPolicy;
  /**
   * Of the containers that have a policy of their own. `hasRules`: exit codes after which it is started again whatever the
   * policy says, which may start the others again, too. Absent: none has.
   */
  readonly restarts?: readonly { readonly name: string; readonly policy?: RestartPolicy; readonly hasRules?: true }[];
  /** Its controller; null: a bare pod, which a DELETE destroys (B10). */
  readonly owner: { readonly kind: string; readonly name: string; readonly uid: string } | null;
  /** The deletionTimestamp: when its grace period ends; null: it is not being deleted. */
  readonly deletionWallMs: number | null;
  /**
   * Of all `status.*ContainerStatuses`; the id is without its scheme, null before a start. `ended`: how that run has ended,
   * by its exit code. Absent: it runs, or the API does not show its end.
   */
  readonly containers: readonly {
    readonly name: string;
    readonly id: string | null;
    readonly ended?: 'succeeded' | 'failed';
  }[];
  /** Bound to another node: nothing is written to the API about it. Absent: it is ours. */
  readonly isElsewhere?: true;
  /** Names of standalone binding annotations, which have no effect here (H7); absent: none. */
  readonly bindings?: readonly string[];
};

const MIRROR = 'kubernetes.io/config.mirror';
const HASH = 'kubernetes.io/config.hash';
export const OURS = 'nodewarden.dev/';
const PROTECT = `${OURS}protect`;
/** Honoured only in `protectNamespaces`: a tenant cannot exempt its own pods. */
export const SPARING: readonly string[] = [PROTECT, EVICT_FOR];
const QOS_CLASSES: readonly PodView['qos'][] = ['Guaranteed', 'Burstable', 'BestEffort'];
const PHASES: readonly ApiPod['phase'][] = ['Pending', 'Running', 'Succeeded', 'Failed'];
const RESTART_POLICIES: readonly RestartPolicy[] = ['Always', 'OnFailure', 'Never'];
const MAX_GRACE_SECONDS = 2 ** 31 - 1;

/** Malformed if an API server cannot have stored such an object. `protectNamespaces`: H7. */
export function apiPodOf(value: unknown, protectNamespaces: ReadonlySet<string>): Reading<ApiPod> {
  const checked = checkValue(apiPodSchema, value);
  if (!checked.ok) return unknown('malformed', 'v1 Pod', checked.mistake);
  const pod = checked.value;
  const { metadata } = pod;
  const isMirror = isMirrorOf(pod);
  const uid = isMirror ? metadata.annotations?.[HASH] : metadata.uid;
  // If the uid of its manifest cannot name a cgroup, a mirror pod stands for nothing that could be found.
  if (!isUid(uid)) return unknown('malformed', `metadata.annotations["${HASH}"]`, 'not the uid of a static pod');
  const owner = ownerOf(pod);
  const declared = runningPodOf(asAdmitted(pod));
  const sparing = protectNamespaces.has(metadata.namespace) ? metadata.annotations : null;
  const evictFor = parseEvictFor(sparing?.[EVICT_FOR] ?? '');
  return known({
    declared: {
      ...declared,
      uid,
      qos: QOS_CLASSES.find((qos) => qos === pod.status?.qosClass) ?? declared.qos,
      isDaemonSet: owner?.kind === 'DaemonSet',
      isStaticCritical: declared.isStaticCritical || isMirror,
      isProtected: sparing?.[PROTECT] === 'true',
      ...(evictFor === null ? {} : { evictFor }),
      isTerminating: typeof metadata.deletionTimestamp === 'string',
      ...traitsOf(pod),
    },
    object: { namespace: metadata.namespace, name: metadata.name, uid: metadata.uid },
    resourceVersion: metadata.resourceVersion,
    phase: PHASES.find((phase) => phase === pod.status?.phase) ?? 'Unknown',
    ...evictionOf(pod),
    ...markOf(pod),
    isMirror,
    ...readinessOf(pod),
    restartPolicy: restartPolicyOf(pod.spec.restartPolicy),
    ...restartsOf(pod),
    owner,
    deletionWallMs: typeof metadata.deletionTimestamp === 'string' ? parseInstant(metadata.deletionTimestamp) : null,
    containers: statusesOf(pod).map((status) => ({
      name: status.name,
      id: containerIdOf(status.containerID),
      ...endOf(status),
    })),
  });
}

/** Its containers have ended, as the API shows it. */
export const isTerminal = ({ phase }: { readonly phase: unknown }): boolean =>
  phase === 'Succeeded' || phase === 'Failed';

/** kubelet-eviction.md 7.1.8: how a kubelet reports that it rejected a pod at admission, with or without a prefix. */
const NOT_ADMITTED = 'The node had condition: ';
function evictionOf({ status }: V1ApiPod): Pick<ApiPod, 'isEvictedByKubelet' | 'evictedWallMs'> {
  const isEvicted = status?.phase === 'Failed' && status.reason === 'Evicted';
  if (!isEvicted || status.message?.includes(NOT_ADMITTED)) return { isEvictedByKubelet: false };
  const told = conditionOf(status, 'DisruptionTarget');
  const wallMs = told?.['reason'] === 'TerminationByKubelet' ? sinceOf(told) : null;
  return { isEvictedByKubelet: true, ...(wallMs === null ? {} : { evictedWallMs: wallMs }) };
}

function markOf({ status }: V1ApiPod): Pick<ApiPod, 'marked'> {
  const told = conditionOf(status, 'DisruptionTarget');
  const reason = DISRUPTION_REASONS.find((own) => own === told?.['reason']);
  return told === undefined || reason === undefined ? {} : { marked: { reason, sinceWallMs: sinceOf(told) ?? 0 } };
}

function readinessOf({ status }: V1ApiPod): Pick<ApiPod, 'readySinceWallMs'> {
  const ready = conditionOf(status, 'Ready');
  return ready === undefined ? {} : { readySinceWallMs: sinceOf(ready) ?? 0 };
}

/** Undefined: it is not true. */
function conditionOf(status: V1ApiPod['status'], wanted: string): Json | undefined {
  return (status?.conditions ?? []).filter(isObject).find((at) => at['type'] === wanted && at['status'] === 'True');
}
const sinceOf = ({ lastTransitionTime: since }: Json): number | null => (isText(since) ? parseInstant(since) : null);

/**
 * H7: anybody can write the annotation. If the owner is this very node, either the kubelet wrote it, or the kubelet removes
 * the pod without ever starting its containers.
 */
function isMirrorOf({ metadata, spec }: V1ApiPod): boolean {
  if (!spec.nodeName || metadata.annotations?.[MIRROR] === undefined) return false;
  return (metadata.ownerReferences ?? []).some(({ kind, name }) => kind === 'Node' && name === spec.nodeName);
}

function ownerOf({ metadata }: V1ApiPod): ApiPod['owner'] {
  const controller = (metadata.ownerReferences ?? []).find((owner) => owner.controller === true);
  if (!controller?.kind || !controller.name || !controller.uid) return null;
  return { kind: controller.kind, name: controller.name, uid: controller.uid };
}

/**
 * With the resources that the kubelet admitted in an in-place resize (kubelet-eviction.md 5.6.4), H8's priority, and a
 * grace period that it would give.
 */
function asAdmitted(pod: V1ApiPod): V1ApiPod {
  const allocated = new Map(statusesOf(pod).map(({ name, allocatedResources }) => [name, allocatedResources]));
  const admitted = (container: V1Container): V1Container => {
    const requests = allocated.get(container.name);
    if (!requests) return container;
    const { resources } = container;
    return { ...container, resources: { ...resources, requests: { ...resources?.requests, ...requests } } };
  };
  const { containers, initContainers, priority, terminationGracePeriodSeconds: grace } = pod.spec;
  return {
    ...pod,
    spec: {
      ...pod.spec,
      containers: containers.map(admitted),
      initContainers: initContainers?.map(admitted),
      priority: priority ?? 0,
      // The API server turns a negative value into 1.
      terminationGracePeriodSeconds:
        typeof grace === 'number' ? Math.min(MAX_GRACE_SECONDS, grace < 0 ? 1 : Math.trunc(grace)) : null,
    },
  };
}

/** The kubelet's directory for the sockets of CSI plugins. */
const PLUGINS = /\/plugins(_registry)?(\/|$)/;

function traitsOf({ spec }: V1ApiPod): Partial<Pick<PodView, 'traits'>> {
  const volumes = spec.volumes ?? [];
  const hostPaths = volumes.flatMap(({ hostPath }) => (isObject(hostPath) ? [String(hostPath['path'])] : []));
  const serves = spec.containers.some(({ ports, readinessProbe }) => (ports ?? []).length > 0 || readinessProbe);
  const drains = spec.containers.some(({ lifecycle }) => lifecycle?.preStop);
  const traits: PodTrait[] = [
    ...(serves && !drains ? (['serves-to-the-end'] as const) : []),
    ...(volumes.some(({ persistentVolumeClaim, csi }) => persistentVolumeClaim || csi)
      ? (['uses-volumes'] as const)
      : []),
    ...(hostPaths.some((path) => PLUGINS.test(path)) ? (['csi-plugin'] as const) : []),
  ];
  return traits.length === 0 ? {} : { traits };
}

function statusesOf({ status }: V1ApiPod) {
  const { containerStatuses, initContainerStatuses, ephemeralContainerStatuses } = status ?? {};
  return [...(containerStatuses ?? []), ...(initContainerStatuses ?? []), ...(ephemeralContainerStatuses ?? [])];
}

/** While it waits to be started again, its end is that of the run before. */
function endOf({
  state,
  lastState,
}: ReturnType<typeof statusesOf>[number]): Pick<ApiPod['containers'][number], 'ended'> {
  const exitCode = state?.running ? null : (state?.terminated ?? lastState?.terminated)?.exitCode;
  return typeof exitCode === 'number' ? { ended: exitCode === 0 ? 'succeeded' : 'failed' } : {};
}

const restartPolicyOf = (text: string | null | undefined): RestartPolicy =>
  RESTART_POLICIES.find((policy) => policy === text) ?? 'Always';

/** The policy of an init container means something else. */
function restartsOf({ spec }: V1ApiPod): Pick<ApiPod, 'restarts'> {
  const policyOf = ({ restartPolicy: own }: V1Container) => (own ? { policy: restartPolicyOf(own) } : {});
  const rulesOf = ({ restartPolicyRules: rules }: V1Container) => (rules ? { hasRules: true as const } : {});
  const restarts = [
    ...spec.containers.map((one) => ({ name: one.name, ...policyOf(one), ...rulesOf(one) })),
    ...(spec.initContainers ?? []).map((one) => ({ name: one.name, ...rulesOf(one) })),
  ].filter((one) => Object.keys(one).length > 1);
  return restarts.length === 0 ? {} : { restarts };
}

/** `containerd://` and 64 digits. No other id may become part of a path (H1). */
function containerIdOf(text: string | null | undefined): string | null {
  return /^[a-z][a-z0-9.+-]*:\/\/([0-9a-f]{64})$/.exec(text ?? '')?.[1] ?? null;
}
