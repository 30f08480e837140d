// A node beside a kubelet, without the kubelet: real cgroups with a process in each container, and an API server (over TLS)
// and a container runtime that this process plays.
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { findCgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { readBootId } from '../../src/host/clock.ts';
import {
  CgroupDriver,
  ContainerState,
  ImageService,
  PodSandboxState,
  RuntimeService,
} from '../../src/kube/cri/cri_pb.ts';
import { qosPath } from '../../src/kube/pods/cgroup-paths.ts';
import { createAuthority, writeKubeconfig } from '../../test/kube/certificates.ts';
import { aV1Pod, NODE } from '../../test/kube/pod-store.ts';
import { type StubApi, startStubApi } from '../../test/kube/stub-api.ts';
import { openStubRuntime, type StubRuntime } from '../../test/kube/stub-runtime.ts';
import { until } from '../../test/lab/scene.ts';

export type KubeNode = {
  readonly api: StubApi;
  readonly runtime: StubRuntime;
  /** Lines of the agent's configuration. */
  readonly config: readonly string[];
  readonly close: () => Promise<void>;
};

/** Of the machine's memory: so much all pods may have, and nearly all of it is free. */
const PODS_SHARE = 0.8;

const idOf = (n: number): string => n.toString(16).padStart(64, '0');
const uidOf = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
const labelsOf = (n: number) => ({
  'io.kubernetes.pod.uid': uidOf(n),
  'io.kubernetes.pod.name': `pod-${n}`,
  'io.kubernetes.pod.namespace': 'shop',
});
const sandboxOf = (n: number): string => idOf(2 * n);
const containerOf = (n: number): string => idOf(2 * n + 1);

/** As the API server has it, bound to this node and running. */
export function podObject(n: number, priority = 0) {
  const status = { containerStatuses: [{ name: 'main', containerID: `containerd://${containerOf(n)}` }] };
  return aV1Pod({ name: `pod-${n}`, namespace: 'shop', uid: uidOf(n), spec: { priority }, status });
}

export async function openKubeNode(pods: number): Promise<KubeNode> {
  const numbers = Array.from({ length: pods }, (_, i) => i + 1);
  const root = `/nodewarden-bench-kube-${process.pid}`;
  const cgroups = startPods(root, numbers);
  const authority = createAuthority();
  const api = await openApi(authority);
  const runtime = await openStubRuntime();
  for (const n of numbers) api.store.put(podObject(n));
  answerAs(runtime, numbers, authority.directory);
  const kubeconfig = writeKubeconfig(authority, api.url);
  return {
    api,
    runtime,
    config: [
      'mode: kubelet',
      `cgroupRoot: ${root}`,
      `containerRuntimeEndpoint: unix://${runtime.socket}`,
      `nodefs: { path: ${authority.directory} }`,
      `kubernetes: { kubeconfig: ${kubeconfig}, nodeName: ${NODE} }`,
    ],
    close: async () => {
      await cgroups.remove();
      await api.stop();
      runtime.remove();
      authority.remove();
    },
  };
}

async function openApi(authority: ReturnType<typeof createAuthority>): Promise<StubApi> {
  const api = await startStubApi(authority, ({ method, path: at, body }) =>
    method === 'PATCH' && at.startsWith(`/api/v1/nodes/${NODE}`) ? { status: 200, body: body ?? {} } : null,
  );
  const bootId = readBootId();
  if (!bootId.known) throw new Error(bootId.detail);
  const conditions = [{ type: 'Ready', status: 'True' }];
  Object.assign(api.node, { status: { nodeInfo: { bootID: bootId.value }, conditions } });
  return api;
}

function answerAs(runtime: StubRuntime, numbers: readonly number[], imagefs: string): void {
  const { method } = RuntimeService;
  const images = ImageService.method;
  const containers = numbers.map((n) => ({
    id: containerOf(n),
    podSandboxId: sandboxOf(n),
    labels: { ...labelsOf(n), 'io.kubernetes.container.name': 'main' },
    state: ContainerState.CONTAINER_RUNNING,
    imageRef: 'sha256:1',
  }));
  const sandboxes = numbers.map((n) => ({
    id: sandboxOf(n),
    labels: labelsOf(n),
    state: PodSandboxState.SANDBOX_READY,
  }));
  runtime.on(method.listContainers, () => ({ containers }));
  runtime.on(method.listPodSandbox, () => ({ items: sandboxes }));
  runtime.on(method.containerStatus, ({ containerId }) => ({ status: { id: containerId } }));
  runtime.on(method.status, () => ({ info: { config: '{"sandboxImage":"pause"}' } }));
  runtime.on(method.runtimeConfig, () => ({ linux: { cgroupDriver: CgroupDriver.CGROUPFS } }));
  runtime.on(images.listImages, () => ({ images: [{ id: 'sha256:1', repoTags: ['app:1'] }] }));
  runtime.on(images.imageFsInfo, () => ({ imageFilesystems: [{ fsId: { mountpoint: imagefs } }] }));
}

/** Each a sandbox and a container, as the kubelet and the runtime lay them out with cgroupfs. */
function startPods(root: string, numbers: readonly number[]): { readonly remove: () => Promise<void> } {
  const mounts = findCgroupMounts();
  if (!mounts.known) throw new Error(mounts.detail);
  const { memory, version } = mounts.value;
  const processes: ChildProcess[] = [];
  const made: string[] = ['', '/kubepods', '/kubepods/burstable'].map((below) => memory + root + below);
  const make = (directory: string): void => {
    fs.mkdirSync(directory, { recursive: true });
    made.push(directory);
  };
  for (const n of numbers) {
    const pod = `${memory}${qosPath('cgroupfs', root, 'Burstable')}/pod${uidOf(n)}`;
    make(pod);
    for (const id of [sandboxOf(n), containerOf(n)]) {
      const directory = path.join(pod, id);
      make(directory);
      const child = spawn('/bin/sleep', ['infinity'], { stdio: 'ignore' });
      fs.writeFileSync(path.join(directory, 'cgroup.procs'), String(child.pid));
      processes.push(child);
    }
  }
  const limit = version === 1 ? 'memory.limit_in_bytes' : 'memory.max';
  if (fs.existsSync(`${memory}${root}/kubepods/${limit}`))
    fs.writeFileSync(`${memory}${root}/kubepods/${limit}`, String(Math.floor(os.totalmem() * PODS_SHARE)));
  return {
    remove: async () => {
      for (const child of processes) child.kill('SIGKILL');
      for (const directory of made.reverse()) await until(`${directory} is empty`, () => isRemoved(directory) || null);
    },
  };
}

/** EBUSY until the kernel has torn the processes down. */
function isRemoved(directory: string): boolean {
  try {
    fs.rmdirSync(directory);
    return true;
  } catch {
    return !fs.existsSync(directory);
  }
}
