import type { CoreConfig, ShutdownPhase } from '../core-config.ts';
import type { MonoMs } from '../reading.ts';
import type { Stopping } from '../state/state.ts';
import { neededDelayMs, type ShutdownGroup } from './plan.ts';

/** kubelet-shutdown.md 5.7: the part of what logind grants that is kept in reserve. */
export const RESERVE_MS = 2_000;
/** beside-a-kubelet.md E9: the part of the agent's own stop timeout that is kept for its own end. */
export const AGENT_END_MS = 5_000;

/** `wantedMs`: how long it would last with enough time; in seconds, what its pods are stopped with. */
type PhaseTime = { readonly endsMs: MonoMs; readonly periodSeconds: number; readonly wantedMs: number };

/** How long the next phase may last. `groups`: every phase with the pods that are alive now. */
export function timeOf(
  shutdown: Stopping,
  groups: readonly ShutdownGroup[],
  atMs: MonoMs,
  config: Pick<CoreConfig, 'shutdownCarryOver'>,
): PhaseTime {
  const wanted = wantedTime(shutdown, atMs, config);
  const mustEndMs = phasesEndMs(shutdown);
  if (mustEndMs === null) return wanted;
  const periodMs = Math.max(0, shareMs(shutdown, groups, mustEndMs - atMs));
  // Carried over or not: never past the end, and never into the time of later phases.
  if (wanted.wantedMs <= periodMs) return wanted;
  return { ...wanted, endsMs: atMs + periodMs, periodSeconds: periodMs / 1_000 };
}

/** Its own period or, with carry-over, the rest of all periods up to its end. */
function wantedTime(
  { phases, phase, startedMs }: Stopping,
  atMs: MonoMs,
  { shutdownCarryOver }: Pick<CoreConfig, 'shutdownCarryOver'>,
): PhaseTime {
  const ownSeconds = phases[phase]?.periodSeconds ?? 0;
  const carriedMs = startedMs + totalMs(phases.slice(0, phase + 1)) - atMs;
  const isCarried = shutdownCarryOver && carriedMs > ownSeconds * 1_000;
  // Late looks must not add up to more time than the lock was armed for.
  const latestMs = startedMs + totalMs(phases);
  const endsMs = Math.max(atMs, Math.min(atMs + (isCarried ? carriedMs : ownSeconds * 1_000), latestMs));
  const periodSeconds = isCarried ? Math.floor(carriedMs / 1_000) : ownSeconds;
  return { endsMs, periodSeconds, wantedMs: endsMs - atMs };
}

/** D11: what later phases leave of `leftMs` if all fit into it, else the phase's share by period. Phases without pods get none. */
function shareMs({ phases, phase }: Stopping, groups: readonly ShutdownGroup[], leftMs: number): number {
  const toCome = groups.slice(phase).filter(({ stops }) => stops.length > 0);
  const later = totalMs(toCome.slice(1));
  const own = totalMs(phases.slice(phase, phase + 1));
  if (own + later <= leftMs) return leftMs - later;
  return Math.floor((leftMs * own) / Math.max(1, own + later));
}

/** Negative periods count as 0 here: they only reduce what is requested of logind (kubelet-shutdown.md 1.5). */
export function totalMs(phases: readonly ShutdownPhase[]): number {
  return neededDelayMs(phases.filter(({ periodSeconds }) => periodSeconds > 0));
}

/** The latest end of all phases. */
export function lastMs(shutdown: Stopping): MonoMs {
  const { startedMs, phases } = shutdown;
  return Math.min(startedMs + totalMs(phases), phasesEndMs(shutdown) ?? Number.POSITIVE_INFINITY);
}

/** What follows the last phase gets its share of the time too. Null: there is enough time. */
const phasesEndMs = ({ mustEndMs, confirm }: Stopping): MonoMs | null =>
  mustEndMs === null ? null : mustEndMs - (confirm?.ms ?? 0);

/** D11: logind continues when its time is over, even if pods are still stopping: the plan must end before that. */
export function withoutReserve(grantedMs: number): number {
  return Math.max(grantedMs - RESERVE_MS, grantedMs / 2);
}
