import { clock } from './clock.ts';
import { announce, byId, setClass, setText, timeOf } from './dom.ts';
import { sayAgo, sayFor, sayWhen } from './say.ts';

/** Between requests, at least, and while nobody answers. */
export const LIVE_MS = 2_000;
export const ANSWER_MS = 6_000;
/** What is shown is at most some 10 s old: if it is older, whoever answers hangs. */
const OLD_MS = 30_000;

export type LiveNeeds<T> = {
  readonly words: { readonly who: string; readonly look: string; readonly looked: string };
  /** When what it shows was so, by the clock of whoever answers. */
  readonly atWallMs: (answer: T) => number;
  readonly heard: (answer: T, before: T | null) => void;
};
export type Live<T> = {
  readonly last: () => T | null;
  readonly isLost: () => boolean;
  /** The clock of whoever answers; this page may be on another machine. */
  readonly nowWallMs: () => number;
  readonly ask: () => Promise<void>;
};

/** `/api/live`, and at the top of the page how old it is, or since when nobody answers. */
export function createLive<T extends { readonly nowWallMs: number }>(needs: LiveNeeds<T>): Live<T> {
  const { words, atWallMs, heard } = needs;
  let last: T | null = null;
  /** By this page's clock. */
  let heardMs: number | null = null;
  let lost: { readonly sinceMs: number; readonly why: string } | null = null;

  const nowWallMs = (): number =>
    last === null || heardMs === null ? clock.wallMs() : last.nowWallMs + clock.monoMs() - heardMs;

  function showLink(): void {
    const place = byId('link');
    const bar = byId('lost');
    const now = nowWallMs();
    const ofMs = last === null ? now : atWallMs(last);
    const isOld = lost === null && now - ofMs > OLD_MS;
    const isStale = lost !== null || isOld;
    setClass(document.body, isStale && last !== null ? 'stale' : '');
    setClass(place, `link ${isStale ? 'bad' : last === null ? '' : 'ok'}`);
    if (lost !== null) {
      setText(place, last === null ? 'No connection' : 'Connection lost');
      const { sinceMs, why } = lost;
      const sinceWallMs = now - (clock.monoMs() - sinceMs);
      const what =
        last === null
          ? ['No answer yet: ']
          : [
              'Connection lost since ',
              timeOf(sinceWallMs, sayWhen(sinceWallMs, now)),
              `. Everything below is as of ${sayWhen(ofMs, now)}. `,
            ];
      if (bar.hidden || bar.dataset['why'] !== why)
        bar.replaceChildren(...what, `${why}. Trying again every ${sayFor(LIVE_MS)}.`);
      bar.dataset['why'] = why;
    } else if (isOld) {
      setText(place, `Old ${words.look}`);
      if (bar.hidden)
        bar.replaceChildren(`The ${words.who} answers, but its last ${words.look} is of ${sayWhen(ofMs, now)}.`);
    } else setText(place, last === null ? 'Connecting …' : `Live · ${words.looked} ${sayAgo(Math.max(0, now - ofMs))}`);
    bar.hidden = !isStale;
  }

  showLink();
  return {
    last: () => last,
    isLost: () => lost !== null,
    nowWallMs,
    ask: async () => {
      const fetched = await fetchJson<T>('api/live', ANSWER_MS, words.who);
      if (fetched.ok) {
        const before = last;
        if (lost !== null && before !== null) announce('Reconnected.');
        last = fetched.answer;
        heardMs = clock.monoMs();
        lost = null;
        heard(last, before);
      } else lost = { sinceMs: lost?.sinceMs ?? heardMs ?? clock.monoMs(), why: fetched.why };
      showLink();
    },
  };
}

/** The result of a request: its answer, or why there is none, in words. */
type Fetched<T> =
  | { readonly ok: true; readonly answer: T }
  | { readonly ok: false; readonly why: string; readonly isReached: boolean };

/** Fetches one JSON document of who serves this page. Never rejects. */
export async function fetchJson<T>(path: string, timeoutMs: number, who: string): Promise<Fetched<T>> {
  try {
    const response = await fetch(path, { signal: AbortSignal.timeout(timeoutMs), cache: 'no-store' });
    const body: unknown = await response.json();
    // The page and who serves it are one program; only a page from before an upgrade sees another schema.
    if (response.ok && isOurs(body)) return { ok: true, answer: body as T };
    return { ok: false, why: errorIn(body, who), isReached: true };
  } catch (cause) {
    const isLate = cause instanceof DOMException && cause.name === 'TimeoutError';
    return {
      ok: false,
      why: isLate ? `no answer within ${timeoutMs / 1_000} seconds` : `the ${who} cannot be reached`,
      isReached: false,
    };
  }
}

const isOurs = (body: unknown): boolean =>
  typeof body === 'object' && body !== null && 'schema' in body && body.schema === 1;

function errorIn(body: unknown, who: string): string {
  if (typeof body === 'object' && body !== null && 'error' in body) return String(body.error);
  return `the ${who} runs another version: reload this page`;
}

/** Repeats while the page is visible; a hidden page asks nothing. */
export function every(ms: () => number, ask: () => Promise<void>): void {
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
