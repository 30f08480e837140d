import type { StatusReport } from '../serve/status.ts';
import { byId, el, emptyNote, keep, setClass, setText } from './dom.ts';

// What the pages of the agent and of the guard show alike.

type Level = 'ok' | 'warn' | 'bad';
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

const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600];
const LONG_S = 7_200;
const MOST_TICKS = 5;

/** The times below a picture that begins at 0. */
export function ticksOf(endMs: number): HTMLElement {
  const leastS = endMs / 1_000 / MOST_TICKS;
  const step = (STEPS_S.find((seconds) => leastS <= seconds) ?? Math.ceil(leastS / LONG_S) * LONG_S) * 1_000;
  const ticks = el('span', { class: 'ticks', 'aria-hidden': 'true' });
  for (let at = 0; at <= endMs; at += step) {
    const tick = el('span', {}, sayTick(at));
    tick.style.left = `${(100 * at) / endMs}%`;
    ticks.append(tick);
  }
  return ticks;
}

function sayTick(ms: number): string {
  if (ms % 3_600_000 === 0 && ms > 0) return `${ms / 3_600_000} h`;
  return ms % 60_000 === 0 && ms > 0 ? `${ms / 60_000} min` : `${ms / 1_000} s`;
}

/** Only a picture: the text beside it says what it shows. */
export const trackOf = (bars: readonly HTMLElement[]): HTMLElement =>
  el('span', { class: 'track', 'aria-hidden': 'true' }, ...bars);

export function barOf(name: string, fromMs: number, toMs: number, endMs: number): HTMLElement {
  const bar = el('span', { class: name });
  bar.style.left = `${(100 * fromMs) / endMs}%`;
  bar.style.width = `${(100 * Math.max(0, toMs - fromMs)) / endMs}%`;
  return bar;
}

export function showFindings({ findings, warnings }: Pick<StatusReport, 'findings' | 'warnings'>): void {
  const all = findings.length + warnings.length;
  const count = byId('findings-count');
  count.hidden = all === 0;
  setText(count, String(all));
  keep(byId('findings-body'), [
    ...(findings.length === 0
      ? [emptyNote('No findings.', 'A problem that needs your attention would be listed here, with what to do.')]
      : [
          listOf(
            'finding',
            findings.map(({ text }) => text),
          ),
        ]),
    ...(warnings.length === 0 ? [] : [el('h3', {}, 'About the configuration'), listOf('warning', warnings)]),
  ]);
}

const listOf = (kind: string, texts: readonly string[]): HTMLElement =>
  el('ul', { class: `findings ${kind}` }, ...texts.map((text) => el('li', {}, text)));
