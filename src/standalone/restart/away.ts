// Held units of which systemd knows no file.
import type { MonoMs } from '../../core/reading.ts';
import type { UnitFacts } from '../../host/systemd/unit-facts.ts';
import type { Clock } from '../../ports.ts';

/** How long the file of a held unit may be away. */
const AWAY_MS = 600_000;

export function createAway(clock: Clock) {
  const sinceMs = new Map<string, MonoMs>();
  return {
    isAway: (unit: string): boolean => sinceMs.has(unit),
    /** Only who made a transient unit can start it. Other files may be away for a moment, while they are being replaced. */
    isForGood: (unit: string, { loadState }: UnitFacts): boolean => {
      const nowMs = clock.monoMs();
      const awayMs = sinceMs.get(unit) ?? nowMs;
      if (loadState === 'not-found') sinceMs.set(unit, awayMs);
      else sinceMs.delete(unit);
      return loadState === 'not-found' && nowMs - awayMs >= AWAY_MS;
    },
    forget: (unit: string): void => void sinceMs.delete(unit),
  };
}
