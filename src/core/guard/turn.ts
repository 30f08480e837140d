import type { MonoMs } from '../reading.ts';
import type { MethodKey } from './config.ts';
import type { Act, GuardReason } from './decision.ts';
import { lackOfLevel, offTwice, type Rounds, useOf } from './devices.ts';
import type { Look } from './gates.ts';
import type { ConsistentLook } from './observation.ts';
import type { Contradiction, FencingRecord, NodeRef, Phase } from './record.ts';
import { deviceKey, type Fencing, type GuardState, type NodeMemory, nodeNamed } from './state.ts';

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
/** What a predecessor's command may take beyond its deadline (guard.md 7.3). */
export const DEADLINE_RESERVE_MS = 5_000;
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
    ? go('aborted', { why: 'node-deleted' })
    : go('left-off', { staysOff: 'node-deleted' });
/** Without an `off` sent, these begin with a machine that is on. */
const BEFORE_ANY: readonly Phase[] = ['decided', 'isolating', 'off-sent'];

/** A person had it switched on, though its Node was deleted: for the one that was made anew with its name. */
export const isOrderedOn = ({ why, node }: FencingRecord, nodes: GuardState['nodes']): boolean =>
  why === 'power-on' && nodeNamed(nodes, node.name) !== undefined;

/** After a failed store or act a moment passes, whatever failed; null: none did. */
export const retriesMs = ({ failedMs }: Fencing): MonoMs | null => (failedMs === null ? null : failedMs + AGAIN_MS);

/** Until then a command of the process that wrote this phase may run (G8), the `steps` of which follow each other. */
export const predecessorEndsMs = ({ fencing, config }: Turn, steps = 1): MonoMs =>
  fencing.sinceMs + steps * config.deadlineMs + DEADLINE_RESERVE_MS;

/** Since when this process may have asked what the phase wants to know: a standby knows its record, and asks nobody. */
export const asksSinceMs = ({ fencing, state }: Pick<Turn, 'fencing' | 'state'>): MonoMs =>
  Math.max(fencing.sinceMs, state.self.electedMs ?? fencing.sinceMs);

/** By then, devices have answered that were asked at `sinceMs`, or as soon as this process asked. */
export const answeredByMs = (turn: Turn, sinceMs: MonoMs): MonoMs =>
  Math.max(sinceMs, asksSinceMs(turn)) + turn.config.deadlineMs + ANSWER_RESERVE_MS;

/** A sign of life since the record's; null: none is known. */
export type LifeSign = 'lease' | 'boot' | 'power';

export function lifeSign(turn: Turn): LifeSign | null {
  const { memory, record } = turn;
  const listed = changeOf(record, memory.object.bootId, memory.lease?.renewed ?? null);
  if (listed !== null) return listed;
  const look = lookSince(turn, turn.fencing.sinceMs);
  if (look === null || look.node === null) return null;
  return changeOf(record, look.node.bootId, look.lease?.renewed ?? null);
}

function changeOf({ node, renewed }: FencingRecord, bootId: string, token: string | null): LifeSign | null {
  if (bootId !== node.bootId) return 'boot';
  return renewed !== null && token !== null && token !== renewed ? 'lease' : null;
}

/** It lived at the decision, and no token was taken since: any sign of life in this phase is one. */
export const livesOn = ({ memory, record, fencing }: Turn): boolean =>
  record.renewed === null && memory.signMs !== null && memory.signMs > fencing.sinceMs;

/** GET of Lease and Node, sent at `sinceMs` or later; null: not there yet. A Node that was made anew is another one. */
export function lookSince({ record, observation }: Turn, sinceMs: MonoMs): ConsistentLook | null {
  const look = observation.asked.get(record.node.uid)?.look;
  if (look?.known !== true || look.value.asOfMs < sinceMs) return null;
  const { value } = look.value;
  return value.node === null || value.node.uid === record.node.uid ? value : { ...value, node: null };
}

/** Whether the lease and the boot are still those of the record. Only a person may have had a living node switched off. */
export function isUnchanged({ node, renewed, order }: FencingRecord, look: ConsistentLook): boolean {
  if (look.node?.bootId !== node.bootId) return false;
  if (look.lease === null || look.lease.renewed === null) return false;
  return renewed === null ? order !== null : look.lease.renewed === renewed;
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

/** One of the methods said off to a status begun at `sinceMs` or later, and says on by now. */
export function isSwitchedOnSince({ record, state }: Turn, methods: readonly MethodKey[], sinceMs: MonoMs): boolean {
  return methods.some((method) => {
    const device = state.devices.get(deviceKey(record.node.uid, method));
    return device?.says === 'on' && device.recent.some(({ says, begunMs }) => says === 'off' && begunMs >= sinceMs);
  });
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

/** Devices whose `on` ends what stands on its being off: of the level that proved it; if a person did, all they did not overrule. */
export function watchedOf(record: FencingRecord): readonly MethodKey[] {
  if (record.proof?.by !== 'person') return levelOf(record);
  return record.why === DEVICE_IS_WRONG ? [] : record.plan.levels.flat();
}
export const DEVICE_IS_WRONG = 'device-is-wrong';

/** One of them said so since this phase was decided, whenever it was asked. */
export const saysOn = ({ record, fencing, state }: Turn): boolean =>
  watchedOf(record).some((method) => {
    const device = state.devices.get(deviceKey(record.node.uid, method));
    return device?.says === 'on' && (device.recent.at(-1)?.endedMs ?? Number.NEGATIVE_INFINITY) >= fencing.decidedMs;
  });

/** Everything that its gates depend on. */
export const askGates = ({ record }: Turn): Turned =>
  ask({ stuck: true, witness: true, status: record.plan.levels.flat(), againMs: GATES_MS });
/** What the gates depend on is believed for 30 s. */
const GATES_MS = 10_000;

/** The first level whose methods all answer and are believed; null: none. */
export function firstLevel({ record, state, observation: { atMs }, config }: Turn): number | null {
  const at = record.plan.levels.findIndex(
    (level) =>
      lackOfLevel(record.node.uid, level, state.devices, atMs, useOf(config, record.purpose === 'rehearse')) === null,
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
