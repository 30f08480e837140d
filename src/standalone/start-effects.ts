// What systemd starts and stops besides a unit when it starts that.
import type { Systemd } from '../host/systemd.ts';
import type { UnitFacts } from '../host/unit-facts.ts';

/** Properties of a unit that list the units for which systemd starts it, and those that it starts for the unit. */
const NEEDED_BY = ['RequiredBy', 'BoundBy', 'WantedBy', 'UpheldBy'];
const NEEDS = ['Requires', 'BindsTo', 'Wants', 'Upholds'];
/** Units in conflict with it according to systemd: starting one stops the others. */
const CONFLICTS = ['Conflicts', 'ConflictedBy'];
/** Units to ask systemd about before one start. */
const MOST_ASKED = 256;

/** Whether it needs to be started for one of these. */
export const isNeededBy = ({ relations }: UnitFacts, units: readonly string[]): boolean =>
  NEEDED_BY.some((list) => relations[list]?.some((name) => units.includes(name)));

/**
 * A running unit that systemd would stop to start this one, or to start what this one needs and is not running; null: none.
 */
export async function whoForbids(systemd: Pick<Systemd, 'unit'>, facts: UnitFacts): Promise<string | null> {
  const asked = new Map<string, UnitFacts | null>();
  const ask = async (name: string): Promise<UnitFacts | null> => {
    if (!asked.has(name) && asked.size < MOST_ASKED) {
      const answer = await systemd.unit(name);
      asked.set(name, answer.known ? answer.value : null);
    }
    return asked.get(name) ?? null;
  };
  const toStart = [facts];
  const found = new Set([facts.id]);
  for (const { relations } of toStart) {
    for (const name of CONFLICTS.flatMap((list) => relations[list] ?? [])) {
      const rival = await ask(name);
      if (isRunning(rival)) return rival?.id ?? name;
    }
    for (const name of NEEDS.flatMap((list) => relations[list] ?? [])) {
      const needed = await ask(name);
      if (needed === null || isRunning(needed) || found.has(needed.id)) continue;
      found.add(needed.id);
      toStart.push(needed);
    }
  }
  return null;
}

export const sayRival = (rival: string): string => `${rival} runs, and systemd would stop it to start this unit`;

/** Excludes one that is just stopping. */
export function isRunning(facts: Pick<UnitFacts, 'activeState'> | null): boolean {
  return facts !== null && ['active', 'reloading', 'activating'].includes(facts.activeState);
}
