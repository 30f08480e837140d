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

/**
 * What a rehearsal has shown, when its node is back with another boot: the code of its record. `beside-another`: another node
 * was fenced or rehearsed meanwhile, and nobody can tell which device cut it.
 */
export type Rehearsed = 'rehearsed' | 'not-alone' | 'beside-another' | 'not-watched';

/** guard.md 11.3: this node was cut and no other one, as far as this process watched; null: it has not proven off. */
export function rehearsedBy({ record, fencing, memory, state }: Turn): Rehearsed | null {
  if (record.purpose !== 'rehearse' || record.proof?.by !== 'devices') return null;
  // Its device may have cut at once, and answered long after it.
  const { offBegunMs } = fencing;
  if (offBegunMs === null || memory.sinceMs > offBegunMs) return 'not-watched';
  const disturbed = [...state.nodes.values()].filter(
    ({ object, disturbedMs }) =>
      object.uid !== record.node.uid && disturbedMs !== null && disturbedMs >= offBegunMs - WITH_IT_MS,
  );
  const decidedWallMs = record.steps[0]?.wallMs ?? 0;
  const causes = disturbed.map((other) => causeOf(other, state.fencings, decidedWallMs));
  if (causes.includes('unknown')) return 'not-alone';
  return causes.includes('own-meanwhile') ? 'beside-another' : 'rehearsed';
}

/** Why a node was silent or has booted: by a fencing of its own that was over before, or was not, or by nobody knows what. */
function causeOf(
  { object, disturbedMs, explained }: NodeMemory,
  fencings: GuardState['fencings'],
  decidedWallMs: number,
): 'own-before' | 'own-meanwhile' | 'unknown' {
  const isCutNow = [...fencings.values()].some(
    ({ record }) => record.node.uid === object.uid && record.phase !== 'closed' && record.offSent.length > 0,
  );
  if (isCutNow) return 'own-meanwhile';
  if (explained === null || explained.disturbedMs !== disturbedMs) return 'unknown';
  // Both times are of this process, which was there when the one was decided and when the other was over.
  return explained.wallMs <= decidedWallMs ? 'own-before' : 'own-meanwhile';
}

/** The nodes after those fencings that cut their power and are over by this look, as this process decided. */
export function withExplained(
  nodes: GuardState['nodes'],
  before: GuardState['fencings'],
  after: GuardState['fencings'],
  wallMs: number,
): GuardState['nodes'] {
  const over = [...before].flatMap(([id, { pending }]) => {
    const isOver = pending?.becomes.phase === 'closed' && (after.get(id)?.record.phase ?? 'closed') === 'closed';
    return isOver && pending.becomes.offSent.length > 0 ? [pending.becomes.node.uid] : [];
  });
  if (over.length === 0) return nodes;
  const explained = new Map(nodes);
  for (const uid of over) {
    const memory = nodes.get(uid);
    if (memory === undefined) continue;
    explained.set(uid, { ...memory, explained: { disturbedMs: memory.disturbedMs, wallMs } });
  }
  return explained;
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
