import type { RecordEntry } from './entry.ts';

/**
 * Whether a reader of shutdowns may go on with this entry. An entry's body is believed when it is read; whoever joins
 * several of them must not lose all for one that a sick disk changed. Kinds that no shutdown is told from are not looked at.
 */
export function isSound(entry: RecordEntry): boolean {
  switch (entry.kind) {
    case 'note':
      return isOneOf(NOTES, 'kind', entry.note);
    case 'decision':
      return isNumber(entry.decision.atMs) && isText(entry.decision.id) && isOneOf(DECISIONS, 'kind', entry.decision);
    case 'outcome':
      return isNumber(entry.outcome.atMs) && isText(entry.outcome.of) && isOneOf(OUTCOMES, 'kind', entry.outcome);
    default:
      return true;
  }
}

type Check = (value: unknown) => boolean;
type Fields = { readonly [name: string]: Check };

const isNumber: Check = (value) => typeof value === 'number' && Number.isFinite(value);
const isText: Check = (value) => typeof value === 'string';
const orNull =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);
const listOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);
const shape =
  (fields: Fields): Check =>
  (value) =>
    isObject(value) && Object.entries(fields).every(([name, check]) => check(value[name]));
const oneOf =
  (...allowed: readonly unknown[]): Check =>
  (value) =>
    allowed.includes(value);

function isObject(value: unknown): value is { readonly [name: string]: unknown } {
  return typeof value === 'object' && value !== null;
}

/** The fields that its kind demands; a kind that is not listed has none. */
function isOneOf(kinds: { readonly [kind: string]: Fields }, name: string, value: unknown): boolean {
  if (!isObject(value) || !isText(value[name])) return false;
  const kind = String(value[name]);
  return shape(Object.hasOwn(kinds, kind) ? (kinds[kind] ?? {}) : {})(value);
}

const isTexts = listOf(isText);
const FACTS: { readonly [what: string]: Fields } = {
  began: {
    tier: oneOf('logind', 'stop'),
    type: orNull(isText),
    phases: listOf(shape({ fromPriority: isNumber, graceSeconds: isNumber })),
    grantedMs: orNull(isNumber),
    limitMs: orNull(isNumber),
  },
  phase: { phase: isNumber, periodMs: isNumber, wantedMs: isNumber, pods: isTexts },
  'phase-over': {
    phase: isNumber,
    tookMs: isNumber,
    by: oneOf('done', 'period', 'volume-timeout', 'cancelled'),
    running: isTexts,
  },
  'stopped-again': { pod: isText, times: isNumber },
  'lock-lost': { detail: isText },
  cancelled: { phase: isNumber, why: isText },
  undone: { started: isTexts, notUndone: isTexts },
  released: { why: oneOf('all-phases-done', 'out-of-time') },
  resumed: { phase: isNumber },
};
const NOTES: { readonly [kind: string]: Fields } = {
  started: { atMs: isNumber },
  stopped: { atMs: isNumber, machine: oneOf('stays', 'goes-down') },
  running: { atMs: isNumber, pods: isTexts },
  shutdown: { atMs: isNumber, fact: (fact) => isOneOf(FACTS, 'what', fact) },
};
const DECISIONS: { readonly [kind: string]: Fields } = {
  'stop-for-shutdown': {
    victim: shape({ uid: isText, namespace: isText, name: isText, priority: isNumber }),
    phase: isNumber,
    graceSeconds: isNumber,
  },
  'release-lock': { why: oneOf('all-phases-done', 'out-of-time') },
};
const OUTCOMES: { readonly [kind: string]: Fields } = {
  ended: { via: isText },
  survived: { left: Array.isArray, detail: isText },
  dropped: { because: isText },
};
