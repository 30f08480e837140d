import { SHORTAGES } from '../eviction/shortage.ts';
import type { MetThreshold } from '../eviction/threshold.ts';
import type { Unsaid, Victim } from '../pod/pod.ts';
import {
  listOf as anyListOf,
  type Check,
  isFlag,
  isNumber,
  isOneOf,
  optional,
  orNull,
  recordOf,
  shape,
  union,
} from '../shape.ts';
import { SIGNAL_FACTS, SIGNALS, type SignalSample } from '../signal.ts';
import type { Quantity } from '../units/quantity.ts';
import type {
  EscapedFrom,
  Eviction,
  LimitSpared,
  OwnerKill,
  Point,
  Proof,
  Reclaim,
  ShutdownStop,
  State,
  Stopping,
} from './state.ts';

/** What a saved state must look like to be trusted; anything else is a corrupt file. Bounds as in the docstrings of State. */
export function readState(json: unknown): State | null {
  // Fields that an older version did not write start empty.
  return isState(json) ? { ...NOTHING_KEPT, ...json } : null;
}

const NOTHING_KEPT: Pick<State, 'metValues' | 'reclaims' | 'proofs' | 'trail' | 'escaped'> = {
  metValues: {},
  reclaims: [],
  proofs: {},
  trail: {},
  escaped: [],
};
const LIST_MAX = 10_000;

const isText: Check = (value) => typeof value === 'string' && value.length <= 4_096;
const listOf = (check: Check): Check => anyListOf(check, LIST_MAX);
const isNumberOrNull = orNull(isNumber);
const isPhases = listOf(shape({ fromPriority: isNumber, periodSeconds: isNumber }));

const isSignalName = isOneOf(...SIGNALS);
const isThresholdName = isOneOf(
  ...SIGNALS.flatMap((signal) =>
    ['evictionHard', 'evictionSoft'].flatMap((field) => [`${signal}/${field}`, `${signal}/${field}/twin`]),
  ),
);
const isConditionName = isOneOf(...SIGNALS.map((signal) => SIGNAL_FACTS[signal].condition));
export const isQuantity = shape<Quantity>({
  nanos: (value) => typeof value === 'string' && /^-?\d{1,60}$/.test(value),
  format: isOneOf('binary', 'decimal', 'exponent'),
  text: orNull(isText),
});
const isMetThreshold = shape<MetThreshold>({
  id: isThresholdName,
  signal: isSignalName,
  isHard: isFlag,
  limit: isQuantity,
  target: isQuantity,
  available: isNumber,
  windowMs: optional(isNumber),
  sinceMs: isNumber,
});
const isEviction = shape<Eviction>({
  decision: isText,
  decidedMs: isNumber,
  victim: shape<Victim>({
    uid: isText,
    namespace: isText,
    name: isText,
    qos: isOneOf('Guaranteed', 'Burstable', 'BestEffort'),
    priority: isNumber,
    boundTo: optional(isText),
    cgroupInode: optional(isNumber),
    cgroupPath: optional(isText),
    isBetweenRuns: optional(isOneOf(true)),
    unsaid: optional(shape<Unsaid>({ why: isOneOf('undeclared', 'unreadable'), priority: isFlag, requests: isFlag })),
  }),
  atChoice: optional(
    shape<NonNullable<Eviction['atChoice']>>({ signal: isSignalName, available: isNumber, held: isNumber }),
  ),
  signalledMs: optional(isNumber),
  killedMs: optional(isNumber),
  deadMs: optional(isNumber),
  graceEndsMs: isNumber,
  deadlineMs: isNumber,
  settledMs: isNumberOrNull,
  cause: union<Eviction['cause']>({
    threshold: { threshold: isMetThreshold },
    'over-limit': { limit: isOneOf('emptydirfs', 'ephemeralpodfs', 'ephemeralcontainerfs') },
  }),
  alsoFor: optional(listOf(isMetThreshold)),
});
const isState = shape<State>({
  schema: isOneOf(1),
  bootId: isText,
  nextDecision: (value) => Number.isSafeInteger(value),
  measured: optional((value) => typeof value === 'string'),
  firstMetMs: recordOf(isThresholdName, isNumber),
  metValues: optional(recordOf(isThresholdName, isText)),
  unmetSinceMs: recordOf(isThresholdName, isNumber),
  lastLookMs: isNumberOrNull,
  unresolved: listOf(isThresholdName),
  conditionLastMetMs: recordOf(isConditionName, isNumber),
  lastSample: recordOf(
    isSignalName,
    shape<SignalSample>({
      available: isNumber,
      capacity: isNumber,
      sampledAtMs: isNumber,
      isUntimed: optional(isOneOf(true)),
    }),
  ),
  failedLooks: recordOf(isSignalName, shape({ count: isNumber, sinceMs: isNumber })),
  spent: listOf(shape({ atMs: isNumber, cpuMs: isNumber })),
  dryDropped: listOf(isThresholdName),
  dryOverLimit: listOf(isText),
  limitSpared: optional(listOf(shape<LimitSpared>({ uid: isText, pod: isText, spares: isText }))),
  act: union<State['act']>({
    idle: {},
    evicting: { evictions: listOf(isEviction) },
  }),
  reclaims: optional(listOf(shape<Reclaim>({ decision: isText, threshold: isMetThreshold, deadlineMs: isNumber }))),
  proofs: optional(
    recordOf(
      isOneOf(...SHORTAGES),
      shape<Proof>({
        decision: isText,
        atMs: isNumber,
        available: recordOf(isSignalName, isNumber),
        risen: optional(shape({ atMs: isNumber, available: recordOf(isSignalName, isNumber) })),
        releasedBytes: optional(isNumber),
      }),
    ),
  ),
  vainReclaims: optional(recordOf(isOneOf(...SHORTAGES), shape({ untilMs: isNumber, pauseMs: isNumber }))),
  heldBackMs: optional(recordOf(isOneOf(...SHORTAGES), isNumber)),
  trail: optional(recordOf(isSignalName, listOf(shape<Point>({ atMs: isNumber, available: isNumber })))),
  escaped: optional(
    listOf(
      shape<EscapedFrom>({
        decision: isText,
        cgroup: shape<EscapedFrom['cgroup']>({ path: isText, inode: isNumber }),
        isUnreaped: optional(isOneOf(true)),
      }),
    ),
  ),
  ownerKills: listOf(shape<OwnerKill>({ ownerKey: isText, atMs: isNumber, spared: optional(isText) })),
  stops: listOf(
    shape<ShutdownStop>({
      decision: isText,
      decidedMs: isNumber,
      uid: isText,
      graceEndsMs: isNumber,
      waitEndsMs: isNumber,
      tier: optional(isOneOf('stop')),
      graceSeconds: optional(isNumber),
      endsMs: optional(isNumber),
      chain: optional(shape({ after: listOf(isText), beforeSeconds: isNumber, restSeconds: isNumber })),
    }),
  ),
  shutdown: union<State['shutdown']>({
    unarmed: { why: isText },
    armed: { delayMaxMs: isNumber },
    stopping: {
      startedMs: isNumber,
      phases: isPhases,
      delayMaxMs: isNumberOrNull,
      tier: isOneOf('logind', 'stop'),
      mustEndMs: isNumberOrNull,
      again: recordOf(isText, isNumber),
      assigned: optional(recordOf(isText, isNumber)),
      cancelledMs: isNumberOrNull,
      hearUntilMs: optional(isNumber),
      phase: isNumber,
      phaseStartedMs: isNumber,
      phaseEndsMs: isNumber,
      pending: listOf(isText),
      group: listOf(isText),
      wait: union<Stopping['wait']>({
        next: {},
        stops: {},
        volumes: { sinceMs: isNumber, lookMs: isNumber },
        announce: { decision: optional(isText), untilMs: isNumber },
        confirm: { sinceMs: isNumber },
      }),
      confirm: optional(shape<NonNullable<Stopping['confirm']>>({ ms: isNumber, latestMs: isNumber })),
      byKubelet: optional(isOneOf('holds', 'released')),
    },
    released: { atMs: isNumber, phases: optional(isPhases) },
  }),
});
