import { sayDuration } from '../core/units/duration.ts';
import type { GuardReport } from '../guard/shown.ts';
import { sayPhase } from '../words/guard.ts';
import { counted, sayCode } from '../words/phrases.ts';
import { clean, type Paint, sayWhen } from './print.ts';

const LABEL_COLUMNS = 12;

/** For people, one fact a line, what is wrong in colour. */
export function guardStatusText(report: GuardReport, paint: Paint): string {
  const lines = [
    ...leaderLines(report, paint),
    ...selfLines(report, paint),
    line('nodes', nodesText(report.nodes)),
    ...report.domains.map(({ label, value, nodes, silent }) =>
      line('domain', `${clean(label)}=${clean(value)}: ${silent} of ${counted(nodes, 'node')} silent`),
    ),
    ...report.storms.map(({ kind, scope, forMs, overMs }) =>
      line(
        'storm',
        paint(
          'red',
          `${kind} (${clean(scope)}) for ${time(forMs)}${overMs === null ? '' : `, over for ${time(overMs)}: cool-down`}`,
        ),
      ),
    ),
    ...report.fencings.map((fencing) => line('fencing', paint('red', fencingText(fencing)))),
    ...report.held.map(({ node, gate, text }) =>
      line('held', paint('yellow', `${clean(node)}: gate ${gate}: ${clean(text)}`)),
    ),
    ...moreHeld(report),
    ...report.dryFenced.map(({ node, wallMs }) =>
      line('would fence', `${clean(node)}, since ${sayWhen(wallMs)} (dry run)`),
    ),
    ...report.contradicted.map(({ node, method, why }) =>
      line('device', paint('red', `${clean(node)}: ${clean(method)} is not believed: ${sayCode(why)}`)),
    ),
    ...report.findings.map(({ text }) => line('finding', paint('yellow', clean(text)))),
  ];
  return `${lines.join('\n')}\n`;
}

/** The list has the first ones. A guard of an earlier version does not say how many there are. */
function moreHeld({
  totals,
  held,
}: Partial<Pick<GuardReport, 'totals'>> & Pick<GuardReport, 'held'>): readonly string[] {
  const more = Object.values(totals?.held ?? {}).reduce((sum, count) => sum + count, 0) - held.length;
  return more > 0 ? [line('held', `${counted(more, 'more node')}; see: nodewarden guard explain NODE`)] : [];
}

const line = (label: string, text: string): string => `${label.padEnd(LABEL_COLUMNS)}${text}`;
const time = (ms: number): string => sayDuration(Math.round(ms / 1_000) * 1_000);

function leaderLines({ leader, writer, node, dryRun, file, version }: GuardReport, paint: Paint): readonly string[] {
  const here = `${clean(writer)}${node === null ? '' : ` on node ${clean(node)}`}`;
  const mode = dryRun ? paint('yellow', 'dry run') : paint('green', 'armed');
  const head = line('guard', `${here}, ${mode}, version ${clean(version)}, ${clean(file)}`);
  if (leader.isLeader) {
    const authority = `authority for another ${time(leader.authorityMs ?? 0)}`;
    return [head, line('leader', paint('green', `this one (epoch ${leader.epoch}, ${authority})`))];
  }
  if (leader.holder === null) return [head, line('leader', paint('red', 'nobody'))];
  const heldBack = leader.heldBack === null ? '' : `; this one does not run (${sayCode(leader.heldBack)})`;
  return [head, line('leader', `${clean(leader.holder)}${heldBack}`)];
}

function selfLines({ settling, api, paused }: GuardReport, paint: Paint): readonly string[] {
  const age = (ms: number | null): string => (ms === null ? 'none yet' : `${time(ms)} ago`);
  return [
    ...(settling === null
      ? []
      : [
          line(
            'settling',
            paint('yellow', `nothing new for another ${time(settling.leftMs)} (${sayCode(settling.for)})`),
          ),
        ]),
    ...(paused === null
      ? []
      : [
          line(
            'paused',
            paint('yellow', `by ${clean(paused.by)} since ${sayWhen(paused.wallMs)}: ${clean(paused.because)}`),
          ),
        ]),
    line(
      'API',
      `leases listed ${age(api.readMs)}, last word of the watches ${age(api.heardMs)}, last own write ${age(api.writeMs)}`,
    ),
  ];
}

function nodesText(nodes: GuardReport['nodes']): string {
  const all = Object.values(nodes).reduce((sum, count) => sum + count, 0);
  const classes = Object.entries(nodes).flatMap(([name, count]) => (count > 0 ? [`${count} ${name}`] : []));
  return `${all}${all === 0 ? '' : `: ${classes.join(', ')}`}`;
}

function fencingText({
  node,
  phase,
  phaseMs,
  attempt,
  level,
  why,
  isConfirmed,
  staysOff,
  id,
}: GuardReport['fencings'][number]): string {
  const tries = attempt > 1 || level > 0 ? `, attempt ${attempt} of level ${level + 1}` : '';
  const more = why === null ? '' : ` (${clean(why)})`;
  return `${clean(node)}: ${sayPhase(phase, isConfirmed, staysOff)}${more}, for ${time(phaseMs)}${tries}; ${phase}, ${id}`;
}
