import type { ShutdownPhase } from '../core/core-config.ts';
import { type PodUid, podName } from '../core/pod/pod.ts';
import { AGENT_END_MS, totalMs } from '../core/shutdown/phase-time.ts';
import type { Change, PhaseRow, PodStopRow, SecondTier } from '../serve/rehearsal.ts';

/** Added to what was observed, because the next stop may take longer. */
const OBSERVED_MARGIN = 1.25;
/** Used when all that is known is that the time was too short. */
const UNFINISHED_MARGIN = 2;

/** Only the largest change per phase. `chained`: pods that share its time with others. */
export function changesOf(phases: readonly PhaseRow[], chained: ReadonlySet<PodUid>): readonly Change[] {
  const ofPhases = new Map<number, Extract<Change, { what: 'phase' }>>();
  const ofPods: Change[] = [];
  for (const { phase, fromPriority, periodSeconds, pods } of phases) {
    const wanted = pods.map((pod) => ({ pod, seconds: wantedSeconds(pod) }));
    const ofPhase = wanted.map(({ pod, seconds }) => {
      const isShared = chained.has(pod.uid) && pod.getsMs > 0 && pod.getsMs < pod.graceSeconds * 1_000;
      return isShared ? Math.ceil((periodSeconds * 1_000 * (seconds ?? 0)) / pod.getsMs) : (seconds ?? 0);
    });
    const most = Math.max(0, ...ofPhase);
    // Beside a kubelet, a phase comes twice.
    if (most > Math.max(periodSeconds, ofPhases.get(phase)?.seconds ?? 0))
      ofPhases.set(phase, { what: 'phase', phase, fromPriority, now: periodSeconds, seconds: most });
    for (const { pod, seconds } of wanted) if (seconds !== null) ofPods.push(...podChanges(pod, seconds));
  }
  return [...ofPhases.values(), ...ofPods];
}

function podChanges(row: PodStopRow, seconds: number): readonly Change[] {
  const { ownGraceSeconds, unit, stopTimeoutMs, stopSteps } = row;
  const pod = podName(row);
  const changes: Change[] = [];
  if (ownGraceSeconds < seconds) {
    changes.push({ what: 'terminationGracePeriodSeconds', pod, now: ownGraceSeconds, seconds });
  }
  if (unit !== null && typeof stopTimeoutMs === 'number' && stopTimeoutMs * stopSteps < seconds * 1_000) {
    const each = Math.ceil(seconds / stopSteps);
    changes.push({ what: 'TimeoutStopSec', pod, unit, now: stopTimeoutMs / 1_000, seconds: each });
  }
  return changes;
}

/** The agent's TimeoutStopSec that all phases with the proposed values would fit into, if the current one is too short. */
export function agentChanges(
  configured: readonly ShutdownPhase[],
  changes: readonly Change[],
  secondTier: SecondTier | null,
  worstMs: number,
): readonly Change[] {
  if (secondTier === null || secondTier.worstMs >= worstMs) return [];
  const { stopTimeoutMs } = secondTier;
  if (stopTimeoutMs === 'infinity') return [];
  const phases = configured.map(({ fromPriority, periodSeconds }) => {
    const change = changes.find((one) => one.what === 'phase' && one.fromPriority === fromPriority);
    return { fromPriority, periodSeconds: change?.seconds ?? periodSeconds };
  });
  const seconds = Math.ceil((totalMs(phases) + AGENT_END_MS) / 1_000);
  return [{ what: 'agentTimeoutStopSec', now: stopTimeoutMs / 1_000, seconds }];
}

/** The time that a pod that cannot finish would need; null: it can finish, or this is unknown. */
function wantedSeconds({ verdict, observed, getsMs }: PodStopRow): number | null {
  if (verdict.kind === 'finishes') return null;
  const { because, needsMs } = verdict;
  if (because !== 'observed') return needsMs === null ? null : Math.ceil(needsMs / 1_000);
  if (needsMs !== null) return Math.ceil((needsMs * OBSERVED_MARGIN) / 1_000);
  return Math.ceil((Math.max(getsMs, observed?.unfinishedMs ?? 0) * UNFINISHED_MARGIN) / 1_000);
}
