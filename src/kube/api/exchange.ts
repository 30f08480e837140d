import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { type RequestOptions, request as send } from 'node:https';
import { sayCause } from '../../core/reading.ts';
import { codeOf } from '../../host/file-error.ts';
import type { Clock } from '../../ports.ts';
import type { ApiAnswer } from './connection.ts';

/** A request as it is sent; `body` is JSON. */
export type Wire = RequestOptions & { readonly body?: string };
type Answer = Extract<ApiAnswer, { readonly kind: 'answer' }>;
export type Exchanged =
  | Answer
  | {
      readonly kind: 'none';
      readonly detail: string;
      readonly isTimeout: boolean;
      /** Nothing listens there, or there is no route: the next request would fail the same way. */
      readonly isRefused: boolean;
      /** The server had closed the warm connection before it could see the request. */
      readonly isStale: boolean;
      readonly isTooMuch?: true;
    };

const UNREACHABLE = new Set(['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'ENOTFOUND', 'EAI_AGAIN']);
const BROKEN = new Set(['ECONNRESET', 'EPIPE']);
/**
 * What a server or proxy says in a bad moment may hold for minutes, and meanwhile nothing would be known of the pods. Who asks
 * again and again has a back-off of its own.
 */
const MAX_RETRY_AFTER_MS = 10_000;

/**
 * One request and its whole answer within `deadlineMs`, by a timer of our own: a request's own timers restart with each
 * new socket (beside-a-kubelet.md C1). `heard` is called if the answer arrived completely. Never rejects.
 */
export function exchange(
  clock: Clock,
  wire: Wire,
  {
    deadlineMs,
    maxBytes,
    heard,
  }: { readonly deadlineMs: number; readonly maxBytes: number; readonly heard: () => void },
): Promise<Exchanged> {
  return new Promise<Exchanged>((resolve) => {
    const { body, ...options } = wire;
    let cancel = (): void => undefined;
    const finish = (exchanged: Exchanged): void => {
      cancel();
      resolve(exchanged);
    };
    const fail = (
      detail: string,
      kinds: Partial<Omit<Extract<Exchanged, { readonly kind: 'none' }>, 'kind' | 'detail'>>,
    ) => finish({ kind: 'none', detail, isTimeout: false, isRefused: false, isStale: false, ...kinds });
    let isArriving = false;
    const request = send(options, (response) => {
      response.once('data', () => {
        isArriving = true;
      });
      collect(response, maxBytes, (text, problem) => {
        const { statusCode: status = 0, headers } = response;
        const retryAfterMs = retryAfterOf(headers, clock.wallMs());
        if (problem === 'broken') return fail('the answer broke off', {});
        heard();
        finish({ kind: 'answer', status, retryAfterMs, ...bodyOf(text, problem) });
      });
    });
    request.on('error', (cause) => {
      const code = codeOf(cause) ?? '';
      fail(sayCause(cause), {
        isRefused: isUnreachable(cause),
        isStale: request.reusedSocket && BROKEN.has(code),
      });
    });
    cancel = clock.after(deadlineMs, () => {
      // An answer that arrived while this process was stalled is read first, and still counts.
      cancel = clock.after(0, () => {
        if (isArriving) fail(`not all of the answer within ${deadlineMs} ms`, { isTimeout: true, isTooMuch: true });
        else fail(`no answer within ${deadlineMs} ms`, { isTimeout: true });
        request.destroy();
      });
    });
    request.end(body);
  }).catch((cause: unknown) => ({
    // For requests that cannot be sent at all, such as a path with a space.
    kind: 'none' as const,
    detail: sayCause(cause),
    isTimeout: false,
    isRefused: false,
    isStale: false,
  }));
}

/** True if every address failed: an AggregateError has one cause per address. */
export function isUnreachable(cause: unknown): boolean {
  const causes: readonly unknown[] = cause instanceof AggregateError ? cause.errors : [cause];
  return causes.length > 0 && causes.every((each) => UNREACHABLE.has(codeOf(each) ?? ''));
}

/** How the problem of an answer begins that is larger than it may be. */
const TOO_LARGE = 'larger than';

/** The text, or null with the reason; `broken`: the connection was lost before the end. */
export function collect(
  response: IncomingMessage,
  maxBytes: number,
  done: (text: string | null, problem: string | null) => void,
): void {
  const chunks: Buffer[] = [];
  let length = 0;
  response.on('data', (chunk: Buffer) => {
    length += chunk.length;
    if (length <= maxBytes) chunks.push(chunk);
    else {
      chunks.length = 0;
      done(null, `${TOO_LARGE} ${maxBytes / 1024 / 1024} MiB`);
      response.destroy();
    }
  });
  response.on('error', () => done(null, 'broken'));
  response.on('close', () => {
    if (!response.complete) done(null, 'broken');
  });
  response.on('end', () => done(Buffer.concat(chunks).toString('utf8'), null));
}

function bodyOf(text: string | null, problem: string | null): Pick<Answer, 'body' | 'problem' | 'isTooMuch'> {
  if (problem?.startsWith(TOO_LARGE)) return { body: null, problem, isTooMuch: true };
  if (text === null || problem !== null) return { body: null, problem: problem ?? 'empty' };
  try {
    return { body: JSON.parse(text) };
  } catch {
    return { body: null, problem: text === '' ? 'empty' : 'not JSON' };
  }
}

/** Seconds, or an HTTP date. */
export function retryAfterOf(headers: IncomingHttpHeaders, nowWallMs: number): number | null {
  const said = headers['retry-after']?.trim();
  if (said === undefined || said === '') return null;
  const ms = /^\d{1,9}$/.test(said) ? Number(said) * 1_000 : Date.parse(said) - nowWallMs;
  return Number.isNaN(ms) ? null : Math.min(MAX_RETRY_AFTER_MS, Math.max(0, ms));
}
