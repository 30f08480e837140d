import type { LiveAnswer, RehearsalAnswer } from '../serve/live.ts';
import type { HistoryAnswer } from '../serve/signal-history.ts';
import { clock } from './clock.ts';
import { createDecisionsView } from './decisions-view.ts';
import { byId, el, setClass, setText, timeOf } from './dom.ts';
import { fetchJson } from './fetch-json.ts';
import { showFindings } from './findings-view.ts';
import { showHead, showTiles, showVerdict } from './head-view.ts';
import { showPods } from './pods-view.ts';
import { createRecentSamples } from './recent-samples.ts';
import { sayAgo, sayFor, sayWhen } from './say.ts';
import { showShutdown } from './shutdown-view.ts';
import { createSignalsView } from './signals-view.ts';

const LIVE_MS = 2_000;
/** An answer costs the agent some 0.2 ms per pod, and a page may use less than 1 % of a core. */
const LIVE_POD_MS = 20;
const LIVE_SLOWEST_MS = 10_000;
const HISTORY_MS = 10_000;
const REHEARSAL_MS = 60_000;
/** Without a rehearsal, the reason may pass soon. */
const NOT_REHEARSED_MS = 10_000;
const ANSWER_MS = 6_000;
/** Samples are up to 10 s apart (or monitoringInterval.max): if the last one is older, the agent's loop hangs. */
const OLD_SAMPLE_MS = 30_000;
const SAID_MAX = 5;

const samples = createRecentSamples();
const signalsView = createSignalsView(samples);
const decisionsView = createDecisionsView(say);
let live: LiveAnswer | null = null;
/** By this page's clock. */
let heardMs: number | null = null;
let lost: { readonly sinceMs: number; readonly why: string } | null = null;
let rehearsal: RehearsalAnswer | null = null;
let rehearseNextMs = 0;

/** For screen readers, politely. */
function say(text: string): void {
  const place = byId('said');
  place.append(el('p', {}, text));
  while (place.children.length > SAID_MAX) place.firstElementChild?.remove();
}

/** The agent's clock now; this page may be on another machine. */
const nowWallMs = (): number =>
  live === null || heardMs === null ? clock.wallMs() : live.nowWallMs + clock.monoMs() - heardMs;

function show(): void {
  if (live === null) return;
  const { status, explain } = live;
  const now = nowWallMs();
  showHead(status, now);
  const forecasts = signalsView.show(status);
  showVerdict(status, forecasts);
  showTiles(status, explain);
  showPods(explain);
  decisionsView(status, now);
  showShutdown(status, rehearsal, now);
  showFindings(status);
}

function showLink(): void {
  const place = byId('link');
  const bar = byId('lost');
  const now = nowWallMs();
  const ageMs = live === null ? 0 : Math.max(0, now - live.status.atWallMs);
  const isOld = live !== null && lost === null && ageMs > OLD_SAMPLE_MS;
  const isStale = lost !== null || isOld;
  setClass(document.body, isStale && live !== null ? 'stale' : '');
  setClass(place, `link ${isStale ? 'bad' : live === null ? '' : 'ok'}`);
  if (lost !== null) {
    setText(place, live === null ? 'No connection' : 'Connection lost');
    const { sinceMs, why } = lost;
    const sinceWallMs = now - (clock.monoMs() - sinceMs);
    const what =
      live === null
        ? ['No answer yet: ']
        : [
            'Connection lost since ',
            timeOf(sinceWallMs, sayWhen(sinceWallMs, now)),
            `. Everything below is as of ${sayWhen(live.status.atWallMs, now)}. `,
          ];
    if (bar.hidden || bar.dataset['why'] !== why)
      bar.replaceChildren(...what, `${why}. Trying again every ${sayFor(LIVE_MS)}.`);
    bar.dataset['why'] = why;
  } else if (isOld && live !== null) {
    setText(place, 'Old sample');
    if (bar.hidden)
      bar.replaceChildren(`The agent answers, but its last sample is of ${sayWhen(live.status.atWallMs, now)}.`);
  } else setText(place, live === null ? 'Connecting …' : `Live · sampled ${sayAgo(ageMs)}`);
  bar.hidden = !isStale;
}

async function pollLive(): Promise<void> {
  const fetched = await fetchJson<LiveAnswer>('api/live', ANSWER_MS);
  if (fetched.ok) {
    if (live !== null && live.status.node.pid !== fetched.answer.status.node.pid) rehearseNextMs = 0;
    if (lost !== null && live !== null) say('Reconnected.');
    live = fetched.answer;
    heardMs = clock.monoMs();
    lost = null;
    samples.heard(live.status);
    show();
    void pollRehearsal();
  } else lost = { sinceMs: lost?.sinceMs ?? heardMs ?? clock.monoMs(), why: fetched.why };
  showLink();
}

function livePaceMs(): number {
  const pods = lost === null ? (live?.explain.pods.length ?? 0) : 0;
  return Math.min(LIVE_SLOWEST_MS, LIVE_MS + LIVE_POD_MS * pods);
}

async function pollHistory(): Promise<void> {
  const fetched = await fetchJson<HistoryAnswer>('api/history', ANSWER_MS);
  if (fetched.ok) samples.steps(fetched.answer);
}

/** The agent rehearses in a process of its own, at most once a minute. */
async function pollRehearsal(): Promise<void> {
  if (live === null || live.status.shutdown.phases.length === 0 || clock.monoMs() < rehearseNextMs) return;
  rehearseNextMs = Number.POSITIVE_INFINITY;
  const fetched = await fetchJson<RehearsalAnswer>('api/rehearsal', ANSWER_MS);
  const isNew = fetched.ok && fetched.answer.why === null;
  rehearseNextMs = clock.monoMs() + (isNew ? REHEARSAL_MS : NOT_REHEARSED_MS);
  if (fetched.ok) rehearsal = fetched.answer;
  show();
}

/** Repeats while the page is visible; a hidden page asks nothing. */
function every(ms: () => number, ask: () => Promise<void>): void {
  let isAsking = false;
  let cancel = (): void => undefined;
  const tick = async (): Promise<void> => {
    cancel();
    if (document.hidden || isAsking) return;
    isAsking = true;
    await ask();
    isAsking = false;
    cancel = clock.after(ms(), () => void tick());
  };
  document.addEventListener('visibilitychange', () => void tick());
  void tick();
}

showLink();
await pollHistory();
every(livePaceMs, pollLive);
every(() => HISTORY_MS, pollHistory);
