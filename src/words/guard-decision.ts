import type { Frees, GateRow, GuardDecision } from '../core/guard/decision.ts';
import type { HoldScope, StormKind } from '../core/guard/record.ts';
import { sayDuration } from '../core/units/duration.ts';
import { sayPhase } from './guard.ts';
import { sayGateRow, sayOrderAnswer } from './guard-gate.ts';
import { counted, sayNames } from './phrases.ts';

/** What the guard decides, for people. Names are as the API has them: whoever prints the sentence escapes it. */

const NAMES_SHOWN = 6;

/** "w7: fence: silent for 2m5s; frees shop/db-0 and 1 volume". */
export function sayFence(node: string, isDry: boolean, frees: Frees, silentMs: number): string {
  const silent = `silent for ${sayDuration(Math.round(silentMs / 1_000) * 1_000)}`;
  return `${node}: ${isDry ? 'would be fenced (dry run)' : 'fence'}: ${silent}; frees ${sayFrees(frees)}`;
}

export function sayFrees({ pods, attachments }: Frees): string {
  const named = sayNames(
    pods.map(({ namespace, name }) => `${namespace}/${name}`),
    NAMES_SHOWN,
  );
  const volumes = attachments.length > 0 ? counted(attachments.length, 'volume') : '';
  return [named, volumes].filter((part) => part !== '').join(' and ') || 'nothing';
}

/** The first closed gate is the reason. */
export function sayHeld(node: string, gates: readonly GateRow[]): string {
  const closed = gates.find(({ isOpen }) => !isOpen);
  return closed === undefined ? `${node}: held` : `${node}: held by gate ${closed.gate}: ${sayGateRow(closed)}`;
}

const STORM: { readonly [K in StormKind]: string } = {
  cluster: 'too many nodes are silent',
  domain: 'too many nodes of one failure domain are silent',
  burst: 'nodes fell silent together',
  all: 'no node is healthy',
};
export function sayStorm(isOver: boolean, kind: StormKind, scope: HoldScope, nameOf: (uid: string) => string): string {
  const where = sayScope(scope, nameOf);
  return isOver
    ? `storm over (${where}): its cool-down begins`
    : `storm (${where}): ${STORM[kind]}; nobody of them is fenced until it is over, or until guard release`;
}

export function sayScope(scope: HoldScope, nameOf: (uid: string) => string): string {
  switch (scope.kind) {
    case 'cluster':
      return scope.group === 'workers' ? 'cluster' : 'control plane';
    case 'domain':
      return `${scope.label}=${scope.value}`;
    case 'nodes':
      return sayNames(scope.nodes.map(nameOf), NAMES_SHOWN);
  }
}

/** In one line; null: it is told otherwise. */
export function sayGuardDecision(decision: GuardDecision): string | null {
  switch (decision.kind) {
    case 'fence':
      return sayFence(decision.node.name, decision.isDry, decision.frees, decision.record.silentMs);
    case 'hold':
      return sayHeld(decision.node.name, decision.gates);
    case 'unmark':
      return `${decision.node.name}: its mark ${decision.value} is removed, because no open fencing stands for it`;
    case 'answer':
      return `order ${decision.order}: ${sayOrderAnswer(decision.answer)}`;
    case 'resign':
      return `the node of this guard is silent: it gives the lease back, and does not run for ${sayDuration(decision.forMs)}`;
    default: {
      const { record, node } = decision;
      const isConfirmed = record.proof?.by === 'person';
      return `${node.name}: ${sayPhase(record.phase, isConfirmed)}${record.why === null ? '' : ` (${record.why})`}`;
    }
  }
}
