import { type GuardConfig, planOf } from '../../core/guard/config.ts';
import { hashOf } from '../../core/hash.ts';
import type { MonoMs } from '../../core/reading.ts';
import { type Agenda, createAgenda } from './agenda.ts';
import { createDevice, type Device } from './device.ts';
import type { ApiMode, Fact, NodeName } from './facts.ts';
import { createKubernetes, type Kubernetes } from './kubernetes.ts';
import { createMachine, type Machine } from './machine.ts';
import { createRenewals, createStore, type NodeObject, type Renewals, type Store, uidOf } from './objects.ts';
import type { GuardScenario, ScenarioDevice, ScenarioNode } from './scenario.ts';

/** Everything but the guards: machines, devices, the network, the API server and Kubernetes. */
export type World = {
  readonly agenda: Agenda;
  readonly facts: Fact[];
  readonly tell: (fact: Fact) => void;
  readonly store: Store;
  readonly kubernetes: Kubernetes;
  readonly machines: ReadonlyMap<NodeName, Machine>;
  readonly devices: ReadonlyMap<string, Device>;
  readonly devicesOf: (node: NodeName) => readonly Device[];
  readonly network: Network;
  readonly api: Api;
  /** `renewTime` of a node's lease as the API server has it now; null: there is no such lease. */
  readonly renewTime: (node: NodeName) => string | null;
  readonly leaseEveryMs: number;
  /** The clock of a machine was set. */
  readonly stepClock: (node: NodeName, ms: number) => void;
  /** Called whenever a machine changed: what runs on it may have ended. */
  readonly onChange: (listener: (machine: Machine) => void) => void;
  readonly onFact: (listener: (fact: Fact) => void) => void;
};

export type Network = {
  readonly cut: (nodes: readonly NodeName[], from: 'api' | 'all') => void;
  readonly heal: (nodes: readonly NodeName[] | null) => void;
  readonly reachesApi: (node: NodeName) => boolean;
  readonly isCutOff: (node: NodeName) => boolean;
};

export type Api = {
  readonly mode: () => ApiMode;
  readonly setMode: (mode: ApiMode) => void;
  /** What lists and watches serve: as it is, or frozen. */
  readonly cached: () => {
    readonly nodes: ReadonlyMap<NodeName, NodeObject>;
    readonly renewTime: (node: NodeName) => string | null;
  };
};

/** By so much a clock was set then. */
type ClockStep = { readonly atMs: number; readonly ms: number };

export function createWorld(scenario: GuardScenario): World {
  const { world: times, config } = scenario;
  const agenda = createAgenda();
  const facts: Fact[] = [];
  const tellers: ((fact: Fact) => void)[] = [];
  const tell = (fact: Fact): void => {
    facts.push(fact);
    for (const hear of tellers) hear(fact);
  };
  const listeners: ((machine: Machine) => void)[] = [];
  const steps = new Map<NodeName, readonly ClockStep[]>();
  let mode: ApiMode = 'up';

  const changed = (machine: Machine): void => {
    kubernetes.look(machine.name);
    for (const listener of listeners) listener(machine);
  };
  const machines = new Map<NodeName, Machine>();
  const renewals = new Map<NodeName, Renewals>();
  const devices = new Map<string, Device>();
  for (const node of scenario.nodes) {
    const outlets = node.devices.filter(({ kind }) => kind === 'pdu').length;
    const machine = createMachine(node.name, outlets, { agenda, tell, bootMs: times.bootTakes, changed });
    machines.set(node.name, machine);
    renewals.set(node.name, createRenewals(phaseOf(node.name, times.leaseEvery), times.leaseEvery));
    for (const device of devicesFor(node, machine, { agenda, config, times })) devices.set(device.key, device);
  }
  const store = createStore(scenario.nodes.map((node) => objectOf(node, machines.get(node.name)?.bootId() ?? '')));
  const network = createNetwork((nodes) => {
    for (const node of nodes) kubernetes.look(node);
  }, machines);
  const kubernetes = createKubernetes({
    agenda,
    tell,
    store,
    machines,
    renewals,
    times: {
      readyUnknownAfterMs: times.readyUnknownAfter,
      evictAfterMs: times.evictAfter,
      podGcEveryMs: times.podGcEvery,
      detachMs: times.detachAfter,
      successorMs: times.successorAfter,
      stopMs: times.podStop,
    },
    apiMode: () => mode,
    isConnected: network.reachesApi,
  });
  const renewTime = (node: NodeName): string | null => {
    const lease = renewals.get(node);
    if (lease === undefined || store.node(node) === null) return null;
    // A clock that is set changes what is written from then on, not what was written before.
    const lastMs = lease.lastMs(agenda.now());
    const before = (steps.get(node) ?? []).filter(({ atMs }) => atMs <= lastMs);
    return String(before.reduce((sum, { ms }) => sum + ms, lastMs));
  };
  for (const node of scenario.nodes) place(node, store, machines.get(node.name));
  return {
    agenda,
    facts,
    tell,
    store,
    kubernetes,
    machines,
    devices,
    devicesOf: (node) => keysOf(config, node).flatMap((key) => devices.get(key) ?? []),
    network,
    api: createApi(
      {
        mode: () => mode,
        set: (next) => {
          mode = next;
        },
      },
      { agenda, tell, store, renewTime, kubernetes, machines },
    ),
    renewTime,
    leaseEveryMs: times.leaseEvery,
    stepClock: (node, ms) => void steps.set(node, [...(steps.get(node) ?? []), { atMs: agenda.now(), ms }]),
    onChange: (listener) => void listeners.push(listener),
    onFact: (listener) => void tellers.push(listener),
  };
}

function createNetwork(look: (nodes: readonly NodeName[]) => void, machines: ReadonlyMap<NodeName, Machine>): Network {
  const cuts = new Map<NodeName, 'api' | 'all'>();
  return {
    cut: (nodes, from) => {
      for (const node of nodes) cuts.set(node, from);
      look(nodes);
    },
    heal: (nodes) => {
      const healed = nodes ?? [...cuts.keys()];
      for (const node of healed) cuts.delete(node);
      look(healed.filter((node) => machines.has(node)));
    },
    reachesApi: (node) => !cuts.has(node),
    isCutOff: (node) => cuts.get(node) === 'all',
  };
}

type ApiParts = Pick<World, 'agenda' | 'tell' | 'store' | 'renewTime' | 'kubernetes' | 'machines'>;

function createApi(
  current: { readonly mode: () => ApiMode; readonly set: (mode: ApiMode) => void },
  { agenda, tell, store, renewTime, kubernetes, machines }: ApiParts,
): Api {
  let frozen: ReturnType<Api['cached']> | null = null;
  return {
    mode: current.mode,
    setMode: (next) => {
      const before = current.mode();
      current.set(next);
      tell({ kind: 'api', atMs: agenda.now(), mode: next });
      frozen = null;
      if (next === 'stale') {
        const leases = new Map([...store.nodes.keys()].map((node) => [node, renewTime(node)]));
        frozen = { nodes: new Map(store.nodes), renewTime: (node) => leases.get(node) ?? null };
      }
      for (const node of machines.keys()) kubernetes.look(node);
      if (before === 'down' && next !== 'down') kubernetes.apiIsBack();
    },
    cached: () => frozen ?? { nodes: store.nodes, renewTime },
  };
}

/** Kubelets start when they start: spread evenly, and the same in every run. */
function phaseOf(name: string, everyMs: MonoMs): number {
  return hashOf(name) % everyMs;
}

/** The n-th device of a node, in the words of its plan. */
export function methodKey(node: NodeName, devices: readonly ScenarioDevice[], index: number): string {
  const device = devices[index];
  if (device === undefined) throw new Error(`${node} has no device ${index}`);
  const before = devices.slice(0, index).filter(({ kind }) => kind === device.kind).length;
  const total = devices.filter(({ kind }) => kind === device.kind).length;
  return `${device.kind}${total > 1 ? `-${before + 1}` : ''} ${node}`;
}

function keysOf(config: GuardConfig, node: NodeName): readonly string[] {
  const plan = planOf(config, node);
  return plan === null ? [] : [...plan.isolation, ...plan.levels.flat()];
}

function devicesFor(
  node: ScenarioNode,
  machine: Machine,
  { agenda, times }: { readonly agenda: Agenda; readonly config: GuardConfig; readonly times: GuardScenario['world'] },
): readonly Device[] {
  const deviceTimes = { statusMs: times.statusTakes, commandMs: times.commandTakes };
  let outlets = 0;
  return node.devices.map(({ kind, level, sharesPower }, index) => {
    const outlet = kind === 'pdu' ? outlets++ : 0;
    const identity = { key: methodKey(node.name, node.devices, index), kind, level };
    return createDevice(identity, { machine, agenda, outlet, sharesPower }, deviceTimes);
  });
}

function objectOf({ name, labels }: ScenarioNode, bootId: string): NodeObject {
  return {
    name,
    uid: uidOf(name, 1),
    version: 1,
    labels,
    annotations: {},
    taints: [],
    isCordoned: false,
    ready: { status: 'True', reason: 'KubeletReady', heartbeat: '0' },
    isShuttingDown: false,
    fenced: null,
    bootId,
  };
}

/** What already runs at the start. */
function place({ name, pods }: ScenarioNode, store: Store, machine: Machine | undefined): void {
  for (const pod of pods) {
    const uid = `${pod.name}-0`;
    store.putPod({ ...pod, uid, node: name, isTerminating: false });
    for (let i = 0; i < pod.volumes; i++) {
      store.attach({ name: `${pod.name}/${i}`, pod: pod.name, node: name, detaches: pod.detaches });
    }
    machine?.start(uid, pod.name);
  }
}
