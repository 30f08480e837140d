import { Argument, Command } from 'commander';
import type { GateRow } from '../../core/guard/decision.ts';
import { slowestMs } from '../../core/guard/devices.ts';
import { isUnbegun, isUnstored, isWaiting } from '../../core/guard/explain.ts';
import { goesOn } from '../../core/guard/record.ts';
import type { MonoMs } from '../../core/reading.ts';
import { type ExplainReport, isExplainReport, isNodesUnknown, type NodesUnknown } from '../../guard/shown.ts';
import { sayDue, sayStands, sayWhy } from '../../words/guard.ts';
import { sayFrees } from '../../words/guard-decision.ts';
import { sayGateRow } from '../../words/guard-gate.ts';
import { sayToSecond } from '../../words/phrases.ts';
import { clean, type Format, formatOption, type Paint, printAs, table } from '../print.ts';
import { askGuard } from './answer.ts';

type Options = { readonly config?: string; readonly output: Format };

const NO_SUCH_NODE = 2;
const NOT_KNOWN = 3;

export function guardExplainCommand(): Command {
  return new Command('explain')
    .description('Explain why a node is fenced or not: every gate, and what would open it')
    .addArgument(new Argument('<node>', 'Name of the node'))
    .option('-c, --config <file>', 'Configuration file that names the socket')
    .addOption(formatOption())
    .addHelpText(
      'after',
      '\nExample:\n  nodewarden guard explain w3\n\nExit status: 0, 2 when there is no such node, or 3 when no guard runs here or the nodes are not known yet.',
    )
    .action(async (node: string, { config, output }: Options) => {
      process.exitCode = await explain(node, config ?? null, output);
    });
}

async function explain(node: string, config: string | null, output: Format): Promise<number> {
  const answer = await askGuard(config, { ask: 'explain', node }, isAnswer);
  if (typeof answer === 'number') return answer;
  if (answer === null) {
    process.stderr.write(`${clean(`the guard knows no node ${node}`)}\n`);
    return NO_SUCH_NODE;
  }
  if (isNodesUnknown(answer)) {
    process.stderr.write(`${clean(`the guard has not listed the nodes yet: ${answer.detail}`)}\n`);
    return NOT_KNOWN;
  }
  printAs(output, answer, (paint) => guardExplainText(answer, paint));
  return 0;
}

const isAnswer = (answer: unknown): answer is ExplainReport | NodesUnknown | null =>
  answer === null || isNodesUnknown(answer) || isExplainReport(answer);

/** Every gate of a node, the first closed one as the reason, and what would change it. */
export function guardExplainText(report: ExplainReport, paint: Paint): string {
  const { node, class: health, ageMs, wasHeard, gates } = report.explanation;
  const age =
    ageMs === null
      ? 'how long it is silent is not known'
      : // A guard of an earlier version does not say whether it has.
        wasHeard === false
        ? `no sign of life seen in the ${sayToSecond(ageMs)} before the last list`
        : `last sign of life ${sayToSecond(ageMs)} before the last list`;
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

function opensText({ opensMs, because }: GateRow, atMs: MonoMs): string {
  if (because === 'not-asked') return 'when they answer';
  if (opensMs === null) return 'not by time alone';
  return opensMs <= atMs ? 'now' : `in ${sayToSecond(opensMs - atMs)}`;
}

function fencingLines({ explanation: { fencing }, isLeader, dryRun, atMs }: ExplainReport): readonly string[] {
  if (fencing === null) return [];
  const { phaseMs, dueMs, isTainted } = fencing;
  const { record } = fencing.fencing;
  const { phase, staysOff, proof } = record;
  const due = dueMs === null ? '' : `, ${sayDue(phase, `in ${sayToSecond(Math.max(0, dueMs - atMs))}`)}`;
  const standing = { phase, staysOff, isConfirmed: proof?.by === 'person', isTainted };
  const { fencing: open } = fencing;
  const said = sayStands({ ...standing, isWaiting: isWaiting(open), isUnstored: isLeader && isUnstored(open) }, dryRun);
  const why = record.why === null ? '' : `: ${clean(sayWhy(record.why))}`;
  return [`fencing ${record.id}: ${said} (${phase}${why}) for ${sayToSecond(phaseMs)}${due}`];
}

const ON_WAITS = 'not powered on: it waits until whoever set the out-of-service taint of its node has removed it';
const PROOF_WAITS =
  'not set out of service: it waits until its node has a lease, and Kubernetes has marked it as not Ready';

function verdict({ explanation, isLeader, dryRun, atMs }: ExplainReport, paint: Paint): string {
  const { deciding, opensMs, overruledBy, fencing } = explanation;
  if (fencing !== null) {
    const { record } = fencing.fencing;
    if (isUnbegun(fencing.fencing) && !dryRun) {
      const { waitsFor } = fencing;
      // A guard of an earlier version does not say for which.
      const gate = waitsFor == null ? 'its last look' : `gate ${waitsFor.gate}: ${clean(sayGateRow(waitsFor))}`;
      return `${paint('yellow', `not begun: it waits for ${gate}`)}; the gates below are its own`;
    }
    const waits = record.phase === 'proving' ? PROOF_WAITS : ON_WAITS;
    if (isWaiting(fencing.fencing) && !dryRun)
      return `${paint('yellow', waits)}; the gates below are those of another one`;
    return dryRun || !goesOn(record.phase)
      ? 'its fencing above is not over; the gates below are those of another one'
      : 'it is being fenced; the gates below are those of another fencing';
  }
  if (deciding === null) return paint('red', dryRun ? 'it would be fenced now (dry run)' : 'it is fenced now');
  const why = `not fenced: gate ${deciding.gate}: ${clean(sayGateRow(deciding))}`;
  const when =
    opensMs === null
      ? ''
      : `; all gates are open in ${sayToSecond(Math.max(0, opensMs - atMs))} if nothing else changes`;
  const overrule = overruledBy === null ? '' : `; nodewarden guard ${overruledBy} would pass over it`;
  const who = isLeader || deciding.because === 'nobody-leads' ? '' : '; ask the guard that leads';
  return `${paint('yellow', why)}${when}${overrule}${who}`;
}

function freesText({ explanation: { frees, freesUnknown } }: ExplainReport): string {
  if (frees !== null) return clean(sayFrees(frees));
  if (freesUnknown?.why === 'stale') return 'not known: what was read is older than 30s';
  const isUnasked = freesUnknown === null || freesUnknown.why === 'not-asked';
  return isUnasked ? 'not known: nobody asked in the last 30s' : clean(`not known: ${freesUnknown.detail}`);
}

function devicesLines({ explanation: { plan, devices }, atMs }: ExplainReport, paint: Paint): readonly string[] {
  if (plan === null) return ['devices     none: it is never fenced'];
  const known = new Map(devices.map((device) => [device.method, device]));
  return [...plan.isolation, ...plan.levels.flat()].map((method) => {
    const device = known.get(method);
    if (device === undefined) return `device      ${clean(method)}: not asked yet`;
    const age = device.begunMs === null ? 'as an earlier leader heard' : `${sayToSecond(atMs - device.begunMs)} ago`;
    const tookMs = slowestMs([device]);
    const slow = tookMs === null ? '' : paint('yellow', `, and took ${sayToSecond(tookMs)} for it`);
    const never = device.hasSaidOn ? '' : ', never said on';
    const doubt = device.contradicted === null ? '' : paint('red', ', not believed');
    return `device      ${clean(method)}: says ${device.says}, ${age}${slow}${never}${doubt}`;
  });
}
