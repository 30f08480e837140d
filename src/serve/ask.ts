import { connect } from 'node:net';
import { isObject, parseJson } from '../core/shape.ts';
import { distrustSocket } from '../host/own/own-directory.ts';
import type { Clock } from '../ports.ts';

export type Asked =
  | { readonly kind: 'answer'; readonly answer: unknown }
  /** `isStale`: the socket file exists and nothing listens. */
  | { readonly kind: 'not-running'; readonly isStale: boolean; readonly detail: string }
  | { readonly kind: 'failed'; readonly detail: string };
export type Request =
  | { readonly ask: 'status' | 'watch' }
  /** `forMs`: of the guard, how much of the last hour; absent: what is so now. */
  | { readonly ask: 'observe'; readonly forMs?: number }
  /** Of the guard. */
  | { readonly ask: 'explain'; readonly node: string };

export type AskOptions = {
  readonly answerMs?: number;
  /** Of the daemon, where that is not root. */
  readonly user?: string;
};

/** The daemon answers within a look; a hung one is not waited for longer. */
const ANSWER_MS = 5_000;
/** More than the status of thousands of pods needs. */
const ANSWER_CHARS = 64 * 1024 * 1024;

/** One question, one answer. Never rejects. */
export function askDaemon(path: string, request: Request, clock: Clock, options: AskOptions = {}): Promise<Asked> {
  return new Promise((resolve) => {
    const heard = (asked: Asked): void => {
      resolve(asked);
      stop();
    };
    const stop = watchDaemon(path, request, clock, heard, options);
  });
}

/**
 * Delivers each answer as it arrives, and nothing after the first failure. The returned function closes the connection.
 * `heard` is never called within this call. A peer that is neither root nor `user` is not asked: its answer could keep an
 * agent from starting.
 */
export function watchDaemon(
  path: string,
  request: Request,
  clock: Clock,
  heard: (asked: Asked) => void,
  { answerMs = ANSWER_MS, user }: AskOptions = {},
): () => void {
  const distrusted = distrustSocket(path, user);
  if (distrusted !== null) return clock.after(0, () => heard({ kind: 'failed', detail: distrusted }));
  let received = '';
  let isOver = false;
  const socket = connect(path);
  const end = (last: Asked | null): void => {
    if (isOver) return;
    isOver = true;
    cancel();
    socket.destroy();
    if (last !== null) heard(last);
  };
  const late = (): void => end({ kind: 'failed', detail: `${path}: no answer within ${answerMs / 1000} s` });
  let cancel = clock.after(answerMs, late);
  socket.setEncoding('utf8');
  socket.on('connect', () => socket.write(`${JSON.stringify(request)}\n`));
  socket.on('error', (error) => end(connectFailure(path, error)));
  socket.on('close', () => end({ kind: 'failed', detail: `${path}: the daemon closed the connection` }));
  socket.on('data', (chunk: string) => {
    received += chunk;
    if (received.length > ANSWER_CHARS) end({ kind: 'failed', detail: `${path}: the answer is too long` });
    for (let at = received.indexOf('\n'); at >= 0 && !isOver; at = received.indexOf('\n')) {
      const asked = parseAnswer(path, received.slice(0, at));
      received = received.slice(at + 1);
      cancel();
      cancel = clock.after(answerMs, late);
      if (asked.kind === 'answer') heard(asked);
      else end(asked);
    }
  });
  return () => end(null);
}

function connectFailure(path: string, error: Error): Asked {
  const code = 'code' in error ? error.code : null;
  const detail = `${path}: ${error.message}`;
  if (code === 'ENOENT') return { kind: 'not-running', isStale: false, detail };
  // ENOTSOCK does not occur: connecting to a file that is not a socket is refused too.
  if (code === 'ECONNREFUSED') return { kind: 'not-running', isStale: true, detail };
  const who = code === 'EACCES' ? ': only root and the group nodewarden may query it' : '';
  return { kind: 'failed', detail: `${detail}${who}` };
}

function parseAnswer(path: string, line: string): Asked {
  const json = parseJson(line);
  if (json === null) return { kind: 'failed', detail: `${path}: another program answers there` };
  if (isObject(json) && 'answer' in json) return { kind: 'answer', answer: json['answer'] };
  const error = isObject(json) && 'error' in json ? String(json['error']) : 'no answer';
  return { kind: 'failed', detail: `${path}: ${error}` };
}
