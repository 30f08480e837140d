import { resumeEvictions } from '../eviction/under-way.ts';
import type { MonoMs } from '../reading.ts';
import { initialState, type State } from './state.ts';

/**
 * Meets the present boot, at `atMs`: timers of another boot go, and an interrupted shutdown is reported. A reclaim
 * that was running died with the agent and is decided again; evictions under way stay, so that no pod is chosen twice.
 */
export function adoptState(
  saved: State,
  bootId: string,
  atMs: MonoMs,
): { readonly state: State; readonly isInterrupted: boolean } {
  if (saved.bootId === bootId) {
    const state = { ...resumeEvictions(saved, atMs), reclaims: [], shutdown: adoptShutdown(saved.shutdown) };
    return { state, isInterrupted: false };
  }
  const state = { ...initialState(bootId), nextDecision: saved.nextDecision };
  return { state, isInterrupted: saved.shutdown.kind === 'stopping' };
}

/** The lock died with the agent that held it; a shutdown under way goes on while the machine lets it. */
function adoptShutdown(shutdown: State['shutdown']): State['shutdown'] {
  if (shutdown.kind === 'armed') return { kind: 'unarmed', why: 'the agent was restarted' };
  return shutdown.kind === 'stopping' ? { ...shutdown, delayMaxMs: null } : shutdown;
}
