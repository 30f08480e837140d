// What systemd starts and stops besides a unit when it starts that.
import { type Reading, unknown } from '../core/reading.ts';
import type { Systemd } from '../host/systemd.ts';
import type { UnitFacts, UnitTies } from '../host/unit-facts.ts';

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

/** Why a unit must not be started, as a sentence. `isKnown` false: systemd did not say, and may do so later. */
type Forbidden = { readonly why: string; readonly isKnown: boolean };

/**
 * Whether systemd would stop a running unit to start this one, or to start what this one needs and is not running; null: none.
 */
export async function whoForbids(systemd: Pick<Systemd, 'ties'>, facts: UnitTies): Promise<Forbidden | null> {
  const asked = new Map<string, Reading<UnitTies>>();
  const ask = async (name: string): Promise<Reading<UnitTies>> => {
    const before = asked.get(name);
    if (before !== undefined) return before;
    const answer =
      asked.size < MOST_ASKED
        ? await systemd.ties(name)
        : unknown('not-asked', name, `systemd is asked about no more than ${MOST_ASKED} units`);
    asked.set(name, answer);
    return answer;
  };
  const toStart = [facts];
  const found = new Set([facts.id]);
  for (const { relations } of toStart) {
    for (const name of CONFLICTS.flatMap((list) => relations[list] ?? [])) {
      const rival = await ask(name);
      if (!rival.known) return isUnsaid(name, rival.detail);
      if (isRunning(rival.value)) return runs(rival.value.id);
    }
    for (const name of NEEDS.flatMap((list) => relations[list] ?? [])) {
      const needed = await ask(name);
      if (!needed.known) return isUnsaid(name, needed.detail);
      if (isRunning(needed.value) || found.has(needed.value.id)) continue;
      found.add(needed.value.id);
      toStart.push(needed.value);
    }
  }
  return null;
}

const runs = (rival: string): Forbidden => ({
  why: `${rival} runs, and systemd would stop it to start this unit`,
  isKnown: true,
});
const isUnsaid = (unit: string, detail: string): Forbidden => ({
  why: `systemd does not report whether the start would stop a running unit: ${unit}: ${detail}`,
  isKnown: false,
});

/** Excludes one that is just stopping. */
export function isRunning(facts: Pick<UnitFacts, 'activeState'> | null): boolean {
  return facts !== null && ['active', 'reloading', 'activating'].includes(facts.activeState);
}
