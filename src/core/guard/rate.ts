import { asPast, type WallTime } from './ahead.ts';
import type { GuardConfig, RateLimits } from './config.ts';
import type { Because } from './decision.ts';
import type { GuardObservation } from './observation.ts';
import type { FencingRecord, Phase, StaysOff, StoredRecord } from './record.ts';
import type { Fencing, GuardState } from './state.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** guard.md 4.1: decided, but not yet drained. */
const IN_FLIGHT: ReadonlySet<Phase> = new Set(['decided', 'isolating', 'off-sent', 'proving', 'proven', 'tainted']);

/** When power was cut, or is about to be, by the wall clocks of those who did it, newest first; none in the future (G7). */
export function cutsWallMs(
  records: readonly StoredRecord[],
  { fencings, dryFenced, ahead }: Pick<GuardState, 'fencings' | 'dryFenced' | 'ahead'>,
  { atMs, wallMs }: Pick<GuardObservation, 'atMs' | 'wallMs'>,
  except: string | null,
): readonly number[] {
  const now = { atMs, wallMs, ahead };
  const cuts = recordsOf(records, fencings).flatMap((record) =>
    record.id === except ? [] : cutsOf(record).map((cutMs) => asPast(record.id, cutMs, now)),
  );
  const dry = [...dryFenced.values()].map((fenced) => wallMs - (atMs - fenced.atMs));
  return [...cuts, ...dry].sort((a, b) => b - a);
}

/** Each record once; what this process stored itself, or is about to, is the newer one. */
export function recordsOf(
  records: readonly StoredRecord[],
  fencings: GuardState['fencings'],
): readonly FencingRecord[] {
  const own = [...fencings.values()].map(({ record, pending }) => pending?.becomes ?? record);
  const ids = new Set(own.map(({ id }) => id));
  return [...own, ...records.flatMap(({ record }) => (record === null || ids.has(record.id) ? [] : [record]))];
}

/** One for each fencing, however often it was sent. */
function cutsOf({ cutWallMs, steps, phase }: FencingRecord): readonly number[] {
  const cut = steps.findLast((step) => step.phase === 'isolating' || step.phase === 'off-sent');
  const meant = phase === 'decided' ? steps.at(-1) : undefined;
  const atMs = cutWallMs ?? (cut ?? meant)?.wallMs;
  return atMs === undefined ? [] : [atMs];
}

export function inFlight(fencings: GuardState['fencings'], except: string | null): number {
  let count = 0;
  for (const fencing of fencings.values()) if (fencing.record.id !== except && isInFlight(fencing)) count += 1;
  return count;
}

const isInFlight = ({ record, isOverdue }: Fencing): boolean => IN_FLIGHT.has(record.phase) && !isOverdue;

/** How many fencings of the node were decided within the last day, without the one named. */
export function fencingsToday(
  records: readonly StoredRecord[],
  fencings: GuardState['fencings'],
  uid: string,
  now: WallTime,
  except: string | null = null,
): number {
  const isToday = ({ id, steps: [first] }: FencingRecord): boolean =>
    first === undefined || now.wallMs - asPast(id, first.wallMs, now) < DAY_MS;
  return recordsOf(records, fencings).filter(
    (record) =>
      record.node.uid === uid &&
      record.id !== except &&
      record.purpose === 'fence' &&
      record.offSent.length > 0 &&
      isToday(record),
  ).length;
}

export type RateHold = {
  readonly because: Because;
  readonly value: number;
  readonly limit: number;
  readonly inMs: number | null;
};

/** The first limit that is reached, and when none will be; null: none is. */
export function rateHold(
  cuts: readonly number[],
  wallMs: number,
  { minIntervalMs, maxPerHour }: RateLimits,
): RateHold | null {
  const sinceMs = wallMs - (cuts[0] ?? Number.NEGATIVE_INFINITY);
  const hour = cuts.filter((cutMs) => wallMs - cutMs < HOUR_MS);
  const isFull = hour.length >= maxPerHour;
  const freedByMs = hour[maxPerHour - 1] ?? wallMs;
  const inMs = Math.max(minIntervalMs - sinceMs, isFull ? HOUR_MS - (wallMs - freedByMs) : 0);
  if (sinceMs < minIntervalMs) return { because: 'min-interval', value: sinceMs, limit: minIntervalMs, inMs };
  return isFull ? { because: 'max-per-hour', value: hour.length, limit: maxPerHour, inMs } : null;
}

/** G9: control-plane nodes one at a time, with a healthy majority left. */
export function controlPlaneHold(
  { nodes, livingAs, fencings }: Pick<GuardState, 'nodes' | 'livingAs' | 'fencings'>,
  uid: string,
): Omit<RateHold, 'inMs'> | null {
  const fenced = new Set([...fencings.values()].map(({ record }) => record.node.uid));
  let total = 0;
  let healthy = 0;
  for (const { facts, object, isSuspect, onsetMs } of nodes.values()) {
    // A machine counts by the name under which it was heard of last.
    if (!facts.isControlPlane || (livingAs.has(object.uid) && object.uid !== uid)) continue;
    total += 1;
    if (object.uid !== uid && !isSuspect && onsetMs === null && facts.isReady && !fenced.has(object.uid)) healthy += 1;
  }
  if (healthy < total - 1) return { because: 'another-control-plane', value: healthy, limit: total - 1 };
  const majority = Math.floor(total / 2) + 1;
  return healthy < majority ? { because: 'control-plane-majority', value: healthy, limit: majority } : null;
}

/** Whether the node's next fencing is one too many for a day (guard.md 9.3). */
export const isLoop = (today: number, { recovery }: GuardConfig): boolean => today >= recovery.perNodePerDay;

/** Why a machine that is cut stays off, whatever comes of it; null: it is to be powered on. `except`: the fencing that asks. */
export function keptOff({ state, observation, config }: Asks, uid: string, except: string | null): StaysOff | null {
  if (!config.recovery.powerOn) return 'power-on-off';
  const { records, atMs, wallMs } = observation;
  const now = { atMs, wallMs, ahead: state.ahead };
  const today = fencingsToday(records.known ? records.value : [], state.fencings, uid, now, except);
  return isLoop(today, config) ? 'loop' : null;
}

type Asks = {
  readonly state: Pick<GuardState, 'fencings' | 'ahead'>;
  readonly observation: Pick<GuardObservation, 'records' | 'atMs' | 'wallMs'>;
  readonly config: GuardConfig;
};
