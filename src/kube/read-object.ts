import { known, type Reading, unknown } from '../core/reading.ts';
import type { ApiAnswer } from './connection.ts';
import { messageOf } from './line-stream.ts';

const NOT_FOUND = 404;

/** The object that was asked for; null: it does not exist. `where`: its path. */
export function objectIn(answer: ApiAnswer, where: string): Reading<unknown> {
  if (answer.kind === 'none') return unknown(answer.isTimeout ? 'timed-out' : 'unreadable', where, answer.detail);
  if (answer.status === NOT_FOUND) return known(null);
  if (answer.status !== 200 || answer.problem !== undefined) {
    return unknown('unreadable', where, answer.problem ?? messageOf(answer.body));
  }
  return known(answer.body);
}
