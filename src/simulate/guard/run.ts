import type { GuardReason, GuardVerdict } from '../../core/guard/decision.ts';
import type { HoldScope } from '../../core/guard/record.ts';
import type { GuardState } from '../../core/guard/state.ts';
import { circumstancesOf } from './circumstances.ts';
import { happen } from './events.ts';
import type { Fact, PodName, ProcessName } from './facts.ts';
import { createGuards, type Looked } from './guards.ts';
import { type Violation, violationsOf } from './invariants.ts';
import { nameOf } from './objects.ts';
import { storedOrders } from './process/senses.ts';
import { type GuardResult, resultOf } from './result.ts';
import type { GuardScenario } from './scenario.ts';
import { createWorld, type World } from './world.ts';

export type GuardRun = {
  readonly result: GuardResult;
  /** In order of time. */
  readonly facts: readonly Fact[];
  readonly violations: readonly Violation[];
};

/** Plays a scenario to its end. The same scenario gives the same run. */
export function runGuard(scenario: GuardScenario, looked: Looked = () => undefined): GuardRun {
  const world = createWorld(scenario);
  const { agenda, facts } = world;
  const teller = createTeller(world);
  const guards = createGuards(scenario, world, teller, looked);
  world.onFact((fact) => {
    if (fact.kind === 'phase') guards.phaseStored(fact.guard, fact.phase);
  });
  guards.start();
  for (const event of scenario.events) {
    agenda.at(event.atMs, () => {
      world.tell({ kind: 'event', atMs: agenda.now(), event });
      happen(event, world, guards, { shutdownMs: scenario.world.shutdownTakes });
    });
  }
  agenda.runUntil(scenario.untilMs);
  const inOrder = facts.toSorted((a, b) => a.atMs - b.atMs);
  return {
    result: resultOf(inOrder, membersOf(scenario), scenario.untilMs),
    facts: inOrder,
    violations: violationsOf(inOrder, circumstancesOf(scenario)),
  };
}

function membersOf({ nodes }: GuardScenario): ReadonlySet<PodName> {
  return new Set(nodes.flatMap(({ pods }) => pods.flatMap((pod) => (pod.statefulSet === null ? [] : [pod.name]))));
}

type Teller = (guard: ProcessName, verdict: GuardVerdict, state: GuardState) => void;

/** What a leader decided and why, as facts; what it goes on saying is said once. */
function createTeller({ agenda, tell, store }: World): Teller {
  const heldNodes = new Map<string, string>();
  return (guard, { decisions, reasons }, state) => {
    const atMs = agenda.now();
    const endHold = (scope: string): void => {
      const gate = heldNodes.get(scope);
      heldNodes.delete(scope);
      if (gate !== undefined) tell({ kind: 'hold-ended', atMs, guard, scope, gate });
    };
    for (const decision of decisions) {
      if (decision.kind === 'hold') {
        const closed = decision.gates.find(({ isOpen }) => !isOpen);
        if (closed === undefined || heldNodes.get(decision.node.name) === closed.gate) continue;
        endHold(decision.node.name);
        heldNodes.set(decision.node.name, closed.gate);
        tell({ kind: 'held', atMs, guard, scope: decision.node.name, gate: closed.gate, row: closed, nodes: [] });
      } else if (decision.kind === 'fence') {
        endHold(decision.node.name);
        const isStormExempt = decision.record.order !== null || state.releases.length > 0;
        const { node, fencing, isDry, frees, record } = decision;
        tell({ kind: 'decided', atMs, guard, node: node.name, fencing, isDry, isStormExempt, frees, record });
        if (record.proof?.by === 'person') tell({ kind: 'confirmed', atMs, fencing, node: node.name });
      } else if (decision.kind === 'confirm') {
        tell({ kind: 'confirmed', atMs, fencing: decision.fencing, node: decision.node.name });
      } else if (decision.kind === 'answer') {
        const order = storedOrders(store).orders.find(({ id }) => id === decision.order)?.said;
        if (order !== undefined) tell({ kind: 'answered', atMs, guard, order, answer: decision.answer });
      }
    }
    for (const scope of [...heldNodes.keys()]) {
      const uid = store.node(scope)?.uid;
      if (uid === undefined || state.nodes.get(uid)?.isSuspect === false) endHold(scope);
    }
    for (const reason of reasons) tellReason(reason, guard);
  };

  function tellReason(reason: GuardReason, guard: ProcessName): void {
    const atMs = agenda.now();
    if (reason.code === 'storm-began' || reason.code === 'storm-ended') {
      const held = { atMs, guard, scope: sayScope(reason.scope), gate: 'storm' };
      const nodes = reason.scope.kind === 'nodes' ? reason.scope.nodes.map(nameOf) : [];
      tell(
        reason.code === 'storm-began' ? { kind: 'held', ...held, row: null, nodes } : { kind: 'hold-ended', ...held },
      );
    } else tell({ kind: 'reason', atMs, guard, reason });
  }
}

function sayScope(scope: HoldScope): string {
  switch (scope.kind) {
    case 'cluster':
      return scope.group === 'workers' ? 'cluster' : scope.group;
    case 'domain':
      return `${scope.label}=${scope.value}`;
    case 'nodes':
      return 'burst';
  }
}
