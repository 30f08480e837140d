import { Command } from 'commander';
import { type GuardReport, isGuardReport } from '../../guard/shown.ts';
import { createClock } from '../../host/clock.ts';
import { sayStands } from '../../words/guard.ts';
import { sayStormTimes } from '../../words/guard-decision.ts';
import { counted, sayCode, sayToSecond } from '../../words/phrases.ts';
import { clean, type Format, formatOption, type Paint, printAs, sayWhen, standardPaint } from '../print.ts';
import { watchReports } from '../watch-reports.ts';
import { askGuard, failGuard, GUARD_USER, guardSocketOf, OTHER_GUARD } from './answer.ts';

type Options = { readonly config?: string; readonly output: Format; readonly watch?: true };

const NO_LEADER = 3;

export function guardStatusCommand(): Command {
  return new Command('status')
    .description('Show who leads, what is silent, what is held, and open fencings')
    .option('-c, --config <file>', 'Configuration file that names the socket')
    .option('-w, --watch', 'Refresh every second until interrupted')
    .addOption(formatOption())
    .addHelpText(
      'after',
      '\nExample:\n  nodewarden guard status --watch\n\nExit status: 0, or 3 when no guard runs here or nobody leads.',
    )
    .action(async (options: Options) => {
      process.exitCode = await (options.watch ? watch : once)(options);
    });
}

async function once({ output, config }: Options): Promise<number> {
  const answer = await askGuard(config ?? null, { ask: 'status' }, isGuardReport);
  if (typeof answer === 'number') return answer;
  printAs(output, answer, (paint) => guardStatusText(answer, paint));
  return answer.leader.holder === null ? NO_LEADER : 0;
}

function watch({ output, ...options }: Options): Promise<number> {
  const config = options.config ?? null;
  const socket = guardSocketOf(config);
  const paint = standardPaint();
  return watchReports(socket, createClock(), {
    output,
    user: GUARD_USER,
    read: (asked) => {
      const answer = asked.kind === 'answer' ? asked.answer : null;
      return isGuardReport(answer) ? answer : failGuard(asked.kind === 'answer' ? OTHER_GUARD : asked, socket, config);
    },
    text: (report) => guardStatusText(report, paint),
  });
}

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
      line('storm', paint('red', `${kind} (${clean(scope)}) ${sayStormTimes({ forMs, overMs }, sayToSecond)}`)),
    ),
    ...report.fencings.map((fencing) => line('fencing', paint('red', fencingText(fencing, report.dryRun)))),
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

function leaderLines({ leader, writer, node, dryRun, file, version }: GuardReport, paint: Paint): readonly string[] {
  const here = `${clean(writer)}${node === null ? '' : ` on node ${clean(node)}`}`;
  const mode = dryRun ? paint('yellow', 'dry run') : paint('green', 'armed');
  const head = line('guard', `${here}, ${mode}, version ${clean(version)}, ${clean(file)}`);
  if (leader.isLeader) {
    const authority = `authority for another ${sayToSecond(leader.authorityMs ?? 0)}`;
    return [head, line('leader', paint('green', `this one (epoch ${leader.epoch}, ${authority})`))];
  }
  const heldBack = leader.heldBack === null ? '' : `; this one does not run (${sayCode(leader.heldBack)})`;
  if (leader.holder === null) {
    // A guard of an earlier version does not say whether it knows.
    const isKnown = (leader as Partial<typeof leader>).isHolderKnown ?? true;
    const nobody = isKnown ? 'nobody' : 'not known: the lease could not be read';
    return [head, line('leader', `${paint('red', nobody)}${heldBack}`)];
  }
  return [head, line('leader', `${clean(leader.holder)}${heldBack}`)];
}

function selfLines({ settling, api, paused }: GuardReport, paint: Paint): readonly string[] {
  const age = (ms: number | null): string => (ms === null ? 'none yet' : `${sayToSecond(ms)} ago`);
  return [
    ...(settling === null
      ? []
      : [
          line(
            'settling',
            paint('yellow', `nothing new for another ${sayToSecond(settling.leftMs)} (${sayCode(settling.for)})`),
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

function fencingText(fencing: GuardReport['fencings'][number], isDry: boolean): string {
  const { node, phase, phaseMs, attempt, level, why, id } = fencing;
  const tries = attempt > 1 || level > 0 ? `, attempt ${attempt} of level ${level + 1}` : '';
  const more = why === null ? '' : ` (${clean(why)})`;
  return `${clean(node)}: ${sayStands(fencing, isDry)}${more}, for ${sayToSecond(phaseMs)}${tries}; ${phase}, ${id}`;
}
