// A machine of the lab: its power is a file that fence_lab reads and writes, or that of a QEMU; its kubelet is a few requests to
// the real API server.
import fs from 'node:fs';
import path from 'node:path';
import { ask, type KubeObject, MERGE, STRATEGIC, saysReady } from '../kube/api.ts';
import type { Ledger } from './ledger.ts';
import { createPort, type Port, type PortState } from './port.ts';
import { isOn, type Qemu } from './qemu.ts';
import { nameInUse, type Volumes, volumesOf } from './volumes.ts';

export type MachineSpec = {
  readonly name: string;
  readonly labels?: { readonly [name: string]: string };
  /** Of the kubelet’s port; absent: none. */
  readonly address?: string;
  /** Its pods wait for their volumes; absent: they have none. */
  readonly volumes?: Pick<Volumes, 'isAttached'>;
  /** To which the processes of its pods write; absent: they have none. */
  readonly ledger?: Ledger;
  /** Absent: its power is a file. */
  readonly qemu?: Qemu;
};
export type Machine = {
  readonly name: string;
  readonly directory: string;
  readonly isOn: () => boolean;
  /** What the device says or does from now on, as fence_lab has it; null: the truth. */
  readonly device: (what: 'says' | 'on' | 'off', word: string | null) => void;
  /** The switch, without the device. */
  readonly power: (to: 'on' | 'off') => void;
  /** Whether its kubelet reaches the API server, and what its port answers meanwhile. */
  readonly kubelet: (state: 'up' | 'silent', port?: PortState) => void;
  /** Changes of its power: seconds since 1970, and to what. */
  readonly changes: () => readonly { readonly atMs: number; readonly to: string }[];
  /** Runs of its agent as they began and ended, with the true power at that moment. */
  readonly calls: () => readonly { readonly atMs: number; readonly action: string; readonly power: string }[];
  /** Pods whose processes run on it: namespace/name and uid. */
  readonly running: ReadonlyMap<string, string>;
  /** The kubelet of a machine that runs: renews and looks at its pods. Called often. */
  readonly tick: (nowMs: number) => Promise<void>;
  readonly pod: (type: string, pod: KubeObject) => void;
  readonly close: () => Promise<void>;
};

const RENEW_MS = 10_000;
const STATUS_MS = 60_000;
const BOOT_MS = 2_000;
const LEASES = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';

let boots = 0;
const newBoot = (): string =>
  `${String(++boots).padStart(8, '0')}-0000-4000-8000-${Date.now().toString(16).padStart(12, '0')}`;

export async function aMachine(spec: MachineSpec, machines: string, started: PodStarted): Promise<Machine> {
  const { name, labels = {}, address, volumes, ledger, qemu } = spec;
  const directory = qemu?.directory ?? path.join(machines, name);
  const file = (of: string): string => path.join(directory, of);
  if (qemu === undefined) {
    fs.rmSync(directory, { recursive: true, force: true });
    fs.mkdirSync(directory, { recursive: true });
    fs.writeFileSync(file('power'), 'on\n');
  }
  const port: Port | null = address === undefined ? null : createPort(address);
  await port?.set('answers');
  const running = new Map<string, string>();
  /** By the uid of their pod: mounted volumes. */
  const inUse = new Map<string, readonly string[]>();
  const pods = new Map<string, KubeObject>();
  let power = 'on';
  let boot = newBoot();
  let onSinceMs = 0;
  let state: 'up' | 'silent' = 'up';
  /** What the kubelet's port answers while the machine runs. */
  let portState: PortState = 'answers';
  let renewedMs = 0;
  let toldMs = 0;
  let told = '';

  const readPower = (): string => {
    if (qemu !== undefined) return isOn(qemu) ? 'on' : 'off';
    const said = fs.readFileSync(file('power'), 'utf8').trim();
    return said === '' ? power : said;
  };
  const isUp = (nowMs: number): boolean => power === 'on' && state === 'up' && nowMs >= onSinceMs + BOOT_MS;

  /** A process ends with the power, whoever switched it off. */
  const follow = async (nowMs: number): Promise<void> => {
    const now = readPower();
    if (now === power) return;
    power = now;
    running.clear();
    inUse.clear();
    if (now === 'on') {
      boot = newBoot();
      onSinceMs = nowMs;
    }
    await port?.set(now === 'on' ? portState : 'silent');
  };

  const renew = async (nowMs: number): Promise<void> => {
    if (nowMs >= renewedMs + RENEW_MS) {
      renewedMs = nowMs;
      await ask(`${LEASES}/${name}`, { method: 'PATCH', type: MERGE, body: { spec: { renewTime: micro(nowMs) } } });
    }
    if (nowMs >= toldMs + STATUS_MS || told !== boot) {
      toldMs = nowMs;
      told = boot;
      await ask(`/api/v1/nodes/${name}/status`, {
        method: 'PATCH',
        type: STRATEGIC,
        body: { status: statusOf({ name, boot, address, inUse: [...inUse.values()].flat() }, nowMs) },
      });
    }
  };

  /** The next status says so. */
  const unmount = (uid: string): void => {
    if (inUse.delete(uid)) toldMs = 0;
  };
  const mounts = async (pod: KubeObject, uid: string): Promise<boolean> => {
    if (volumes === undefined) return true;
    const names = await volumesOf(pod);
    if (names === null || !names.every((volume) => volumes.isAttached(name, volume))) return false;
    inUse.set(uid, names.map(nameInUse));
    if (names.length > 0) toldMs = 0;
    return true;
  };

  const runPod = async (pod: KubeObject): Promise<void> => {
    const { namespace = 'default', name: of, uid = '', deletionTimestamp } = pod.metadata;
    const place = `/api/v1/namespaces/${namespace}/pods/${of}`;
    const key = keyOf(pod);
    if (deletionTimestamp !== undefined) {
      running.delete(key);
      ledger?.stop(uid);
      const body = { gracePeriodSeconds: 0, preconditions: { uid } };
      unmount(uid);
      await ask(place, { method: 'DELETE', body });
      pods.delete(uid);
      return;
    }
    if (running.get(key) === uid && saysReady(pod)) return;
    if (running.get(key) !== uid && !(await mounts(pod, uid))) return;
    if (running.get(key) !== uid) {
      started(name, key, uid);
      ledger?.start(directory, key, uid);
    }
    running.set(key, uid);
    pods.set(uid, await ask(`${place}/status`, { method: 'PATCH', type: STRATEGIC, body: { status: podStatus(pod) } }));
  };

  await createNode(name, { 'kubernetes.io/hostname': name, ...labels });
  return {
    name,
    directory,
    running,
    isOn: () => readPower() === 'on',
    device: (what, word) =>
      word === null ? fs.rmSync(file(what), { force: true }) : fs.writeFileSync(file(what), `${word}\n`),
    power: (to) => {
      fs.writeFileSync(file('power.lab'), `${to}\n`);
      fs.renameSync(file('power.lab'), file('power'));
    },
    kubelet: (to, answers = to === 'up' ? 'answers' : 'silent') => {
      state = to;
      portState = answers;
      if (power === 'on') void port?.set(answers);
    },
    ...notesOf(directory),
    tick: async (nowMs) => {
      await follow(nowMs);
      if (!isUp(nowMs)) return;
      await renew(nowMs);
      for (const pod of [...pods.values()]) await runPod(pod);
    },
    pod: (type, pod) => {
      const uid = pod.metadata.uid ?? '';
      if (type === 'DELETED') pods.delete(uid);
      else pods.set(uid, pod);
      // Force-deleted: whether its process ends, only its machine knows.
      if (type === 'DELETED' && isUp(Date.now()) && running.get(keyOf(pod)) === uid) {
        running.delete(keyOf(pod));
        ledger?.stop(uid);
        unmount(uid);
      }
    },
    close: async () => {
      await port?.set('refused');
    },
  };
}

/** What its agent wrote down. */
export const notesOf = (directory: string): Pick<Machine, 'changes' | 'calls'> => ({
  changes: () => timesIn(path.join(directory, 'power.log')).map(({ atMs, word }) => ({ atMs, to: word })),
  calls: () =>
    timesIn(path.join(directory, 'calls')).map(({ atMs, word, rest }) => ({ atMs, action: word, power: rest })),
});

/** What its power did since that change of it: "off on". */
export const switched = ({ changes }: Machine, since = 0): string =>
  changes()
    .slice(since)
    .map(({ to }) => to)
    .join(' ');

/** How often it was powered off. */
export const offs = ({ changes }: Machine): number => changes().filter(({ to }) => to === 'off').length;

/** namespace/name. */
export const keyOf = ({ metadata: { namespace = 'default', name } }: KubeObject): string => `${namespace}/${name}`;
export type PodStarted = (machine: string, key: string, uid: string) => void;

type Line = { readonly atMs: number; readonly word: string; readonly rest: string };

function timesIn(file: string): readonly Line[] {
  if (!fs.existsSync(file)) return [];
  const lines = fs.readFileSync(file, 'utf8').split('\n').filter(Boolean);
  return lines.map((line) => {
    const [seconds = '', word = '', rest = ''] = line.split(' ');
    return { atMs: Number(seconds) * 1_000, word, rest };
  });
}

const micro = (ms: number): string => new Date(ms).toISOString().replace('Z', '000Z');
const second = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;

export async function createNode(name: string, labels: { readonly [name: string]: string }): Promise<void> {
  const annotations = { 'volumes.kubernetes.io/controller-managed-attach-detach': 'true' };
  const node = { apiVersion: 'v1', kind: 'Node', metadata: { name, labels, annotations } };
  await ask('/api/v1/nodes', { method: 'POST', body: node });
  const spec = { holderIdentity: name, leaseDurationSeconds: 40, renewTime: micro(Date.now()) };
  const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name }, spec };
  await ask(LEASES, { method: 'POST', body: lease }).catch((error: Error) => {
    if (!error.message.includes(': 409 ')) throw error;
  });
}

export async function deleteNode(name: string): Promise<void> {
  await ask(`/api/v1/nodes/${name}`, { method: 'DELETE' }).catch(() => undefined);
  await ask(`${LEASES}/${name}`, { method: 'DELETE' }).catch(() => undefined);
}

type Told = {
  readonly name: string;
  readonly boot: string;
  readonly address: string | undefined;
  readonly inUse: readonly string[];
};

function statusOf({ name, boot, address, inUse }: Told, nowMs: number) {
  const condition = (type: string, status: string) => ({
    ...{ type, status, reason: 'KubeletReady', message: 'fake kubelet' },
    lastHeartbeatTime: second(nowMs),
    lastTransitionTime: second(nowMs),
  });
  const amounts = { cpu: '8', memory: '16Gi', pods: '110', 'ephemeral-storage': '100Gi' };
  return {
    capacity: amounts,
    allocatable: amounts,
    conditions: [
      condition('Ready', 'True'),
      condition('MemoryPressure', 'False'),
      condition('DiskPressure', 'False'),
      condition('PIDPressure', 'False'),
    ],
    addresses: [
      { type: 'Hostname', address: name },
      ...(address === undefined ? [] : [{ type: 'InternalIP', address }]),
    ],
    volumesInUse: inUse,
    daemonEndpoints: { kubeletEndpoint: { Port: 10250 } },
    nodeInfo: {
      bootID: boot,
      ...{ machineID: name, systemUUID: name, kernelVersion: 'lab', osImage: 'lab', architecture: 'amd64' },
      ...{
        containerRuntimeVersion: 'lab://1',
        kubeletVersion: 'v1.20.2',
        kubeProxyVersion: 'v1.20.2',
        operatingSystem: 'linux',
      },
    },
  };
}

function podStatus(pod: KubeObject) {
  const at = second(Date.now());
  const condition = (type: string) => ({ type, status: 'True', lastTransitionTime: at });
  return {
    phase: 'Running',
    startTime: at,
    conditions: [condition('Initialized'), condition('Ready'), condition('ContainersReady'), condition('PodScheduled')],
    containerStatuses: pod['spec'].containers.map(({ name, image }: { name: string; image: string }) => ({
      ...{ name, image, imageID: image, ready: true, started: true, restartCount: 0 },
      state: { running: { startedAt: at } },
    })),
  };
}
