import type { Systemd } from '../host/systemd.ts';
import type { Clock } from '../ports.ts';
import { stopsUnusable } from '../words/finding-standalone.ts';
import { type HeldUnit, loadHeld, nothingHeld, saveHeld } from './held-file.ts';
import { isRunning, whoForbids } from './start-effects.ts';

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
  const left: string[] = [];
  let failed: readonly HeldUnit[] = [];
  for (const unit of held.units.filter(({ after }) => after === 'restart')) {
    const facts = await needs.systemd.unit(unit.unit);
    if (isRunning(facts.known ? facts.value : null)) continue;
    const forbidden = facts.known ? await whoForbids(needs.systemd, facts.value) : null;
    if (forbidden?.isKnown === true) {
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
