import { resumeEvictions } from '../eviction/under-way.ts';
import type { MonoMs } from '../reading.ts';
import { initialState, type Reclaim, type State } from './state.ts';

/**
 * Adapts a saved state to the present boot, at `atMs`. Timers of another boot are dropped, and an interrupted shutdown is
 * reported. A running reclaim died with the agent and is decided again; `cutOff`: nobody else will record its outcome.
 * Evictions in progress stay, so that no pod is chosen twice.
 */
export function adoptState(
  saved: State,
  bootId: string,
  atMs: MonoMs,
): { readonly state: State; readonly isInterrupted: boolean; readonly cutOff: readonly Reclaim[] } {
  if (saved.bootId === bootId) {
    const state = { ...resumeEvictions(saved, atMs), reclaims: [], shutdown: adoptShutdown(saved.shutdown) };
    return { state, isInterrupted: false, cutOff: saved.reclaims };
  }
  const state = { ...initialState(bootId), nextDecision: saved.nextDecision };
  return { state, isInterrupted: saved.shutdown.kind === 'stopping', cutOff: [] };
}

/** The lock died with the agent that held it. A shutdown in progress continues as long as the machine allows. */
function adoptShutdown(shutdown: State['shutdown']): State['shutdown'] {
  if (shutdown.kind === 'armed') return { kind: 'unarmed', why: 'the agent was restarted' };
  return shutdown.kind === 'stopping' ? { ...shutdown, delayMaxMs: null } : shutdown;
}
