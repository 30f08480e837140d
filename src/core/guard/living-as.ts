import type { MonoMs } from '../reading.ts';
import { hasLease, isDead, SEEN_WITHIN_MS, signsWithinMs } from './health.ts';
import type { NodeObject } from './observation.ts';
import type { GuardState, NodeMemory } from './state.ts';

/**
 * By uid of a silent node: that of another one, heard of later, which may be the same machine, renamed or installed anew. Nodes say
 * of themselves what this goes by, so it only holds back (G12), and takes one out of the count of a storm, as their own `skip` does.
 */
export function livingAs(
  { nodes, commonUuids }: Pick<GuardState, 'nodes' | 'commonUuids'>,
  asOfMs: MonoMs,
): GuardState['livingAs'] {
  const silent: NodeMemory[] = [];
  for (const memory of nodes.values()) if (memory.isSuspect) silent.push(memory);
  if (silent.length === 0) return NOBODY;
  // In a storm there are thousands of them, and none has the id of another node: that costs next to nothing.
  const ids = new Set<string>();
  const shared = new Set<string>();
  for (const { object } of silent) {
    for (const id of idsOf(object)) (ids.has(id) ? shared : ids).add(id);
  }
  for (const { object, isSuspect } of nodes.values()) {
    if (isSuspect) continue;
    if (ids.has(object.bootId)) shared.add(object.bootId);
    if (ids.has(object.systemUuid)) shared.add(object.systemUuid);
  }
  shared.delete('');
  if (shared.size === 0) return NOBODY;
  const last = lastHeard(nodes, shared, asOfMs);
  return new Map(
    silent.flatMap((memory): readonly (readonly [string, string])[] => {
      const { bootId, systemUuid } = memory.object;
      const byBoot = onlyOther(memory, last.get(bootId) ?? []);
      const byMachine = onlyOther(memory, last.get(systemUuid) ?? []);
      const isAnother =
        byMachine !== null &&
        (commonUuids.has(systemUuid) || isOlder(byMachine, memory) || haveLivedTogether(memory, byMachine));
      const other = byBoot ?? (isAnother ? null : byMachine);
      return other ? [[memory.object.uid, other.object.uid]] : [];
    }),
  );
}
const NOBODY: GuardState['livingAs'] = new Map();

const idsOf = ({ bootId, systemUuid }: NodeObject): readonly string[] => [bootId, systemUuid].filter((id) => id !== '');

type Heard = { readonly memory: NodeMemory; readonly ms: MonoMs };

/** By id: those who have it and were heard of last. Three, so that there are two besides any of them. */
function lastHeard(
  nodes: GuardState['nodes'],
  ids: ReadonlySet<string>,
  asOfMs: MonoMs,
): ReadonlyMap<string, readonly Heard[]> {
  const last = new Map<string, readonly Heard[]>();
  for (const memory of nodes.values()) {
    for (const id of idsOf(memory.object)) {
      if (!ids.has(id)) continue;
      const heard = { memory, ms: lives(memory, asOfMs) ? Number.POSITIVE_INFINITY : heardMs(memory) };
      last.set(id, [...(last.get(id) ?? []), heard].sort((a, b) => (a.ms < b.ms ? 1 : -1)).slice(0, 3));
    }
  }
  return last;
}

const heardMs = ({ signMs }: NodeMemory): MonoMs => signMs ?? Number.NEGATIVE_INFINITY;

/** Of what several have, as boards of one kind or containers of one kernel may, nobody can tell whose it is. */
function onlyOther(memory: NodeMemory, last: readonly Heard[]): NodeMemory | null {
  const [first, second] = last.filter((one) => one.memory !== memory);
  if (first === undefined || first.ms === second?.ms || first.ms < heardMs(memory)) return null;
  return first.memory;
}

/** One without a lease is never dead: its status alone comes too rarely. But it falls silent, too. */
export function lives(memory: NodeMemory, asOfMs: MonoMs): boolean {
  if (hasLease(memory)) return !isDead(memory, asOfMs);
  return asOfMs - (memory.signMs ?? memory.sinceMs) <= signsWithinMs(memory.lease, 2);
}

/** A machine has one name at a time. With one boot ID, it is one all the same: what is written to the old name is a sign of life, too. */
const haveLivedTogether = ({ signMs }: NodeMemory, { livesMs }: NodeMemory): boolean =>
  signMs !== null && livesMs !== null && livesMs + SEEN_WITHIN_MS < signMs;

/**
 * Its Node was made before that of the silent one: of machines with one UUID, as copies of a virtual one are, this is another. Both
 * times are from the API server; when the silent one last renewed its lease, only its own clock says, and that may be hours ahead (G7).
 */
const isOlder = ({ object: { created } }: NodeMemory, { object }: NodeMemory): boolean =>
  UTC.test(created) && UTC.test(object.created) && created <= object.created;
/** As text, it sorts as it does in time. */
const UTC = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;

/** UUIDs with which two Nodes were seen to live at the same time, now or before: what nobody knows of any more after an outage. */
export function commonUuids(before: GuardState['commonUuids'], nodes: GuardState['nodes']): GuardState['commonUuids'] {
  const first = new Map<string, NodeMemory>();
  const common = new Set<string>();
  for (const memory of nodes.values()) {
    const { systemUuid: id } = memory.object;
    if (before.has(id)) common.add(id);
    if (id === '' || memory.isSuspect) continue;
    const other = first.get(id);
    if (other === undefined) first.set(id, memory);
    else if (haveLivedTogether(memory, other) && haveLivedTogether(other, memory)) common.add(id);
  }
  return common;
}
