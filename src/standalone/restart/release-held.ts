import type { Systemd } from '../../host/systemd/systemd.ts';
import type { Clock } from '../../ports.ts';
import { STARTED_OR_RESET, stoppedByShutdown, stopsUnusable } from '../../words/finding-standalone.ts';
import { loadStops } from '../stop/stops-file.ts';
import { isRunning, prepareStart } from '../ties/start-effects.ts';
import { type HeldUnit, isAnotherRun, isReset, loadHeld, nothingHeld, saveHeld } from './held-file.ts';
import { comesBack, isLeftDownIn } from './hold.ts';

const RESTARTED = 'it was started again already, and has ended since';

/** For uninstall: starts the units that an eviction still holds down, whatever the conditions. `problems` are sentences. */
export async function releaseHeld(needs: {
  readonly clock: Clock;
  readonly systemd: Systemd;
  readonly runtimeDirectory: string;
  readonly bootId: string;
}): Promise<{
  readonly started: readonly string[];
  /** Sentences: what is not started, and why that is right. */
  readonly left: readonly string[];
  readonly problems: readonly string[];
}> {
  const { held, complaint } = loadHeld(needs.runtimeDirectory, needs.bootId, needs.clock);
  const started: string[] = [];
  const problems: string[] = complaint === null ? [] : [stopsUnusable('eviction', complaint).text];
  const stops = loadStops(needs.runtimeDirectory, needs.bootId, needs.clock);
  const stopped = stops.pods.flatMap(({ unit }) => unit ?? []);
  const left: string[] = stopped.length === 0 ? [] : [stoppedByShutdown(stopped)];
  let failed: readonly HeldUnit[] = [];
  const isSocket = ({ unit }: HeldUnit): number => Number(unit.endsWith('.socket'));
  // systemd starts a socket only before its service.
  const units = held.units.toSorted((a, b) => isSocket(b) - isSocket(a));
  const others = { wasStopped: comesBack(held), isLeftDown: isLeftDownIn(held) };
  for (const unit of units.filter(({ after }) => after === 'restart')) {
    const facts = await needs.systemd.unit(unit.unit);
    if (isRunning(facts.known ? facts.value : null)) continue;
    // While its stop is not known to be over, that may have ended a later run, as in the agent.
    if (facts.known && unit.asked !== 'stop' && isAnotherRun(unit, facts.value)) {
      // As in the agent: a request to start it was carried out, whoever has ended it since.
      const why = unit.asked === 'start' ? RESTARTED : 'something else has started and stopped it since';
      left.push(`${unit.unit} is not started: ${why}`);
      continue;
    }
    if (facts.known && isReset(unit, facts.value)) {
      left.push(`${unit.unit} is not started: ${STARTED_OR_RESET}`);
      continue;
    }
    const forbidden = facts.known ? await prepareStart(needs.systemd, facts.value, others) : null;
    if (forbidden?.isMeant === true) {
      left.push(`${unit.unit} is not started: ${forbidden.why}`);
      continue;
    }
    const why = forbidden?.why ?? (await startOf(needs.systemd, unit));
    if (why === null) started.push(unit.unit);
    else {
      problems.push(`${unit.unit} could not be started: ${why}`);
      failed = [...failed, unit];
    }
  }
  if (held.units.length > 0) {
    const complaintOfSave = saveHeld(needs.runtimeDirectory, { ...nothingHeld(held.bootId), units: failed });
    if (complaintOfSave !== null) problems.push(complaintOfSave);
  }
  return { started, left, problems };
}

/** Null: it was started. */
async function startOf(systemd: Systemd, { unit }: HeldUnit): Promise<string | null> {
  const start = await systemd.start(unit);
  return start.known ? null : start.detail;
}
