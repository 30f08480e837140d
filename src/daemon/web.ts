import type { Effective } from '../config/effective.ts';
import type { Observation } from '../core/observation.ts';
import type { Clock, Findings } from '../ports.ts';
import type { OpenHttp } from '../serve/http.ts';
import type { WebFacts } from '../serve/web.ts';
import { HTTP, httpNotServed } from '../words/finding-own.ts';

type WebNeeds = {
  readonly clock: Clock;
  readonly findings: Findings;
  readonly effective: () => Pick<Effective, 'http' | 'monitoringInterval'>;
};
export type Web = {
  readonly seen: (observation: Observation) => void;
  /** The configuration may have changed: the listener opens, moves or closes. */
  readonly follow: () => void;
  readonly close: () => Promise<void>;
};

/** Whoever has the port may end, and an address may come up later. */
const AGAIN_MS = 10_000;

/** What `http` configures, in memory only where it does. A port that cannot be had is a finding, and is tried again. */
export function createWeb({ clock, findings, effective }: WebNeeds): Web {
  let last: ReturnType<WebFacts['sampled']> = null;
  let open: { readonly server: OpenHttp; readonly key: string } | null = null;
  let moving: Promise<void> = Promise.resolve();
  let isClosed = false;
  let cancelAgain: () => void = () => undefined;
  const facts: WebFacts = {
    clock,
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
  follow();
  return {
    seen: ({ atMs, signals }) => {
      const memory = signals['memory.available'];
      last = { atMs: memory.known ? atMs : (last?.atMs ?? null), memory };
    },
    follow,
    close: () => {
      isClosed = true;
      follow();
      return moving;
    },
  };
}
