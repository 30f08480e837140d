import type { MonoMs } from '../../core/reading.ts';
import { sayDuration } from '../../core/units/duration.ts';
import { sayGuardReason, sayPhase, sayWhy } from '../../words/guard.ts';
import { sayFence } from '../../words/guard-decision.ts';
import { sayGateRow, sayOrderAnswer } from '../../words/guard-gate.ts';
import { sayNames } from '../../words/phrases.ts';
import { type Fact, factsOf, guardOf, type KindOf } from './facts.ts';
import { withoutMoments } from './result.ts';
import type { ScenarioEvent, ScenarioOrder } from './scenario.ts';

/** One line for a reader: what happened in the world, or what a guard did and why. Milliseconds since the start. */
export type TimelineLine = { readonly at: MonoMs; readonly what: Fact['kind']; readonly text: string };

const NAMES_SHOWN = 6;
const names = (nodes: readonly string[]): string => sayNames(nodes, NAMES_SHOWN);

/** The facts, in order of time, in words. What happens to many nodes at one instant is one line. */
export function timelineOf(all: readonly Fact[]): readonly TimelineLine[] {
  const facts = withoutMoments(all);
  const freed = factsOf(facts, 'pod-freed').filter(({ by }) => by === 'out-of-service');
  const lines: TimelineLine[] = [];
  let together: HeldFact[] = [];
  const flush = (): void => {
    const [first] = together;
    if (first !== undefined) lines.push({ at: first.atMs, what: 'held', text: heldText(together) });
    together = [];
  };
  for (const fact of facts) {
    if (fact.kind === 'hold-ended') continue;
    if (fact.kind !== 'held' || !isLike(together[0], fact)) flush();
    if (fact.kind === 'held') together.push(fact);
    else {
      const text = factText(fact, facts, freed);
      if (text !== null) lines.push({ at: fact.atMs, what: fact.kind, text });
    }
  }
  flush();
  return lines;
}
type HeldFact = KindOf<'held'>;

function isLike(first: HeldFact | undefined, { atMs, gate, row }: HeldFact): boolean {
  if (first === undefined || first.row === null || row === null) return false;
  return first.atMs === atMs && first.gate === gate && first.row.because === row.because;
}

function heldText(held: readonly HeldFact[]): string {
  const [first] = held;
  if (first === undefined) return '';
  const { gate, row, nodes } = first;
  const who = nodes.length > 0 ? `${names(nodes)} fell silent together` : names(held.map(({ scope }) => scope));
  return `${who}: held by gate ${gate}${row === null ? '' : `: ${sayGateRow(row)}`}`;
}

const isConfirmed = ({ fencing }: KindOf<'phase'>, facts: readonly Fact[]): boolean =>
  facts.some((fact) => fact.kind === 'confirmed' && fact.fencing === fencing);

type Freed = readonly KindOf<'pod-freed'>[];

function factText(fact: Fact, facts: readonly Fact[], freed: Freed): string | null {
  switch (fact.kind) {
    case 'event':
      return eventText(fact.event);
    case 'leads':
      return fact.isNew ? `${guardOf(fact.guard)} leads` : null;
    case 'gives-up':
      return `${guardOf(fact.guard)} leads no longer`;
    case 'decided':
      return decidedText(fact);
    case 'phase':
      if (!fact.isStep) return null;
      return `${fact.node}: ${sayPhase(fact.phase, isConfirmed(fact, facts), fact.record.staysOff)}${fact.why === '' ? '' : ` (${sayWhy(fact.why)})`}`;
    case 'power':
      return fact.by === null ? null : `${fact.node} is really ${fact.isOn ? 'on' : 'off'}`;
    case 'pod-freed':
      return fact.by === 'out-of-service' ? `${fact.pod} is freed from ${fact.node}` : null;
    case 'pod-started':
      return startedText(fact, facts, freed);
    case 'answered':
      return `${orderText(fact.order)}: ${sayOrderAnswer(fact.answer)}`;
    case 'reason':
      return sayGuardReason(fact.reason);
    default:
      return null;
  }
}

function orderText({ verb, scope, by }: Pick<ScenarioOrder, 'verb' | 'scope' | 'by'>): string {
  return `order of ${by}: ${verb}${scope === null ? '' : ` ${scope}`}`;
}

function decidedText({ node, isDry, frees, record }: KindOf<'decided'>): string {
  return sayFence(node, isDry, frees, record);
}

/** Only successors: what starts again on its own node is no news. */
function startedText(
  { pod, uid, node, atMs }: KindOf<'pod-started'>,
  facts: readonly Fact[],
  freed: Freed,
): string | null {
  const before = freed.findLast((one) => one.pod === pod && one.uid !== uid && one.atMs <= atMs);
  if (before === undefined) return null;
  const silent = factsOf(facts, 'silent').findLast((one) => one.node === before.node && one.atMs <= before.atMs);
  const gap = silent === undefined ? '' : `; ${sayDuration(atMs - silent.sinceMs)} without a member`;
  return `${pod} runs on ${node}${gap}`;
}

function eventText(event: ScenarioEvent): string {
  switch (event.kind) {
    case 'power':
      return `power ${event.isOn ? 'on' : 'lost'}: ${names(event.nodes)}`;
    case 'freeze':
      return `${event.isFrozen ? 'frozen' : 'runs on'}: ${names(event.nodes)}`;
    case 'kubelet':
      return `kubelet ${event.isRunning ? 'starts' : 'stops'}: ${names(event.nodes)}`;
    case 'cut':
      return `cut from ${event.from === 'api' ? 'the API server' : 'everything'}: ${names(event.nodes)}`;
    case 'heal':
      return `network whole again: ${event.nodes === null ? 'all' : names(event.nodes)}`;
    case 'api':
      return `API server ${event.mode}`;
    case 'device':
      return `devices of ${names(event.nodes)}: ${faultText(event)}`;
    case 'guard':
      return event.atPhase === null
        ? `${event.guard}: ${actText(event)}`
        : `${event.guard}: ${actText(event)} when it stores ${event.atPhase}`;
    case 'clock':
      return `clock of ${names([...event.nodes, ...(event.guard === null ? [] : [event.guard])])} set by ${sayDuration(event.stepMs)}`;
    case 'announce':
      return `${event.what} announced: ${names(event.nodes)}`;
    case 'annotate':
    case 'label':
      return `${event.kind} ${event.key}${event.value === null ? ' removed' : `=${event.value}`}: ${names(event.nodes)}`;
    case 'taint':
      return `${event.isSet ? 'tainted' : 'taint removed'} by somebody else: ${event.key}: ${names(event.nodes)}`;
    case 'cordon':
      return `${event.isSet ? 'cordoned' : 'uncordoned'}: ${names(event.nodes)}`;
    case 'deleteNode':
      return `Node deleted: ${names(event.nodes)}`;
    case 'deleteRecords':
      return 'records deleted by hand';
    case 'order':
      return orderText(event.order);
  }
}

function actText({ act, forMs }: Extract<ScenarioEvent, { kind: 'guard' }>): string {
  const said = {
    kill: 'killed',
    restart: 'restarted',
    pause: 'paused',
    cut: 'cut from the API server',
    heal: 'reaches the API server',
  };
  return `${said[act]}${forMs === null ? '' : ` for ${sayDuration(forMs)}`}`;
}

function faultText({ says, afterMs, fails, hangs, lies }: Extract<ScenarioEvent, { kind: 'device' }>): string {
  const faults = [
    ...(says === null ? [] : [`say ${says}`]),
    ...(afterMs > 0 ? [`switch ${sayDuration(afterMs)} later`] : []),
    ...(fails ? ['fail'] : []),
    ...(hangs ? ['do not answer'] : []),
    ...(lies ? ['lie: they switch nothing'] : []),
  ];
  return faults.length === 0 ? 'as they should be' : faults.join(', ');
}
