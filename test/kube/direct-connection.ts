import type { ApiAnswer, ApiState, Connection } from '../../src/kube/api/connection.ts';
import type { Clock } from '../../src/ports.ts';
import type { PodStore } from './pod-store.ts';

/**
 * A connection without a network, so that hours of it pass in a moment: it answers from the store in a later turn.
 * `refuse` answers in its place where it gives something; null: it does not.
 */
export function directConnection(store: PodStore, clock: Clock) {
  const tells: ((state: ApiState) => void)[] = [];
  const streams = new Set<() => void>();
  let state: ApiState = 'up';
  let delayMs = 1;
  let refuse: (path: string) => ApiAnswer | null = () => null;
  const none = (detail: string): ApiAnswer => ({ kind: 'none', detail, isTimeout: false });
  const connection: Pick<Connection, 'get' | 'stream' | 'state' | 'onState'> = {
    get: (path) =>
      new Promise((resolve) => {
        clock.after(delayMs, () => {
          const refused = state === 'away' ? none('away') : refuse(path);
          const { status, body } = store.list(new URL(path, 'https://stub').searchParams);
          resolve(refused ?? { kind: 'answer', status, body: JSON.parse(JSON.stringify(body)), retryAfterMs: null });
        });
      }),
    stream: (path, { opened, line, ended }) => {
      let stop = (): void => undefined;
      let isOver = false;
      const end = (status: number | null, detail: string): void => {
        if (isOver) return;
        isOver = true;
        stop();
        streams.delete(cut);
        ended({ status, detail });
      };
      const cut = (): void => end(null, 'the connection was closed');
      streams.add(cut);
      clock.after(1, () => {
        if (isOver) return;
        const refused = state === 'away' ? none('away') : refuse(path);
        if (refused !== null) return end(refused.kind === 'answer' ? refused.status : null, 'refused');
        const lines: string[] = [];
        let isOpen = false;
        const emit = (event: object): void => {
          const text = JSON.stringify(event);
          if (!isOpen) lines.push(text);
          else if (!isOver) line(text);
        };
        const watched = store.watch(new URL(path, 'https://stub').searchParams, emit, cut);
        if (typeof watched !== 'function') return end(watched.status, 'too old resource version');
        stop = watched;
        isOpen = true;
        opened();
        for (const text of lines) if (!isOver) line(text);
      });
      return { close: () => end(null, 'closed') };
    },
    state: () => state,
    onState: (tell) => void tells.push(tell),
  };
  return {
    connection,
    refuse: (by: (path: string) => ApiAnswer | null) => {
      refuse = by;
    },
    /** How long a list takes from now on. */
    delay: (ms: number) => {
      delayMs = ms;
    },
    become: (next: ApiState) => {
      if (state === next) return;
      state = next;
      if (next === 'away') for (const cut of [...streams]) cut();
      for (const tell of tells) tell(next);
    },
    cut: () => {
      for (const cut of [...streams]) cut();
    },
    open: () => streams.size,
  };
}
