import { Agent } from 'node:https';
import { type Unknown, unknown } from '../../core/reading.ts';
import { within } from '../../host/clock.ts';
import { watchPath } from '../../host/watch-path.ts';
import type { Clock, Finding, Findings } from '../../ports.ts';
import {
  API_AWAY,
  API_CERTIFICATE,
  API_CREDENTIALS,
  API_REFUSED,
  apiAway,
  certificateEnds,
  credentialsRefused,
  credentialsUnusable,
} from '../../words/finding-api.ts';

import { type ApiAnswer, type ApiGet, type ApiState, type GuardConnection, IN_CLUSTER } from './connection.ts';
import { type Credentials, readCredentials } from './credentials.ts';

import { type Exchanged, exchange, type Wire } from './exchange.ts';
import { CLOSED, type LineStream, openLines } from './line-stream.ts';

type ConnectionNeeds = {
  readonly clock: Clock;
  readonly findings: Findings;
  /** Path of the kubeconfig, or `in-cluster`. */
  readonly kubeconfig: string;
  /** What an API server that is away, or that refuses the credentials, means to whoever connects. */
  readonly words?: {
    readonly away: (why: string) => Finding;
    readonly refused: (where: string) => Finding;
  };
  /** Why a server must not take the place of the one in use; null: it may. Absent: any may. */
  readonly whyNotServer?: (get: ApiGet) => Promise<string | null>;
  /** A random number from 0 to below 1. */
  readonly chance?: () => number;
};
/** One set of credentials, and the warm connections that were made with it. */
type Session = { readonly credentials: Credentials; readonly agent: Agent };

/** A list of 10,000 pods; every other answer is smaller. */
const MAX_BODY_BYTES = 64 * 1024 * 1024;
/**
 * API servers close a connection that was idle for 90 s: a request before that keeps it open, and shows that the server
 * is up.
 */
const KEEP_WARM_MS = 60_000;
/** In `suspect`, and in `away`. */
const PROBE_MS = 2_000;
const PROBE_DEADLINE_MS = 5_000;
const REREAD_MS = 60_000;
/** Longer than any call. */
const RETIRE_MS = 30_000;
const TCP_KEEP_ALIVE_MS = 15_000;
/** Every identity may read it, and a refusal is an answer, too. */
const PROBE_PATH = '/version';
/** G7 */
const LEAST_LIFE = 0.2;

/**
 * The connection to the API server: one socket kept open for requests, and one per stream. Its state is `suspect` until the
 * first answer. Nothing here rejects or throws; without usable credentials, every answer is `none`.
 */
export function openConnection({
  clock,
  findings,
  kubeconfig,
  words = { away: (why) => apiAway(why, true), refused: credentialsRefused },
  whyNotServer = async () => null,
  chance = Math.random,
}: ConnectionNeeds): GuardConnection {
  const changed: ((state: ApiState) => void)[] = [];
  const streams = new Set<LineStream>();
  const retired = new Map<Agent, () => void>();
  let state: ApiState = 'suspect';
  let awayBecause = '';
  let misses = 0;
  let lastCallMs = clock.monoMs();
  let session: Session | null = null;
  let unusable: Unknown | null = null;
  let isClosed = false;
  let isProbing = false;
  /** The last answer to our credentials was 401. */
  let isUnwelcome = false;
  let rereading: Promise<void> | null = null;
  let cancelProbe = (): void => undefined;
  let cancelReread = (): void => undefined;
  let watched: { readonly stamp: string; readonly ends: readonly (() => void)[] } = { stamp: '', ends: [] };

  function setState(next: ApiState, why: string): void {
    if (isClosed || state === next) return;
    state = next;
    if (next === 'away') {
      awayBecause = why;
      findings.raise(words.away(why));
      for (const stream of [...streams]) stream.close(`the API server is away: ${why}`);
    } else if (next === 'up') findings.clear(API_AWAY);
    planProbe(next === 'up' ? KEEP_WARM_MS : soon());
    for (const tell of [...changed]) tell(next);
  }

  const soon = (): number => PROBE_MS * (0.5 + chance());

  function heard(): void {
    misses = 0;
    setState('up', '');
  }
  function missed(detail: string, isRefused: boolean): void {
    misses += 1;
    if (isRefused || misses >= 2) setState('away', detail);
    // From the second missed answer on, it is suspect or away already.
    else if (state === 'up') setState('suspect', detail);
  }

  function planProbe(ms: number): void {
    cancelProbe();
    if (!isClosed) cancelProbe = clock.after(ms, () => void probe());
  }

  /** Keeps the connection warm, or finds out whether the server is back. */
  async function probe(): Promise<void> {
    const idleMs = clock.monoMs() - lastCallMs;
    if (state === 'up' && idleMs < KEEP_WARM_MS) return planProbe(KEEP_WARM_MS - idleMs);
    if (isProbing) return;
    isProbing = true;
    if (session === null) await reread();
    if (session === null) missed(sayUnusable(), true);
    else if (!isClosed) await ask(session, { method: 'GET', path: PROBE_PATH }, PROBE_DEADLINE_MS);
    isProbing = false;
    planProbe(state === 'up' ? KEEP_WARM_MS : soon());
  }

  const sayUnusable = (): string =>
    unusable === null ? 'the credentials have not been read yet' : `${unusable.where}: ${unusable.detail}`;

  /**
   * One request, repeated once if the warm connection had been closed unnoticed. Every write is idempotent by uid or
   * name.
   */
  async function ask({ credentials, agent }: Session, request: Wire, deadlineMs: number): Promise<Exchanged> {
    const startMs = clock.monoMs();
    lastCallMs = startMs;
    const { server, prefix, headers } = credentials;
    const wire = {
      ...server,
      ...request,
      agent,
      path: prefix + request.path,
      headers: { ...headers, ...request.headers },
    };
    const how = { deadlineMs, maxBytes: MAX_BODY_BYTES, heard };
    let exchanged = await exchange(clock, wire, how);
    const leftMs = deadlineMs - (clock.monoMs() - startMs);
    // Not once this is closed: that looks the same, and the agent would open a socket that nothing closes.
    if (exchanged.kind === 'none' && exchanged.isStale && leftMs > 0 && !isClosed) {
      exchanged = await exchange(clock, wire, { ...how, deadlineMs: leftMs });
    }
    if (exchanged.kind === 'none') missed(exchanged.detail, exchanged.isRefused);
    else if (isUnwelcome && exchanged.status !== 401) {
      isUnwelcome = false;
      findings.clear(API_REFUSED);
    }
    return exchanged;
  }

  async function call(request: Wire, deadlineMs: number): Promise<ApiAnswer> {
    const none = (detail: string): ApiAnswer => ({ kind: 'none', detail, isTimeout: false });
    if (isClosed) return none(CLOSED);
    if (state === 'away') return none(`the API server is away: ${awayBecause}`);
    const startMs = clock.monoMs();
    const leftMs = (): number => deadlineMs - (clock.monoMs() - startMs);
    if (session === null) await within(clock, deadlineMs, reread(), () => undefined);
    if (session === null) return none(sayUnusable());
    const first = await ask(session, request, deadlineMs);
    if (first.kind !== 'answer' || first.status !== 401 || leftMs() <= 0 || isClosed) return answerOf(first);
    await within(clock, leftMs(), reread(), () => undefined);
    if (leftMs() <= 0 || session === null) return answerOf(first);
    const second = await ask(session, request, leftMs());
    if (second.kind === 'answer' && second.status === 401) {
      isUnwelcome = true;
      findings.raise(words.refused(kubeconfig));
    }
    return answerOf(second);
  }

  function reread(): Promise<void> {
    rereading ??= takeCredentials().finally(() => {
      rereading = null;
    });
    return rereading;
  }

  /** G7: new credentials are tried before they replace the old ones, whose session ends only then. */
  async function takeCredentials(): Promise<void> {
    const read = await readCredentials(kubeconfig);
    if (isClosed) return;
    cancelReread();
    cancelReread = clock.after(REREAD_MS, () => void reread());
    watchFiles(read.known ? read.value.files : kubeconfig === IN_CLUSTER ? [] : [kubeconfig]);
    if (!read.known) {
      refuse(read);
      return;
    }
    sayLife(read.value.certificate);
    const before = session;
    if (before?.credentials.stamp === read.value.stamp) {
      if (unusable !== null) findings.clear(API_CREDENTIALS);
      unusable = null;
      return;
    }
    const agent = new Agent({
      keepAlive: true,
      keepAliveMsecs: TCP_KEEP_ALIVE_MS,
      maxSockets: 8,
      maxFreeSockets: 2,
      rejectUnauthorized: true,
      secureContext: read.value.secureContext,
    });
    const next = { credentials: read.value, agent };
    if (before !== null && state === 'up') {
      const tried = await exchange(clock, wireOf(next), {
        deadlineMs: PROBE_DEADLINE_MS,
        maxBytes: MAX_BODY_BYTES,
        heard,
      });
      if (isClosed || tried.kind === 'none' || tried.status === 401) {
        agent.destroy();
        const why = tried.kind === 'none' ? tried.detail : 'the API server answers 401';
        if (!isClosed) refuse(unknown('unreadable', kubeconfig, why));
        return;
      }
    }
    if (before !== null && serverOf(before) !== serverOf(next)) {
      const why = await whyNotServer(async (path, deadlineMs) => {
        const wire = { ...wireOf(next, path), headers: { ...read.value.headers, accept: 'application/json' } };
        return answerOf(await exchange(clock, wire, { deadlineMs, maxBytes: MAX_BODY_BYTES, heard: () => undefined }));
      });
      if (isClosed || why !== null) {
        agent.destroy();
        if (why !== null && !isClosed) refuse(unknown('unreadable', kubeconfig, why));
        return;
      }
    }
    if (before !== null) retire(before.agent);
    findings.clear(API_CREDENTIALS);
    unusable = null;
    session = next;
  }

  function refuse(why: Unknown): void {
    unusable = why;
    findings.raise(credentialsUnusable(why.where, why.detail, session !== null));
  }

  function retire(agent: Agent): void {
    const cancel = clock.after(RETIRE_MS, () => {
      retired.delete(agent);
      agent.destroy();
    });
    retired.set(agent, cancel);
  }

  function watchFiles(files: readonly string[]): void {
    const stamp = files.join('\n');
    if (stamp === watched.stamp) return;
    for (const end of watched.ends) end();
    watched = { stamp, ends: files.map((file) => watchPath(file, () => void reread(), clock)) };
  }

  function sayLife(certificate: Credentials['certificate']): void {
    const { fromWallMs, toWallMs } = certificate ?? { fromWallMs: 0, toWallMs: Number.POSITIVE_INFINITY };
    const leftMs = toWallMs - clock.wallMs();
    if (leftMs < (toWallMs - fromWallMs) * LEAST_LIFE) findings.raise(certificateEnds(kubeconfig, leftMs));
    else findings.clear(API_CERTIFICATE);
  }

  planProbe(0);
  return {
    get: (path, deadlineMs) => call({ method: 'GET', path, headers: { accept: 'application/json' } }, deadlineMs),
    send: ({ method, path, contentType, body, deadlineMs }) => {
      const text = JSON.stringify(body);
      const headers = {
        accept: 'application/json',
        'content-type': contentType,
        'content-length': Buffer.byteLength(text),
      };
      return call({ method, path, headers, body: text }, deadlineMs);
    },
    stream: (path, listener, silenceMs) => {
      let stream: LineStream | null = null;
      let isOver = false;
      const end = (why: Parameters<typeof listener.ended>[0]): void => {
        if (isOver) return;
        isOver = true;
        if (stream !== null) streams.delete(stream);
        if (why.status === 401) void reread();
        listener.ended(why);
      };
      // Certificates and tokens are read before each connect (dependencies.md 4.4).
      void reread().then(() => {
        if (isOver) return;
        if (isClosed || session === null || state === 'away') {
          const away = `the API server is away: ${awayBecause}`;
          end({ status: null, detail: isClosed ? CLOSED : session === null ? sayUnusable() : away });
          return;
        }
        const { server, prefix, headers, secureContext } = session.credentials;
        const options = {
          ...server,
          path: prefix + path,
          headers: { ...headers, accept: 'application/json' },
          secureContext,
          rejectUnauthorized: true,
        };
        stream = openLines(clock, options, { ...listener, ended: end, heard, failed: missed }, silenceMs);
        streams.add(stream);
      });
      return {
        close: () => {
          if (stream === null) end({ status: null, detail: CLOSED });
          else stream.close(CLOSED);
        },
      };
    },
    state: () => state,
    onState: (tell) => void changed.push(tell),
    close: () => {
      isClosed = true;
      cancelProbe();
      cancelReread();
      for (const end of watched.ends) end();
      for (const stream of [...streams]) stream.close(CLOSED);
      session?.agent.destroy();
      for (const [agent, cancel] of retired) {
        cancel();
        agent.destroy();
      }
    },
  };
}

function wireOf({ credentials, agent }: Session, path = PROBE_PATH): Wire {
  const { server, prefix, headers } = credentials;
  return { ...server, method: 'GET', path: prefix + path, agent, headers };
}

const serverOf = ({ credentials: { server, prefix } }: Session): string => JSON.stringify([server, prefix]);

function answerOf(exchanged: Exchanged): ApiAnswer {
  if (exchanged.kind === 'answer') return exchanged;
  const { kind, detail, isTimeout, isTooMuch } = exchanged;
  return { kind, detail, isTimeout, ...(isTooMuch ? { isTooMuch } : {}) };
}
