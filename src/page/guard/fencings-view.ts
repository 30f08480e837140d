import { sayTenths } from '../../core/units/duration.ts';
import type { GuardLive, Listed, PastFencing, ShownFencing } from '../../guard/shown.ts';
import { sayDue } from '../../words/guard.ts';
import { barOf, ticksOf, trackOf } from '../both-pages.ts';
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
  tableOf,
  timeOf,
} from '../dom.ts';
import { capital, sayFor, sayWhen } from '../say.ts';
import { moreOf } from './nodes-view.ts';

/** A clock that was set back, or that of another leader, makes no negative time. */
const between = (fromMs: number, toMs: number): number => Math.max(0, toMs - fromMs);

export function showFencings({ fencings, status, nodesUnknown, past }: GuardLive, nowWallMs: number): void {
  const would = status.dryFenced.map(({ node, wallMs }) =>
    el('li', {}, nameOf(node), ' since ', timeOf(wallMs, sayWhen(wallMs, nowWallMs))),
  );
  const dry =
    would.length === 0
      ? []
      : [
          el('p', { class: 'lead warn' }, 'Would be fenced, but this is a dry run:'),
          el('ul', { class: 'plain' }, ...would),
        ];
  const content = [...dry, ...fencings.rows.map((one) => fencingOf(one, nowWallMs))];
  const isUnknown = nodesUnknown !== null || typeof past === 'string';
  const none = isUnknown
    ? emptyNote('The fencings are not known.', typeof past === 'string' ? past : (nodesUnknown ?? ''))
    : emptyNote('No fencing is open.', 'Each step of a fencing appears here, with the time that it took.');
  keep(byId('fencings-body'), content.length === 0 ? [none] : [...content, ...moreOf(fencings, 'see guard status')]);
}

function fencingOf(fencing: ShownFencing, nowWallMs: number): HTMLElement {
  const { node, what, id, text, why, isBad, level, attempt, silentMs, steps, dueWallMs, freed } = fencing;
  const beganWallMs = steps.rows[0]?.wallMs ?? nowWallMs;
  const startWallMs = beganWallMs - silentMs;
  const dueMs = dueWallMs === null ? null : between(startWallMs, dueWallMs);
  const nowMs = between(startWallMs, nowWallMs);
  const endMs = Math.max(1_000, nowMs, dueMs ?? 0);
  const heads = [
    columnHead('', 'Step'),
    columnHead('axis', el('span', { class: 'unseen' }, 'Time'), ticksOf(endMs)),
    columnHead('', 'Took'),
  ];
  const rows = steps.rows.map(({ phase, text, wallMs }, i) => {
    const next = steps.rows[i + 1]?.wallMs ?? null;
    const fromMs = between(startWallMs, wallMs);
    const toMs = between(startWallMs, next ?? nowWallMs);
    const isLast = next === null;
    const bars = [
      barOf(`took-bar${isLast ? (isBad ? ' bad' : ' warn') : ''}`, fromMs, toMs, endMs),
      ...(isLast && dueMs !== null && dueMs > nowMs ? [barOf('due-bar', nowMs, dueMs, endMs)] : []),
    ];
    const due = isLast && dueWallMs !== null ? dueText(phase, dueWallMs, nowWallMs) : null;
    return rowOf(
      '',
      rowHead('row', '', el('span', {}, capital(text)), el('span', { class: 'sub' }, el('code', {}, phase))),
      cell('axis', trackOf(bars)),
      cell(
        'verdict-of',
        el('span', {}, isLast ? `for ${sayFor(between(wallMs, nowWallMs))} now` : sayFor(between(wallMs, next))),
        el('span', { class: 'sub' }, due ?? timeOf(wallMs, sayWhen(wallMs, nowWallMs))),
      ),
    );
  });
  const silent = rowOf(
    '',
    rowHead('row', '', steps.leftOut === 0 ? 'Silent' : `Silent, and ${steps.leftOut} earlier steps`),
    cell('axis', trackOf([barOf('silent-bar', 0, silentMs, endMs)])),
    cell('verdict-of', el('span', {}, sayFor(silentMs))),
  );
  const tries = attempt > 1 || level > 0 ? `, attempt ${attempt} of level ${level + 1}` : '';
  return el(
    'div',
    { class: 'fencing' },
    el(
      'p',
      { class: `lead ${isBad ? 'bad' : 'warn'}` },
      nameOf(node),
      `: ${text}${why === null ? '' : ` (${why})`}${tries}`,
    ),
    tableOf('plan', `The ${what} of ${node}, step by step`, heads, [bodyOf([silent, ...rows])]),
    ...freedOf(freed),
    el('p', { class: 'note' }, `${capital(what)}; record `, el('code', {}, `fencing-${id}`)),
  );
}

const dueText = (phase: string, dueWallMs: number, nowWallMs: number): string =>
  sayDue(phase, dueWallMs > nowWallMs ? `in ${sayFor(dueWallMs - nowWallMs)}` : null);

const freedOf = (freed: Listed<string>): readonly HTMLElement[] =>
  freed.rows.length === 0
    ? []
    : [
        el('ul', { class: 'freed' }, ...freed.rows.map((line) => el('li', {}, line))),
        ...moreOf(freed, 'see guard history'),
      ];

export function showPast({ past }: GuardLive, nowWallMs: number): void {
  keep(byId('past-body'), pastContent(past, nowWallMs));
}

function pastContent(past: GuardLive['past'], nowWallMs: number): readonly HTMLElement[] {
  if (typeof past === 'string') return [emptyNote('The records are not known.', past)];
  if (past.rows.length === 0) {
    const note = 'A fencing is listed here once it is over. A dry run leaves no record: guard history --local.';
    return [emptyNote('No fencing is over.', note)];
  }
  const items = past.rows.map((one) => pastOf(one, nowWallMs));
  return [el('ul', { class: 'decisions' }, ...items), ...moreOf(past, 'see guard history')];
}

function pastOf({ node, what, silence, proof, steps, freed }: PastFencing, nowWallMs: number): HTMLElement {
  const [first] = steps.rows;
  const beganMs = first?.wallMs ?? 0;
  const said = steps.rows.map(({ phase, wallMs }) => `${phase} +${sayTenths(between(beganMs, wallMs))}`);
  return el(
    'li',
    {},
    el('p', { class: 'when' }, ...(first === undefined ? [] : [timeOf(beganMs, sayWhen(beganMs, nowWallMs))])),
    el('p', { class: 'text' }, nameOf(node), `: ${what}, ${proof}; ${silence}`),
    el('p', { class: 'outcome' }, `${steps.leftOut === 0 ? '' : '… '}${said.join(', ')}`),
    ...freedOf(freed),
  );
}
