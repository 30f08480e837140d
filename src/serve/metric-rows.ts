import { Counter, Gauge, type Metric, Registry } from 'prom-client';
import type { Counts } from './counts.ts';

export const METRICS_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;

type Labels = { readonly [label: string]: string };
export type Sample = { readonly labels?: Labels; readonly value: number };
/** How many took how long together. */
export type Summed = { readonly labels: Labels; readonly count: number; readonly sumMs: number };
/** A metric that is computed from a report when it is asked for. */
export type MetricRow<R> = { readonly help: string; readonly labels: readonly string[] } & (
  | { readonly type: 'gauge' | 'counter'; readonly samples: (report: R) => readonly Sample[] }
  | { readonly type: 'histogram'; readonly counted: (report: R) => Counts['looks'] }
  | { readonly type: 'summary'; readonly summed: (report: R) => readonly Summed[] }
);
/** By name. */
export type MetricRows<R> = { readonly [name: string]: MetricRow<R> };

/** In the text format of Prometheus (METRICS_TYPE). */
export function renderMetrics<R>(rows: MetricRows<R>, report: R): Promise<string> {
  const registry = new Registry();
  for (const [name, row] of Object.entries(rows)) {
    if (row.type === 'histogram') registry.registerMetric(histogram(name, row.help, row.counted(report)));
    else if (row.type === 'summary') registry.registerMetric(summary(name, row.help, row.summed(report)));
    else addSamples(registry, name, row, row.samples(report));
  }
  return registry.metrics();
}

type Simple = { readonly type: 'gauge' | 'counter'; readonly help: string; readonly labels: readonly string[] };

function addSamples(
  registry: Registry,
  name: string,
  { type, help, labels }: Simple,
  samples: readonly Sample[],
): void {
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
  return counted(name, help, 'histogram', values);
}

/** As `histogram`, without buckets. */
function summary(name: string, help: string, all: readonly Summed[]): Metric {
  const values = all.flatMap(({ labels, count, sumMs }) => [
    { labels, metricName: `${name}_sum`, value: sumMs / 1_000 },
    { labels, metricName: `${name}_count`, value: count },
  ]);
  return counted(name, help, 'summary', values);
}

function counted(name: string, help: string, type: 'histogram' | 'summary', values: readonly object[]): Metric {
  const metric = { name, help, type, aggregator: 'sum', values };
  return { ...metric, get: async () => metric } as unknown as Metric;
}

/** No sample for what is not known. */
export const one = (value: number | null, labels: Labels = {}): readonly Sample[] =>
  value === null ? [] : [{ labels, value }];
export const seconds = (ms: number | null): number | null => (ms === null ? null : ms / 1_000);
