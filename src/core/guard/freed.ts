import type { Frees } from './decision.ts';
import type { GuardObservation, MemberAsk, MemberView } from './observation.ts';
import type { Freed, FreedPod, Phase } from './record.ts';
import type { Fencing, SelfMemory } from './state.ts';
import { readSince } from './worth.ts';

/** A record has room for so many pods and volumes, and for names that are no longer than Kubernetes allows. */
const MOST_FREED = 20;
const MAX_NAME = 253;
/** Members of one node are asked for at most this often. */
const MEMBERS_AGAIN_MS = 10_000;
/** Whoever is not back so long after the taint waits for something else than this fencing. */
const FOLLOWED_MS = 15 * 60_000;
/** Longer than what is stored needs to be read back. */
const STORED_AGAIN_MS = 30_000;

export const NOTHING_FREED: Freed = { pods: [], volumes: [] };

/** What a fencing that begins now has to free; nothing of it is gone yet. */
export function toBeFreed({ pods, attachments }: Frees): Freed {
  const cut = (name: string): string => name.slice(0, MAX_NAME);
  return {
    pods: pods.slice(0, MOST_FREED).map(({ namespace, name, uid, ownerKind }) => ({
      ...{ namespace: cut(namespace), name: cut(name), uid: cut(uid), isMember: ownerKind === 'StatefulSet' },
      ...{ goneWallMs: null, readyWallMs: null },
    })),
    volumes: attachments
      .slice(0, MOST_FREED)
      .map(({ name, volume }) => ({ name: cut(name), volume: cut(volume), goneWallMs: null })),
  };
}

/**
 * The fencing after what was read of its pods, volumes and members, by the clock of who saw it. To who has just taken over, or
 * leads again, what happened before seems to happen now.
 */
export function withFreed(
  fencing: Fencing,
  observation: Pick<GuardObservation, 'asked' | 'attachments' | 'wallMs' | 'atMs'>,
  { electedMs }: Pick<SelfMemory, 'electedMs'>,
): Fencing {
  const { record } = fencing;
  const { freed: toFree } = record;
  if (toFree === null || !FOLLOWED.has(record.phase)) return fencing;
  const { wallMs, atMs } = observation;
  const ledMs = electedMs ?? fencing.sinceMs;
  const sinceMs = Math.max(fencing.sinceMs, ledMs);
  const asked = observation.asked.get(record.node.uid);
  const pods = asked === undefined ? null : readSince(asked.pods, sinceMs, 'pods');
  const members = asked === undefined ? null : readSince(asked.members, sinceMs, 'members');
  const attached = readSince(observation.attachments, sinceMs, 'volumeattachments');
  const left = new Set(pods?.known ? pods.value.map(({ uid }) => uid) : []);
  const held = new Set(attached.known ? (attached.value.get(record.node.name) ?? []).map(({ name }) => name) : []);
  const isFollowed = fencing.freedSinceMs !== null && fencing.freedSinceMs >= ledMs;
  const gone = { goneWallMs: wallMs, ...(isFollowed ? {} : { isGoneBy: true as const }) };
  const ready = { readyWallMs: wallMs, ...(isFollowed ? {} : { isReadyBy: true as const }) };
  const freed: Freed = {
    pods: toFree.pods.map((pod) => ({
      ...pod,
      ...(pod.goneWallMs === null && pods?.known && !left.has(pod.uid) ? gone : {}),
      ...(pod.readyWallMs === null && members?.known && isReadyAgain(pod, members.value) ? ready : {}),
    })),
    volumes: toFree.volumes.map((volume) => ({
      ...volume,
      ...(volume.goneWallMs === null && attached.known && !held.has(volume.name) ? gone : {}),
    })),
  };
  const isWhole = pods?.known && attached.known && (members?.known || !toFree.pods.some(isAwaited));
  const freedSinceMs = isFollowed || !isWhole ? fencing.freedSinceMs : atMs;
  if (countKnown(freed) !== countKnown(toFree)) return { ...fencing, freedSinceMs, record: { ...record, freed } };
  return freedSinceMs === fencing.freedSinceMs ? fencing : { ...fencing, freedSinceMs };
}

const isAwaited = ({ isMember, readyWallMs }: FreedPod): boolean => isMember && readyWallMs === null;

/** Another pod has its name by now, and is Ready. */
const isReadyAgain = ({ namespace, name, uid }: FreedPod, members: readonly MemberView[]): boolean =>
  members.some((one) => one.namespace === namespace && one.name === name && one.uid !== uid && one.isReady);

/** From the taint on; also of a machine that stays off. */
const FOLLOWED: ReadonlySet<Phase> = new Set(['tainted', 'untainting', 'on-sent', 'booting', 'left-off', 'not-back']);

/** Members of StatefulSets that are to be looked for now. */
export function membersToAsk({ record }: Fencing, { atMs, wallMs, asked }: GuardObservation): readonly MemberAsk[] {
  const taintedMs = record.steps.findLast(({ phase }) => phase === 'tainted')?.wallMs;
  if (taintedMs === undefined || wallMs - taintedMs > FOLLOWED_MS || !FOLLOWED.has(record.phase)) return [];
  const last = asked.get(record.node.uid)?.members;
  if (last?.known && atMs - last.value.asOfMs < MEMBERS_AGAIN_MS) return [];
  return (record.freed?.pods ?? []).filter(isAwaited).map(({ namespace, name }) => ({ namespace, name }));
}

/** More of it is known than is stored, and no step is due that would store it. */
export function isFreedNews(
  { record, sinceMs }: Fencing,
  { atMs, records }: Pick<GuardObservation, 'atMs' | 'records'>,
): boolean {
  const stored = records.known ? records.value.find(({ id }) => id === record.id)?.record : undefined;
  if (stored == null || stored.freed === null || record.freed === null) return false;
  if (atMs - sinceMs < STORED_AGAIN_MS) return false;
  return countKnown(record.freed) > countKnown(stored.freed);
}

const countKnown = ({ pods, volumes }: Freed): number =>
  [
    ...pods.flatMap(({ goneWallMs, readyWallMs }) => [goneWallMs, readyWallMs]),
    ...volumes.map((one) => one.goneWallMs),
  ].filter((wallMs) => wallMs !== null).length;
