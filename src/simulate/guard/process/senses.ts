import type { NextGuardLook } from '../../../core/guard/decision.ts';
import type {
  AskedView,
  AttachmentsByNode,
  ConsistentLook,
  Dated,
  GuardObservation,
  NodeView,
  Order,
  PodOnNode,
  Witness,
} from '../../../core/guard/observation.ts';
import type { FencingRecord, KeptDevice, KeptState, StoredRecord } from '../../../core/guard/record.ts';
import { known, type Reading, unknown } from '../../../core/reading.ts';
import { nameOf } from '../objects.ts';
import type { ScenarioOrder } from '../scenario.ts';
import type { World } from '../world.ts';
import type { Client, Clocks } from './lifeline.ts';
import { attachmentsIn, consistentLook, membersNamed, nodeViewsOf, podsOn } from './view.ts';

const LIST_DEADLINE_MS = 20_000;
const NOT_READ = unknown('not-asked', 'API server', 'not read yet');
const NO_ANSWER = unknown('timed-out', 'API server', 'no answer');
/** guard.md section 5: leases are listed every 5 s, 10 s above 500 nodes. */
const LIST_EVERY_MS = 5_000;
const LIST_MANY_EVERY_MS = 10_000;
const MANY_NODES = 500;

export const GUARD_DEVICES = 'guard-devices';
export const GUARD_STATE = 'guard-state';
export const GUARD_ORDERS = 'guard-orders';
const FENCING = 'fencing-';
export const recordName = (id: string): string => `${FENCING}${id}`;

/** `said`: as the scenario has it. */
export type StoredOrder = Order & { readonly said: ScenarioOrder };
export type StoredOrders = {
  readonly orders: readonly StoredOrder[];
  readonly answers: { readonly [id: string]: unknown };
};
export type Kept = { readonly devices: readonly KeptDevice[]; readonly state: KeptState };

type Parts = {
  readonly world: World;
  readonly clocks: Clocks;
  readonly client: Client;
  readonly isWitnessPossible: (node: string) => boolean;
};

/** What one process has read, and when it asked for it. */
export type Senses = {
  /** Reads what is due and what the last verdict asked for; `done` when all of it has come back, or will not. */
  readonly refresh: (next: NextGuardLook | null, isWanted: Wanted, done: () => void) => void;
  readonly nodes: () => GuardObservation['nodes'];
  readonly records: () => GuardObservation['records'];
  readonly kept: () => Reading<Kept>;
  readonly forgetKept: () => void;
  readonly asked: () => GuardObservation['asked'];
  readonly attachments: () => GuardObservation['attachments'];
  readonly orders: () => readonly Order[];
};
type Wanted = { readonly records: boolean; readonly kept: boolean };

export function createSenses({ world, clocks, client, isWitnessPossible }: Parts): Senses {
  const { store, api } = world;
  let nodes: Reading<Dated<readonly NodeView[]>> = NOT_READ;
  let records: Reading<readonly StoredRecord[]> = NOT_READ;
  let kept: Reading<Kept> = NOT_READ;
  let attachments: Reading<Dated<AttachmentsByNode>> = NOT_READ;
  let orders: readonly Order[] = [];
  let listedMs = Number.NEGATIVE_INFINITY;
  let isListing = false;
  const asked = new Map<string, AskedView>();
  const blank: AskedView = { witness: NOT_READ, pods: NOT_READ, look: NOT_READ, members: NOT_READ };
  const putAsked = (uid: string, change: Partial<AskedView>): void =>
    void asked.set(uid, { ...(asked.get(uid) ?? blank), ...change });

  type Wait = (start: (arrived: () => void) => void) => void;

  function list(wait: Wait): void {
    const nowMs = clocks.monoMs();
    const everyMs = store.nodes.size > MANY_NODES ? LIST_MANY_EVERY_MS : LIST_EVERY_MS;
    if (isListing || nowMs - listedMs < everyMs) return;
    listedMs = nowMs;
    isListing = true;
    wait((arrived) =>
      client.ask(
        () => nodeViewsOf(api.cached(), world.leaseEveryMs),
        (value) => {
          isListing = false;
          if (value !== null) nodes = known({ value, asOfMs: nowMs });
          arrived();
        },
        LIST_DEADLINE_MS,
      ),
    );
  }

  function readRecords(wait: Wait): void {
    wait((arrived) =>
      client.ask(
        () => ({ records: recordsIn(store), orders: ordersIn(store) }),
        (answer) => {
          records = answer === null ? NO_ANSWER : known(answer.records);
          if (answer !== null) orders = answer.orders;
          arrived();
        },
      ),
    );
  }

  function readKept(wait: Wait): void {
    wait((arrived) =>
      client.ask(
        () => keptIn(store),
        (answer) => {
          kept = answer === null ? NO_ANSWER : known(answer);
          arrived();
        },
      ),
    );
  }

  function askFor(next: NextGuardLook, wait: Wait): void {
    const asOfMs = clocks.monoMs();
    for (const uid of next.pods) {
      wait((arrived) =>
        client.ask(
          () => podsOn(store, nameOf(uid)),
          (pods: readonly PodOnNode[] | null) => {
            putAsked(uid, { pods: pods === null ? NO_ANSWER : known({ value: pods, asOfMs }) });
            arrived();
          },
        ),
      );
    }
    for (const { uid, name } of next.looks) {
      wait((arrived) =>
        client.ask(
          () => consistentLook(store, name, world.renewTime(name), world.leaseEveryMs),
          (look: ConsistentLook | null) => {
            putAsked(uid, { look: look === null ? NO_ANSWER : known({ value: look, asOfMs }) });
            arrived();
          },
        ),
      );
    }
    for (const { node, pods } of next.members) {
      wait((arrived) =>
        client.ask(
          () => pods.flatMap((pod) => membersNamed(world, pod)),
          (value) => {
            putAsked(node, { members: value === null ? NO_ANSWER : known({ value, asOfMs }) });
            arrived();
          },
        ),
      );
    }
    for (const uid of next.witness) putAsked(uid, { witness: known({ value: witnessOf(nameOf(uid)), asOfMs }) });
    if (next.attachments) {
      wait((arrived) =>
        client.ask(
          () => attachmentsIn(store),
          (value) => {
            attachments = value === null ? NO_ANSWER : known({ value, asOfMs });
            arrived();
          },
        ),
      );
    }
  }

  function witnessOf(node: string): Witness {
    const machine = world.machines.get(node);
    if (machine === undefined || !machine.isRunning() || !isWitnessPossible(node)) return 'silent';
    return machine.hasKubelet() ? 'answers' : 'refused';
  }

  return {
    refresh: (next, wanted, done) => {
      let waiting = 1;
      const arrived = (): void => {
        waiting -= 1;
        if (waiting === 0) done();
      };
      const wait: Wait = (start) => {
        waiting += 1;
        start(arrived);
      };
      list(wait);
      if (wanted.records) readRecords(wait);
      if (wanted.kept) readKept(wait);
      if (next !== null) askFor(next, wait);
      arrived();
    },
    nodes: () => nodes,
    records: () => records,
    kept: () => kept,
    forgetKept: () => {
      kept = NOT_READ;
    },
    asked: () => new Map(asked),
    attachments: () => attachments,
    orders: () => orders,
  };
}

function recordsIn(store: World['store']): readonly StoredRecord[] {
  return store.names().flatMap((name): StoredRecord[] => {
    const stored = name.startsWith(FENCING) ? store.read(name) : null;
    if (stored === null) return [];
    return [{ id: name.slice(FENCING.length), version: String(stored.version), record: stored.value as FencingRecord }];
  });
}

export function storedOrders(store: World['store']): StoredOrders {
  return (store.read(GUARD_ORDERS)?.value ?? { orders: [], answers: {} }) as StoredOrders;
}

function ordersIn(store: World['store']): readonly Order[] {
  const { orders, answers } = storedOrders(store);
  return orders.filter(({ id }) => !Object.hasOwn(answers, id));
}

function keptIn(store: World['store']): Kept {
  return {
    devices: (store.read(GUARD_DEVICES)?.value ?? []) as readonly KeptDevice[],
    state: (store.read(GUARD_STATE)?.value ?? { paused: null, holds: [], past: [] }) as KeptState,
  };
}
