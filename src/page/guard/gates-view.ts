import type { GuardLive, GuardReport, ShownGate } from '../../guard/shown.ts';
import { sayStormKind, sayStormTimes } from '../../words/guard-decision.ts';
import { counted } from '../../words/phrases.ts';
import { bodyOf, byId, cell, columnHead, el, keep, rowHead, rowOf, tableOf } from '../dom.ts';
import { capital, sayFor } from '../say.ts';

export function showGates({ status, gates }: GuardLive, nowWallMs: number): void {
  const rows = gates.map((gate) => rowOfGate(gate, status, nowWallMs));
  const heads = [columnHead('', 'Gate'), columnHead('', 'State')];
  const table = tableOf('rows gates', 'The gates, in the order in which they are asked', heads, [bodyOf(rows)]);
  const others = status.leader.isLeader
    ? []
    : [el('p', { class: 'note' }, 'The other gates are asked by the guard that leads.')];
  keep(byId('gates-body'), [table, ...others]);
}

function rowOfGate(gate: ShownGate, status: GuardReport, nowWallMs: number): HTMLElement {
  const [level, word] = stateOf(gate, status);
  const lines = [...whyOf(gate, nowWallMs), ...(gate.gate === 'storm' ? stormsOf(status) : []), ...holdsOf(gate)];
  return rowOf(
    '',
    rowHead('row', '', el('code', {}, gate.gate)),
    cell(
      'why',
      el('span', { class: `tag ${level}` }, word),
      ...lines.map((line) => el('span', { class: 'sub' }, line)),
    ),
  );
}

function stateOf({ gate, isOpen, holds }: ShownGate, { storms }: GuardReport): readonly [string, string] {
  if (gate === 'storm') return storms.length === 0 ? ['ok', 'open'] : ['bad', 'holds'];
  if (isOpen === null) return holds.length === 0 ? ['', 'holds nobody'] : ['warn', 'holds'];
  return isOpen ? ['ok', 'open'] : ['bad', 'closed'];
}

function whyOf({ why, opensWallMs }: ShownGate, nowWallMs: number): readonly string[] {
  if (why === null) return [];
  const opens = opensWallMs === null ? '' : `; opens in ${sayFor(Math.max(0, opensWallMs - nowWallMs))}`;
  return [`${capital(why)}${opens}`];
}

const stormsOf = ({ storms }: GuardReport): readonly string[] =>
  storms.map(
    ({ kind, scope, forMs, overMs }) => `${scope}: ${sayStormKind(kind)}, ${sayStormTimes({ forMs, overMs }, sayFor)}`,
  );

/** Of one node, only the first closed gate counts. */
const holdsOf = ({ holds }: ShownGate): readonly string[] =>
  holds.map(({ why, nodes }) => `First closed gate of ${counted(nodes, 'dead node')}: ${why}`);
