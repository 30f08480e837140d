// Whether a held unit that somebody has started again can be stopped again.
import { actionWithin } from '../../core/pod/grace.ts';
import { ifKnown, known, type MonoMs, type Reading } from '../../core/reading.ts';
import type { Systemd } from '../../host/systemd/systemd.ts';
import type { UnitFacts, UnitTies } from '../../host/systemd/unit-facts.ts';
import { sayDisplaces, sayEndsMachine, sayNeededBy } from '../../words/finding-standalone.ts';
import { isAnswer } from '../ties/awaited-answer.ts';
import { isRunning } from '../ties/start-effects.ts';
import { createTieGraph, unitsAround } from '../ties/tie-graph.ts';
import type { Held, StoppedAgain } from './held-file.ts';

/** product.md section 5. */
export const MOST_STOPS = 3;
const WITHIN_MS = 600_000;

/** The stops of held units that count, without those of this run; how many are of the unit; and that of this run, which counts once. */
export function stopsOf(
  { stoppedAgain }: Held,
  unit: string,
  run: string,
  atMs: MonoMs,
): { readonly before: readonly StoppedAgain[]; readonly times: number; readonly now: StoppedAgain } {
  const recent = stoppedAgain.filter((past) => atMs - past.atMs < WITHIN_MS);
  const isThisRun = (past: StoppedAgain): boolean => past.unit === unit && past.run === run;
  const before = recent.filter((past) => !isThisRun(past));
  const times = before.filter((past) => past.unit === unit).length;
  return { before, times, now: recent.find(isThisRun) ?? { unit, atMs, run } };
}

type StopAgain = {
  /** Why it must be left running, as a clause: its stop would stop a unit that is to run, or take the machine down. */
  readonly leftBecause: string | null;
  /** What runs and is stopped with it. */
  readonly along: readonly string[];
};

/** Unknown: systemd did not say all that its stop would do. */
export async function stopAgainOf(
  systemd: Pick<Systemd, 'ties' | 'stopTimeoutMs' | 'stopCommands'>,
  facts: UnitFacts,
  isKeptDown: (unit: string) => boolean,
): Promise<Reading<StopAgain>> {
  const around = await tiesAround(systemd, facts);
  if (!around.known) return around;
  const { id } = facts;
  const asked = around.value;
  // As if each were a pod: what stops with it counts, whatever it is.
  const ties = createTieGraph(asked, new Map([...asked.keys()].map((name) => [name, name]))).of(id);
  const isUp = (name: string): boolean => {
    const unit = asked.get(name);
    return unit !== undefined && (isRunning(unit) || unit.isToStart === true);
  };
  const along = (ties?.pods ?? []).filter(isUp);
  const left = (leftBecause: string | null): Reading<StopAgain> => known({ leftBecause, along });
  const needs = along.find((name) => !isKeptDown(name));
  if (needs !== undefined) return left(sayNeededBy(needs));
  const displaced = (ties?.displaced ?? []).find((name) => isUp(name) && !isKeptDown(name));
  if (displaced !== undefined) return left(sayDisplaces(displaced));
  const action = ties?.machineAction;
  if (action === undefined) return left(null);
  // How long it waits for those that stop before it is unknown.
  if (action.afterMs === 0 || along.length > 0) return left(sayEndsMachine(action.what));
  const commands = await systemd.stopCommands(id);
  if (!commands.known) return commands;
  return ifKnown(await systemd.stopTimeoutMs(id), (limitMs) => {
    // No SIGKILL of the agent cuts this stop short: each of its commands may take that time, and then its processes.
    const what = actionWithin(action, ((commands.value + 1) * limitMs) / 1_000);
    return left(what === null ? null : sayEndsMachine(what));
  });
}

/** All that its stop may concern, running or not. */
async function tiesAround(
  systemd: Pick<Systemd, 'ties'>,
  facts: UnitFacts,
): Promise<Reading<ReadonlyMap<string, UnitTies>>> {
  const asked = new Map<string, UnitTies>([[facts.id, facts]]);
  const refused = new Set<string>();
  for (;;) {
    const { reached, beside } = unitsAround([facts.id], asked);
    const names = [...reached, ...beside].filter((name) => !asked.has(name) && !refused.has(name));
    if (names.length === 0) return known(asked);
    const answers = await Promise.all(names.map(async (name) => [name, await systemd.ties(name)] as const));
    for (const [name, ties] of answers) {
      if (ties.known) asked.set(name, ties.value);
      else if (isAnswer(ties)) refused.add(name);
      else return ties;
    }
  }
}
