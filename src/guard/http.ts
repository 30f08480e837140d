import type { GuardEffective } from '../config/guard/effective.ts';
import type { Clock, Findings } from '../ports.ts';
import type { OpenHttp } from '../serve/http.ts';
import { HTTP, httpNotServed } from '../words/finding-own.ts';
import type { GuardWebFacts } from './web.ts';

/** The process that has the port may end, and an address may appear later. */
const AGAIN_MS = 10_000;

/** The HTTP server, loaded only if `http` is configured. A port that cannot be opened is a finding, and is retried. */
export function keepHttp(
  listen: GuardEffective['http'],
  facts: GuardWebFacts,
  { clock, findings }: { readonly clock: Clock; readonly findings: Findings },
): { readonly close: () => Promise<void> } {
  let server: OpenHttp | null = null;
  let isClosed = false;
  let cancel = (): void => undefined;

  async function open(): Promise<void> {
    if (listen === null) return;
    const { openGuardWeb } = await import('./web.ts');
    const opened = await openGuardWeb(listen, facts);
    if (opened.known) {
      server = opened.value;
      findings.clear(HTTP);
      if (isClosed) await server.close();
      return;
    }
    findings.raise(httpNotServed(opened.where, opened.detail));
    if (!isClosed) cancel = clock.after(AGAIN_MS, () => void open());
  }
  void open();
  return {
    close: async () => {
      isClosed = true;
      cancel();
      await server?.close();
    },
  };
}
