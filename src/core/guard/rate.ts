import type { GuardConfig, RateLimits } from './config.ts';
import type { Because } from './decision.ts';
import type { FencingRecord, Phase, StoredRecord } from './record.ts';
import type { Fencing, GuardState } from './state.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** guard.md 4.1: decided, but not yet drained. */
const IN_FLIGHT: ReadonlySet<Phase> = new Set(['decided', 'isolating', 'off-sent', 'proving', 'proven', 'tainted']);

/**
 * When power was cut, or is about to be, by the wall clocks of those who did it, newest first. A time in the future is one of
 * just now (G7): against acting.
 */
export function cutsWallMs(
  records: readonly StoredRecord[],
  { fencings, dryFenced }: Pick<GuardState, 'fencings' | 'dryFenced'>,
  wallMs: number,
  except: string | null,
): readonly number[] {
  const own = [...fencings.values()].map(({ record }) => record);
  const cuts = recordsOf(records, own).flatMap((record) => (record.id === except ? [] : cutsOf(record)));
  const dry = [...dryFenced.values()].map((fenced) => fenced.wallMs);
  return [...cuts, ...dry].map((cutMs) => Math.min(cutMs, wallMs)).sort((a, b) => b - a);
}

/** Each record once; what this process stored itself is the newer one. */
function recordsOf(records: readonly StoredRecord[], own: readonly FencingRecord[]): readonly FencingRecord[] {
  const ids = new Set(own.map(({ id }) => id));
  return [...own, ...records.flatMap(({ record }) => (record === null || ids.has(record.id) ? [] : [record]))];
}

/** One for each fencing, however often it was sent. */
function cutsOf({ steps, phase }: FencingRecord): readonly number[] {
  const cut = steps.findLast((step) => step.phase === 'isolating' || step.phase === 'off-sent');
  const meant = phase === 'decided' ? steps.at(-1) : undefined;
  const at = cut ?? meant;
  return at === undefined ? [] : [at.wallMs];
}

export function inFlight(fencings: GuardState['fencings'], except: string | null): number {
  let count = 0;
  for (const fencing of fencings.values()) if (fencing.record.id !== except && isInFlight(fencing)) count += 1;
  return count;
}

/** One that is not drained for so long that a person has to see to it no longer stands in the way of others. */
const isInFlight = ({ record, isOverdue }: Fencing): boolean => IN_FLIGHT.has(record.phase) && !isOverdue;

/** How many fencings of the node were decided within the last day, without the one named. */
export function fencingsToday(
  records: readonly StoredRecord[],
  fencings: GuardState['fencings'],
  uid: string,
  wallMs: number,
): number {
  const own = [...fencings.values()].map(({ record }) => record);
  return recordsOf(records, own).filter(
    ({ node, purpose, offSent, steps }) =>
      node.uid === uid && purpose === 'fence' && offSent.length > 0 && wallMs - (steps[0]?.wallMs ?? wallMs) < DAY_MS,
  ).length;
}

export type RateHold = {
  readonly because: Because;
  readonly value: number;
  readonly limit: number;
  readonly inMs: number | null;
};

/** The first limit that is reached; null: none. */
export function rateHold(
  cuts: readonly number[],
  wallMs: number,
  { minIntervalMs, maxPerHour }: RateLimits,
): RateHold | null {
  const sinceMs = wallMs - (cuts[0] ?? Number.NEGATIVE_INFINITY);
  if (sinceMs < minIntervalMs) {
    return { because: 'min-interval', value: sinceMs, limit: minIntervalMs, inMs: minIntervalMs - sinceMs };
  }
  const hour = cuts.filter((cutMs) => wallMs - cutMs < HOUR_MS);
  if (hour.length < maxPerHour) return null;
  const freedByMs = hour[maxPerHour - 1] ?? wallMs;
  return { because: 'max-per-hour', value: hour.length, limit: maxPerHour, inMs: HOUR_MS - (wallMs - freedByMs) };
}

/** G9: control-plane nodes one at a time, with a healthy majority left. */
export function controlPlaneHold(
  { nodes, fencings }: Pick<GuardState, 'nodes' | 'fencings'>,
  uid: string,
): Omit<RateHold, 'inMs'> | null {
  const fenced = new Set([...fencings.values()].map(({ record }) => record.node.uid));
  let total = 0;
  let healthy = 0;
  for (const { facts, object, isSuspect, onsetMs } of nodes.values()) {
    if (!facts.isControlPlane) continue;
    total += 1;
    if (object.uid !== uid && !isSuspect && onsetMs === null && facts.isReady && !fenced.has(object.uid)) healthy += 1;
  }
  if (healthy < total - 1) return { because: 'another-control-plane', value: healthy, limit: total - 1 };
  const majority = Math.floor(total / 2) + 1;
  return healthy < majority ? { because: 'control-plane-majority', value: healthy, limit: majority } : null;
}

/** Whether the node's next fencing is one too many for a day (guard.md 9.3). */
export const isLoop = (today: number, { recovery }: GuardConfig): boolean => today >= recovery.perNodePerDay;
