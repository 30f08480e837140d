import type { MonoMs } from '../reading.ts';
import { isSettled } from './candidates.ts';
import { type GuardConfig, keysOf, type NodePlan, planOf } from './config.ts';
import type { Frees, GateName, GateRow } from './decision.ts';
import { refOf } from './devices.ts';
import { atGate, gatesOf, type Look, lookOf } from './gates.ts';
import { ageOf, classOf, type NodeClass } from './health.ts';
import type { GuardObservation, Order } from './observation.ts';
import type { NodeRef } from './record.ts';
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
  /** Age of its last sign of life; null: it has none. */
  readonly ageMs: number | null;
  /** All of them, in order. */
  readonly gates: readonly GateRow[];
  /** The first closed one, which is the reason; null: all are open. */
  readonly deciding: GateRow | null;
  /** When all gates would be open if nothing else changed; null: not by time alone. */
  readonly opensMs: MonoMs | null;
  /** The order of a person that would pass over the deciding gate; null: none would. */
  readonly overruledBy: Order['verb'] | null;
  /** What a fencing would free; null: not known. */
  readonly frees: Frees | null;
  readonly plan: NodePlan | null;
  readonly devices: readonly DeviceMemory[];
  /** The open fencing; `dueMs` as `dueMsOf` says. */
  readonly fencing: { readonly fencing: Fencing; readonly dueMs: MonoMs | null } | null;
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
  const gates = gatesOf(atGate(look, memory, ageMs, open?.record.id ?? null));
  const closed = gates.filter(({ isOpen }) => !isOpen);
  const deciding = closed[0] ?? null;
  const frees = freesOf(memory.object, observation, atMs - FRESH_MS);
  const plan = planOf(config, name);
  return {
    node: refOf(memory),
    class: classOf(memory, ageMs, look.asOfMs, atMs, config),
    ageMs,
    gates,
    deciding,
    opensMs: opensMs(closed, atMs),
    overruledBy: deciding === null ? null : overruledBy(deciding),
    frees: frees.known ? frees.value : null,
    plan,
    devices: plan === null ? [] : devicesOf(memory, plan, state),
    fencing: open === undefined ? null : { fencing: open, dueMs: dueMsOf(open, look) },
  };
}

/**
 * When it goes on by itself at the latest; one that failed begins anew then at the earliest. Null: when something is heard, another
 * guard decides or none, or the next `off` is held.
 */
export function dueMsOf(fencing: Fencing, look: Look): MonoMs | null {
  if (fencing.pending !== null || !look.observation.self.leadership.isLeader || look.config.dryRun) return null;
  return isOffHeld(fencing, look) ? null : turnOf(fencing, look).dueMs;
}

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
/** Limits of the rate that no `release` lifts, and what the devices are about to say. */
const NOT_OVERRULED: ReadonlySet<string> = new Set([
  'max-in-flight',
  'another-control-plane',
  'control-plane-majority',
  'not-asked',
]);

function devicesOf({ object }: NodeMemory, plan: NodePlan, { devices }: GuardState): readonly DeviceMemory[] {
  return keysOf(plan).flatMap((method) => devices.get(deviceKey(object.uid, method)) ?? []);
}
