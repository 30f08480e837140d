// The machines of a scene, ticked in turn, and what nobody may ever see of them.
import path from 'node:path';
import { ask, type KubeObject, MERGE, saysReady, watch } from '../kube/api.ts';
import { RUN } from '../kube/cluster.ts';
import { clock, until } from '../scene.ts';
import { aMachine, deleteNode, type Machine, type MachineSpec, type PodStarted } from './machine.ts';

export const MACHINES = path.join(RUN, 'machines');
export const OUT_OF_SERVICE = 'node.kubernetes.io/out-of-service';
export const FENCED = 'nodewarden.dev/fenced';

export type Mark = {
  readonly atMs: number;
  readonly node: string;
  readonly isTainted: boolean;
  readonly isOn: boolean;
};
export type Fleet = {
  readonly machines: readonly Machine[];
  readonly machine: (name: string) => Machine;
  readonly node: (name: string) => KubeObject;
  /** As nobody has ever touched it: it runs, is Ready, and has no mark of the guard. */
  readonly isBack: (name: string) => boolean;
  /** Each change of our out-of-service taint, with the machine's power at that moment. */
  readonly marks: readonly Mark[];
  /** What may never happen: a taint of ours on a machine that runs or without proof, a member that runs twice. */
  readonly wrong: readonly string[];
  /** Members that ran twice because of somebody who deleted them by force. */
  readonly overlaps: readonly string[];
  /** Its pods are deleted by force, its device lies, or a person says that it is off: what follows from that is no fault of the guard's. */
  readonly believe: (name: string) => void;
  readonly close: () => Promise<void>;
};

/** A crowd would keep this process from answering for the API server, which it stands before. */
const tickMs = (machines: number): number => (machines > 20 ? 2_000 : 200);
/** A taint outlives the power-on by somebody else for one watch at most (guard.md 9.2), and some time for a busy machine. */
const AWAY_MS = 15_000;

/** `guests`: machines that are there already. */
export async function aFleet(
  specs: readonly MachineSpec[],
  guests: readonly ((started: PodStarted) => Machine)[] = [],
): Promise<Fleet> {
  const wrong: string[] = [];
  const overlaps: string[] = [];
  const believed = new Set<string>();
  const marks: Mark[] = [];
  const nodes = new Map<string, KubeObject>();
  const machines: Machine[] = [];
  const started = (machine: string, key: string): void => {
    for (const other of machines) {
      if (other.name !== machine && other.isOn() && other.running.has(key)) {
        const list = believed.has(other.name) ? overlaps : wrong;
        list.push(`${key} starts on ${machine} while it runs on ${other.name}`);
      }
    }
  };
  for (let at = 0; at < specs.length; at += 20) {
    machines.push(...(await Promise.all(specs.slice(at, at + 20).map((spec) => aMachine(spec, MACHINES, started)))));
  }
  machines.push(...guests.map((guest) => guest(started)));
  const byName = new Map(machines.map((machine) => [machine.name, machine]));
  const taintedOnSince = new Map<string, number>();

  const seeNode = (type: string, node: KubeObject): void => {
    const { name } = node.metadata;
    const machine = byName.get(name);
    if (machine === undefined) return;
    if (type === 'DELETED') nodes.delete(name);
    else nodes.set(name, node);
    const isTainted = type !== 'DELETED' && taintOf(node) !== null;
    if ((marks.findLast((mark) => mark.node === name)?.isTainted ?? false) === isTainted) return;
    const isOn = machine.isOn();
    marks.push({ atMs: Date.now(), node: name, isTainted, isOn });
    if (!isTainted || believed.has(name)) return;
    if (isOn) wrong.push(`${name} got the taint while its machine runs`);
    else if (!isProven(machine)) wrong.push(`${name} got the taint without two rounds of status since it is off`);
  };
  const endNodes = watch('/api/v1/nodes', seeNode);
  const endPods = watch('/api/v1/pods', (type, pod) => byName.get(pod['spec']?.nodeName)?.pod(type, pod));

  let isOver = false;
  const tick = async (machine: Machine): Promise<void> => {
    while (!isOver) {
      // The API server may be stopped by a scene.
      await machine.tick(Date.now()).catch(() => undefined);
      watchTaint(machine);
      await new Promise((resolve) => clock.after(tickMs(machines.length), () => resolve(null)));
    }
  };
  const watchTaint = ({ name, isOn }: Machine): void => {
    const node = nodes.get(name);
    if (node === undefined || taintOf(node) === null || !isOn()) {
      taintedOnSince.delete(name);
      return;
    }
    const sinceMs = taintedOnSince.get(name) ?? Date.now();
    taintedOnSince.set(name, sinceMs);
    if (Date.now() - sinceMs > AWAY_MS && sinceMs > 0 && !believed.has(name)) {
      wrong.push(`${name} kept the taint for ${AWAY_MS / 1000} s while its machine ran`);
      taintedOnSince.set(name, -1);
    }
  };
  const ticking = machines.map(tick);

  await until('every node is Ready', () => (machines.every(({ name }) => saysReady(nodes.get(name))) ? true : null));
  const machine = (name: string): Machine => {
    const found = byName.get(name);
    if (found === undefined) throw new Error(`no machine ${name}`);
    return found;
  };
  const node = (name: string): KubeObject => {
    const found = nodes.get(name);
    if (found === undefined) throw new Error(`no node ${name}`);
    return found;
  };
  return {
    ...{ machines, marks, wrong, overlaps, machine, node },
    isBack: (name) => machine(name).isOn() && saysReady(nodes.get(name)) && marksOf(node(name)).length === 0,
    believe: (name) => believed.add(name),
    close: async () => {
      isOver = true;
      endNodes();
      endPods();
      await Promise.all(ticking);
      await Promise.all(machines.map(({ close }) => close()));
      for (const { name } of machines) await deleteNode(name);
    },
  };
}

/** A scene waits for this: what has never said on proves nothing. */
export const patrolled = (machines: readonly Machine[]): Promise<true> =>
  until(
    'every device has said on',
    () => machines.every((one) => one.calls().some(({ action }) => action === 'ended-status')) || null,
    300_000,
  );

/** Two status of its device, 5 s apart, found the machine off since it was last on (guard.md 8.3). */
function isProven({ calls }: Machine): boolean {
  const said = calls().filter(({ action }) => action === 'ended-status');
  const since = said.slice(said.findLastIndex(({ power }) => power === 'on') + 1);
  return (since.at(-1)?.atMs ?? 0) - (since[0]?.atMs ?? 0) >= ROUNDS_APART_MS;
}
const ROUNDS_APART_MS = 5_000;

type Taint = { readonly key: string; readonly value?: string };
const taintsOf = (node: KubeObject): readonly Taint[] => node['spec'].taints ?? [];

/** All of them; what the guard, or Kubernetes, has on it meanwhile is lost. */
export async function setTaints(node: string, taints: readonly (Taint & { readonly effect: string })[]): Promise<void> {
  await ask(`/api/v1/nodes/${node}`, { method: 'PATCH', type: MERGE, body: { spec: { taints } } });
}

/** The value of our out-of-service taint. */
export function taintOf(node: KubeObject): string | null {
  const found = taintsOf(node).find(
    ({ key, value }) => key === OUT_OF_SERVICE && (value ?? '').startsWith('nodewarden.'),
  );
  return found?.value ?? null;
}

/** Every mark of the guard on a node: its taints and its condition. */
export function marksOf(node: KubeObject): readonly string[] {
  const conditions: readonly { readonly type: string; readonly status: string }[] = node['status'].conditions ?? [];
  return [
    ...taintsOf(node).flatMap(({ key, value }) =>
      key === FENCED || (key === OUT_OF_SERVICE && (value ?? '').startsWith('nodewarden.')) ? [key] : [],
    ),
    ...conditions
      .filter(({ type, status }) => type === 'NodewardenFenced' && status === 'True')
      .map(({ type }) => type),
  ];
}

/**
 * A StatefulSet of one member, which tolerates silence for as long as Kubernetes lets it. `hasVolume`: of the claim
 * data-<name>-0. `spec`: other fields of its pod.
 */
export async function aStatefulSet(
  name: string,
  selector: { readonly [label: string]: string },
  hasVolume = false,
  spec: object = {},
): Promise<void> {
  const labels = { app: name };
  const template = {
    metadata: { labels },
    spec: {
      nodeSelector: selector,
      terminationGracePeriodSeconds: 1,
      automountServiceAccountToken: false,
      containers: [{ name: 'main', image: 'lab' }],
      ...spec,
    },
  };
  await ask('/apis/apps/v1/namespaces/default/statefulsets', {
    method: 'POST',
    body: {
      ...{ apiVersion: 'apps/v1', kind: 'StatefulSet', metadata: { name } },
      spec: {
        ...{ serviceName: name, replicas: 1, selector: { matchLabels: labels }, template },
        ...(hasVolume ? { volumeClaimTemplates: [CLAIM] } : {}),
      },
    },
  });
}

const CLAIM = {
  metadata: { name: 'data' },
  spec: { accessModes: ['ReadWriteOnce'], storageClassName: '', resources: { requests: { storage: '1Gi' } } },
};
