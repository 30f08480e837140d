import { planOf } from './config.ts';
import type { LevelLack } from './decision.ts';
import { freshSince, lackOfLevel, lackOfPlan, slowestMs, useOf } from './devices.ts';
import { deviceKey } from './state.ts';
import { firstLevel, levelOf, type Turn } from './turn.ts';

/** Which level of its devices a fencing uses next. */

/** The first one that can be used; of a rehearsal, the one that was chosen, and no other one. Null: none. */
export function levelToUse(turn: Turn): number | null {
  const { record, state, observation, memory } = turn;
  if (record.purpose !== 'rehearse') return firstLevel(turn);
  const freshMs = freshSince(memory, observation.atMs);
  const lack = lackOfLevel(record.node.uid, levelOf(record), state.devices, freshMs, 'rehearse');
  return lack === null ? record.level : null;
}

/** Why there is none. */
export function lackNow({ record, state, observation, memory, config }: Turn): LevelLack {
  const freshMs = freshSince(memory, observation.atMs);
  const isRehearsal = record.purpose === 'rehearse';
  const levels = isRehearsal ? [levelOf(record)] : record.plan.levels;
  return lackOfPlan(record.node.uid, levels, state.devices, freshMs, useOf(config, isRehearsal)) ?? 'silent';
}

/** After the present one did not prove it off. Whatever its devices say: those that are silent may have been so by chance. */
export function levelAfter({ record, state }: Turn): number | null {
  const at = record.plan.levels.findIndex((_, level) => level > record.level && !isTooSlow({ record, state }, level));
  return at === -1 ? null : at;
}

/** What its devices said last came too late for a proof. */
export const isTooSlow = ({ record, state }: Pick<Turn, 'record' | 'state'>, level: number): boolean =>
  slowestMs((record.plan.levels[level] ?? []).map((key) => state.devices.get(deviceKey(record.node.uid, key)))) !==
  null;

/** Why a fencing ended of which the devices are configured otherwise by now. */
export const OUTDATED = 'devices-changed';

/**
 * Its devices are configured otherwise by now. It keeps those that it began with, which did not prove it off: it ends, and the
 * node may be fenced anew.
 */
export function isOutdated({ record, config }: Turn): boolean {
  const now = planOf(config, record.node.name);
  if (now === null || record.onSent.length > 0) return false;
  const sayPlan = ({ isolation, levels }: typeof now): string => JSON.stringify([isolation, levels]);
  return sayPlan(now) !== sayPlan(record.plan) || config.outdated?.includes(record.node.uid) === true;
}

/** None is configured any more. */
export const hasNoMethod = ({ record, config }: Turn): boolean => planOf(config, record.node.name) === null;
