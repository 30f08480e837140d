// D6: an owner that lost too many pods gives way to another one.
import type { CoreConfig } from '../core-config.ts';
import type { Outcome } from '../outcome.ts';
import type { PodView } from '../pod/pod.ts';
import type { MonoMs } from '../reading.ts';
import type { Eviction, OwnerKill, State } from '../state/state.ts';

type Guard = CoreConfig['guard'];
type OwnerKills = State['ownerKills'];
type Dropped = Extract<Outcome, { kind: 'dropped' }>;

const OWNER_KILLS_KEPT = 200;
/** Why a pod could not be asked to stop although it was to be, and nobody had refused. */
const IN_VAIN: readonly Dropped['because'][] = ['moved', 'unresolved', 'gone', 'started-anew'];
/** What may pass by itself within a moment counts once. */
const IN_VAIN_APART_MS = 2_000;
const IN_VAIN_MS = 30_000;

/**
 * Whether the pod's owner has lost its share of pods within the window; false without an owner. For some seconds, also if the
 * pod was chosen in vain as often. Or whether the pod itself was killed in vain because the API was away (B14).
 */
export function isGuarded(pod: PodView, kills: OwnerKills, guard: Guard, atMs: MonoMs): boolean {
  if (pod.limitedBy === 'restart-guard') return true;
  if (guard === null || pod.ownerKey === null) return false;
  if (pod.isGuarded) return true;
  const within = (kill: OwnerKill, ms: number): boolean => kill.ownerKey === pod.ownerKey && atMs - kill.atMs < ms;
  const lost = kills.filter((kill) => kill.spared === undefined && within(kill, guard.windowMs));
  const inVain = kills.filter((kill) => kill.spared === pod.uid && within(kill, IN_VAIN_MS));
  return lost.length >= guard.kills || inVain.length >= guard.kills;
}

/** The owners' kills after this one: pruned to the window and to 200 entries. */
export function guardAfter(kills: OwnerKills, victim: PodView | null, guard: Guard, atMs: MonoMs): OwnerKills {
  if (guard === null) return [];
  const recent = kills.filter((kill) => atMs - kill.atMs < guard.windowMs);
  if (victim === null || victim.ownerKey === null) return recent.length === kills.length ? kills : recent;
  return [...recent, { ownerKey: victim.ownerKey, atMs }].slice(-OWNER_KILLS_KEPT);
}

/**
 * Its owner has lost nothing by a choice that was dropped before the pod was asked to stop. One that came to nothing for no
 * reason of anybody's makes the pod yield for a while if it happens again: otherwise nobody would go.
 */
export function withoutSpared(
  kills: OwnerKills,
  { victim: { uid }, decidedMs }: Pick<Eviction, 'victim' | 'decidedMs'>,
  because: Dropped['because'],
): OwnerKills {
  const isSame = kills.some(({ spared, atMs }) => spared === uid && decidedMs - atMs < IN_VAIN_APART_MS);
  // A look chooses at most one pod for a threshold.
  if (isSame || !IN_VAIN.includes(because)) return kills.filter(({ atMs }) => atMs !== decidedMs);
  return kills.map((kill) => (kill.atMs === decidedMs ? { ...kill, spared: uid } : kill));
}
