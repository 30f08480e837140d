import { Counter, Gauge, type Metric, Registry } from 'prom-client';
import type { Counts } from './counts.ts';
import type { SignalStatus, StatusReport } from './status.ts';

export const METRICS_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;

type Labels = { readonly [label: string]: string };
type Sample = { readonly labels?: Labels; readonly value: number };
type Row = { readonly help: string; readonly labels: readonly string[] } & (
  | { readonly type: 'gauge' | 'counter'; readonly samples: (report: StatusReport) => readonly Sample[] }
  | { readonly type: 'histogram'; readonly counted: (report: StatusReport) => Counts['looks'] }
);

/** product.md section 10. Unknown values have no sample; labels have few values, and none that a tenant chooses. */
const ROWS: { readonly [name: string]: Row } = {
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
export function metricsText(report: StatusReport): Promise<string> {
  const registry = new Registry();
  for (const [name, row] of Object.entries(ROWS)) {
    if (row.type === 'histogram') registry.registerMetric(histogram(name, row.help, row.counted(report)));
    else addSamples(registry, name, row, row.samples(report));
  }
  return registry.metrics();
}

function addSamples(registry: Registry, name: string, { type, help, labels }: Row, samples: readonly Sample[]): void {
  // One without labels would have the value 0.
  if (samples.length === 0) return;
  const settings = { name, help, labelNames: labels, registers: [registry] };
  if (type === 'gauge') {
    const gauge = new Gauge(settings);
    for (const sample of samples) gauge.set(sample.labels ?? {}, sample.value);
  } else {
    const counter = new Counter(settings);
    for (const sample of samples) counter.inc(sample.labels ?? {}, sample.value);
  }
}

/** The package's own histogram counts observations itself, but the agent has counted already. */
function histogram(name: string, help: string, { buckets, count, sumMs }: Counts['looks']): Metric {
  const values = [
    ...buckets.map(({ mostMs, count: value }) => ({
      labels: { le: mostMs / 1_000 },
      metricName: `${name}_bucket`,
      value,
    })),
    { labels: { le: '+Inf' }, metricName: `${name}_bucket`, value: count },
    { labels: {}, metricName: `${name}_sum`, value: sumMs / 1_000 },
    { labels: {}, metricName: `${name}_count`, value: count },
  ];
  const metric = { name, help, type: 'histogram', aggregator: 'sum', values };
  return { ...metric, get: async () => metric } as unknown as Metric;
}

const one = (value: number | null, labels: Labels = {}): readonly Sample[] =>
  value === null ? [] : [{ labels, value }];
const seconds = (ms: number | null): number | null => (ms === null ? null : ms / 1_000);

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
