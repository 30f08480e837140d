import type { GuardObservation, LeadershipView, SelfView } from '../core/guard/observation.ts';
import type { KeptDevice, KeptState, StoredRecord } from '../core/guard/record.ts';
import { ifKnown, known, type Reading } from '../core/reading.ts';
import { uptimeMs } from '../host/clock.ts';
import type { Clock } from '../ports.ts';
import type { Asked } from './asked.ts';
import { GUARD_DEVICES, GUARD_STATE, readDevices, readState } from './kept.ts';
import type { Leader } from './leader.ts';
import type { Nodes } from './nodes.ts';
import { GUARD_ORDERS, readOrders } from './orders.ts';
import { readRecord } from './records.ts';
import type { StoredMap, StoredMaps } from './stored-maps.ts';

type Arrived = Pick<GuardObservation, 'answers' | 'outcomes'>;
type Maps = ReadonlyMap<string, StoredMap>;
type Kept = { readonly devices: readonly KeptDevice[]; readonly state: KeptState };

export type Observer = {
  /** `arrived`: what is new since the last call. */
  readonly observe: (arrived: Arrived) => GuardObservation;
  /** The highest epoch of any record, as last read; 0: there is none. */
  readonly recordsEpoch: () => number;
};

/** Puts together what was read so far; asks nobody. */
export function createObserver(needs: {
  readonly clock: Clock;
  readonly self: { readonly writer: string; readonly node: () => string | null };
  readonly leader: () => Pick<Leader, 'view' | 'lastWriteMs' | 'hasJustHad'>;
  readonly nodes: Pick<Nodes, 'views'>;
  readonly maps: Pick<StoredMaps, 'all' | 'since'>;
  readonly asked: Pick<Asked, 'byUid' | 'attachments'>;
}): Observer {
  const { clock, self, leader, nodes, maps, asked } = needs;
  const recordsOf = ofLatest((all: Maps): readonly StoredRecord[] =>
    [...all.values()].flatMap((map) => recordIn(map) ?? []),
  );
  // How old an order is is judged when it is first read.
  const ordersOf = ofLatest((all: Maps) => readOrders(all.get(GUARD_ORDERS) ?? null, leader().hasJustHad));
  const keptOf = ofLatest((all: Maps) => keptIn(all));
  let epoch = 0;

  /** Whoever was elected reads what the leaders before it wrote, and not what was read before that. */
  const mapsFor = (view: LeadershipView): Reading<Maps> => (view.isLeader ? maps.since(view.sinceMs) : maps.all());

  function selfNow(view: LeadershipView, atMs: number): SelfView {
    const uptime = uptimeMs();
    return {
      writer: self.writer,
      node: self.node(),
      leadership: view,
      lastWriteMs: leader().lastWriteMs(),
      uptimeMs: uptime.known ? uptime.value : atMs,
    };
  }

  return {
    observe: (arrived) => {
      const view = leader().view();
      const all = mapsFor(view);
      const records = ifKnown(all, (of) => known(recordsOf(of)));
      if (records.known) epoch = Math.max(0, ...records.value.map(({ record }) => record?.epoch ?? 0));
      const atMs = clock.monoMs();
      return {
        atMs,
        wallMs: clock.wallMs(),
        self: selfNow(view, atMs),
        nodes: nodes.views(),
        records,
        kept: ifKnown(all, keptOf),
        asked: asked.byUid(),
        attachments: asked.attachments(),
        ...arrived,
        orders: all.known ? ordersOf(all.value) : [],
      };
    },
    recordsEpoch: () => epoch,
  };
}

/** Remembers the last result: at most looks nothing has changed. */
function ofLatest<A extends object, B>(read: (of: A) => B): (of: A) => B {
  let last: { readonly of: A; readonly is: B } | null = null;
  return (of) => {
    if (last?.of !== of) last = { of, is: read(of) };
    return last.is;
  };
}

/** A ConfigMap that did not change is not read again. */
const readRecords = new WeakMap<StoredMap, { readonly record: StoredRecord | null }>();
function recordIn(map: StoredMap): StoredRecord | null {
  const known = readRecords.get(map);
  if (known !== undefined) return known.record;
  const record = readRecord(map);
  readRecords.set(map, { record });
  return record;
}

function keptIn(all: Maps): Reading<Kept> {
  const devices = readDevices(all.get(GUARD_DEVICES) ?? null);
  if (!devices.known) return devices;
  const state = readState(all.get(GUARD_STATE) ?? null);
  return state.known ? known({ devices: devices.value, state: state.value }) : state;
}
