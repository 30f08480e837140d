import type { Reading } from '../core/reading.ts';
import type { Clock } from '../ports.ts';
import {
  failed,
  type HttpAnswer,
  type HttpNeeds,
  json,
  type OpenHttp,
  pageFile,
  serveHttp,
  shared,
  text,
} from '../serve/http.ts';
import { METRICS_TYPE, renderMetrics } from '../serve/metric-rows.ts';
import type { GuardCounts } from './counts.ts';
import { guardLiveJson } from './live.ts';
import type { GuardLook } from './loop.ts';
import { GUARD_METRICS } from './metrics.ts';
import type { GuardReport } from './shown.ts';

export type GuardWebFacts = {
  readonly clock: Clock;
  /** Null: there was no look yet. */
  readonly look: () => GuardLook | null;
  /** Null as `look` is. */
  readonly report: () => GuardReport | null;
  readonly counts: () => GuardCounts;
  /** Since the last look; null: there was none. */
  readonly lookAgeMs: () => number | null;
};

/** A client that asks more often, or at the same time as others, gets the last answer. */
const METRICS_MS = 500;
const LIVE_MS = 500;
/** Looks are at most 10 s apart. */
const LATE_MS = 30_000;

/** The page, `/metrics` and `/healthz`; loaded only if `http` is configured. */
export function openGuardWeb(
  listen: Pick<HttpNeeds, 'host' | 'port' | 'hosts'>,
  { clock, look, report, counts, lookAgeMs }: GuardWebFacts,
): Promise<Reading<OpenHttp>> {
  const metrics = shared(clock, METRICS_MS, async (): Promise<HttpAnswer> => {
    const last = report();
    if (last === null) return text(503, 'no look was taken yet');
    const body = await renderMetrics(GUARD_METRICS, { report: last, counts: counts() });
    return { status: 200, type: METRICS_TYPE, body };
  });
  const live = shared(clock, LIVE_MS, async (): Promise<HttpAnswer> => {
    const [last, status] = [look(), report()];
    if (last === null || status === null) return failed('no look was taken yet');
    const body = guardLiveJson(last, { nowWallMs: clock.wallMs(), status });
    return body === null ? failed('what is to be shown is too large; see: nodewarden guard status') : json(200, body);
  });
  const health = (): HttpAnswer => {
    const ageMs = lookAgeMs();
    if (ageMs === null) return text(503, 'no look was taken yet');
    return ageMs > LATE_MS ? text(503, `the last look was ${Math.round(ageMs / 1_000)} s ago`) : text(200, 'ok');
  };
  return serveHttp({
    ...{ ...listen, clock },
    routes: [
      { path: '/', answer: pageFile('guard-page.html') },
      { path: '/api/live', answer: live },
      { path: '/metrics', answer: metrics },
      { path: '/healthz', answer: health },
    ],
  });
}
