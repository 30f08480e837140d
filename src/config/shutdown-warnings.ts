import { sayDuration } from '../core/units/duration.ts';
import type { Effective } from './effective.ts';
import { originOf, sayPlace } from './setting.ts';
import type { ShutdownPeriods } from './shutdown.ts';

/** More is probably not intended: milliseconds, perhaps. */
const LONG_MS = 3_600_000;

/** kubelet-shutdown.md 1.6, as far as it concerns the periods alone: what logind grants is known only at run time. */
export function shutdownWarnings(
  effective: Pick<Effective, 'settings'> & { readonly shutdown: ShutdownPeriods },
): readonly string[] {
  const { totalMs, criticalMs, byPodPriority } = effective.shutdown;
  const list = 'shutdownGracePeriodByPodPriority';
  const said: string[] = [];
  const warn = (field: string, text: string) => said.push(`${sayPlace(originOf(effective, field))}${field}: ${text}`);
  if (byPodPriority.length > 0) {
    for (const text of tooLong(byPodPriority.reduce((sum, { periodSeconds }) => sum + periodSeconds * 1_000, 0))) {
      warn(list, text);
    }
    const priorities = byPodPriority.map(({ priority }) => priority);
    for (const twice of new Set(priorities.filter((priority, index) => priorities.indexOf(priority) < index))) {
      warn(
        list,
        `priority ${twice} is listed twice; pods of exactly that priority belong to the first phase, higher ones to the last`,
      );
    }
    for (const { priority, periodSeconds } of byPodPriority) {
      if (periodSeconds === 0)
        warn(list, `pods of priority ${priority} and above get 0 s: the shutdown does not wait for them`);
    }
    const lowest = Math.min(...priorities);
    if (lowest > 0) warn(list, `the lowest priority is ${lowest}; pods below it are stopped in that phase too`);
    return said;
  }
  if (totalMs <= 0) return [];
  for (const text of tooLong(totalMs)) warn('shutdownGracePeriod', text);
  const cut = [
    { field: 'shutdownGracePeriod', ms: totalMs - criticalMs },
    { field: 'shutdownGracePeriodCriticalPods', ms: criticalMs },
  ].filter(({ ms }) => ms % 1000 !== 0);
  for (const { field, ms } of cut) {
    warn(field, `phases last whole seconds, so ${ms / 1000} s become ${Math.floor(ms / 1000)} s`);
  }
  if (criticalMs === 0) {
    const part = Math.max(1, Math.floor(totalMs / 3000));
    warn(
      'shutdownGracePeriod',
      `critical pods get 0 s of it, and the shutdown does not wait for them; add shutdownGracePeriodCriticalPods: ${part}s`,
    );
  } else if (criticalMs === totalMs) {
    warn('shutdownGracePeriodCriticalPods', 'takes all of shutdownGracePeriod, so ordinary pods get 0 s');
  }
  if (originOf(effective, list) !== undefined) {
    warn(list, 'the empty list has no effect; shutdownGracePeriod applies');
  }
  return said;
}

function tooLong(allMs: number): readonly string[] {
  if (allMs <= LONG_MS) return [];
  const why = 'logind lets every program with a delay lock hold up shutdown and suspend for that long';
  return [`all phases together last ${sayDuration(allMs)}: ${why}`];
}
