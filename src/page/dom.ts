import { escapeUnsafe } from '../core/units/escape.ts';

type Attributes = { readonly [name: string]: string };
type Child = Node | string;

/**
 * An element with its attributes and children. Only this and `setText` put what tenants chose into the document: as text,
 * with everything escaped that could hide or reorder it.
 */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes,
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.map((child) => (typeof child === 'string' ? escapeUnsafe(child) : child)));
  return made;
}

/**
 * Changes the document only if the text differs, so that a reader's selection and screen reader stay where they are.
 */
export function setText(node: Node, text: string): void {
  const shown = escapeUnsafe(text);
  if (node.textContent !== shown) node.textContent = shown;
}

export function setClass(node: Element, name: string): void {
  if (node.className !== name) node.className = name;
}

export function byId(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no #${id}`);
  return found;
}

/** Replaces the children of `parent` by `wanted`; those with equal HTML stay the same nodes. */
export function keep(parent: Element, wanted: readonly Element[]): void {
  wanted.forEach((next, i) => {
    const now = parent.children[i];
    if (now === undefined) parent.append(next);
    else if (!now.isEqualNode(next)) now.replaceWith(next);
  });
  while (parent.children.length > wanted.length) parent.lastElementChild?.remove();
}

/** A time of the wall clock, for people and programs. */
export function timeOf(wallMs: number, text: string): HTMLTimeElement {
  return el('time', { datetime: new Date(wallMs).toISOString() }, text);
}

/** A name that others chose: its text direction does not affect what surrounds it. */
export const nameOf = (name: string): HTMLElement => el('bdi', { class: 'name' }, name);

/** Shown instead of an empty list: that there is nothing, and what would be there. */
export const emptyNote = (head: string, note: string): HTMLElement =>
  el('div', { class: 'empty' }, el('p', {}, el('strong', {}, head)), el('p', {}, note));

const SAID_MAX = 5;

/** For screen readers, politely. */
export function announce(text: string): void {
  const place = byId('said');
  place.append(el('p', {}, text));
  while (place.children.length > SAID_MAX) place.firstElementChild?.remove();
}

/** Announces what is new since the last call; at the first one, nothing is. */
export function createNews(): (told: readonly { readonly key: string; readonly text: string }[]) => void {
  let heard: ReadonlySet<string> | null = null;
  return (told) => {
    const before = heard;
    if (before !== null) for (const { key, text } of told) if (!before.has(key)) announce(text);
    heard = new Set(told.map(({ key }) => key));
  };
}

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
