import type { GateRow } from '../core/guard/decision.ts';
import { slowestMs } from '../core/guard/devices.ts';
import type { Phase } from '../core/guard/record.ts';
import type { MonoMs } from '../core/reading.ts';
import { sayDuration } from '../core/units/duration.ts';
import type { ExplainReport } from '../guard/shown.ts';
import { sayDue, sayPhase, sayWhy } from '../words/guard.ts';
import { sayFrees } from '../words/guard-decision.ts';
import { sayGateRow } from '../words/guard-gate.ts';
import { clean, type Paint, table } from './print.ts';

/** Every gate of a node, the first closed one as the reason, and what would change it. */
export function guardExplainText(report: ExplainReport, paint: Paint): string {
  const { node, class: health, ageMs, gates } = report.explanation;
  const age = ageMs === null ? 'no sign of life seen yet' : `last sign of life ${time(ageMs)} before the last list`;
  const parts = [
    `${clean(node.name)}: ${health}, ${age}`,
    ...fencingLines(report),
    verdict(report, paint),
    '',
    table(
      ['gate', 'state', 'why', 'opens'],
      gates.map((row) => [
        row.gate,
        row.isOpen ? 'open' : 'closed',
        row.isOpen ? '' : clean(sayGateRow(row)),
        row.isOpen ? '' : opensText(row, report.atMs),
      ]),
    ).trimEnd(),
    '',
    `frees       ${freesText(report)}`,
    ...devicesLines(report, paint),
  ];
  return `${parts.join('\n')}\n`;
}

const time = (ms: number): string => sayDuration(Math.round(ms / 1_000) * 1_000);

function opensText({ opensMs, because }: GateRow, atMs: MonoMs): string {
  if (because === 'not-asked') return 'when they answer';
  if (opensMs === null) return 'not by time alone';
  return opensMs <= atMs ? 'now' : `in ${time(opensMs - atMs)}`;
}

function fencingLines({ explanation: { fencing }, atMs }: ExplainReport): readonly string[] {
  if (fencing === null) return [];
  const { record, sinceMs } = fencing.fencing;
  const due =
    fencing.dueMs === null ? '' : `, ${sayDue(record.phase, `in ${time(Math.max(0, fencing.dueMs - atMs))}`)}`;
  const said = sayPhase(record.phase, record.proof?.by === 'person', record.staysOff);
  const why = record.why === null ? '' : `: ${clean(sayWhy(record.why))}`;
  return [`fencing ${record.id}: ${said} (${record.phase}${why}) for ${time(atMs - sinceMs)}${due}`];
}

/** Nothing is done in them until a try is due, its node is back, or a person has looked. */
const WAITING: ReadonlySet<Phase> = new Set(['failed', 'stuck', 'aborted', 'left-off', 'not-back']);

function verdict({ explanation, isLeader, dryRun, atMs }: ExplainReport, paint: Paint): string {
  const { deciding, opensMs, overruledBy, fencing } = explanation;
  if (fencing !== null) {
    return WAITING.has(fencing.fencing.record.phase)
      ? 'its fencing above is not over; the gates below are those of another one'
      : 'it is being fenced; the gates below are those of another fencing';
  }
  if (deciding === null) return paint('red', dryRun ? 'it would be fenced now (dry run)' : 'it is fenced now');
  const why = `not fenced: gate ${deciding.gate}: ${clean(sayGateRow(deciding))}`;
  const when =
    opensMs === null ? '' : `; all gates are open in ${time(Math.max(0, opensMs - atMs))} if nothing else changes`;
  const overrule = overruledBy === null ? '' : `; nodewarden guard ${overruledBy} would pass over it`;
  const who = isLeader ? '' : '; ask the guard that leads';
  return `${paint('yellow', why)}${when}${overrule}${who}`;
}

function freesText({ explanation: { frees } }: ExplainReport): string {
  return frees === null ? 'not known: nobody asked in the last 30s' : clean(sayFrees(frees));
}

function devicesLines({ explanation: { plan, devices }, atMs }: ExplainReport, paint: Paint): readonly string[] {
  if (plan === null) return ['devices     none: it is never fenced'];
  const known = new Map(devices.map((device) => [device.method, device]));
  return [...plan.isolation, ...plan.levels.flat()].map((method) => {
    const device = known.get(method);
    if (device === undefined) return `device      ${clean(method)}: not asked yet`;
    const age = device.begunMs === null ? 'as an earlier leader heard' : `${time(atMs - device.begunMs)} ago`;
    const tookMs = slowestMs([device]);
    const slow = tookMs === null ? '' : paint('yellow', `, and took ${time(tookMs)} for it`);
    const never = device.hasSaidOn ? '' : ', never said on';
    const doubt = device.contradicted === null ? '' : paint('red', ', not believed');
    return `device      ${clean(method)}: says ${device.says}, ${age}${slow}${never}${doubt}`;
  });
}
