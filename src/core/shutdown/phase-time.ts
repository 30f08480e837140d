import type { CoreConfig, ShutdownPhase } from '../core-config.ts';
import type { MonoMs } from '../reading.ts';
import type { Stopping } from '../state/state.ts';
import { neededDelayMs, type ShutdownGroup } from './plan.ts';

/** kubelet-shutdown.md 5.7: of what logind grants so much is not planned with. */
export const RESERVE_MS = 2_000;
/** beside-a-kubelet.md E9: of the time that systemd gives the stop of the agent, so much is left for its own end. */
export const AGENT_END_MS = 5_000;

/** `wantedMs` is what it would last were there time enough; in seconds it is what its pods are asked with. */
type PhaseTime = { readonly endsMs: MonoMs; readonly periodSeconds: number; readonly wantedMs: number };

/** How long the next phase, with these pods, may last. `groups`: every phase with the pods that are alive now. */
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
  // Carried over or not: never past the end, and never into the time of those after it.
  if (wanted.endsMs - atMs <= periodMs) return wanted;
  return { endsMs: atMs + periodMs, periodSeconds: periodMs / 1_000, wantedMs: wanted.endsMs - atMs };
}

/** Its own period or, carried over, all that is left of the periods until its end. */
function wantedTime(
  { phases, phase, startedMs }: Stopping,
  atMs: MonoMs,
  { shutdownCarryOver }: Pick<CoreConfig, 'shutdownCarryOver'>,
): PhaseTime {
  const ownSeconds = phases[phase]?.periodSeconds ?? 0;
  const carriedMs = startedMs + totalMs(phases.slice(0, phase + 1)) - atMs;
  const isCarried = shutdownCarryOver && carriedMs > ownSeconds * 1_000;
  // Looks that came late must not add up to more than was armed for.
  const latestMs = startedMs + totalMs(phases);
  const endsMs = Math.min(atMs + (isCarried ? carriedMs : Math.max(0, ownSeconds * 1_000)), latestMs);
  return {
    endsMs,
    periodSeconds: isCarried ? Math.floor(carriedMs / 1_000) : ownSeconds,
    wantedMs: Math.max(0, endsMs - atMs),
  };
}

/** D11: all of `leftMs` where the phases to come fit into it, else its part of it by their periods; phases without pods take none. */
function shareMs({ phases, phase }: Stopping, groups: readonly ShutdownGroup[], leftMs: number): number {
  const toCome = groups.slice(phase).filter(({ stops }) => stops.length > 0);
  const later = totalMs(toCome.slice(1));
  const own = totalMs(phases.slice(phase, phase + 1));
  if (own + later <= leftMs) return leftMs - later;
  return Math.floor((leftMs * own) / Math.max(1, own + later));
}

/** A negative period counts negatively only for what is asked of logind (kubelet-shutdown.md 1.5). */
export function totalMs(phases: readonly ShutdownPhase[]): number {
  return neededDelayMs(phases.filter(({ periodSeconds }) => periodSeconds > 0));
}

/** When all phases are over at the latest. */
export function lastMs(shutdown: Stopping): MonoMs {
  const { startedMs, phases } = shutdown;
  return Math.min(startedMs + totalMs(phases), phasesEndMs(shutdown) ?? Number.POSITIVE_INFINITY);
}

/** What follows the last phase has its share of the time too. Null: there is time enough. */
const phasesEndMs = ({ mustEndMs, confirm }: Stopping): MonoMs | null =>
  mustEndMs === null ? null : mustEndMs - (confirm?.ms ?? 0);

/** D11: logind goes on when its time is over, whichever pod is still stopping: the plan ends before that. */
export function withoutReserve(grantedMs: number): number {
  return Math.max(grantedMs - RESERVE_MS, grantedMs / 2);
}
