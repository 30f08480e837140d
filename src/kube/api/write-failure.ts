import { isNumber, isObject, isText } from '../../core/shape.ts';
import { escapeUnsafe } from '../../core/units/escape.ts';
import type { Findings } from '../../ports.ts';
import {
  type ApiRight,
  NOT_OUR_NODE,
  notOurNode,
  rightId,
  rightMissing,
  writeDenied,
} from '../../words/finding-writes.ts';
import type { ApiAnswer } from './connection.ts';

/** Why a write was not done, or may not have been done. `text` is the server's, bounded and escaped. */
export type NotDone =
  /**
   * Not an outage (C3). Null: the server does not know who we are (401). `isDenied`: by a webhook, a policy or a proxy, so that
   * the right is not known to be missing.
   */
  | { readonly kind: 'forbidden'; readonly right: ApiRight | null; readonly isDenied?: true; readonly text: string }
  /** The server is busy, or there was a conflict: the same write may succeed later (C2). Null: it gives no time. */
  | { readonly kind: 'overload'; readonly retryAfterMs: number | null; readonly text: string }
  /** No answer in time, or no connection: it may have been done. */
  | { readonly kind: 'unheard'; readonly isTimeout: boolean; readonly text: string }
  /** The server will never accept this write. */
  | { readonly kind: 'rejected'; readonly status: number; readonly text: string }
  /** The node of this name is not this machine (D3): nothing was sent. */
  | { readonly kind: 'not-our-node'; readonly text: string };

/** The parts of a v1 Status that are used. */
type Said = {
  readonly reason: string;
  readonly text: string;
  /** The object of the answer; '' = not given. */
  readonly about: { readonly kind: string; readonly name: string };
  readonly causes: readonly { readonly reason: string; readonly message: string }[];
  readonly retryAfterMs: number | null;
};

const TEXT_MAX = 500;
const CAUSES_MAX = 20;
/** RFC 6585 and Status: the longest requested delay that is respected. */
const RETRY_MAX_MS = 600_000;

/** The text may come from webhooks and tenants' names. */
const bounded = (text: unknown): string => (isText(text) ? escapeUnsafe(text.slice(0, TEXT_MAX)) : '');
const field = (value: unknown, name: string): unknown => (isObject(value) ? value[name] : undefined);

export function readSaid(answer: Extract<ApiAnswer, { kind: 'answer' }>): Said {
  const { body, status, retryAfterMs } = answer;
  const details = field(body, 'details');
  const causes = field(details, 'causes');
  const seconds = field(details, 'retryAfterSeconds');
  const asked = retryAfterMs ?? (isNumber(seconds) && seconds > 0 ? seconds * 1_000 : null);
  return {
    reason: bounded(field(body, 'reason')),
    text: bounded(field(body, 'message')) || `status ${status}`,
    about: { kind: bounded(field(details, 'kind')), name: bounded(field(details, 'name')) },
    causes: (Array.isArray(causes) ? causes.slice(0, CAUSES_MAX) : []).map((cause) => ({
      reason: bounded(field(cause, 'reason')),
      message: bounded(field(cause, 'message')),
    })),
    retryAfterMs: asked === null ? null : Math.min(asked, RETRY_MAX_MS),
  };
}

/**
 * Null: it was done. `right`: the right that it needs. Only the caller knows whether a 404 or 409 means more than this.
 */
export function notDone(answer: ApiAnswer, right: ApiRight | null): NotDone | null {
  if (answer.kind === 'none') {
    return { kind: 'unheard', isTimeout: answer.isTimeout, text: escapeUnsafe(answer.detail.slice(0, TEXT_MAX)) };
  }
  const { status } = answer;
  if (status >= 200 && status < 300) return null;
  const { text, causes, retryAfterMs, reason } = readSaid(answer);
  // A namespace that is being deleted accepts nothing new, whatever our rights.
  if (causes.some((cause) => cause.reason === 'NamespaceTerminating')) return { kind: 'rejected', status, text };
  if (status === 401) return { kind: 'forbidden', right: null, text };
  if (status === 403) {
    return { kind: 'forbidden', right, ...(right === null || isMissing(right, text) ? {} : { isDenied: true }), text };
  }
  // The server gave up waiting for itself: what it had begun may still be done.
  if (status === 504 || reason === 'Timeout') return { kind: 'unheard', isTimeout: true, text };
  if (status === 409 || status === 429 || status >= 500) return { kind: 'overload', retryAfterMs, text };
  return { kind: 'rejected', status, text };
}

/** In the words of the API server's own authorization. */
function isMissing(right: ApiRight, text: string): boolean {
  const [verb = '', resource = ''] = right.split(' ');
  const [kind = ''] = resource.split('/');
  return new RegExp(`^${kind}(?: "[^"]*")? is forbidden: User .* cannot ${verb} resource "${resource}"`).test(text);
}

/** The object itself does not exist. A 404 that names no object means that there is no such path. */
export function isGone(answer: ApiAnswer, name: string, kind: 'pod' | 'node' = 'pod'): boolean {
  if (answer.kind !== 'answer' || answer.status !== 404) return false;
  const { reason, about } = readSaid(answer);
  return reason === 'NotFound' && about.name === name && [`${kind}s`, kind].includes(about.kind);
}

/** Another object has the name: the uid in the request is not its uid. */
export function isOfAnotherUid(answer: ApiAnswer): boolean {
  if (answer.kind !== 'answer' || (answer.status !== 409 && answer.status !== 422)) return false;
  return /\bUID\b|metadata\.uid\b/.test(readSaid(answer).text);
}

/**
 * Reports the result of a write as findings that a person should know; null: it succeeded with this right. The connection
 * reports that the server does not know us at all (401), or is away. `right` null: the node was read, and nothing had to be sent.
 */
export function reportWrite(
  findings: Pick<Findings, 'raise' | 'clear'>,
  right: ApiRight | null,
  failed: NotDone | null,
): void {
  if (failed?.kind === 'not-our-node') findings.raise(notOurNode(failed.text));
  else if (failed?.kind === 'forbidden' && failed.right !== null) {
    // What denies the end of one pod says nothing about the next.
    if (failed.isDenied !== true) findings.raise(rightMissing(failed.right, failed.text));
    else if (!failed.right.includes('pods')) findings.raise(writeDenied(failed.right, failed.text));
  } else if (failed === null) {
    if (right !== null) findings.clear(rightId(right));
    for (const id of [rightId('get nodes'), NOT_OUR_NODE]) findings.clear(id);
  }
}
