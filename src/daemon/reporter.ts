import pkg from '../../package.json' with { type: 'json' };
import { observedOf } from '../config/core-config.ts';
import type { Effective } from '../config/effective.ts';
import { signalOf } from '../core/explain.ts';
import type { Observation } from '../core/observation.ts';
import { podName } from '../core/pod/pod.ts';
import { unknown } from '../core/reading.ts';
import type { Verdict } from '../core/verdict.ts';
import { within } from '../host/clock.ts';
import { hostName } from '../host/host-name.ts';
import type { BoundPod } from '../ports.ts';
import { createPodNames } from '../serve/pod-names.ts';
import type { ShutdownContext } from '../serve/shutdown-status.ts';
import { type NodeFacts, rankedFor, type StatusContext, type StatusReport, statusReport } from '../serve/status.ts';
import type { PageFacts } from '../serve/web.ts';
import type { OpenParts, PartsHost } from './compose.ts';
import type { Counters } from './counters.ts';
import { explainedLook, type Seen } from './observed-look.ts';
import type { LastReload, Loaded } from './reload.ts';

const NOT_ASKED = unknown('not-asked', 'pods', 'not read');

export type Daemon = {
  readonly loaded: () => Loaded;
  readonly lastReload: () => LastReload;
  readonly shutdownContext: () => ShutdownContext;
};
type ReporterHost = Pick<PartsHost, 'clock' | 'mounts'> & {
  readonly counters: Pick<Counters, 'now'>;
  readonly onReport: ((report: StatusReport) => void) | undefined;
};

type Reporter = {
  readonly seen: (seen: Seen) => void;
  /** With the pods, read now. Null: nothing was sampled yet, as below. */
  readonly now: () => StatusReport | null;
  /** Without pods, which costs the same with any number of them. */
  readonly withoutPods: () => StatusReport | null;
  /** Requests the next look, with what `explain` needs. */
  readonly live: PageFacts['live'];
};

/** A look follows at once unless the loop is busy; then the last one is used. */
const NEXT_LOOK_MS = 250;

/** The report of the last look, for the socket and for watchers within the process. */
export function createReporter(
  host: ReporterHost,
  parts: OpenParts,
  daemon: Daemon & { readonly sinceWallMs: number; readonly node: () => NodeFacts },
): Reporter {
  const { observer, findings, recorder } = parts;
  const names = createPodNames();
  let last: Seen | null = null;
  let waiting: (() => void)[] = [];
  /** Beside a kubelet pods end for good, and nobody misses them. */
  const others = (
    { pods }: Observation,
    mode: Effective['mode'],
  ): Pick<StatusContext, 'notRunning' | 'notObserved'> => {
    const bound = mode === 'standalone' && pods.known ? parts.mode.pods.pods() : NOT_ASKED;
    if (!pods.known || !bound.known) return {};
    // One that cannot be measured is not in the look, and runs; one that nobody has found is in it, and may not.
    const running = new Set([...pods.value, ...parts.mode.running()].map(({ uid }) => uid));
    for (const { declared, isUnlocated } of bound.value) if (isUnlocated) running.delete(declared.uid);
    const rest = bound.value.filter(({ declared }) => !running.has(declared.uid));
    const isObserved = ({ cgroup }: BoundPod): boolean => cgroup.known || cgroup.why === 'absent';
    const named = (pods: readonly BoundPod[]) => pods.map(({ declared }) => podName(declared));
    return {
      notRunning: named(rest.filter(isObserved)),
      notObserved: named(rest.filter((pod) => !isObserved(pod))),
    };
  };
  const idle = (): readonly BoundPod['declared'][] => {
    const bound = parts.mode.pods.pods();
    return bound.known ? bound.value.flatMap(({ isIdle, declared }) => (isIdle ? [declared] : [])) : [];
  };
  const { isToBeStopped } = parts.mode;
  const report = (observation: Observation, verdict: Verdict): StatusReport => {
    const { effective, warnings } = daemon.loaded();
    const { workingSetAvailableBytes, reclaimableAvailableBytes } = observer.memoryFacts();
    return statusReport({
      observation,
      verdict,
      config: parts.core(),
      context: {
        node: daemon.node(),
        memory: {
          counted: effective.memoryAvailable,
          workingSet: workingSetAvailableBytes,
          reclaimable: reclaimableAvailableBytes,
        },
        counts: host.counters.now(),
        findings: findings.all(),
        recent: recorder.recent(),
        configFile: {
          path: effective.file,
          podManifests: effective.mode === 'standalone' ? effective.podManifests : null,
          loadedWallMs: daemon.sinceWallMs,
          lastReload: daemon.lastReload(),
        },
        warnings: warnings.map(({ text }) => text),
        shutdown: { ...daemon.shutdownContext(), idle: idle() },
        oomScores: parts.oomScores(),
        ...others(observation, effective.mode),
        ...(isToBeStopped === undefined ? {} : { isToBeStopped }),
        nameOf: names.nameOf,
      },
    });
  };
  return {
    seen: (seen) => {
      last = seen;
      const { observation, verdict } = seen;
      names.learn(observation);
      const waited = waiting;
      waiting = [];
      for (const hear of waited) hear();
      host.onReport?.(report(observation, verdict));
    },
    // A reader needs the pods even if no decision does.
    now: () => {
      if (last === null) return null;
      const pods = observer.podsNow(rankedFor(last.verdict.state));
      return report({ ...last.observation, pods }, last.verdict);
    },
    withoutPods: () => (last === null ? null : report({ ...last.observation, pods: NOT_ASKED }, last.verdict)),
    live: async () => {
      const next = new Promise<void>((resolve) => waiting.push(resolve));
      parts.inbox.wake();
      await within(host.clock, NEXT_LOOK_MS, next, () => undefined);
      if (last === null) return null;
      const { observation, verdict } = last;
      const signal = signalOf(explainedLook(last, parts.core(), observation.pods));
      const pods = observer.podsNow(signal ?? 'memory.available');
      return { status: report({ ...observation, pods }, verdict), look: explainedLook(last, parts.core(), pods) };
    },
  };
}

export function nodeFacts(
  host: Pick<ReporterHost, 'mounts'>,
  effective: Effective,
): Omit<NodeFacts, 'sinceWallMs' | 'observedForMs'> {
  const { mode, dryRun } = effective;
  const { cgroupRoot } = observedOf(effective);
  return {
    name: hostName(),
    version: pkg.version,
    pid: process.pid,
    mode,
    dryRun,
    cgroupLayout: host.mounts.layout,
    cgroupRoot,
  };
}
