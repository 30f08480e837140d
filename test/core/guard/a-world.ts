import type { GuardConfig } from '../../../src/core/guard/config.ts';
import { decideGuard } from '../../../src/core/guard/decide.ts';
import type { Act, GuardDecision, GuardReason, NextGuardLook, Store } from '../../../src/core/guard/decision.ts';
import { keptDevices } from '../../../src/core/guard/devices.ts';
import type {
  ActResult,
  AskedView,
  Attachment,
  DeviceAnswer,
  GuardObservation,
  GuardOutcome,
  NodeObject,
  Order,
  PodOnNode,
  Taint,
} from '../../../src/core/guard/observation.ts';
import type { FencingRecord, KeptState, StoredRecord } from '../../../src/core/guard/record.ts';
import { type GuardState, initialGuardState } from '../../../src/core/guard/state.ts';
import { known, unknown } from '../../../src/core/reading.ts';

/** A guard's configuration with one method `vm NODE` for each node. */
export function aGuardConfig(rest: Partial<GuardConfig> = {}): GuardConfig {
  return {
    dryRun: false,
    nodes: [],
    controlPlane: 'never',
    domainLabels: ['zone'],
    suspectAfterMs: 40_000,
    deadAfterMs: 120_000,
    fenceWhen: 'needed',
    kubeletAnswers: 'hold',
    settleMs: 120_000,
    plannedWaitMs: 900_000,
    otherOwner: 'respect',
    storm: {
      maxUnhealthyShare: 0.3,
      domainShare: 0.55,
      burst: { nodes: 3, withinMs: 30_000 },
      coolDownMs: 600_000,
    },
    rate: { minIntervalMs: 30_000, maxPerHour: 6, maxInFlight: 2 },
    recovery: { powerOn: true, bootTimeMs: 600_000, stableForMs: 60_000, attempts: 3, perNodePerDay: 2 },
    drainWaitMs: 600_000,
    patrol: { everyMs: 30_000, maxPerMinute: 60 },
    requireRehearsal: false,
    deadlineMs: 40_000,
    plans: {},
    defaultPlan: { isolation: [], levels: [['vm {node}']] },
    ...rest,
  };
}

/** One machine with its Node object, as the API has it. Tests change it as they please. */
export type Machine = {
  readonly name: string;
  uid: string;
  isOn: boolean;
  /** The kubelet runs and reaches the API. */
  isHeard: boolean;
  boots: number;
  renewals: number;
  heardMs: number;
  bootedMs: number;
  /** When somebody else switched it on. */
  onMs: number;
  ready: 'True' | 'False' | 'Unknown';
  isDeleted: boolean;
  offs: number;
  taints: Taint[];
  labels: { [key: string]: string };
  annotations: { [key: string]: string };
  isUnschedulable: boolean;
  announces: boolean;
  witness: 'answers' | 'refused' | 'silent';
  pods: PodOnNode[];
  attachments: Attachment[];
  /** What a device says in place of the truth; 'mute': nothing. */
  lies: { [method: string]: 'on' | 'off' | 'mute' };
  /** Devices whose commands have no effect. */
  broken: Set<string>;
};

export type Told = { readonly atMs: number; readonly decision: GuardDecision };

export function aPodOn(rest: Partial<PodOnNode> = {}): PodOnNode {
  return {
    uid: `pod-${rest.name ?? 'db-0'}`,
    namespace: 'default',
    name: 'db-0',
    priority: 0,
    ownerKind: 'StatefulSet',
    hasAttachedVolume: true,
    isTerminating: false,
    isFinished: false,
    toleratesTaint: false,
    finalizers: [],
    ...rest,
  };
}

export function aMachine(name: string, rest: Partial<Machine> = {}): Machine {
  return {
    name,
    uid: `uid-${name}`,
    isOn: true,
    isHeard: true,
    boots: 1,
    renewals: 1,
    heardMs: 0,
    bootedMs: 0,
    onMs: 0,
    ready: 'True',
    isDeleted: false,
    offs: 0,
    taints: [],
    labels: {},
    annotations: {},
    isUnschedulable: false,
    announces: false,
    witness: 'silent',
    pods: [aPodOn({ name: `db-${name}` })],
    attachments: [{ name: `va-${name}`, node: name, driver: 'csi', volume: `pv-${name}` }],
    lies: {},
    broken: new Set(),
    ...rest,
  };
}

type End = (store: NonNullable<GuardOutcome['store']>, result: ActResult | null) => void;

const TICK_MS = 500;
const WALL_MS = 1_700_000_000_000;
const START_MS = 1_000_000;

type Due = { readonly atMs: number; readonly what: () => void };

/** A cluster in virtual time with one guard, which is the leader: simple, and only as real as the rules under test need. */
export function aWorld(machines: readonly Machine[], config: GuardConfig = aGuardConfig()) {
  const by = new Map(machines.map((machine) => [machine.name, machine]));
  const told: Told[] = [];
  const reasons: { readonly atMs: number; readonly reason: GuardReason }[] = [];
  const records = new Map<string, { version: number; record: FencingRecord }>();
  const asked = new Map<string, AskedView>();
  const due: Due[] = [];
  const begun = new Set<string>();
  const commands: { readonly atMs: number; readonly act: 'on' | 'off'; readonly method: string }[] = [];
  let answers: DeviceAnswer[] = [];
  let outcomes: GuardOutcome[] = [];
  let attachments: GuardObservation['attachments'] = unknown('not-asked', 'volumeattachments', '');
  let nowMs = START_MS;
  let writers = 1;
  let electedMs = nowMs;
  let state: GuardState = initialGuardState(nowMs, config.settleMs);
  let keptState: KeptState = { paused: null, holds: [] };
  let kept = { devices: [], state: keptState } as { devices: ReturnType<typeof keptDevices>; state: KeptState };
  let next: NextGuardLook | null = null;
  let lookMs = nowMs;
  let read: { objects: Map<string, { text: string; object: NodeObject }>; asOfMs: number } = {
    objects: new Map(),
    asOfMs: nowMs,
  };
  const world = {
    config,
    orders: [] as Order[],
    /** The API answers. */
    isApiUp: true,
    /** Stores fail with a conflict while it is true. */
    conflicts: false,
    epoch: 1,
    isLeader: true,
    skewMs: 0,
    self: null as string | null,
    machine: (name: string): Machine => {
      const machine = by.get(name);
      if (machine === undefined) throw new Error(`no machine ${name}`);
      return machine;
    },
    nowMs: () => nowMs - START_MS,
    state: () => state,
    told,
    reasons,
    commands,
    records,
    writer: () => `guard-${writers}`,
    next: () => next,
    restart,
    run,
    observe,
    kinds: () => told.map(({ decision }) => sayDecision(decision)),
    phaseOf: (name: string): string | null => {
      const open = [...records.values()].filter(({ record }) => record.node.name === name);
      return open.at(-1)?.record.phase ?? null;
    },
  };
  function after(ms: number, what: () => void): void {
    due.push({ atMs: nowMs + ms, what });
  }

  /** The guard's process ends, and another one is elected: commands that run go on, what they bring is lost. */
  function restart(): void {
    writers += 1;
    kept = { devices: keptDevices(state, config), state: keptState };
    state = initialGuardState(nowMs, config.settleMs);
    electedMs = nowMs;
    world.epoch += 1;
    answers = [];
    outcomes = [];
    asked.clear();
    begun.clear();
    lookMs = nowMs;
  }

  function run(forMs: number): typeof world {
    const endMs = nowMs + forMs;
    while (nowMs < endMs) {
      nowMs += TICK_MS;
      for (const machine of by.values()) live(machine);
      for (const entry of due.filter(({ atMs }) => atMs <= nowMs)) {
        due.splice(due.indexOf(entry), 1);
        entry.what();
      }
      if (nowMs < lookMs && answers.length === 0 && outcomes.length === 0) continue;
      look();
    }
    return world;
  }

  function live(machine: Machine): void {
    const isAlive = machine.isOn && machine.isHeard && !machine.isDeleted && nowMs >= machine.bootedMs;
    if (isAlive && world.isApiUp && nowMs - machine.heardMs >= 10_000) {
      machine.heardMs = nowMs;
      machine.renewals += 1;
      machine.ready = machine.announces ? 'False' : 'True';
    }
    if (world.isApiUp && nowMs - machine.heardMs > 50_000) machine.ready = 'Unknown';
    const isTainted = machine.taints.some(({ key }) => key === 'node.kubernetes.io/out-of-service');
    if (isTainted && machine.ready !== 'True' && nowMs % 20_000 === 0) {
      machine.pods = machine.pods.filter(({ toleratesTaint, finalizers }) => toleratesTaint || finalizers.length > 0);
      if (machine.pods.every(({ toleratesTaint }) => toleratesTaint)) machine.attachments = [];
    }
  }

  function objectOf(machine: Machine): NodeObject {
    const message = machine.announces ? 'node is shutting down' : '';
    const object: NodeObject = {
      name: machine.name,
      uid: machine.uid,
      key: machine.name,
      bootId: `${machine.name}-boot-${machine.boots}`,
      isDeleting: false,
      isUnschedulable: machine.isUnschedulable,
      labels: machine.labels,
      annotations: machine.annotations,
      taints: machine.taints,
      conditions: [
        {
          type: 'Ready',
          status: machine.ready,
          reason: machine.ready === 'Unknown' ? 'NodeStatusUnknown' : 'KubeletReady',
          message,
          heartbeat: 'h',
        },
      ],
    };
    const text = JSON.stringify(object);
    const before = read.objects.get(machine.uid);
    if (before?.text === text) return before.object;
    read.objects.set(machine.uid, { text, object });
    return object;
  }

  const leaseOf = ({ renewals }: Machine) => ({ renewed: `r${renewals}`, durationMs: 40_000 });

  function observe(): GuardObservation {
    if (world.isApiUp) read = { ...read, asOfMs: nowMs };
    const views = [...by.values()]
      .filter(({ isDeleted }) => !isDeleted)
      .map((machine) => ({ object: objectOf(machine), lease: leaseOf(machine) }));
    if (world.isApiUp) lastViews = views;
    return {
      atMs: nowMs,
      wallMs: WALL_MS + nowMs + world.skewMs,
      self: {
        writer: world.writer(),
        node: world.self,
        leadership: world.isLeader
          ? { isLeader: true, epoch: world.epoch, sinceMs: electedMs, authorityUntilMs: nowMs + 9_000 }
          : { isLeader: false },
        lastWriteMs: world.isApiUp ? nowMs : read.asOfMs,
        uptimeMs: nowMs + 5_000,
      },
      nodes: known({ value: lastViews, asOfMs: read.asOfMs }),
      records: known(storedRecords()),
      kept: known(kept),
      asked,
      attachments,
      answers,
      outcomes,
      orders: world.orders,
    };
  }
  let lastViews: readonly { object: NodeObject; lease: { renewed: string; durationMs: number } }[] = [];

  function storedRecords(): readonly StoredRecord[] {
    return [...records].map(([id, { version, record }]) => ({ id, version: String(version), record }));
  }

  function look(): void {
    const verdict = decideGuard(state, observe(), config);
    answers = [];
    outcomes = [];
    state = verdict.state;
    keptState = { paused: state.paused, holds: state.holds.map(({ kind, scope }) => ({ kind, scope })) };
    next = verdict.next;
    lookMs = nowMs + Math.max(TICK_MS, verdict.next.afterMs);
    for (const reason of verdict.reasons) reasons.push({ atMs: nowMs - START_MS, reason });
    for (const decision of verdict.decisions) {
      told.push({ atMs: nowMs - START_MS, decision });
      carryOut(decision);
    }
    ask(verdict.next);
  }

  function ask({ witness, pods, attachments: wantsAttachments, looks, status }: NextGuardLook): void {
    const sentMs = nowMs;
    if (!world.isApiUp) return;
    const none = unknown('not-asked', '', '');
    const put = (uid: string, rest: Partial<AskedView>) =>
      asked.set(uid, { ...(asked.get(uid) ?? { witness: none, pods: none, look: none }), ...rest });
    const machineOf = (uid: string) => [...by.values()].find((machine) => machine.uid === uid);
    for (const uid of witness) {
      const machine = machineOf(uid);
      if (machine !== undefined) put(uid, { witness: known({ value: machine.witness, asOfMs: sentMs }) });
    }
    for (const uid of pods) put(uid, { pods: known({ value: machineOf(uid)?.pods ?? [], asOfMs: sentMs }) });
    if (wantsAttachments) {
      attachments = known({ value: [...by.values()].flatMap((machine) => machine.attachments), asOfMs: sentMs });
    }
    for (const uid of looks) {
      const machine = machineOf(uid);
      const node = machine === undefined || machine.isDeleted ? null : objectOf(machine);
      const lease = machine === undefined ? null : leaseOf(machine);
      put(uid, { look: known({ value: { node, lease, resourceVersion: `rv-${node?.bootId}` }, asOfMs: sentMs }) });
    }
    for (const { node, method } of status) {
      const key = `${node.uid} ${method}`;
      if (begun.has(key)) continue;
      begun.add(key);
      const writer = world.writer();
      after(1_000, () => {
        begun.delete(key);
        if (writer !== world.writer()) return;
        const says = statusOf(node.name, method);
        answers.push({ node: node.uid, method, says, begunMs: sentMs, endedMs: nowMs, detail: '' });
      });
    }
  }

  function statusOf(name: string, method: string): 'on' | 'off' | 'unknown' {
    const machine = world.machine(name);
    const lie = machine.lies[method];
    if (lie === 'mute') return 'unknown';
    return lie ?? (machine.isOn ? 'on' : 'off');
  }

  function carryOut(decision: GuardDecision): void {
    if (decision.kind === 'fence' && decision.isDry) return;
    if (!('fencing' in decision) || !('record' in decision)) {
      if (decision.kind === 'answer') world.orders = world.orders.filter(({ id }) => id !== decision.order);
      if (decision.kind === 'unmark')
        patch(decision.node.name, decision.act, decision.value.replace('nodewarden.', ''));
      return;
    }
    const { id, fencing, replaces } = decision;
    const writer = world.writer();
    const end: End = (store, result) => {
      if (writer === world.writer()) outcomes.push({ of: id, fencing, atMs: nowMs, store, act: result });
    };
    const before = records.get(fencing);
    const isStale = replaces === null ? before !== undefined : String(before?.version) !== replaces;
    if (!world.isApiUp) after(1_000, () => end({ kind: 'failed' }, null));
    else if (isStale || world.conflicts) end({ kind: 'conflict' }, null);
    else stored(decision, (before?.version ?? 0) + 1, end);
  }

  function stored({ fencing, record, act }: Store, version: number, end: End): void {
    records.set(fencing, { version, record });
    const done = { kind: 'stored', version: String(version) } as const;
    if (act === null) end(done, null);
    else if (act.kind === 'on' || act.kind === 'off') command(record.node.name, act, (result) => end(done, result));
    else end(done, patch(record.node.name, act, fencing));
  }

  function command(name: string, act: Extract<Act, { kind: 'on' | 'off' }>, end: (result: ActResult) => void): void {
    const sentMs = nowMs;
    const methods = act.kind === 'off' ? act.methods : act.steps.flat();
    for (const method of methods) commands.push({ atMs: nowMs - START_MS, act: act.kind, method });
    after(2_000, () => {
      for (const method of methods) power(name, act.kind, method);
      const run = { isOk: true, begunMs: sentMs, endedMs: nowMs, detail: '' };
      end({ kind: 'ran', runs: methods.map((method) => ({ method, ...run })) });
    });
  }

  function power(name: string, act: 'on' | 'off', method: string): void {
    const machine = world.machine(name);
    if (machine.broken.has(method) || method.startsWith('fabric')) return;
    if (act === 'off') {
      if (machine.isOn) machine.offs += 1;
      machine.isOn = false;
    } else if (!machine.isOn) switchOn(machine);
  }

  function switchOn(machine: Machine): void {
    machine.isOn = true;
    machine.isHeard = true;
    machine.boots += 1;
    machine.bootedMs = nowMs + 30_000;
  }

  function patch(name: string, act: Act, fencing: string): ActResult {
    const machine = world.machine(name);
    if (machine.isDeleted) return { kind: 'failed', why: 'gone', detail: '' };
    const value = `nodewarden.${fencing}`;
    const out = { key: 'node.kubernetes.io/out-of-service', value, effect: 'NoExecute' };
    const fenced = { key: 'nodewarden.dev/fenced', value: fencing, effect: 'NoSchedule' };
    if (act.kind === 'tell') {
      if (nowMs > act.notAfterMs) return { kind: 'failed', why: 'error', detail: 'too late' };
      machine.taints = [...machine.taints, out, fenced];
    }
    if (act.kind === 'untell' || act.kind === 'clear') machine.taints = machine.taints.filter((t) => t.value !== value);
    if (act.kind === 'clear') machine.taints = machine.taints.filter((t) => t.value !== fencing);
    return { kind: 'patched' };
  }

  return world;
}

/** `fence w1`, `advance w1 decided > off-sent [off]`, `hold w1 storm burst`. */
export function sayDecision(decision: GuardDecision): string {
  switch (decision.kind) {
    case 'hold': {
      const closed = decision.gates.find(({ isOpen }) => !isOpen);
      return `hold ${decision.node.name} ${closed?.gate} ${closed?.because}`;
    }
    case 'fence':
      return `fence ${decision.node.name}`;
    case 'answer':
      return `answer ${decision.order} ${decision.answer.isAccepted ? 'accepted' : decision.answer.why}`;
    case 'resign':
      return 'resign';
    case 'unmark':
      return `unmark ${decision.node.name} ${decision.act.kind}`;
    default: {
      const act = decision.act === null ? '' : ` [${decision.act.kind}]`;
      return `${decision.kind} ${decision.node.name} ${decision.from} > ${decision.record.phase}${act}`;
    }
  }
}
