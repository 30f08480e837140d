// The pods of the scenes. All of them run the lab's own program (load.c) from an image that no registry has.
import { policyVersion, SHARE } from './cluster.ts';

export type PodSpec = {
  readonly name: string;
  /** Arguments of load.c. */
  readonly load: readonly string[];
  readonly priority?: 'high' | 'low';
  readonly requestMiB?: number;
  readonly graceSeconds?: number;
  readonly restart?: 'Always' | 'Never' | 'OnFailure';
  /** Nobody may touch it. */
  readonly isInnocent?: true;
  readonly image?: string;
  /** A memory emptyDir at /memory. */
  readonly hasMemoryVolume?: true;
  /** An emptyDir at /disk: the kubelet evicts who has more in it. */
  readonly diskLimitMiB?: number;
  readonly labels?: { readonly [name: string]: string };
};
type Manifest = { readonly kind: string } & { readonly [field: string]: unknown };
export const IMAGE = 'docker.io/lab/load:1';

export const PRIORITIES: readonly Manifest[] = [
  { name: 'lab-high', value: 1000 },
  { name: 'lab-low', value: -10 },
].map(({ name, value }) => ({ apiVersion: 'scheduling.k8s.io/v1', kind: 'PriorityClass', metadata: { name }, value }));

function template(pod: PodSpec): { readonly metadata: object; readonly spec: object } {
  const labels = { pod: pod.name, ...(pod.isInnocent ? { innocent: 'yes' } : {}), ...pod.labels };
  const emptyDirs = [
    ...(pod.hasMemoryVolume ? [{ name: 'memory', emptyDir: { medium: 'Memory' } }] : []),
    ...(pod.diskLimitMiB === undefined ? [] : [{ name: 'disk', emptyDir: { sizeLimit: `${pod.diskLimitMiB}Mi` } }]),
  ];
  return {
    metadata: { labels },
    spec: {
      restartPolicy: pod.restart ?? 'Always',
      terminationGracePeriodSeconds: pod.graceSeconds ?? 30,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      ...(pod.priority === undefined ? {} : { priorityClassName: `lab-${pod.priority}` }),
      volumes: [{ name: 'share', hostPath: { path: SHARE, type: 'Directory' } }, ...emptyDirs],
      containers: [
        {
          name: 'main',
          image: pod.image ?? IMAGE,
          imagePullPolicy: 'Never',
          command: ['/bin/load', ...pod.load],
          // For $(POD) in the arguments.
          env: [{ name: 'POD', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }],
          volumeMounts: [
            { name: 'share', mountPath: '/share' },
            ...emptyDirs.map(({ name }) => ({ name, mountPath: `/${name}` })),
          ],
          resources: pod.requestMiB === undefined ? {} : { requests: { memory: `${pod.requestMiB}Mi` } },
        },
      ],
    },
  };
}

export function barePod(pod: PodSpec): Manifest {
  const { metadata, spec } = template(pod);
  return { apiVersion: 'v1', kind: 'Pod', metadata: { name: pod.name, ...metadata }, spec };
}

/** Bound to the node from the start: no scheduler is waited for. */
export function boundPod(pod: PodSpec): Manifest {
  const { metadata, spec } = template(pod);
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: pod.name, ...metadata },
    spec: { ...spec, nodeName: 'lab-node' },
  };
}

const selector = (pod: PodSpec): object => ({ matchLabels: { pod: pod.name } });

export const deployment = (pod: PodSpec, replicas = 1): Manifest => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: pod.name },
  spec: { replicas, selector: selector(pod), template: template(pod) },
});

export const statefulSet = (pod: PodSpec, replicas = 1): Manifest => ({
  apiVersion: 'apps/v1',
  kind: 'StatefulSet',
  metadata: { name: pod.name },
  spec: {
    replicas,
    serviceName: pod.name,
    podManagementPolicy: 'Parallel',
    selector: selector(pod),
    template: template(pod),
  },
});

export const daemonSet = (pod: PodSpec): Manifest => ({
  apiVersion: 'apps/v1',
  kind: 'DaemonSet',
  metadata: { name: pod.name },
  spec: { selector: selector(pod), template: template(pod) },
});

export const job = (pod: PodSpec): Manifest => ({
  apiVersion: 'batch/v1',
  kind: 'Job',
  metadata: { name: pod.name },
  spec: { backoffLimit: 6, template: template({ restart: 'Never', ...pod }) },
});

export const budget = (name: string, pods: { readonly [label: string]: string }): Manifest => ({
  apiVersion: policyVersion(),
  kind: 'PodDisruptionBudget',
  metadata: { name },
  spec: { minAvailable: 1, selector: { matchLabels: pods } },
});

/** Within what it requests, of the highest priority: whoever takes it is wrong. */
export const DATABASE: PodSpec = {
  name: 'db',
  load: ['hold=64', 'beat=/share/db.beat'],
  priority: 'high',
  requestMiB: 128,
  isInnocent: true,
};
/** Nobody may take it, and its growth is the pressure: it has requested all of it. */
export const PRESSURE: PodSpec = {
  name: 'pressure',
  load: ['when=/share/go', 'grow=440', 'pace=200', 'beat=/share/pressure.beat'],
  priority: 'high',
  requestMiB: 470,
  isInnocent: true,
};
