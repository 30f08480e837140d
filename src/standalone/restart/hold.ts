// What an eviction holds down: from its first signal on, only the agent starts that again.
import { podName } from '../../core/pod/pod.ts';
import type { MonoMs } from '../../core/reading.ts';
import type { UnitFacts } from '../../host/systemd/unit-facts.ts';
import { currentRun } from '../../host/systemd/unit-path.ts';
import { sayNames } from '../../words/phrases.ts';
import type { ManifestPod } from '../manifests/manifest.ts';
import { MAX_REMEMBERED } from '../manifests/runtime-file.ts';
import { isNeededBy, isStartable } from '../ties/start-effects.ts';
import type { Held, HeldUnit } from './held-file.ts';
import type { HoldNeeds } from './needs.ts';

/** As in Restart.hold. */
export type RunFacts = UnitFacts | 'between-runs' | null;

/** product.md section 5. */
export const HEALTHY_MS = 600_000;
const FIRST_BACK_OFF_MS = 10_000;
const MAX_BACK_OFF_MS = 300_000;

/** Doubling from 10 s to 5 min. */
export function backOffMs(level: number): number {
  return Math.min(MAX_BACK_OFF_MS, FIRST_BACK_OFF_MS * 2 ** Math.min(level, 10));
}

/**
 * The unit, or what runs in the slice (`startable`), and what systemd stops along with it.
 * `held`: with the conditions that are true. `lost`: why not all of it can be restarted, as a sentence.
 */
export function toHold(
  needs: HoldNeeds,
  held: Held,
  nowMs: MonoMs,
  manifest: ManifestPod,
  unit: string,
  facts: RunFacts,
): { readonly holding: readonly HeldUnit[]; readonly startable: readonly string[]; readonly lost: string | null } {
  const runOf = needs.currentRun ?? currentRun;

  function levelOf(name: string): number {
    const before = held.restarted.find((other) => other.unit === name);
    return before !== undefined && nowMs - before.startedMs < HEALTHY_MS ? before.level + 1 : 0;
  }

  function heldNow(
    { declared, afterEviction }: ManifestPod,
    name: string,
    itsFacts: RunFacts,
    how: 'own' | 'along' = 'own',
  ): HeldUnit {
    const run = runOf(name);
    const ofRun = itsFacts === 'between-runs' ? '' : run.known ? run.value : itsFacts?.invocationId;
    const wasHeld = held.units.find((other) => other.unit === name);
    const isAlong = how === 'along' && wasHeld?.isAlong !== false;
    const whenHeld = [...new Set([...(wasHeld?.conditions ?? []), ...held.conditions])];
    const named = [ofRun, wasHeld?.invocationId].filter(Boolean);
    // A resumed eviction: what was written before the crash says how it was.
    if (wasHeld?.asked === 'stop' && new Set(named).size < 2)
      return { ...wasHeld, isAlong, conditions: whenHeld, invocationId: named[0] ?? '' };
    const { qos, tolerations, isStaticCritical } = declared;
    return {
      unit: name,
      pod: podName(declared),
      qos,
      tolerations,
      isStaticCritical,
      after: afterEviction,
      conditions: whenHeld,
      invocationId: ofRun ?? '',
      isAlong,
      asked: 'stop',
      level: wasHeld === undefined ? levelOf(name) : wasHeld.level + 1,
      dueMs: null,
    };
  }

  const isSlice = unit.endsWith('.slice');
  const units = isSlice ? (needs.unitsIn?.(unit) ?? []) : [unit];
  const startable = units.filter(isStartable);
  const own = startable.map((name) => heldNow(manifest, name, isSlice ? null : facts));
  // Those that run, or are about to: one that nothing else starts would otherwise stay down for good.
  // systemd records no run of what starts no process: that it was told as running has to do.
  const isUp = (name: string): boolean =>
    !name.endsWith('.service') || runOf(name).known || needs.isToStart?.(name) === true;
  const along = (needs.stopsAlong?.(manifest, unit) ?? [])
    .filter((other) => isStartable(other.unit) && isUp(other.unit))
    .map((other) => heldNow(other.manifest ?? manifest, other.unit, null, 'along'));
  return {
    holding: [...own, ...along.filter((other) => !startable.includes(other.unit))],
    startable,
    lost: startable.length < Math.max(1, units.length) ? sayLost(units, startable) : null,
  };
}

const isIn = (units: readonly HeldUnit[], { unit }: HeldUnit): boolean => units.some((other) => other.unit === unit);

export const withHeld = (held: Held, holding: readonly HeldUnit[]): Held => ({
  ...held,
  units: [...held.units.filter((other) => !isIn(holding, other)), ...holding].slice(-MAX_REMEMBERED),
  leftDown: held.leftDown.filter((name) => !holding.some(({ unit }) => unit === name)),
});

/** What may start together with a unit that needs it: it is held as well, or was restarted. */
export const comesBack =
  ({ units, restarted }: Held) =>
  (name: string): boolean =>
    units.some(({ unit, after }) => unit === name && after === 'restart') ||
    restarted.some(({ unit }) => unit === name);

/** Held as well, and started no later. One that could not be started has had its turn. */
export const aheadOf = ({ units }: Held, { level }: HeldUnit): readonly string[] =>
  units.filter((other) => other.level <= level).map(({ unit }) => unit);

/** Not to be started for one that needs it. */
export const isLeftDownIn =
  ({ units, leftDown }: Held) =>
  (name: string): boolean =>
    leftDown.includes(name) || units.some(({ unit, after }) => unit === name && after === 'stay');

const PULLED_MS = 60_000;

/** A unit that we started recently and that requires it: systemd starts both together. */
export function pulledInBy({ restarted }: Held, facts: UnitFacts, nowMs: MonoMs): string | null {
  const sinceMs = nowMs - PULLED_MS;
  return restarted.find(({ unit, startedMs }) => startedMs >= sinceMs && isNeededBy(facts, [unit]))?.unit ?? null;
}

/** Takes out of what is held later what was held at `nowMs`: each is as before then, and not held if it was started since. */
export function withoutAgain(before: Held, holding: readonly HeldUnit[], nowMs: MonoMs): (held: Held) => Held {
  return (held) => {
    const isBack = ({ unit }: HeldUnit): boolean =>
      held.restarted.some((other) => other.unit === unit && other.startedMs >= nowMs);
    const asBefore = (now: HeldUnit): readonly HeldUnit[] =>
      isIn(holding, now) ? before.units.filter((other) => other.unit === now.unit && !isBack(other)) : [now];
    return { ...held, units: held.units.flatMap(asBefore) };
  };
}

function sayLost(units: readonly string[], startable: readonly string[]): string {
  const scopes = units.filter((unit) => !startable.includes(unit));
  if (scopes.length === 0) return 'no unit runs in it, so nothing can be restarted';
  return `only what created ${sayNames(scopes, 5)} can restart it`;
}
