import { NODE_CLASSES } from '../../core/guard/health.ts';
import type { GuardLive, ShownDomain } from '../../guard/shown.ts';
import { byId, el, emptyNote, keep, nameOf } from '../dom.ts';
import { bodyOf, cell, columnHead, rowHead, rowOf, tableOf } from '../table.ts';
import { allOf, LEVEL, moreOf, sayClasses } from './say.ts';

export function showDomains(answer: GuardLive): void {
  keep(byId('domains-body'), contentOf(answer));
}

function contentOf({ domains, nodesUnknown }: GuardLive): readonly HTMLElement[] {
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
