import type { ExplainedLook } from '../core/explain.ts';
import type { MonoMs, Reading } from '../core/reading.ts';
import { within } from '../host/clock.ts';
import type { Clock } from '../ports.ts';
import { notSampledYet, notSampling } from '../words/health.ts';
import { explainReport } from './explain-report.ts';
import {
  failed,
  type HttpAnswer,
  type HttpNeeds,
  json,
  type OpenHttp,
  pageFile,
  type Route,
  serveHttp,
  shared,
  text,
} from './http.ts';
import type { LiveAnswer } from './live.ts';
import { METRICS_TYPE, metricsText } from './metrics.ts';
import type { HistoryAnswer } from './signal-history.ts';
import { isShort, type StatusReport } from './status.ts';

/** What the page shows. */
export type PageFacts = {
  readonly clock: Clock;
  /** A current look with its pods; null: nothing was sampled yet. */
  readonly live: () => Promise<{ readonly status: StatusReport; readonly look: ExplainedLook } | null>;
  readonly history: () => HistoryAnswer;
  /** The JSON of `rehearse shutdown`. Starts a process. */
  readonly rehearse: () => Promise<Reading<string>>;
};

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

/** A client that asks more often, or at the same time as others, gets the last answer. */
const LIVE_MS = 500;
const REHEARSAL_MS = 55_000;
/** Less than the limit for an answer. */
const PATIENCE_MS = 3_000;

export function pageRoutes(facts: PageFacts): readonly Route[] {
  const { clock, history } = facts;
  return [
    { path: '/', answer: pageFile('page.html') },
    { path: '/api/live', answer: shared(clock, LIVE_MS, () => liveAnswer(facts)) },
    { path: '/api/history', answer: () => json(200, JSON.stringify(history())) },
    { path: '/api/rehearsal', answer: createRehearsal(facts) },
  ];
}

async function liveAnswer({ live, clock }: PageFacts): Promise<HttpAnswer> {
  const now = await live();
  if (now === null) return failed('no sample was taken yet');
  const { status, look } = now;
  const { name: node, mode, dryRun } = status.node;
  const source = { kind: 'live', node, mode, dryRun, atWallMs: status.atWallMs } as const;
  const explain = explainReport(look, source, { signal: null, of: null });
  const answer: LiveAnswer = { schema: 1, nowWallMs: clock.wallMs(), status, explain };
  return json(200, JSON.stringify(answer));
}

/**
 * It costs a process of some 50 MiB and half a second: at most once a minute, and not while the node may be short of
 * either.
 */
function createRehearsal({ clock, live, rehearse }: PageFacts): () => Promise<HttpAnswer> {
  let last: string | null = null;
  const anew = shared(clock, REHEARSAL_MS, async () => {
    const made = await rehearse();
    last = made.known ? made.value : last;
    return made.known ? null : `${made.where}: ${made.detail}`;
  });
  const whyNot = async (): Promise<string | null> => {
    const now = await live();
    if (now === null) return 'no sample was taken yet';
    if (isShort(now.status)) return 'the node is short of something';
    return await within(clock, PATIENCE_MS, anew(), () => 'it is being rehearsed');
  };
  return async () => {
    const why = await whyNot();
    return json(200, `{"schema":1,"rehearsal":${last},"why":${JSON.stringify(why)}}`);
  };
}
