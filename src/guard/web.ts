import type { Reading } from '../core/reading.ts';
import type { Clock } from '../ports.ts';
import { type HttpAnswer, type HttpNeeds, type OpenHttp, serveHttp, text } from '../serve/http.ts';
import { METRICS_TYPE, renderMetrics } from '../serve/metric-rows.ts';
import { shared } from '../serve/shared.ts';
import type { GuardCounts } from './counts.ts';
import { GUARD_METRICS } from './metrics.ts';
import type { GuardReport } from './report.ts';

export type GuardWebFacts = {
  readonly clock: Clock;
  /** Null: there was no look yet. */
  readonly report: () => GuardReport | null;
  readonly counts: () => GuardCounts;
  /** Since the last look; null: there was none. */
  readonly lookAgeMs: () => number | null;
};

/** A client that asks more often gets the last answer. */
const METRICS_MS = 500;
/** Looks are at most 10 s apart. */
const LATE_MS = 30_000;

/** `/metrics` and `/healthz`; loaded only if `http` is configured. */
export function openGuardWeb(
  listen: Pick<HttpNeeds, 'host' | 'port' | 'hosts'>,
  { clock, report, counts, lookAgeMs }: GuardWebFacts,
): Promise<Reading<OpenHttp>> {
  const metrics = shared(clock, METRICS_MS, async (): Promise<HttpAnswer> => {
    const last = report();
    if (last === null) return text(503, 'no look was taken yet');
    const body = await renderMetrics(GUARD_METRICS, { report: last, counts: counts() });
    return { status: 200, type: METRICS_TYPE, body };
  });
  const health = (): HttpAnswer => {
    const ageMs = lookAgeMs();
    if (ageMs === null) return text(503, 'no look was taken yet');
    return ageMs > LATE_MS ? text(503, `the last look was ${Math.round(ageMs / 1_000)} s ago`) : text(200, 'ok');
  };
  return serveHttp({
    ...{ ...listen, clock },
    routes: [
      { path: '/metrics', answer: metrics },
      { path: '/healthz', answer: health },
    ],
  });
}
