import type { MonoMs } from '../reading.ts';
import type { GuardConfig } from './config.ts';
import { factsOf } from './node-facts.ts';
import type { GuardObservation, NodeObject, NodeView } from './observation.ts';
import { isPlanned } from './planned.ts';
import type { GuardState, NodeMemory } from './state.ts';

/** guard.md 6.1. `new`: it has no age. `unhappy`: alive, but not Ready. */
export const NODE_CLASSES = ['healthy', 'unhappy', 'suspect', 'dead', 'planned', 'new'] as const;
export type NodeClass = (typeof NODE_CLASSES)[number];

/** A node is dead only if two reads at least this far apart find it so. */
export const TWO_LOOKS_MS = 5_000;
/** So long a suspect that shows life still counts in a storm. */
const STILL_COUNTS_MS = 30_000;

type Limits = Pick<GuardConfig, 'suspectAfterMs' | 'deadAfterMs'>;
export type NodesStep = {
  readonly nodes: GuardState['nodes'];
  /** Some node gave a sign of life at this look. */
  readonly hasSign: boolean;
};

/**
 * What is remembered of each node after this look. `isSettled`: silence counts also for a node never seen alive.
 * `startsAnew`: what happened since the last look is not known, so every age begins again.
 */
export function stepNodes(
  before: GuardState['nodes'],
  { atMs, nodes }: Pick<GuardObservation, 'atMs' | 'nodes'>,
  limits: Limits,
  { isSettled, startsAnew }: { readonly isSettled: boolean; readonly startsAnew: boolean },
): NodesStep {
  if (!nodes.known) return { nodes: before, hasSign: false };
  const { value, asOfMs } = nodes.value;
  const memories: NodeMemory[] = [];
  let isSame = value.length === before.size;
  let hasSign = false;
  for (const view of value) {
    const known = before.get(view.object.uid);
    const seen = known === undefined ? firstSeen(view, asOfMs, atMs) : withView(known, view, startsAnew, asOfMs, atMs);
    const memory = withAge(seen, ageOf(seen, asOfMs, isSettled), asOfMs, atMs, limits);
    if (memory.signMs !== null && memory.signMs !== known?.signMs) hasSign = true;
    if (memory !== known) isSame = false;
    memories.push(memory);
  }
  if (isSame) return { nodes: before, hasSign };
  const after = new Map<string, NodeMemory>();
  for (const memory of memories) after.set(memory.object.uid, memory);
  return { nodes: after, hasSign };
}

/**
 * Age of the last sign of life at the last read, by the own clock (G7); null: it has none. A node without a lease that is
 * renewed is known by its status alone, which comes too rarely to be missed.
 */
export function ageOf({ lease, signMs, sinceMs }: NodeMemory, asOfMs: MonoMs, isSettled: boolean): number | null {
  if (lease === null || lease.renewed === null) return null;
  const lastMs = signMs ?? (isSettled ? sinceMs : null);
  return lastMs === null ? null : Math.max(0, asOfMs - lastMs);
}

/** Its class; `ageMs` as `ageOf` says. */
export function classOf(
  memory: NodeMemory,
  ageMs: number | null,
  asOfMs: MonoMs,
  atMs: MonoMs,
  config: Limits & Pick<GuardConfig, 'plannedWaitMs'>,
): NodeClass {
  if (ageMs === null) return 'new';
  if (!memory.isSuspect) return memory.facts.isReady ? 'healthy' : 'unhappy';
  if (isPlanned(memory, ageMs, atMs, config.plannedWaitMs)) return 'planned';
  return isDead(memory, asOfMs) ? 'dead' : 'suspect';
}

export function isDead({ overdueMs }: Pick<NodeMemory, 'overdueMs'>, asOfMs: MonoMs): boolean {
  return overdueMs !== null && asOfMs - overdueMs >= TWO_LOOKS_MS;
}

function firstSeen(view: NodeView, asOfMs: MonoMs, atMs: MonoMs): NodeMemory {
  const facts = factsOf(view.object);
  return {
    object: view.object,
    facts,
    lease: view.lease,
    readyToken: facts.readyToken,
    ownToken: facts.ownToken,
    signMs: null,
    sinceMs: asOfMs,
    isSuspect: false,
    onsetMs: null,
    countsUntilMs: atMs,
    disturbedMs: null,
    explained: null,
    overdueMs: null,
    announced: facts.announced,
    cordonedMs: view.object.isUnschedulable ? atMs : null,
    skippedMs: facts.skipMs === null ? null : atMs,
  };
}

/** What did not change costs nothing: most looks bring half of the nodes another lease, and few another object. */
function withView(
  known: NodeMemory,
  { object, lease }: NodeView,
  startsAnew: boolean,
  asOfMs: MonoMs,
  atMs: MonoMs,
): NodeMemory {
  const seen = withLease(object === known.object ? known : withObject(known, object, atMs), lease, atMs);
  // A change that happened some time since the last look is not one of now.
  return startsAnew
    ? { ...seen, signMs: null, sinceMs: asOfMs, isSuspect: false, onsetMs: null, overdueMs: null, countsUntilMs: atMs }
    : seen;
}

/** The same node as this object has it. */
export function withObject(known: NodeMemory, object: NodeObject, atMs: MonoMs): NodeMemory {
  const facts = factsOf(object);
  const readyToken = facts.readyToken ?? known.readyToken;
  const ownToken = facts.ownToken === '' ? known.ownToken : facts.ownToken;
  const isSign = readyToken !== known.readyToken || ownToken !== known.ownToken;
  return {
    ...known,
    object,
    facts,
    readyToken,
    ownToken,
    signMs: isSign ? atMs : known.signMs,
    disturbedMs: object.bootId === known.object.bootId ? known.disturbedMs : atMs,
    announced: facts.readyToken === null ? (facts.announced ?? known.announced) : facts.announced,
    cordonedMs: object.isUnschedulable ? (known.cordonedMs ?? atMs) : null,
    skippedMs: facts.skipMs === null ? null : (known.skippedMs ?? atMs),
  };
}

function withLease(known: NodeMemory, lease: NodeView['lease'], atMs: MonoMs): NodeMemory {
  const isRenewed = lease !== null && lease.renewed !== null && lease.renewed !== known.lease?.renewed;
  if (isRenewed) return { ...known, lease, signMs: atMs };
  const isSame = lease?.renewed === known.lease?.renewed && lease?.durationMs === known.lease?.durationMs;
  return isSame ? known : { ...known, lease };
}

function withAge(
  memory: NodeMemory,
  ageMs: number | null,
  asOfMs: MonoMs,
  atMs: MonoMs,
  { suspectAfterMs, deadAfterMs }: Limits,
): NodeMemory {
  const leaseMs = memory.lease?.durationMs ?? 0;
  const isSuspect = ageMs !== null && ageMs > Math.max(suspectAfterMs, leaseMs);
  const isOverdue = ageMs !== null && ageMs > Math.max(deadAfterMs, leaseMs);
  const overdueMs = isOverdue ? (memory.overdueMs ?? asOfMs) : null;
  const countsUntilMs = memory.isSuspect && !isSuspect ? atMs + STILL_COUNTS_MS : memory.countsUntilMs;
  const onsetMs = isSuspect
    ? (memory.signMs ?? memory.sinceMs)
    : memory.onsetMs !== null && atMs < countsUntilMs
      ? memory.onsetMs
      : null;
  const disturbedMs = onsetMs === null ? memory.disturbedMs : Math.max(onsetMs, memory.disturbedMs ?? onsetMs);
  const isSame =
    isSuspect === memory.isSuspect &&
    disturbedMs === memory.disturbedMs &&
    overdueMs === memory.overdueMs &&
    countsUntilMs === memory.countsUntilMs &&
    onsetMs === memory.onsetMs;
  return isSame ? memory : { ...memory, isSuspect, overdueMs, countsUntilMs, onsetMs, disturbedMs };
}
