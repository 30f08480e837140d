import { NODE_CLASSES, type NodeClass } from '../../core/guard/health.ts';
import type { GuardLive, GuardReport, Listed, ShownDomain, ShownNode } from '../../guard/shown.ts';
import { saySilentFor } from '../../words/guard-history.ts';
import {
  bodyOf,
  byId,
  cell,
  columnHead,
  el,
  emptyNote,
  keep,
  nameOf,
  rowHead,
  rowOf,
  setText,
  tableOf,
} from '../dom.ts';
import { capital, sayFor } from '../say.ts';

export function showNodes(answer: GuardLive, nowWallMs: number): void {
  setText(byId('nodes-of'), sayClasses(answer.status.nodes));
  keep(byId('nodes-body'), nodesOf(answer, nowWallMs));
}

function nodesOf(answer: GuardLive, nowWallMs: number): readonly HTMLElement[] {
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

function rowOfNode(
  { name, domains, health, ageMs, wasHeard, ...held }: ShownNode,
  answer: GuardLive,
  nowWallMs: number,
) {
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
      el('span', { class: 'sub' }, signOf({ health, ageMs, wasHeard })),
    ),
    cell('why', ...whyOf(held, answer, nowWallMs)),
  );
}

function signOf({ health, ageMs, wasHeard }: Pick<ShownNode, 'health' | 'ageMs' | 'wasHeard'>): string {
  if (ageMs === null) return 'how long it is silent is not known';
  if (health === 'unhappy' && wasHeard) return `heard ${sayFor(ageMs)} before`;
  return saySilentFor({ wasHeard }, sayFor(ageMs));
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

export function showDomains(answer: GuardLive): void {
  keep(byId('domains-body'), domainsOf(answer));
}

function domainsOf({ domains, nodesUnknown }: GuardLive): readonly HTMLElement[] {
  if (nodesUnknown !== null) return [emptyNote('The nodes are not known.', nodesUnknown)];
  if (domains.length === 0) {
    const note = 'Without domainLabels, a rack that fails is seen only because its nodes fall silent together.';
    return [emptyNote('No label divides the nodes.', note)];
  }
  return domains.flatMap((of) => [
    tableOf(
      'rows domains',
      `Nodes by ${of.label}`,
      [columnHead('', el('code', {}, of.label)), columnHead('', 'Nodes')],
      [bodyOf(of.rows.map(rowOfDomain))],
    ),
    ...moreOf(of, 'those with most silent nodes are shown'),
  ]);
}

function rowOfDomain({ value, nodes, isDisrupted }: ShownDomain): HTMLElement {
  const all = allOf(nodes);
  const parts = NODE_CLASSES.filter((name) => nodes[name] > 0).map((name) => {
    const part = el('span', { class: LEVEL[name] });
    part.style.width = `${(100 * nodes[name]) / all}%`;
    return part;
  });
  return rowOf(
    '',
    rowHead(
      'row',
      '',
      value === '' ? 'without this label' : nameOf(value),
      ...(isDisrupted ? [' ', el('span', { class: 'tag bad' }, 'storm')] : []),
    ),
    cell('', sayClasses(nodes), el('span', { class: 'share', 'aria-hidden': 'true' }, ...parts)),
  );
}

const LEVEL: { readonly [C in NodeClass]: string } = {
  ...{ healthy: 'ok', unhappy: 'warn', suspect: 'warn', dead: 'bad', planned: 'planned', new: '' },
};

export const allOf = (nodes: GuardReport['nodes']): number => NODE_CLASSES.reduce((sum, name) => sum + nodes[name], 0);

/** "500: 496 healthy, 3 suspect, 1 dead" */
export function sayClasses(nodes: GuardReport['nodes']): string {
  const classes = NODE_CLASSES.flatMap((name) => (nodes[name] > 0 ? [`${nodes[name]} ${name}`] : []));
  return `${allOf(nodes)}${classes.length === 0 ? '' : `: ${classes.join(', ')}`}`;
}

/** What the classes mean, by the limits in force. */
const sayLimits = ({ limits: { suspectAfterMs, deadAfterMs } }: GuardLive): string =>
  `Unhappy: alive, but not Ready. Suspect: silent for more than ${sayFor(suspectAfterMs)}. Dead: for more than ${sayFor(deadAfterMs)}. Planned: its silence was announced. New: how long it is silent is not known.`;

/** How many more there are. */
export const moreOf = ({ leftOut }: Pick<Listed<unknown>, 'leftOut'>, what: string): readonly HTMLElement[] =>
  leftOut === 0 ? [] : [el('p', { class: 'note' }, `and ${leftOut} more; ${what}`)];
