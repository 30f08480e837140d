import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { readBootId } from '../../src/host/clock.ts';
import type { Workload } from '../../src/host/process/workload.ts';
import { ContainerState, PodSandboxState, RuntimeService } from '../../src/kube/cri/cri_pb.ts';
import type { RecordEntry } from '../../src/record/entry.ts';
import type { StatusReport } from '../../src/serve/status.ts';
import { directory, running, until, write } from '../daemon/a-daemon.ts';
import { aProcess, limitMemory, machine } from '../host/test-cgroup.ts';
import { aKubeletTree, anId } from './a-kubelet-tree.ts';
import { type Authority, createAuthority, writeKubeconfig } from './certificates.ts';
import { aUid, aV1Pod, NODE } from './pod-store.ts';
import { startStubApi } from './stub-api.ts';
import { openStubRuntime } from './stub-runtime.ts';

const boot = readBootId();
const MIB = 2 ** 20;
const { listPodSandbox, listContainers } = RuntimeService.method;
/** Holds so much, and so much more for each line that it is sent. */
const holding = (mebibytes: number): string =>
  `const held = [Buffer.alloc(${mebibytes} * 2 ** 20, 1)];` +
  'process.stdin.on("data", (line) => held.push(Buffer.alloc(Number(line) * 2 ** 20, 1)));';

describe.skipIf(machine === null || !boot.known)('an undeclared pod that exhausts memory', () => {
  const mounts = machine as NonNullable<typeof machine>;
  let authority: Authority;
  beforeAll(() => {
    authority = createAuthority();
  });
  afterAll(() => authority.remove());

  /** A node of 500 MiB with a database within its request; the agent acts at half of it. */
  async function aNode() {
    const api = await startStubApi(authority);
    onTestFinished(() => api.stop());
    Object.assign(api.node, { status: { nodeInfo: { bootID: boot.known ? boot.value : '' } } });
    const runtime = await openStubRuntime();
    onTestFinished(() => runtime.remove());
    const tree = aKubeletTree(mounts, 'cgroupfs');
    tree.make(tree.kubepods);
    limitMemory(mounts, tree.kubepods, 500 * MIB);
    const listed: { readonly name: string; readonly uid: string; readonly id: string; readonly sandbox: string }[] = [];
    runtime.on(listContainers, () => ({
      containers: listed.map(({ uid, id, sandbox }) => ({
        ...{ id, podSandboxId: sandbox, imageRef: 'image', state: ContainerState.CONTAINER_RUNNING, createdAt: 1n },
        labels: { 'io.kubernetes.pod.uid': uid, 'io.kubernetes.container.name': 'main' },
      })),
    }));
    const sandboxes = (): MessageInitShape<typeof listPodSandbox.output> => ({
      items: listed.map(({ name, uid, sandbox }) => ({
        ...{ id: sandbox, state: PodSandboxState.SANDBOX_READY, createdAt: 1n },
        labels: {
          'io.kubernetes.pod.uid': uid,
          'io.kubernetes.pod.name': name,
          'io.kubernetes.pod.namespace': 'default',
        },
        annotations: { 'kubernetes.io/config.source': 'api' },
      })),
    });
    const { output } = listPodSandbox;
    let told = Promise.resolve();
    runtime.onRaw(listPodSandbox, async () => {
      await told;
      return { bytes: toBinary(output, create(output, sandboxes())) };
    });
    /** It names no pod until the function that comes back is called. */
    const hold = (): (() => void) => {
      let release = (): void => undefined;
      told = new Promise((resolve) => {
        release = resolve;
      });
      return release;
    };
    const start = async (name: string, digit: string, mebibytes: number): Promise<{ uid: string; main: Workload }> => {
      const [uid, id, sandbox] = [aUid(), anId(digit), anId(String.fromCharCode(digit.charCodeAt(0) + 1))];
      const path = tree.addPod('Burstable', uid, id, sandbox);
      listed.push({ name, uid, id, sandbox });
      return { uid, main: await aProcess(holding(mebibytes), mounts.memory + tree.containerIn(path, id)) };
    };
    const db = await start('db', 'a', 50);
    const [containers, containerStatuses] = [
      [{ name: 'main', resources: { requests: { memory: '200Mi' } } }],
      [{ name: 'main', containerID: `containerd://${anId('a')}` }],
    ];
    api.store.put(aV1Pod({ name: 'db', uid: db.uid, spec: { containers }, status: { containerStatuses } }));
    write([
      'mode: kubelet',
      `cgroupRoot: ${tree.cgroupRoot}`,
      'evictionHard: { memory.available: 250Mi }',
      `containerRuntimeEndpoint: unix://${runtime.socket}`,
      `podLogsDir: ${directory}/logs`,
      `kubernetes: { kubeconfig: ${writeKubeconfig(authority, api.url)}, nodeName: ${NODE} }`,
    ]);
    return { hold, db: db.main, startHog: async () => (await start('hog', 'c', 10)).main };
  }
  const isReady = ({ pods }: StatusReport): boolean => pods.known && pods.order.some(({ name }) => name === 'db');
  const isWaiting = ({ findings }: StatusReport): boolean => findings.some(({ id }) => id.startsWith('pod-awaited/'));
  /** Who was chosen, in that order. */
  const victims = (entries: readonly RecordEntry[]): readonly string[] =>
    entries.flatMap((entry) =>
      entry.kind === 'decision' && entry.decision.kind === 'evict' ? [entry.decision.victim.name] : [],
    );

  it('is evicted as soon as the runtime names it, and the database within its request lives', async () => {
    const { hold, db, startHog } = await aNode();
    const entries: RecordEntry[] = [];
    await running(
      async (report) => {
        await until(report, isReady);
        const release = hold();
        const hog = await startHog();
        hog.write('220');
        await until(report, (now) => isWaiting(now) || !db.isAlive());
        expect([db.isAlive(), hog.isAlive()]).toEqual([true, true]);
        release();
        await until(report, () => !hog.isAlive());
        expect(db.isAlive()).toBe(true);
        await until(report, (now) => !isWaiting(now));
      },
      (entry) => entries.push(entry),
    );
    expect(victims(entries)).toEqual(['hog']);
  });
});
