// The node's conditions as they bear on held units.
import { admits } from '../../core/pod/admit.ts';
import type { MonoMs } from '../../core/reading.ts';
import type { NodeCondition } from '../../core/signal.ts';
import type { Clock } from '../../ports.ts';
import type { Held, HeldUnit } from './held-file.ts';

type HeldConditions = {
  /** Those that are true. */
  readonly now: (held: Held) => readonly NodeCondition[];
  readonly mayRun: (held: Held, unit: HeldUnit) => boolean;
  /** False as well if that rests only on what an earlier run wrote down: such a condition may be long over. */
  readonly mustNotRun: (held: Held, unit: HeldUnit) => boolean;
  /** This run knows whether it is true. */
  readonly confirm: (condition: NodeCondition) => void;
};

/** Conditions that an earlier run wrote down and that are missing from the state, because it was lost. */
const ADOPTED_MS = 600_000;

/** `adopted`: from the state. */
export function createHeldConditions(clock: Clock, adopted: readonly NodeCondition[]): HeldConditions {
  const adoptedMs: MonoMs = clock.monoMs();
  const confirmed = new Set(adopted);
  const known = ({ conditions }: Held): readonly NodeCondition[] =>
    conditions.filter((condition) => confirmed.has(condition));
  const now = (held: Held): readonly NodeCondition[] =>
    clock.monoMs() - adoptedMs < ADOPTED_MS ? held.conditions : known(held);
  const mayRunUnder = (unit: HeldUnit, conditions: readonly NodeCondition[]): boolean =>
    !unit.conditions.some((condition) => conditions.includes(condition)) &&
    admits(unit, conditions).kind === 'admitted';
  return {
    now,
    mayRun: (held, unit) => mayRunUnder(unit, now(held)),
    mustNotRun: (held, unit) => !mayRunUnder(unit, known(held)),
    confirm: (condition) => void confirmed.add(condition),
  };
}
