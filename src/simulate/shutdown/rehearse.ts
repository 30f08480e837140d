import type { CoreConfig } from '../../core/core-config.ts';
import type { ShutdownEvent } from '../../core/observation.ts';
import { type PodUid, type PodView, podName } from '../../core/pod/pod.ts';
import { playFrom } from './play.ts';
import type { ShutdownScenarioPod } from './scenario.ts';

export type RehearsedPod = {
  readonly declared: Omit<PodView, 'usage'>;
  /** How long it takes to stop; null: until its grace is over. */
  readonly stopMs: number | null;
  readonly isTold?: ShutdownScenarioPod['isTold'];
};
/** The trigger: logind's signal with the delay it grants, or the stop of the agent with the time systemd leaves it. */
export type RehearsedStart =
  | { readonly kind: 'logind'; readonly grantedMs: number }
  | { readonly kind: 'stop'; readonly leftMs: number };
/** Times in milliseconds since the start of the shutdown. */
export type Rehearsal = {
  /** Only phases that have pods. */
  readonly phases: readonly { readonly phase: number; readonly startMs: number; readonly endMs: number }[];
  /** For each pod: the grace period in the phase that stops it, when it is signalled, and how long it has from then on. */
  readonly pods: ReadonlyMap<
    PodUid,
    { readonly graceSeconds: number; readonly toldMs: number; readonly getsMs: number }
  >;
  /** When the last phase is over. */
  readonly totalMs: number;
};
type RehearsedConfig = Pick<CoreConfig, 'phases' | 'shutdownCarryOver' | 'shutdownCancel'>;

/** Plays a shutdown of these pods in virtual time; the core decides it like a real one. */
export function rehearse(
  { phases, shutdownCarryOver, shutdownCancel }: RehearsedConfig,
  pods: readonly RehearsedPod[],
  start: RehearsedStart,
): Rehearsal {
  const played = playFrom(
    {
      phases,
      pods: pods.map(scenarioPod),
      cancelAtMs: null,
      cancelPolicy: shutdownCancel,
      carryOver: shutdownCarryOver,
      stopper: 'agent',
    },
    heardAt(start),
  );
  return {
    phases: played.phases.map(({ phase, startedMs, endMs }) => ({ phase, startMs: startedMs, endMs })),
    pods: new Map(
      [...played.signalled].map(([uid, { graceSeconds, times, effectiveGraceSeconds }]) => [
        uid,
        { graceSeconds, toldMs: Math.round(times.startMs), getsMs: Math.round(effectiveGraceSeconds * 1_000) },
      ]),
    ),
    totalMs: played.releasedMs ?? 0,
  };
}

function heardAt(start: RehearsedStart): readonly ShutdownEvent[] {
  if (start.kind === 'stop') return [{ kind: 'stopped-without-signal', leftMs: start.leftMs }];
  return [{ kind: 'lock-granted', delayMaxMs: start.grantedMs }, { kind: 'preparing' }];
}

function scenarioPod({ declared, stopMs, isTold }: RehearsedPod): ShutdownScenarioPod {
  return {
    name: podName(declared),
    declared,
    isStopped: true,
    ...(isTold === undefined ? {} : { isTold }),
    behaviour: {
      containers: [{ stopAfterMs: stopMs, preStopMs: null }],
      sidecars: [],
      killDelayMs: 0,
      unmountAfterMs: 0,
      deletion: null,
    },
  };
}
