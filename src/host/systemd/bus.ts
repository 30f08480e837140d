import { EventEmitter } from 'node:events';
import { existsSync } from 'node:fs';
import { Duplex } from 'node:stream';
import { Message, type MessageBus, MessageType, sessionBus } from 'dbus-next';
import { known, type Reading, sayCause, type Unknown, unknown } from '../../core/reading.ts';
import type { Clock } from '../../ports.ts';
import { within } from '../clock.ts';
import { guardReader } from './bus-reader.ts';
import { type BusTurns, createBusTurns } from './bus-turns.ts';
import { type BusValue, decodeBody, decodeValue, encodeBody, isVariant } from './bus-value.ts';

type BusCall = {
  readonly destination: string;
  readonly path: string;
  readonly interface: string;
  readonly member: string;
  readonly signature?: string;
  readonly body?: readonly BusValue[];
  /** The default is 2 s; the wait for its turn counts. */
  readonly deadlineMs?: number;
  /** Sent before all calls that wait for their turn. */
  readonly isUrgent?: true;
};
type SignalRule = {
  /** A well-known name: a signal counts only from its present owner. */
  readonly sender: string;
  readonly interface: string;
  readonly member: string;
  /** Absent: any path. */
  readonly path?: string;
  /** The first argument, as text; absent: any. */
  readonly arg0?: string;
};
type BusState = 'down' | 'connecting' | 'up';
export type SystemBus = {
  readonly state: () => BusState;
  /**
   * The body of the answer. Unknown: `absent` = no bus, `malformed` = must not be sent, `timed-out`, `unreadable` = an
   * error reply, with its name at the beginning of the detail.
   */
  readonly call: (call: BusCall) => Promise<Reading<readonly BusValue[]>>;
  /** Survives reconnects. What `heard` throws reaches the process, like any other error. */
  readonly subscribe: (rule: SignalRule, heard: (body: readonly BusValue[], path: string) => void) => () => void;
  /** Runs each time the bus is up, once the match rules are in force: then read what they report changes of. */
  readonly whenUp: (run: () => void) => () => void;
  readonly close: () => void;
};

export const PROPERTIES = 'org.freedesktop.DBus.Properties';
type BusObject = { readonly destination: string; readonly path: string; readonly interface: string };

/** The value of a property. */
export async function busProperty(
  bus: SystemBus,
  { destination, path, interface: of }: BusObject,
  name: string,
  urgent: Pick<BusCall, 'isUrgent'> = {},
): Promise<Reading<BusValue>> {
  const at = { destination, path, interface: PROPERTIES, ...urgent };
  const got = await bus.call({ ...at, member: 'Get', signature: 'ss', body: [of, name] });
  if (!got.known) return got;
  const [value] = got.value;
  return isVariant(value) ? known(value.value) : unknown('malformed', `${of}.${name}`, 'not a variant');
}

/** All properties of one interface of an object. */
export function busProperties(
  bus: SystemBus,
  { destination, path, interface: of }: BusObject,
): ReturnType<SystemBus['call']> {
  return bus.call({ destination, path, interface: PROPERTIES, member: 'GetAll', signature: 's', body: [of] });
}

/** The `where` of everything that is unknown because there is no bus. */
export const SYSTEM_BUS = 'the system bus';
/** dependencies.md B7: neither connecting nor authenticating has a deadline of its own. */
const CONNECT_MS = 3_000;
const CALL_MS = 2_000;
const PING_MS = 30_000;
const FIRST_RETRY_MS = 100;
const MAX_RETRY_MS = 5_000;
const DBUS = { destination: 'org.freedesktop.DBus', path: '/org/freedesktop/DBus', interface: 'org.freedesktop.DBus' };

/** Resolves once the bus is up, or after this time: from then on, every call reports why the bus is away. */
export function busUp(
  { isUp, whenUp }: { readonly isUp: () => boolean; readonly whenUp: SystemBus['whenUp'] },
  clock: Clock,
  waitMs = CALL_MS,
): Promise<void> {
  return new Promise((resolve) => {
    if (isUp()) return resolve();
    const done = (): void => {
      cancel();
      forget();
      resolve();
    };
    const cancel = clock.after(waitMs, done);
    const forget = whenUp(done);
  });
}

type Connection = {
  readonly bus: MessageBus;
  readonly stream: Duplex;
  /** Ends what waits when the connection is lost. */
  readonly lost: Set<(why: Unknown) => void>;
  /** Match rules in force: each is sent once per connection, and stays (B5). */
  readonly rules: Set<string>;
  readonly turns: BusTurns;
};
type Subscription = { readonly rule: SignalRule; readonly heard: (body: readonly BusValue[], path: string) => void };

/**
 * One connection to the system bus, kept forever (dependencies.md 2.4). The package is only its codec and socket: its
 * defects B1 to B17 are worked around here.
 */
export function openSystemBus(clock: Clock, env: NodeJS.ProcessEnv = process.env): SystemBus {
  const address = busAddress(env['DBUS_SYSTEM_BUS_ADDRESS']);
  const subscriptions = new Set<Subscription>();
  const runsWhenUp = new Set<() => void>();
  const owners = new Map<string, string>();
  let state: BusState = 'down';
  let connection: Connection | null = null;
  let retryMs = FIRST_RETRY_MS;
  let cancelTimer: () => void = () => undefined;
  let isClosed = false;
  let downBecause = unknown('absent', SYSTEM_BUS, 'not connected yet');

  function lose(of: Connection, detail: string): void {
    if (connection !== of) return;
    connection = null;
    state = isClosed ? 'down' : 'connecting';
    owners.clear();
    downBecause = unknown('absent', SYSTEM_BUS, detail);
    // Not disconnect(): before the connection is made, it writes after the end (B15).
    of.stream.destroy();
    for (const end of [...of.lost]) end(downBecause);
    connectLater();
  }

  function connectLater(): void {
    cancelTimer();
    if (isClosed) return;
    // Half of the delay is random, so that many agents do not reconnect at one instant.
    cancelTimer = clock.after(retryMs * (0.5 + Math.random() / 2), connect);
    retryMs = Math.min(retryMs * 2, MAX_RETRY_MS);
  }

  function connect(): void {
    if (isClosed || !address.known) return;
    // An attempt to connect costs a hundred times as much, and a host without a bus would repeat it forever.
    const made = existsSync(address.value)
      ? createConnection(address.value, (of, cause) => lose(of, `a message cannot be read: ${sayCause(cause)}`))
      : unknown('absent', SYSTEM_BUS, `${address.value} does not exist`);
    if (!made.known) {
      state = 'down';
      downBecause = made;
      connectLater();
      return;
    }
    state = 'connecting';
    const mine = made.value;
    connection = mine;
    const { bus, stream } = mine;
    // B3: an `error` event without a listener ends the process.
    bus.on('error', (cause: unknown) => {
      // Once up, loss shows in the stream; a message that could not be decoded is no reason to drop the connection.
      if (state !== 'up') lose(mine, `no connection: ${sayCause(cause)}`);
    });
    // B1: the package does not report that the connection has ended.
    stream.on('close', () => lose(mine, 'the connection was closed'));
    stream.on('end', () => lose(mine, 'the bus ended the connection'));
    bus.on('message', (message) => receive(mine, message));
    // We export no objects: without this the package would answer introspection on its own.
    bus.addMethodHandler(() => true);
    cancelTimer = clock.after(CONNECT_MS, () => lose(mine, `no answer within ${CONNECT_MS} ms`));
    bus.on('connect', () => void begin(mine));
  }

  /** Match rules first, then the reads that depend on them, so that no change is missed in between. */
  async function begin(mine: Connection): Promise<void> {
    if (connection !== mine) return;
    cancelTimer();
    // Iterates over the set itself, which includes subscriptions made while these calls run.
    for (const { rule } of subscriptions) {
      await followOwner(mine, rule.sender);
      await addMatch(mine, matchOf(rule));
    }
    if (connection !== mine) return;
    state = 'up';
    retryMs = FIRST_RETRY_MS;
    cancelTimer = clock.after(PING_MS, () => void ping(mine));
    for (const run of [...runsWhenUp]) run();
  }

  async function ping(mine: Connection): Promise<void> {
    // Not Peer.Ping: the policy of a system bus refuses it unless the destination allows it.
    const pong = await callOn(mine, { ...DBUS, member: 'GetId' });
    if (connection !== mine) return;
    if (!pong.known) return lose(mine, `the bus does not answer: ${pong.detail}`);
    cancelTimer = clock.after(PING_MS, () => void ping(mine));
  }

  async function followOwner(mine: Connection, name: string): Promise<void> {
    const rule = `type='signal',sender='${DBUS.destination}',member='NameOwnerChanged',arg0='${name}'`;
    if (mine.rules.has(rule)) return;
    // Both are sent before anything is awaited, so that calls made after a subscription find its rules in force.
    void addMatch(mine, rule);
    const owner = await callOn(mine, { ...DBUS, member: 'GetNameOwner', signature: 's', body: [name] });
    const [unique] = owner.known ? owner.value : [];
    if (connection === mine && typeof unique === 'string') owners.set(name, unique);
  }

  async function addMatch(mine: Connection, rule: string): Promise<void> {
    if (mine.rules.has(rule)) return;
    mine.rules.add(rule);
    const added = await callOn(mine, { ...DBUS, member: 'AddMatch', signature: 's', body: [rule] });
    // Without its rules the connection is useless: reconnect.
    if (!added.known) lose(mine, `the bus refused ${rule}: ${added.detail}`);
  }

  function callOn(mine: Connection, call: BusCall): Promise<Reading<readonly BusValue[]>> {
    const where = `${call.interface}.${call.member}`;
    if (connection !== mine) return Promise.resolve(downBecause);
    const body = encodeBody(call.signature ?? '', call.body ?? []);
    if (!body.ok) return Promise.resolve(unknown('malformed', where, body.text));
    const made = messageOf(call, body.value);
    if (!made.known) return Promise.resolve(made);
    const message = made.value;
    let isSent = false;
    let forget = (): void => undefined;
    const asked = new Promise<Reading<readonly BusValue[]>>((resolve) => {
      const finish = (reading: Reading<readonly BusValue[]>): void => {
        forget();
        resolve(reading);
      };
      forget = () => {
        leave();
        mine.lost.delete(finish);
      };
      mine.lost.add(finish);
      let leave = (): void => undefined;
      leave = mine.turns.ask(call.destination, call.isUrgent === true, (settled) => {
        isSent = true;
        // An answer after the deadline is dropped, but ends the turn. B9: a call that could not be sent leaves its
        // handler behind.
        mine.bus.call(message).then(
          (reply) => {
            settled();
            finish(decodeBody(reply?.body ?? [], where));
          },
          (cause: unknown) => {
            forgetReply(mine.bus, message.serial);
            settled();
            finish(unknown('unreadable', where, sayError(cause)));
          },
        );
      });
    });
    const deadlineMs = call.deadlineMs ?? CALL_MS;
    return within(clock, deadlineMs, asked, () => {
      forget();
      const what = isSent ? 'no answer from' : 'earlier calls have not been answered yet by';
      return unknown('timed-out', where, `${what} ${call.destination} within ${Math.round(deadlineMs)} ms`);
    });
  }

  function receive(mine: Connection, message: Message): void {
    // A refused Hello would be thrown again where nothing can catch it, and end the process.
    if (message.type === MessageType.ERROR && Number(message.replySerial) === HELLO_SERIAL) {
      forgetReply(mine.bus, HELLO_SERIAL);
      lose(mine, `the bus refused us: ${message.errorName}: ${String(message.body[0] ?? '')}`);
    }
    if (connection !== mine || message.type !== MessageType.SIGNAL) return;
    const isOwner = message.sender === DBUS.destination && message.member === 'NameOwnerChanged';
    const listening = [...subscriptions].filter(({ rule }) => isHeard(rule, message, owners.get(rule.sender)));
    if (!isOwner && listening.length === 0) return;
    // Once for all: at a shutdown, hundreds of stops listen.
    const body = message.body.map(decodeValue);
    if (isOwner) noteOwner(body);
    for (const { heard } of listening) {
      // B6: the package swallows what is thrown here; outside of it a throw reaches the process. As a microtask it
      // still runs before the answer to a call that was sent after it.
      queueMicrotask(() => heard(body, message.path));
    }
  }

  function noteOwner([name, , owner]: readonly BusValue[]): void {
    if (typeof name !== 'string' || typeof owner !== 'string') return;
    if (![...subscriptions].some(({ rule }) => rule.sender === name)) return;
    if (owner === '') owners.delete(name);
    else owners.set(name, owner);
  }

  if (address.known) connect();
  else downBecause = address;
  return {
    state: () => state,
    call: (call) => (connection !== null && state === 'up' ? callOn(connection, call) : Promise.resolve(downBecause)),
    subscribe: (rule, heard) => {
      const subscription: Subscription = { rule, heard };
      subscriptions.add(subscription);
      const mine = connection;
      if (mine !== null && state === 'up') {
        void followOwner(mine, rule.sender);
        void addMatch(mine, matchOf(rule));
      }
      return () => void subscriptions.delete(subscription);
    },
    whenUp: (run) => {
      runsWhenUp.add(run);
      return () => void runsWhenUp.delete(run);
    },
    close: () => {
      isClosed = true;
      cancelTimer();
      // B17: an open connection keeps the process alive.
      if (connection !== null) lose(connection, 'closed');
    },
  };
}

/** The package's first call. */
const HELLO_SERIAL = 1;

/** The largest answer that is needed is a list of a thousand units: 200 KiB. */
const MAX_MESSAGE_BYTES = 2 * 1024 * 1024;

/** Its private names are pinned by a test: `_connection.stream` and `_methodReturnHandlers`. */
function createConnection(socket: string, broken: (of: Connection, cause: unknown) => void): Reading<Connection> {
  try {
    const bus = sessionBus({ busAddress: `unix:path=${socket}` });
    const inner: unknown = Reflect.get(bus, '_connection');
    const stream: unknown = inner instanceof EventEmitter ? Reflect.get(inner, 'stream') : null;
    if (!(inner instanceof EventEmitter && stream instanceof Duplex))
      throw new Error('dbus-next has no _connection.stream');
    const made = {
      bus,
      stream,
      lost: new Set<(why: Unknown) => void>(),
      rules: new Set<string>(),
      turns: createBusTurns(),
    };
    guardReader(inner, stream, { maxBytes: MAX_MESSAGE_BYTES, broken: (cause) => broken(made, cause) });
    return known(made);
  } catch (cause) {
    return unknown('unreadable', socket, sayCause(cause));
  }
}

function forgetReply(bus: MessageBus, serial: number | null): void {
  const handlers: unknown = Reflect.get(bus, '_methodReturnHandlers');
  if (serial !== null && typeof handlers === 'object' && handlers !== null) Reflect.deleteProperty(handlers, serial);
}

function messageOf(call: BusCall, body: unknown): Reading<Message> {
  const { destination, path, interface: iface, member, signature = '' } = call;
  try {
    return known(
      new Message({ destination, path, interface: iface, member, signature, body: Array.isArray(body) ? body : [] }),
    );
  } catch (cause) {
    return unknown('malformed', `${iface}.${member}`, sayCause(cause));
  }
}

/** Error replies carry their name in `type`. */
function sayError(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  const name: unknown = Reflect.get(cause, 'type');
  const text: unknown = Reflect.get(cause, 'text');
  return typeof name === 'string' ? `${name}: ${typeof text === 'string' ? text : cause.message}` : cause.message;
}

function matchOf(rule: SignalRule): string {
  const path = rule.path === undefined ? '' : `,path='${rule.path}'`;
  const arg0 = rule.arg0 === undefined ? '' : `,arg0='${rule.arg0}'`;
  return `type='signal',sender='${rule.sender}',interface='${rule.interface}',member='${rule.member}'${path}${arg0}`;
}

function isHeard(rule: SignalRule, message: Message, owner: string | undefined): boolean {
  const isFrom = rule.sender === DBUS.destination ? message.sender === rule.sender : message.sender === owner;
  const isPath = rule.path === undefined || rule.path === message.path;
  const isArg0 = rule.arg0 === undefined || rule.arg0 === message.body[0];
  return isFrom && isPath && isArg0 && message.interface === rule.interface && message.member === rule.member;
}

/**
 * The path of the bus's socket. B12: the package does not decode %xx, tries only the first address, and needs an addon
 * for abstract ones.
 */
function busAddress(given: string | undefined): Reading<string> {
  const address = given === undefined || given === '' ? 'unix:path=/run/dbus/system_bus_socket' : given;
  const match = /^unix:path=([^;,%]+)(?:,guid=[0-9a-f]+)?$/.exec(address);
  const where = 'DBUS_SYSTEM_BUS_ADDRESS';
  return match === null
    ? unknown('malformed', where, `only unix:path=… is supported, not ${address}`)
    : known(match[1] ?? '');
}
