import type { MonoMs, Reading } from '../core/reading.ts';
import { notSampledYet, notSampling } from '../words/health.ts';
import { type HttpAnswer, type HttpNeeds, type OpenHttp, type Route, serveHttp, text } from './http.ts';
import { METRICS_TYPE, metricsText } from './metrics.ts';
import { type PageFacts, pageRoutes } from './page.ts';
import { shared } from './shared.ts';
import type { StatusReport } from './status.ts';

/** The facts that the routes report. */
export type WebFacts = PageFacts & {
  /** The last look, without pods; null: there was none. */
  readonly report: () => StatusReport | null;
  /** When memory.available was last read, and its value at the last sample; null: not yet. */
  readonly sampled: () => { readonly atMs: MonoMs | null; readonly memory: Reading<unknown> } | null;
  /** The maximum time between samples: monitoringInterval.max. */
  readonly mostApartMs: () => number;
};

/** How late a sample may be on a busy machine. */
const LATE_MS = 5_000;

/** Everything that `http` serves. Unknown: why it does not listen. */
export function openWeb(
  listen: Pick<HttpNeeds, 'host' | 'port' | 'hosts'>,
  facts: WebFacts,
): Promise<Reading<OpenHttp>> {
  const routes: readonly Route[] = [
    { path: '/healthz', answer: () => health(facts) },
    { path: '/metrics', answer: createMetrics(facts) },
    ...pageRoutes(facts),
  ];
  return serveHttp({ ...listen, clock: facts.clock, routes });
}

/** A client that asks more often gets the last answer: a flood of requests does not cause a report for each. */
const METRICS_MS = 500;

function createMetrics({ clock, report }: WebFacts): () => Promise<HttpAnswer> {
  return shared(clock, METRICS_MS, async () => {
    const last = report();
    if (last === null) return text(503, notSampledYet(null));
    return { status: 200, type: METRICS_TYPE, body: await metricsText(last) };
  });
}

/** 503 with the reason if the loop hangs, or reads nothing. */
function health({ clock, sampled, mostApartMs }: WebFacts): HttpAnswer {
  const last = sampled();
  if (last === null || last.atMs === null) return text(503, notSampledYet(last?.memory ?? null));
  const agoMs = clock.monoMs() - last.atMs;
  const apartMs = mostApartMs();
  return agoMs <= apartMs + LATE_MS ? text(200, 'ok') : text(503, notSampling(agoMs, apartMs, last.memory));
}
