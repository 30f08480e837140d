import { factsOf } from '../../../src/core/guard/node-facts.ts';
import type { ConditionView, NodeObject, NodeView } from '../../../src/core/guard/observation.ts';
import type { HeldBy, NodeMemory } from '../../../src/core/guard/state.ts';

export function aNodeObject(rest: Partial<NodeObject> = {}): NodeObject {
  const name = rest.name ?? 'w1';
  return {
    name,
    uid: `uid-${name}`,
    key: name,
    bootId: 'boot-1',
    systemUuid: '',
    created: '',
    isDeleting: false,
    isUnschedulable: false,
    labels: {},
    annotations: {},
    taints: [],
    conditions: [aCondition()],
    ...rest,
  };
}

export function aCondition(rest: Partial<ConditionView> = {}): ConditionView {
  return { type: 'Ready', status: 'True', reason: 'KubeletReady', message: '', heartbeat: 'h1', ...rest };
}

export const aView = (
  rest: Partial<NodeObject> = {},
  renewed: string | null = 'r1',
  durationMs = 40_000,
): NodeView => ({
  object: aNodeObject(rest),
  lease: { renewed, durationMs },
});

/** Alive, and seen a moment ago. */
export function aMemory(rest: Partial<NodeMemory> & { readonly of?: Partial<NodeObject> } = {}): NodeMemory {
  const { of, ...given } = rest;
  const object = aNodeObject(of);
  return {
    object,
    facts: factsOf(object),
    lease: { renewed: 'r1', durationMs: 40_000 },
    readyToken: 'h1',
    ownToken: '',
    signMs: 0,
    answeredMs: null,
    sinceMs: 0,
    isSuspect: false,
    onsetMs: null,
    livesMs: 0,
    countsUntilMs: 0,
    disturbedMs: null,
    explained: null,
    overdueMs: null,
    announced: null,
    cordonedMs: null,
    skippedMs: null,
    ...given,
  };
}

/** `witness kubelet-answers`: as the state has it; '': nothing holds it. */
export function heldBy(text: string): HeldBy | null {
  const [gate, because] = text.split(' ');
  return gate === undefined || because === undefined ? null : { gate, because };
}

export const byUid = (memories: readonly NodeMemory[]): ReadonlyMap<string, NodeMemory> =>
  new Map(memories.map((memory) => [memory.object.uid, memory]));
