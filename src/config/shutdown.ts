import type { ShutdownPhase } from '../core/core-config.ts';
import { parseDuration } from '../core/units/duration.ts';
import type { Problem } from '../document/problem.ts';
import { entryOf, type Fields } from './field.ts';

type Period = { readonly priority: number; readonly periodSeconds: number };
export type ShutdownPeriods = {
  readonly totalMs: number;
  readonly criticalMs: number;
  readonly byPodPriority: readonly Period[];
};

const TOTAL = 'shutdownGracePeriod';
const CRITICAL = 'shutdownGracePeriodCriticalPods';
const LIST = 'shutdownGracePeriodByPodPriority';
/** kubelet-shutdown.md 1.3: where critical pods begin. */
const CRITICAL_PRIORITY = 2_000_000_000;

/** Values that the schema has reported count as absent here, so that the other rules are still checked. */
export function readShutdown(fields: Fields): ShutdownPeriods {
  const list = fields.get(LIST)?.value;
  const numberAt = (entry: unknown, key: string): number => {
    const value = entryOf(entry, key);
    return typeof value === 'number' ? value : 0;
  };
  return {
    totalMs: durationMs(fields, TOTAL),
    criticalMs: durationMs(fields, CRITICAL),
    byPodPriority: (Array.isArray(list) ? list : []).map((entry: unknown) => ({
      priority: numberAt(entry, 'priority'),
      periodSeconds: numberAt(entry, 'shutdownGracePeriodSeconds'),
    })),
  };
}

function durationMs(fields: Fields, name: string): number {
  const value = fields.get(name)?.value;
  const parsed = typeof value === 'string' ? parseDuration(value) : null;
  return parsed?.ok ? parsed.duration.ms : 0;
}

/** kubelet-shutdown.md 1.5: what the kubelet refuses, in the codes of shutdown-scenarios.md 4.2. */
const REFUSALS = {
  criticalExceedsTotal: { field: CRITICAL, text: `must not be more than ${TOTAL}` },
  totalBelowOneSecond: { field: TOTAL, text: 'must be 0s or at least 1s; for example "30s"' },
  criticalBelowOneSecond: { field: CRITICAL, text: 'must be 0s or at least 1s; for example "10s"' },
  bothForms: { field: LIST, text: `cannot be set together with ${TOTAL} or ${CRITICAL}; remove one of them` },
} as const;
export type ShutdownRefusal = keyof typeof REFUSALS;
export const SHUTDOWN_REFUSALS = [
  'criticalExceedsTotal',
  'totalBelowOneSecond',
  'criticalBelowOneSecond',
  'bothForms',
] as const satisfies readonly ShutdownRefusal[];

export function shutdownRefusals({ totalMs, criticalMs, byPodPriority }: ShutdownPeriods): readonly ShutdownRefusal[] {
  const isBelowOneSecond = (ms: number): boolean => ms < 0 || (ms > 0 && ms < 1000);
  const applies: { readonly [R in ShutdownRefusal]: boolean } = {
    criticalExceedsTotal: criticalMs > totalMs,
    totalBelowOneSecond: isBelowOneSecond(totalMs),
    criticalBelowOneSecond: isBelowOneSecond(criticalMs),
    bothForms: byPodPriority.length > 0 && (totalMs > 0 || criticalMs > 0),
  };
  return SHUTDOWN_REFUSALS.filter((code) => applies[code]);
}

export function shutdownProblems(periods: ShutdownPeriods, fields: Fields): readonly Problem[] {
  return shutdownRefusals(periods).map((code) => fields.problemAt([REFUSALS[code].field], REFUSALS[code].text));
}

/** kubelet-shutdown.md 1.6: the kubelet accepts them, and such a phase ends before it begins; refused here. */
export function negativePeriodProblems({ byPodPriority }: ShutdownPeriods, fields: Fields): readonly Problem[] {
  return byPodPriority.flatMap(({ periodSeconds }, index) =>
    periodSeconds < 0
      ? [fields.problemAt([LIST, index, 'shutdownGracePeriodSeconds'], `must not be negative, it is ${periodSeconds}`)]
      : [],
  );
}

/** kubelet-shutdown.md 1.2 to 1.4: ascending by priority, equal ones in the order written; empty = off. */
export function phasesOf({ totalMs, criticalMs, byPodPriority }: ShutdownPeriods): readonly ShutdownPhase[] {
  const phase = ({ priority, periodSeconds }: Period): ShutdownPhase => ({ fromPriority: priority, periodSeconds });
  if (byPodPriority.length > 0) return byPodPriority.map(phase).sort((a, b) => a.fromPriority - b.fromPriority);
  if (totalMs <= 0) return [];
  return [
    { fromPriority: 0, periodSeconds: Math.floor((totalMs - criticalMs) / 1000) },
    { fromPriority: CRITICAL_PRIORITY, periodSeconds: Math.floor(criticalMs / 1000) },
  ];
}
