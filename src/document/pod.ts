import * as z from 'zod/mini';
import { EVICT_RESOURCES, parseEvictFor } from '../core/pod/evict-for.ts';
import { parseQuantity, type Quantity } from '../core/units/quantity.ts';
import { sayValue, text } from './check.ts';
import { parseInstant } from './instant.ts';

/**
 * The parts of a v1 Pod that are read. It is Kubernetes' kind, so unknown fields are not mistakes here; null counts as absent,
 * as in the API.
 */

const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
/** beside-a-kubelet.md H1: names become keys, log fields and parts of file names. */
const label = text(
  (value) => (LABEL.test(value) && value.length <= 63 ? null : 'must be a DNS label: at most 63 of a-z, 0-9 and -'),
  { examples: ['web'] },
);
const subdomain = text(
  (value) =>
    value.length <= 253 && value.split('.').every((part) => LABEL.test(part))
      ? null
      : 'must be a DNS name: at most 253 of a-z, 0-9, - and .',
  { examples: ['web'] },
);
const uid = text(
  (value) =>
    /^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$/.test(value)
      ? null
      : 'must be at most 128 of A-Z, a-z, 0-9, ., _ and -',
  { examples: ['0f8fad5b-d9cb-469f-a165-70867728950e'] },
);

/**
 * Written as text, possibly with white space around it (kubelet-eviction.md 2.4.1), or as a number; else an example is
 * given.
 */
const quantity = z
  .pipe(
    z.unknown(),
    z.transform((value: unknown, context): Quantity => {
      const parsed =
        typeof value === 'string' || typeof value === 'number'
          ? parseQuantity(String(value).trim())
          : { ok: false as const, text: 'expected an amount' };
      const wrong = parsed.ok ? negative(parsed.quantity, value) : parsed.text;
      if (parsed.ok && wrong === null) return parsed.quantity;
      context.issues.push({ code: 'custom', message: wrong ?? 'expected an amount', input: value });
      return z.NEVER;
    }),
  )
  .check(z.meta({ examples: ['64Mi'] }));

function negative(quantityRead: Quantity, value: unknown): string | null {
  return quantityRead.nanos.startsWith('-') ? `must not be negative, it is ${String(value)}` : null;
}

const resourceList = z.nullish(z.record(z.string(), z.nullish(quantity)));
const resources = z.nullish(z.object({ requests: resourceList, limits: resourceList }));
const container = z.object({
  name: label,
  resources,
  restartPolicy: z.nullish(z.string()),
  /** Only its presence matters. */
  restartPolicyRules: z.optional(z.unknown()),
});
const toleration = z.object({
  key: z.nullish(z.string()),
  operator: z.nullish(z.string()),
  value: z.nullish(z.string()),
  effect: z.nullish(z.string()),
});
const int32 = z.int().check(z.minimum(-(2 ** 31)), z.maximum(2 ** 31 - 1), z.meta({ examples: [1000] }));
const graceSeconds = z.int().check(z.minimum(0), z.maximum(2 ** 31 - 1), z.meta({ examples: [30] }));
/** What is wrong with the value of nodewarden.dev/evict-for; null: nothing. */
export const evictForMistake = (value: string): string | null =>
  parseEvictFor(value) === null
    ? `must be none, or some of ${EVICT_RESOURCES.join(', ')}, separated by commas, not ${sayValue(value)}`
    : null;

/** A pod has a handful; limits what one manifest may cost. */
const MAX_ENTRIES = 100;

export const podSchema = z.object({
  metadata: z.object({
    name: subdomain,
    namespace: z.nullish(label),
    uid: z.nullish(uid),
    annotations: z.nullish(z.record(z.string(), z.string().check(z.meta({ examples: ['true'] })))),
  }),
  spec: z.object({
    containers: z.array(container).check(z.minLength(1), z.maxLength(MAX_ENTRIES)),
    initContainers: z.nullish(z.array(container).check(z.maxLength(MAX_ENTRIES))),
    resources,
    overhead: resourceList,
    priority: z.nullish(int32),
    priorityClassName: z.nullish(z.string()),
    terminationGracePeriodSeconds: z.nullish(graceSeconds),
    tolerations: z.nullish(z.array(toleration).check(z.maxLength(MAX_ENTRIES))),
  }),
});
export type V1Pod = z.infer<typeof podSchema>;

const ownerReference = z.object({
  kind: z.nullish(z.string()),
  name: z.nullish(z.string()),
  uid: z.nullish(z.string()),
  controller: z.nullish(z.boolean()),
});
const instant = text((value) => (parseInstant(value) === null ? 'must be a time as RFC 3339 writes it' : null), {
  examples: ['2026-01-31T10:00:00Z'],
});
/** Loose, because a volume without any source has a meaning. */
const volume = z.looseObject({
  name: z.string(),
  emptyDir: z.nullish(z.object({ medium: z.nullish(z.string()), sizeLimit: z.nullish(quantity) })),
});

/** In a scenario, a name is only shown and compared, so any name will do. */
const anyName = z.string().check(z.minLength(1), z.maxLength(253), z.meta({ examples: ['web'] }));
const hook = z.nullish(z.looseObject({}));
const anyContainer = z.extend(container, { name: anyName, lifecycle: z.nullish(z.object({ preStop: hook })) });

/** The parts that are read of what the API adds to a running pod (`kubectl get pods -o json`): scenarios.md 2.3.1. */
export const runningPodSchema = z.extend(podSchema, {
  metadata: z.extend(podSchema.shape.metadata, {
    name: anyName,
    namespace: z.nullish(anyName),
    uid: z.nullish(anyName),
    creationTimestamp: z.nullish(instant),
    deletionGracePeriodSeconds: z.nullish(graceSeconds),
    ownerReferences: z.nullish(z.array(ownerReference)),
  }),
  spec: z.extend(podSchema.shape.spec, {
    containers: z.array(anyContainer).check(z.minLength(1), z.maxLength(MAX_ENTRIES)),
    initContainers: z.nullish(z.array(anyContainer).check(z.maxLength(MAX_ENTRIES))),
    volumes: z.nullish(z.array(volume)),
  }),
  status: z.nullish(z.object({ phase: z.nullish(z.string()) })),
});
export type V1RunningPod = z.infer<typeof runningPodSchema>;

/** beside-a-kubelet.md H1: it becomes part of a path. */
const UID = /^[0-9a-f-]{32,36}$/;
export const isUid = (value: unknown): value is string => typeof value === 'string' && UID.test(value);
const objectUid = text((value) => (isUid(value) ? null : 'must be 32 to 36 of 0-9, a-f and -'), {
  examples: ['0f8fad5b-d9cb-469f-a165-70867728950e'],
});
const containerState = z.nullish(
  z.object({
    running: z.nullish(z.unknown()),
    terminated: z.nullish(z.object({ exitCode: z.nullish(z.number()) })),
  }),
);
const containerStatus = z.object({
  name: label,
  containerID: z.nullish(z.string()),
  state: containerState,
  lastState: containerState,
  allocatedResources: resourceList,
});
const containerStatuses = z.nullish(z.array(containerStatus));
/** For the rest, only its presence matters. */
const apiContainer = z.extend(container, {
  ports: z.nullish(z.array(z.unknown())),
  readinessProbe: hook,
  lifecycle: z.nullish(z.object({ preStop: hook })),
});

/**
 * A pod from the API server. Its reader limits the size, not this schema: a pod with more containers or a longer grace period
 * than anybody needs must be read like any other, or a tenant could create one that is never chosen.
 */
export const apiPodSchema = z.extend(runningPodSchema, {
  metadata: z.extend(runningPodSchema.shape.metadata, {
    name: subdomain,
    namespace: label,
    uid: objectUid,
    resourceVersion: z.string().check(z.minLength(1), z.maxLength(64)),
    deletionGracePeriodSeconds: z.nullish(z.number()),
    deletionTimestamp: z.nullish(instant),
  }),
  spec: z.extend(runningPodSchema.shape.spec, {
    nodeName: z.nullish(z.string()),
    restartPolicy: z.nullish(z.string()),
    containers: z.array(apiContainer).check(z.minLength(1)),
    initContainers: z.nullish(z.array(container)),
    tolerations: z.nullish(z.array(toleration)),
    terminationGracePeriodSeconds: z.nullish(z.number()),
  }),
  status: z.nullish(
    z.object({
      phase: z.nullish(z.string()),
      reason: z.nullish(z.string()),
      message: z.nullish(z.string()),
      qosClass: z.nullish(z.string()),
      conditions: z.nullish(z.array(z.unknown())),
      containerStatuses,
      initContainerStatuses: containerStatuses,
      ephemeralContainerStatuses: containerStatuses,
    }),
  ),
});
export type V1ApiPod = z.infer<typeof apiPodSchema>;
export type V1Container = z.infer<typeof container>;
export type V1Resources = z.infer<typeof resources>;
