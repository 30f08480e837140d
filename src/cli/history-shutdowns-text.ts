import { givenSeconds } from '../core/pod/grace.ts';
import { STOPS_AGAIN } from '../core/shutdown/plan.ts';
import { sayDuration } from '../core/units/duration.ts';
import type { BootRecord } from '../record/reading/boots.ts';
import type { PodStop } from '../record/reading/pod-stops.ts';
import type { PhaseRecord, ShutdownRecord } from '../record/reading/shutdown-record.ts';
import { sayDropped, sayEndUnknown, sayVia } from '../words/decision.ts';
import { ENDED_EARLY } from '../words/last-boot.ts';
import { NOT_ANNOUNCED, sayConfirmed } from '../words/reason.ts';
import { clean, type Paint, sayNames, sayWhen, table } from './print.ts';

/** One block: how it ended, tables of phases and pods (plan versus actual), and what deviated from the plan. */
export function shutdownText(shutdown: ShutdownRecord, paint: Paint): string {
  const { plan, phases, beganWallMs, dry } = shutdown;
  const type = plan?.type ?? null;
  const title = clean(`shutdown${type === null ? '' : ` (${type})`}: ${sayEnd(shutdown)}`);
  const mark = dry ? paint('yellow', '[dry run]  ') : '';
  const colour = shutdown.end.kind === 'cut' ? 'red' : 'bold';
  const pods = phases.flatMap((phase) => phase.pods.map((stop) => podRow(phase, stop, paint)));
  const block = [
    ...keyed(planLines(shutdown)),
    ...indented(
      table(
        PHASE_HEADING,
        phases.map((phase) => phaseRow(phase, shutdown)),
      ),
    ),
    ...(pods.length > 0 ? indented(table(POD_HEADING, pods)) : []),
    ...keyed(otherwiseLines(shutdown)),
  ];
  return `${sayWhen(beganWallMs)}  ${mark}${paint(colour, title)}\n${block.join('\n')}\n\n`;
}

/** A boot that ended without a trace: its last sign of life, and what ran. */
export function ungracefulText({ bootId, dry, lastWallMs, running }: BootRecord, paint: Paint): string {
  const mark = dry ? paint('yellow', '[dry run]  ') : '';
  const what = `boot ${bootId} ended some time after this, without a shutdown (power cut, crash, reboot -f, or nodewarden was killed before)`;
  const ran = running === null ? 'which pods ran is not recorded' : `running: ${sayNames(running.pods)}`;
  return `${sayWhen(lastWallMs)}  ${mark}${paint('red', clean(what))}; ${clean(ran)}\n`;
}

function sayEnd({ end, plan, released, cancelled, beganMs }: ShutdownRecord): string {
  switch (end.kind) {
    case 'released': {
      if (released?.delayMs !== undefined || released?.isOvertaken) {
        const { atMs, delayMs } = released;
        const went =
          delayMs === undefined
            ? 'systemd began to stop everything before the phases were over'
            : `logind went on when its delay of ${saySpan(delayMs)} was over`;
        return `${went}; the phases were over after ${saySpan(atMs - beganMs)}`;
      }
      const isLate = released?.why === 'out-of-time';
      const why = isLate ? 'out of time' : 'all phases are done';
      // There is no lock to release when systemd already stops the agent.
      const how = plan?.tier !== 'stop' ? 'lock released' : isLate ? 'over' : 'done';
      return `${how} after ${saySpan((released?.atMs ?? beganMs) - beganMs)}, ${why}`;
    }
    case 'cancelled':
      return `cancelled ${cancelled === null ? '' : `${duringPhase(cancelled, released)} `}after ${saySpan((cancelled?.atMs ?? beganMs) - beganMs)}`;
    case 'cut':
      return end.by === 'boot-ended'
        ? `the record ends ${inPhase(end.phase)}: ${ENDED_EARLY}`
        : `cut ${inPhase(end.phase)}, nodewarden ended before it was done`;
    case 'running':
      return `running, ${inPhase(end.phase)}`;
  }
}

const inPhase = (phase: number): string => (phase > 0 ? `in phase ${phase}` : 'before the first phase');

function planLines({ plan, phases }: ShutdownRecord): string[][] {
  if (plan === null) return [['plan', 'not in the record']];
  const wantedMs = phases.reduce((sum, phase) => sum + (phase.wantedMs ?? 0), 0);
  const granted = plan.grantedMs === null ? 'no lock held' : `${saySpan(plan.grantedMs)} granted`;
  const how =
    plan.tier === 'logind'
      ? `on logind's signal, ${granted}`
      : plan.isSecond
        ? 'what the phases had left, when systemd stopped the agent during the shutdown'
        : 'without a signal from logind, when systemd stopped the agent during the shutdown';
  if (plan.byKubelet) return [['plan', `${how}; left to the kubelet, which held a lock of its own`]];
  const limit = plan.limitMs === null ? '' : `: shrunk to ${saySpan(plan.limitMs)}`;
  return [['plan', `${how}, ${saySpan(wantedMs)} needed in total${limit}`]];
}

const PHASE_HEADING = ['PHASE', 'FROM PRIORITY', 'WANTED', 'BEGAN', 'GIVEN', 'TOOK', 'END'];

function phaseRow(phase: PhaseRecord, { beganMs, announced }: ShutdownRecord): readonly string[] {
  const { began, over } = phase;
  // Beside a kubelet, pods of such a phase may run: they are stopped with the agent.
  const isNoneDeleted = announced !== undefined && phase.state === 'no-pods';
  return [
    String(phase.phase),
    phase.fromPriority === null ? '-' : String(phase.fromPriority),
    phase.wantedMs === null ? '-' : saySpan(phase.wantedMs),
    began === null ? '-' : `+${saySpan(began.atMs - beganMs)}`,
    began === null ? '-' : saySpan(began.periodMs),
    over === null ? '-' : saySpan(over.tookMs),
    over !== null ? sayBy(phase, over.by) : isNoneDeleted ? 'no pod deleted' : SAY_STATE[phase.state],
  ];
}
const SAY_STATE: { readonly [S in PhaseRecord['state']]: string } = {
  over: 'over',
  running: 'running',
  cut: 'cut',
  'no-pods': 'no pods',
  waiting: 'pending',
  'not-reached': 'not reached',
};
const sayBy = ({ began }: PhaseRecord, by: keyof typeof SAY_BY): string =>
  by === 'period' && began?.periodMs === 0 ? 'no time was left' : SAY_BY[by];
const SAY_BY: { readonly [B in NonNullable<PhaseRecord['over']>['by']]: string } = {
  done: 'done',
  period: 'its time was used up',
  'volume-timeout': 'volumes took too long to unmount',
  cancelled: 'cancelled',
};

const POD_HEADING = ['PHASE', 'POD', 'PRIORITY', 'GRACE', 'TOOK', 'END'];

function podRow({ phase }: PhaseRecord, stop: PodStop, paint: Paint): readonly string[] {
  const { end, graceSeconds, priority, isAgain, isLate } = stop;
  const told = `${clean(sayPodEnd(stop))}${isLate && end.kind !== 'dropped' ? ', after its phase was over' : ''}`;
  const isBad = isLate || end.kind === 'survived' || end.kind === 'cut-off' || stop.toldAfterMs === null;
  return [
    String(phase),
    `${clean(stop.pod)}${isAgain ? ' (again)' : ''}`,
    priority === null ? '-' : String(priority),
    graceSeconds === null ? '-' : saySpan(graceMsOf(givenSeconds(graceSeconds) * 1_000, stop)),
    'afterMs' in end ? saySpan(end.afterMs) : '-',
    isBad ? paint('red', told) : told,
  ];
}

/** Longer than a query to systemd. */
const TOLD_LATE_MS = 500;

/** What it got if that is noticeably less than what its phase gives to a pod that is asked at once. */
function graceMsOf(wantedMs: number, { getsMs = wantedMs }: PodStop): number {
  return wantedMs - getsMs < TOLD_LATE_MS ? wantedMs : getsMs;
}

function sayPodEnd(stop: PodStop): string {
  const { toldAfterMs, isEarlier } = stop;
  if (isEarlier) return `asked to stop by the shutdown before; ${sayHow(stop)}`;
  if (toldAfterMs === null) return `was not asked to stop; ${sayHow(stop)}`;
  const isLate = toldAfterMs !== undefined && toldAfterMs >= TOLD_LATE_MS;
  return isLate ? `asked to stop after ${saySpan(toldAfterMs)}; ${sayHow(stop)}` : sayHow(stop);
}

function sayHow({ end }: PodStop): string {
  switch (end.kind) {
    case 'ended':
      if (end.via === 'stop-timeout') return 'killed by systemd (its TimeoutStopSec)';
      return `${end.via === 'sigkill' || end.via === 'cgroup.kill' ? 'killed' : 'ended'} ${sayVia(end.via)}`;
    case 'survived':
      return `survived: ${end.detail}`;
    case 'unknown':
      return `ended; ${sayEndUnknown(end.detail)}`;
    case 'dropped':
      return `not stopped: ${sayDropped(end.because)}`;
    case 'under-way':
      return 'stopping';
    case 'cut-off':
      return 'not recorded: cut off';
  }
}

/** The lock is released after the last phase, or by the cancel itself. */
const duringPhase = (
  { atMs, phase }: NonNullable<ShutdownRecord['cancelled']>,
  released: ShutdownRecord['released'],
): string => (released !== null && released.atMs < atMs ? 'once all phases were over' : inPhase(phase));

/** Lines about deviations from the plan. */
function otherwiseLines(shutdown: ShutdownRecord): string[][] {
  const { startedAgain, gone, lockLost, resumed, cancelled, released, undone, end, beganMs } = shutdown;
  const after = (atMs: number): string => `after ${saySpan(atMs - beganMs)}`;
  const { announced, confirmed } = shutdown;
  return [
    ...(announced === undefined
      ? []
      : [['announced', `${after(announced.atMs)}: ${announced.detail ?? NOT_ANNOUNCED}`]]),
    ...(confirmed === undefined ? [] : [['confirmed', `${after(confirmed.atMs)}: ${sayConfirmed(confirmed.left)}`]]),
    ...startedAgain.map(({ atMs, pod, times }) => [
      'again',
      `${pod} was started during the shutdown, noticed ${after(atMs)}: ${times < STOPS_AGAIN ? 'stopped again' : `left running after ${STOPS_AGAIN} such stops`}`,
    ]),
    ...gone.map(({ atMs, phase, pods }) => [
      'gone',
      `before phase ${phase}: ${sayNames(pods)}, noticed ${after(atMs)}`,
    ]),
    ...lockLost.map(({ atMs, phase, detail }) => ['lock', `lost ${after(atMs)}, ${inPhase(phase)}: ${detail}`]),
    ...resumed.map(({ atMs, phase }) => ['resumed', `by the restarted agent ${after(atMs)}, ${inPhase(phase)}`]),
    ...(cancelled === null
      ? []
      : [
          [
            'cancel',
            `${after(cancelled.atMs)}, ${duringPhase(cancelled, released)}: ${cancelled.why}${sayHonoured(cancelled)}`,
          ],
        ]),
    ...(undone === null || undone.started.length === 0 ? [] : [['undone', `restarted: ${sayNames(undone.started)}`]]),
    ...(undone === null || undone.notUndone.length === 0 ? [] : [['not undone', sayNames(undone.notUndone)]]),
    ...(end.kind === 'cancelled' && shutdown.released !== null && shutdown.plan?.tier !== 'stop'
      ? [['lock', `released ${after(shutdown.released.atMs)}`]]
      : []),
  ];
}

/** Everything is cleaned here, including names that the record itself wrote. */
function keyed(lines: readonly (readonly string[])[]): readonly string[] {
  return lines.map(([name = '', text = '']) => `  ${name.padEnd(10)} ${clean(text)}`);
}

function indented(text: string): readonly string[] {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => `  ${line}`);
}

/** To a tenth of a second, because seconds matter in a shutdown. */
function saySpan(ms: number): string {
  const step = Math.abs(ms) < 1_000 ? 1 : 100;
  return sayDuration(Math.round(ms / step) * step);
}

function sayHonoured({ isHonoured, isAnew }: NonNullable<ShutdownRecord['cancelled']>): string {
  if (isHonoured) return '';
  return isAnew
    ? '; the next shutdown was announced during the phases, which continued for it'
    : '; logind did not honour it and continued the shutdown';
}
