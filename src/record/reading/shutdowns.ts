import { groupBy } from '../../core/group-by.ts';
import { isFlag, isNumber, isOneOf, isText, listOf, optional, orNull, shape } from '../../core/shape.ts';
import type { RecordEntry } from '../entry.ts';
import { type BootRecord, bootOf } from './boots.ts';
import { type ShutdownRecord, shutdownsOfBoot } from './shutdown-record.ts';
import { hasBody, type Kinds, soundBy } from './sound.ts';

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

const isTexts = listOf(isText);
const FACTS: Kinds = {
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
  gone: { phase: isNumber, pods: isTexts },
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
const NOTES: Kinds = {
  started: { atMs: isNumber },
  stopped: { atMs: isNumber, machine: isOneOf('stays', 'goes-down') },
  running: { atMs: isNumber, pods: isTexts },
  shutdown: { atMs: isNumber, fact: (fact) => hasBody(FACTS, 'what', fact) },
};
const DECISIONS: Kinds = {
  'stop-for-shutdown': {
    victim: shape({ uid: isText, namespace: isText, name: isText, priority: isNumber }),
    phase: isNumber,
    graceSeconds: isNumber,
    endsMs: optional(isNumber),
    chain: optional(shape({ beforeSeconds: isNumber, restSeconds: isNumber })),
  },
  'release-lock': { why: isOneOf('all-phases-done', 'out-of-time') },
};
const OUTCOMES: Kinds = {
  ended: { via: isText },
  survived: { left: Array.isArray, detail: isText },
  unknown: { detail: isText },
  dropped: { because: isText },
};
const isSound = soundBy({ notes: NOTES, decisions: DECISIONS, outcomes: OUTCOMES });

/**
 * The entries of each boot. Boots are in the order of each record, because the wall clock may have been wrong; one that only
 * one record has comes by its clock between those that both have. `entries`: of the real record, of the dry one, or of both.
 */
function bootsInOrder(entries: readonly RecordEntry[]): readonly (readonly RecordEntry[])[] {
  const boots = groupBy(entries, ({ bootId }) => bootId);
  const wallMs = (id: string): number => boots.get(id)?.at(-1)?.atWallMs ?? 0;
  const real = new Set(entries.flatMap(({ dry, bootId }) => (dry ? [] : [bootId])));
  const dry = [...new Set(entries.flatMap((entry) => (entry.dry ? [entry.bootId] : [])))];
  const placeIn = new Map(dry.map((id, place) => [id, place]));
  const ids: string[] = [];
  let next = 0;
  const takeDry = (isBefore: (id: string) => boolean): void => {
    for (let id = dry[next]; id !== undefined && isBefore(id); id = dry[++next]) if (!real.has(id)) ids.push(id);
  };
  for (const id of real) {
    const place = placeIn.get(id);
    takeDry(place === undefined ? (other) => !real.has(other) && wallMs(other) < wallMs(id) : () => next <= place);
    ids.push(id);
  }
  takeDry(() => true);
  return ids.map((id) => boots.get(id) ?? []);
}
