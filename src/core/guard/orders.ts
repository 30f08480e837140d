import { isPauseAnswered, lostOf, NOT_STORED, withAnswering, withCarried, withoutCarried } from './accepted-orders.ts';
import { ORDER_SKIPS } from './before-an-off.ts';
import { freesAt, isSettled, recordOf } from './candidates.ts';
import { planOf } from './config.ts';
import type { Because, GateName, GateRow, OrderAnswer, Refusal } from './decision.ts';
import { refOf } from './devices.ts';
import {
  type AtGate,
  atGate,
  authorityShut,
  epochShut,
  firstShut,
  gatesOf,
  type Look,
  recordShut,
  scopeShut,
} from './gates.ts';
import { ageOf, hasLease } from './health.ts';
import type { Order, Witness } from './observation.ts';
import { isProvenBefore } from './phase-proven.ts';
import { powerOn } from './phases-on.ts';
import { nextId, type Progress, with_, withDecision, withMove, withNewFencing } from './progress.ts';
import type { FencingRecord, Phase } from './record.ts';
import { leftOnIdle } from './rehearsal.ts';
import { isAdopted } from './self.ts';
import { type Answering, deviceKey, type Fencing, type GuardState, leftBehind, type NodeMemory } from './state.ts';
import { covers } from './storm.ts';
import { DEVICE_IS_WRONG, type Move } from './turn.ts';

/** What has to be known first is awaited for this long; the command that gave the order waits 30 s. */
const AWAIT_MS = 25_000;
/** `release` lasts at most this long (guard.md 3). */
const MAX_RELEASE_MS = 2 * 3_600_000;

type Result =
  /** Something has to be known first. */
  | 'await'
  | { readonly isAccepted: false; readonly gate: GateName | null; readonly why: Because | Refusal }
  | { readonly isAccepted: true; readonly fencing: string; readonly apply: (progress: Progress) => Progress }
  | { readonly isAccepted: true; readonly fencing: null; readonly brings: Answering };

/** The orders of this look: answered, or awaiting what has to be known first of the nodes `awaited` (uids). */
export function stepOrders(
  before: Progress,
  look: Look,
): { readonly progress: Progress; readonly awaited: ReadonlySet<string> } {
  const { observation } = look;
  const awaited = new Set<string>();
  // Without authority nobody may answer: the next leader refuses what was not written for it.
  if (authorityShut(look) !== null || epochShut(look) !== null) return { progress: before, awaited };
  let progress = before;
  for (const order of observation.orders) {
    const known = progress.state.orders.get(order.id);
    if (known?.isAnswered) continue;
    const seenMs = known?.seenMs ?? observation.atMs;
    const result = resultOf(order, { ...look, state: progress.state });
    const isAwaited = result === 'await' && observation.atMs - seenMs < AWAIT_MS;
    if (isAwaited && 'node' in order) awaited.add(order.node.uid);
    progress = withSeen(progress, order.id, { seenMs, isAnswered: !isAwaited });
    if (!isAwaited) progress = answered(progress, look, order, result === 'await' ? NOT_KNOWN : result);
  }
  for (const carried of progress.state.carried.values()) {
    const { order, sinceMs } = carried;
    const lost = lostOf(carried, observation);
    if (lost === 'waits') continue;
    const result = lost === 'again' ? resultOf(order, { ...look, state: progress.state }) : NOT_STORED;
    if (result === 'await') {
      if ('node' in order) awaited.add(order.node.uid);
      continue;
    }
    progress = { ...progress, state: withoutCarried(progress.state, order.id) };
    if (lost !== 'done') progress = answered(progress, look, order, result, sinceMs);
  }
  return { progress, awaited };
}

const refuse = (why: Because | Refusal, gate: GateName | null = null) => ({ isAccepted: false, gate, why }) as const;
const NOT_KNOWN = refuse('not-known-in-time');

/** `sinceMs`: when it was first accepted. */
function answered(
  progress: Progress,
  look: Look,
  order: Order,
  result: Exclude<Result, 'await'>,
  sinceMs = look.observation.atMs,
): Progress {
  const { id } = order;
  if (!result.isAccepted)
    return withDecision(progress, look, { kind: 'answer', order: id, answer: result, carries: null, keeps: false });
  const answer: OrderAnswer = { isAccepted: true, fencing: result.fencing };
  if (result.fencing === null) {
    const { brings } = result;
    const state = withAnswering(progress.state, nextId(progress.state), brings);
    const said = { kind: 'answer', order: id, answer, carries: null, keeps: brings.verb === 'pause' } as const;
    return withDecision({ ...progress, state }, look, said);
  }
  const applied = result.apply(progress);
  const [carried] = applied.decisions.slice(progress.decisions.length);
  const state = withCarried(applied.state, order, carried, nextId(applied.state), sinceMs);
  const said = { kind: 'answer', order: id, answer, carries: carried?.id ?? null, keeps: false } as const;
  return withDecision({ ...applied, state }, look, said);
}

function withSeen(
  progress: Progress,
  id: string,
  seen: { readonly seenMs: number; readonly isAnswered: boolean },
): Progress {
  const { state } = progress;
  return { ...progress, state: { ...state, orders: with_(state.orders, id, seen) } };
}

/** Answered orders that are gone from where they were written, and are not to be carried out any more. */
export function pruneOrders(
  { orders, carried }: Pick<GuardState, 'orders' | 'carried'>,
  present: readonly Order[],
): GuardState['orders'] {
  if (orders.size === 0) return orders;
  const ids = new Set([...present.map(({ id }) => id), ...carried.keys()]);
  return [...orders.keys()].every((id) => ids.has(id)) ? orders : new Map([...orders].filter(([id]) => ids.has(id)));
}

function resultOf(order: Order, look: Look): Result {
  if (order.to !== look.observation.self.writer) return refuse('stale');
  if (order.by.trim() === '') return refuse('no-by');
  if (look.config.dryRun) return refuse('dry-run');
  switch (order.verb) {
    case 'pause':
      return afterPause(look, () => {
        const paused = { by: order.by, because: order.because, wallMs: look.observation.wallMs };
        return bring({ verb: 'pause', paused, before: look.state.paused });
      });
    case 'resume':
      return afterPause(look, () => bring({ verb: 'resume' }));
    case 'release':
      return afterAdoption(look, () => release(order, look));
    case 'fence':
      return onNode(order.node, look, (memory) => fence(order, memory, look));
    case 'confirm-off':
      return onNode(order.node, look, (memory) => confirmOff(order, memory, look));
    case 'power-on':
      return onNode(order.node, look, (memory) => switchOn(memory, look));
    case 'rehearse':
      return onNode(order.node, look, (memory) => rehearse(order, memory, look));
    case 'unknown':
      return refuse('unknown-verb');
  }
}

const accept = (fencing: string, apply: (progress: Progress) => Progress): Result => ({
  isAccepted: true,
  fencing,
  apply,
});
const bring = (brings: Answering): Result => ({ isAccepted: true, fencing: null, brings });

/** What earlier leaders kept would take its place. */
const afterAdoption = ({ state, observation }: Look, then: () => Result): Result =>
  isAdopted(state, observation.self) ? then() : 'await';

/** One pause after the other: what a person takes back leaves what was before. */
const afterPause = (look: Look, then: () => Result): Result =>
  isPauseAnswered(look.state) ? 'await' : afterAdoption(look, then);

function release({ scope, forMs, by }: Extract<Order, { verb: 'release' }>, look: Look): Result {
  const { atMs } = look.observation;
  if (!(forMs > 0 && forMs <= MAX_RELEASE_MS)) return refuse('more-than-2h');
  const isDomain = scope.kind !== 'domain' || look.config.domainLabels.includes(scope.label);
  const isMet = [...look.state.nodes.values()].some(({ object }) => covers(scope, object));
  if (!isDomain || !isMet) return refuse(scope.kind === 'node' ? 'no-such-node' : 'no-such-domain', 'scope');
  return bring({ verb: 'release', release: { scope, untilMs: atMs + forMs, by } });
}

/** The person's node, unless another one has its name by now. */
function onNode(
  { uid, name }: { readonly uid: string; readonly name: string },
  look: Look,
  then: (memory: NodeMemory) => Result,
): Result {
  const memory = look.state.nodes.get(uid);
  if (memory === undefined || memory.object.name !== name) return refuse('no-such-node', 'scope');
  return then(memory);
}

const openFencing = ({ fencings }: GuardState, uid: string): Fencing | undefined =>
  [...fencings.values()].find(({ record }) => record.node.uid === uid && record.phase !== 'closed');

const saidBy = ({ by, because }: Order, verb: NonNullable<FencingRecord['order']>['verb']) => ({ verb, by, because });

const move = (look: Look, fencing: Fencing, arrow: Move): Result =>
  accept(fencing.record.id, (progress) => withMove(progress, look, fencing, arrow));

/** Passes over "dead", "nothing to free" and the storm; never over own health, G9 or proof. */
function fence(order: Order, memory: NodeMemory, look: Look): Result {
  // Its look before an `off` would find no lease, and nothing of it would be proven.
  if (!hasLease(memory)) return refuse('no-lease', 'dead');
  const open = openFencing(look.state, memory.object.uid);
  if (open?.pending != null) return 'await';
  if (open !== undefined && !isBegunAgain(open)) return refuse('already-open');
  const at = atGate(look, memory, ageOf(memory, look.asOfMs, isSettled(look)), open?.record.id ?? null);
  const closed = firstShut(at, ORDER_SKIPS.fence);
  if (closed !== null) return closedTo(order, closed, look);
  const said = saidBy(order, 'fence');
  if (open === undefined && isUnread(at, order)) return 'await';
  if (open !== undefined) {
    const change = { order: said, retries: 0, attempt: 0, why: null, isAlive: false };
    return move(look, open, { to: 'decided', change, act: null });
  }
  const record = recordOf(at, said);
  return accept(record.id, (progress) =>
    withNewFencing(progress, look, record, { gates: gatesOf(at), frees: freesAt(at) }),
  );
}
const isBegunAgain = ({ record, isOverdue }: Fencing): boolean =>
  (BEGUN_AGAIN.has(record.phase) || (record.phase === 'decided' && isOverdue)) &&
  record.purpose === 'fence' &&
  record.onSent.length === 0 &&
  !isProvenBefore(record);
const BEGUN_AGAIN: ReadonlySet<Phase> = new Set(['failed', 'stuck']);
const seenSinceMs = ({ id }: Order, { state, observation }: Look): number =>
  state.orders.get(id)?.seenMs ?? observation.atMs;

/** What it frees is said when it begins, and followed: the order waits for that, though not for ever. */
const isUnread = (at: AtGate, order: Order): boolean => freesAt(at) === null && !isLate(at, seenSinceMs(order, at));

/** A device that was slow, maybe long ago, is asked once more: the order waits for that. */
function closedTo(order: Order, { because, gate }: GateRow, look: Look): Result {
  const isAwaited = NOT_ASKED.has(because) || (because === 'too-slow' && !isLate(look, seenSinceMs(order, look)));
  return isAwaited ? 'await' : refuse(because, gate);
}
/** Closed only because nobody was asked yet. */
const NOT_ASKED: ReadonlySet<Because> = new Set(['witness-unknown', 'silent', 'not-asked']);

/** guard.md 3: on a living node that is cordoned and drained. */
function rehearse(order: Order, memory: NodeMemory, look: Look): Result {
  const { object, isSuspect, facts } = memory;
  if (openFencing(look.state, object.uid) !== undefined) return refuse('already-open');
  if (isSuspect || !facts.isReady) return refuse('not-ready');
  if (!hasLease(memory)) return refuse('no-lease', 'dead');
  const left = leftOnIdle(memory, look);
  if (typeof left === 'string') return left === 'unknown' ? 'await' : refuse(left);
  const at = atGate(look, memory, ageOf(memory, look.asOfMs, isSettled(look)), null, true);
  const closed = firstShut(at, ORDER_SKIPS.rehearse);
  if (closed !== null) return closedTo(order, closed, look);
  const record = recordOf(at, saidBy(order, 'rehearse'));
  return accept(record.id, (progress) => withNewFencing(progress, look, record, { gates: gatesOf(at), frees: left }));
}

/** A person stands for the proof (G1), not against what a device says now. */
function confirmOff(order: Extract<Order, { verb: 'confirm-off' }>, memory: NodeMemory, look: Look): Result {
  const { object, isSuspect } = memory;
  if (order.checked !== object.name) return refuse('not-checked');
  if (look.self !== null) return refuse(look.self.because, 'self');
  if (scopeShut(memory, look.state, look.observation, look.config)?.because === 'own-node') {
    return refuse('own-node', 'scope');
  }
  if (recordShut(memory, look.observation) !== null) return refuse('unreadable-record', 'scope');
  if (!isSuspect) return refuse(hasLease(memory) ? 'alive' : 'no-lease', 'dead');
  const sinceMs = seenSinceMs(order, look);
  const kubelet = kubeletWord(memory, look, sinceMs);
  if (kubelet === 'answers') return refuse('kubelet-answers', 'witness');
  const word = deviceWord(memory, look, sinceMs);
  if (kubelet === 'await' || word === 'await') return 'await';
  if (word === 'on' && !order.isDeviceWrong) return refuse('device-says-on', 'device');
  const open = openFencing(look.state, object.uid);
  const said = saidBy(order, 'confirm-off');
  const proof = { by: 'person', name: order.by } as const;
  const why = word === 'on' ? DEVICE_IS_WRONG : null;
  if (open !== undefined) {
    if (open.pending !== null) return 'await';
    if (!CONFIRMED.has(open.record.phase) || open.record.purpose !== 'fence') return refuse('already-open');
    const change = {
      order: said,
      proof,
      why,
      isAlive: false,
      ...(open.record.phase === 'not-back' ? asNow(memory) : {}),
    };
    return move(look, open, { to: 'proving', change, act: null, kind: 'confirm' });
  }
  const at = atGate(look, memory, ageOf(memory, look.asOfMs, isSettled(look)), null);
  if (isUnread(at, order)) return 'await';
  const record: FencingRecord = { ...recordOf(at, said), phase: 'proving', proof, why };
  return accept(record.id, (progress) =>
    withNewFencing(progress, look, record, { gates: gatesOf(at), frees: freesAt(at) }),
  );
}
const CONFIRMED: ReadonlySet<Phase> = new Set(['decided', 'proving', 'failed', 'stuck', 'not-back']);

/** It was switched on, and may have lived since: the person speaks of the machine as it was last seen. */
const asNow = (memory: NodeMemory): Pick<FencingRecord, 'node' | 'renewed'> => ({
  node: refOf(memory),
  renewed: memory.lease?.renewed ?? null,
});

/** Whoever answers at its kubelet's port runs. What is not known by the order's end is taken for silence. */
function kubeletWord({ object }: NodeMemory, look: Look, sinceMs: number): Witness | 'await' {
  if (look.config.kubeletAnswers === 'ignore') return 'silent';
  const witness = look.observation.asked.get(object.uid)?.witness;
  if (witness?.known === true && witness.value.asOfMs >= sinceMs) return witness.value.value;
  return isLate(look, sinceMs) ? 'silent' : 'await';
}

/** What the node's devices say to a status begun since the order: any `on` counts, and silence does not. */
function deviceWord({ object }: NodeMemory, look: Look, sinceMs: number): 'on' | 'not-on' | 'await' {
  const plan = planOf(look.config, object.name);
  const methods = plan === null ? [] : plan.levels.flat();
  const known = methods.map((method) => look.state.devices.get(deviceKey(object.uid, method)));
  const isAsked = known.map((device) => device !== undefined && device.begunMs !== null && device.begunMs >= sinceMs);
  if (known.some((device, i) => isAsked[i] && device?.says === 'on')) return 'on';
  return isLate(look, sinceMs) || isAsked.every((asked) => asked) ? 'not-on' : 'await';
}
const isLate = ({ observation: { atMs } }: Look, sinceMs: number): boolean =>
  atMs - sinceMs >= AWAIT_MS - AWAIT_RESERVE_MS;
/** So much before the order's end a silent device is taken for one that does not say on. */
const AWAIT_RESERVE_MS = 5_000;

/** For a machine that a fencing left off, or failed to prove off, or that is not back: after the taint, never under it (G2). */
function switchOn(memory: NodeMemory, look: Look): Result {
  const own = openFencing(look.state, memory.object.uid);
  const open = own ?? leftBehind(look.state, memory.object.name);
  if (open === undefined) return refuse('no-fencing');
  // A fencing whose Node was deleted is about to be left off.
  const { phase } = open.record;
  const isOnItsWay = own === undefined ? !SWITCHED_ON.has(phase) && phase !== 'aborted' : phase === 'untainting';
  if (open.pending !== null || isOnItsWay) return 'await';
  if (memory.facts.foreignOutOfService !== null) return refuse('other-owner', 'scope');
  const { record } = open;
  // A person may have said that it is off though no device switches it.
  if (record.plan.levels.length === 0) return refuse('no-method', 'device');
  const change = { why: 'power-on', staysOff: null } as const;
  // Where the proof was lost, the removal of the taint may be under way.
  const mayBeTainted = record.phase === 'tainted' || (record.phase === 'failed' && isProvenBefore(record));
  if (mayBeTainted) return move(look, open, { to: 'untainting', change, act: { kind: 'untell' } });
  const isOurs = record.phase === 'failed' && record.offSent.length > 0;
  if (!isOurs && !SWITCHED_ON.has(record.phase)) return refuse('wrong-phase');
  return move(look, open, powerOn({ ...record, ...change }, change).move);
}
const SWITCHED_ON: ReadonlySet<Phase> = new Set(['left-off', 'not-back', 'stuck']);
