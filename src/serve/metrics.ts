import { METRICS_TYPE, type MetricRows, one, renderMetrics, type Sample, seconds } from './metric-rows.ts';
import type { SignalStatus, StatusReport } from './status.ts';

export { METRICS_TYPE };

/** product.md section 10. Unknown values have no sample; labels have few values, and none that a tenant chooses. */
const ROWS: MetricRows<StatusReport> = {
  nodewarden_build_info: {
    help: 'The running agent; always 1.',
    type: 'gauge',
    labels: ['version', 'mode', 'dry_run'],
    samples: ({ node }) => [
      { labels: { version: node.version, mode: node.mode, dry_run: String(node.dryRun) }, value: 1 },
    ],
  },
  nodewarden_signal_available: {
    help: 'Available amount, in the unit of the signal.',
    type: 'gauge',
    labels: ['signal', 'unit'],
    samples: (report) => ofSignals(report, ({ available }) => available),
  },
  nodewarden_signal_capacity: {
    help: 'Capacity, in the unit of the signal.',
    type: 'gauge',
    labels: ['signal', 'unit'],
    samples: (report) => ofSignals(report, ({ capacity }) => capacity),
  },
  nodewarden_signal_age_seconds: {
    help: 'Time since the signal was measured.',
    type: 'gauge',
    labels: ['signal', 'unit'],
    samples: (report) => ofSignals(report, ({ ageMs }) => seconds(ageMs)),
  },
  nodewarden_threshold: {
    help: 'Available amount below which the threshold is met, in the unit of its signal.',
    type: 'gauge',
    labels: ['signal', 'unit', 'kind', 'id'],
    samples: (report) =>
      measured(report).flatMap(({ signal, unit, thresholds }) =>
        thresholds.flatMap(({ id, kind, limit }) => one(limit, { signal, unit, kind, id })),
      ),
  },
  nodewarden_condition: {
    help: 'Whether the node has the condition, its transition period included.',
    type: 'gauge',
    labels: ['condition'],
    samples: ({ conditions }) =>
      Object.entries(conditions).map(([condition, is]) => ({ labels: { condition }, value: Number(is) })),
  },
  nodewarden_psi_some_ratio: {
    help: 'Share of the time in which at least one task stalled on the resource.',
    type: 'gauge',
    labels: ['resource', 'window'],
    samples: (report) => ofPsi(report, 'some'),
  },
  nodewarden_psi_full_ratio: {
    help: 'Share of the time in which all tasks stalled on the resource.',
    type: 'gauge',
    labels: ['resource', 'window'],
    samples: (report) => ofPsi(report, 'full'),
  },
  nodewarden_findings: {
    help: 'Problems that need attention, by kind; see: nodewarden status.',
    type: 'gauge',
    labels: ['finding'],
    samples: ({ findings }) => {
      const kinds = findings.map(({ id }) => kindOf(id));
      return [...new Set(kinds)].map((finding) => ({
        labels: { finding },
        value: kinds.filter((kind) => kind === finding).length,
      }));
    },
  },
  nodewarden_shutdown_armed: {
    help: 'Whether a shutdown of the machine waits for the pods; absent where it is not configured.',
    type: 'gauge',
    labels: [],
    samples: ({ shutdown }) => (shutdown.lock.kind === 'off' ? [] : one(Number(shutdown.lock.kind === 'armed'))),
  },
  nodewarden_graceful_shutdown_start_time_seconds: {
    help: 'When the last graceful shutdown began, since 1970.',
    type: 'gauge',
    labels: [],
    samples: ({ counts }) => one(seconds(counts.shutdown?.startWallMs ?? null)),
  },
  nodewarden_graceful_shutdown_end_time_seconds: {
    help: 'When it ended, since 1970; absent if it was not completed.',
    type: 'gauge',
    labels: [],
    samples: ({ counts }) => one(seconds(counts.shutdown?.endWallMs ?? null)),
  },
  nodewarden_evictions_total: {
    help: 'Evicted pods.',
    type: 'counter',
    labels: ['signal', 'kind'],
    samples: evictions,
  },
  nodewarden_eviction_duration_seconds: {
    help: 'From the first signal to a victim until none of its processes was left.',
    type: 'histogram',
    labels: [],
    counted: ({ counts }) => counts.evictionTimes,
  },
  nodewarden_reclaimed_bytes_total: {
    help: 'By eviction: memory that victims gave back; by reclaim and scratch: disk space.',
    type: 'counter',
    labels: ['by'],
    samples: ({ counts }) => Object.entries(counts.reclaimedBytes).map(([by, value]) => ({ labels: { by }, value })),
  },
  nodewarden_kernel_oom_kills_total: {
    help: "Processes that the kernel's OOM killer killed on this machine.",
    type: 'counter',
    labels: [],
    samples: ({ counts }) => one(counts.kernelOomKills),
  },
  nodewarden_looks_total: {
    help: 'Samples of the node.',
    type: 'counter',
    labels: [],
    samples: ({ counts }) => one(counts.looks.count),
  },
  nodewarden_look_duration_seconds: {
    help: 'How long it took to read a sample.',
    type: 'histogram',
    labels: [],
    counted: ({ counts }) => counts.looks,
  },
};
export const METRIC_NAMES = Object.keys(ROWS);

/** In the text format of Prometheus (METRICS_TYPE). */
export const metricsText = (report: StatusReport): Promise<string> => renderMetrics(ROWS, report);

/** The signals of this node. An alias has the figures of another signal, which would appear twice. */
const measured = ({ signals }: StatusReport): readonly SignalStatus[] =>
  signals.filter(({ aliasOf, unknown }) => aliasOf === null && unknown?.why !== 'not-applicable');

function ofSignals(report: StatusReport, of: (status: SignalStatus) => number | null): readonly Sample[] {
  return measured(report).flatMap((status) => one(of(status), { signal: status.signal, unit: status.unit }));
}

function ofPsi({ psi }: StatusReport, kind: 'some' | 'full'): readonly Sample[] {
  return Object.entries(psi).flatMap(([resource, averages]) => {
    const of = averages?.[kind] ?? null;
    if (of === null) return [];
    const windows = { '10s': of.avg10, '60s': of.avg60, '300s': of.avg300 };
    return Object.entries(windows).map(([window, percent]) => ({ labels: { resource, window }, value: percent / 100 }));
  });
}

/** Possible evictions are present with 0, so that a rate includes the first one. */
function evictions(report: StatusReport): readonly Sample[] {
  const possible = measured(report).flatMap(({ signal, thresholds }) =>
    thresholds.map(({ kind }) => ({ signal, kind, count: 0 })),
  );
  const counted = new Map([...possible, ...report.counts.evictions].map((of) => [`${of.signal} ${of.kind}`, of]));
  return [...counted.values()].map(({ signal, kind, count }) => ({ labels: { signal, kind }, value: count }));
}

/** An id may end with a pod, a path or a signal. */
const kindOf = (id: string): string => id.split(/[/:]/, 1)[0] ?? id;
