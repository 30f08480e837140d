import type { ExplainedLook } from '../core/explain.ts';
import type { Reading } from '../core/reading.ts';
import { within } from '../host/clock.ts';
import type { Clock } from '../ports.ts';
import { explainReport } from './explain-report.ts';
import type { HttpAnswer, Route } from './http.ts';
import type { LiveAnswer } from './live.ts';
import { failed, json, pageFile } from './page-file.ts';
import { shared } from './shared.ts';
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
  const { name: node, dryRun } = status.node;
  const source = { kind: 'live', node, dryRun, atWallMs: status.atWallMs } as const;
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
