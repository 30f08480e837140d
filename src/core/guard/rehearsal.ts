import type { MonoMs } from '../reading.ts';
import type { MethodKey, NodePlan } from './config.ts';
import type { Frees } from './decision.ts';
import { lackOfLevel } from './devices.ts';
import type { Look } from './gates.ts';
import { hasLease, SEEN_WITHIN_MS, signsWithinMs } from './health.ts';
import type { FencingRecord, Phase } from './record.ts';
import { deviceKey, type Fencing, type GuardState, type NodeMemory } from './state.ts';
import { levelOf, type Turn } from './turn.ts';
import { FRESH_MS, presentOn } from './worth.ts';

/**
 * guard.md 3: only a node that is cordoned and drained is cut, whenever it is. What is left on it, or why it is none;
 * `unknown`: its pods were not read yet.
 */
export function leftOnIdle(
  { object }: NodeMemory,
  { observation }: Pick<Look, 'observation'>,
): Frees | 'not-cordoned' | 'not-drained' | 'unknown' {
  if (!object.isUnschedulable) return 'not-cordoned';
  const left = presentOn(object, observation, observation.atMs - FRESH_MS);
  if (!left.known) return 'unknown';
  const { pods, attachments } = left.value;
  const isDrained = attachments.length === 0 && pods.every(({ ownerKind }) => STAYS.has(ownerKind));
  return isDrained ? left.value : 'not-drained';
}
/** What a drain leaves: `Node` owns the mirrors of static pods. */
const STAYS: ReadonlySet<string> = new Set(['DaemonSet', 'Node']);

/** The level of which the wiring was rehearsed longest ago, or never; of those that answer. */
export function levelToRehearse(
  uid: string,
  { levels }: NodePlan,
  devices: GuardState['devices'],
  freshMs: MonoMs,
): number | null {
  const rehearsedMs = (level: readonly MethodKey[]): number =>
    Math.min(
      ...level.map((method) => devices.get(deviceKey(uid, method))?.rehearsedWallMs ?? Number.NEGATIVE_INFINITY),
    );
  const usable = levels.flatMap((level, at) =>
    lackOfLevel(uid, level, devices, freshMs, 'rehearse') === null ? [{ at, wallMs: rehearsedMs(level) }] : [],
  );
  return usable.reduce((best, one) => (one.wallMs < best.wallMs ? one : best), usable[0] ?? { at: null, wallMs: 0 }).at;
}

/**
 * What a rehearsal has shown, when its node is back with another boot: the code of its record. `beside-another`: another node
 * was fenced or rehearsed meanwhile, and nobody can tell which device cut it. `not-known`: another node was never heard of, has no
 * lease, or was deleted, so that its silence says little.
 */
export type Rehearsed = 'rehearsed' | 'not-alone' | 'not-known' | 'beside-another' | 'not-watched';

/** guard.md 11.3: this node was cut and no other one, as far as this process watched; null: it has not proven off. */
export function rehearsedBy({ record, fencing, memory, state }: Turn): Rehearsed | null {
  if (record.purpose !== 'rehearse' || record.proof?.by !== 'devices') return null;
  // Its device may have cut at once, and answered long after it.
  const { offBegunMs } = fencing;
  if (offBegunMs === null || memory.sinceMs > offBegunMs) return 'not-watched';
  const departed = departedOf(fencing);
  const disturbed = disturbedSince(fencing, [...othersOf(record, state), ...departed]);
  const causes = disturbed.map((other) => causeOf(other, state.fencings, record));
  const unheard = unheardSince(fencing, othersOf(record, state)).filter(
    ({ object }) => !isCutNow(object.uid, state.fencings),
  );
  if (causes.includes('unknown') || unheard.some(isMissed)) return 'not-alone';
  if (unheard.length > 0 || unheardSince(fencing, departed).length > 0) return 'not-known';
  return causes.includes('own-meanwhile') ? 'beside-another' : 'rehearsed';
}

/** Until when another node that was alive when this one was cut may yet show that it was not cut with it; null: all have, or had the time. */
export function hearsOthersUntilMs({ record, fencing, state, observation }: Turn): MonoMs | null {
  if (record.purpose !== 'rehearse' || record.proof?.by !== 'devices') return null;
  const { offBegunMs, offReturnedMs } = fencing;
  const offMs = (offReturnedMs ?? offBegunMs ?? Number.NEGATIVE_INFINITY) + SEEN_WITHIN_MS;
  const others = othersOf(record, state);
  const untilMs = Math.max(...unheardSince(fencing, others).map(({ lease }) => offMs + signsWithinMs(lease, 2)));
  return observation.atMs < untilMs ? untilMs : null;
}

/** Those that fell silent with its `off` or since, or have booted since. */
function disturbedSince({ offBegunMs }: Fencing, others: readonly NodeMemory[]): readonly NodeMemory[] {
  if (offBegunMs === null) return [];
  return others.filter(
    ({ signMs, disturbedMs, lease }) =>
      // A node that was cut with it renewed its lease for the last time shortly before.
      signMs !== null && disturbedMs !== null && disturbedMs >= offBegunMs - signsWithinMs(lease, 1),
  );
}

/** Those that were not silent before its `off`, and have given no sign of life that is surely of after it. */
function unheardSince({ offBegunMs, offReturnedMs }: Fencing, others: readonly NodeMemory[]): readonly NodeMemory[] {
  if (offBegunMs === null) return [];
  const heardFromMs = (offReturnedMs ?? offBegunMs) + SEEN_WITHIN_MS;
  return others.filter(({ signMs, sinceMs, lease }) => {
    const lastMs = signMs ?? sinceMs;
    return lastMs >= offBegunMs - signsWithinMs(lease, 1) && lastMs < heardFromMs;
  });
}

const othersOf = ({ node }: FencingRecord, { nodes }: Turn['state']): readonly NodeMemory[] =>
  [...nodes.values()].filter(({ object }) => object.uid !== node.uid);

/** Whoever deletes the Nodes of machines that are off would hide what was cut with it. */
const departedOf = ({ departed, offBegunMs }: Fencing): readonly NodeMemory[] =>
  departed.flatMap(({ memory, atMs }) => (offBegunMs !== null && atMs >= offBegunMs ? [memory] : []));

/** After a look that found these nodes, and those before. */
export function withDeparted(
  fencings: GuardState['fencings'],
  before: GuardState['nodes'],
  now: GuardState['nodes'],
  atMs: MonoMs,
): GuardState['fencings'] {
  if (before === now || ![...fencings.values()].some(isRehearsal)) return fencings;
  const gone = [...before.values()].filter(({ object }) => !now.has(object.uid)).map((memory) => ({ memory, atMs }));
  if (gone.length === 0) return fencings;
  return new Map(
    [...fencings].map(([id, fencing]) => [id, isRehearsal(fencing) ? withGone(fencing, gone, fencings) : fencing]),
  );
}

/** No more than what it has shown depends on: its machine may stay away for days, while nodes come and go. */
function withGone(fencing: Fencing, gone: Fencing['departed'], fencings: GuardState['fencings']): Fencing {
  const { record, departed } = fencing;
  // When its `off` began is known once it has returned.
  const isUnderWay = CUTTING.has(record.phase);
  if (!isUnderWay && record.proof === null) return fencing;
  const speaks = (memory: NodeMemory): boolean =>
    isUnderWay || disturbedSince(fencing, [memory]).length + unheardSince(fencing, [memory]).length > 0;
  const isNotAlone = disturbedSince(fencing, departedOf(fencing)).some(
    (one) => causeOf(one, fencings, record) === 'unknown',
  );
  const others = isNotAlone ? [] : gone.filter(({ memory }) => memory.object.uid !== record.node.uid && speaks(memory));
  return others.length === 0 ? fencing : { ...fencing, departed: [...departed, ...others] };
}
const CUTTING: ReadonlySet<Phase> = new Set(['decided', 'isolating', 'off-sent', 'proving']);
const isRehearsal = ({ record }: Fencing): boolean => record.purpose === 'rehearse';

/** It was alive, and has not renewed its lease since. */
const isMissed = (memory: NodeMemory): boolean => memory.signMs !== null && hasLease(memory);

const isCutNow = (uid: string, fencings: GuardState['fencings']): boolean =>
  [...fencings.values()].some(
    ({ record }) => record.node.uid === uid && record.phase !== 'closed' && record.offSent.length > 0,
  );

/** Why a node was silent or has booted: by a fencing of its own that was over before, or was not, or by nobody knows what. */
function causeOf(
  { object, disturbedMs, explained }: NodeMemory,
  fencings: GuardState['fencings'],
  { steps }: FencingRecord,
): 'own-before' | 'own-meanwhile' | 'unknown' {
  if (isCutNow(object.uid, fencings)) return 'own-meanwhile';
  if (explained === null || explained.disturbedMs !== disturbedMs) return 'unknown';
  // Both times are of this process, which was there when the one was decided and when the other was over.
  return explained.wallMs <= (steps[0]?.wallMs ?? 0) ? 'own-before' : 'own-meanwhile';
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

/** Methods of power that said off after they were sent it, though the machine never lost its power. */
export function liedOff(record: FencingRecord): readonly MethodKey[] {
  const said = new Set(
    record.answers.flatMap(({ act, says, phase, method }) =>
      act === 'status' && says === 'off' && phase === 'proving' ? [method] : [],
    ),
  );
  return levelOf(record).filter((method) => record.offSent.includes(method) && said.has(method));
}
