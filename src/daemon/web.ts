import type { Effective } from '../config/effective.ts';
import type { Observation } from '../core/observation.ts';
import type { Clock, Findings } from '../ports.ts';
import type { OpenHttp } from '../serve/http.ts';
import type { SignalHistory } from '../serve/signal-history.ts';
import type { PageFacts, WebFacts } from '../serve/web.ts';
import { HTTP, httpNotServed } from '../words/finding-own.ts';

type WebNeeds = {
  readonly clock: Clock;
  readonly findings: Findings;
  readonly report: WebFacts['report'];
  readonly page: Pick<PageFacts, 'live' | 'rehearse'>;
  /** Outlives a reload. */
  readonly history: SignalHistory;
  readonly effective: () => Pick<Effective, 'http' | 'monitoringInterval'>;
};
type Web = {
  /** Call after each look: the listener opens, moves or closes with the configuration. */
  readonly seen: (observation: Observation) => void;
  readonly close: () => Promise<void>;
};

/** The process that has the port may end, and an address may appear later. */
const AGAIN_MS = 10_000;

/** The HTTP server, loaded only if `http` is configured. A port that cannot be opened is a finding, and is retried. */
export function createWeb({ clock, findings, report, page, history, effective }: WebNeeds): Web {
  let last: ReturnType<WebFacts['sampled']> = null;
  let open: { readonly server: OpenHttp; readonly key: string } | null = null;
  let followed: Effective['http'] = null;
  let moving: Promise<void> = Promise.resolve();
  let isClosed = false;
  let cancelAgain: () => void = () => undefined;
  const facts: WebFacts = {
    ...page,
    clock,
    report,
    history: history.answer,
    sampled: () => last,
    mostApartMs: () => effective().monitoringInterval.maxMs,
  };

  const move = async (): Promise<void> => {
    const wanted = isClosed ? null : effective().http;
    const key = JSON.stringify(wanted);
    if (open?.key === key) return;
    cancelAgain();
    await open?.server.close();
    open = null;
    if (wanted === null) {
      findings.clear(HTTP);
      return;
    }
    const { openWeb } = await import('../serve/web.ts');
    const opened = await openWeb(wanted, facts);
    if (opened.known) {
      open = { server: opened.value, key };
      findings.clear(HTTP);
      return;
    }
    findings.raise(httpNotServed(opened.where, opened.detail));
    cancelAgain = clock.after(AGAIN_MS, follow);
  };
  const follow = (): void => {
    moving = moving.then(move);
  };
  return {
    seen: (observation) => {
      const { atMs, signals } = observation;
      const memory = signals['memory.available'];
      if (followed !== effective().http) {
        followed = effective().http;
        follow();
      }
      if (followed === null) history.forget();
      else history.seen(observation);
      last = { atMs: memory.known ? atMs : (last?.atMs ?? null), memory };
    },
    close: () => {
      isClosed = true;
      follow();
      return moving;
    },
  };
}
