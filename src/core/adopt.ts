import type { MonoMs } from './reading.ts';
import { PROOF_MS } from './settle.ts';
import { type Eviction, initialState, type State } from './state.ts';

/**
 * Meets the present boot, at `atMs`: timers of another boot go, an interrupted shutdown stays as a finding. A reclaim
 * that was running died with the agent and is decided anew; evictions under way stay, so that nobody is chosen twice.
 */
export function adoptState(
  saved: State,
  bootId: string,
  atMs: MonoMs,
): { readonly state: State; readonly findings: readonly string[] } {
  if (saved.bootId === bootId) return { state: { ...saved, act: adoptAct(saved.act, atMs) }, findings: [] };
  const findings =
    saved.shutdown.kind === 'stopping'
      ? ['the last boot ended within a shutdown phase, before all phases were done']
      : [];
  return { state: { ...initialState(bootId), nextDecision: saved.nextDecision }, findings };
}

function adoptAct(act: State['act'], atMs: MonoMs): State['act'] {
  if (act.kind === 'reclaiming') return { kind: 'idle' };
  return act.kind === 'evicting'
    ? { ...act, evictions: act.evictions.map((eviction) => resumed(eviction, atMs)) }
    : act;
}

/** While no agent lived nobody ended the victim: it has its time from now on, or the next one dies for it (D3). */
function resumed(eviction: Eviction, atMs: MonoMs): Eviction {
  const deadlineMs = Math.max(eviction.graceEndsMs, atMs) + PROOF_MS;
  return eviction.settledMs === null
    ? { ...eviction, deadlineMs: Math.max(eviction.deadlineMs, deadlineMs) }
    : eviction;
}
