import { byId, el, keep, setClass, setText } from './dom.ts';

export type Level = 'ok' | 'warn' | 'bad';
export type Verdict = { readonly level: Level; readonly text: string; readonly why: readonly string[] };

/** One sentence about the overall state, and why. With it, the page shows something. */
export function sayVerdict({ level, text, why }: Verdict): void {
  setClass(byId('verdict-box'), `verdict ${level}`);
  setText(byId('verdict'), text);
  keep(
    byId('verdict-why'),
    why.map((line) => el('p', {}, line)),
  );
  byId('main').setAttribute('aria-busy', 'false');
}

/** The level, value and note of a tile. */
export type Said = readonly [Level | 'plain', string, readonly (string | Node)[]];

export function tile(
  name: string,
  level: Level | 'plain',
  value: string,
  note: readonly (string | Node)[],
): HTMLElement {
  return el(
    'div',
    { class: `tile ${level}` },
    el('dt', {}, name),
    el('dd', {}, el('strong', {}, value), el('span', {}, ...note)),
  );
}
