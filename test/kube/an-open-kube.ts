import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, onTestFinished } from 'vitest';
import { createHasten } from '../../src/act/hasten.ts';
import type { SurvivorMemory } from '../../src/act/survivors.ts';
import type { Outcome } from '../../src/core/outcome.ts';
import { readBootId } from '../../src/host/clock.ts';
import { startWorkload } from '../../src/host/process/workload.ts';
import { PodSandboxState, RuntimeService } from '../../src/kube/cri/cri_pb.ts';
import { openKube } from '../../src/kube/open.ts';
import type { Mode } from '../../src/mode.ts';
import type { BoundPod, Clock, StopOrder } from '../../src/ports.ts';
import { clock, machine, until } from '../host/test-cgroup.ts';
import { heardParts } from '../standalone/needs.ts';
import { aKubeletTree, anId } from './a-kubelet-tree.ts';
import { type Authority, createAuthority, writeKubeconfig } from './certificates.ts';
import { NODE } from './pod-store.ts';
import { type Heard, type StubApi, startStubApi } from './stub-api.ts';
import { openStubRuntime } from './stub-runtime.ts';

const { listPodSandbox, listContainers } = RuntimeService.method;
const boot = readBootId();
export const bootId = boot.known ? boot.value : '';
export const isUnable = machine === null || !boot.known;
const [APP, PAUSE] = [anId('a'), anId('b')];
/** Less is between two looks at whether something is so; more is a deadline. */
const SHORTEST_DEADLINE_MS = 25;

// Of the test that runs: made before it and removed after it, for whoever imports this file.
export let stub: StubApi;
export let mode: Mode;
export let tree: ReturnType<typeof aKubeletTree>;
export let directory: string;
export let parts: ReturnType<typeof heardParts>;
/** The requests that were to change something. */
export let written: Heard[];
export let noted: unknown[];
/** What a test wants the API server to answer to them. Null: that it is done. */
export const does: { answer: (request: Heard) => { readonly status: number; readonly body: object } | null } = {
  answer: () => null,
};
export let authority: Authority;
let stillMs: number | null;
/** Once it stands still, no deadline passes, however long a busy machine takes to answer. */
export const standing: Clock = {
  ...clock,
  monoMs: () => stillMs ?? clock.monoMs(),
  after: (ms, run) => (stillMs !== null && ms >= SHORTEST_DEADLINE_MS ? () => undefined : clock.after(ms, run)),
};
export const standStill = (): number => {
  stillMs = clock.monoMs();
  return stillMs;
};
beforeAll(() => {
  authority = createAuthority();
});
afterAll(() => authority.remove());
beforeEach(async () => {
  if (machine === null) return;
  written = [];
  noted = [];
  does.answer = () => null;
  stillMs = null;
  stub = await startStubApi(authority, (request) => {
    if (request.method === 'GET') return null;
    written.push(request);
    return { ...(does.answer(request) ?? { status: 200, body: { kind: 'Status', status: 'Success' } }) } as never;
  });
  sayBoot(bootId);
  tree = aKubeletTree(machine, 'cgroupfs');
  directory = mkdtempSync(path.join(os.tmpdir(), 'nodewarden-'));
  parts = heardParts();
});
afterEach(async () => {
  await mode?.close(true);
  await stub.stop();
  rmSync(directory, { recursive: true });
});

/** The node as the API server has it. */
export const sayBoot = (bootID: string, conditions: object[] = []): void =>
  void Object.assign(stub.node, { status: { nodeInfo: { bootID }, conditions } });
export const open = (
  dry = false,
  clockOfAgent: Clock = clock,
  runtime = `${directory}/no.sock`,
  server = stub.url,
  survived?: SurvivorMemory,
): void => {
  if (machine === null) return;
  const { findings, log } = parts;
  const { cgroupRoot } = tree;
  mode = openKube(
    {
      clock: clockOfAgent,
      mounts: machine,
      cgroupRoot,
      runtimeDirectory: directory,
      findings,
      log,
      note: (rung) => void noted.push(rung),
      wake: () => undefined,
      dry,
    },
    {
      kubeconfig: writeKubeconfig(authority, server),
      nodeName: NODE,
      ...{ taintKeys: 'own', areConditionsSet: true, isBudgetRequired: false, protectNamespaces: ['kube-system'] },
      ...{ kubeletDirectory: directory, podLogsDir: directory, stateDirectory: directory, imageMinimumGCAgeMs: 1 },
      ...{ runtimeEndpoint: `unix://${runtime}`, cgroupDriver: 'cgroupfs', isDrained: true },
    },
    { sightings: new Map() },
    survived,
  );
};
export const pods = (): readonly BoundPod[] => {
  const bound = mode.pods.pods();
  return bound.known ? bound.value : [];
};
export const podNamed = (name: string): BoundPod | undefined => pods().find(({ declared }) => declared.name === name);
/** With a process in its container and one in its sandbox. */
export const runPod = async (uid: string) => {
  const path = tree.addPod('Burstable', uid, APP, PAUSE);
  const start = async (id: string) => {
    const directory = `${machine?.memory}${tree.containerIn(path, id)}`;
    const started = startWorkload({
      argv: ['/bin/sleep', '1000'],
      join: [directory],
      monoMs: clock.monoMs,
      line: () => undefined,
    });
    if (typeof started === 'string') throw new Error(started);
    onTestFinished(() => started.kill('SIGKILL'));
    await until(() => readFileSync(`${directory}/cgroup.procs`, 'latin1') !== '');
    return started;
  };
  return { app: await start(APP), pause: await start(PAUSE) };
};
/** The socket of a runtime that lists the sandbox of this pod. */
export const openRuntimeOf = async (uid: string): Promise<string> => {
  const runtime = await openStubRuntime();
  onTestFinished(() => runtime.remove());
  const labels = {
    'io.kubernetes.pod.uid': uid,
    'io.kubernetes.pod.name': 'web',
    'io.kubernetes.pod.namespace': 'default',
  };
  const sandbox = { id: PAUSE, state: PodSandboxState.SANDBOX_READY, createdAt: 1n, labels };
  runtime.on(listPodSandbox, () => ({
    items: [{ ...sandbox, annotations: { 'kubernetes.io/config.source': 'api' } }],
  }));
  runtime.on(listContainers, () => ({}));
  return runtime.socket;
};
/** Without any process. */
export const addPod = (uid: string): string => tree.addPod('Burstable', uid, APP, PAUSE);
export const statuses = { containerStatuses: [{ name: 'main', containerID: `containerd://${APP}` }] };
export const stop = (pod: BoundPod | undefined, more: Partial<StopOrder> = {}): Promise<Outcome> => {
  if (pod === undefined) throw new Error('no such pod');
  const order: StopOrder = {
    ...{ decision: 'd1', victim: pod.declared, graceMs: 1_000, why: 'eviction', isHard: true, resumedFromMs: null },
    ...{ first: 'sigkill', givesBack: 'memory' },
    ...more,
  };
  return mode.killer.stop(order, createHasten(clock));
};
