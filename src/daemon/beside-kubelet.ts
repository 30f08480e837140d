import type { Effective } from '../config/effective.ts';
import { firstsNow } from '../config/kubelet-says.ts';
import type { Observation } from '../core/observation.ts';
import type { MonoMs } from '../core/reading.ts';
import type { Signal } from '../core/signal.ts';
import type { findKubelet } from '../host/process/kubelet-process.ts';
import type { Mode } from '../mode.ts';
import type { Clock, Findings, InhibitorStatus } from '../ports.ts';
import { kubeletFirst, kubeletFirstId } from '../words/finding-kube.ts';
import { KUBELET_LET_GO, KUBELET_NOT_ARMED, kubeletLetGo, kubeletNotArmed } from '../words/finding-own.ts';

type Needs = {
  readonly clock: Clock;
  readonly findings: Findings;
  readonly mode: Pick<Mode, 'kubeletConfigz' | 'isSettled'>;
  readonly effective: () => Pick<Effective, 'mode' | 'kubeletConfig' | 'thresholds'>;
  readonly find?: typeof findKubelet;
};

const AGAIN_MS = 300_000;

/**
 * Beside a kubelet: a finding for each threshold that it reaches before this agent does (beside-a-kubelet.md F1 to F7).
 */
export function createBesideKubelet({ clock, findings, mode, effective, find }: Needs) {
  let checkedMs = Number.NEGATIVE_INFINITY;
  let checkedFor: unknown = null;
  let raised: readonly string[] = [];
  let isClosed = false;

  async function check({ signals }: Observation): Promise<void> {
    const capacityOf = (signal: Signal): number | null => {
      const sample = signals[signal];
      return sample.known ? sample.value.capacity : null;
    };
    const firsts = await firstsNow({ clock, effective: effective(), configz: mode.kubeletConfigz, find }, capacityOf);
    // Unknown: the findings stay as they are.
    if (isClosed || !firsts.known) return;
    for (const first of firsts.value) findings.raise(kubeletFirst(first));
    const ids = firsts.value.map(({ signal, kind }) => kubeletFirstId(signal, kind));
    for (const id of raised) if (!ids.includes(id)) findings.clear(id);
    raised = ids;
  }

  return {
    seen: (observation: Observation): void => {
      const { mode: name, thresholds } = effective();
      // Capacities are known from the first look that really observes. Finding the kubelet takes longer than a choice, which
      // a start in the middle of pressure must make first.
      if (name !== 'kubelet' || !observation.signals['memory.available'].known || !mode.isSettled()) return;
      if (observation.atMs - checkedMs < AGAIN_MS && checkedFor === thresholds) return;
      checkedMs = observation.atMs;
      checkedFor = thresholds;
      void check(observation);
    },
    close: (): void => {
      isClosed = true;
    },
  };
}

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
