import { createHash } from 'node:crypto';
import type { GuardEffective } from '../config/guard/effective.ts';
import { asPast, type WallTime } from '../core/guard/ahead.ts';
import { keysOf, type NodePlan } from '../core/guard/config.ts';
import {
  type FencingId,
  type FencingRecord,
  type Freed,
  type FreedPod,
  type FreedVolume,
  type NodeRef,
  PHASES,
  type RecordedAnswer,
  type RecordedStep,
  type StoredRecord,
} from '../core/guard/record.ts';
import {
  isFlag,
  isNumber,
  isObject,
  isOneOf,
  isText,
  listOf,
  optional,
  orNull,
  parseJson,
  partOf,
  shape,
} from '../core/shape.ts';
import { type GuardMap, type MapData, versionOf } from './api-writes.ts';

/** What fencings of a node are named after (`NodeObject.key`): fit for a ConfigMap's name, whatever its uid is. */
export const nodeKey = (uid: string): string => createHash('sha256').update(uid).digest('hex').slice(0, 16);

/** guard.md 7.2. */
export const MAX_RECORD_BYTES = 64 * 1024;
const PREFIX = 'fencing-';
const KEY = 'record';
const ID = /^([0-9a-f]{16})-[1-9][0-9]{0,15}$/;
const MAX_TEXT = 1_000;
/** A Lease counts its transitions in 32 bits. */
const MAX_COUNT = 2 ** 31 - 2;

export const recordName = (id: FencingId): GuardMap => `${PREFIX}${id}`;

/** For people, one field a line. */
export const recordData = (record: FencingRecord): MapData => ({ [KEY]: JSON.stringify(record, null, 1) });

/**
 * A ConfigMap as the API has it; null: its name is not that of a record. Whatever somebody made of it by hand: a record that
 * this guard could not have written itself is unreadable (guard.md 15).
 */
export function readRecord(map: unknown): StoredRecord | null {
  const { name } = partOf(map, 'metadata');
  if (!isText(name) || !name.startsWith(PREFIX)) return null;
  const id = name.slice(PREFIX.length);
  const version = versionOf(map) ?? '';
  const read = recordIn(isObject(map) ? map['data'] : null, id);
  if (typeof read !== 'string') return { id, version, record: read };
  return { id, version, record: null, problem: read, nodeKey: ID.exec(id)?.[1] ?? null };
}

function recordIn(data: unknown, id: FencingId): FencingRecord | string {
  if (!ID.test(id)) return 'its name is none that the guard gives';
  const text = isObject(data) ? data[KEY] : undefined;
  if (!isText(text)) return `it has no ${KEY}`;
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_RECORD_BYTES) return `it has ${bytes} bytes, and at most ${MAX_RECORD_BYTES} are read`;
  const record = withDefaults(parseJson(text));
  if (!isRecord(record)) return isObject(record) ? sayWrongField(record) : 'it is not a JSON object';
  return whatDoesNotFit(record, id) ?? record;
}

/** Earlier versions did not say these: a fencing of theirs that is open goes on. */
const withDefaults = (record: unknown): unknown =>
  isObject(record) ? { freed: null, cutWallMs: null, offHeard: [], onHeard: [], wasHeard: true, ...record } : record;

const sayWrongField = (record: { readonly [field: string]: unknown }): string => {
  const wrong = Object.entries(FIELDS).find(([name, isRight]) => !isRight(record[name]));
  return `its field ${wrong?.[0] ?? '?'} is missing, or is none that the guard writes`;
};

/** What no single field shows. Null: nothing. */
function whatDoesNotFit(record: FencingRecord, id: FencingId): string | null {
  const { node, plan, level, offSent, onSent } = record;
  if (record.id !== id) return 'its id is not that of its name';
  if (!id.startsWith(`${nodeKey(node.uid)}-`)) return 'its node is not that of its name';
  if (level > Math.max(0, plan.levels.length - 1)) return `its plan has no level ${level}`;
  const methods = new Set(keysOf(plan));
  const stranger = [...offSent, ...onSent].find((method) => !methods.has(method));
  return stranger === undefined ? null : 'a method that was used is not one of its plan';
}

const text =
  (most: number) =>
  (value: unknown): boolean =>
    isText(value) && value.length <= most;
const isShort = text(MAX_TEXT);
const isName = (value: unknown): boolean => isText(value) && value !== '' && value.length <= MAX_TEXT;
const isCount = (value: unknown): boolean =>
  Number.isInteger(value) && Number(value) >= 0 && Number(value) <= MAX_COUNT;
const isMs = (value: unknown): boolean => typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER;
const isMethods = listOf(isName, 200);

const isNode = shape<NodeRef>({ name: isName, uid: isName, bootId: isShort });
const isPlan = shape<NodePlan>({
  isolation: isMethods,
  levels: listOf(listOf(isName, 50), 50),
  ofMachine: optional(isMethods),
});
const isProof = (value: unknown): boolean =>
  isObject(value) &&
  (value['by'] === 'devices' ? isCount(value['level']) : value['by'] === 'person' && isName(value['name']));
const isOrder = shape<NonNullable<FencingRecord['order']>>({
  verb: isOneOf('fence', 'confirm-off', 'rehearse'),
  by: isName,
  because: isShort,
});
const isAnswer = shape<RecordedAnswer>({
  method: isName,
  act: isOneOf('status', 'off', 'on'),
  says: isOneOf('on', 'off', 'unknown', 'ok', 'error'),
  phase: isOneOf(...PHASES),
  wallMs: isMs,
  tookMs: isMs,
});
const isStep = shape<RecordedStep>({ phase: isOneOf(...PHASES), wallMs: isMs });

const isFreedPod = shape<FreedPod>({
  ...{ namespace: isShort, name: isShort, uid: isShort, isMember: isFlag },
  ...{ goneWallMs: orNull(isMs), readyWallMs: orNull(isMs) },
  ...{ isGoneBy: optional(isFlag), isReadyBy: optional(isFlag) },
});
const isFreedVolume = shape<FreedVolume>({
  ...{ name: isShort, volume: isShort, goneWallMs: orNull(isMs), isGoneBy: optional(isFlag) },
});
const isFreed = shape<Freed>({ pods: listOf(isFreedPod, 100), volumes: listOf(isFreedVolume, 100) });

const FIELDS = {
  schema: isOneOf(1),
  id: isName,
  node: isNode,
  purpose: isOneOf('fence', 'rehearse'),
  phase: isOneOf(...PHASES),
  revision: isCount,
  epoch: isCount,
  writer: isName,
  plan: isPlan,
  level: isCount,
  attempt: isCount,
  retries: isCount,
  offSent: isMethods,
  onSent: isMethods,
  cutWallMs: orNull(isMs),
  offHeard: isMethods,
  onHeard: isMethods,
  onAttempt: isCount,
  renewed: orNull(isShort),
  order: orNull(isOrder),
  proof: orNull(isProof),
  staysOff: orNull(isOneOf('power-on-off', 'loop', 'nothing-sent', 'person', 'node-deleted')),
  isAlive: isFlag,
  why: orNull(isShort),
  answers: listOf(isAnswer, 100),
  freed: orNull(isFreed),
  steps: listOf(isStep, 100),
  silentMs: isNumber,
  wasHeard: isFlag,
} satisfies { readonly [K in keyof FencingRecord]-?: (value: unknown) => boolean };
const isRecord = shape<FencingRecord>(FIELDS);

const DAY_MS = 86_400_000;
/** At one time; the rest has time. */
const MOST = 20;

/**
 * Closed records that `history` no longer keeps, the oldest first. Those of the last day stay whatever it says: the limits
 * per hour and day are counted in them. Open and unreadable ones stay.
 */
export function outlived(
  records: readonly StoredRecord[],
  { days, entries }: GuardEffective['history'],
  now: WallTime,
): readonly StoredRecord[] {
  return records
    .flatMap((stored) => (stored.record?.phase === 'closed' ? [{ stored, ageMs: ageOf(stored.record, now) }] : []))
    .sort((a, b) => a.ageMs - b.ageMs)
    .filter(({ ageMs }, index) => ageMs > DAY_MS && (index >= entries || ageMs > days * DAY_MS))
    .slice(-MOST)
    .reverse()
    .map(({ stored }) => stored);
}

function ageOf({ id, steps }: FencingRecord, now: WallTime): number {
  const last = steps.at(-1);
  return last === undefined ? 0 : now.wallMs - asPast(id, last.wallMs, now);
}
