import type { StatusReport } from '../serve/status.ts';
import { byId, createNews, el, emptyNote, keep, setText, timeOf } from './dom.ts';
import { sayAgo, sayWhen } from './say.ts';

type DecisionStatus = StatusReport['decisions'][number];
/** The outcomes of all others are in the log. */
const HAS_END: readonly string[] = ['evict', 'evict-over-limit', 'reclaim', 'stop-for-shutdown'];
const ENDED: { readonly [K in NonNullable<DecisionStatus['outcome']>['kind']]: readonly [string, string] } = {
  ended: ['ok', 'done'],
  reclaimed: ['ok', 'done'],
  survived: ['bad', 'failed'],
  unknown: ['warn', 'not known'],
  dropped: ['', 'dropped'],
};

/** Announces new decisions and their outcomes to screen readers. */
export function createDecisionsView(): (status: StatusReport, nowWallMs: number) => void {
  const hear = createNews();
  return ({ decisions, node }, nowWallMs) => {
    const told = decisions.flatMap(({ id, text, outcome }) => [
      { key: id, text },
      ...(outcome === null ? [] : [{ key: `${id} ${outcome.kind}`, text: `${text}: ${outcome.text}` }]),
    ]);
    hear(told.toReversed());
    const place = byId('decisions-body');
    if (decisions.length === 0) {
      keep(place, [
        emptyNote(
          'No decision since the agent started or reloaded.',
          node.dryRun
            ? 'The pods that it would evict appear here, with the reason. It stops nothing.'
            : 'Evictions appear here, with the reason and the outcome.',
        ),
      ]);
      return;
    }
    const list = place.querySelector('ol') ?? el('ol', { class: 'decisions' });
    keep(
      list,
      decisions.map((decision) => itemOf(decision, nowWallMs)),
    );
    if (list.parentElement === null) place.replaceChildren(list);
    for (const ago of list.querySelectorAll<HTMLElement>('.ago'))
      setText(ago, sayAgo(nowWallMs - Number(ago.dataset['at'])));
  };
}

function itemOf({ atWallMs, kind, text, outcome }: DecisionStatus, nowWallMs: number): HTMLElement {
  const isOpen = outcome === null && HAS_END.includes(kind);
  // A page that is still open may be older than the agent.
  const [level, word] = outcome === null ? ['warn', 'in progress'] : (ENDED[outcome.kind] ?? ['', outcome.kind]);
  return el(
    'li',
    { class: kind === 'evict' || kind === 'evict-over-limit' ? 'eviction' : '' },
    el(
      'p',
      { class: 'when' },
      timeOf(atWallMs, sayWhen(atWallMs, nowWallMs)),
      ' · ',
      el('span', { class: 'ago', 'data-at': String(atWallMs) }, sayAgo(nowWallMs - atWallMs)),
      ...(outcome !== null || isOpen ? [' ', el('span', { class: `tag ${level}` }, word)] : []),
    ),
    el('p', { class: 'text' }, text),
    ...(outcome === null ? [] : [el('p', { class: 'outcome' }, outcome.text)]),
  );
}
