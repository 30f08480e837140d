import type { Observation } from '../core/observation.ts';
import type { MonoMs } from '../core/reading.ts';
import type { Clock, Findings, InhibitorStatus } from '../ports.ts';
import { KUBELET_LET_GO, KUBELET_NOT_ARMED, kubeletLetGo, kubeletNotArmed } from '../words/finding-own.ts';

/** The kubelet starts after the agent, and takes its lock some time later. */
const PATIENCE_MS = 120_000;

/**
 * The kubelet's own shutdown lock, as logind shows it: its configuration says nothing about whether it works
 * (beside-a-kubelet.md E1, E10, E18). `isConfigured`: its configuration gives it time for a shutdown.
 */
export function watchKubeletLock(needs: {
  readonly clock: Clock;
  readonly findings: Pick<Findings, 'raise' | 'clear'>;
  readonly isConfigured: () => boolean;
}): (observation: Observation, status: InhibitorStatus) => void {
  const { clock, findings } = needs;
  let missingSinceMs: MonoMs | null = null;
  return ({ shutdownEvents, unconfirmed }, { lock, isPreparing, isKubeletArmed }) => {
    const hasLetGo = shutdownEvents.some(({ kind }) => kind === 'kubelet-released');
    if (hasLetGo && unconfirmed?.known && unconfirmed.value.pods.length > 0) {
      findings.raise(kubeletLetGo(unconfirmed.value.pods));
    }
    const isMissing = lock.kind === 'armed' && isKubeletArmed === false && needs.isConfigured();
    if (isPreparing) return;
    // The machine stays up.
    if (!hasLetGo) findings.clear(KUBELET_LET_GO);
    if (!isMissing) {
      missingSinceMs = null;
      findings.clear(KUBELET_NOT_ARMED);
      return;
    }
    missingSinceMs ??= clock.monoMs();
    if (clock.monoMs() - missingSinceMs >= PATIENCE_MS) findings.raise(kubeletNotArmed());
  };
}
