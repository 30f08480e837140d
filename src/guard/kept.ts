import type { KeptDevice, KeptHold, KeptState, PastHold } from '../core/guard/record.ts';
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
import type { MapData } from './api-writes.ts';
import { mapData } from './own-map.ts';

/** What outlives a leader beside the records: the ConfigMaps `guard-devices` and `guard-state`. */
export const GUARD_DEVICES = 'guard-devices';
export const GUARD_STATE = 'guard-state';
const DEVICES_KEY = 'devices';
const STATE_KEY = 'state';
const PAST_KEY = 'past';
const MOST_PAST = 200;
const MAX_TEXT = 1_000;

/** By node uid and method. What is null or false is left out: 5,000 nodes with two devices each have to fit. */
type DevicesByNode = { readonly [uid: string]: { readonly [method: string]: Row } };
type Row = Omit<Partial<KeptDevice>, 'node' | 'method'> & Pick<KeptDevice, 'says' | 'wallMs'>;

export function devicesData(devices: readonly KeptDevice[]): MapData {
  const byNode = new Map<string, Map<string, Row>>();
  for (const { node, method, says, wallMs, hasSaidOn, contradicted, rehearsedWallMs } of devices) {
    const ofNode = byNode.get(node) ?? new Map<string, Row>();
    byNode.set(node, ofNode);
    ofNode.set(method, {
      ...{ says, wallMs },
      ...(hasSaidOn ? { hasSaidOn } : {}),
      ...(contradicted === null ? {} : { contradicted }),
      ...(rehearsedWallMs === null ? {} : { rehearsedWallMs }),
    });
  }
  const plain = Object.fromEntries([...byNode].map(([uid, ofNode]) => [uid, Object.fromEntries(ofNode)]));
  return { [DEVICES_KEY]: JSON.stringify(plain) };
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
      Object.entries(methods).map(
        ([method, { says, wallMs, hasSaidOn = false, contradicted = null, rehearsedWallMs = null }]): KeptDevice => ({
          ...{ node, method, says, wallMs, hasSaidOn, contradicted, rehearsedWallMs },
        }),
      ),
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
  says: isOneOf('on', 'off', 'unknown'),
  wallMs: isNumber,
  hasSaidOn: optional(isFlag),
  contradicted: optional(
    shape<NonNullable<KeptDevice['contradicted']>>({
      why: isOneOf('off-while-alive', 'life-after-proof'),
      wallMs: isNumber,
    }),
  ),
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
  shape<PastHold>({ what: isShort, scope: isScope, fromWallMs: isNumber, untilWallMs: orNull(isNumber) }),
  MOST_PAST,
);
const isState = shape<Omit<KeptState, 'past'>>({
  paused: orNull(shape<NonNullable<KeptState['paused']>>({ by: isShort, because: isShort, wallMs: isNumber })),
  holds: listOf(shape<KeptHold>({ kind: isOneOf('cluster', 'domain', 'burst', 'all'), scope: isScope }), 10_000),
});
