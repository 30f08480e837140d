import type { MonoMs } from '../reading.ts';
import type { MethodKey } from './config.ts';
import type { FencingRecord } from './record.ts';
import { deviceKey } from './state.ts';
import { go, levelOf, onAct, onChange, type Turn, type Turned } from './turn.ts';

/** G4: an `off` that had its effect, and a machine that somebody has switched on since. */

/**
 * That it had its effect is stored as soon as the process that sent it hears that, for a leader after it. `sinceMs`: when the `off`
 * returned.
 */
export function withHeard(turn: Turn, sinceMs: MonoMs, waits: Turned): Turned {
  const { record, fencing, state } = turn;
  if (fencing.isTakenOver || record.proof !== null || record.offSent.length === 0) return waits;
  const heard = levelOf(record).filter((method) => {
    const offMs = state.devices.get(deviceKey(record.node.uid, method))?.offMs ?? null;
    return offMs !== null && offMs >= sinceMs && !record.offHeard.includes(method);
  });
  return heard.length === 0 ? waits : go('proving', { offHeard: [...record.offHeard, ...heard] });
}

/**
 * One of the methods says on by now, and said off before: to a status begun at `sinceMs` or later, or to an earlier leader since
 * the last `off`. `sinceMs`: when that returned; null: not known.
 */
export function isTheirs(
  { record, fencing, state }: Turn,
  methods: readonly MethodKey[],
  sinceMs: MonoMs | null,
): boolean {
  if (record.offSent.length === 0) return false;
  return methods.some((method) => {
    const device = state.devices.get(deviceKey(record.node.uid, method));
    if (device?.says !== 'on' || device.begunMs === null) return false;
    const wasOff = sinceMs !== null && device.offMs !== null && device.offMs >= sinceMs;
    return wasOff || (record.offHeard.includes(method) && device.begunMs >= fencing.sinceMs);
  });
}

export const backToThem = (record: FencingRecord): Turned =>
  go('on-sent', { why: 'switched-on', ...onChange(record) }, onAct(record));
