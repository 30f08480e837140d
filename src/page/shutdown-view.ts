import { podName } from '../core/pod/pod.ts';
import type { RehearsalAnswer } from '../serve/live.ts';
import { heldMs, type PhaseRow, type PodStopRow, type RehearseReport } from '../serve/rehearsal.ts';
import type { StatusReport } from '../serve/status.ts';
import { countPods } from '../words/phrases.ts';
import { sayHeld, sayPriorities, sayStopVerdict } from '../words/shutdown.ts';
import { barOf, ticksOf, trackOf } from './both-pages.ts';
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
  timeOf,
} from './dom.ts';
import { capital, sayAgo, sayFor, sayWhen } from './say.ts';

/** The plan from `rehearse shutdown`; null: not requested yet. */
export function showShutdown(status: StatusReport, answer: RehearsalAnswer | null, nowWallMs: number): void {
  const { phases } = status.shutdown;
  const rehearsal = phases.length === 0 ? null : (answer?.rehearsal ?? null);
  const agoMs = rehearsal === null ? 0 : nowWallMs - rehearsal.atWallMs;
  setText(byId('shutdown-of'), rehearsal === null ? '' : `Rehearsed ${sayAgo(agoMs)} with the pods running then.`);
  const plan = rehearsal === null ? phasesOf(phases, answer?.why ?? 'it is being rehearsed') : planOf(rehearsal);
  keep(byId('shutdown-body'), [...plan, ...notesOf(status.shutdown, nowWallMs)]);
}

function notesOf({ scheduled, last }: StatusReport['shutdown'], nowWallMs: number): readonly HTMLElement[] {
  const notes: HTMLElement[] = [];
  if (scheduled !== null) {
    const at = timeOf(scheduled.atWallMs, sayWhen(scheduled.atWallMs, nowWallMs));
    notes.push(
      el('p', { class: 'lead warn' }, `${scheduled.type} is scheduled for `, at, '; nothing is stopped before.'),
    );
  }
  if (last !== null) notes.push(el('p', { class: 'note' }, `Last: ${last}`));
  return notes;
}

/** What is known without a rehearsal. */
function phasesOf(phases: StatusReport['shutdown']['phases'], why: string): readonly HTMLElement[] {
  if (phases.length === 0) {
    return [
      emptyNote(
        'Off: no pod is stopped in order.',
        'With shutdownGracePeriod set, this shows the phases on a time axis, and which pods cannot finish in time.',
      ),
    ];
  }
  const planned = phases.map((row) => {
    const pods = row.pods === null ? '' : `, ${countPods(row.pods)} now`;
    return el(
      'li',
      {},
      `Phase ${row.phase}, ${sayPriorities(row, phases)}: ${sayFor(row.periodSeconds * 1_000)}${pods}`,
    );
  });
  return [el('p', { class: 'lead' }, `Not rehearsed yet: ${why}.`), el('ul', { class: 'plain' }, ...planned)];
}

function planOf(report: RehearseReport): readonly HTMLElement[] {
  const { phases, withAgent = [], worstMs, expectedMs, cannotFinish, warnings, notes, dryRun } = report;
  const pods = [...phases, ...withAgent].reduce((sum, phase) => sum + phase.pods.length, 0);
  const before = expectedMs === worstMs ? '' : `, ${sayFor(expectedMs)} if all stop as fast as they did before`;
  const held = heldMs(report);
  const verdict =
    cannotFinish.length === 0
      ? 'No pod is known to need more time than it gets.'
      : `${cannotFinish.length} of ${countPods(pods)} cannot finish in the time they get.`;
  const total =
    pods === 0
      ? 'No pod is running: nothing would be stopped.'
      : `Takes ${sayFor(worstMs)} at most${before}${held === null ? '' : sayHeld(held, sayFor)}. ${verdict}${dryRun ? ' This is a dry run: nothing would be stopped.' : ''}`;
  const endMs = Math.max(1_000, worstMs, ...[...phases, ...withAgent].map(({ worst }) => worst?.endMs ?? 0));
  return [
    el('p', { class: `lead${cannotFinish.length > 0 ? ' bad' : ''}` }, total),
    ...(pods === 0 ? [] : [axisOf('The phases of a shutdown, and when each pod is stopped', phases, endMs)]),
    ...(withAgent.some((phase) => phase.pods.length > 0)
      ? [
          el('p', { class: 'lead' }, 'Then, when systemd stops the agent, the pods that stay bound to the node:'),
          axisOf('Pods that are stopped with the agent', withAgent, endMs),
        ]
      : []),
    ...[...warnings, ...notes].map((text) => el('p', { class: 'note' }, `${text}.`)),
  ];
}

function axisOf(caption: string, phases: readonly PhaseRow[], endMs: number): HTMLElement {
  const heads = [
    columnHead('', 'Pod'),
    columnHead('axis', el('span', { class: 'unseen' }, 'Time'), ticksOf(endMs)),
    columnHead('', 'Will it finish?'),
  ];
  return tableOf(
    'plan',
    caption,
    heads,
    phases.map((phase) => groupOf(phase, phases, endMs)),
  );
}

function groupOf(row: PhaseRow, phases: readonly PhaseRow[], endMs: number): HTMLElement {
  const { phase, periodSeconds, worst, expected, pods } = row;
  const time = worst === null ? 'no pods, takes no time' : `${sayFor(worst.startMs)} to ${sayFor(worst.endMs)} at most`;
  const span = worst === null ? [] : [barOf('phase-bar', worst.startMs, worst.endMs, endMs)];
  const sooner =
    worst === null || expected === null || expected.endMs >= worst.endMs
      ? ''
      : `, until ${sayFor(expected.endMs)} judging by earlier stops`;
  const head = rowOf(
    'phase',
    rowHead(
      'rowgroup',
      '',
      `Phase ${phase}`,
      el('span', { class: 'sub' }, `${sayPriorities(row, phases)}, ${sayFor(periodSeconds * 1_000)}`),
    ),
    cell('axis', trackOf(span)),
    cell('', el('span', { class: 'sub' }, capital(`${time}${sooner}`))),
  );
  return bodyOf([head, ...pods.map((pod) => podOf(pod, worst?.startMs ?? 0, endMs))]);
}

function podOf(pod: PodStopRow, phaseMs: number, endMs: number): HTMLElement {
  const { toldAfterMs, getsMs, verdict, observed } = pod;
  const toldMs = phaseMs + toldAfterMs;
  const tookMs = observed?.endedMs ?? observed?.unfinishedMs ?? null;
  const level = verdict.kind === 'finishes' ? '' : verdict.kind === 'cannot-finish' ? ' bad' : ' warn';
  const bars = [
    barOf(`gets-bar${level}`, toldMs, toldMs + getsMs, endMs),
    ...(tookMs === null ? [] : [barOf(`took-bar${level}`, toldMs, toldMs + Math.min(tookMs, getsMs), endMs)]),
  ];
  const when = [
    ...(toldAfterMs > 0 ? [`asked to stop ${sayFor(toldMs)} after the start at the latest`] : []),
    ...(verdict.kind === 'finishes' ? [`gets ${sayFor(getsMs)}`] : []),
  ].join(', ');
  return rowOf(
    '',
    rowHead('row', '', nameOf(podName(pod)), el('span', { class: 'sub' }, `priority ${pod.priority ?? 'unknown'}`)),
    cell('axis', trackOf(bars)),
    cell(
      `verdict-of${level}`,
      el('span', {}, capital(sayStopVerdict(pod, sayFor))),
      el('span', { class: 'sub' }, capital(when)),
    ),
  );
}
