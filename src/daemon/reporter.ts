import pkg from '../../package.json' with { type: 'json' };
import { observedOf } from '../config/core-config.ts';
import type { Effective } from '../config/effective.ts';
import type { Observation } from '../core/observation.ts';
import { unknown } from '../core/reading.ts';
import type { Verdict } from '../core/verdict.ts';
import { hostName } from '../host/host-name.ts';
import { createPodNames } from '../serve/pod-names.ts';
import type { ShutdownContext } from '../serve/shutdown-status.ts';
import { type NodeFacts, rankedFor, type StatusReport, statusReport } from '../serve/status.ts';
import type { OpenParts, PartsHost } from './compose.ts';
import type { Counters } from './counters.ts';
import type { LastReload, Loaded } from './reload.ts';

const NOT_ASKED = unknown('not-asked', 'pods', 'not read');

export type Daemon = {
  readonly loaded: () => Loaded;
  readonly lastReload: () => LastReload;
  readonly shutdownContext: () => ShutdownContext;
};
type ReporterHost = Pick<PartsHost, 'mounts'> & {
  readonly counters: Pick<Counters, 'now'>;
  readonly onReport: ((report: StatusReport) => void) | undefined;
};

type Reporter = {
  readonly seen: (observation: Observation, verdict: Verdict) => void;
  /** With the pods as they are now, read for it. Null: nothing was sampled yet, as below. */
  readonly now: () => StatusReport | null;
  /** Without pods, which costs the same with any number of them. */
  readonly withoutPods: () => StatusReport | null;
};

/** The report of the last look, for the socket and for watchers within the process. */
export function createReporter(
  host: ReporterHost,
  parts: OpenParts,
  daemon: Daemon & { readonly sinceWallMs: number; readonly node: () => NodeFacts },
): Reporter {
  const { observer, findings, recorder } = parts;
  const names = createPodNames();
  let last: { readonly observation: Observation; readonly verdict: Verdict } | null = null;
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
        configFile: { path: effective.file, loadedWallMs: daemon.sinceWallMs, lastReload: daemon.lastReload() },
        warnings: warnings.map(({ text }) => text),
        shutdown: daemon.shutdownContext(),
        oomScores: parts.oomScores(),
        nameOf: names.nameOf,
      },
    });
  };
  return {
    seen: (observation, verdict) => {
      last = { observation, verdict };
      names.learn(observation);
      host.onReport?.(report(observation, verdict));
    },
    // A reader needs the pods although no decision does.
    now: () => {
      if (last === null) return null;
      const pods = observer.podsNow(rankedFor(last.verdict.state));
      return report({ ...last.observation, pods }, last.verdict);
    },
    withoutPods: () => (last === null ? null : report({ ...last.observation, pods: NOT_ASKED }, last.verdict)),
  };
}

export function nodeFacts(host: Pick<ReporterHost, 'mounts'>, effective: Effective, sinceWallMs: number): NodeFacts {
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
    sinceWallMs,
  };
}
