import type { GuardConfig } from '../../../src/core/guard/config.ts';
import { decideGuard, whyNotNow } from '../../../src/core/guard/decide.ts';
import type { Act, GuardDecision, GuardReason, NextGuardLook, Store } from '../../../src/core/guard/decision.ts';
import { keptDevices } from '../../../src/core/guard/devices.ts';
import type {
  ActResult,
  AskedView,
  DeviceAnswer,
  GuardObservation,
  GuardOutcome,
  Order,
} from '../../../src/core/guard/observation.ts';
import type { FencingRecord, KeptState } from '../../../src/core/guard/record.ts';
import { type GuardState, initialGuardState, keptState as keptStateOf } from '../../../src/core/guard/state.ts';
import { attachmentsByNode } from '../../../src/core/guard/worth.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import { aGuardConfig } from './a-guard-config.ts';
import { type Machine, power, statusOf } from './a-machine.ts';
import { anApi } from './an-api.ts';
import { sayDecision } from './say-decision.ts';

export type Told = { readonly atMs: number; readonly decision: GuardDecision };

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
  const api = anApi(machines);
  const { records, edited } = api;
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
  let wasLeader = true;
  let state: GuardState = initialGuardState(nowMs, config.settleMs);
  let keptState: KeptState = { paused: null, holds: [], past: [] };
  let kept = { devices: [], state: keptState } as { devices: ReturnType<typeof keptDevices>; state: KeptState };
  let next: NextGuardLook | null = null;
  let lookMs = nowMs;
  let readMs = nowMs;
  const world = {
    config,
    orders: [] as Order[],
    /** The API answers. */
    isApiUp: true,
    /** Kubernetes marks silent nodes, and frees those that are out of service. */
    hasControllers: true,
    /** Its ConfigMaps are read. */
    areMapsRead: true,
    /** What its devices said is kept for the next process. */
    areDevicesKept: true,
    /** Stores fail with a conflict while it is true. */
    conflicts: false,
    epoch: 1,
    isLeader: true,
    skewMs: 0,
    /** Kinds of patches that the API refuses. */
    refuses: [] as readonly Act['kind'][],
    self: null as string | null,
    /** What becomes of the answer to an order. */
    answersEnd: 'stored' as 'stored' | 'conflict' | 'failed',
    /** Happens while a record is being stored. */
    meanwhile: (_: FencingRecord): void => undefined,
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
    edited,
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
    kept = { devices: world.areDevicesKept ? keptDevices(state, config) : [], state: keptState };
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
      for (const machine of machines) api.live(machine, nowMs, world.isApiUp, world.hasControllers);
      for (const entry of due.filter(({ atMs }) => atMs <= nowMs)) {
        due.splice(due.indexOf(entry), 1);
        entry.what();
      }
      if (nowMs < lookMs && answers.length === 0 && outcomes.length === 0) continue;
      look();
    }
    return world;
  }

  function observe(): GuardObservation {
    if (world.isLeader && !wasLeader) electedMs = nowMs;
    wasLeader = world.isLeader;
    const unread = unknown('stale', 'configmaps', '');
    if (world.isApiUp) readMs = nowMs;
    return {
      atMs: nowMs,
      wallMs: WALL_MS + nowMs + world.skewMs,
      self: {
        writer: world.writer(),
        node: world.self,
        leadership: world.isLeader
          ? { isLeader: true, epoch: world.epoch, sinceMs: electedMs, authorityUntilMs: nowMs + 9_000 }
          : { isLeader: false },
        lastWriteMs: world.isApiUp ? nowMs : readMs,
        uptimeMs: nowMs + 5_000,
      },
      nodes: known({ value: api.viewsOf(world.isApiUp), asOfMs: readMs }),
      records: world.areMapsRead ? known(api.stored()) : unread,
      kept: world.areMapsRead ? known(kept) : unread,
      asked,
      attachments,
      answers,
      outcomes,
      orders: world.areMapsRead ? world.orders : [],
    };
  }
  function look(): void {
    const verdict = decideGuard(state, observe(), config);
    answers = [];
    outcomes = [];
    state = verdict.state;
    keptState = keptStateOf(state);
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
      asked.set(uid, { ...(asked.get(uid) ?? { witness: none, pods: none, look: none, members: none }), ...rest });
    const machineOf = (uid: string) => machines.find((machine) => machine.uid === uid);
    for (const uid of witness) {
      const machine = machineOf(uid);
      if (machine !== undefined) put(uid, { witness: known({ value: machine.witness, asOfMs: sentMs }) });
    }
    for (const uid of pods) put(uid, { pods: known({ value: machineOf(uid)?.pods ?? [], asOfMs: sentMs }) });
    if (wantsAttachments) {
      attachments = known({
        value: attachmentsByNode(machines.flatMap((machine) => machine.attachments)),
        asOfMs: sentMs,
      });
    }
    for (const { uid } of looks) put(uid, { look: known({ value: api.lookAt(machineOf(uid)), asOfMs: sentMs }) });
    for (const { node, method } of status) {
      const key = `${node.uid} ${method}`;
      if (begun.has(key)) continue;
      begun.add(key);
      const writer = world.writer();
      after(1_000, () => {
        begun.delete(key);
        if (writer !== world.writer()) return;
        const says = statusOf(world.machine(node.name), method);
        answers.push({ node: node.uid, method, says, begunMs: sentMs, endedMs: nowMs, detail: '' });
      });
    }
  }

  function carryOut(decision: GuardDecision): void {
    if (decision.kind === 'fence' && decision.isDry) return;
    if (!('fencing' in decision) || !('record' in decision)) {
      if (decision.kind === 'answer') answerOrder(decision);
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
    else if (isStale || world.conflicts || edited.has(fencing)) end({ kind: 'conflict' }, null);
    else stored(decision, (before?.version ?? 0) + 1, end);
  }

  function answerOrder({ id, order }: Extract<GuardDecision, { kind: 'answer' }>): void {
    world.orders = world.orders.filter((one) => one.id !== order);
    const kind = world.answersEnd;
    const store = kind === 'stored' ? { kind, version: '1' } : { kind };
    outcomes.push({ of: id, fencing: null, atMs: nowMs, store, act: null });
  }

  function stored({ fencing, record, act }: Store, version: number, end: End): void {
    records.set(fencing, { version, record });
    const done = { kind: 'stored', version: String(version) } as const;
    world.meanwhile(record);
    const seen = { ...observe(), answers: [], outcomes: [] };
    const why = act === null ? null : whyNotNow(state, seen, config, { fencing, act });
    if (act === null) end(done, null);
    else if (why !== null) end(done, { kind: 'not-begun', detail: why });
    else if (act.kind === 'on' || act.kind === 'off') command(record.node.name, act, (result) => end(done, result));
    else end(done, patch(record.node.name, act, fencing));
  }

  function command(name: string, act: Extract<Act, { kind: 'on' | 'off' }>, end: (result: ActResult) => void): void {
    const sentMs = nowMs;
    const methods = act.kind === 'off' ? act.methods : act.steps.flat();
    for (const method of methods) commands.push({ atMs: nowMs - START_MS, act: act.kind, method });
    after(2_000, () => {
      for (const method of methods) power(world.machine(name), act.kind, method, nowMs);
      const run = { isOk: true, begunMs: sentMs, endedMs: nowMs, detail: '' };
      end({ kind: 'ran', runs: methods.map((method) => ({ method, ...run })) });
    });
  }

  const patch = (name: string, act: Act, fencing: string): ActResult =>
    world.refuses.includes(act.kind)
      ? { kind: 'failed', why: 'error', detail: 'denied by a webhook' }
      : api.patch(world.machine(name), act, fencing, nowMs);

  return world;
}
