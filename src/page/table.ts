import { el } from './dom.ts';

type Child = Node | string;

/** On a phone, the style sheet turns a table's parts into blocks, and only the roles still say what they are. */
export const tableOf = (
  name: string,
  caption: string,
  heads: readonly HTMLElement[],
  bodies: readonly HTMLElement[],
): HTMLElement =>
  el(
    'table',
    { class: name, role: 'table' },
    el('caption', { class: 'unseen' }, caption),
    el('thead', { role: 'rowgroup' }, el('tr', { role: 'row' }, ...heads)),
    ...bodies,
  );

export const columnHead = (name: string, ...children: readonly Child[]): HTMLElement =>
  el('th', { scope: 'col', role: 'columnheader', class: name }, ...children);

export const bodyOf = (rows: readonly HTMLElement[]): HTMLElement => el('tbody', { role: 'rowgroup' }, ...rows);

export const rowOf = (name: string, ...cells: readonly HTMLElement[]): HTMLElement =>
  el('tr', { role: 'row', class: name }, ...cells);

export const rowHead = (of: 'row' | 'rowgroup', name: string, ...children: readonly Child[]): HTMLElement =>
  el('th', { scope: of, role: 'rowheader', class: name }, ...children);

export const cell = (name: string, ...children: readonly Child[]): HTMLElement =>
  el('td', { role: 'cell', class: name }, ...children);
