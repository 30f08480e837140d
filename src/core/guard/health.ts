import type { MonoMs } from '../reading.ts';
import type { GuardConfig } from './config.ts';
import { type Announcement, factsOf } from './node-facts.ts';
import type { GuardObservation, LeaseView, NodeObject, NodeView } from './observation.ts';
import type { GuardState, NodeMemory } from './state.ts';

/** A cordon that is older than this says nothing about the silence of now (guard.md 10). */
export const FRESH_CORDON_MS = 30 * 60_000;

/** What says that its silence is intended; null: nothing. A cordon of unknown age counts as fresh. */
export function plannedBy({ announced, cordonedMs }: NodeMemory, atMs: MonoMs): Announcement | 'cordon' | null {
  if (announced !== null) return announced;
  return cordonedMs === null || isOldCordon(cordonedMs, atMs) ? null : 'cordon';
}

/** Whether it says nothing about a silence at that time any more. */
export const isOldCordon = (cordonedMs: MonoMs | null, atMs: MonoMs): boolean =>
  cordonedMs !== null && atMs - cordonedMs >= FRESH_CORDON_MS;

/** Announced, and not yet silent for longer than such a shutdown may take. */
export function isPlanned(memory: NodeMemory, ageMs: number, atMs: MonoMs, plannedWaitMs: number): boolean {
  return ageMs < plannedWaitMs && plannedBy(memory, atMs) !== null;
}

/** Asked to be left alone, and the time it asked for is not over. */
export function isSkipped({ facts, skippedMs }: NodeMemory, atMs: MonoMs): boolean {
  return atMs - (skippedMs ?? atMs) < (facts.skipMs ?? 0);
}

/** guard.md 6.1. `new`: it has no age. `unhappy`: alive, but not Ready. */
export const NODE_CLASSES = ['healthy', 'unhappy', 'suspect', 'dead', 'planned', 'new'] as const;
export type NodeClass = (typeof NODE_CLASSES)[number];

/** A node is dead only if two reads at least this far apart find it so. */
export const TWO_LOOKS_MS = 5_000;
/** So long a suspect that shows life still counts in a storm. */
const STILL_COUNTS_MS = 30_000;

type Limits = Pick<GuardConfig, 'suspectAfterMs' | 'deadAfterMs'>;

/** Time between two renewals of a lease: the kubelet's nodeLeaseRenewIntervalFraction is 0.25. */
export const renewalMs = (lease: LeaseView | null): number => (lease?.durationMs ?? 0) / 4;

/** Of the kubelet's default of 40 s. */
export const USUAL_RENEWAL_MS = 10_000;

/** Beyond one renewal, all nodes of one failure are seen silent within this: lists and looks. */
export const SEEN_WITHIN_MS = 20_000;

/** Of a node without a lease: the kubelet's nodeStatusReportFrequency. */
const STATUS_RENEWAL_MS = 300_000;

/** After these, a lease that would still be renewed is seen to be. */
export const renewalsMs = (lease: LeaseView | null, renewals: 1 | 2): number =>
  renewals * Math.max(USUAL_RENEWAL_MS, renewalMs(lease));

/** A node that lives is seen to have given as many signs within this. */
export function signsWithinMs(lease: LeaseView | null, signs: 1 | 2): number {
  return (hasLease({ lease }) ? renewalsMs(lease, signs) : signs * STATUS_RENEWAL_MS) + SEEN_WITHIN_MS;
}

/** When a node is suspect, and when it is dead: later by enough to see first how many fell silent with it (G5). */
export function limitsOf(lease: LeaseView | null, { suspectAfterMs, deadAfterMs }: Limits): Limits {
  const suspectMs = Math.max(suspectAfterMs, lease?.durationMs ?? 0);
  return {
    suspectAfterMs: suspectMs,
    deadAfterMs: Math.max(deadAfterMs, suspectMs + renewalMs(lease) + SEEN_WITHIN_MS),
  };
}
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
  // They come in the same order at almost every look.
  const inOrder = before.values();
  for (const view of value) {
    const { uid } = view.object;
    const next = inOrder.next().value;
    const known = next?.object.uid === uid ? next : before.get(uid);
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

/** A kubelet that answered lived then, whatever it does now. */
export function withAnswered(nodes: GuardState['nodes'], asked: GuardObservation['asked']): GuardState['nodes'] {
  const news = [...asked].flatMap(([uid, { witness }]): readonly (readonly [string, NodeMemory])[] => {
    const memory = nodes.get(uid);
    if (memory === undefined || !witness.known || witness.value.value !== 'answers') return [];
    const { asOfMs } = witness.value;
    return memory.answeredMs === asOfMs ? [] : [[uid, { ...memory, answeredMs: asOfMs }]];
  });
  return news.length === 0 ? nodes : new Map([...nodes, ...news]);
}

/**
 * Age of the last sign of life at the last read, by the own clock (G7); null: it has none. A node without a lease that is
 * renewed is known by its status alone, which comes too rarely to be missed.
 */
export function ageOf(memory: NodeMemory, asOfMs: MonoMs, isSettled: boolean): number | null {
  if (!hasLease(memory)) return null;
  const lastMs = memory.signMs ?? (isSettled ? memory.sinceMs : null);
  return lastMs === null ? null : Math.max(0, asOfMs - lastMs);
}

/** Its age is that of a sign of life that this process saw; else its silence began before that could be seen. */
export const wasHeard = ({ signMs }: Pick<NodeMemory, 'signMs'>): boolean => signMs !== null;

/** Without one that is renewed, nobody can tell that it is silent, nor that it is silent still. */
export const hasLease = ({ lease }: Pick<NodeMemory, 'lease'>): boolean => lease !== null && lease.renewed !== null;

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
    answeredMs: null,
    sinceMs: asOfMs,
    isSuspect: false,
    onsetMs: null,
    livesMs: null,
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
    ? {
        ...seen,
        ...{ signMs: null, sinceMs: asOfMs, isSuspect: false, onsetMs: null },
        ...{ livesMs: null, overdueMs: null, countsUntilMs: atMs },
      }
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

function withAge(memory: NodeMemory, ageMs: number | null, asOfMs: MonoMs, atMs: MonoMs, limits: Limits): NodeMemory {
  const { suspectAfterMs, deadAfterMs } = limitsOf(memory.lease, limits);
  const isSuspect = ageMs !== null && ageMs > suspectAfterMs;
  const livesMs = memory.isSuspect && !isSuspect ? memory.signMs : (memory.livesMs ?? memory.signMs);
  const isOverdue = ageMs !== null && ageMs > deadAfterMs;
  const overdueMs = isOverdue ? (memory.overdueMs ?? asOfMs) : null;
  const countsUntilMs = memory.isSuspect && !isSuspect ? atMs + STILL_COUNTS_MS : memory.countsUntilMs;
  const onsetMs = isSuspect
    ? (memory.signMs ?? memory.sinceMs)
    : memory.onsetMs !== null && atMs < countsUntilMs
      ? memory.onsetMs
      : null;
  // Also one that is not suspect for long yet, and is back before it is.
  const isMissed = ageMs !== null && ageMs > signsWithinMs(memory.lease, 2);
  const quietMs = isMissed ? (memory.signMs ?? memory.sinceMs) : onsetMs;
  const disturbedMs = quietMs === null ? memory.disturbedMs : Math.max(quietMs, memory.disturbedMs ?? quietMs);
  const isSame =
    isSuspect === memory.isSuspect &&
    livesMs === memory.livesMs &&
    disturbedMs === memory.disturbedMs &&
    overdueMs === memory.overdueMs &&
    countsUntilMs === memory.countsUntilMs &&
    onsetMs === memory.onsetMs;
  return isSame ? memory : { ...memory, isSuspect, livesMs, overdueMs, countsUntilMs, onsetMs, disturbedMs };
}
