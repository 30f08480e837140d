import { needsPerson } from '../../core/guard/record.ts';
import { sayTenths } from '../../core/units/duration.ts';
import type { GuardLive, Listed, ShownFencing, ShownRecord } from '../../guard/shown.ts';
import { sayDue, sayStopped, sayWhy } from '../../words/guard.ts';
import { sayFreed, sayPhaseOf, sayProof, sayPurpose, saySilence, sayStepsOf } from '../../words/guard-history.ts';
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
  const content = [...dry, ...fencings.rows.map((one) => fencingOf(one, nowWallMs, status.dryRun))];
  const isUnknown = nodesUnknown !== null || typeof past === 'string';
  const none = isUnknown
    ? emptyNote('The fencings are not known.', typeof past === 'string' ? past : (nodesUnknown ?? ''))
    : emptyNote('No fencing is open.', 'Each step of a fencing appears here, with the time that it took.');
  keep(byId('fencings-body'), content.length === 0 ? [none] : [...content, ...moreOf(fencings, 'see guard status')]);
}

function fencingOf({ record, dueWallMs }: ShownFencing, nowWallMs: number, isDry: boolean): HTMLElement {
  const { node, id, phase, why, level, attempt, silentMs, wasHeard } = record;
  const isBad = needsPerson(phase);
  const what = sayPurpose(record);
  const said = sayStepsOf(record);
  const steps = last(record.steps.map((step, at) => ({ ...step, text: said[at] ?? step.phase })));
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
    cell('verdict-of', el('span', {}, `${wasHeard ? '' : 'at least '}${sayFor(silentMs)}`)),
  );
  const tries = attempt > 1 || level > 0 ? `, attempt ${attempt} of level ${level + 1}` : '';
  return el(
    'div',
    { class: 'fencing' },
    el(
      'p',
      { class: `lead ${isBad ? 'bad' : 'warn'}` },
      nameOf(node.name),
      `: ${sayStopped(phase, isDry) ?? sayPhaseOf(record, phase)}${why === null ? '' : ` (${sayWhy(why)})`}${tries}`,
    ),
    tableOf('plan', `The ${what} of ${node.name}, step by step`, heads, [bodyOf([silent, ...rows])]),
    ...freedOf(record),
    el('p', { class: 'note' }, `${capital(what)}; record `, el('code', {}, `fencing-${id}`)),
  );
}

const dueText = (phase: string, dueWallMs: number, nowWallMs: number): string =>
  sayDue(phase, dueWallMs > nowWallMs ? `in ${sayFor(dueWallMs - nowWallMs)}` : null);

const MOST = 40;
/** The last ones. */
function last<T>(all: readonly T[]): Listed<T> {
  const rows = all.slice(-MOST);
  return { rows, leftOut: all.length - rows.length };
}

/** Pods and volumes. */
function freedOf(record: ShownRecord): readonly HTMLElement[] {
  const freed = sayFreed(record);
  if (freed.length === 0) return [];
  const items = freed.slice(0, MOST).map((line) => el('li', {}, line));
  return [
    el('ul', { class: 'freed' }, ...items),
    ...moreOf({ leftOut: freed.length - items.length }, 'see guard history'),
  ];
}

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

function pastOf(record: ShownRecord, nowWallMs: number): HTMLElement {
  const steps = last(record.steps);
  const [first] = steps.rows;
  const beganMs = first?.wallMs ?? 0;
  const said = steps.rows.map(({ phase, wallMs }) => `${phase} +${sayTenths(between(beganMs, wallMs))}`);
  return el(
    'li',
    {},
    el('p', { class: 'when' }, ...(first === undefined ? [] : [timeOf(beganMs, sayWhen(beganMs, nowWallMs))])),
    el(
      'p',
      { class: 'text' },
      nameOf(record.node.name),
      `: ${sayPurpose(record)}, ${sayProof(record)}; ${saySilence(record)}`,
    ),
    el('p', { class: 'outcome' }, `${steps.leftOut === 0 ? '' : '… '}${said.join(', ')}`),
    ...freedOf(record),
  );
}
