import type { MonoMs } from './reading.ts';
import { PROOF_MS, UNSENT_MS } from './settle.ts';
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
  if (saved.bootId === bootId) {
    const { act, shutdown } = saved;
    const state = { ...saved, act: adoptAct(act, atMs), reclaims: [], shutdown: adoptShutdown(shutdown) };
    return { state, findings: [] };
  }
  const findings =
    saved.shutdown.kind === 'stopping'
      ? ['the last boot ended within a shutdown phase, before all phases were done']
      : [];
  return { state: { ...initialState(bootId), nextDecision: saved.nextDecision }, findings };
}

/** The lock died with the agent that held it; a shutdown under way goes on while the machine lets it. */
function adoptShutdown(shutdown: State['shutdown']): State['shutdown'] {
  if (shutdown.kind === 'armed') return { kind: 'unarmed', why: 'the agent was started again' };
  return shutdown.kind === 'stopping' ? { ...shutdown, delayMaxMs: null } : shutdown;
}

function adoptAct(act: State['act'], atMs: MonoMs): State['act'] {
  return act.kind === 'evicting'
    ? { ...act, evictions: act.evictions.map((eviction) => resumed(eviction, atMs)) }
    : act;
}

/** While no agent lived nobody ended the victim: it has its time from now on, or the next one dies for it (D3). */
function resumed(eviction: Eviction, atMs: MonoMs): Eviction {
  if (eviction.settledMs !== null) return eviction;
  const deadlineMs =
    eviction.signalledMs === undefined ? atMs + UNSENT_MS : Math.max(eviction.graceEndsMs, atMs) + PROOF_MS;
  return { ...eviction, deadlineMs: Math.max(eviction.deadlineMs, deadlineMs) };
}
