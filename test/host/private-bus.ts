import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Message, type MessageBus, MessageType, sessionBus } from 'dbus-next';
import { createClock, sleep } from '../../src/host/clock.ts';

const clock = createClock();
export const hasDbusDaemon = ['/usr/bin/dbus-daemon', '/bin/dbus-daemon'].some((path) => existsSync(path));
/** Why tests cannot run here that need a dbus-daemon too; '' = they can. */
export const orDbusDaemon = (needs: string): string => (needs !== '' || hasDbusDaemon ? needs : '[needs dbus-daemon]');

export type PrivateBus = {
  readonly env: NodeJS.ProcessEnv;
  readonly address: string;
  readonly start: () => Promise<void>;
  /** SIGKILL: as a crash. */
  readonly kill: () => Promise<void>;
  readonly pause: () => void;
  readonly remove: () => Promise<void>;
};

/** A real dbus-daemon on a socket of its own, with the rights of a system bus as far as these tests need them. */
export async function openPrivateBus(limits = ''): Promise<PrivateBus> {
  const directory = mkdtempSync(join(tmpdir(), 'nodewarden-bus-'));
  const socket = join(directory, 'socket');
  const config = join(directory, 'bus.conf');
  writeFileSync(
    config,
    `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path=${socket}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>
${limits}</busconfig>`,
  );
  let daemon: ChildProcess | null = null;
  const start = async (): Promise<void> => {
    rmSync(socket, { force: true });
    daemon = spawn('dbus-daemon', ['--config-file', config, '--nofork', '--nopidfile'], { stdio: 'ignore' });
    // The file is there before anybody listens.
    while (!(await answers(socket))) await sleep(clock, 5);
  };
  const kill = async (): Promise<void> => {
    const running = daemon;
    if (running === null) return;
    daemon = null;
    await new Promise((resolve) => {
      running.once('exit', resolve);
      running.kill('SIGKILL');
    });
  };
  await start();
  const address = `unix:path=${socket}`;
  return {
    env: { DBUS_SYSTEM_BUS_ADDRESS: address },
    address,
    start,
    kill,
    pause: () => void daemon?.kill('SIGSTOP'),
    remove: async () => {
      await kill();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

export type Answer = { readonly signature: string; readonly body: unknown[] } | { readonly error: string } | 'silence';
function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.on('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', () => resolve(false));
  });
}

type Signal = {
  readonly path: string;
  readonly iface: string;
  readonly member: string;
  readonly signature: string;
  readonly body: unknown[];
};
type Call = { readonly member: string; readonly path: string; readonly body: unknown[]; readonly sender: string };
export type Service = {
  readonly calls: Call[];
  /** To everybody who has a match rule, or past all rules to one connection. */
  readonly signal: (signal: Signal, to?: string) => void;
  readonly close: () => void;
};

/** A small real service under a well-known name (or none): each call is answered by `answer`. */
export async function openService(
  address: string,
  name: string | null,
  answer: (member: string, path: string, body: unknown[]) => Answer,
): Promise<Service> {
  const bus: MessageBus = sessionBus({ busAddress: address });
  bus.on('error', () => undefined);
  await new Promise<void>((resolve) => bus.on('connect', resolve));
  const calls: Call[] = [];
  let isClosed = false;
  bus.addMethodHandler((message: Message) => {
    if (message.type !== MessageType.METHOD_CALL) return false;
    const { member, path, body, sender } = message;
    calls.push({ member, path, body, sender });
    const given = answer(member, path, body);
    if (given === 'silence' || isClosed) return true;
    // The package's own type wants text where the code wants the message.
    const reply =
      'error' in given
        ? Reflect.apply(Message.newError, Message, [message, given.error, 'as the test wants it'])
        : Message.newMethodReturn(message, given.signature, given.body);
    try {
      bus.send(reply);
    } catch {
      // The bus was ended with questions on their way: the package would answer that this failed, where nobody can catch it.
    }
    return true;
  });
  if (name !== null) await bus.requestName(name, 0);
  return {
    calls,
    signal: ({ path, iface, member, signature, body }, to) => {
      const message = Message.newSignal(path, iface, member, signature, body);
      if (to !== undefined) message.destination = to;
      bus.send(message);
    },
    close: () => {
      isClosed = true;
      bus.disconnect();
    },
  };
}

export async function until(what: () => boolean, ms = 60_000): Promise<void> {
  const endsMs = clock.monoMs() + ms;
  while (!what()) {
    if (clock.monoMs() > endsMs) throw new Error('it did not happen in time');
    await sleep(clock, 5);
  }
}
