import type { MonoMs } from '../reading.ts';
import type { MethodKey, NodePlan } from './config.ts';
import type { Frees } from './decision.ts';
import { lackOfLevel } from './devices.ts';
import type { Look } from './gates.ts';
import type { FencingRecord } from './record.ts';
import { deviceKey, type GuardState, type NodeMemory } from './state.ts';
import { levelOf, type Turn } from './turn.ts';
import { FRESH_MS, leftOf } from './worth.ts';

/**
 * guard.md 3: only a node that is cordoned and drained is cut, whenever it is. What is left on it, or why it is none;
 * `unknown`: its pods were not read yet.
 */
export function leftOnIdle(
  { object }: NodeMemory,
  { observation }: Pick<Look, 'observation'>,
): Frees | 'not-cordoned' | 'not-drained' | 'unknown' {
  if (!object.isUnschedulable) return 'not-cordoned';
  const left = leftOf(object, observation, observation.atMs - FRESH_MS);
  if (!left.known) return 'unknown';
  const { pods, attachments } = left.value;
  return attachments.length > 0 || pods.some(({ ownerKind }) => ownerKind !== 'DaemonSet') ? 'not-drained' : left.value;
}

/** The level of which the wiring was rehearsed longest ago, or never; of those that answer. */
export function levelToRehearse(
  uid: string,
  { levels }: NodePlan,
  devices: GuardState['devices'],
  atMs: MonoMs,
): number | null {
  const rehearsedMs = (level: readonly MethodKey[]): number =>
    Math.min(
      ...level.map((method) => devices.get(deviceKey(uid, method))?.rehearsedWallMs ?? Number.NEGATIVE_INFINITY),
    );
  const usable = levels.flatMap((level, at) =>
    lackOfLevel(uid, level, devices, atMs, 'rehearse') === null ? [{ at, wallMs: rehearsedMs(level) }] : [],
  );
  return usable.reduce((best, one) => (one.wallMs < best.wallMs ? one : best), usable[0] ?? { at: null, wallMs: 0 }).at;
}

/** What a rehearsal has shown, when its node is back with another boot: the code of its record. */
export type Rehearsed = 'rehearsed' | 'not-alone' | 'not-watched';

/** guard.md 11.3: this node was cut and no other one, as far as this process watched; null: it has not proven off. */
export function rehearsedBy({ record, fencing, memory, state }: Turn): Rehearsed | null {
  if (record.purpose !== 'rehearse' || record.proof?.by !== 'devices') return null;
  const { offReturnedMs } = fencing;
  if (offReturnedMs === null || memory.sinceMs > offReturnedMs) return 'not-watched';
  for (const { object, disturbedMs } of state.nodes.values()) {
    const isWithIt = disturbedMs !== null && disturbedMs >= offReturnedMs - WITH_IT_MS;
    if (object.uid !== record.node.uid && isWithIt) return 'not-alone';
  }
  return 'rehearsed';
}
/** A node that was cut with it renewed its lease for the last time shortly before. */
const WITH_IT_MS = 30_000;

/** Methods of power that said off after they were sent it, though the machine never lost its power. */
export function liedOff(record: FencingRecord): readonly MethodKey[] {
  const said = new Set(
    record.answers.flatMap(({ act, says, phase, method }) =>
      act === 'status' && says === 'off' && phase === 'proving' ? [method] : [],
    ),
  );
  return levelOf(record).filter((method) => record.offSent.includes(method) && said.has(method));
}
