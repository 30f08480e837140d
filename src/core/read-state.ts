import { SHORTAGES } from './shortage.ts';
import { SIGNAL_FACTS, SIGNALS } from './signal.ts';
import type { State } from './state.ts';

/** What a saved state must look like to be trusted; anything else is a corrupt file. Bounds as in the docstrings of State. */
export function readState(json: unknown): State | null {
  // What an older version did not keep yet has not happened.
  return isState(json) ? { ...NOTHING_KEPT, ...json } : null;
}

const NOTHING_KEPT: Pick<State, 'reclaims' | 'proofs' | 'trail'> = { reclaims: [], proofs: {}, trail: {} };
type Check = (value: unknown) => boolean;
const LIST_MAX = 10_000;

const isNumber: Check = (value) => typeof value === 'number' && Number.isFinite(value);
const isText: Check = (value) => typeof value === 'string' && value.length <= 4_096;
const isTrue: Check = (value) => typeof value === 'boolean';
const isNumberOrNull: Check = (value) => value === null || isNumber(value);
const isOneOf =
  (...allowed: readonly unknown[]): Check =>
  (value) =>
    allowed.includes(value);
const listOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.length <= LIST_MAX && value.every(check);
const recordOf =
  (isName: Check, check: Check): Check =>
  (value) =>
    isObject(value) && Object.entries(value).every(([name, entry]) => isName(name) && check(entry));
const shape =
  (fields: { readonly [name: string]: Check }): Check =>
  (value) =>
    isObject(value) && Object.entries(fields).every(([name, check]) => check(value[name]));
/** One shape for each value of `kind`. */
const union =
  (kinds: { readonly [kind: string]: { readonly [name: string]: Check } }): Check =>
  (value) => {
    if (!isObject(value)) return false;
    const kind = value['kind'];
    const fields = typeof kind === 'string' && Object.hasOwn(kinds, kind) ? kinds[kind] : undefined;
    return fields !== undefined && shape(fields)(value);
  };

function isObject(value: unknown): value is { readonly [name: string]: unknown } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);

const isSignalName = isOneOf(...SIGNALS);
const isThresholdName = isOneOf(
  ...SIGNALS.flatMap((signal) =>
    ['evictionHard', 'evictionSoft'].flatMap((field) => [`${signal}/${field}`, `${signal}/${field}/twin`]),
  ),
);
const isConditionName = isOneOf(...SIGNALS.map((signal) => SIGNAL_FACTS[signal].condition));
const isQuantity = shape({
  nanos: (value) => typeof value === 'string' && /^-?\d{1,60}$/.test(value),
  format: isOneOf('binary', 'decimal', 'exponent'),
  text: (v) => v === null || isText(v),
});
const isMetThreshold = shape({
  id: isThresholdName,
  signal: isSignalName,
  isHard: isTrue,
  limit: isQuantity,
  target: isQuantity,
  available: isNumber,
  sinceMs: isNumber,
});
const isEviction = shape({
  decision: isText,
  decidedMs: isNumber,
  victim: shape({
    uid: isText,
    namespace: isText,
    name: isText,
    qos: isOneOf('Guaranteed', 'Burstable', 'BestEffort'),
    priority: isNumber,
    boundTo: optional(isText),
  }),
  signalledMs: optional(isNumber),
  killedMs: optional(isNumber),
  graceEndsMs: isNumber,
  deadlineMs: isNumber,
  settledMs: isNumberOrNull,
  cause: union({
    threshold: { threshold: isMetThreshold },
    'over-limit': { limit: isOneOf('emptydirfs', 'ephemeralpodfs', 'ephemeralcontainerfs') },
  }),
  alsoFor: optional(listOf(isMetThreshold)),
});
const isStateShape = shape({
  schema: isOneOf(1),
  bootId: isText,
  nextDecision: (value) => Number.isSafeInteger(value),
  firstMetMs: recordOf(isThresholdName, isNumber),
  unmetSinceMs: recordOf(isThresholdName, isNumber),
  lastLookMs: isNumberOrNull,
  unresolved: listOf(isThresholdName),
  conditionLastMetMs: recordOf(isConditionName, isNumber),
  lastSample: recordOf(isSignalName, shape({ available: isNumber, capacity: isNumber, sampledAtMs: isNumber })),
  failedLooks: recordOf(isSignalName, shape({ count: isNumber, sinceMs: isNumber })),
  spent: listOf(shape({ atMs: isNumber, cpuMs: isNumber })),
  dryDropped: listOf(isThresholdName),
  dryOverLimit: listOf(isText),
  act: union({
    idle: {},
    evicting: { evictions: listOf(isEviction) },
  }),
  reclaims: optional(listOf(shape({ decision: isText, threshold: isMetThreshold, deadlineMs: isNumber }))),
  proofs: optional(
    recordOf(
      isOneOf(...SHORTAGES),
      shape({ decision: isText, atMs: isNumber, available: recordOf(isSignalName, isNumber) }),
    ),
  ),
  heldBackMs: optional(recordOf(isOneOf(...SHORTAGES), isNumber)),
  trail: optional(recordOf(isSignalName, listOf(shape({ atMs: isNumber, available: isNumber })))),
  ownerKills: listOf(shape({ ownerKey: isText, atMs: isNumber })),
  stops: listOf(
    shape({
      decision: isText,
      decidedMs: isNumber,
      uid: isText,
      graceEndsMs: isNumber,
      waitEndsMs: isNumber,
      graceSeconds: optional(isNumber),
      endsMs: optional(isNumber),
      chain: optional(shape({ after: listOf(isText), beforeSeconds: isNumber, restSeconds: isNumber })),
    }),
  ),
  shutdown: union({
    unarmed: { why: isText },
    armed: { delayMaxMs: isNumber },
    stopping: {
      startedMs: isNumber,
      phases: listOf(shape({ fromPriority: isNumber, graceSeconds: isNumber })),
      delayMaxMs: isNumberOrNull,
      tier: isOneOf('logind', 'stop'),
      mustEndMs: isNumberOrNull,
      again: recordOf(isText, isNumber),
      assigned: optional(recordOf(isText, isNumber)),
      cancelledMs: isNumberOrNull,
      phase: isNumber,
      phaseStartedMs: isNumber,
      phaseEndsMs: isNumber,
      pending: listOf(isText),
      group: listOf(isText),
      wait: union({ next: {}, stops: {}, volumes: { sinceMs: isNumber, lookMs: isNumber } }),
    },
    released: { atMs: isNumber },
  }),
});

function isState(json: unknown): json is State {
  return isStateShape(json);
}
