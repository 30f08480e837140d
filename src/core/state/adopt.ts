import { resumeEvictions } from '../eviction/under-way.ts';
import type { MonoMs } from '../reading.ts';
import { initialState, type Reclaim, type State } from './state.ts';

/**
 * Adapts a saved state to the present boot, at `atMs`. Timers of another boot are dropped, and an interrupted shutdown is
 * reported. A running reclaim died with the agent and is decided again; `cutOff`: nobody else will record its outcome.
 * Evictions in progress stay, so that no pod is chosen twice. `measured` as in `State`: what was observed of another node is
 * dropped.
 */
export function adoptState(
  saved: State,
  bootId: string,
  atMs: MonoMs,
  measured?: string,
): { readonly state: State; readonly isInterrupted: boolean; readonly cutOff: readonly Reclaim[] } {
  if (saved.bootId === bootId) {
    const isSameNode = saved.measured === undefined || saved.measured === measured;
    const known = isSameNode ? saved : withoutObserved(saved);
    const state = { ...resumeEvictions(known, atMs), reclaims: [], shutdown: adoptShutdown(saved.shutdown) };
    return { state, isInterrupted: false, cutOff: saved.reclaims };
  }
  const state = { ...initialState(bootId), nextDecision: saved.nextDecision };
  return { state, isInterrupted: saved.shutdown.kind === 'stopping', cutOff: [] };
}

/** A kubelet restarts for such a change, and forgets it too. Conditions and evictions stay: the API and the victims know of them. */
function withoutObserved({ heldBackMs: _, vainReclaims: __, ...state }: State): State {
  const { firstMetMs, metValues, unmetSinceMs, unresolved, ...fresh } = initialState('');
  const { lastSample, failedLooks, dryDropped, proofs, trail } = fresh;
  const timers = { firstMetMs, metValues, unmetSinceMs, unresolved };
  return { ...state, ...timers, lastSample, failedLooks, dryDropped, proofs, trail };
}

/** The lock died with the agent that held it. A shutdown in progress continues as long as the machine allows. */
function adoptShutdown(shutdown: State['shutdown']): State['shutdown'] {
  if (shutdown.kind === 'armed') return { kind: 'unarmed', why: 'the agent was restarted' };
  return shutdown.kind === 'stopping' ? { ...shutdown, delayMaxMs: null } : shutdown;
}
