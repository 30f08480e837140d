import type { GuardConfig } from '../core/guard/config.ts';
import { keptDevices } from '../core/guard/devices.ts';
import type { KeptDevice, KeptHold, KeptState, PastHold } from '../core/guard/record.ts';
import type { GuardState } from '../core/guard/state.ts';
import { keptState } from '../core/guard/state.ts';
import { known, type Reading, unknown } from '../core/reading.ts';
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
  shape,
  union,
} from '../core/shape.ts';
import { bytesOf, MAX_MAP_BYTES, type MapData } from './api-writes.ts';
import { createKeptMap, mapData } from './own-map.ts';

/** What outlives a leader beside the records: the ConfigMaps `guard-devices` and `guard-state`. */
export const GUARD_DEVICES = 'guard-devices';
export const GUARD_STATE = 'guard-state';
const DEVICES_KEY = 'devices';
const STATE_KEY = 'state';
const PAST_KEY = 'past';
const MOST_PAST = 200;
const MAX_TEXT = 1_000;

/**
 * By node uid and method. As short as can be, for 5,000 nodes with two devices each: what is null is left out, and what a
 * healthy device says.
 */
type DevicesByNode = { readonly [uid: string]: { readonly [method: string]: Row } };
type Row = Pick<KeptDevice, 'wallMs'> &
  Partial<Pick<KeptDevice, 'says' | 'hasSaidOn' | 'hasReturned' | 'contradicted'>> & {
    readonly rehearsed?: number;
    /** As an earlier version wrote it. */
    readonly rehearsedWallMs?: number;
  };

function rowOf({ says, wallMs, hasSaidOn, hasReturned, contradicted, rehearsedWallMs }: KeptDevice): Row {
  return {
    wallMs,
    ...(says === 'on' ? {} : { says }),
    ...(hasSaidOn === (says === 'on') ? {} : { hasSaidOn }),
    ...(hasReturned ? { hasReturned } : {}),
    ...(contradicted === null ? {} : { contradicted }),
    ...(rehearsedWallMs === null ? {} : { rehearsed: rehearsedWallMs }),
  };
}

function deviceOf(node: string, method: string, row: Row): KeptDevice {
  const { wallMs, says = 'on', hasSaidOn = says === 'on', hasReturned = false, contradicted = null } = row;
  return {
    node,
    method,
    says,
    wallMs,
    hasSaidOn,
    hasReturned,
    contradicted,
    rehearsedWallMs: row.rehearsed ?? row.rehearsedWallMs ?? null,
  };
}

/** What does not fit is left out: first who has not said on, then who has, then rehearsals, last what is held against a device. */
export function devicesData(devices: readonly KeptDevice[]): { readonly data: MapData; readonly leftOut: number } {
  const whole = dataOf(devices);
  if (bytesOf(whole) <= MAX_MAP_BYTES) return { data: whole, leftOut: 0 };
  const fit: KeptDevice[] = [];
  const nodes = new Set<string>();
  let leftBytes = MAX_MAP_BYTES - bytesOf(dataOf([]));
  for (const device of [...devices].sort((a, b) => rankOf(a) - rankOf(b))) {
    const { node, method } = device;
    // Its comma and colon, and those of its node with the braces.
    const bytes = sizeOf(method) + sizeOf(rowOf(device)) + 2 + (nodes.has(node) ? 0 : sizeOf(node) + 4);
    if (bytes > leftBytes) continue;
    leftBytes -= bytes;
    nodes.add(node);
    fit.push(device);
  }
  return { data: dataOf(fit), leftOut: devices.length - fit.length };
}

const sizeOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

function dataOf(devices: readonly KeptDevice[]): MapData {
  const byNode = new Map<string, Map<string, Row>>();
  for (const device of devices) {
    const ofNode = byNode.get(device.node) ?? new Map<string, Row>();
    byNode.set(device.node, ofNode);
    ofNode.set(device.method, rowOf(device));
  }
  const plain = Object.fromEntries([...byNode].map(([uid, ofNode]) => [uid, Object.fromEntries(ofNode)]));
  return { [DEVICES_KEY]: JSON.stringify(plain) };
}

function rankOf({ contradicted, rehearsedWallMs, hasSaidOn }: KeptDevice): number {
  if (contradicted !== null) return 0;
  if (rehearsedWallMs !== null) return 1;
  return hasSaidOn ? 2 : 3;
}

export const stateData = ({ past, ...state }: KeptState): MapData => ({
  [STATE_KEY]: JSON.stringify(state, null, 1),
  ...(past.length === 0 ? {} : { [PAST_KEY]: JSON.stringify(past, null, 1) }),
});

/** `map`: the ConfigMap as the API has it; null: there is none, and nothing was kept. */
export function readDevices(map: unknown): Reading<readonly KeptDevice[]> {
  if (map === null) return known([]);
  const byNode = valueIn(map, DEVICES_KEY);
  if (!isDevices(byNode)) return malformed(GUARD_DEVICES);
  return known(
    Object.entries(byNode).flatMap(([node, methods]) =>
      Object.entries(methods).map(([method, row]) => deviceOf(node, method, row)),
    ),
  );
}

/** As `readDevices`. */
export function readState(map: unknown): Reading<KeptState> {
  if (map === null) return known({ paused: null, holds: [], past: [] });
  const state = valueIn(map, STATE_KEY);
  return isState(state) ? known({ ...state, past: readPast(map) }) : malformed(GUARD_STATE);
}

/** Nothing is decided by it: what cannot be read is forgotten. */
export function readPast(map: unknown): readonly PastHold[] {
  const past = valueIn(map, PAST_KEY);
  return isPast(past) ? (past as readonly PastHold[]) : [];
}

const malformed = (name: string) =>
  unknown('malformed', name, `somebody has changed the ConfigMap ${name} so that it cannot be read`);

function valueIn(map: unknown, key: string): unknown {
  return parseJson(mapData(map)[key] ?? '');
}

const isShort = (value: unknown): boolean => isText(value) && value.length <= MAX_TEXT;
const isRow = shape<Row>({
  wallMs: isNumber,
  says: optional(isOneOf('on', 'off', 'unknown')),
  hasSaidOn: optional(isFlag),
  hasReturned: optional(isFlag),
  contradicted: optional(
    shape<NonNullable<KeptDevice['contradicted']>>({
      why: isOneOf('off-while-alive', 'life-after-proof'),
      wallMs: isNumber,
    }),
  ),
  rehearsed: optional(isNumber),
  rehearsedWallMs: optional(isNumber),
});
const isDevices = (value: unknown): value is DevicesByNode =>
  isObject(value) && Object.values(value).every((methods) => isObject(methods) && Object.values(methods).every(isRow));

const isScope = union<KeptHold['scope']>({
  // One that this version does not know, too: a guard that was set back must read what its successor kept.
  cluster: { group: isShort },
  domain: { label: isShort, value: isShort },
  nodes: { nodes: listOf(isShort) },
});
const isPast = listOf(
  shape<PastHold>({
    ...{ what: isShort, scope: isScope, fromWallMs: isNumber, untilWallMs: orNull(isNumber) },
    isAtMost: optional(isFlag),
  }),
  MOST_PAST,
);
const isState = shape<Omit<KeptState, 'past'>>({
  paused: orNull(shape<NonNullable<KeptState['paused']>>({ by: isShort, because: isShort, wallMs: isNumber })),
  holds: listOf(shape<KeptHold>({ kind: isOneOf('cluster', 'domain', 'burst', 'all'), scope: isScope }), 10_000),
});

/** guard.md section 5: so often at most. */
const DEVICES_EVERY_MS = 60_000;

/** Stores what must outlive this leadership and is in no record: the devices' words, pauses and holds. */
export type Keeper = {
  /** At each look of a leader that has adopted what its predecessors kept. */
  readonly keep: (state: GuardState, config: GuardConfig) => void;
  /** Whether the pause and the holds that were last given are stored. */
  readonly stored: () => Promise<boolean>;
};

export type KeeperNeeds = Parameters<typeof createKeptMap>[0] & {
  /** Called with how many devices have no place in `guard-devices`. */
  readonly leftOut: (count: number) => void;
};

export function createKeeper(needs: KeeperNeeds): Keeper {
  const states = createKeptMap(needs, GUARD_STATE, 0);
  const devices = createKeptMap(needs, GUARD_DEVICES, DEVICES_EVERY_MS);
  return {
    keep: (state, config) => {
      states.keep(stateData(keptState(state)));
      if (!devices.isDue()) return;
      const { data, leftOut } = devicesData(keptDevices(state, config));
      devices.keep(data);
      needs.leftOut(leftOut);
    },
    stored: states.stored,
  };
}
