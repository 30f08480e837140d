import type { MonoMs, Unknown } from '../reading.ts';
import { skippedBy } from './before-an-off.ts';
import { isSettled } from './candidates.ts';
import { type GuardConfig, keysOf, type NodePlan, planOf } from './config.ts';
import type { Frees, GateName, GateRow } from './decision.ts';
import { refOf } from './devices.ts';
import { type AtGate, atGate, firstShut, gatesOf, type Look, lookOf } from './gates.ts';
import { ageOf, classOf, type NodeClass, wasHeard } from './health.ts';
import type { GuardObservation, Order } from './observation.ts';
import type { NodeRef, Phase } from './record.ts';
import {
  type DeviceMemory,
  deviceKey,
  type Fencing,
  type GuardState,
  leftBehind,
  type NodeMemory,
  nodeNamed,
} from './state.ts';
import { isOffHeld, turnOf } from './turns.ts';
import { FRESH_MS, freesOf } from './worth.ts';

/** Why a node is fenced, or why not (guard.md 11.1), as of one look. */
export type NodeExplanation = {
  readonly node: NodeRef;
  readonly class: NodeClass;
  /** Age of its last sign of life; null: it has none. `wasHeard`: it was seen; else it is older. */
  readonly ageMs: number | null;
  readonly wasHeard: boolean;
  /** All of them, in order. */
  readonly gates: readonly GateRow[];
  /** The first closed one, which is the reason; null: all are open. */
  readonly deciding: GateRow | null;
  /** When all gates would be open if nothing else changed; null: not by time alone. */
  readonly opensMs: MonoMs | null;
  /** The order of a person that would pass over the deciding gate; null: none would. */
  readonly overruledBy: Order['verb'] | null;
  /** What a fencing would free; null: not known, for the reason in `freesUnknown`. */
  readonly frees: Frees | null;
  readonly freesUnknown: Pick<Unknown, 'why' | 'detail'> | null;
  readonly plan: NodePlan | null;
  readonly devices: readonly DeviceMemory[];
  /**
   * The open fencing; `dueMs` and `phaseMs` as `dueMsOf` and `phaseMsOf` say. `isTainted`: as `isTaintedBy`. `waitsFor`: of one that
   * is decided and not begun, so that the gates are its own: the one that keeps it; null: none does.
   */
  readonly fencing: {
    readonly fencing: Fencing;
    readonly dueMs: MonoMs | null;
    readonly waitsFor: GateRow | null;
    readonly phaseMs: number;
    readonly isTainted: boolean;
  } | null;
};

/** `state`: after the look at `observation`. Null: there is no node of that name. */
export function explainNode(
  state: GuardState,
  observation: GuardObservation,
  config: GuardConfig,
  name: string,
): NodeExplanation | null {
  const memory = nodeNamed(state.nodes, name);
  if (memory === undefined) return null;
  const look = lookOf(state, observation, config);
  const { atMs } = observation;
  const ageMs = ageOf(memory, look.asOfMs, isSettled(look));
  const own = [...state.fencings.values()].find(({ record }) => record.node.uid === memory.object.uid);
  const open = own ?? leftBehind(state, name);
  const at = atGate(
    look,
    memory,
    ageMs,
    open?.record.id ?? null,
    open?.record.purpose === 'rehearse' && isUnbegun(open),
  );
  const gates = gatesOf(at);
  const closed = gates.filter(({ isOpen }) => !isOpen);
  const deciding = closed[0] ?? null;
  const frees = freesOf(memory.object, observation, atMs - FRESH_MS);
  const plan = planOf(config, name);
  return {
    node: refOf(memory),
    class: classOf(memory, ageMs, look.asOfMs, atMs, config),
    ageMs,
    wasHeard: wasHeard(memory),
    gates,
    deciding,
    opensMs: opensMs(closed, atMs),
    overruledBy: deciding === null ? null : overruledBy(deciding),
    frees: frees.known ? frees.value : null,
    freesUnknown: frees.known ? null : { why: frees.why, detail: frees.detail },
    plan,
    devices: plan === null ? [] : devicesOf(memory, plan, state),
    fencing:
      open === undefined
        ? null
        : {
            ...{ fencing: open, dueMs: dueMsOf(open, look), waitsFor: own === undefined ? null : waitsFor(own, at) },
            ...{ phaseMs: phaseMsOf(open, observation), isTainted: isTaintedBy(open, state) },
          },
  };
}

/**
 * How long it has been in its phase, for people: by the wall clock of whoever wrote that step, as this process may have come
 * to know it later.
 */
export function phaseMsOf(
  { record, sinceMs }: Fencing,
  { atMs, wallMs }: Pick<GuardObservation, 'atMs' | 'wallMs'>,
): number {
  const before = record.steps.findLastIndex(({ phase }) => phase !== record.phase);
  const began = record.steps[before + 1];
  return Math.max(atMs - sinceMs, began === undefined ? 0 : wallMs - began.wallMs);
}

/** Its node carries an out-of-service taint of the guard, as last seen. */
export const isTaintedBy = ({ record }: Fencing, { nodes }: Pick<GuardState, 'nodes'>): boolean =>
  (nodes.get(record.node.uid)?.facts.outOfServiceBy ?? null) !== null;

/**
 * When it goes on by itself at the latest; one that failed begins anew then at the earliest. Null: when something is heard, another
 * guard decides or none, or the next `off` is held.
 */
export function dueMsOf(fencing: Fencing, look: Look): MonoMs | null {
  if (fencing.pending !== null || !look.observation.self.leadership.isLeader || look.config.dryRun) return null;
  // One that is only decided ends by itself, whatever holds it.
  return fencing.record.phase !== 'decided' && isOffHeld(fencing, look) ? null : turnOf(fencing, look).dueMs;
}

/** Decided, and it waits for a gate: the gates are its own. */
export const isUnbegun = ({ record, isOverdue }: Fencing): boolean => record.phase === 'decided' && isOverdue;

/** So, or an `on` is its next step, and waits for somebody else's taint to go. */
export const isWaiting = ({ record, isOverdue }: Fencing): boolean => isOverdue && !LATE.has(record.phase);
/** What these wait for is their own. */
const LATE: ReadonlySet<Phase> = new Set(['proven', 'tainted']);

/** What follows its phase is decided, and not known to be stored. */
export const isUnstored = ({ failedMs, acted }: Fencing): boolean =>
  failedMs !== null && acted?.kind !== 'failed' && acted?.kind !== 'not-begun';

const waitsFor = (fencing: Fencing, at: AtGate): GateRow | null =>
  isUnbegun(fencing) ? firstShut(at, skippedBy(fencing.record)) : null;

function opensMs(closed: readonly GateRow[], atMs: MonoMs): MonoMs | null {
  const times = closed.map((row) => row.opensMs);
  return times.includes(null) ? null : Math.max(atMs, ...times.map((time) => time ?? atMs));
}

/** guard.md 3: what each order of a person passes over. */
const OVERRULED_BY: { readonly [G in GateName]: Order['verb'] | null } = {
  self: null,
  scope: null,
  planned: null,
  dead: 'fence',
  witness: null,
  worth: 'fence',
  device: 'confirm-off',
  storm: 'release',
  rate: 'release',
};

function overruledBy({ gate, because }: GateRow): Order['verb'] | null {
  if (because === 'paused') return 'resume';
  return NOT_OVERRULED.has(because) ? null : OVERRULED_BY[gate];
}
/** Limits of the rate that no `release` lifts, what the devices are about to say, and what no proof would come of. */
const NOT_OVERRULED: ReadonlySet<string> = new Set([
  'max-in-flight',
  'another-control-plane',
  'control-plane-majority',
  'not-asked',
  'no-lease',
]);

function devicesOf({ object }: NodeMemory, plan: NodePlan, { devices }: GuardState): readonly DeviceMemory[] {
  return keysOf(plan).flatMap((method) => devices.get(deviceKey(object.uid, method)) ?? []);
}
