import { COMPARATORS } from '../core/eviction/comparator.ts';
import { podName } from '../core/pod/pod.ts';
import { SIGNAL_FACTS, type Signal } from '../core/signal.ts';
import type { ExplainedRow, ExplainReport } from '../serve/explain-report.ts';
import { sayFirstUnknown, sayTies } from '../words/decision.ts';
import { sayPassedOver } from '../words/reason.ts';
import { sayChange } from '../words/what-if.ts';
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
} from './dom.ts';
import { capital, sayUsage } from './say.ts';

/** Further rows are counted, not drawn. */
const ROWS_MAX = 50;

/** The same ranking as in `explain`. */
export function showPods(report: ExplainReport): void {
  const { signal } = report.signal;
  setText(
    byId('pods-for'),
    report.actsOn === null ? `For ${signal}, if it fell below its threshold.` : `For ${signal}, which is short now.`,
  );
  keep(byId('pods-body'), contentOf(report));
}

function contentOf(report: ExplainReport): readonly HTMLElement[] {
  const { pods, podsUnknown } = report;
  if (podsUnknown !== null)
    return [emptyNote('The pods are not known.', `${podsUnknown.where}: ${podsUnknown.detail}`)];
  if (pods.length === 0) {
    return [
      emptyNote(
        'No pods, so nothing can be evicted.',
        'A pod is listed here once a manifest binds it to a unit, a container or a cgroup that has processes.',
      ),
    ];
  }
  const more =
    pods.length > ROWS_MAX
      ? [el('p', { class: 'note' }, `and ${pods.length - ROWS_MAX} more; nodewarden explain -o json lists all`)]
      : [];
  return [whatIfOf(report), rankingOf(report), ...more];
}

function whatIfOf({ source, pods, victim, unproven, whatIf, signal: { signal } }: ExplainReport): HTMLElement {
  const named = (uid: string): HTMLElement | string => {
    const row = pods.find((pod) => pod.uid === uid);
    return row === undefined ? uid : nameOf(podName(row));
  };
  if (victim === null || whatIf === null)
    return el('p', { class: 'lead' }, `${capital(unproven ?? 'no pod may be evicted')}.`);
  const ways = whatIf.changes.map((change) => sayChange(signal, change, source));
  const other =
    whatIf.other === null ? ['; no other pod could be chosen.'] : ['; without it, ', named(whatIf.other), ' would be.'];
  const safe = ways.length === 0 ? [] : [` It would be safe ${ways.join(', or ')}.`];
  return el('p', { class: 'lead' }, named(victim), ' would be evicted first', ...other, ...safe);
}

function rankingOf(report: ExplainReport): HTMLElement {
  const { signal } = report.signal;
  const most = Math.max(
    1,
    ...report.pods.map(({ usage, request }) => Math.max(usage.known ? usage.value : 0, request ?? 0)),
  );
  const rows = report.pods.slice(0, ROWS_MAX).map((row, i) => podRow(report, row, i, most));
  return tableOf(
    'pods',
    `Pods in the order in which they would be evicted for ${signal}`,
    ['#', 'Pod', usedHead(signal), 'Priority', 'Why here'].map((name) => columnHead('', name)),
    [bodyOf(rows)],
  );
}

const usedHead = (signal: Signal): string =>
  SIGNAL_FACTS[signal].resource === 'memory' || SIGNAL_FACTS[signal].resource === 'ephemeral-storage'
    ? 'Usage and request'
    : 'Uses';

function podRow(report: ExplainReport, row: ExplainedRow, i: number, most: number): HTMLElement {
  const isFirst = row.uid === report.victim;
  const marks = [
    ...(isFirst ? [el('span', { class: 'tag bad' }, 'first')] : []),
    ...(row.candidate.kind === 'passed-over' ? [el('span', { class: 'tag' }, 'passed over')] : []),
    ...(row.isProtected ? [el('span', { class: 'tag' }, 'protected')] : []),
  ];
  return rowOf(
    isFirst ? 'first' : '',
    cell('place', String(i + 1)),
    rowHead('row', 'pod', nameOf(podName(row)), ...marks, el('span', { class: 'sub' }, row.qos)),
    cell('uses', ...usesOf(report.signal.signal, row, most)),
    cell('priority', ...priorityOf(row)),
    cell('why', ...whyOf(row, i, report.pods.length)),
  );
}

function usesOf(signal: Signal, { usage, request, values }: ExplainedRow, most: number): readonly (Node | string)[] {
  const { resource } = SIGNAL_FACTS[signal];
  const asks =
    request === null
      ? resource === 'memory' || resource === 'ephemeral-storage'
        ? ', request unknown'
        : ''
      : request === 0
        ? ', requests none'
        : ` of ${sayUsage(signal, request)}`;
  if (!usage.known) return [el('span', { class: 'sub' }, `unknown: ${usage.detail}${asks}`)];
  const isOver = request !== null && usage.value > request;
  const bar = el('span', { class: `meter${isOver ? ' over' : ''}`, 'aria-hidden': 'true' });
  const fill = el('span', { class: 'fill' });
  fill.style.width = `${(100 * usage.value) / most}%`;
  bar.append(fill);
  if (request !== null && request > 0) {
    const mark = el('span', { class: 'mark' });
    mark.style.left = `${(100 * request) / most}%`;
    bar.append(mark);
  }
  const least = values.some(({ isAtLeast }) => isAtLeast) ? 'at least ' : '';
  return [el('span', { class: 'used' }, least, el('strong', {}, sayUsage(signal, usage.value)), asks), bar];
}

function priorityOf(row: ExplainedRow): readonly (Node | string)[] {
  const ties = sayTies(row);
  return [
    el('span', { class: 'label' }, 'priority '),
    el('span', { class: 'number' }, String(row.priority ?? 'unknown')),
    ...(ties === '' ? [] : [el('span', { class: 'sub' }, ties)]),
  ];
}

function whyOf({ candidate, decidedBy, values }: ExplainedRow, i: number, count: number): readonly (Node | string)[] {
  const passed =
    candidate.kind === 'passed-over' ? [el('span', {}, `${capital(sayPassedOver(candidate.because))}.`), ' '] : [];
  if (decidedBy === null) return [...passed, count === 1 ? 'The only pod.' : 'Last.'];
  return [...passed, `Before ${i + 2}: ${sayFirstUnknown(decidedBy, values) ?? COMPARATORS[decidedBy].because}.`];
}
