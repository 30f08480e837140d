import { groupBy } from '../../core/group-by.ts';
import {
  type Check,
  isFlag,
  isNumber,
  isObject,
  isOneOf,
  isText,
  listOf,
  optional,
  orNull,
  shape,
} from '../../core/shape.ts';
import type { RecordEntry } from '../entry.ts';
import { bootsInOrder } from './boot-order.ts';
import { type BootRecord, bootOf } from './boots.ts';
import { type ShutdownRecord, shutdownsOfBoot } from './shutdown-record.ts';

export type Shutdowns = {
  /** In the order of the record, including those of the current boot. */
  readonly shutdowns: readonly ShutdownRecord[];
  /** Every earlier boot, in the order of the records, because the wall clock may have been wrong. */
  readonly boots: readonly BootRecord[];
  /** The number of entries with a damaged body, which are left out. */
  readonly damaged: number;
};

/**
 * What the record says about shutdowns, and how boots ended. `entries`: of one record, or of the real one followed by the dry
 * one. `bootId`: the current boot, which has not ended; null = not known, so nothing is said about how the last boot in the
 * record ended.
 */
export function shutdownsOf(entries: readonly RecordEntry[], bootId: string | null): Shutdowns {
  const sound = entries.filter(isSound);
  const runningId = bootId ?? newest(sound)?.bootId ?? null;
  const told = bootsInOrder(sound).map((ofBoot) => {
    const boot = ofBoot[0]?.bootId === runningId ? 'running' : 'over';
    const shutdowns = [...groupBy(ofBoot, ({ dry }) => String(dry)).values()].flatMap((entriesOfRun) =>
      shutdownsOfBoot(entriesOfRun, boot),
    );
    return { shutdowns, boot: boot === 'running' ? null : bootOf(ofBoot, shutdowns) };
  });
  return {
    shutdowns: told.flatMap(({ shutdowns }) => shutdowns),
    boots: told.flatMap(({ boot }) => boot ?? []),
    damaged: entries.length - sound.length,
  };
}

function newest(entries: readonly RecordEntry[]): RecordEntry | null {
  return entries.reduce<RecordEntry | null>((a, b) => (a === null || b.atWallMs >= a.atWallMs ? b : a), null);
}

/**
 * Whether a reader of shutdowns can use this entry. Bodies are not checked when they are read, and one entry that a failing
 * disk changed must not cost the reader all others. Kinds from which no shutdown is derived are skipped.
 */
function isSound(entry: RecordEntry): boolean {
  switch (entry.kind) {
    case 'note':
      return hasBody(NOTES, 'kind', entry.note);
    case 'decision':
      return isNumber(entry.decision.atMs) && isText(entry.decision.id) && hasBody(DECISIONS, 'kind', entry.decision);
    case 'outcome':
      return isNumber(entry.outcome.atMs) && isText(entry.outcome.of) && hasBody(OUTCOMES, 'kind', entry.outcome);
    default:
      return true;
  }
}

type Demands = { readonly [kind: string]: { readonly [name: string]: Check } };

/** Whether it has the fields that its kind requires; a kind that is not listed requires none. */
function hasBody(kinds: Demands, name: string, value: unknown): boolean {
  if (!isObject(value) || !isText(value[name])) return false;
  const kind = String(value[name]);
  return shape(Object.hasOwn(kinds, kind) ? (kinds[kind] ?? {}) : {})(value);
}

const isTexts = listOf(isText);
const FACTS: Demands = {
  began: {
    tier: isOneOf('logind', 'stop'),
    type: orNull(isText),
    phases: listOf(shape({ fromPriority: isNumber, periodSeconds: isNumber })),
    grantedMs: orNull(isNumber),
    limitMs: orNull(isNumber),
  },
  phase: { phase: isNumber, periodMs: isNumber, wantedMs: isNumber, pods: isTexts },
  'phase-over': {
    phase: isNumber,
    tookMs: isNumber,
    by: isOneOf('done', 'period', 'volume-timeout', 'cancelled'),
    running: isTexts,
  },
  announced: { detail: orNull(isText) },
  confirmed: {
    tookMs: isNumber,
    left: orNull(shape({ pods: isTexts, volumes: isTexts, isNothingDeleted: optional(isFlag) })),
  },
  'stopped-again': { pod: isText, times: isNumber },
  'lock-lost': { detail: isText },
  cancelled: { phase: isNumber, why: isText },
  undone: { started: isTexts, notUndone: isTexts },
  released: {
    why: isOneOf('all-phases-done', 'out-of-time'),
    delayMs: optional(isNumber),
    isOvertaken: optional(isFlag),
  },
  resumed: { phase: isNumber },
};
const NOTES: Demands = {
  started: { atMs: isNumber },
  stopped: { atMs: isNumber, machine: isOneOf('stays', 'goes-down') },
  running: { atMs: isNumber, pods: isTexts },
  shutdown: { atMs: isNumber, fact: (fact) => hasBody(FACTS, 'what', fact) },
};
const DECISIONS: Demands = {
  'stop-for-shutdown': {
    victim: shape({ uid: isText, namespace: isText, name: isText, priority: isNumber }),
    phase: isNumber,
    graceSeconds: isNumber,
    endsMs: optional(isNumber),
    chain: optional(shape({ beforeSeconds: isNumber, restSeconds: isNumber })),
  },
  'release-lock': { why: isOneOf('all-phases-done', 'out-of-time') },
};
const OUTCOMES: Demands = {
  ended: { via: isText },
  survived: { left: Array.isArray, detail: isText },
  unknown: { detail: isText },
  dropped: { because: isText },
};
