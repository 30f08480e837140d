import type { GuardLive, ShownNode } from '../../guard/shown.ts';
import { byId, el, emptyNote, keep, nameOf, setText } from '../dom.ts';
import { capital, sayFor } from '../say.ts';
import { bodyOf, cell, columnHead, rowHead, rowOf, tableOf } from '../table.ts';
import { allOf, LEVEL, moreOf, sayClasses, sayLimits } from './say.ts';

export function showNodes(answer: GuardLive, nowWallMs: number): void {
  setText(byId('nodes-of'), sayClasses(answer.status.nodes));
  keep(byId('nodes-body'), contentOf(answer, nowWallMs));
}

function contentOf(answer: GuardLive, nowWallMs: number): readonly HTMLElement[] {
  const { status, nodes, nodesUnknown } = answer;
  if (nodesUnknown !== null) return [emptyNote('The nodes are not known.', nodesUnknown)];
  if (allOf(status.nodes) === 0) return [emptyNote('The cluster has no nodes.', 'They appear here once they exist.')];
  if (nodes.rows.length === 0) return [emptyNote('Every node is healthy.', sayLimits(answer))];
  const heads = [columnHead('', 'Node'), columnHead('', 'State when last listed'), columnHead('', 'What holds it')];
  const rows = nodes.rows.map((node) => rowOfNode(node, answer, nowWallMs));
  return [
    tableOf('rows nodes', 'Nodes that are not healthy, the dead ones first', heads, [bodyOf(rows)]),
    ...moreOf(nodes, 'nodewarden guard explain NODE shows one of them'),
    el('p', { class: 'note' }, sayLimits(answer)),
  ];
}

function rowOfNode({ name, domains, health, ageMs, ...held }: ShownNode, answer: GuardLive, nowWallMs: number) {
  return rowOf(
    '',
    rowHead(
      'row',
      '',
      nameOf(name),
      ...(domains.length === 0 ? [] : [el('span', { class: 'sub' }, domains.join(', '))]),
    ),
    cell(
      '',
      el('span', { class: `tag ${LEVEL[health] ?? ''}` }, health),
      el('span', { class: 'sub' }, signOf(health, ageMs)),
    ),
    cell('why', ...whyOf(held, answer, nowWallMs)),
  );
}

function signOf(health: ShownNode['health'], ageMs: number | null): string {
  if (ageMs === null) return 'no sign of life seen';
  return health === 'unhappy' ? `heard ${sayFor(ageMs)} before` : `silent for ${sayFor(ageMs)}`;
}

function whyOf(
  { said, gate, opensWallMs }: Pick<ShownNode, 'said' | 'gate' | 'opensWallMs'>,
  { status }: GuardLive,
  nowWallMs: number,
): readonly (string | HTMLElement)[] {
  if (said === null) return [status.leader.isLeader ? '' : 'known to the guard that leads'];
  const opens = opensWallMs === null ? '' : `; opens in ${sayFor(Math.max(0, opensWallMs - nowWallMs))}`;
  return gate === null ? [capital(said)] : [el('code', {}, gate), `: ${said}${opens}`];
}
