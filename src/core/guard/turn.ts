import type { MonoMs } from '../reading.ts';
import { BEGIN_WITHIN_MS, WRITE_DEADLINE_MS } from './agent-run.ts';
import type { MethodKey } from './config.ts';
import type { Act, GuardReason } from './decision.ts';
import { freshSince, lackOfLevel, offTwice, type Rounds, useOf } from './devices.ts';
import type { Look } from './gates.ts';
import type { ConsistentLook } from './observation.ts';
import type { Contradiction, FencingRecord, NodeRef, Phase, StaysOff } from './record.ts';
import { type DeviceMemory, deviceKey, type Fencing, type GuardState, type NodeMemory, nodeNamed } from './state.ts';

/** One open fencing at one look. */
export type Turn = Look & {
  readonly fencing: Fencing;
  readonly record: FencingRecord;
  readonly memory: NodeMemory;
};

/** What a phase does at a look: at most one arrow of guard.md 7.3, and what it wants to know meanwhile. */
export type Turned = {
  readonly move: Move | null;
  readonly asks: Asks;
  /** When it is due by itself; null: when something is heard. */
  readonly dueMs: MonoMs | null;
  readonly reasons: readonly GuardReason[];
  /** What its devices said is not true. */
  readonly rehearsed: readonly MethodKey[];
  readonly contradicts: { readonly methods: readonly MethodKey[]; readonly by: Contradiction } | null;
  readonly isOverdue: boolean;
};

/** To the phase `to`, which is stored with `change` before `act` begins. */
export type Move = {
  readonly to: Phase;
  readonly change: Partial<FencingRecord>;
  readonly act: Act | null;
  /** Another name than that of the phase it leads to. */
  readonly kind?: 'confirm';
};

export type Asks = {
  readonly look: boolean;
  /** Methods whose status is wanted, unless it was asked within `againMs`. */
  readonly status: readonly MethodKey[];
  readonly againMs: number;
  /** Its pods, and all attachments. */
  readonly stuck: boolean;
  /** Its kubelet's port. */
  readonly witness: boolean;
};

const NOTHING: Asks = { look: false, status: [], againMs: 0, stuck: false, witness: false };

/** The pause between two status of one device while a proof is awaited: two rounds, with some time for the answer. */
export const ROUND_MS = 6_000;
/** A failed write is tried again after this. */
const AGAIN_MS = 1_000;
/** guard.md 9.2: how often power is asked while the taint stands. */
export const WATCH_MS = 10_000;
/** Answers of a device are awaited for this long after the deadline of its status. */
const ANSWER_RESERVE_MS = 20_000;
/** Two rounds of status that have not come by then do not come. */
export const roundsWithinMs = ({ deadlineMs }: Turn['config']): number => 2 * deadlineMs + ANSWER_RESERVE_MS;

export function stay(rest: Partial<Turned> = {}): Turned {
  return {
    move: null,
    asks: NOTHING,
    dueMs: null,
    reasons: [],
    rehearsed: [],
    contradicts: null,
    isOverdue: false,
    ...rest,
  };
}

export const ask = (asks: Partial<Asks>, dueMs: MonoMs | null = null): Turned =>
  stay({ asks: { ...NOTHING, againMs: ROUND_MS, ...asks }, dueMs });

export function go(
  to: Phase,
  change: Partial<FencingRecord> = {},
  act: Act | null = null,
  rest: Partial<Turned> = {},
): Turned {
  return stay({ move: { to, change, act }, ...rest });
}

/** Its Node was deleted: its devices stay as they are. */
export const nodeDeleted = ({ phase, offSent }: FencingRecord): Turned =>
  offSent.length === 0 && BEFORE_ANY.includes(phase)
    ? go('aborted', { why: DELETED })
    : go('left-off', { staysOff: DELETED });
export const DELETED = 'node-deleted';
/** Without an `off` sent, these begin with a machine that is on. */
const BEFORE_ANY: readonly Phase[] = ['decided', 'isolating', 'off-sent'];

/** A person had it switched on, though its Node was deleted: for the one that was made anew with its name. */
export const isOrderedOn = ({ why, node }: FencingRecord, nodes: GuardState['nodes']): boolean =>
  why === 'power-on' && nodeNamed(nodes, node.name) !== undefined;

/** After a failed store or act a moment passes, whatever failed; null: none did. */
export const retriesMs = ({ failedMs }: Fencing): MonoMs | null => (failedMs === null ? null : failedMs + AGAIN_MS);

/** Until then a command of the process that wrote this phase may run (G8), the `steps` of which follow each other. */
export const predecessorEndsMs = ({ fencing, config }: Turn, steps = 1): MonoMs =>
  fencing.sinceMs + WRITE_DEADLINE_MS + steps * (BEGIN_WITHIN_MS + config.deadlineMs);

/** Since when this process may have asked what the revision wants to know: a standby knows its record, and asks nobody. */
export const asksSinceMs = ({ fencing, state }: Pick<Turn, 'fencing' | 'state'>): MonoMs =>
  Math.max(fencing.sinceMs, state.self.electedMs ?? fencing.sinceMs);

/**
 * When this process will have led for `waitMs` since `sinceMs`. While it is a standby, or has lost its lease in an outage of the
 * API, it knows a record and does nothing, so that is no part of the wait. But no election makes it begin anew, else who is
 * elected again and again would never go on: it gives the time to see what happened meanwhile.
 */
export function ledForMs({ self: { away, electedMs } }: GuardState, sinceMs: MonoMs, waitMs: number): MonoMs {
  const awayMs = away.reduce((sum, { fromMs, untilMs }) => sum + Math.max(0, untilMs - Math.max(fromMs, sinceMs)), 0);
  return Math.max(sinceMs + awayMs + waitMs, (electedMs ?? sinceMs) + Math.min(waitMs, SEES_MS));
}
const SEES_MS = 60_000;

/** By then, devices have answered that were asked at `sinceMs`, or as soon as this process asked. */
export const answeredByMs = (turn: Turn, sinceMs: MonoMs): MonoMs =>
  Math.max(sinceMs, asksSinceMs(turn)) + turn.config.deadlineMs + ANSWER_RESERVE_MS;

/** A sign of life since the record's; null: none is known. */
export type LifeSign = 'lease' | 'boot' | 'power';

export function lifeSign(turn: Turn): LifeSign | null {
  const { memory, record } = turn;
  const seen = seenSign(record, memory);
  if (seen !== null) return seen;
  const look = lookSince(turn, turn.fencing.sinceMs);
  if (look === null || look.node === null) return null;
  return changeOf(record, look.node.bootId, look.lease?.renewed ?? null);
}

/** That which its Node and its lease show, as last seen. */
export const seenSign = (record: FencingRecord, { object, lease }: NodeMemory): LifeSign | null =>
  changeOf(record, object.bootId, lease?.renewed ?? null);

/** What of these is another one than the record's. */
function changeOf({ node, renewed }: FencingRecord, bootId: string, token: string | null): LifeSign | null {
  if (bootId !== node.bootId) return 'boot';
  return renewed !== null && token !== null && token !== renewed ? 'lease' : null;
}

/** It lived at the decision, and no token was taken since: any sign of life in this phase is one. */
export const livesOn = ({ memory, record, fencing }: Turn): boolean =>
  record.renewed === null && memory.signMs !== null && memory.signMs > fencing.sinceMs;

/** GET of Lease and Node, sent at `sinceMs` or later; null: not there yet. A Node that was made anew is another one. */
export function lookSince(
  { record, observation }: Pick<Turn, 'record' | 'observation'>,
  sinceMs: MonoMs,
): ConsistentLook | null {
  const look = observation.asked.get(record.node.uid)?.look;
  if (look?.known !== true || look.value.asOfMs < sinceMs) return null;
  const { value } = look.value;
  return value.node === null || value.node.uid === record.node.uid ? value : { ...value, node: null };
}

/** What a look shows instead of the lease and the boot of the record; null: they are the same. */
export function changedIn({ node, renewed, order }: FencingRecord, look: ConsistentLook): 'life' | 'no-lease' | null {
  if (look.node?.bootId !== node.bootId) return 'life';
  if (look.lease === null || look.lease.renewed === null) return 'no-lease';
  // Only a person may have had a living node switched off.
  const isSame = renewed === null ? order !== null : look.lease.renewed === renewed;
  return isSame ? null : 'life';
}

export const levelOf = ({ plan, level }: FencingRecord): readonly MethodKey[] => plan.levels[level] ?? [];

/** (a) to (c) of guard.md 8.3, for rounds that were begun at `sinceMs` or later; null: not so. */
export function roundsOff({ record, state }: Turn, sinceMs: MonoMs): Rounds | null {
  const { uid } = record.node;
  const level = levelOf(record);
  const isBelieved = level.every((method) => {
    const device = state.devices.get(deviceKey(uid, method));
    return device?.hasSaidOn === true && (device.contradicted === null || record.purpose === 'rehearse');
  });
  return isBelieved ? offTwice(uid, level, state.devices, sinceMs) : null;
}

/** What each of the methods said last to a status begun at `sinceMs` or later; null: one has not said on or off. */
export function saidSince(
  { record, state }: Pick<Turn, 'record' | 'state'>,
  methods: readonly MethodKey[],
  sinceMs: MonoMs,
): readonly { readonly method: MethodKey; readonly says: 'on' | 'off' }[] | null {
  const said: { readonly method: MethodKey; readonly says: 'on' | 'off' }[] = [];
  for (const method of methods) {
    const device = state.devices.get(deviceKey(record.node.uid, method));
    if (device === undefined || device.begunMs === null || device.begunMs < sinceMs || device.says === 'unknown') {
      return null;
    }
    said.push({ method, says: device.says });
  }
  return said;
}

/** Devices whose word proves it off: of its level; if a person did, all they did not overrule. */
export function watchedOf(record: FencingRecord): readonly MethodKey[] {
  if (record.proof?.by !== 'person') return levelOf(record);
  return record.why === DEVICE_IS_WRONG ? [] : record.plan.levels.flat();
}
export const DEVICE_IS_WRONG = 'device-is-wrong';

/**
 * Devices whose `on` ends what stands on its being off, whatever the others say: those, and what of another level speaks of the
 * machine itself. The silence of the latter means nothing.
 */
export const refutersOf = (record: FencingRecord): readonly MethodKey[] =>
  record.why === DEVICE_IS_WRONG ? [] : [...new Set([...watchedOf(record), ...(record.plan.ofMachine ?? [])])];

/** One of them said so since this phase was decided, asked after the last `off`. */
export const saysOn = (turn: Turn): boolean =>
  refutersOf(turn.record).some((method) => {
    const last = lastOn(turn, method);
    const { decidedMs, offReturnedMs } = turn.fencing;
    return last !== null && last.endedMs >= decidedMs && last.begunMs >= (offReturnedMs ?? last.begunMs);
  });

/** One of them says so, asked at `sinceMs` or later. */
export const saysOnSince = (turn: Turn, sinceMs: MonoMs): boolean =>
  refutersOf(turn.record).some((method) => (lastOn(turn, method)?.begunMs ?? Number.NEGATIVE_INFINITY) >= sinceMs);

function lastOn({ record, state }: Turn, method: MethodKey): DeviceMemory['recent'][number] | null {
  const device = state.devices.get(deviceKey(record.node.uid, method));
  return device?.says === 'on' ? (device.recent.at(-1) ?? null) : null;
}

/** Everything that its gates depend on. */
export const askGates = ({ record }: Turn): Turned =>
  ask({ stuck: true, witness: true, status: record.plan.levels.flat(), againMs: GATES_MS });
/** What the gates depend on is believed for 30 s. */
const GATES_MS = 10_000;

/** The first level whose methods all answer and are believed; null: none. */
export function firstLevel({ record, state, observation, memory, config }: Turn): number | null {
  const freshMs = freshSince(memory, observation.atMs);
  const at = record.plan.levels.findIndex(
    (level) =>
      lackOfLevel(record.node.uid, level, state.devices, freshMs, useOf(config, record.purpose === 'rehearse')) ===
      null,
  );
  return at === -1 ? null : at;
}

/** Methods that got an `off` and no `on` yet: they get it before a fencing ends with a living node. */
export const owedOn = ({ offSent, onSent }: FencingRecord): readonly MethodKey[] =>
  offSent.filter((method) => !onSent.includes(method));

export const nodeOf = ({ record, memory }: Turn): NodeRef => ({
  ...record.node,
  bootId: memory.object.bootId,
});

/** The fields and the act of an `on` for everything that got an `off`: isolation first, then power in reverse order. */
export function onAct({ plan, offSent: sent }: FencingRecord): {
  readonly kind: 'on';
  readonly steps: readonly (readonly MethodKey[])[];
} {
  const steps = [plan.isolation, ...plan.levels.toReversed()].map((step) => step.filter((key) => sent.includes(key)));
  return { kind: 'on', steps: steps.filter((step) => step.length > 0) };
}
export function onChange(record: FencingRecord): Pick<FencingRecord, 'onSent' | 'onAttempt'> {
  return { onSent: [...new Set([...record.onSent, ...record.offSent])], onAttempt: record.onAttempt + 1 };
}

/** Why the machine is not to be switched on; null: it is. Only what this fencing switched off is switched on. */
export function staysOff({ staysOff: said, proof, offSent, why }: FencingRecord): StaysOff | null {
  if (why === 'power-on') return null;
  if (said !== null) return said;
  if (proof?.by === 'person') return 'person';
  return offSent.length === 0 ? 'nothing-sent' : null;
}
