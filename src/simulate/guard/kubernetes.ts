import type { Agenda } from './agenda.ts';
import type { ApiMode, Fact, NodeName } from './facts.ts';
import type { Machine } from './machine.ts';
import { type NodeObject, type PodObject, type Renewals, type Store, type Taint, uidOf } from './objects.ts';

/** How long Kubernetes takes for what (guard.md 12.1); each can be set under `world`. */
export type KubernetesTimes = {
  readonly readyUnknownAfterMs: number;
  /** The toleration of `unreachable` that pods get by default. */
  readonly evictAfterMs: number;
  readonly podGcEveryMs: number;
  readonly detachMs: number;
  readonly successorMs: number;
  /** A kubelet stops a pod that is being deleted. */
  readonly stopMs: number;
};

export const OUT_OF_SERVICE = 'node.kubernetes.io/out-of-service';
const UNREACHABLE = 'node.kubernetes.io/unreachable';
const ORPHAN_AFTER_MS = 40_000;
const MONITOR_MS = 5_000;
const RESCHEDULE_MS = 10_000;

type Surroundings = {
  readonly agenda: Agenda;
  readonly tell: (fact: Fact) => void;
  readonly store: Store;
  readonly machines: ReadonlyMap<NodeName, Machine>;
  readonly renewals: ReadonlyMap<NodeName, Renewals>;
  readonly times: KubernetesTimes;
  readonly apiMode: () => ApiMode;
  /** Whether the network lets the node reach the API server. */
  readonly isConnected: (node: NodeName) => boolean;
};

export type Kubernetes = {
  /** To be called whenever a kubelet may have gained or lost the API server. */
  readonly look: (node: NodeName) => void;
  readonly apiIsBack: () => void;
  /** After its taints were changed. */
  readonly tainted: (node: NodeName) => void;
  readonly deleteNode: (node: NodeName) => void;
  /** The node's agent takes its pods down, or leaves them to come back, and announces it. */
  readonly announce: (node: NodeName, kind: 'shutdown' | 'reboot', takesMs: number) => void;
  readonly talks: (node: NodeName) => boolean;
};

/** A small model of kubelets and controllers: what they do to pods, taints and volumes. */
export function createKubernetes(world: Surroundings): Kubernetes {
  const { agenda, tell, store, machines, renewals, times, apiMode } = world;
  const now = agenda.now;
  const collecting = new Set<NodeName>();
  let scheduled = 0;
  let uids = 0;
  const atFirst = new Map(store.nodes);
  const registrations = new Map<NodeName, { readonly kubeletStart: number; readonly nth: number }>();

  const reachesApi = (node: NodeName): boolean =>
    machines.get(node)?.hasKubelet() === true && world.isConnected(node) && apiMode() !== 'down';
  const talks = (node: NodeName): boolean => reachesApi(node) && store.node(node) !== null;

  /** A kubelet makes its Node once it has started: one that runs does not notice that somebody has deleted it. */
  function register(node: NodeName): void {
    const machine = machines.get(node);
    const first = atFirst.get(node);
    const last = registrations.get(node) ?? { kubeletStart: 1, nth: 1 };
    if (machine === undefined || first === undefined || !reachesApi(node)) return;
    if (machine.kubeletStarts() === last.kubeletStart) return;
    const nth = last.nth + (store.node(node) === null ? 1 : 0);
    registrations.set(node, { kubeletStart: machine.kubeletStarts(), nth });
    if (nth === last.nth) return;
    const ready = { status: 'False', reason: 'KubeletNotReady', heartbeat: String(now()) } as const;
    store.addNode({ ...first, uid: uidOf(node, nth), bootId: machine.bootId(), ready });
  }

  function look(node: NodeName): void {
    register(node);
    const lease = renewals.get(node);
    if (lease === undefined || lease.isRenewing() === talks(node)) return;
    lease.set(talks(node), now());
    if (!talks(node)) {
      const sinceMs = lease.lastMs(now());
      tell({ kind: 'silent', atMs: now(), node, sinceMs });
      agenda.at(sinceMs + times.readyUnknownAfterMs, () => judge(node));
      return;
    }
    tell({ kind: 'heard', atMs: now(), node });
    const bootId = machines.get(node)?.bootId();
    agenda.at(lease.nextMs(now()) ?? now(), () => {
      if (talks(node) && machines.get(node)?.bootId() === bootId) contact(node);
    });
  }

  /** The kubelet is back: it says that it is ready, and makes its machine as the API says. */
  function contact(node: NodeName): void {
    const machine = machines.get(node);
    const object = store.node(node);
    if (machine === undefined || object === null) return;
    const isNewBoot = object.bootId !== machine.bootId();
    store.putNode(node, {
      ready: { status: 'True', reason: 'KubeletReady', heartbeat: String(now()) },
      bootId: machine.bootId(),
      isShuttingDown: object.isShuttingDown && !isNewBoot,
      taints: object.taints.filter(({ key }) => key !== UNREACHABLE),
    });
    const pods = store.podsOf(node);
    for (const uid of [...machine.processes.keys()]) {
      if (!pods.some((pod) => pod.uid === uid)) machine.stop(uid);
    }
    for (const pod of pods) {
      if (pod.isTerminating) stopSoon(pod);
      else start(pod);
    }
    detachAll(node);
  }

  function stopSoon(pod: PodObject): void {
    agenda.after(times.stopMs, () => {
      if (!talks(pod.node) || !isStored(pod)) return;
      machines.get(pod.node)?.stop(pod.uid);
      if (!pod.hasFinalizer) free(pod, 'kubelet');
    });
  }

  /** The node controller: no renewal for so long by its own clock. */
  function judge(node: NodeName): void {
    const object = store.node(node);
    const lastMs = renewals.get(node)?.lastMs(now()) ?? now();
    if (object === null || apiMode() === 'down' || now() - lastMs < times.readyUnknownAfterMs) return;
    if (object.ready.status === 'Unknown') return;
    const unreachable: Taint = { key: UNREACHABLE, value: '', effect: 'NoExecute' };
    store.putNode(node, {
      ready: { status: 'Unknown', reason: 'NodeStatusUnknown', heartbeat: object.ready.heartbeat },
      taints: [...object.taints.filter(({ key }) => key !== UNREACHABLE), unreachable],
    });
    agenda.after(times.evictAfterMs, () => {
      if (store.node(node)?.taints.includes(unreachable) === true && apiMode() !== 'down') terminateAll(node);
    });
  }

  function terminateAll(node: NodeName): void {
    for (const pod of store.podsOf(node)) {
      if (pod.tolerates || pod.isTerminating) continue;
      const terminating = { ...pod, isTerminating: true };
      store.putPod(terminating);
      if (talks(node)) stopSoon(terminating);
    }
  }

  const isOutOfService = (node: NodeObject | null): boolean =>
    node?.taints.some(({ key }) => key === OUT_OF_SERVICE) === true;

  function tainted(node: NodeName): void {
    if (!isOutOfService(store.node(node))) return;
    terminateAll(node);
    detachAll(node);
    if (collecting.has(node)) return;
    collecting.add(node);
    nextCollection(node);
  }

  function nextCollection(node: NodeName): void {
    const every = times.podGcEveryMs;
    agenda.at((Math.floor(now() / every) + 1) * every, () => collect(node));
  }

  /** PodGC: what terminates on a tainted node that is not ready is removed by force (k/k gcTerminating). */
  function collect(node: NodeName): void {
    const object = store.node(node);
    if (!isOutOfService(object)) {
      collecting.delete(node);
      return;
    }
    if (apiMode() !== 'down' && object?.ready.status !== 'True') {
      for (const pod of store.podsOf(node)) if (pod.isTerminating && !pod.hasFinalizer) free(pod, 'out-of-service');
    }
    nextCollection(node);
  }

  const isStored = ({ node, uid }: PodObject): boolean => store.podsOf(node).some((pod) => pod.uid === uid);

  function free(pod: PodObject, by: Extract<Fact, { kind: 'pod-freed' }>['by']): void {
    if (!isStored(pod)) return;
    store.deletePod(pod);
    tell({ kind: 'pod-freed', atMs: now(), node: pod.node, pod: pod.name, uid: pod.uid, by });
    detachAll(pod.node);
    if (pod.statefulSet !== null) agenda.after(times.successorMs, () => succeed(pod));
  }

  /** Volumes that no pod of the node uses, if its kubelet has unmounted them or the node is out of service. */
  function detachAll(node: NodeName): void {
    for (const attachment of store.attachmentsOf(node)) {
      const isUsed = (): boolean => store.podsOf(node).some(({ name }) => name === attachment.pod);
      const object = store.node(node);
      if (isUsed() || !attachment.detaches || !(talks(node) || isOutOfService(object) || object === null)) continue;
      agenda.after(times.detachMs, () => {
        if (isUsed() || apiMode() === 'down' || !store.attachmentsOf(node).includes(attachment)) return;
        store.detach(attachment);
        tell({ kind: 'detached', atMs: now(), node, pod: attachment.pod });
        for (const pod of store.podsNamed(attachment.pod)) start(pod);
      });
    }
  }

  function succeed(before: PodObject): void {
    const node = apiMode() === 'down' ? null : nextSchedulable();
    if (node === null) {
      agenda.after(RESCHEDULE_MS, () => succeed(before));
      return;
    }
    uids += 1;
    const pod = { ...before, uid: `${before.name}-${uids}`, node, isTerminating: false };
    store.putPod(pod);
    start(pod);
  }

  function nextSchedulable(): NodeName | null {
    const all = [...store.nodes.values()];
    for (let i = 0; i < all.length; i++) {
      const node = all[(scheduled + i) % all.length];
      const isFit = node !== undefined && node.ready.status === 'True' && !node.isCordoned && !node.isShuttingDown;
      if (!isFit || node.taints.length > 0 || !talks(node.name)) continue;
      scheduled = (scheduled + i + 1) % all.length;
      return node.name;
    }
    return null;
  }

  /** Its kubelet starts it as soon as no other node holds its volumes. */
  function start(pod: PodObject): void {
    if (pod.isTerminating || !talks(pod.node) || !isStored(pod)) return;
    const elsewhere = store.attachmentsFor(pod.name).some(({ node }) => node !== pod.node);
    if (pod.volumes > 0 && elsewhere) return;
    for (let i = 0; i < pod.volumes; i++) {
      store.attach({ name: `${pod.name}/${i}`, pod: pod.name, node: pod.node, detaches: pod.detaches });
    }
    machines.get(pod.node)?.start(pod.uid, pod.name);
  }

  function announce(node: NodeName, kind: 'shutdown' | 'reboot', takesMs: number): void {
    const machine = machines.get(node);
    if (machine?.hasKubelet() !== true) return;
    const bootId = machine.bootId();
    if (talks(node)) store.putNode(node, { isShuttingDown: true });
    agenda.after(takesMs, () => {
      if (!machine.hasKubelet() || machine.bootId() !== bootId) return;
      if (kind === 'reboot') {
        machine.reboot();
        return;
      }
      const pods = store.podsOf(node);
      for (const uid of [...machine.processes.keys()]) machine.stop(uid);
      if (talks(node)) for (const pod of pods) free(pod, 'shutdown');
      machine.switchChassis(false, null);
    });
  }

  function deleteNode(node: NodeName): void {
    const taints = store.node(node)?.taints ?? [];
    store.deleteNode(node);
    for (const { key, value } of taints) tell({ kind: 'taint-removed', atMs: now(), node, key, value, by: null });
    tell({ kind: 'node-deleted', atMs: now(), node });
    look(node);
    const sweep = (): void => {
      if (apiMode() === 'down') agenda.after(ORPHAN_AFTER_MS, sweep);
      else if (store.node(node) === null) for (const pod of store.podsOf(node)) free(pod, 'node-deleted');
    };
    agenda.after(ORPHAN_AFTER_MS, sweep);
  }

  return {
    look,
    apiIsBack: () => agenda.after(MONITOR_MS, () => [...store.nodes.keys()].forEach(judge)),
    tainted,
    deleteNode,
    announce,
    talks,
  };
}
