import { known, type Reading, valueOrNull } from '../../core/reading.ts';
import type { Systemd } from '../../host/systemd/systemd.ts';

/** What systemd gives the stop of a unit; infinity: it never kills. */
export type UnitTimeout = {
  readonly unit: string;
  readonly timeoutMs: Reading<number>;
  /** The number of its ExecStop= commands; 0 if unknown. */
  readonly stopCommands: number;
  /** KillMode=; null: not known, or it has none. */
  readonly killMode: string | null;
};

export async function unitTimeout(systemd: Systemd, unit: string): Promise<UnitTimeout> {
  const each = await systemd.stopTimeoutMs(unit);
  const commands = unit.endsWith('.service') ? await systemd.stopCommands(unit) : known(0);
  const killMode = unit.endsWith('.slice') ? null : valueOrNull(await systemd.killMode(unit));
  // If the commands are unknown, so is how often the timeout applies.
  const timeoutMs = commands.known || !each.known ? each : commands;
  return { unit, timeoutMs, stopCommands: valueOrNull(commands) ?? 0, killMode };
}

/**
 * The latest time at which systemd kills it: TimeoutStopSec applies to each ExecStop=, and to the signal after them.
 */
export function killedAfterMs({ timeoutMs, stopCommands }: UnitTimeout): number | null {
  const each = valueOrNull(timeoutMs);
  return each === null ? null : each * (1 + stopCommands);
}
