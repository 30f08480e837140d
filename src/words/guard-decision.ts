import { type Act, type Frees, type GateRow, type GuardDecision, isStep, type Store } from '../core/guard/decision.ts';
import type { ActResult, AgentRun, GuardOutcome } from '../core/guard/observation.ts';
import type { FencingRecord, Group, HoldScope, StormKind } from '../core/guard/record.ts';
import { sayDuration } from '../core/units/duration.ts';
import { sayPhase, sayWhy } from './guard.ts';
import { sayBecause, sayGateRow, sayOrderAnswer } from './guard-gate.ts';
import { saySilentFor } from './guard-history.ts';
import { counted, saidOf, sayNames, sayToSecond } from './phrases.ts';

/** What the guard decides, for people. Names are as the API has them: whoever prints the sentence escapes it. */

const NAMES_SHOWN = 6;

/** "w7: fence: silent for 2m5s; frees shop/db-0 and 1 volume". */
export function sayFence(
  node: string,
  isDry: boolean,
  frees: Frees | null,
  record: Pick<FencingRecord, 'purpose' | 'silentMs' | 'wasHeard'>,
): string {
  if (record.purpose === 'rehearse') return `${node}: a rehearsal of its devices`;
  const silent = sayToSecond(record.silentMs);
  return `${node}: ${isDry ? 'would be fenced (dry run)' : 'fence'}: ${saySilentFor(record, silent)}; ${frees === null ? FREES_UNKNOWN : `frees ${sayFrees(frees)}`}`;
}

const FREES_UNKNOWN = 'what it frees is not known';

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
export const sayStormKind = (kind: string): string => saidOf<string>(STORM, kind) ?? kind;
export function sayStorm(isOver: boolean, kind: StormKind, scope: HoldScope, nameOf: (uid: string) => string): string {
  const where = sayScope(scope, nameOf);
  return isOver
    ? `storm over (${where}): its cool-down begins`
    : `storm (${where}): ${STORM[kind]}; none of them is switched off until its cool-down is over, or until guard release`;
}

/** A storm begins before it is seen. One that was over when its leader came to know of it has never been seen by it. */
export function sayStormTimes(
  { forMs, overMs }: { readonly forMs: number; readonly overMs: number | null },
  sayTime: (ms: number) => string,
): string {
  const over = overMs === null ? '' : `over for ${overMs === forMs ? 'at least ' : ''}${sayTime(overMs)}: cool-down`;
  if (overMs === forMs) return over;
  return `began at least ${sayTime(forMs)} ago${over === '' ? '' : `, ${over}`}`;
}

/** What held nodes back, in the history. `what`: as `PastHold`. */
export function sayPastHold(what: string, where: string): string {
  return `${where}: ${saidOf<string>(STORM, what) ?? sayBecause(what)}`;
}

const GROUP: { readonly [G in Group]: string } = {
  workers: 'cluster',
  'control-plane': 'control plane',
  'exclude-disruption': 'nodes with exclude-disruption',
};
export function sayScope(scope: HoldScope, nameOf: (uid: string) => string): string {
  switch (scope.kind) {
    case 'cluster':
      return saidOf<string>(GROUP, scope.group) ?? scope.group;
    case 'domain':
      return `${scope.label}=${scope.value}`;
    case 'nodes':
      return sayNames(scope.nodes.map(nameOf), NAMES_SHOWN);
  }
}

/** In dry run: it was silent long enough to be fenced. */
export const sayAliveAgain = (node: string, afterMs: number): string =>
  `${node}: shows life again ${sayToSecond(afterMs)} after it would have been fenced`;

export const sayLostEntries = (entries: number): string =>
  `${counted(entries, 'line')} could not be kept: the disk refused them`;
/** Of a process that has ended. */
export const LOST_BEFORE = 'lines before this one are lost: the disk refused them until the guard ended';
export const sayRefusedEntries = (directory: string): string =>
  `the newest entries: the disk of ${directory} refuses them; a guard that runs keeps them in memory, and guard status says what it holds`;

/** What is to be done, before any of it is; null: it is told otherwise, or there is nothing to do once it is stored. */
export function sayGuardDecision(decision: GuardDecision): string | null {
  switch (decision.kind) {
    case 'fence':
      return sayFence(decision.node.name, decision.isDry, decision.frees, decision.record);
    case 'hold':
      return sayHeld(decision.node.name, decision.gates);
    case 'unmark':
      return `${decision.node.name}: will remove its mark ${decision.value}: no open fencing stands for it`;
    case 'answer':
      return `order ${decision.order}: ${sayOrderAnswer(decision.answer)}`;
    case 'resign':
      return `the node of this guard is silent: it will give the lease back, and not run for ${sayDuration(decision.forMs)}`;
    default: {
      const { act, record, node } = decision;
      return act === null ? null : `${node.name}: stores the decision to ${sayAct(act, record)}${inBrackets(record)}`;
    }
  }
}

/** What became of a decision, when it is over; null: whoever stores says it, or there is nothing to say. */
export function sayGuardOutcome(
  decision: GuardDecision,
  { store, act }: Pick<GuardOutcome, 'store' | 'act'>,
): string | null {
  if (decision.kind === 'unmark') {
    const { name } = decision.node;
    if (act?.kind === 'patched') return `${name}: its mark ${decision.value} is removed`;
    return `${name}: its mark ${decision.value} is not known to be removed${sayFailure(act)}`;
  }
  if (decision.kind === 'answer') return sayAnswerEnd(decision, store?.kind ?? 'stored');
  if (!('record' in decision) || store === null || store.kind === 'failed') return null;
  if (store.kind === 'stored' && !isStep(decision)) return null;
  const { name } = decision.node;
  if (store.kind === 'conflict') return `${name}: somebody else wrote the record first, so nothing was done`;
  return `${name}: ${sayStored(decision, act)}${inBrackets(decision.record)}`;
}

/** What was accepted, and may not be done after all. */
function sayAnswerEnd(
  { order, answer, keeps }: Extract<GuardDecision, { kind: 'answer' }>,
  end: 'stored' | 'conflict' | 'failed',
): string | null {
  if (end === 'stored' || !answer.isAccepted) return null;
  const not = end === 'conflict' ? 'it was taken back' : 'nobody knows whether its answer is stored';
  if (!keeps) return `order ${order}: ${not}, so nothing of it is done`;
  return end === 'conflict'
    ? `order ${order}: ${not}, or could not be kept: this pause is not in force`
    : `order ${order}: ${not}; the pause is in force all the same`;
}

function sayStored({ record, act }: Store, result: ActResult | null): string {
  const isDone = result?.kind === 'ran' ? isOk(result.runs) : result === null || result.kind === 'patched';
  const done = isDone && act !== null ? sayDone(act, record) : null;
  if (done !== null) return done;
  if (act === null || isDone) return sayPhase(record.phase, record.proof?.by === 'person', record.staysOff);
  const what = sayAct(act, record);
  if (result?.kind === 'ran') {
    const well = result.runs.filter((run) => run.isOk).length;
    return `tried to ${what}: ${well} of ${counted(result.runs.length, 'fence agent')} reported success`;
  }
  const how = result?.kind === 'not-begun' ? 'it was not begun' : 'it is not known to be done';
  return `the decision to ${what} is stored, but ${how}${sayFailure(result)}`;
}

const isOk = (runs: readonly AgentRun[]): boolean => runs.length > 0 && runs.every((run) => run.isOk);
const inBrackets = ({ why }: FencingRecord): string => (why === null ? '' : ` (${sayWhy(why)})`);
const sayFailure = (act: ActResult | null): string => (act !== null && 'detail' in act ? `: ${act.detail}` : '');

/** Null: its phase says it. */
function sayDone({ kind }: Act, { phase }: FencingRecord): string | null {
  switch (kind) {
    case 'off':
      return phase === 'isolating' ? 'its storage is cut off' : 'power off is sent';
    case 'on':
      return 'power on is sent';
    case 'untell':
      return 'no taint of the guard is left on it';
    default:
      return null;
  }
}

function sayAct({ kind }: Act, { phase }: FencingRecord): string {
  switch (kind) {
    case 'off':
      return phase === 'isolating' ? 'cut off its storage' : 'send power off';
    case 'on':
      return 'send power on';
    case 'tell':
      return 'set it out of service';
    case 'untell':
      return 'leave no taint of the guard on it';
    case 'clear':
      return 'remove its marks';
  }
}
