import type { MonoMs, Reading } from '../core/reading.ts';
import { notSampledYet, notSampling } from '../words/health.ts';
import { type HttpAnswer, type HttpNeeds, type OpenHttp, type Route, serveHttp, text } from './http.ts';
import { METRICS_TYPE, metricsText } from './metrics.ts';
import { type PageFacts, pageRoutes } from './page.ts';
import { shared } from './shared.ts';
import type { StatusReport } from './status.ts';

/** What the routes tell of. */
export type WebFacts = PageFacts & {
  /** The last look, without pods; null: there was none. */
  readonly report: () => StatusReport | null;
  /** When memory.available was last read, and what came of it at the last sample; null: not yet. */
  readonly sampled: () => { readonly atMs: MonoMs | null; readonly memory: Reading<unknown> } | null;
  /** How far apart samples are at most: monitoringInterval.max. */
  readonly mostApartMs: () => number;
};

/** A busy machine may be so late with a sample. */
const LATE_MS = 5_000;

/** All that `http` serves. Unknown: why it does not listen. */
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

/** Who asks more often gets what was said a moment ago: a flood of requests makes no report for each. */
const METRICS_MS = 500;

function createMetrics({ clock, report }: WebFacts): () => Promise<HttpAnswer> {
  return shared(clock, METRICS_MS, async () => {
    const last = report();
    if (last === null) return text(503, notSampledYet(null));
    return { status: 200, type: METRICS_TYPE, body: await metricsText(last) };
  });
}

/** 503 with the reason: the loop stands still, or reads nothing. */
function health({ clock, sampled, mostApartMs }: WebFacts): HttpAnswer {
  const last = sampled();
  if (last === null || last.atMs === null) return text(503, notSampledYet(last?.memory ?? null));
  const agoMs = clock.monoMs() - last.atMs;
  const apartMs = mostApartMs();
  return agoMs <= apartMs + LATE_MS ? text(200, 'ok') : text(503, notSampling(agoMs, apartMs, last.memory));
}
