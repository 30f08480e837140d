import { isIP } from 'node:net';
import { connect } from 'node:tls';
import type { AskedView, Witness } from '../core/guard/observation.ts';
import { ifKnown, known, type Reading, sayCause, unknown } from '../core/reading.ts';
import { codeOf } from '../host/file-error.ts';
import type { Clock } from '../ports.ts';

/** Where a kubelet may listen, as its Node says: an `InternalIP` and `daemonEndpoints`. */
export type KubeletAddress = { readonly host: string; readonly port: number };

export type WitnessNeeds = {
  readonly clock: Clock;
  /** By node uid. */
  readonly addressesOf: (uid: string) => readonly KubeletAddress[];
  /** Called after each answer. */
  readonly arrived: () => void;
};
export type Witnesses = {
  /** In the background; a node that is being tried is not tried once more. */
  readonly ask: (uids: readonly string[]) => void;
  /** As last answered. */
  readonly of: (uid: string) => AskedView['witness'];
  /** What was answered of all other nodes is forgotten. */
  readonly keepOnly: (uids: ReadonlySet<string>) => void;
};

const AT_ONCE = 10;
/** Three seconds. A stall of this process is one tick, however long: during it, nothing is heard. */
const TICK_MS = 100;
const TICKS = 30;
const NOT_ASKED = unknown('not-asked', 'kubelet', 'it was not tried yet');
const NO_ADDRESS = unknown('absent', 'kubelet', 'its Node names no InternalIP');

/** The second witness of guard.md 5: whether a silent node's kubelet still answers. It may hold a fencing, never start one. */
export function createWitnesses({ clock, addressesOf, arrived }: WitnessNeeds): Witnesses {
  const answers = new Map<string, AskedView['witness']>();
  const waiting = new Set<string>();
  const asking = new Set<string>();

  function next(): void {
    for (const uid of waiting) {
      if (asking.size >= AT_ONCE) return;
      waiting.delete(uid);
      asking.add(uid);
      void ask(uid);
    }
  }
  async function ask(uid: string): Promise<void> {
    const asOfMs = clock.monoMs();
    const answer = heardOf(await Promise.all(addressesOf(uid).map((address) => handshake(clock, address))));
    answers.set(
      uid,
      ifKnown(answer, (value) => known({ value, asOfMs })),
    );
    asking.delete(uid);
    arrived();
    next();
  }
  return {
    ask: (uids) => {
      for (const uid of uids) if (!asking.has(uid)) waiting.add(uid);
      next();
    },
    of: (uid) => answers.get(uid) ?? NOT_ASKED,
    keepOnly: (uids) => {
      for (const uid of answers.keys()) if (!uids.has(uid)) answers.delete(uid);
    },
  };
}

/** One machine at several addresses: whoever answers at any of them runs, and one that cannot be tried says nothing. */
function heardOf(answers: readonly Reading<Witness>[]): Reading<Witness> {
  const said = answers.flatMap((answer) => (answer.known ? [answer.value] : []));
  const loudest = LOUDEST_FIRST.find((witness) => said.includes(witness));
  return loudest === undefined ? (answers[0] ?? NO_ADDRESS) : known(loudest);
}
const LOUDEST_FIRST: readonly Witness[] = ['answers', 'refused', 'silent'];

/**
 * TLS without credentials, and nothing said. `refused`: its kernel answers that nobody listens. `silent`: no whole handshake
 * in time, as that of a machine that is off, cut off or frozen.
 */
export function handshake(clock: Clock, { host, port }: KubeletAddress): Promise<Reading<Witness>> {
  const where = `${host}:${port}`;
  // A name would be asked for elsewhere, and a node chooses what its Node says.
  if (isIP(host) === 0 || !Number.isInteger(port) || port < 1 || port > 65_535) {
    return Promise.resolve(unknown('malformed', 'kubelet', 'its Node names an InternalIP or a port that is none'));
  }
  return new Promise((resolve) => {
    // Whom it presents is of no matter: nothing is told to it, and whoever answers there keeps the node from being fenced.
    const socket = connect({ host, port, rejectUnauthorized: false });
    const end = (answer: Reading<Witness>): void => {
      cancel();
      resolve(answer);
      socket.destroy();
    };
    let cancel = (): void => undefined;
    const listen = (ticks: number): void => {
      cancel = clock.after(TICK_MS, () => (ticks > 1 ? listen(ticks - 1) : end(known('silent'))));
    };
    listen(TICKS);
    socket.once('secureConnect', () => end(known('answers')));
    socket.on('error', (cause) => end(answerIn(cause, where)));
  });
}

const SAID: { readonly [code: string]: Witness } = {
  ECONNREFUSED: 'refused',
  // It let us in and hung up: its kernel runs.
  ECONNRESET: 'refused',
  ETIMEDOUT: 'silent',
  EHOSTUNREACH: 'silent',
  EHOSTDOWN: 'silent',
  // Something answers there, if not in TLS as we speak it: against acting.
  EPROTO: 'answers',
};

function answerIn(cause: unknown, where: string): Reading<Witness> {
  const code = codeOf(cause) ?? '';
  const said = code.startsWith('ERR_SSL') ? 'answers' : SAID[code];
  // Of this machine, as without a route: it says nothing about the other one.
  return said === undefined ? unknown('unreadable', where, sayCause(cause)) : known(said);
}
