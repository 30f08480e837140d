import type { LiveAnswer, RehearsalAnswer } from '../serve/live.ts';
import type { HistoryAnswer } from '../serve/signal-history.ts';
import { showFindings } from './both-pages.ts';
import { clock } from './clock.ts';
import { createDecisionsView } from './decisions-view.ts';
import { showHead, showTiles, showVerdict } from './head-view.ts';
import { ANSWER_MS, createLive, every, fetchJson, LIVE_MS } from './live.ts';
import { showPods } from './pods-view.ts';
import { createRecentSamples } from './recent-samples.ts';
import { showShutdown } from './shutdown-view.ts';
import { createSignalsView } from './signals-view.ts';

/** An answer costs the agent some 0.2 ms per pod, and a page may use less than 1 % of a core. */
const LIVE_POD_MS = 20;
const LIVE_SLOWEST_MS = 10_000;
const HISTORY_MS = 10_000;
const REHEARSAL_MS = 60_000;
/** Without a rehearsal, the reason may pass soon. */
const NOT_REHEARSED_MS = 10_000;
const AGENT = 'agent';

const samples = createRecentSamples();
const signalsView = createSignalsView(samples);
const decisionsView = createDecisionsView();
let rehearsal: RehearsalAnswer | null = null;
let rehearseNextMs = 0;

const live = createLive<LiveAnswer>({
  words: { who: AGENT, look: 'sample', looked: 'sampled' },
  atWallMs: ({ status }) => status.atWallMs,
  heard: ({ status }, before) => {
    if (before !== null && before.status.node.pid !== status.node.pid) rehearseNextMs = 0;
    samples.heard(status);
    show();
    void pollRehearsal();
  },
});

function show(): void {
  const answer = live.last();
  if (answer === null) return;
  const { status, explain } = answer;
  const now = live.nowWallMs();
  showHead(status, now);
  const forecasts = signalsView.show(status);
  showVerdict(status, forecasts);
  showTiles(status, explain);
  showPods(explain);
  decisionsView(status, now);
  showShutdown(status, rehearsal, now);
  showFindings(status);
}

function livePaceMs(): number {
  const pods = live.isLost() ? 0 : (live.last()?.explain.pods.length ?? 0);
  return Math.min(LIVE_SLOWEST_MS, LIVE_MS + LIVE_POD_MS * pods);
}

async function pollHistory(): Promise<void> {
  const fetched = await fetchJson<HistoryAnswer>('api/history', ANSWER_MS, AGENT);
  if (fetched.ok) samples.steps(fetched.answer);
}

/** The agent rehearses in a process of its own, at most once a minute. */
async function pollRehearsal(): Promise<void> {
  const phases = live.last()?.status.shutdown.phases ?? [];
  if (phases.length === 0 || clock.monoMs() < rehearseNextMs) return;
  rehearseNextMs = Number.POSITIVE_INFINITY;
  const fetched = await fetchJson<RehearsalAnswer>('api/rehearsal', ANSWER_MS, AGENT);
  const isNew = fetched.ok && fetched.answer.why === null;
  rehearseNextMs = clock.monoMs() + (isNew ? REHEARSAL_MS : NOT_REHEARSED_MS);
  if (fetched.ok) rehearsal = fetched.answer;
  show();
}

await pollHistory();
every(livePaceMs, live.ask);
every(() => HISTORY_MS, pollHistory);
