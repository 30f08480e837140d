import type { IncomingMessage } from 'node:http';
import { type RequestOptions, request as send } from 'node:https';
import { sayCause } from '../../core/reading.ts';
import { isObject, isText, parseJson } from '../../core/shape.ts';
import type { Clock } from '../../ports.ts';
import type { ApiStream } from './connection.ts';
import { collect, isUnreachable, retryAfterOf } from './exchange.ts';

type Listener = Parameters<ApiStream>[1];
type Ended = Parameters<Listener['ended']>[0];
export type LineStream = { readonly close: (detail: string) => void };

const CONNECT_MS = 10_000;
const KEEP_ALIVE_MS = 15_000;
/** Twice the largest event: an object has at most 4 MiB. */
const MAX_LINE = 8 * 1024 * 1024;
const MAX_REFUSAL_BYTES = 64 * 1024;

/**
 * An endless response on a socket of its own. `ended` runs once, also after `close`, and no line follows it. `failed` runs
 * before it if no answer came at all.
 */
export function openLines(
  clock: Clock,
  options: RequestOptions,
  listener: Listener & { readonly heard: () => void; readonly failed: (detail: string, isRefused: boolean) => void },
  silenceMs: number,
): LineStream {
  let isOver = false;
  let hasAnswer = false;
  let lastMs = clock.monoMs();
  let cancel: () => void;

  const finish = (why: Ended, isRefused = false): void => {
    if (isOver) return;
    isOver = true;
    cancel();
    request.destroy();
    if (!hasAnswer && why.detail !== CLOSED) listener.failed(why.detail, isRefused);
    listener.ended(why);
  };
  const broke = (detail: string): void => finish({ status: null, detail });
  /** One timer for the whole stream. */
  const watchSilence = (ms: number): void => {
    cancel = clock.after(ms, () => {
      const leftMs = lastMs + silenceMs - clock.monoMs();
      if (leftMs > 0) watchSilence(leftMs);
      else broke(`nothing for ${Math.round(silenceMs / 1_000)} s`);
    });
  };

  const request = send({ ...options, agent: false }, (response) => {
    hasAnswer = true;
    if (isOver) return;
    cancel();
    listener.heard();
    lastMs = clock.monoMs();
    const { statusCode: status = 0 } = response;
    if (status !== 200) {
      cancel = clock.after(CONNECT_MS, () => finish({ status, detail: 'its text did not come' }));
      refusalOf(response, clock.wallMs(), finish);
      return;
    }
    watchSilence(silenceMs);
    listener.opened();
    const take = lineSplitter(
      (line) => {
        if (!isOver) listener.line(line);
      },
      () => broke(`a line longer than ${MAX_LINE / 1024 / 1024} MiB`),
    );
    response.setEncoding('utf8');
    response.on('data', (text: string) => {
      if (isOver) return;
      lastMs = clock.monoMs();
      listener.heard();
      take(text);
    });
    response.on('error', (cause) => broke(sayCause(cause)));
    response.on('close', () => broke(response.complete ? 'the server ended it' : 'the connection was closed'));
  });
  request.on('socket', (socket) => socket.setKeepAlive(true, KEEP_ALIVE_MS));
  request.on('error', (cause) => finish({ status: null, detail: sayCause(cause) }, isUnreachable(cause)));
  cancel = clock.after(CONNECT_MS, () => broke(`no answer within ${CONNECT_MS / 1_000} s`));
  request.end();
  return { close: (detail) => finish({ status: null, detail }) };
}

/** The `detail` of a stream that this side closed. */
export const CLOSED = 'closed';

function lineSplitter(line: (text: string) => void, tooLong: () => void): (text: string) => void {
  let parts: string[] = [];
  let length = 0;
  return (text) => {
    let from = 0;
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', from)) {
      parts.push(text.slice(from, end));
      line(parts.join(''));
      parts = [];
      length = 0;
      from = end + 1;
    }
    if (from === text.length) return;
    parts.push(text.slice(from));
    length += text.length - from;
    if (length <= MAX_LINE) return;
    parts = [];
    tooLong();
  };
}

function refusalOf(response: IncomingMessage, nowWallMs: number, finish: (why: Ended) => void): void {
  const { statusCode: status = 0, headers } = response;
  const retryAfterMs = retryAfterOf(headers, nowWallMs);
  collect(response, MAX_REFUSAL_BYTES, (text) => {
    finish({ status, detail: messageOf(parseJson(text ?? '')), ...(retryAfterMs === null ? {} : { retryAfterMs }) });
  });
}

/** The message of a Status object. */
export function messageOf(body: unknown): string {
  return isObject(body) && isText(body['message']) ? body['message'].slice(0, 1_000) : 'no reason given';
}
