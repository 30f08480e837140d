import { assertNever } from '../core/reading.ts';
import { sayDuration, sayTenths } from '../core/units/duration.ts';
import type { LockStatus, PlannedPhase, RunningShutdown, ScheduledShutdown } from '../serve/shutdown-status.ts';
import type { StatusReport } from '../serve/status.ts';
import { sayMs } from '../words/decision.ts';
import { countPods } from '../words/phrases.ts';
import { sayPriorities } from '../words/shutdown.ts';
import { clean, type Paint, sayNames, sayWhen } from './print.ts';

/** The shutdown part of the status, for people. */
export function shutdownText({ shutdown, node }: StatusReport, paint: Paint): string {
  const { lock, phases, scheduled, running, last } = shutdown;
  const lines = [
    ...(running === null ? lockText(lock, node.dryRun, paint) : [runningText(running, phases, paint)]),
    ...(running === null ? planText(shutdown) : []),
    ...(shutdown.kubelet === undefined
      ? []
      : ['the kubelet holds a lock of its own: it stops the pods, and the phases are for what it leaves']),
    ...(scheduled === null ? [] : scheduledText(scheduled, paint)),
    ...(last === null ? [] : [`last: ${clean(last)}`]),
  ];
  return lines.map((line, i) => `${i === 0 ? 'shutdown    ' : '            '}${line}\n`).join('');
}

/** Whether logind is proven to wait for the phases, or why not; one line or more. */
export function lockText(lock: LockStatus, isDry: boolean, paint: Paint): readonly string[] {
  switch (lock.kind) {
    case 'off':
      return [isDry ? 'off: a dry run holds no lock' : 'off'];
    case 'released':
      return ['released: the machine is going down'];
    case 'armed': {
      const { grantedMs, neededMs, provenAgoMs } = lock;
      const granted = `the phases need ${sayMs(neededMs)}, logind grants ${sayMs(grantedMs)}`;
      return [`${paint('green', 'armed')}: ${granted}, proven ${sayAgo(provenAgoMs)}`];
    }
    case 'not-armed': {
      const { grantedMs, neededMs, isHeld, why } = lock;
      const granted = grantedMs === null ? 'an unknown part' : sayMs(grantedMs);
      const then = isHeld
        ? 'the lock is held, and the phases shrink to fit'
        : 'no lock is held, so logind would not wait';
      return [
        `${paint('red', 'NOT ARMED')}: ${clean(why)}`,
        `logind grants ${granted} of the ${sayMs(neededMs)} needed; ${then}`,
      ];
    }
    default:
      return assertNever(lock);
  }
}

function sayAgo(ms: number): string {
  return ms < 1_000 ? 'just now' : `${sayMs(Math.round(ms / 1_000) * 1_000)} ago`;
}

function planText({ phases, stopTimeoutMs, secondTier }: StatusReport['shutdown']): readonly string[] {
  if (phases.length === 0) return [];
  const lines = phases.map((row) => {
    const pods = row.pods === null ? '' : `, ${row.pods === 0 ? 'no pods' : countPods(row.pods)} now`;
    return `phase ${row.phase}: ${sayPriorities(row, phases)}: ${saySeconds(row.periodSeconds)}${pods}`;
  });
  return [...lines, secondTierText(stopTimeoutMs, secondTier)];
}

function secondTierText(timeoutMs: number | 'infinity' | null, isOn: boolean): string {
  if (!isOn) return "without logind's signal: nothing is stopped in phases (shutdownSecondTier)";
  const limit = timeoutMs === null ? 'unknown' : timeoutMs === 'infinity' ? timeoutMs : sayMs(timeoutMs);
  return `without logind's signal: the phases run within the agent's TimeoutStopSec (${limit})`;
}

function runningText(running: RunningShutdown, phases: readonly PlannedPhase[], paint: Paint): string {
  const { tier, type, phase, phaseLeftMs, podsLeft, cancelled, cancelIgnored } = running;
  const why = tier === 'logind' ? "logind's signal" : 'no signal from logind; systemd is stopping the agent';
  const head = `${type === null ? 'the machine is going down' : clean(type)} (${why})`;
  const late = cancelled ? '; cancelled, to be honoured after the last phase' : '';
  const over = cancelIgnored ? '; cancelled, but logind continues the shutdown' : late;
  if (phase === 0) return paint('red', `${head}: about to begin${over}`);
  const left = podsLeft.length === 0 ? '' : `, waiting for ${sayNames(podsLeft.map(clean))}`;
  return paint('red', `${head}: phase ${phase} of ${phases.length}, ${sayTenths(phaseLeftMs)} left${left}${over}`);
}

function scheduledText({ type, atWallMs, phases }: ScheduledShutdown, paint: Paint): readonly string[] {
  const head = paint('yellow', `${clean(type)} is scheduled for ${sayWhen(atWallMs)}; nothing is stopped before`);
  return [
    head,
    ...phases.map(
      ({ phase, startsWallMs, endsWallMs }) =>
        `phase ${phase}: ${sayClock(startsWallMs)} to ${sayClock(endsWallMs)} at the latest`,
    ),
  ];
}

const sayClock = (wallMs: number): string => new Date(wallMs).toISOString().slice(11, 19);

export const saySeconds = (seconds: number): string => sayDuration(seconds * 1_000);
