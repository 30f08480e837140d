import type { ShutdownPhase } from '../core/core-config.ts';
import { podName } from '../core/pod/pod.ts';
import { type Change, heldMs, type PhaseRow, type PodStopRow, type RehearseReport } from '../serve/rehearsal.ts';
import { sayMs } from '../words/decision.ts';
import { countPods } from '../words/phrases.ts';
import { sayHeld, sayPriorities, sayStopVerdict } from '../words/shutdown.ts';
import { clean, type Paint, sayNames, sayWhen, table } from './print.ts';
import { lockText, saySeconds } from './shutdown-text.ts';

/** How the phases are written in the configuration: as two durations, or as a list. */
export type PhaseForm = 'durations' | 'list';

const INDENT = `\n${' '.repeat(12)}`;

/** The rehearsal for people. Everything that a tenant named is escaped. */
export function rehearseText(report: RehearseReport, form: PhaseForm, paint: Paint): string {
  const { phases } = report;
  if (phases.length === 0) {
    return `${headText(report)}lock        off: no grace period is configured for a shutdown (shutdownGracePeriod), so no pod is stopped in order\n`;
  }
  return [
    headText(report),
    `lock        ${lockText(report.lock, report.dryRun, paint).join(INDENT)}\n\n`,
    ...phases.map((phase) => `${phaseText(phase, phases, paint)}\n`),
    timeText(report),
    ...withAgentText(report, paint),
    secondTierText(report),
    ...report.warnings.map((text) => `${paint('yellow', 'warning')}     ${clean(text)}\n`),
    ...report.notes.map((text) => `note        ${clean(text)}\n`),
    changesText(report, form),
    `\n${verdictText(report, paint)}\n`,
  ].join('');
}

function headText({ node, atWallMs, dryRun }: RehearseReport): string {
  const dry = dryRun ? ' (dry run: nothing would be stopped)' : '';
  return `${clean(node)}, ${sayWhen(atWallMs)}: rehearsal of a shutdown with the pods running now${dry}; nothing is changed\n`;
}

/** Beside a kubelet. */
function withAgentText({ withAgent = [] }: RehearseReport, paint: Paint): readonly string[] {
  if (withAgent.every(({ pods }) => pods.length === 0)) return [];
  const head = '\nthen        what stays bound to the node, when systemd stops the agent after the kubelet\n';
  return [head, ...withAgent.map((phase) => `${phaseText(phase, withAgent, paint)}\n`)];
}

function phaseText(row: PhaseRow, all: readonly PhaseRow[], paint: Paint): string {
  const { phase, periodSeconds, worst, expected, pods } = row;
  const head = `phase ${phase}     ${sayPriorities(row, all)}: ${saySeconds(periodSeconds)}`;
  if (worst === null || expected === null) return `${head}; no pods, so it takes no time\n`;
  const before = expected.endMs === worst.endMs ? '' : `, until ${sayMs(expected.endMs)} judging by earlier stops`;
  const rows = pods.map((pod) => [
    clean(podName(pod)),
    String(pod.priority ?? '?'),
    pod.toldAfterMs > 0 ? `${sayMs(pod.getsMs)} from +${sayMs(pod.toldAfterMs)}` : sayMs(pod.getsMs),
    saySeconds(pod.ownGraceSeconds),
    pod.stopTimeoutMs === null ? '-' : sayTimeout(pod.stopTimeoutMs),
    observedText(pod),
    podVerdict(pod, paint),
  ]);
  const heading = ['POD', 'PRIORITY', 'GETS', 'DECLARES', 'TIMEOUTSTOPSEC', 'EARLIER', ''];
  return `${head}, from ${sayMs(worst.startMs)} to ${sayMs(worst.endMs)} at most${before}\n${table(heading, rows, [1, 2, 3, 4])}`;
}

const sayTimeout = (ms: number | 'infinity'): string => (ms === 'infinity' ? ms : sayMs(ms));

function observedText({ observed }: PodStopRow): string {
  if (observed === null) return '-';
  const { stops, endedMs, unfinishedMs } = observed;
  const of = stops === 1 ? 'one stop' : `${stops} stops`;
  if (unfinishedMs === null) return `${sayMs(endedMs ?? 0)} in ${of}`;
  return `still running after ${sayMs(unfinishedMs)}, ${of}`;
}

function podVerdict(row: PodStopRow, paint: Paint): string {
  const said = sayStopVerdict(row);
  const { kind } = row.verdict;
  return kind === 'finishes' ? said : paint(kind === 'cannot-finish' ? 'red' : 'yellow', said);
}

function timeText(report: RehearseReport): string {
  const { worstMs, expectedMs } = report;
  const before = expectedMs === worstMs ? '' : `, ${sayMs(expectedMs)} if all stop as fast as before`;
  const held = heldMs(report);
  return `in total    ${sayMs(worstMs)} at most${before}${held === null ? '' : sayHeld(held)}\n`;
}

function secondTierText({ secondTier, worstMs }: RehearseReport): string {
  if (secondTier === null) return '';
  const { stopTimeoutMs, leftMs, worstMs: lateMs } = secondTier;
  const head = "no signal   without logind's signal,";
  if (leftMs === null || stopTimeoutMs === 'infinity') {
    return `${head} the phases have their full time: the TimeoutStopSec of the agent is infinity\n`;
  }
  const left = `systemd gives the agent ${sayMs(stopTimeoutMs)} to stop, ${sayMs(leftMs)} of it for the phases`;
  return `${head} ${left}: ${lateMs < worstMs ? `they shrink to ${sayMs(lateMs)}` : 'enough'}\n`;
}

function changesText({ changes, phases }: RehearseReport, form: PhaseForm): string {
  const lines = [
    ...phaseChanges(changes, phases, form),
    ...changes.flatMap((change) => {
      if (change.what === 'terminationGracePeriodSeconds')
        return [
          `terminationGracePeriodSeconds: ${change.seconds} in the manifest of ${clean(change.pod)} (now ${change.now})`,
        ];
      if (change.what === 'TimeoutStopSec')
        return [
          `TimeoutStopSec=${change.seconds} in ${clean(change.unit)}, the unit of ${clean(change.pod)} (now ${change.now})`,
        ];
      if (change.what === 'agentTimeoutStopSec') {
        const { seconds, now } = change;
        return [`TimeoutStopSec=${seconds}s of nodewarden.service (now ${now}s): systemctl edit nodewarden`];
      }
      return [];
    }),
  ];
  return lines.map((line, i) => `${i === 0 ? 'to set' : '      '}      ${line}\n`).join('');
}

/** kubelet-shutdown.md 1.3: the first duration is the total, the second the part of it for critical pods. */
function phaseChanges(
  changes: readonly Change[],
  phases: readonly ShutdownPhase[],
  form: PhaseForm,
): readonly string[] {
  const ofPhases = changes.filter((change) => change.what === 'phase');
  if (ofPhases.length === 0) return [];
  if (form === 'list') {
    return ofPhases.map(
      ({ fromPriority, seconds, now }) =>
        `shutdownGracePeriodByPodPriority: {priority: ${fromPriority}, shutdownGracePeriodSeconds: ${seconds}} (now ${now})`,
    );
  }
  const [ordinary = 0, critical = 0] = phases.map(
    ({ fromPriority, periodSeconds }) =>
      ofPhases.find((change) => change.fromPriority === fromPriority)?.seconds ?? periodSeconds,
  );
  const [first, second] = phases;
  const was = (first?.periodSeconds ?? 0) + (second?.periodSeconds ?? 0);
  const total = `shutdownGracePeriod: ${ordinary + critical}s (now ${was}s)`;
  if (critical === second?.periodSeconds) return [`${total}; shutdownGracePeriodCriticalPods stays ${critical}s`];
  return [total, `shutdownGracePeriodCriticalPods: ${critical}s (now ${second?.periodSeconds ?? 0}s)`];
}

function verdictText({ cannotFinish, phases, withAgent = [] }: RehearseReport, paint: Paint): string {
  const count = [...phases, ...withAgent].reduce((sum, { pods }) => sum + pods.length, 0);
  if (count === 0) return 'no pod is running: nothing would be stopped';
  if (cannotFinish.length === 0) return `no pod is known to need more time than it gets (${countPods(count)})`;
  const who = sayNames(cannotFinish.map(clean));
  return paint('red', `${cannotFinish.length} of ${countPods(count)} cannot finish in the time they get: ${who}`);
}
